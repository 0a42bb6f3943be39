"""What estimates are worth: standard errors, tables of them, functions of estimates, tests between models."""

from majorant.inference.covariance import KINDS, covariance, in_columns, inverse, row_scores, through
from majorant.inference.functions import Derived, ratio
from majorant.inference.nested import LikelihoodRatio, likelihood_ratio
from majorant.inference.summary import Facts, Summary, summarise

__all__ = [
    "KINDS",
    "Derived",
    "Facts",
    "LikelihoodRatio",
    "Summary",
    "covariance",
    "in_columns",
    "inverse",
    "likelihood_ratio",
    "ratio",
    "row_scores",
    "summarise",
    "through",
]
