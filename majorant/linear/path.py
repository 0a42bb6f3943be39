"""One fold of a cross-validation: its rows may lack classes, and its scores know of all of them.

A warm-started path of logistic regressions over a grid of C.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from inspect import signature
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from majorant.core.checks import Array
from majorant.core.result import table
from majorant.device.estimators import is_tensor, to_array
from majorant.estimators.base import take_rows
from majorant.estimators.fitting import ONE_AFTER_THE_OTHER
from majorant.estimators.source import Sweep, fit_together, refuse_beside
from majorant.linear.logistic import LogisticRegression
from majorant.sources.base import Source


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


class RegularizationPath(NamedTuple):
    """What :func:`logistic_regression_path` found, one entry per C, in the order in which they were given.

    ``classes`` are those of the rows of each of ``coefs``: two classes share one row, which speaks for the second.
    """

    Cs: Array
    coefs: Array
    intercepts: Array
    n_iter: Array
    gaps: Array
    classes: Array

    def _repr_html_(self) -> str:
        rows = zip(self.Cs, self.n_iter, self.gaps, strict=True)
        return table(("C", "steps", "gap"), [(f"{C:.4g}", str(int(n)), f"{gap:.2g}") for C, n, gap in rows])


def read_grid(Cs: Any) -> Array:
    """Return the grid: so many points between 10⁻⁴ and 10⁴, or the points themselves, as they are given."""
    if is_count(Cs):
        return np.logspace(-4, 4, int(Cs))
    try:
        grid = np.asarray(Cs, dtype=np.float64)
    except (TypeError, ValueError):
        grid = np.zeros(0)
    if grid.ndim != 1 or len(grid) == 0 or not (grid > 0).all():
        raise ValueError(f"Cs must be a whole number of points or a list of positive numbers, got {Cs!r}")
    return grid


def is_count(Cs: Any) -> bool:
    """Return whether a grid is given by how many points it has."""
    return isinstance(Cs, int | np.integer) and not isinstance(Cs, bool) and bool(Cs > 0)


def check_grid(Cs: Any) -> None:
    """Raise unless this is a grid, without writing it out."""
    if not is_count(Cs):
        read_grid(Cs)


def logistic_regression_path(
    X: Any, y: Any = None, *, Cs: Any = 10, sample_weight: Any = None, offset: Any = None, **settings: Any
) -> RegularizationPath:
    """Fit for every C of a grid, from the smallest on, each with what the one before has learnt of the data.

    Parameters
    ----------
    X, y, sample_weight, offset
        As in :meth:`LogisticRegression.fit`.
    Cs : int or list
        The grid, or how many points of it between 10⁻⁴ and 10⁴.
    **settings
        Those of :class:`LogisticRegression`, other than C and ``warm_start``.

    Returns
    -------
    RegularizationPath
        A tuple of ``Cs`` (k,), as given; ``coefs`` (k, rows, n_features); ``intercepts`` (k, rows); ``n_iter`` (k,);
        ``gaps`` (k,), the certified ``gap_`` of each fit; and ``classes``.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> path = majorant.logistic_regression_path(X[:, :-1], y, Cs=[0.1, 1.0, 10.0])
    >>> path.coefs.shape, path.intercepts.shape, bool((path.gaps <= 1e-8).all())
    ((3, 8, 7), (3, 8), True)
    """
    for name in {"C", "warm_start"} & set(settings):
        raise ValueError(f"{name} is what a path sets itself, got {name}={settings[name]!r}; pass Cs")
    grid = read_grid(Cs)
    found: dict[int, tuple[Any, ...]] = {}
    for k, model in walk_rows(grid, settings, X, y, sample_weight, offset):
        found[k] = (model.coef_, model.intercept_, model.n_iter_[0], model.gap_)
    coefs, intercepts, steps, gaps = zip(*(found[k] for k in range(len(grid))), strict=True)
    return RegularizationPath(
        grid, np.stack(coefs), np.stack(intercepts), np.array(steps), np.array(gaps), model.classes_
    )


def walk_rows(
    grid: Array, settings: dict[str, Any], X: Any, y: Any, sample_weight: Any = None, offset: Any = None
) -> Iterator[tuple[int, LogisticRegression]]:
    """Yield where each C is in the grid and a model fitted for it: in turn, or, where rows are read, together."""
    if isinstance(X, Source) and settings.get("solver", "auto") not in ONE_AFTER_THE_OTHER:
        refuse_beside(y=y, sample_weight=sample_weight, offset=offset)
        return fit_together(X, [LogisticRegression(**settings, C=float(C)) for C in grid])
    return walk(grid, settings, lambda model: model.fit(X, y, sample_weight, offset))


def walk(
    grid: Array, settings: dict[str, Any], fit: Callable[[LogisticRegression], Any]
) -> Iterator[tuple[int, LogisticRegression]]:
    """Yield where each C is in the grid and a model fitted for it: ascending, each going on from the one before."""
    sweep = Sweep()
    for k in np.argsort(grid, kind="stable"):
        model = LogisticRegression(**{**settings, "C": float(grid[k]), "warm_start": True})
        model._sweep = sweep
        fit(model)
        del model._sweep
        yield int(k), model
