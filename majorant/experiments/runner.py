"""Run an experiment: every finished run is kept in its file, and is never computed again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from majorant._minimize import minimize
from majorant.datasets import MissingDataError
from majorant.experiments import problem as problems
from majorant.experiments import store
from majorant.experiments.problem import Problem, prepare
from majorant.experiments.selection import cross_validated, tuned
from majorant.experiments.table import Experiment, Method
from majorant.objective import Objective
from majorant.solvers import QuasiNewton, Solver

COLUMNS = (
    "passes",
    "cpu_seconds",
    "objective",
    "train_log_likelihood",
    "train_error",
    "test_log_likelihood",
    "test_error",
)
PLANNED = ("name", "title", "dataset", "ridge", "passes", "x", "panels", "zoom")
OPTIMUM = Method("optimum", QuasiNewton())
OPTIMUM_PASSES = 100_000.0


@dataclass(frozen=True)
class Event:
    """What a run reports: which job, how far it is, and how many jobs are done."""

    experiment: str
    method: str
    seed: int
    done: int
    total: int
    share: float = 0.0
    reused: bool = False


Progress: TypeAlias = Callable[[Event], None]


@dataclass(frozen=True)
class Options:
    """What a person may change; None keeps what the table says."""

    runs: int = 10
    passes: float | None = None
    cv: bool = False
    tune: bool = False


def run(experiment: Experiment, out: Path, options: Options, progress: Progress | None = None) -> Path:
    """Run what is not yet there, write the plan, and return the file that holds it all.

    Where the data are missing, the plan says so, and nothing else is written.
    """
    file = store.file_of(out, experiment.name)
    tell = progress or (lambda event: None)
    if options.passes is not None:
        experiment = replace(experiment, passes=options.passes, first_order_passes=None)
    try:
        problem = prepare(experiment)
    except MissingDataError as missing:
        return _write_plan(file, experiment, {"missing": str(missing)})
    experiment, problem, notes = _chosen(experiment, problem, file, options, tell)
    jobs = [(OPTIMUM, 0), *((method, seed) for method in experiment.methods for seed in range(options.runs))]
    names = []
    for done, (method, seed) in enumerate(jobs):
        event = Event(experiment.name, method.label, seed, done, len(jobs))
        tell(event)
        kept = _run_one(experiment, problem, method, seed, file, event, tell)
        names.append(kept.name)
        tell(replace(event, done=done + 1, share=1.0, reused=kept.reused))
    shape = {"rows": len(problem.objective.data), "size": problem.objective.size}
    return _write_plan(file, experiment, {"entries": names, "runs": options.runs, **shape, **notes})


def _chosen(
    experiment: Experiment, problem: Problem, file: Path, options: Options, tell: Progress
) -> tuple[Experiment, Problem, dict[str, Any]]:
    """Return the experiment with what was asked to be chosen from the data: λ, and gains to compare with."""
    notes: dict[str, Any] = {}
    if options.cv:
        tell(Event(experiment.name, "cross-validation of λ", 0, 0, 1))
        choice = cross_validated(problem, file)
        experiment = replace(experiment, ridge=choice["best"])
        problem = replace(problem, objective=_with_ridge(problem.objective, choice["best"]))
        notes["cross_validation"] = {"ridges": choice["ridges"], "scores": choice["scores"]}
    if options.tune and experiment.opponents_tuned:
        tell(Event(experiment.name, "tuning of SGD and ASGD", 0, 0, 1))
        extra = tuned(problem, file)
        experiment = replace(experiment, methods=(*experiment.methods, *extra))
    return experiment, problem, notes


def _run_one(
    experiment: Experiment, problem: Problem, method: Method, seed: int, file: Path, event: Event, tell: Progress
) -> store.Kept:
    passes = OPTIMUM_PASSES if method is OPTIMUM else experiment.passes_of(method)
    solver = method.solver_for(seed, len(problem.objective.data), experiment.report_every)
    settings = _settings(experiment, solver, seed, passes)

    def compute() -> Mapping[str, Any]:
        warm_up(problem.objective, solver)
        found = minimize(
            problem.objective,
            solver,
            start=None if method is OPTIMUM else problem.start(seed),
            tol=1e-9,
            max_steps=10**9,
            max_passes=passes,
            metrics=problem.metrics,
            callback=lambda row, _: tell(replace(event, share=min(row["passes"] / passes, 1.0))),
        )
        outcome = {"outcome": found.result.outcome.value, "message": str(found.result)}
        return {
            "solver": method.label,
            "seed": seed,
            **outcome,
            "trace": store.thin(found.trace, COLUMNS, experiment.passes),
        }

    name = f"{method.label.replace(' ', '-')}-{seed}"
    return store.remember(file, name, settings, compute)


def _settings(experiment: Experiment, solver: Solver[Any], seed: int, passes: float) -> dict[str, Any]:
    return {
        "dataset": experiment.dataset,
        "rows": experiment.rows,
        "scale": experiment.scale,
        "training_share": problems.TRAINING_SHARE,
        "split_seed": problems.SPLIT_SEED,
        "start_scores": problems.START_SCORES,
        "ridge": experiment.ridge,
        "training": experiment.training,
        "solver": {"class": type(solver).__name__, **asdict(solver)},  # type: ignore[call-overload]
        "seed": seed,
        "passes": passes,
    }


def warm_up(objective: Objective, solver: Solver[Any]) -> None:
    """Compile on a few rows, so that no run is charged for being first."""
    few = objective.data.sample(200, seed=0)
    minimize(Objective(objective.model, few, ridge=np.maximum(objective.ridge, 1.0)), solver, max_steps=1)


def _with_ridge(objective: Objective, ridge: float) -> Objective:
    return Objective(objective.model, objective.data, ridge=ridge)


def _write_plan(file: Path, experiment: Experiment, contents: Mapping[str, Any]) -> Path:
    described = {name: getattr(experiment, name) for name in PLANNED}
    methods = {method.label: repr(method.solver) for method in experiment.methods}
    store.put(file, store.PLAN, {**described, "methods": methods, **contents})
    return file
