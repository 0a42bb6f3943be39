"""Discrete choice: conditional logit, and hidden classes of people who choose."""

from majorant.estimators.choice.conditional_logit import ConditionalLogit
from majorant.estimators.choice.latent_class_logit import LatentClassLogit

__all__ = ["ConditionalLogit", "LatentClassLogit"]
