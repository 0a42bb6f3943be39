"""Several runs from several starts, for losses that are not convex: the best is kept, and how far apart they end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, TypeVar

import numpy as np

from majorant._checks import Array
from majorant._minimize import minimize
from majorant._solution import Outcome, Result, Solution
from majorant._threads import mapped
from majorant.objective import Objective
from majorant.solvers import Solver

R = TypeVar("R")
# Two runs that end closer than this, relative to F, have found the same.
SAME = 1e-5


@dataclass(frozen=True, eq=False)
class Restarts:
    """The best of several runs, and where each of them ended; what :func:`minimize_from` returns.

    Parameters
    ----------
    best : Solution
        The run with the lowest F.
    objectives : array
        F where each run ended, infinite where it failed.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> F = majorant.Objective(majorant.LatentMultinomial([2] * 8), majorant.Labelled(X, y), ridge=1.0)
    >>> restarts = majorant.minimize_from(F, None, [F.first_params(seed) for seed in range(2)], tol=1e-4)
    >>> bool(restarts.best.trace["objective"][-1] == restarts.objectives.min())
    True
    """

    best: Solution
    objectives: Array

    @property
    def result(self) -> Result:
        """What is said of the best, and of how far apart all of them ended."""
        return with_spread(self.best.result, self.objectives)

    def _repr_html_(self) -> str:
        return self.result._repr_html_()


def minimize_from(
    objective: Objective, solver: Solver[Any] | None, starts: Iterable[Array], **settings: Any
) -> Restarts:
    """Minimise an objective from several starts, which threads share (``majorant._threads.sharing``).

    Parameters
    ----------
    objective, solver
        As for :func:`majorant.minimize`.
    starts : arrays of shape (d,)
        At least one; ``objective.first_params(seed)`` draws them.
    settings
        Of :func:`majorant.minimize`.

    Returns
    -------
    Restarts
        ``best``, a :class:`~majorant.Solution`, the ``objectives`` of all, and a ``result`` that says how far apart
        they ended.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> F = majorant.Objective(majorant.LatentMultinomial([2] * 8), majorant.Labelled(X, y), ridge=1.0)
    >>> restarts = minimize_from(F, majorant.QuasiNewton(), [F.first_params(seed) for seed in range(3)])
    >>> restarts.best.result.outcome.value, len(restarts.objectives)
    ('stationary', 3)
    """
    runs = mapped(lambda start: minimize(objective, solver, start=start, threads=None, **settings), list(starts))
    best, objectives = best_of(runs, final_objective)
    return Restarts(best, objectives)


def final_objective(solution: Solution) -> float:
    """Return F where a run ended, infinity if it failed."""
    failed = solution.result.outcome is Outcome.NON_FINITE or not solution.trace.entries
    return float("inf") if failed else float(solution.trace["objective"][-1])


def best_of(runs: Sequence[R], value: Callable[[R], float]) -> tuple[R, Array]:
    """Return the run of the least value, the first of them, and all values; if none is finite, the first run."""
    values = np.array([value(run) for run in runs], dtype=np.float64)
    return runs[int(np.argmin(np.where(np.isnan(values), np.inf, values)))], values


def with_spread(result: Result, objectives: Array) -> Result:
    """Return the result of the best of several runs with a word about the others."""
    if len(objectives) < 2:
        return result
    ended = objectives[np.isfinite(objectives)]
    if not len(ended):
        return replace(result, message=f"all {len(objectives)} restarts failed: {result.message}")
    best, worst = float(ended.min()), float(ended.max())
    alike = int((ended <= best + SAME * abs(best)).sum())
    spread = (worst - best) / abs(best) if best and isfinite(worst) else 0.0
    said = f"; best of {len(objectives)} restarts: {alike} ended there, the worst {spread:.1e} above (relative)"
    failed = len(objectives) - len(ended)
    return replace(result, message=result.message + said + (f"; {failed} failed" if failed else ""))
