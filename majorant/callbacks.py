"""Callbacks of the estimators: told when a fit starts, shown every step, told when it ends; a true answer stops it.

Any function of a row of the trace and θ will do, here and in :func:`majorant.minimize`; one that derives from
:class:`Callback` also learns what is fitted, and may say which parameters are to be kept.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from majorant._checks import Array, whole
from majorant._solution import Fitted, Outcome, Result
from majorant._terminal import Line
from majorant.models import Model


@dataclass(frozen=True, eq=False)
class Fit:
    """A fit that has begun: its model, how it reads more data like its own, and how it is written to a file."""

    model: Model[Any]
    read: Callable[[Any, Any], Any]
    save: Callable[[str | Path, Fitted], None]


class Callback:
    """What follows a fit. Everything may be left out."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings and what was found; what belongs to a fit that is going on is not copied."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def start(self, fit: Fit) -> None:
        """Begin to follow a fit."""

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

    def preferred(self) -> tuple[Array, int] | None:
        """Return the parameters that did best."""
        return None if self.best_params is None else (self.best_params, int(self.best_step))


@dataclass
class Checkpoint(Callback):
    """Save the model every so many seconds, so that a killed fit has lost little, and at the end.

    Parameters
    ----------
    path : str or Path
        Where to save; the ``load`` of the estimator reads it. It is replaced only once written whole.
    every : float
        Seconds between saves; 0 saves at each step.
    """

    path: str | Path
    every: float = 30.0

    def start(self, fit: Fit) -> None:
        """Remember what is fitted."""
        self._fit, self._last = fit, -np.inf

    def __call__(self, row: Mapping[str, float], theta: Array) -> bool:
        """Save if it is time."""
        _require_a_fit(self)
        if time.monotonic() - self._last >= self.every:
            sentence = f"saved at step {row['step']:.0f} of a fit that went on"
            result = Result(Outcome.STOPPED, sentence, row["gap"])
            self._fit.save(self.path, Fitted(theta, result, int(row["step"]), {}))
            self._last = time.monotonic()
        return False

    def finish(self, fitted: Fitted) -> None:
        """Save the model as it ended."""
        self._fit.save(self.path, fitted)


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
    every: float = 0.2
    transient: bool = False

    def start(self, fit: Fit) -> None:
        """Begin."""
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
