"""Data sets by name: in a folder of the user's, in a cache, or from the publisher."""

from majorant.datasets.registry import NAMES, MissingDataError, available, describe, load

__all__ = ["NAMES", "MissingDataError", "available", "describe", "load"]
