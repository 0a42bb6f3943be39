"""½ Σ_i λ_i θ_i², without temporaries as long as θ: on wide data those cost more than the arithmetic."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from majorant._checks import Array, finite_array


class Ridge:
    """A penalty λ_i ≥ 0 on each of ``size`` parameters, given as one number or as one for each."""

    def __init__(self, ridge: float | ArrayLike, size: int) -> None:
        values = finite_array("ridge", ridge, ndim=(0, 1)).astype(np.float64)
        if (values < 0).any():
            raise ValueError(f"ridge must be non-negative, got {float(np.min(values)):g}")
        if values.ndim == 1 and len(values) != size:
            raise ValueError(f"ridge must be one number or one per parameter ({size}), got {len(values)}")
        same = values.ndim == 0 or bool(np.all(values == values.flat[0]))
        self.values = np.broadcast_to(values.flat[0] if same else values, (size,))
        self.everywhere = bool((values > 0).all())
        self.same = same
        self.least = float(np.min(values[values > 0], initial=np.inf))  # of those that penalise

    def inner(self, a: Array, b: Array) -> float:
        """Return Σ_i λ_i a_i b_i."""
        return float(self.values[0] * (a @ b) if self.same else np.einsum("i,i,i->", self.values, a, b))

    def dual_square(self, gradient: Array) -> float:
        """Return Σ g_i²/λ_i over the penalised parameters."""
        if self.same:
            return float(gradient @ gradient / self.values[0]) if self.everywhere else 0.0
        penalised = self.values > 0
        return float(np.sum(gradient[penalised] ** 2 / self.values[penalised]))
