"""Solvers: frozen settings, an explicit state, a step."""

from majorant.solvers.base import Solver, State
from majorant.solvers.batch import BatchMajorization
from majorant.solvers.descent import Newton, SteepestDescent
from majorant.solvers.scipy import BFGS, LBFGS, ConjugateGradient

__all__ = [
    "BFGS",
    "LBFGS",
    "BatchMajorization",
    "ConjugateGradient",
    "Newton",
    "Solver",
    "State",
    "SteepestDescent",
]
