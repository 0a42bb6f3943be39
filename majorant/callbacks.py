"""Callbacks of the estimators, called at the start of a fit, at every step and at its end; a true result stops the fit.

Any function of a row of the trace and θ is a callback of an estimator and of :func:`majorant.minimize`. One that
derives from :class:`Callback` also receives the model, and may choose the parameters that the fit returns.
:class:`ProgressLine` and :class:`PassLine` rewrite a line of the terminal.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from majorant.core.checks import Array, whole
from majorant.core.files import remove_leftovers
from majorant.core.model import Model
from majorant.core.result import Fitted, Outcome, Progress, Result

# Back to the start of the line, and nothing on it.
ERASE = "\r\x1b[2K"
# Seconds between updates of a line.
EVERY = 0.2


class Line:
    """The last line of a terminal; rich, if it is installed, cuts what would wrap, for that cannot be rewritten.

    Parameters
    ----------
    stream : file
        A terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._console = stream, None
        with suppress(ImportError):
            from rich.console import Console

            self._console = Console(file=stream)

    def write(self, text: str) -> None:
        """Let the line say something else."""
        if self._console is None:
            self._stream.write(f"{ERASE}{text}")
        else:
            self._stream.write(ERASE)
            self._console.print(text, end="", no_wrap=True, overflow="ellipsis", markup=False)
        self._stream.flush()

    def finish(self, text: str = "") -> None:
        """Say the last, whole and with the end of the line; or leave nothing."""
        self._stream.write(f"{ERASE}{text}\n" if text else ERASE)
        self._stream.flush()


@dataclass(frozen=True, eq=False)
class Fit:
    """A fit that has begun: its model, how it reads more data like its own, and how it is written to a file."""

    model: Model[Any]
    read: Callable[[Any, Any], Any]
    save: Callable[[str | Path, Fitted, Progress | None], None]


class Callback:
    """Base class of callbacks of a fit; each method is optional."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings and what was found; what belongs to a fit that is going on is not copied."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def start(self, fit: Fit) -> None:
        """Begin to follow a fit."""

    def follow(self, progress: Callable[[], Progress]) -> None:
        """Take a function that says at any time how far the fit has come, from where another one can go on."""

    def memory(self) -> Any:
        """Return the state of the callback for a fit that goes on: numbers, strings, arrays."""
        return None

    def recall(self, memory: Any) -> None:
        """Go on from what was found before the fit was interrupted, after :meth:`start`."""

    def __call__(self, row: Mapping[str, float], theta: Array) -> bool:
        """Look at a step; return whether to stop."""
        return False

    def preferred(self) -> tuple[Array, int] | None:
        """Return parameters that should be kept instead of the last ones, and the step they are from, if there are."""
        return None

    def finish(self, fitted: Fitted) -> None:
        """Take note of how the fit ended."""


def _require_a_fit(callback: Callback) -> None:
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
    >>> model = majorant.LogisticRegression(C=1e6, solver="scipy-lbfgs", callbacks=[stopping]).fit(X[train], y[train])
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
        """Read the validation data as the estimator reads its own."""
        whole("patience", self.patience, least=1)
        self.best_score, self.best_step, self.best_params = -np.inf, -1, None
        self._model, self._data = fit.model, fit.read(self.X_val, self.y_val)
        self._model.check(self._data)

    def __call__(self, row: Mapping[str, float], theta: Array) -> bool:
        """Return whether patience has run out."""
        _require_a_fit(self)
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
        """Remember what is fitted, and remove what a fit has left that was killed while it saved."""
        folder = Path(self.path).resolve().parent
        if not folder.is_dir():
            raise FileNotFoundError(f"path must be in a folder that exists, got {self.path}; make {folder} first")
        remove_leftovers(self.path)
        self._fit, self._last, self._took = fit, -np.inf, 0.0
        self._progress: Callable[[], Progress] | None = None
        self._said = False

    def follow(self, progress: Callable[[], Progress]) -> None:
        """Remember whom to ask."""
        _require_a_fit(self)
        self._progress = progress

    def __call__(self, row: Mapping[str, float], theta: Array) -> bool:
        """Save if it is time."""
        _require_a_fit(self)
        began = time.monotonic()
        if began - self._last >= (max(self.every, 10 * self._took) if self.every else 0.0):
            sentence = f"saved at step {row['step']:.0f} of a fit that went on"
            self._save(Fitted(theta, Result(Outcome.STOPPED, sentence, row["gap"]), int(row["step"]), {}))
            self._last = time.monotonic()
            self._took = self._last - began
        return False

    def finish(self, fitted: Fitted) -> None:
        self._save(fitted)

    def _save(self, fitted: Fitted) -> None:
        try:
            self._fit.save(self.path, fitted, None if self._progress is None else self._progress())
        except OSError as problem:
            if not self._said:
                why = problem.strerror or str(problem)
                warnings.warn(f"the checkpoint {self.path} was not written ({why}); the fit goes on", stacklevel=2)
            self._said = True


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
        self._last = -np.inf
        self._file = sys.stderr if self.stream is None else self.stream
        self._line = Line(self._file) if self._file.isatty() else None

    def __call__(self, row: Mapping[str, float], theta: Array) -> bool:
        """Write the line if it is time."""
        _require_a_fit(self)
        if time.monotonic() - self._last >= self.every:
            self._last = time.monotonic()
            self._write(
                f"step {row['step']:.0f}  passes {row['passes']:.1f}  objective {row['objective']:.8g}  "
                f"gradient {row['gradient_norm']:.1e}  {row['seconds']:.1f} s"
            )
        return False

    def finish(self, fitted: Fitted) -> None:
        """Write the last line, or take the line away."""
        last = "" if self.transient else str(fitted.result)
        if self._line is not None:
            self._line.finish(last)
        elif last:
            self._write(last)

    def _write(self, text: str) -> None:
        if self._line is not None:
            self._line.write(text)
        else:
            self._file.write(f"{text}\n")
            self._file.flush()


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
        """Whether there is a terminal to show the line."""
        return self._line is not None

    def end(self, last: str = "") -> None:
        """Remove the line, or replace it by a last sentence."""
        if self._line is not None:
            self._line.finish(last)

    def finish(self, fitted: Fitted) -> None:
        self.end(str(fitted.result))

    def text(self, now: float) -> str:
        """Return the text of the line at a time."""
        seconds = max(now - self._began, 1e-9)
        if self.total is None:
            return f"{self.title}: {self.rows:,} rows  {self.rows / seconds:,.0f} rows/s"
        passes, done = divmod(self.rows, self.total)
        if not done:  # between two passes, or rows are read elsewhere
            return f"{self.title}{self._found}"
        where, timed = f"{self.title}, pass {passes + 1}: {done / self.total:.0%}", done - self._untimed
        if timed <= 0:
            return f"{where}{self._found}"
        left = (self.total - done) * seconds / timed
        return f"{where}  {timed / seconds:,.0f} rows/s  {left:.0f} s left{self._found}"

    def _show(self) -> None:
        now = time.monotonic()
        if self._line is not None and now - self._last >= EVERY:
            self._last = now
            self._line.write(self.text(now))
