"""Logistic regressions over a grid of C, each of which goes on from the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import inf
from typing import Any, NamedTuple

import numpy as np

from majorant.core.checks import Array
from majorant.core.objective import Objective
from majorant.core.result import table
from majorant.core.threads import sharing
from majorant.estimators.base import fit_threads, share_of_l1
from majorant.estimators.fitting import ONE_AFTER_THE_OTHER
from majorant.linear.logistic import LogisticRegression, Sweep
from majorant.sources.base import Source

# Fits that share a read: their scores are all kept.
TOGETHER = 16


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

    @property
    def n_nonzero(self) -> Array:
        """How many coefficients are not zero at each point (k,)."""
        return np.count_nonzero(self.coefs, axis=(1, 2))

    def _repr_html_(self) -> str:
        rows = zip(self.Cs, self.n_iter, self.n_nonzero, self.gaps, strict=True)
        lines = [(f"{C:.4g}", str(int(n)), str(int(nonzero)), f"{gap:.2g}") for C, n, nonzero, gap in rows]
        return table(("C", "steps", "not zero", "gap"), lines)


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


def logistic_regression_path(
    X: Any, y: Any = None, *, Cs: Any = 10, sample_weight: Any = None, offset: Any = None, **settings: Any
) -> RegularizationPath:
    """Fit for every C of a grid, from the smallest on, each with what the one before has learnt of the data.

    Parameters
    ----------
    X, y, sample_weight, offset
        As in :meth:`LogisticRegression.fit`.
    Cs : int or list
        The grid, or how many points of it: between 10⁻⁴ and 10⁴, or, with an ℓ1 penalty, from where all coefficients
        are zero to a thousand times as much.
    **settings
        Those of :class:`LogisticRegression`, other than C and ``warm_start``; with ``l1_ratio`` above zero each point
        goes on from the one before by the strong rule, and is checked on all columns.

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
    >>> path.coefs.shape, path.intercepts.shape, bool((path.gaps <= 1e-6).all())
    ((3, 8, 7), (3, 8), True)
    """
    for name in {"C", "warm_start"} & set(settings):
        raise ValueError(f"{name} is what a path sets itself, got {name}={settings[name]!r}; pass Cs")
    grid = read_grid(Cs)
    if is_count(Cs) and share_of_l1(settings.get("penalty", "deprecated"), settings.get("l1_ratio", 0.0), 1.0):
        first = least_C(settings, X, y, sample_weight, offset)
        grid = first * np.logspace(0, 3, len(grid)) if len(grid) > 1 else np.array([first])
    fits: dict[int, tuple[Any, ...]] = {}
    for k, model in walk_rows(grid, settings, X, y, sample_weight, offset):
        fits[k] = (model.coef_, model.intercept_, model.n_iter_[0], model.gap_)
    coefs, intercepts, steps, gaps = zip(*(fits[k] for k in range(len(grid))), strict=True)
    return RegularizationPath(
        grid, np.stack(coefs), np.stack(intercepts), np.array(steps), np.array(gaps), model.classes_
    )


def least_C(settings: dict[str, Any], X: Any, y: Any, sample_weight: Any, offset: Any) -> float:
    """Return the largest C at which an ℓ1 penalty leaves all coefficients zero."""
    sweep, tiny = Sweep(), 1e-100  # at which no data leave a coefficient other than zero
    model = LogisticRegression(**{**settings, "C": tiny})
    model._sweep = sweep
    model.fit(X, y, sample_weight, offset)
    most = sweep.largest_l1()  # as a multiple of λ1, which is 1/C times the ratio and factors
    return tiny / most if most > 0 else 1.0


def walk_rows(
    grid: Array, settings: dict[str, Any], X: Any, y: Any, sample_weight: Any = None, offset: Any = None
) -> Iterator[tuple[int, LogisticRegression]]:
    """Yield where each C is in the grid and a model fitted for it: in turn, or, where rows are read, together."""
    if isinstance(X, Source) and settings.get("solver", "auto") not in ONE_AFTER_THE_OTHER:
        from majorant.estimators.source import refuse_beside

        refuse_beside(y=y, sample_weight=sample_weight, offset=offset)
        return fit_together(X, [LogisticRegression(**settings, C=float(C)) for C in grid])
    return walk(grid, settings, lambda model: model.fit(X, y, sample_weight, offset))


def fit_together(source: Source, models: Sequence[LogisticRegression]) -> Iterator[tuple[int, LogisticRegression]]:
    """Yield the number of every model and the model, fitted to the same source: some at a time share every read."""
    from majorant.core.remote import SharedReads
    from majorant.estimators.source import surveyed

    known = None
    for begin in range(0, len(models), TOGETHER):
        group = models[begin : begin + TOGETHER]
        with sharing(fit_threads(group[0].n_jobs, inf)):
            known = surveyed(source) if known is None else known
            for model in group:
                model._check_settings()
                model._take_note(source, known)
            data, reducer = known.place(group[0]._encoding(known))
            reads = SharedReads(reducer)
            problems = [
                model._problem_of(
                    known, partial(Objective, model._model(), data, ridge=model._penalty(), reducer=reads)
                )
                for model in group
            ]
            reads.run_all([partial(model._fit, problem) for model, problem in zip(group, problems, strict=True)])
        yield from enumerate(group, begin)


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
