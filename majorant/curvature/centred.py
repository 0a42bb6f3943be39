"""C ⊗ S and a direction for each label: rows of one label have much in common besides what all rows have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from majorant._checks import Array
from majorant.curvature.base import Curvature, Solve
from majorant.curvature.cholesky import Factor, steady_factor
from majorant.curvature.dense import add_as_matrices
from majorant.curvature.kronecker import Kronecker, KroneckerSolve

# Of what the rows of a label have in common; if it were all, what is left of them might be less than rounding errors.
TAKEN = 0.95


@dataclass(frozen=True, eq=False)
class Centred(Curvature):
    """C ⊗ S + Σ_k (b_k ⊗ ν_k)(b_k ⊗ ν_k)ᵀ, for softmax: ν_k is the centre of the rows of label k.

    The Hessian is Σ_j B_j ⊗ x_j x_jᵀ. In C ⊗ G every row weighs on all classes alike, but those of label k weigh on
    theirs: their share of it is close to b_k b_kᵀ ⊗ ν_k ν_kᵀ, with b_k the column k of Σ_j B_j over them over the root
    of its own entry. What is left of G is S, so that nothing counts twice.

    Parameters
    ----------
    classes : array of shape (n, n)
    features : array of shape (p, p)
        S.
    directions : array of shape (m, n)
        The b_k.
    centres : array of shape (m, p)
        The ν_k.
    """

    classes: Array
    features: Array
    directions: Array
    centres: Array
    majorizes: bool = False

    @classmethod
    def of(cls, C: Array, G: Array, columns: Array, weight: Array, sums: Array) -> Centred:
        """Return that of Σ_j B_j, and Σ_j w_j x_j x_jᵀ with w_j = tr(B_j)/(n − 1), whose size is the one that counts.

        Of the rows of each label, or of none, there are column k of Σ_j B_j, Σ_j w_j and Σ_j w_j x_j.
        """
        n = len(C)
        own = columns.diagonal()
        there = (own > 0) & (weight > 0)
        b = np.sqrt(TAKEN) * columns[there] / np.sqrt(own[there])[:, None]
        ν = sums[there] / weight[there][:, None]
        taken = np.einsum("kc,kc->k", b, b) / max(n - 1, 1)
        return cls(*balanced(C, G - (ν * taken[:, None]).T @ ν), b, ν)

    @property
    def size(self) -> int:
        """Number of parameters d = np."""
        return len(self.classes) * len(self.features)

    def matvec(self, v: Array) -> Array:
        """Return Σv."""
        V = v.reshape(len(self.classes), -1)
        along = np.einsum("kp,kp->k", self.directions @ V, self.centres)
        return self._rest.matvec(v) + (self.directions.T @ (along[:, None] * self.centres)).ravel()

    def factorized(self, ridge: float | Array = 0.0) -> Solve:
        """Return (Σ + diag(ridge))⁻¹ as a function."""
        return self._corrected(self._rest.factorized(ridge))

    def nearly_factorized(self, ridge: float | Array) -> Solve:
        """Return about (Σ + diag(ridge))⁻¹ as a function, to scale steps by: C ⊗ S as there."""
        return self._corrected(self._rest.nearly_factorized(ridge))

    def as_matrix(self) -> Array:
        """Return Σ as a d×d array."""
        U = np.einsum("kc,kp->kcp", self.directions, self.centres).reshape(len(self.centres), self.size)
        return self._rest.as_matrix() + U.T @ U

    def __add__(self, other: Curvature) -> Curvature:
        return add_as_matrices(self, other)

    @property
    def _rest(self) -> Kronecker:
        return Kronecker(self.classes, self.features, self.majorizes)

    def _corrected(self, rest: Solve) -> Solve:
        assert isinstance(rest, KroneckerSolve)
        if not len(self.centres):
            return rest
        b = self.directions if rest.basis is None else self.directions @ rest.basis
        solved = tuple(solve(self.centres.T).T for _, solve in rest.groups)
        inner = np.eye(len(b))
        for (rows, _), of_centres in zip(rest.groups, solved, strict=True):
            inner += (b[:, rows] @ b[:, rows].T) * (self.centres @ of_centres.T)
        return CentredSolve(rest, b, self.centres, solved, steady_factor(inner))


@dataclass(frozen=True, eq=False)
class CentredSolve:
    """Σ₀⁻¹ less Σ₀⁻¹U(I + UᵀΣ₀⁻¹U)⁻¹UᵀΣ₀⁻¹, with Σ₀ a Kronecker product, where classes are rotated once for both.

    Σ₀⁻¹U is known: another solve would take as long as the first.
    """

    rest: KroneckerSolve
    directions: Array  # where C is diagonal
    centres: Array
    solved: tuple[Array, ...]  # centres, times the inverse of each group
    inner: Factor

    def __call__(self, b: Array) -> Array:
        """Return the solution."""
        return self.several(b[None])[0]

    def several(self, B: Array) -> Array:
        """Return the solutions of several rows."""
        R = self.rest.apart(self.rest.rotated(B))
        n, k, p = R.shape
        found = (self.directions @ R.reshape(n, -1)).reshape(-1, k, p)
        along = self.inner(np.einsum("mkp,mp->mk", found, self.centres))
        for (rows, _), of_centres in zip(self.rest.groups, self.solved, strict=True):
            R[rows] -= (self.directions.T[rows, None] * along.T) @ of_centres
        return self.rest.rotated_back(R)


def balanced(C: Array, features: Array) -> tuple[Array, Array]:
    """Return the class matrix with a trace of n − 1: how much there is in all, the features say."""
    n = len(C)
    if n == 1:
        return np.ones((1, 1)), features
    total = float(np.trace(C)) / (n - 1)
    return C / total if total > 0 else np.eye(n), features
