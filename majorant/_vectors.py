"""What is asked of vectors at every step: NumPy's own functions take longer than a small step over it.

Vectors are arrays, or, on a device, tensors: what is asked of one is found where it is.
"""

from __future__ import annotations

from math import isfinite, sqrt
from typing import Any

import numpy as np

from majorant._checks import Array


def norm(v: Array) -> float:
    """Return ‖v‖."""
    return sqrt(float(v @ v))


def here(vector: Any) -> Array:
    """Return a vector as an array."""
    return vector if isinstance(vector, np.ndarray) else np.asarray(vector.cpu())


def beside(vector: Any, like: Any) -> Any:
    """Return a vector as another one is: in its precision, and on its device."""
    if isinstance(like, np.ndarray):
        return here(vector).astype(like.dtype, copy=False)
    return like.new_tensor(vector) if isinstance(vector, np.ndarray) else vector.to(like)


def all_finite(v: Array) -> bool:
    """Return whether every number is finite."""
    return isfinite(float(v @ v)) or bool(np.isfinite(v).all())  # squares may overflow
