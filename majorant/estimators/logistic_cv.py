"""Choosing C: a warm-started path over a grid, scored by cross-validation."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from majorant._checks import Array
from majorant._solution import Outcome, Result
from majorant.estimators.linear import LinearClassifier
from majorant.estimators.logistic import LogisticRegression

# Settings handed on to the fits, and what the last of them found.
SHARED = (
    "l1_ratio",
    "fit_intercept",
    "penalize_intercept",
    "class_weight",
    "solver",
    "tol",
    "max_iter",
    "shuffle",
    "random_state",
    "n_jobs",
    "verbose",
    "feature_penalty",
)
FITTED = ("coef_", "intercept_", "n_iter_", "gap_", "trace_", "result_", "_objective", "_solution")


def read_grid(Cs: Any) -> Array:
    """Return the grid, ascending: a number of points between 10⁻⁴ and 10⁴, or the points themselves."""
    grid = np.logspace(-4, 4, Cs) if isinstance(Cs, int | np.integer) else np.sort(np.asarray(Cs, dtype=float))
    if grid.ndim != 1 or len(grid) == 0 or not (grid > 0).all():
        raise ValueError(f"Cs must be a number of points or a list of positive numbers, got {Cs!r}")
    return grid


def logistic_regression_path(
    X: Any, y: Any, *, Cs: Any = 10, sample_weight: Any = None, offset: Any = None, **settings: Any
) -> tuple[Array, Array, Array, list[int]]:
    """Fit for every C of a grid, each from the solution before.

    Parameters
    ----------
    X, y, sample_weight, offset
        As in :meth:`LogisticRegression.fit`.
    Cs : int or list
        The grid, or how many points of it between 10⁻⁴ and 10⁴.
    **settings
        Those of :class:`LogisticRegression`.

    Returns
    -------
    Cs : array of shape (k,)
        Ascending.
    coefs : array of shape (k, rows, n_features)
    intercepts : array of shape (k, rows)
    n_iter : list of int

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> Cs, coefs, intercepts, n_iter = majorant.logistic_regression_path(X[:, :-1], y, Cs=[0.1, 1.0, 10.0])
    >>> coefs.shape, intercepts.shape
    ((3, 8, 7), (3, 8))
    """
    models = fit_path(read_grid(Cs), settings, X, y, sample_weight=sample_weight, offset=offset)
    return (
        read_grid(Cs),
        np.stack([model.coef_ for model in models]),
        np.stack([model.intercept_ for model in models]),
        [model.n_iter_ for model in models],
    )


def fit_path(grid: Array, settings: dict[str, Any], X: Any, y: Any, **rows: Any) -> list[LogisticRegression]:
    """Return a fitted model for each C, each started from the one before."""
    models: list[LogisticRegression] = []
    for C in grid:
        model = LogisticRegression(**{**settings, "C": float(C), "warm_start": True})
        if models:
            model.coef_, model.intercept_ = models[-1].coef_, models[-1].intercept_
        models.append(model.fit(X, y, **rows))
    return models


class LogisticRegressionCV(LinearClassifier):
    """:class:`LogisticRegression` with C chosen by cross-validation.

    Parameters
    ----------
    Cs : int or list
        The grid, or how many points of it between 10⁻⁴ and 10⁴.
    cv : int or splitter, optional
        Stratified folds, five by default.
    scoring : str or callable, optional
        Accuracy by default.
    refit : bool
        Whether to fit all rows with the best C; otherwise the coefficients of the folds are averaged.

    All other parameters are those of :class:`LogisticRegression`.

    Attributes
    ----------
    C_ : float
        The best C: the smallest of those with the best mean score.
    Cs_ : array
        The grid.
    scores_ : array of shape (folds, len(Cs_))

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> common = y != 3  # a class with two rows cannot be in every fold
    >>> model = majorant.LogisticRegressionCV(Cs=[0.1, 1.0, 10.0], cv=2).fit(X[common], y[common])
    >>> model.scores_.shape, model.C_ in (0.1, 1.0, 10.0)
    ((2, 3), True)
    """

    def __init__(
        self,
        *,
        Cs: Any = 10,
        cv: Any = None,
        scoring: Any = None,
        refit: bool = True,
        l1_ratio: float = 0.0,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        class_weight: Any = None,
        solver: str = "auto",
        tol: float = 1e-8,
        max_iter: int = 1000,
        shuffle: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        feature_penalty: Any = None,
    ) -> None:
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.feature_penalty = feature_penalty

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose C by cross-validation, then fit all rows."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C")
        check_classification_targets(y)
        self.Cs_, self.classes_ = read_grid(self.Cs), np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(f"y must hold at least two classes, got only one class: {self.classes_.tolist()[0]!r}")
        settings = {name: getattr(self, name) for name in SHARED}
        rows = {"sample_weight": sample_weight}
        folds = list(check_cv(self.cv, y, classifier=True).split(X, y))
        paths = [fit_path(self.Cs_, settings, X[train], y[train], **_take(rows, train)) for train, _ in folds]
        scorer = check_scoring(paths[0][0], scoring=self.scoring)
        self.scores_ = np.array(
            [[scorer(m, X[test], y[test]) for m in path] for path, (_, test) in zip(paths, folds, strict=True)]
        )
        best = int(np.argmax(self.scores_.mean(axis=0)))
        self.C_ = float(self.Cs_[best])
        if self.refit:
            self._adopt(LogisticRegression(**settings, C=self.C_).fit(X, y, **rows))
        else:
            self._average([path[best] for path in paths])
        return self

    def _adopt(self, model: LogisticRegression) -> None:
        for name in FITTED:
            setattr(self, name, getattr(model, name))

    def _average(self, models: list[LogisticRegression]) -> None:
        self.coef_ = np.mean([model.coef_ for model in models], axis=0)
        self.intercept_ = np.mean([model.intercept_ for model in models], axis=0)
        self.n_iter_, self.gap_ = max(model.n_iter_ for model in models), float("nan")
        self.result_ = Result(Outcome.STOPPED, "the average of the folds; nothing certifies it", float("nan"))


def _take(rows: dict[str, Any], some: Array) -> dict[str, Any]:
    return {name: None if value is None else np.asarray(value)[some] for name, value in rows.items()}
