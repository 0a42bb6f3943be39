"""One fold of a cross-validation: its rows may lack classes, and its scores know of all of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from inspect import signature
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from majorant._checks import Array
from majorant.estimators.logistic import LogisticRegression
from majorant.estimators.settings import take_rows
from majorant.estimators.tensors import is_tensor, to_array


@dataclass(frozen=True)
class Rows:
    """Rows with their labels, weights and offsets, and all classes that there are."""

    X: Any
    y: Array
    weight: Array | None
    offset: Array | None
    classes: Array

    def take(self, some: Array) -> Rows:
        """Return some of the rows."""
        X, y, weight, offset = take_rows(some, self.X, self.y, self.weight, self.offset)
        return Rows(X, y, weight, offset, self.classes)

    @property
    def present(self) -> Array:
        """Which of the classes have rows that count."""
        return np.isin(self.classes, self.y if self.weight is None else self.y[self.weight > 0])


def fit_rows(model: LogisticRegression, rows: Rows) -> None:
    """Fit a model of all classes, whichever of them have rows here."""
    if rows.present.all():
        model.fit(rows.X, rows.y, rows.weight, rows.offset)
        return
    one_hot = (rows.y[:, None] == rows.classes).astype(np.float64)
    with warnings.catch_warnings():
        # The intercept of a class without rows has no optimum to get to.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit_soft(rows.X, one_hot, rows.weight, rows.offset, rows.classes)


class Shifted(LogisticRegression):
    """A fitted model whose scores have an offset added that whoever asks for predictions does not know of."""

    _offset: Array

    @classmethod
    def of(cls, model: LogisticRegression, offset: Array) -> Self:
        """Return the model with an offset."""
        shifted = cls()
        shifted.__dict__.update(model.__dict__, _offset=offset)
        return shifted

    def decision_function(self, X: Any, offset: Any = None) -> Array:
        """Return the scores of the rows that the offset is of."""
        return super().decision_function(X, self._offset)


class Brought(LogisticRegression):
    """A fitted model whose scores of tensors are arrays, which scorers understand."""

    def decision_function(self, X: Any, offset: Any = None) -> Array:
        """Return the scores here."""
        return np.asarray(to_array(super().decision_function(X, offset)))

    @classmethod
    def of(cls, model: LogisticRegression) -> Self:
        """Return the model with scores that are arrays."""
        brought = cls()
        brought.__dict__.update(model.__dict__)
        return brought


def score_rows(scorer: Any, model: LogisticRegression, rows: Rows, params: Mapping[str, Any]) -> float:
    """Return the score of a model on rows that it has not seen."""
    scored = model if rows.offset is None else Shifted.of(model, rows.offset)
    scored = Brought.of(scored) if is_tensor(rows.X) else scored
    return float(scorer(scored, rows.X, rows.y, **params))


def knowing(scorer: Any, classes: Array) -> Any:
    """Return a scorer that is told all classes, if it can be: the labels of a fold may lack some."""
    accepted = signature(scorer._score_func).parameters if hasattr(scorer, "_score_func") else {}
    if "labels" not in accepted:
        return scorer
    told = {"labels": classes}
    if len(classes) == 2 and "pos_label" in accepted:
        told["pos_label"] = classes[-1]
    informed = copy(scorer)
    informed._kwargs = told | getattr(scorer, "_kwargs", {})
    return informed
