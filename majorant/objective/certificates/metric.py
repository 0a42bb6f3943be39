"""H⁻¹ = RRᵀ of a Hessian found in floating point, and how much larger than H the matrix with that inverse may be."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError, eigh
from scipy.linalg.lapack import dpstrf, dtrtri

from majorant._checks import Array
from majorant.curvature.cholesky import for_large, grounded, lower_factor
from majorant.models.rounding import SAFETY
from majorant.objective.certificates.base import EPSILON

if TYPE_CHECKING:
    from majorant.objective.objective import Objective

# Eigenvalues below this share of the largest, coordinates scaled to a unit diagonal, are flat directions.
FLAT = 1e-12
# A pivot that keeps less of its diagonal entry may be rounding noise.
LEAST_PIVOT = 1e-10
# One that keeps more is far from it: where all others are noise, pivots tell flat directions as well as eigenvalues do.
CLEAR_PIVOT = 1e-6


@dataclass(frozen=True, eq=False)
class Metric:
    """A root R (d×k) of the inverse of M, and the directions that M does not see (d×m)."""

    root: Array
    flat: Array
    largest: Array  # diag(M), which rounding errors of M are measured by
    scale: Array  # √diag(M), one where that is zero: the units of parameters

    @property
    def sizes(self) -> Array:
        """√(M⁻¹)_ii."""
        return np.sqrt(np.square(self.root).sum(axis=1))

    def of(self, gradient: Array) -> float:
        """Return ‖g‖ in the metric of M⁻¹."""
        return float(np.linalg.norm(self.root.T @ gradient))

    def doubt(self, columns: Array, heaviest: float, rows: int) -> float:
        """Return η with H ⪰ (1 − η)M.

        Entries of H are off by at most κ m_i m_k, with m_i² what they are sums of before anything cancels and κ what
        sums over rows, and a factor, make of ε. With |v_i| ≤ √(M⁻¹)_ii ‖v‖_M that is at most κ (Σ_i m_i √(M⁻¹)_ii)².
        """
        d = len(self.largest)
        squares = np.maximum(heaviest * np.tile(columns**2, d // len(columns)), self.largest)
        κ = 2 * EPSILON * (SAFETY * sqrt(rows) + d + 10)
        sizes = float(np.sqrt(squares) @ self.sizes)
        return κ * sizes * sizes  # infinite where a power would raise


def metric(F: Objective, H: Array) -> Metric | None:
    """Return that of a Hessian of the loss and of what is strongly convex in the penalty; None where it is not finite.

    Softmax scores may all move together: there a model without a penalty is grounded, which nothing else feels.
    """
    together, strength = F.model.redundancy(F.like), F.penalty.strength
    A = H.copy()
    A.flat[:: len(A) + 1] += strength
    free = np.flatnonzero(~(strength > 0).reshape(together, -1).any(axis=0))
    A = grounded(A, together, free) if together > 1 and len(free) else A
    if not np.isfinite(A).all():
        return None
    diagonal = np.diagonal(A).copy()
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled = A / np.outer(scale, scale)
    with for_large(len(A)):
        found = _by_factor(scaled, scale, diagonal) or _by_pivots(scaled, scale, diagonal)
        return found or _by_eigenvalues(scaled, scale, diagonal)


def _by_factor(A: Array, scale: Array, diagonal: Array) -> Metric | None:
    try:
        L = lower_factor(A.T, clean=True)  # as LAPACK stores it
    except LinAlgError:
        return None
    if np.diagonal(L).min() ** 2 < LEAST_PIVOT:
        return None
    root = dtrtri(L, lower=1, overwrite_c=True)[0].T
    root /= scale[:, None]
    return Metric(root, np.empty((len(A), 0)), diagonal, scale)


def _by_pivots(A: Array, scale: Array, diagonal: Array) -> Metric | None:
    """Return the metric of a singular A from those columns I that the others depend on, A_{JI} A_{II}⁻¹ = C.

    Other solutions differ by flat directions, e_j − Σ_i C_ji e_i, in which neither gradients nor rows have a part. A
    tenth of the price of eigenvalues, where it is plain which columns depend on others; None where it is not.
    """
    L, places, rank, _ = dpstrf(A, tol=CLEAR_PIVOT, lower=1)
    kept, rest, below = places[:rank] - 1, places[rank:] - 1, L[rank:, :rank]
    if rank == 0 or (np.diagonal(A)[rest] - np.square(below).sum(axis=1)).max(initial=0.0) > FLAT:
        return None
    inverse = np.tril(dtrtri(L[:rank, :rank], lower=1)[0])
    root, flat = np.zeros((len(A), rank)), np.zeros((len(A), len(rest)))
    root[kept], flat[kept], flat[rest, np.arange(len(rest))] = inverse.T, -(below @ inverse).T, 1.0
    return Metric(root / scale[:, None], flat / scale[:, None], diagonal, scale)


def _by_eigenvalues(A: Array, scale: Array, diagonal: Array) -> Metric:
    values, vectors = eigh(A, check_finite=False)
    kept = values > FLAT * max(values[-1], 1e-300)
    root = vectors[:, kept] / np.sqrt(values[kept])
    return Metric(root / scale[:, None], vectors[:, ~kept] / scale[:, None], diagonal, scale)
