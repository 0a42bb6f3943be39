"""Data as models see it: rows that can be taken in blocks."""

from majorant.data.choices import Choices
from majorant.data.labelled import Labelled

__all__ = ["Choices", "Labelled"]
