"""Solvers by name, as people ask for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from majorant._checks import one_of
from majorant.objective import Objective
from majorant.solvers import (
    LBFGS,
    BatchMajorization,
    LowRankStochasticMajorization,
    Newton,
    ProximalMajorization,
    QuasiNewton,
    Solver,
    StochasticMajorization,
)
from majorant.tuning import Tuning, tune

# The gains of these are tuned, over the schedules given here.
TUNED = {"sgd": ("constant",), "asgd": ("adaptive", "inverse")}
MAKERS: dict[str, Callable[[int, bool], Solver[Any]]] = {
    "auto": lambda seed, shuffle: QuasiNewton(seed=seed),
    "bbm": lambda seed, shuffle: BatchMajorization(),
    "sbm": lambda seed, shuffle: StochasticMajorization(restart=True, seed=seed, shuffle=shuffle),
    "sbm-lowrank": lambda seed, shuffle: LowRankStochasticMajorization(restart=True, seed=seed, shuffle=shuffle),
    "proximal": lambda seed, shuffle: ProximalMajorization(seed=seed, shuffle=shuffle, warm_start=True),
    "lbfgs": lambda seed, shuffle: LBFGS(),
    "newton": lambda seed, shuffle: Newton(),
}
SOLVERS = (*MAKERS, *TUNED)
# Names of scikit-learn's solvers, which differ in how they get to an optimum that is the same: only the one that asks
# for the Hessian gets it, since the others are chosen where that would not fit.
ALIASES = {"newton-cholesky": "newton", "newton-cg": "auto", "liblinear": "auto", "sag": "auto", "saga": "auto"}
ACCEPTED = (*SOLVERS, *ALIASES)


def named_solver(name: str, objective: Objective, *, seed: int = 0, shuffle: bool = True) -> Solver[Any]:
    """Return a solver by name; those of ``TUNED`` with the best setting of their grid on this objective."""
    name = ALIASES.get(one_of("solver", name, ACCEPTED), name)
    return tuned(name, objective, seed).best if name in TUNED else MAKERS[name](seed, shuffle)


def tuned(name: str, objective: Objective, seed: int = 0, passes: int = 1) -> Tuning:
    """Try the grid of a solver of ``TUNED``, for so many passes each."""
    return tune(objective, schedules=TUNED[name], seed=seed, passes=passes)
