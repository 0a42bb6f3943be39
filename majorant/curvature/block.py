"""Σ with one block per class, each a curvature of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import block_diag

from majorant._checks import Array
from majorant.curvature.base import Curvature, Solve, ridge_vector
from majorant.curvature.dense import add_as_matrices


@dataclass(frozen=True, eq=False)
class Block(Curvature):
    """A block-diagonal curvature; blocks are curvatures of any shape, of equal size."""

    parts: tuple[Curvature, ...]
    majorizes: bool = False

    @property
    def size(self) -> int:
        """Number of parameters, of all blocks together."""
        return sum(part.size for part in self.parts)

    def matvec(self, v: Array) -> Array:
        """Return Σv, block by block."""
        return np.concatenate([part.matvec(x) for part, x in self._with_parts(v)])

    def factorized(self, ridge: float | Array = 0.0) -> Solve:
        """Return (Σ + diag(ridge))⁻¹ as a function."""
        ridges = self._with_parts(ridge_vector(ridge, self.size))
        return BlockSolve(tuple(part.factorized(each) for part, each in ridges))

    def as_matrix(self) -> Array:
        """Return Σ as a d×d array."""
        return block_diag(*(part.as_matrix() for part in self.parts))

    def compact(self) -> Array:
        """Return the blocks, (n, p, p)."""
        return np.stack([part.as_matrix() for part in self.parts])

    def with_parts(self, parts: Iterable[Curvature]) -> Block:
        """Return other blocks in the place of these."""
        return Block(tuple(parts), self.majorizes)

    def __add__(self, other: Curvature) -> Curvature:
        if isinstance(other, Block) and len(other.parts) == len(self.parts):
            parts = tuple(a + b for a, b in zip(self.parts, other.parts, strict=True))
            return Block(parts, self.majorizes and other.majorizes)
        return add_as_matrices(self, other)

    def _with_parts(self, v: Array) -> Iterator[tuple[Curvature, Array]]:
        return zip(self.parts, v.reshape(len(self.parts), -1), strict=True)


@dataclass(frozen=True, eq=False)
class BlockSolve:
    """Solves block by block."""

    parts: tuple[Solve, ...]

    def __call__(self, b: Array) -> Array:
        """Return Σ⁻¹b."""
        pairs = zip(self.parts, b.reshape(len(self.parts), -1), strict=True)
        return np.concatenate([solve(part) for solve, part in pairs])
