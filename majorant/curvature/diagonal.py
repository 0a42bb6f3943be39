"""Σ ⪯ diag(D): the cheapest bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from majorant._checks import Array
from majorant.curvature.base import Curvature, Factors, Solve, ridge_vector


@dataclass(frozen=True, eq=False)
class Diagonal(Curvature):
    """A non-negative vector D; a term q qᵀ is dominated by ``diag(|q| ‖q‖₁)``.

    Parameters
    ----------
    entries : array of shape (d,)
    majorizes : bool
        Whether it is known to dominate.

    Examples
    --------
    >>> Diagonal(np.array([1.0, 3.0]), majorizes=True).solve(np.array([2.0, 2.0]), ridge=1.0)
    array([1. , 0.5])
    """

    entries: Array
    majorizes: bool

    @classmethod
    def of(cls, factors: Factors) -> Diagonal:
        """Return what dominates the factors of a batch: ``D = Σ |q| ‖q‖₁``."""
        return cls(factors.diagonal(), factors.majorizes)

    @property
    def size(self) -> int:
        """Number of parameters d."""
        return len(self.entries)

    def matvec(self, v: Array) -> Array:
        """Return Dv."""
        return self.entries * v

    def factorized(self, ridge: float | Array = 0.0) -> Solve:
        """Return the division by D + ridge."""
        return Quotient.by(self.entries + ridge_vector(ridge, self.size))

    def as_matrix(self) -> Array:
        """Return diag(D)."""
        return np.diag(self.entries)

    def compact(self) -> Array:
        """Return D."""
        return self.entries

    def __add__(self, other: Curvature) -> Curvature:
        if isinstance(other, Diagonal):
            return Diagonal(self.entries + other.entries, self.majorizes and other.majorizes)
        return other + self


@dataclass(frozen=True, eq=False)
class Quotient:
    """Divides by a diagonal, as a product with what is found once."""

    reciprocals: Array

    @classmethod
    def by(cls, entries: Array) -> Quotient:
        """Return the division by D, which gives zero where there is no curvature at all."""
        return cls(np.divide(1.0, entries, out=np.zeros_like(entries), where=entries > 0))

    def __call__(self, b: Array) -> Array:
        """Return b / D."""
        return b * self.reciprocals
