"""What may be chosen from the training rows instead of being given: λ by cross-validation, gains by a grid."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from majorant._minimize import held_out, minimize
from majorant.experiments import store
from majorant.experiments.problem import Problem
from majorant.experiments.table import Method
from majorant.objective import Objective
from majorant.solvers import SGD, QuasiNewton
from majorant.tuning import tune

FOLDS = 5
RIDGES = tuple(10.0**k for k in range(-4, 4))
TRIAL_PASSES = 5  # a gain that wins one pass may not stay
SCHEDULES = {"SGD tuned": ("constant",), "ASGD tuned": ("adaptive", "inverse")}


def cross_validated(problem: Problem, file: Path) -> dict[str, Any]:
    """Return the entry of a file with the mean held-out log-likelihood of each λ, and the best of them."""
    settings = {"folds": FOLDS, "ridges": RIDGES, "data": _fingerprint(problem.objective)}

    def compute() -> Mapping[str, Any]:
        scores = [_score(problem.objective, ridge) for ridge in RIDGES]
        return {"ridges": RIDGES, "scores": scores, "best": RIDGES[int(np.argmax(scores))]}

    return store.remember(file, "cross-validation", settings, compute).contents


def tuned(problem: Problem, file: Path) -> list[Method]:
    """Return SGD and ASGD with the gain, τ and mini-batch of the lowest training objective after a few passes."""
    objective = problem.objective
    settings = {
        "ridge": float(objective.ridge[0]),
        "schedules": SCHEDULES,
        "passes": TRIAL_PASSES,
        "data": _fingerprint(objective),
    }

    def compute() -> Mapping[str, Any]:
        found = {label: tune(objective, schedules=kinds, passes=TRIAL_PASSES) for label, kinds in SCHEDULES.items()}
        return {
            "best": {label: _setting(tuning.best) for label, tuning in found.items()},
            "tried": {label: len(tuning.trials) for label, tuning in found.items()},
        }

    best = store.remember(file, "tuning", settings, compute).contents["best"]
    return [Method(label, SGD(**setting)) for label, setting in best.items()]


def _setting(solver: SGD) -> dict[str, Any]:
    return {"gain": solver.gain, "schedule": solver.schedule, "tau": solver.tau, "batch_size": solver.batch_size}


def _score(objective: Objective, ridge: float) -> float:
    data: Any = objective.whole
    fold = np.random.default_rng(0).permutation(len(data)) % FOLDS
    scores = []
    for k in range(FOLDS):
        train, held = data.take(np.flatnonzero(fold != k)), data.take(np.flatnonzero(fold == k))
        found = minimize(Objective(objective.model, train, ridge=ridge), QuasiNewton(), tol=1e-6)
        scores.append(held_out(objective.model, held)["test_log_likelihood"](found.params))
    return float(np.mean(scores))


def _fingerprint(objective: Objective) -> list[float]:
    """Return a few numbers that differ for different data."""
    zero = np.zeros(objective.size)
    value, gradient = objective.value_and_gradient(zero)
    return [len(objective.data), objective.size, float(f"{value:.9g}"), float(f"{np.linalg.norm(gradient):.9g}")]
