"""Log-linear models: what turns parameters and data into scores, and scores into losses and bounds."""

from majorant.models.base import Model
from majorant.models.binary import Binary
from majorant.models.enumerated import Enumerated
from majorant.models.multinomial import Multinomial

__all__ = ["Binary", "Enumerated", "Model", "Multinomial"]
