"""Blocks of parameters that never meet in an outcome, some that all of them meet, and one direction for each row.

The Hessian of log Z_j is Σ_y p(y) f(y) f(y)ᵀ − f̄ f̄ᵀ with f̄ = Σ_y p(y) f(y). Where an outcome touches few parameters,
those of its own block and those that all share, the first part is an *arrow*: blocks on the diagonal, with a border.
The second is one direction for each row. With A the arrow and M the rows √w_j f̄_j (Woodbury's identity)

    (A − MᵀM)⁻¹ = A⁻¹ + N (I − MN)⁻¹ Nᵀ,      N = A⁻¹Mᵀ,

so that t rows of d parameters take t²d operations and no d×d matrix.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dtrtrs

from majorant._checks import Array
from majorant.curvature.base import Curvature, ridge_vector
from majorant.curvature.cholesky import GROWTH, JITTER, Factor, steady_factor
from majorant.curvature.dense import add_as_matrices, refuse_large


@dataclass(frozen=True, eq=False)
class Pattern:
    """Which parameters all outcomes may share (k), and which belong to each of m blocks.

    ``blocks`` (m×b) holds parameters by number; where a block has fewer than b, the number d fills it up.
    """

    size: int
    shared: Array
    blocks: Array

    @property
    def missing(self) -> Array:
        """Where blocks have been filled up."""
        return self.blocks == self.size

    def split(self, V: Array) -> tuple[Array, Array]:
        """Return the rows of V (d×r) that are shared (k×r), and those of the blocks (m×b×r)."""
        filled = np.concatenate([V, np.zeros((1, V.shape[1]))])
        return V[self.shared], filled[self.blocks]

    def joined(self, shared: Array, blocks: Array) -> Array:
        """Return what :meth:`split` has split (d×r)."""
        V = np.zeros((self.size + 1, blocks.shape[2]))
        V[self.shared], V[self.blocks.ravel()] = shared, blocks.reshape(-1, blocks.shape[2])
        return V[:-1]


@dataclass(frozen=True, eq=False)
class Arrow(Curvature):
    """Σ = A − MᵀM, with A an arrow: ``shared`` (k×k), ``cross`` (m×k×b) and ``blocks`` (m×b×b); ``rows`` are M (t×d).

    It is positive semi-definite as a whole, as Hessians are.
    """

    pattern: Pattern
    shared: Array
    cross: Array
    blocks: Array
    rows: Array
    majorizes: bool = False

    @property
    def size(self) -> int:
        """Number of parameters d."""
        return self.pattern.size

    def matvec(self, v: Array) -> Array:
        """Return Σv."""
        s, b = self.pattern.split(v[:, None])
        of_shared = self.shared @ s + (self.cross @ b).sum(axis=0)
        of_blocks = np.swapaxes(self.cross, 1, 2) @ s + self.blocks @ b
        return self.pattern.joined(of_shared, of_blocks)[:, 0] - self.rows.T @ (self.rows @ v)

    def diagonal(self) -> Array:
        """Return the diagonal of A."""
        shared, blocks = np.diagonal(self.shared), np.diagonal(self.blocks, axis1=1, axis2=2)
        return self.pattern.joined(shared[:, None], blocks[:, :, None])[:, 0]

    def factorized(self, ridge: float | Array = 0.0) -> ArrowSolve:
        """Return (Σ + diag(ridge))⁻¹, or that of one with so much more on its diagonal that it has a factor."""
        λ, A = ridge_vector(ridge, self.size), self.diagonal()
        scale = np.sqrt(np.where(A + λ > 0, A + λ, 1.0))
        scaled = self._scaled_by(scale, λ)
        share = 0.0
        while True:
            try:
                return _factorized(scaled, scale, share)
            except LinAlgError:  # columns of a block that depend on each other
                share = max(GROWTH * share, JITTER * self.pattern.blocks.shape[1])

    def as_matrix(self) -> Array:
        """Return Σ as a d×d array."""
        refuse_large(self.size, "an arrow written out")
        d, pattern = self.size, self.pattern
        A = np.zeros((d + 1, d + 1))
        A[np.ix_(pattern.shared, pattern.shared)] = self.shared
        A[pattern.shared[None, :, None], pattern.blocks[:, None]] = self.cross
        A[pattern.blocks[:, None], pattern.shared[None, :, None]] = self.cross
        A[pattern.blocks[:, :, None], pattern.blocks[:, None]] = self.blocks
        return A[:d, :d] - self.rows.T @ self.rows

    def __add__(self, other: Curvature) -> Curvature:
        if not isinstance(other, Arrow) or other.pattern is not self.pattern:
            return add_as_matrices(self, other)
        return replace(
            self,
            shared=self.shared + other.shared,
            cross=self.cross + other.cross,
            blocks=self.blocks + other.blocks,
            rows=np.concatenate([self.rows, other.rows]),
        )

    def _scaled_by(self, scale: Array, ridge: Array) -> Arrow:
        """Return the same, ridge included, with a unit diagonal of A; what fills blocks up gets one as well."""
        s, b = (each[..., 0] for each in self.pattern.split(scale[:, None]))
        λ_s, λ_b = (each[..., 0] for each in self.pattern.split(ridge[:, None]))
        b = np.where(self.pattern.missing, 1.0, b)
        blocks = self.blocks / (b[:, :, None] * b[:, None])
        empty = np.diagonal(blocks, axis1=1, axis2=2) + λ_b / b**2 == 0
        blocks[:, range(b.shape[1]), range(b.shape[1])] += λ_b / b**2 + empty
        shared = self.shared / np.outer(s, s) + np.diag(λ_s / s**2)
        cross = self.cross / (s[None, :, None] * b[:, None])
        return replace(self, shared=shared, cross=cross, blocks=blocks, rows=self.rows / scale)


def _factorized(scaled: Arrow, scale: Array, share: float) -> ArrowSolve:
    """Return the inverse of an arrow with a unit diagonal, of which a share is added to that of its blocks."""
    b = scaled.blocks.shape[1]
    L = np.linalg.cholesky(scaled.blocks + share * np.eye(b))
    roots = np.linalg.solve(L, np.broadcast_to(np.eye(b), L.shape))
    inverses = np.swapaxes(roots, 1, 2) @ roots
    through = scaled.cross @ inverses
    border = steady_factor(scaled.shared - (through @ np.swapaxes(scaled.cross, 1, 2)).sum(axis=0))
    of_arrow = ArrowSolve(scaled.pattern, scale, inverses, through, border, scaled.rows, np.empty(0), None)
    if not len(scaled.rows):
        return of_arrow
    N = of_arrow.without_rows(scaled.rows.T)
    left = np.eye(len(scaled.rows)) - scaled.rows @ N
    return replace(of_arrow, beyond=N, left=steady_factor(left))


@dataclass(frozen=True, eq=False)
class ArrowSolve:
    """(A − MᵀM)⁻¹ as a function, coordinates scaled."""

    pattern: Pattern
    scale: Array
    inverses: Array  # of the blocks
    through: Array  # cross · inverses
    border: Factor  # of what is left of the shared part
    rows: Array
    beyond: Array  # N
    left: Factor | None  # of I − MN

    def __call__(self, b: Array) -> Array:
        """Return Σ⁻¹b."""
        y = self.without_rows((b / self.scale)[:, None])[:, 0]
        if self.left is not None:
            y = y + self.beyond @ self.left(self.rows @ y)
        return y / self.scale

    def without_rows(self, V: Array) -> Array:
        """Return A⁻¹V, coordinates scaled."""
        s, b = self.pattern.split(V)
        of_shared = self.border(s - (self.through @ b).sum(axis=0)) if len(s) else s
        of_blocks = self.inverses @ b - np.swapaxes(self.through, 1, 2) @ of_shared
        return self.pattern.joined(of_shared, of_blocks)

    def inverse_diagonal(self) -> Array:
        """Return the diagonal of Σ⁻¹: variances, if Σ is a Hessian."""
        k = len(self.pattern.shared)
        border = self.border.inverse() if k else np.zeros((0, 0))
        of_blocks = np.diagonal(self.inverses, axis1=1, axis2=2).copy()
        of_blocks += np.einsum("mkb,kl,mlb->mb", self.through, border, self.through, optimize=True)
        found = self.pattern.joined(np.diagonal(border)[:, None], of_blocks[:, :, None])[:, 0]
        if self.left is not None:
            found += np.square(dtrtrs(self.left.L, self.beyond.T, lower=1)[0]).sum(axis=0)
        return found / self.scale**2
