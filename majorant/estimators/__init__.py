"""scikit-learn estimators: the solvers of this package for people."""

from majorant.estimators.chain_crf import ChainCRF
from majorant.estimators.choice import ConditionalLogit, LatentClassLogit
from majorant.estimators.latent_chain_crf import LatentChainCRF
from majorant.estimators.latent_logistic import LatentLogisticRegression
from majorant.estimators.logistic import LogisticRegression
from majorant.estimators.logistic_cv import LogisticRegressionCV
from majorant.estimators.logistic_path import logistic_regression_path
from majorant.estimators.probe import LinearProbe
from majorant.estimators.tensors import on_device

__all__ = [
    "ChainCRF",
    "ConditionalLogit",
    "LatentChainCRF",
    "LatentClassLogit",
    "LatentLogisticRegression",
    "LinearProbe",
    "LogisticRegression",
    "LogisticRegressionCV",
    "logistic_regression_path",
    "on_device",
]
