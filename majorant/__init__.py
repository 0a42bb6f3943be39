"""majorant: train log-linear models without tuning.

A log-linear model gives a bound, a bound has a curvature, a solver minimises bounds.
"""

from majorant import curvature, datasets
from majorant._bound import QuadraticBound, log_partition_bound
from majorant._minimize import held_out, minimize
from majorant._solution import Outcome, Result, Solution, Trace
from majorant.data import Choices, Labelled
from majorant.models import Binary, Enumerated, Multinomial
from majorant.objective import Objective
from majorant.solvers import (
    BFGS,
    LBFGS,
    SGD,
    BatchMajorization,
    ConjugateGradient,
    LowRankStochasticMajorization,
    Newton,
    ProximalMajorization,
    QuasiNewton,
    SteepestDescent,
    StochasticMajorization,
)
from majorant.tuning import tune

__version__ = "0.1.0"

__all__ = [
    "BFGS",
    "LBFGS",
    "SGD",
    "BatchMajorization",
    "Binary",
    "Choices",
    "ConjugateGradient",
    "Enumerated",
    "Labelled",
    "LowRankStochasticMajorization",
    "Multinomial",
    "Newton",
    "Objective",
    "Outcome",
    "ProximalMajorization",
    "QuadraticBound",
    "QuasiNewton",
    "Result",
    "Solution",
    "SteepestDescent",
    "StochasticMajorization",
    "Trace",
    "curvature",
    "datasets",
    "held_out",
    "log_partition_bound",
    "minimize",
    "tune",
]
