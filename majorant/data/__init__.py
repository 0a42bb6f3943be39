"""Data as models see it: rows that can be taken in blocks."""

from majorant.data.base import Data, InMemory, Order
from majorant.data.choices import Choices
from majorant.data.labelled import Labelled
from majorant.data.sequences import Sequences
from majorant.data.universe import Universe

__all__ = ["Choices", "Data", "InMemory", "Labelled", "Order", "Sequences", "Universe"]
