"""majorant: train log-linear models without tuning.

A log-linear model gives a bound, a bound has a curvature, a solver minimises bounds.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from majorant import curvature, data, datasets, design, metrics, models, objective, solvers
    from majorant._bound import QuadraticBound, log_partition_bound
    from majorant._plot import plot
    from majorant._solution import Outcome, Result, Solution, Trace
    from majorant.callbacks import Checkpoint, EarlyStopping
    from majorant.data import Choices, Labelled
    from majorant.estimators import (
        ChainCRF,
        ConditionalLogit,
        LatentChainCRF,
        LatentClassLogit,
        LatentLogisticRegression,
        LinearProbe,
        LogisticRegression,
        LogisticRegressionCV,
        logistic_regression_path,
        on_device,
    )
    from majorant.models import (
        Binary,
        Chain,
        Enumerated,
        LatentChain,
        LatentEnumerated,
        LatentMultinomial,
        Multinomial,
    )
    from majorant.objective import Objective, Threads
    from majorant.run import Restarts, held_out, minimize, minimize_from
    from majorant.solvers import (
        BFGS,
        LBFGS,
        SGD,
        BatchMajorization,
        ConjugateGradient,
        LowRankStochasticMajorization,
        Newton,
        OnlineMajorization,
        ProximalMajorization,
        QuasiNewton,
        SteepestDescent,
        StochasticMajorization,
    )
    from majorant.sources import Chunks, Npy, Parquet, Source, Svmlight
    from majorant.tuning import tune

# Where the public names live. SciPy and scikit-learn take a second to import: only who asks for them pays.
_HOMES = {
    "_bound": ("QuadraticBound", "log_partition_bound"),
    "_plot": ("plot",),
    "_solution": ("Outcome", "Result", "Solution", "Trace"),
    "callbacks": ("Checkpoint", "EarlyStopping"),
    "data": ("Choices", "Labelled"),
    "estimators": (
        "ChainCRF",
        "LatentChainCRF",
        "LatentLogisticRegression",
        "ConditionalLogit",
        "LatentClassLogit",
        "LinearProbe",
        "LogisticRegression",
        "LogisticRegressionCV",
        "logistic_regression_path",
        "on_device",
    ),
    "models": (
        "Binary",
        "Chain",
        "Enumerated",
        "LatentChain",
        "LatentEnumerated",
        "LatentMultinomial",
        "Multinomial",
    ),
    "objective": ("Objective", "Threads"),
    "solvers": (
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
        "SteepestDescent",
        "StochasticMajorization",
    ),
    "run": ("Restarts", "held_out", "minimize", "minimize_from"),
    "sources": ("Chunks", "Npy", "Parquet", "Source", "Svmlight"),
    "tuning": ("tune",),
}
# What one builds upon to add a model, a design, a penalty, a curvature or a solver.
_MODULES = ("curvature", "data", "datasets", "design", "metrics", "models", "objective", "solvers")
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"majorant.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'majorant' has no attribute {name!r}")
    value = getattr(import_module(f"majorant.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__version__ = "0.2.0"

__all__ = [
    "BFGS",
    "LBFGS",
    "SGD",
    "BatchMajorization",
    "Binary",
    "Chain",
    "ChainCRF",
    "Checkpoint",
    "Choices",
    "Chunks",
    "ConditionalLogit",
    "ConjugateGradient",
    "EarlyStopping",
    "Enumerated",
    "Labelled",
    "LatentChain",
    "LatentChainCRF",
    "LatentClassLogit",
    "LatentEnumerated",
    "LatentLogisticRegression",
    "LatentMultinomial",
    "LinearProbe",
    "LogisticRegression",
    "LogisticRegressionCV",
    "LowRankStochasticMajorization",
    "Multinomial",
    "Newton",
    "Npy",
    "Objective",
    "OnlineMajorization",
    "Outcome",
    "Parquet",
    "ProximalMajorization",
    "QuadraticBound",
    "QuasiNewton",
    "Restarts",
    "Result",
    "Solution",
    "Source",
    "SteepestDescent",
    "StochasticMajorization",
    "Svmlight",
    "Threads",
    "Trace",
    "curvature",
    "data",
    "datasets",
    "design",
    "held_out",
    "log_partition_bound",
    "logistic_regression_path",
    "metrics",
    "minimize",
    "minimize_from",
    "models",
    "objective",
    "on_device",
    "plot",
    "solvers",
    "tune",
]
