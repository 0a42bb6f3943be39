"""A diagonal, but for a Gram matrix on some of the columns: for data too wide for a whole one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from majorant._checks import Array
from majorant.curvature.base import Curvature, Solve, ridge_vector
from majorant.curvature.dense import Dense, add_as_matrices


@dataclass(frozen=True, eq=False)
class Patched(Curvature):
    """diag(D) for n classes of p columns, with I ⊗ G in the place of some columns of every class."""

    entries: Array  # (n, p)
    columns: Array
    gram: Array
    majorizes: bool = False

    @property
    def size(self) -> int:
        """Number of parameters d = np."""
        return self.entries.size

    def matvec(self, v: Array) -> Array:
        """Return Σv."""
        V = v.reshape(self.entries.shape)
        result = self.entries * V
        result[:, self.columns] = V[:, self.columns] @ self.gram
        return result.ravel()

    def factorized(self, ridge: float | Array = 0.0) -> Solve:
        """Return (Σ + diag(ridge))⁻¹ as a function; on the patch with the mean of the ridge over classes."""
        λ = ridge_vector(ridge, self.size).reshape(self.entries.shape)
        patch = Dense(self.gram, majorizes=False).factorized(λ.mean(axis=0)[self.columns])
        return PatchedSolve(self.entries + λ, self.columns, patch)

    def as_matrix(self) -> Array:
        """Return Σ as a d×d array."""
        n, p = self.entries.shape
        whole = np.diag(self.entries.ravel()).reshape(n, p, n, p)
        for c in range(n):
            whole[c, self.columns[:, None], c, self.columns] = self.gram
        return whole.reshape(n * p, n * p)

    def __add__(self, other: Curvature) -> Curvature:
        return add_as_matrices(self, other)


@dataclass(frozen=True, eq=False)
class PatchedSolve:
    """Divides by the diagonal, and solves on the patch."""

    entries: Array
    columns: Array
    patch: Solve

    def __call__(self, b: Array) -> Array:
        """Return Σ⁻¹b, zero where there is no curvature at all."""
        B = b.reshape(self.entries.shape)
        out = np.divide(B, self.entries, out=np.zeros_like(B), where=self.entries > 0)
        out[:, self.columns] = self.patch(B[:, self.columns].T).T
        return out.ravel()
