"""majorant: train log-linear models without tuning.

A log-linear model gives a bound, a bound has a curvature, a solver minimises bounds.
"""

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from majorant.callbacks import Checkpoint, EarlyStopping
    from majorant.estimators import LogisticRegression, LogisticRegressionCV, logistic_regression_path


def __getattr__(name: str) -> Any:
    # scikit-learn takes as long to import as everything else together: only who asks for it pays.
    if name in ("LogisticRegression", "LogisticRegressionCV", "logistic_regression_path"):
        from majorant import estimators

        return getattr(estimators, name)
    if name in ("Checkpoint", "EarlyStopping"):
        from majorant import callbacks

        return getattr(callbacks, name)
    raise AttributeError(f"module 'majorant' has no attribute {name!r}")


__version__ = "0.1.0"

__all__ = [
    "BFGS",
    "LBFGS",
    "SGD",
    "BatchMajorization",
    "Binary",
    "Checkpoint",
    "Choices",
    "ConjugateGradient",
    "EarlyStopping",
    "Enumerated",
    "Labelled",
    "LogisticRegression",
    "LogisticRegressionCV",
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
    "logistic_regression_path",
    "minimize",
    "tune",
]
