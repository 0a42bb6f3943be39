"""Solvers side by side on one problem: the same start, the same passes, and the cost of tuning told apart."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from majorant._minimize import minimize
from majorant.estimators.named import TUNED, named_solver, tuned
from majorant.experiments.problem import Problem
from majorant.experiments.runner import warm_up
from majorant.solvers import QuasiNewton, Solver
from majorant.solvers.sampling import StochasticSolver

# Entries of a trace for each pass of a stochastic solver.
REPORTS = 5
# What counts as having arrived: this share above the least objective.
NEAR = 0.01


@dataclass(frozen=True)
class Effort:
    """What was spent to find the gain of a solver: settings tried, passes and seconds."""

    settings: int
    passes: float
    seconds: float
    best: str


@dataclass(frozen=True)
class Entry:
    """A solver, its runs (as :func:`majorant.plotting.draw_curves` reads them), or why there are none."""

    solver: str
    runs: tuple[dict[str, Any], ...] = ()
    tuning: Effort | None = None
    failure: str | None = None

    def last(self, column: str) -> list[float]:
        """Return how each run ended."""
        return [float(run["trace"][column][-1]) for run in self.runs]

    def passes_to(self, value: float) -> float | None:
        """Return the median of the passes after which the objective was at most so much, if all runs came there."""
        arrivals = []
        for run in self.runs:
            there = np.flatnonzero(np.asarray(run["trace"]["objective"]) <= value)
            arrivals.append(run["trace"]["passes"][there[0]] if len(there) else np.inf)
        median = float(np.median(arrivals))
        return median if np.isfinite(median) else None


def compare(
    problem: Problem,
    names: Sequence[str],
    *,
    passes: float,
    runs: int,
    tuning_passes: int | None = None,
    tell: Callable[[str], None] = lambda sentence: None,
) -> tuple[list[Entry], float]:
    """Run every solver from random starts near zero; return what came of it, and the least objective.

    Parameters
    ----------
    problem : Problem
        What is minimised and measured.
    names : sequence of str
        Names of :func:`majorant.estimators.named.named_solver`.
    passes : float
        Length of a run; a step that ends beyond it is left out.
    runs : int
        Runs of each solver; start and order of the rows differ.
    tuning_passes : int, optional
        Length of each trial of a gain; by default as long as a run, so that it is tuned for what it is judged by.
    tell : callable
        Called with what begins.
    """
    entries = []
    trial = max(round(passes), 1) if tuning_passes is None else tuning_passes
    for name in names:
        try:
            solver, effort = _ready(problem, name, trial, tell)
            entries.append(Entry(name, _runs(problem, solver, name, passes, runs, tell), effort))
        except ValueError as refusal:  # such as too many parameters for a full matrix
            entries.append(Entry(name, failure=str(refusal)))
    tell("optimum")
    optimum = minimize(problem.objective, QuasiNewton(), tol=1e-10, max_steps=10_000)
    return entries, float(optimum.trace["objective"].min())


def _ready(problem: Problem, name: str, trial: int, tell: Callable[[str], None]) -> tuple[Solver[Any], Effort | None]:
    """Return the solver, compiled, and what it cost to tune it, if that is needed."""
    effort = None
    if name in TUNED:
        tell(f"{name}: tuning")
        solver, effort = _tune(problem, name, trial)
    else:
        solver = named_solver(name, problem.objective)
    warm_up(problem.objective, solver)
    return solver, effort


def _tune(problem: Problem, name: str, trial: int) -> tuple[Solver[Any], Effort]:
    started = time.perf_counter()
    found = tuned(name, problem.objective, passes=trial)
    spent = sum(each.passes for each in found.trials)
    return found.best, Effort(len(found.trials), spent, time.perf_counter() - started, _spoken(found.best))


def _runs(
    problem: Problem, solver: Solver[Any], name: str, passes: float, runs: int, tell: Callable[[str], None]
) -> tuple[dict[str, Any], ...]:
    done = []
    for seed in range(runs):
        tell(f"{name}: run {seed + 1} of {runs}")
        done.append(_run(problem, _seeded(solver, seed), name, seed, passes))
    return tuple(done)


def _run(problem: Problem, solver: Solver[Any], name: str, seed: int, passes: float) -> dict[str, Any]:
    found = minimize(
        problem.objective,
        solver,
        start=problem.start(seed),
        tol=1e-10,
        max_steps=10**9,
        max_passes=passes,
        metrics=problem.metrics,
    )
    # A step may cost several passes and end beyond the limit: it is not counted, so that all have the same.
    within = max(np.count_nonzero(found.trace["passes"] <= passes + 1e-9), 1)
    trace = {column: found.trace[column][:within].tolist() for column in found.trace}
    return {"solver": name, "seed": seed, "outcome": found.result.outcome.value, "trace": trace}


def _seeded(solver: Any, seed: int) -> Solver[Any]:
    if isinstance(solver, StochasticSolver):
        return replace(solver, seed=seed, report_every=1 / REPORTS)
    return replace(solver, seed=seed) if isinstance(solver, QuasiNewton) else solver


def _spoken(solver: Any) -> str:
    chosen = asdict(solver)
    tau = f", τ={chosen['tau']:g}" if chosen["schedule"] == "adaptive" else ""
    return f"{chosen['schedule']} gain {chosen['gain']:.3g}{tau}, batches of {chosen['batch_size']}"
