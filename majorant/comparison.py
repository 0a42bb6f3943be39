"""Solvers side by side on one problem: the same starts, the same passes, and the cost of tuning told apart."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import scipy

from majorant import __version__
from majorant.core.checks import Array
from majorant.core.labelled import Labelled
from majorant.core.model import Model
from majorant.core.objective import Objective
from majorant.core.policy import QuasiNewton
from majorant.core.run import held_out, minimize
from majorant.core.solver import Solver
from majorant.core.stochastic import StochasticSolver
from majorant.estimators.fitting import TUNED, named_solver, tuned

# Random starts give scores of about this size, whatever the scale of the features: "close to the origin".
START_SCORES = 0.01


@dataclass(frozen=True, eq=False)
class Problem:
    """The training objective, metrics by name, and the root mean square length of a training row."""

    objective: Objective
    metrics: Mapping[str, Callable[[Array], float]]
    row_length: float

    @classmethod
    def of(cls, model: Model[Any], train: Labelled, test: Labelled, *, ridge: float, training: bool = True) -> Problem:
        """Return the problem of training rows, with the metrics of test rows and, if ``training``, of training rows."""
        metrics = held_out(model, test)
        if training:
            metrics |= held_out(model, train, prefix="train_")
        row_length = train.design.frobenius_norm() / float(np.sqrt(len(train)))
        return cls(Objective(model, train, ridge=ridge), metrics, row_length)

    def start(self, seed: int) -> Array:
        """Return a random start near the origin."""
        rng = np.random.default_rng([seed, 1])
        return rng.normal(size=self.objective.size) * START_SCORES / self.row_length


@dataclass(frozen=True)
class Effort:
    """The cost of tuning the gain of a solver: settings tried, passes and seconds; and the best setting in words."""

    settings: int
    passes: float
    seconds: float
    best: str


@dataclass(frozen=True)
class Entry:
    """A solver, its runs (as :func:`majorant.plotting.draw_curves` draws them), or why there are none."""

    solver: str
    runs: tuple[dict[str, Any], ...] = ()
    tuning: Effort | None = None
    failure: str | None = None

    def last(self, column: str) -> list[float]:
        """Return the last value of a column of each trace."""
        return [float(run["trace"][column][-1]) for run in self.runs]

    def passes_to(self, value: float) -> float | None:
        """Return the median over runs of the passes to an objective of at most ``value``; None if it is infinite."""
        arrivals = []
        for run in self.runs:
            reached = np.flatnonzero(np.asarray(run["trace"]["objective"]) <= value)
            arrivals.append(run["trace"]["passes"][reached[0]] if len(reached) else np.inf)
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
    """Run every solver from random starts near zero; return an entry for each, and the least objective.

    Parameters
    ----------
    problem : Problem
        The objective and the metrics.
    names : sequence of str
        Names of :func:`majorant.estimators.fitting.named_solver`.
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
    for name in names:
        try:
            effort = None
            if name in TUNED:
                tell(f"{name}: tuning")
                solver, effort = _tune(problem, name, tuning_passes or max(round(passes), 1))
            else:
                solver = named_solver(name, problem.objective)
            warm_up(problem.objective, solver)
            done = []
            for seed in range(runs):
                tell(f"{name}: run {seed + 1} of {runs}")
                done.append(_run(problem, solver, name, seed, passes))
            entries.append(Entry(name, tuple(done), effort))
        except ValueError as refusal:  # such as too many parameters for a full matrix
            entries.append(Entry(name, failure=str(refusal)))
    tell("optimum")
    optimum = minimize(problem.objective, QuasiNewton(), tol=1e-10, max_steps=10_000)
    return entries, float(optimum.trace["objective"].min())


def _tune(problem: Problem, name: str, passes: int) -> tuple[Solver[Any], Effort]:
    started = time.perf_counter()
    tuning = tuned(name, problem.objective, passes=passes)
    seconds = time.perf_counter() - started
    best: Any = asdict(tuning.best)
    tau = f", τ={best['tau']:g}" if best["schedule"] == "adaptive" else ""
    words = f"{best['schedule']} gain {best['gain']:.3g}{tau}, batches of {best['batch_size']}"
    return tuning.best, Effort(len(tuning.trials), sum(trial.passes for trial in tuning.trials), seconds, words)


def _run(problem: Problem, solver: Any, name: str, seed: int, passes: float) -> dict[str, Any]:
    if isinstance(solver, StochasticSolver):
        solver = replace(solver, seed=seed, report_every=0.2)  # of a pass
    elif isinstance(solver, QuasiNewton):
        solver = replace(solver, seed=seed)
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


def warm_up(objective: Objective, solver: Solver[Any]) -> None:
    """Make a step on a few rows, so that no run is charged for compiling."""
    few = objective.data.sample(200, seed=0)
    minimize(Objective(objective.model, few, ridge=np.maximum(objective.ridge, 1.0)), solver, max_steps=1)


def versions() -> dict[str, str]:
    """Return the versions that numbers may depend on."""
    return {
        "majorant": __version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
    }
