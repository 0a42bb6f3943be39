"""The loss of one score against zero, on many rows; ``logistic_compiled`` has a twin of it for many more."""

from __future__ import annotations

import numpy as np

from majorant._checks import Array


def loss_and_residual(u: Array, y: Array, weight: Array | None) -> tuple[float, Array]:
    """Return Σ w log(1 + exp(∓u)) for labels 0 and 1, and w(p − y)."""
    side = 1.0 - 2.0 * y  # every call counts where rows are few
    against, e = side * u, np.exp(-np.abs(u))
    losses = np.log1p(e) + np.maximum(against, 0.0)
    residual = np.where(against > 0, side, side * e) / (1.0 + e)  # 1 − p of the label keeps its digits
    if weight is None:
        return float(losses.sum()), residual
    return float(losses @ weight), residual * weight
