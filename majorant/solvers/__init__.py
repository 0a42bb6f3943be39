"""Solvers: frozen settings, an explicit state, a step."""

from majorant.solvers.base import Solver, State, SteppingSolver
from majorant.solvers.batch import BatchMajorization
from majorant.solvers.descent import Newton, SteepestDescent
from majorant.solvers.online import OnlineMajorization
from majorant.solvers.policy import QuasiNewton
from majorant.solvers.proximal import ProximalMajorization
from majorant.solvers.sampling import StochasticSolver
from majorant.solvers.scipy import BFGS, LBFGS, ConjugateGradient
from majorant.solvers.sgd import SGD
from majorant.solvers.stochastic import StochasticMajorization
from majorant.solvers.stochastic_low_rank import LowRankStochasticMajorization

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
    "QuasiNewton",
    "Solver",
    "State",
    "SteepestDescent",
    "SteppingSolver",
    "StochasticMajorization",
    "StochasticSolver",
]
