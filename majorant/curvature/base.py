"""What a curvature is, and what it is made from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from majorant._checks import Array

Solve: TypeAlias = Callable[[Array], Array]
# λ ↦ (Σ + diag(λ))⁻¹: a curvature that has been found, for whatever ridge there is
Factorize: TypeAlias = Callable[[Array], Solve]


class Curvature(ABC):
    """A positive semi-definite d×d operator Σ: the second-order term of a quadratic, or what steps are scaled by.

    ``majorizes`` says whether ½δᵀΣδ is guaranteed to dominate (a bound), or whether every step has to be checked.
    """

    majorizes: bool

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of parameters d."""

    @abstractmethod
    def matvec(self, v: Array) -> Array:
        """Return Σv."""

    @abstractmethod
    def factorized(self, ridge: float | Array = 0.0) -> Solve:
        """Return (Σ + diag(ridge))⁻¹ as a function, for many right-hand sides.

        Where that is singular it gives one of the solutions, for those in its range.
        """

    def solve(self, b: Array, ridge: float | Array = 0.0) -> Array:
        """Return (Σ + diag(ridge))⁻¹ b."""
        return self.factorized(ridge)(b)

    @abstractmethod
    def as_matrix(self) -> Array:
        """Return Σ as a d×d array."""

    def compact(self) -> Array:
        """Return Σ in the shape it is kept in: (d, d), (n, p, p) for blocks, or (d,) for a diagonal."""
        return self.as_matrix()

    @abstractmethod
    def __add__(self, other: Curvature) -> Curvature:
        """Return Σ + Σ'. Exact; only low-rank sums recompress (and still majorize)."""


class Factors(ABC):
    """The curvature of one batch before it has a shape: Σ = Σ_j w_j F_jᵀ B_j F_j, B_j from scores alone.

    Dense, low-rank, diagonal and Kronecker curvatures are different ways to absorb the same factors.
    ``majorizes`` is True when the B_j come from the bound, False when they are Hessians.
    """

    majorizes: bool

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of parameters d."""

    @abstractmethod
    def matrix(self) -> Array:
        """Return Σ itself (d×d)."""

    @abstractmethod
    def rows(self) -> Iterator[Array]:
        """Yield blocks of rows q (m×d) with Σ = Σ q qᵀ."""

    @abstractmethod
    def diagonal(self) -> Array:
        """Return ``Σ |q| ‖q‖₁`` over the rows q (d): as a diagonal matrix it dominates Σ."""

    @abstractmethod
    def kronecker(self, weigh: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Return (I_n, Σ_j w_j weigh(B_j) x_j x_jᵀ), where the model has that structure."""

    @abstractmethod
    def fixed(self) -> tuple[Array, Array]:
        """Return the factors (n×n, p×p) of Böhning's bound, which holds at every parameter at once."""


Form: TypeAlias = Callable[[Factors], Curvature]

# Rows of factors are written out so many scalars at a time.
FACTOR_BLOCK = 2**22


def is_nothing(ridge: float | Array) -> bool:
    """Return whether a ridge is the number zero."""
    return np.ndim(ridge) == 0 and ridge == 0


def ridge_vector(ridge: float | Array, size: int) -> Array:
    """Return the ridge as one non-negative number per parameter."""
    return np.broadcast_to(np.asarray(ridge, dtype=np.float64), (size,))
