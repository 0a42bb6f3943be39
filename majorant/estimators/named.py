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
MAKERS: dict[str, Callable[..., Solver[Any]]] = {
    "auto": lambda seed, **rows: QuasiNewton(seed=seed),
    "bbm": lambda **rows: BatchMajorization(),
    "sbm": lambda warm, **rows: StochasticMajorization(restart=True, **rows),
    "sbm-lowrank": lambda warm, **rows: LowRankStochasticMajorization(restart=True, **rows),
    "proximal": lambda warm, **rows: ProximalMajorization(warm_start=warm, **rows),
    "lbfgs": lambda **rows: LBFGS(),
    "newton": lambda **rows: Newton(),
}
SOLVERS = (*MAKERS, *TUNED)
# Those that go from row to row, and do not read with others.
ONE_AFTER_THE_OTHER = ("proximal", "sbm", "sbm-lowrank", *TUNED)
# Names of scikit-learn's solvers, which differ in how they get to an optimum that is the same: only the one that asks
# for the Hessian gets it, since the others are chosen where that would not fit.
ALIASES = {"newton-cholesky": "newton", "newton-cg": "auto", "liblinear": "auto", "sag": "auto", "saga": "auto"}
ACCEPTED = (*SOLVERS, *ALIASES)


def named_solver(
    name: str, objective: Objective, *, seed: int = 0, shuffle: bool = True, warm: bool = False
) -> Solver[Any]:
    """Return a solver by name; those of ``TUNED`` with the best setting of their grid on this objective.

    ``seed`` and ``shuffle`` say in which order rows are visited, ``warm`` whether a start other than zero is meant.
    """
    name = ALIASES.get(one_of("solver", name, ACCEPTED), name)
    return tuned(name, objective, seed).best if name in TUNED else MAKERS[name](seed=seed, shuffle=shuffle, warm=warm)


def tuned(name: str, objective: Objective, seed: int = 0, passes: int = 1) -> Tuning:
    """Try the grid of a solver of ``TUNED``, for so many passes each."""
    return tune(objective, schedules=TUNED[name], seed=seed, passes=passes)
