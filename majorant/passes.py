"""How far passes over files have come, on a line of the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TextIO

from majorant._checks import Array
from majorant._solution import Fitted
from majorant._terminal import Line
from majorant.callbacks import Callback

# Seconds between updates.
EVERY = 0.2


class PassLine(Callback):
    """Told of rows as they are read: how many a second, how long the pass will take, and what the last step found.

    Where nobody looks it says nothing.

    Parameters
    ----------
    stream : file, optional
        Standard error if not given.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.title = ""
        self.total: int | None = None  # rows of a pass, once that is known
        self._line = Line(self.stream) if self.stream is not None and self.stream.isatty() else None
        self.rows = 0  # of this pass, and of those like it
        self._untimed, self._began, self._last, self._found = 0, time.monotonic(), 0.0, ""

    def watch(self, rows: int) -> None:
        """Take note of so many more rows."""
        if self.total is not None and self.rows % self.total == 0:  # before the first of a pass others worked
            self._began, self._untimed = time.monotonic(), rows
        self.rows += rows
        self._show()

    def begin(self, title: str, total: int | None = None) -> None:
        """Go through all rows anew, of which one may know how many there are."""
        self.title, self.total = title, total
        self.rows, self._untimed, self._began = 0, 0, time.monotonic()

    def __call__(self, row: Mapping[str, float], theta: Array) -> bool:
        """Remember what a step has found."""
        self._found = f"  step {row['step']:.0f}  objective {row['objective']:.8g}  gradient {row['gradient_norm']:.1e}"
        self._show()
        return False

    @property
    def is_seen(self) -> bool:
        """Whether a person looks at the line."""
        return self._line is not None

    def end(self, last: str = "") -> None:
        """Take the line away, or leave a last word in its place."""
        if self._line is not None:
            self._line.finish(last)

    def finish(self, fitted: Fitted) -> None:
        """Say how a fit has ended."""
        self.end(str(fitted.result))

    def text(self, now: float) -> str:
        """Return what the line says at a time."""
        seconds = max(now - self._began, 1e-9)
        if self.total is None:
            return f"{self.title}: {self.rows:,} rows  {self.rows / seconds:,.0f} rows/s"
        passes, here = divmod(self.rows, self.total)
        if not here:  # between two passes, or rows are read elsewhere
            return f"{self.title}{self._found}"
        where, timed = f"{self.title}, pass {passes + 1}: {here / self.total:.0%}", here - self._untimed
        if timed <= 0:
            return f"{where}{self._found}"
        left = (self.total - here) * seconds / timed
        return f"{where}  {timed / seconds:,.0f} rows/s  {left:.0f} s left{self._found}"

    def _show(self) -> None:
        now = time.monotonic()
        if self._line is not None and now - self._last >= EVERY:
            self._last = now
            self._line.write(self.text(now))
