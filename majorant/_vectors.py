"""What is asked of vectors at every step: NumPy's own functions take longer than a small step over it."""

from __future__ import annotations

from math import isfinite, sqrt

import numpy as np

from majorant._checks import Array


def norm(v: Array) -> float:
    """Return ‖v‖."""
    return sqrt(float(v @ v))


def all_finite(v: Array) -> bool:
    """Return whether every number is finite."""
    return isfinite(float(v @ v)) or bool(np.isfinite(v).all())  # squares may overflow
