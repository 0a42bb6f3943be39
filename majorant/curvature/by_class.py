"""C ⊗ diag(g): one matrix between classes, and a number for each feature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from majorant._checks import Array
from majorant.curvature.base import Curvature, Solve, ridge_vector
from majorant.curvature.dense import add_as_matrices


@dataclass(frozen=True, eq=False)
class DiagonalByClass(Curvature):
    """A Kronecker product C ⊗ diag(g) of an n×n matrix and p numbers: classes hang together, features do not."""

    classes: Array
    features: Array
    majorizes: bool = False

    @property
    def size(self) -> int:
        """Number of parameters d = np."""
        return len(self.classes) * len(self.features)

    def matvec(self, v: Array) -> Array:
        """Return (C ⊗ diag(g))v."""
        return (self.classes @ v.reshape(len(self.classes), -1) * self.features).ravel()

    def factorized(self, ridge: float | Array = 0.0) -> Solve:
        """Return (C ⊗ diag(g) + diag(ridge))⁻¹ as a function."""
        λ = ridge_vector(ridge, self.size).reshape(len(self.classes), -1)
        if not (λ == λ[0]).all():
            raise ValueError("a curvature between classes needs the same ridge in each; use curvature='dense'")
        return self._rotated(λ[0], *eigh(self.classes, check_finite=False))

    def nearly_factorized(self, ridge: float | Array) -> Solve:
        """Return about (C ⊗ diag(g) + diag(ridge))⁻¹ as a function, to scale steps by.

        The ridge is the mean over classes, and where C has next to nothing its mean stands in.
        """
        λ = ridge_vector(ridge, self.size).reshape(len(self.classes), -1).mean(axis=0)
        return self._rotated(λ, *raised_eigenvalues(self.classes))

    def _rotated(self, ridge: Array, values: Array, basis: Array) -> RotatedQuotient:
        entries = np.multiply.outer(values, self.features) + ridge
        return RotatedQuotient(basis, np.divide(1.0, entries, out=np.zeros_like(entries), where=entries > 0))

    def as_matrix(self) -> Array:
        """Return C ⊗ diag(g) as a d×d array."""
        return np.kron(self.classes, np.diag(self.features))

    def __add__(self, other: Curvature) -> Curvature:
        return add_as_matrices(self, other)


@dataclass(frozen=True, eq=False)
class RotatedQuotient:
    """Rotates classes to where C is diagonal, and divides there."""

    basis: Array
    inverse: Array

    def __call__(self, b: Array) -> Array:
        """Return the solution."""
        rotated = self.basis.T @ b.reshape(self.inverse.shape)
        rotated *= self.inverse
        return (self.basis @ rotated).ravel()


# Of the largest eigenvalue of C: classes that were hardly ever likely have less, and would be moved too far.
LEAST = 1e-6


def raised_eigenvalues(C: Array) -> tuple[Array, Array]:
    """Return eigenvalues and eigenvectors of a matrix between classes, those of next to nothing raised.

    Scores may all move together, where C has none: the mean of the others stands there, since nothing goes there.
    """
    values, basis = np.linalg.eigh(C)  # of a few classes SciPy's takes longer to be called
    largest = max(float(values[-1]), np.finfo(np.float64).tiny)
    raised = np.maximum(values, LEAST * largest)
    if len(C) > 1:
        raised[0] = raised[1:].mean()
    return raised, basis
