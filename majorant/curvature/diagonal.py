"""Σ ⪯ diag(D): the cheapest bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from majorant._checks import Array
from majorant.curvature.base import Curvature, Factors, ridge_vector


@dataclass(frozen=True, eq=False)
class Diagonal(Curvature):
    """A non-negative vector D; a term q qᵀ is dominated by diag(|q| ‖q‖₁)."""

    entries: Array
    majorizes: bool

    @classmethod
    def of(cls, factors: Factors) -> Diagonal:
        """Absorb the factors of a batch: D = Σ |q| ‖q‖₁."""
        return cls(factors.diagonal(), factors.majorizes)

    @property
    def size(self) -> int:
        """Number of parameters d."""
        return len(self.entries)

    def matvec(self, v: Array) -> Array:
        """Return Dv."""
        return self.entries * v

    def solve(self, b: Array, ridge: float | Array = 0.0) -> Array:
        """Return b / (D + ridge), zero where there is no curvature at all."""
        total = self.entries + ridge_vector(ridge, self.size)
        return np.divide(b, total, out=np.zeros_like(total), where=total > 0)

    def as_matrix(self) -> Array:
        """Return diag(D)."""
        return np.diag(self.entries)

    def __add__(self, other: Curvature) -> Curvature:
        if isinstance(other, Diagonal):
            return Diagonal(self.entries + other.entries, self.majorizes and other.majorizes)
        return other + self
