"""Log-linear models: what turns parameters and data into scores, and scores into losses and bounds."""

from majorant.models.base import Model, RowModel
from majorant.models.binary import Binary
from majorant.models.chain import Chain
from majorant.models.enumerated import Enumerated
from majorant.models.latent import Latent
from majorant.models.latent_chain import LatentChain
from majorant.models.latent_enumerated import LatentEnumerated
from majorant.models.latent_multinomial import LatentMultinomial
from majorant.models.multinomial import Multinomial

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
