"""log Z, its slope and its Hessian on class-major scores (n×t)."""

from __future__ import annotations

import numpy as np

from majorant._checks import Array


def log_partition(S: Array, less: Array | float = 0.0) -> Array:
    """Return log Σ_y exp S[y, j] for each row j; scores of −∞ are outcomes of zero measure.

    ``less`` is subtracted where that costs no digits: of log Z and the observed score only the difference matters.
    """
    top = S.max(axis=0)
    return np.log(np.exp(S - top).sum(axis=0)) + (top - less)


def log_partition_and_probabilities(S: Array, less: Array | float = 0.0) -> tuple[Array, Array]:
    """Return log Z (t), ``less`` subtracted, and the probabilities (n×t) with one exponential per score."""
    top = S.max(axis=0)
    P = np.exp(S - top)
    Z = P.sum(axis=0)
    P /= Z
    return np.log(Z) + (top - less), P


def hessian_matrices(S: Array) -> Array:
    """Return diag(p) − p pᵀ for each row, shape (n, n, t): the curvature of log Z at the scores."""
    P = log_partition_and_probabilities(S)[1]
    H = -P[:, None] * P[None]
    diagonal = np.arange(len(P))
    H[diagonal, diagonal] += P
    return H


def hessian_directions(S: Array) -> Array:
    """Return L[y] = √p_y (e_y − p), shape (n, n, t), so that diag(p) − p pᵀ = Σ_y L_y L_yᵀ."""
    P = log_partition_and_probabilities(S)[1]
    root = np.sqrt(P)
    L = -root[:, None] * P[None]
    diagonal = np.arange(len(P))
    L[diagonal, diagonal] += root
    return L
