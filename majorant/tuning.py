"""Finding a gain for SGD: what the other solvers of this package do not need.

Two rules. ``"lowest"`` takes the setting with the lowest objective: the fair opponent. ``"largest-stable"`` takes the
largest gain that does not diverge, as the paper says it does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from majorant.core.checks import one_of
from majorant.core.objective import Objective
from majorant.core.result import table
from majorant.core.run import minimize
from majorant.core.stochastic import SGD

RULES = ("lowest", "largest-stable")


@dataclass(frozen=True)
class Trial:
    """One setting, the objective it ended with (infinite if it diverged), and the passes over the data it took."""

    solver: SGD
    objective: float
    passes: float


@dataclass(frozen=True)
class Tuning:
    """The setting that a rule chose, its objective, and every setting tried."""

    best: SGD
    objective: float
    trials: tuple[Trial, ...]

    def _repr_html_(self) -> str:
        best = min(range(len(self.trials)), key=lambda k: self.trials[k].solver != self.best)
        rows = [(repr(trial.solver), f"{trial.objective:.6g}", f"{trial.passes:g}") for trial in self.trials]
        return table(("solver", "objective", "passes"), rows, marked=best)


def tune(
    objective: Objective,
    *,
    rule: str = "lowest",
    schedules: Iterable[str] = ("constant", "adaptive", "inverse"),
    gains: Iterable[float] | None = None,
    taus: Iterable[float] = (1.0, 1e1, 1e2, 1e3, 1e4, 1e5),
    batch_sizes: Iterable[int] = (1, 10, 100),
    passes: int = 1,
    seed: int = 0,
) -> Tuning:
    """Try a grid of SGD settings and choose one.

    Parameters
    ----------
    objective : Objective
        What to minimise.
    rule : {"lowest", "largest-stable"}
        How to choose; a run diverges when it ends non-finite or above the objective at zero.
    schedules, gains, taus, batch_sizes : iterables
        The grid; by default η₀ from 10⁻¹² to 1 (the paper's range) in steps of √10, τ from 1 to 10⁵. Larger gains are
        skipped once one has diverged.
    passes : int
        Length of each trial.
    seed : int
        Order of the rows, the same in every trial.

    Returns
    -------
    Tuning
        ``best``, an :class:`~majorant.SGD`, its ``objective``, and all ``trials``.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> F = majorant.Objective(majorant.Multinomial(8), majorant.Labelled(X, y), ridge=1.0)
    >>> found = majorant.tune(F, schedules=["constant"], batch_sizes=[10])
    >>> 1e-3 < found.best.gain < 1
    True
    """
    one_of("rule", rule, RULES)
    ascending = sorted(10.0 ** (k / 2) for k in range(-24, 1)) if gains is None else sorted(gains)
    at_zero = objective.value(np.zeros(objective.size)) * (1 + 1e-9)  # two ways to find it may differ in rounding
    trials: list[Trial] = []
    fitting = [m for m in batch_sizes if m <= objective.rows]
    for m, schedule in itertools.product(fitting, schedules):
        for tau in taus if schedule == "adaptive" else (1.0,):
            for gain in ascending:
                solver = SGD(gain=gain, batch_size=m, schedule=schedule, tau=tau, seed=seed)
                trace = minimize(
                    objective, solver, max_steps=passes, tol=0.0, callback=lambda row, _: row["objective"] > at_zero
                ).trace
                final = float(trace["objective"][-1])
                diverged = len(trace["objective"]) <= passes or not final <= at_zero
                trials.append(Trial(solver, np.inf if diverged else final, float(trace["passes"][-1])))
                if diverged:
                    break
    stable = [trial for trial in trials if trial.objective < np.inf]
    if not stable:
        raise ValueError(f"every gain diverged; the smallest tried was {ascending[0]:g}: scale the features down")
    key = (lambda t: t.objective) if rule == "lowest" else (lambda t: (-t.solver.gain, t.objective))
    best = min(stable, key=key)
    return Tuning(best.solver, best.objective, tuple(trials))
