"""majorant: train log-linear models without tuning.

A log-linear model gives a bound, a bound has a curvature, a solver minimises bounds.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from majorant import curvature, data, datasets, design, metrics, models, objective, solvers
    from majorant.callbacks import Checkpoint, EarlyStopping
    from majorant.chain.crf import ChainCRF
    from majorant.chain.latent import LatentChain
    from majorant.chain.latent_crf import LatentChainCRF
    from majorant.chain.model import Chain
    from majorant.chain.sklearn_crfsuite import CRF
    from majorant.choice.conditional_logit import ConditionalLogit
    from majorant.choice.enumerated import Enumerated, LatentEnumerated
    from majorant.choice.latent_class_logit import LatentClassLogit
    from majorant.choice.paired import PairedComparison
    from majorant.compilation import warm_up
    from majorant.core.ascent import OnlineMajorization
    from majorant.core.bound import QuadraticBound, log_partition_bound
    from majorant.core.choices import Choices
    from majorant.core.labelled import Labelled
    from majorant.core.objective import Objective
    from majorant.core.policy import QuasiNewton
    from majorant.core.proximal import ProximalMajorization
    from majorant.core.result import Outcome, Result, Solution, Trace
    from majorant.core.rows import Threads
    from majorant.core.run import Restarts, held_out, minimize, minimize_from
    from majorant.core.solver import BFGS, LBFGS, BatchMajorization, ConjugateGradient, Newton, SteepestDescent
    from majorant.core.stochastic import SGD, LowRankStochasticMajorization, StochasticMajorization
    from majorant.device.estimators import on_device
    from majorant.linear.latent_logistic import LatentLogisticRegression
    from majorant.linear.logistic import LogisticRegression
    from majorant.linear.logistic_cv import LogisticRegressionCV
    from majorant.linear.multinomial import Binary, LatentMultinomial, Multinomial
    from majorant.linear.path import logistic_regression_path
    from majorant.linear.probe import LinearProbe
    from majorant.maxent.balance import EntropyBalancing
    from majorant.maxent.density import MaxEnt
    from majorant.plotting import plot
    from majorant.sources import Chunks, Npy, Parquet, Source, Svmlight
    from majorant.tuning import tune

# Where the public names live. SciPy and scikit-learn take a second to import: only who asks for them pays.
_HOMES = {
    "callbacks": ("Checkpoint", "EarlyStopping"),
    "chain.crf": ("ChainCRF",),
    "chain.latent": ("LatentChain",),
    "chain.latent_crf": ("LatentChainCRF",),
    "chain.model": ("Chain",),
    "chain.sklearn_crfsuite": ("CRF",),
    "compilation": ("warm_up",),
    "choice.conditional_logit": ("ConditionalLogit",),
    "choice.enumerated": ("Enumerated", "LatentEnumerated"),
    "choice.latent_class_logit": ("LatentClassLogit",),
    "choice.paired": ("PairedComparison",),
    "core.ascent": ("OnlineMajorization",),
    "core.bound": ("QuadraticBound", "log_partition_bound"),
    "core.choices": ("Choices",),
    "core.labelled": ("Labelled",),
    "core.objective": ("Objective",),
    "core.policy": ("QuasiNewton",),
    "core.proximal": ("ProximalMajorization",),
    "core.result": ("Outcome", "Result", "Solution", "Trace"),
    "core.rows": ("Threads",),
    "core.run": ("Restarts", "held_out", "minimize", "minimize_from"),
    "core.solver": ("BFGS", "BatchMajorization", "ConjugateGradient", "LBFGS", "Newton", "SteepestDescent"),
    "core.stochastic": ("LowRankStochasticMajorization", "SGD", "StochasticMajorization"),
    "device.estimators": ("on_device",),
    "linear.latent_logistic": ("LatentLogisticRegression",),
    "linear.logistic": ("LogisticRegression",),
    "linear.logistic_cv": ("LogisticRegressionCV",),
    "linear.multinomial": ("Binary", "LatentMultinomial", "Multinomial"),
    "linear.path": ("logistic_regression_path",),
    "linear.probe": ("LinearProbe",),
    "maxent.balance": ("EntropyBalancing",),
    "maxent.density": ("MaxEnt",),
    "plotting": ("plot",),
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
    return sorted(__all__)


__version__ = "0.2.0"

__all__ = [
    "BFGS",
    "CRF",
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
    "EntropyBalancing",
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
    "MaxEnt",
    "Multinomial",
    "Newton",
    "Npy",
    "Objective",
    "OnlineMajorization",
    "Outcome",
    "PairedComparison",
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
    "warm_up",
]
