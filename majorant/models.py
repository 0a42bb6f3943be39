"""Log-linear models: what turns parameters and data into scores, and scores into losses and bounds."""

from majorant.chain.latent import LatentChain
from majorant.chain.model import Chain
from majorant.choice.enumerated import Enumerated, LatentEnumerated
from majorant.core.model import Latent, Model, RowModel
from majorant.linear.multinomial import Binary, LatentMultinomial, Multinomial

__all__ = [
    "Binary",
    "Chain",
    "Enumerated",
    "Latent",
    "LatentChain",
    "LatentEnumerated",
    "LatentMultinomial",
    "Model",
    "Multinomial",
    "RowModel",
]
