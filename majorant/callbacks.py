"""Callbacks of the estimators: told when a fit starts, shown every step, told when it ends; a true answer stops it.

Any function of a row of the trace and θ will do, here and in :func:`majorant.minimize`; one that derives from
:class:`Callback` also learns what is fitted, and may say which parameters the fit should return.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from majorant.core.checks import Array, whole
from majorant.core.files import remove_leftovers
from majorant.core.model import Model
from majorant.core.result import Fitted, Outcome, Progress, Result

# Back to the start of the line of a terminal, with nothing on it.
ERASE = "\r\x1b[2K"
# Seconds between updates of a line.
EVERY = 0.2


@dataclass(frozen=True, eq=False)
class Fit:
    """A fit that has begun: its model, how it reads more data like its own, and how it is written to a file."""

    model: Model[Any]
    read: Callable[[Any, Any], Any]
    save: Callable[[str | Path, Fitted, Progress | None], None]


class Callback:
    """A follower of a fit. A subclass defines the methods that it needs."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings and the findings; attributes with an underscore belong to a running fit."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def start(self, fit: Fit) -> None:
        """Begin to follow a fit."""

    def follow(self, progress: Callable[[], Progress]) -> None:
        """Take a function that returns the state of the fit at any time, from which another one can go on."""

    def memory(self) -> Any:
        """Return the findings so far that a resumed fit should know: numbers, strings, arrays."""
        return None

    def recall(self, memory: Any) -> None:
        """Go on from what :meth:`memory` returned before the fit was interrupted; called after :meth:`start`."""

    def __call__(self, row: Mapping[str, float], theta: Array) -> bool:
        """Return whether to stop after this step."""
        return False

    def preferred(self) -> tuple[Array, int] | None:
        """Return parameters to keep instead of the last ones and the step that they are from; None keeps the last."""
        return None

    def finish(self, fitted: Fitted) -> None:
        """Take note of how the fit ended."""


def _require_start(callback: Callback) -> None:
    if not any(name.startswith("_") for name in vars(callback)):
        raise TypeError(f"{type(callback).__name__} follows the fit of an estimator: pass it to callbacks=[…] of one")


@dataclass
class EarlyStopping(Callback):
    """Stop when the log-likelihood of validation data has not improved for a while.

    The parameters of the fit are then those that did best on the validation data.

    Parameters
    ----------
    X_val, y_val : arrays
        Data that are not trained on; labels as given to ``fit``.
    patience : int
        Steps without improvement before stopping.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> train = np.arange(len(y)) % 3 > 0
    >>> stopping = majorant.EarlyStopping(X[~train], y[~train], patience=2)
    >>> model = majorant.LogisticRegression(C=1e6, solver="lbfgs", callbacks=[stopping]).fit(X[train], y[train])
    >>> model.result_.outcome.value
    'stopped'
    """

    X_val: Any
    y_val: Any
    patience: int = 5
    best_score: float = field(default=-np.inf, init=False)
    best_step: float = field(default=-1, init=False)
    best_params: Array | None = field(default=None, init=False)

    def start(self, fit: Fit) -> None:
        whole("patience", self.patience, least=1)
        self.best_score, self.best_step, self.best_params = -np.inf, -1, None
        self._model, self._data = fit.model, fit.read(self.X_val, self.y_val)
        self._model.check(self._data)

    def __call__(self, row: Mapping[str, float], theta: Array) -> bool:
        """Return whether patience has run out."""
        _require_start(self)
        model, data = self._model, self._data
        score = -model.loss(model.scores(theta, data), data) / model.n_observations(data)
        if score > self.best_score:
            self.best_score, self.best_step, self.best_params = score, row["step"], theta.copy()
        return row["step"] - self.best_step >= self.patience

    def memory(self) -> Any:
        return self.best_score, self.best_step, self.best_params

    def recall(self, memory: Any) -> None:
        self.best_score, self.best_step, self.best_params = memory

    def preferred(self) -> tuple[Array, int] | None:
        return None if self.best_params is None else (self.best_params, int(self.best_step))


@dataclass
class Checkpoint(Callback):
    """Save the model, and how far the fit has come, every so many seconds and at the end.

    A fit that was killed goes on with ``fit(…, resume_from=path)`` to the same coefficients, steps and trace, to the
    last bit, as if nothing had happened. ``load`` of the estimator reads the model as it was then. The file holds data
    only, and nothing in it runs when it is read.

    Parameters
    ----------
    path : str or Path
        Where to save. The file is replaced only once another one is written whole.
    every : float
        Seconds between saves, or ten times as many as a save takes if that is more; 0 saves at each step.

    Notes
    -----
    Where a file cannot be written (a full disk, a folder that is gone) a warning says so once, and the fit goes on;
    what was saved before is left as it is. One file is for one fit at a time.

    Scores of the rows, which quasi-Newton steps keep, are in the file up to 16 million of them. More are found again,
    for one pass over the data, and what follows is then the same to rounding errors.

    Examples
    --------
    >>> import tempfile
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> path = Path(tempfile.mkdtemp()) / "fit.npz"
    >>> model = majorant.LogisticRegression(callbacks=[majorant.Checkpoint(path)]).fit(X, y)
    >>> again = majorant.LogisticRegression().fit(X, y, resume_from=path)  # which was done already
    >>> bool((again.coef_ == model.coef_).all())
    True
    """

    path: str | Path
    every: float = 30.0

    def start(self, fit: Fit) -> None:
        folder = Path(self.path).resolve().parent
        if not folder.is_dir():
            raise FileNotFoundError(f"path must be in a folder that exists, got {self.path}; make {folder} first")
        remove_leftovers(self.path)  # of a fit that was killed while it saved
        self._fit, self._last, self._took = fit, -np.inf, 0.0
        self._progress: Callable[[], Progress] | None = None
        self._warned = False

    def follow(self, progress: Callable[[], Progress]) -> None:
        _require_start(self)
        self._progress = progress

    def __call__(self, row: Mapping[str, float], theta: Array) -> bool:
        """Save if it is time, and go on."""
        _require_start(self)
        began = time.monotonic()
        if began - self._last >= (max(self.every, 10 * self._took) if self.every else 0.0):
            sentence = f"saved at step {row['step']:.0f} of a fit that went on"
            self.finish(Fitted(theta, Result(Outcome.STOPPED, sentence, row["gap"]), int(row["step"]), {}))
            self._last = time.monotonic()
            self._took = self._last - began
        return False

    def finish(self, fitted: Fitted) -> None:
        """Save the model."""
        try:
            self._fit.save(self.path, fitted, None if self._progress is None else self._progress())
        except OSError as problem:
            if not self._warned:
                why = problem.strerror or str(problem)
                warnings.warn(f"the checkpoint {self.path} was not written ({why}); the fit goes on", stacklevel=2)
            self._warned = True


class Line:
    """A line of text that changes: rewritten in place on a terminal, written anew each time elsewhere.

    On a terminal rich, if it is installed, cuts text that would wrap, since a wrapped line cannot be rewritten.

    Parameters
    ----------
    stream : file, optional
        Standard error if not given.
    every : float
        Seconds between updates.
    """

    def __init__(self, stream: TextIO | None = None, every: float | None = None) -> None:
        self._stream, self._every = sys.stderr if stream is None else stream, every
        self.is_terminal = self._stream is not None and self._stream.isatty()
        self._last, self._console = -np.inf, None
        if self.is_terminal:
            try:
                from rich.console import Console
            except ImportError:
                return
            self._console = Console(file=self._stream)

    def write(self, text: Callable[[float], str]) -> None:
        """Show the text that a function returns for this time, unless the line has just been updated."""
        now = time.monotonic()
        if now - self._last < (EVERY if self._every is None else self._every):
            return
        self._last = now
        if not self.is_terminal:
            self._stream.write(f"{text(now)}\n")
        elif self._console is None:
            self._stream.write(f"{ERASE}{text(now)}")
        else:
            self._stream.write(ERASE)
            self._console.print(text(now), end="", no_wrap=True, overflow="ellipsis", markup=False)
        self._stream.flush()

    def finish(self, text: str = "") -> None:
        """Write the last text, whole and with the end of the line; without one the line of a terminal vanishes."""
        self._stream.write((ERASE if self.is_terminal else "") + (f"{text}\n" if text else ""))
        self._stream.flush()


@dataclass
class ProgressLine(Callback):
    """A line that says how far a fit has come; on a terminal it is rewritten in place, with rich if that is installed.

    Parameters
    ----------
    stream : file, optional
        Standard error if not given.
    every : float
        Seconds between updates.
    transient : bool
        Whether the line vanishes at the end instead of saying why the fit stopped.
    """

    stream: TextIO | None = None
    every: float = EVERY
    transient: bool = False

    def start(self, fit: Fit) -> None:
        self._line = Line(self.stream, self.every)

    def __call__(self, row: Mapping[str, float], theta: Array) -> bool:
        """Write the line if it is time, and go on."""
        _require_start(self)
        self._line.write(
            lambda now: (
                f"step {row['step']:.0f}  passes {row['passes']:.1f}  objective {row['objective']:.8g}  "
                f"gradient {row['gradient_norm']:.1e}  {row['seconds']:.1f} s"
            )
        )
        return False

    def finish(self, fitted: Fitted) -> None:
        self._line.finish("" if self.transient else str(fitted.result))


class PassLine(Callback):
    """A line that says how fast rows are read, when the pass will end, and how far the last step has come.

    It is shown on terminals alone.

    Parameters
    ----------
    stream : file, optional
        Standard error if not given.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._line = Line(stream)
        self._found = ""
        self.begin("")

    def begin(self, title: str, total: int | None = None) -> None:
        """Begin to read all rows, again and again; ``total`` says how many there are, if that is known."""
        self.title, self.total = title, total
        self.rows, self._untimed, self._began = 0, 0, time.monotonic()

    def watch(self, rows: int) -> None:
        """Take note of rows that have been read."""
        if self.total is not None and self.rows % self.total == 0:  # the time since the last pass was not for reading
            self._began, self._untimed = time.monotonic(), rows
        self.rows += rows
        self._show()

    def __call__(self, row: Mapping[str, float], theta: Array) -> bool:
        """Take note of a step, and go on."""
        self._found = f"  step {row['step']:.0f}  objective {row['objective']:.8g}  gradient {row['gradient_norm']:.1e}"
        self._show()
        return False

    @property
    def is_seen(self) -> bool:
        """Whether the line is on a terminal."""
        return self._line.is_terminal

    def end(self, last: str = "") -> None:
        """Take the line away, or leave a last sentence in its place."""
        if self.is_seen:
            self._line.finish(last)

    def finish(self, fitted: Fitted) -> None:
        self.end(str(fitted.result))

    def _show(self) -> None:
        if self.is_seen:
            self._line.write(self._text)

    def _text(self, now: float) -> str:
        seconds = max(now - self._began, 1e-9)
        if self.total is None:
            return f"{self.title}: {self.rows:,} rows  {self.rows / seconds:,.0f} rows/s"
        passes, here = divmod(self.rows, self.total)
        if not here:  # between two passes, or workers read the rows
            return f"{self.title}{self._found}"
        place, timed = f"{self.title}, pass {passes + 1}: {here / self.total:.0%}", here - self._untimed
        if timed <= 0:
            return f"{place}{self._found}"
        left = (self.total - here) * seconds / timed
        return f"{place}  {timed / seconds:,.0f} rows/s  {left:.0f} s left{self._found}"
