"""Callbacks for :func:`majorant.minimize` and the estimators: called with a row of the trace and θ; True stops.

Those of the estimators are made for one fit by ``start``, which tells them what is fitted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from majorant._checks import Array, whole
from majorant._solution import Outcome, Result
from majorant._terminal import Line
from majorant.data import Labelled
from majorant.models import Model


@dataclass
class EarlyStopping:
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

    def start(self, estimator: Any, model: Model[Any]) -> None:
        """Read the validation data as the estimator reads its own."""
        whole("patience", self.patience, least=1)
        self.best_score, self.best_step, self.best_params = -np.inf, -1, None
        self._model = model
        self._data: Labelled = estimator._read_more(self.X_val, self.y_val)
        model.check(self._data)

    def __call__(self, row: Mapping[str, float], theta: Array) -> bool:
        """Return whether patience has run out."""
        score = -self._model.loss(self._model.scores(theta, self._data), self._data) / len(self._data)
        if score > self.best_score:
            self.best_score, self.best_step, self.best_params = score, row["step"], theta.copy()
        return row["step"] - self.best_step >= self.patience


@dataclass
class Checkpoint:
    """Save the model every so many seconds, so that a killed fit has lost little, and at the end.

    Parameters
    ----------
    path : str or Path
        Where to save; :meth:`majorant.LogisticRegression.load` reads it. It is replaced only once written whole.
    every : float
        Seconds between saves; 0 saves at each step.
    """

    path: str | Path
    every: float = 30.0

    def start(self, estimator: Any, model: Model[Any]) -> None:
        """Remember what is fitted."""
        self._estimator, self._last = estimator, -np.inf

    def __call__(self, row: Mapping[str, float], theta: Array) -> bool:
        """Save if it is time."""
        if time.monotonic() - self._last >= self.every:
            self._estimator._set_params_of_fit(theta)
            self._estimator.n_iter_, self._estimator.gap_ = int(row["step"]), row["gap"]
            sentence = f"saved at step {row['step']:.0f} of a fit that went on"
            self._estimator.result_ = Result(Outcome.STOPPED, sentence, row["gap"])
            self._estimator.save(self.path)
            self._last = time.monotonic()
        return False

    def finish(self, sentence: str) -> None:
        """Save the model as it ended."""
        self._estimator.save(self.path)


@dataclass
class ProgressLine:
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

    def start(self, estimator: Any, model: Model[Any]) -> None:
        """Begin."""
        self._last = -np.inf
        self._file = sys.stderr if self.stream is None else self.stream
        self._line = Line(self._file) if self._file.isatty() else None

    def __call__(self, row: Mapping[str, float], theta: Array) -> bool:
        """Write the line if it is time."""
        if time.monotonic() - self._last >= self.every:
            self._last = time.monotonic()
            self._write(
                f"step {row['step']:.0f}  passes {row['passes']:.1f}  objective {row['objective']:.8g}  "
                f"gradient {row['gradient_norm']:.1e}  {row['seconds']:.1f} s"
            )
        return False

    def finish(self, sentence: str) -> None:
        """Write the last line, or take the line away."""
        last = "" if self.transient else sentence
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
