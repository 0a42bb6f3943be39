"""Data as models see it: rows that can be taken in blocks."""

from majorant.chain.feature_index import Universe
from majorant.chain.sequences import Sequences
from majorant.core.choices import Choices
from majorant.core.labelled import Labelled
from majorant.core.rows import Data, InMemory, Order

__all__ = [
    "Choices",
    "Data",
    "InMemory",
    "Labelled",
    "Order",
    "Sequences",
    "Universe",
]
