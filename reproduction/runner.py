"""Runs of an experiment, λ by cross-validation, and gains by a grid; what is finished is never computed again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from majorant.core.run import held_out, minimize
from majorant.datasets.registry import MissingDataError
from majorant.objective import Objective
from majorant.plotting import START_SCORES, Problem, warm_up
from majorant.solvers import SGD, QuasiNewton
from majorant.tuning import tune
from reproduction import store
from reproduction.experiments import SPLIT_SEED, TRAINING_SHARE, Experiment, Method

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
FOLDS = 5
RIDGES = tuple(10.0**k for k in range(-4, 4))
TRIAL_PASSES = 5  # a gain that wins one pass may not win five
SCHEDULES = {"SGD tuned": ("constant",), "ASGD tuned": ("adaptive", "inverse")}


@dataclass(frozen=True)
class Event:
    """The progress of an experiment: the current run, its share done, and how many runs are done."""

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
    """Settings of the command; None keeps those of the table."""

    runs: int = 10
    passes: float | None = None
    cv: bool = False
    tune: bool = False


def run(experiment: Experiment, out: Path, options: Options, progress: Progress | None = None) -> Path:
    """Make the runs that are not in the file of an experiment, write the plan, and return the file.

    Where the data are missing, the plan says so, and nothing else is written.
    """
    file = store.file_of(out, experiment.name)
    tell = progress or (lambda event: None)
    if options.passes is not None:
        experiment = replace(experiment, passes=options.passes, first_order_passes=None)
    try:
        problem = experiment.problem()
    except MissingDataError as missing:
        return _write_plan(file, experiment, {"missing": str(missing)})
    notes: dict[str, Any] = {}
    if options.cv:
        tell(Event(experiment.name, "cross-validation of λ", 0, 0, 1))
        choice = cross_validated(problem, file)
        objective = Objective(problem.objective.model, problem.objective.data, ridge=choice["best"])
        experiment, problem = replace(experiment, ridge=choice["best"]), replace(problem, objective=objective)
        notes["cross_validation"] = {"ridges": choice["ridges"], "scores": choice["scores"]}
    if options.tune and experiment.opponents_tuned:
        tell(Event(experiment.name, "tuning of SGD and ASGD", 0, 0, 1))
        experiment = replace(experiment, methods=(*experiment.methods, *tuned(problem, file)))
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


def _run_one(
    experiment: Experiment, problem: Problem, method: Method, seed: int, file: Path, event: Event, tell: Progress
) -> store.Kept:
    passes = OPTIMUM_PASSES if method is OPTIMUM else experiment.passes_of(method)
    solver: Any = method.solver_for(seed, len(problem.objective.data), experiment.report_every)
    settings = {
        "dataset": experiment.dataset,
        "rows": experiment.rows,
        "scale": experiment.scale,
        "training_share": TRAINING_SHARE,
        "split_seed": SPLIT_SEED,
        "start_scores": START_SCORES,
        "ridge": experiment.ridge,
        "training": experiment.training,
        "solver": {"class": type(solver).__name__, **asdict(solver)},
        "seed": seed,
        "passes": passes,
    }

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
        return {
            "solver": method.label,
            "seed": seed,
            "outcome": found.result.outcome.value,
            "message": str(found.result),
            "trace": store.thin(found.trace, COLUMNS, experiment.passes),
        }

    return store.remember(file, f"{method.label.replace(' ', '-')}-{seed}", settings, compute)


def _write_plan(file: Path, experiment: Experiment, contents: Mapping[str, Any]) -> Path:
    described = {name: getattr(experiment, name) for name in PLANNED}
    methods = {method.label: repr(method.solver) for method in experiment.methods}
    store.put(file, store.PLAN, {**described, "methods": methods, **contents})
    return file


def cross_validated(problem: Problem, file: Path) -> dict[str, Any]:
    """Return the mean held-out log-likelihood of each λ of a grid, and the best λ, as kept in a file."""
    objective = problem.objective

    def score(ridge: float) -> float:
        data: Any = objective.whole
        fold = np.random.default_rng(0).permutation(len(data)) % FOLDS
        scores = []
        for k in range(FOLDS):
            train, held = data.take(np.flatnonzero(fold != k)), data.take(np.flatnonzero(fold == k))
            found = minimize(Objective(objective.model, train, ridge=ridge), QuasiNewton(), tol=1e-6)
            scores.append(held_out(objective.model, held)["test_log_likelihood"](found.params))
        return float(np.mean(scores))

    def compute() -> Mapping[str, Any]:
        scores = [score(ridge) for ridge in RIDGES]
        return {"ridges": RIDGES, "scores": scores, "best": RIDGES[int(np.argmax(scores))]}

    settings = {"folds": FOLDS, "ridges": RIDGES, "data": _fingerprint(objective)}
    return store.remember(file, "cross-validation", settings, compute).contents


def tuned(problem: Problem, file: Path) -> list[Method]:
    """Return SGD and ASGD with the gain, τ and mini-batch of the lowest training objective after a few passes."""
    objective = problem.objective

    def compute() -> Mapping[str, Any]:
        found = {label: tune(objective, schedules=kinds, passes=TRIAL_PASSES) for label, kinds in SCHEDULES.items()}
        parts = ("gain", "schedule", "tau", "batch_size")
        best = {label: {part: getattr(tuning.best, part) for part in parts} for label, tuning in found.items()}
        return {"best": best, "tried": {label: len(tuning.trials) for label, tuning in found.items()}}

    settings = {
        "ridge": float(objective.ridge[0]),
        "schedules": SCHEDULES,
        "passes": TRIAL_PASSES,
        "data": _fingerprint(objective),
    }
    best = store.remember(file, "tuning", settings, compute).contents["best"]
    return [Method(label, SGD(**setting)) for label, setting in best.items()]


def _fingerprint(objective: Objective) -> list[float]:
    """Return the size of a problem, and F and ‖∇F‖ at zero: numbers that differ for different data."""
    value, gradient = objective.value_and_gradient(np.zeros(objective.size))
    return [len(objective.data), objective.size, float(f"{value:.9g}"), float(f"{np.linalg.norm(gradient):.9g}")]
