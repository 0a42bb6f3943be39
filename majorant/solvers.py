"""Solvers: frozen settings, an explicit state, a step."""

from majorant.core.ascent import OnlineMajorization
from majorant.core.policy import QuasiNewton
from majorant.core.proximal import ProximalMajorization
from majorant.core.proximal_newton import ProximalNewton
from majorant.core.solver import (
    BFGS,
    LBFGS,
    BatchMajorization,
    ConjugateGradient,
    Newton,
    Solver,
    State,
    SteepestDescent,
    SteppingSolver,
)
from majorant.core.stochastic import SGD, LowRankStochasticMajorization, StochasticMajorization, StochasticSolver

__all__ = [
    "BFGS",
    "LBFGS",
    "SGD",
    "BatchMajorization",
    "ConjugateGradient",
    "LowRankStochasticMajorization",
    "Newton",
    "OnlineMajorization",
    "ProximalMajorization",
    "ProximalNewton",
    "QuasiNewton",
    "Solver",
    "State",
    "SteepestDescent",
    "SteppingSolver",
    "StochasticMajorization",
    "StochasticSolver",
]
