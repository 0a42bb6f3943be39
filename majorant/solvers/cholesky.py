"""Factors of precisions that rounding may have made indefinite: a stream must not end because a column is large."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.lapack import dpotri

from majorant._checks import Array

# What is added to the diagonal, relative to itself, where a factor does not exist: more each time.
JITTER = 1e-14
GROWTH = 100.0


def factorised(A: Array, classes: int = 1) -> tuple[Array, bool]:
    """Return a Cholesky factor of A for SciPy's ``cho_solve``; a share of its diagonal is added until there is one.

    Only the lower triangle of A is read. Of several ``classes`` the direction in which all move together is grounded:
    nothing but the prior resists there, which is lost to rounding beside large columns; but no step goes there either.
    """
    A = grounded(A, classes) if classes > 1 else A
    share = 0.0
    while share < 1:
        try:
            return cho_factor(_with_jitter(A, share), lower=True, check_finite=False)
        except LinAlgError:
            share = max(GROWTH * share, JITTER * len(A))
    return np.diag(np.sqrt(np.abs(np.diagonal(A)))), True


def inverse(factor: tuple[Array, bool]) -> Array:
    """Return A⁻¹, both triangles."""
    lower = np.tril(dpotri(factor[0], lower=1)[0])
    return lower + np.tril(lower, -1).T


def solve(factor: tuple[Array, bool], b: Array) -> Any:
    """Return A⁻¹b."""
    return cho_solve(factor, b, check_finite=False)


def grounded(A: Array, classes: int, columns: Array | None = None) -> Array:
    """Return A with curvature along the direction in which the coefficients of a column move together in all classes.

    Softmax scores do not change along it, so a model has none there. All columns are grounded, or those given.
    """
    n, p = classes, len(A) // classes
    each = np.arange(p) if columns is None else columns
    strength = np.diagonal(A).reshape(n, p).mean(axis=0)[each] / n
    result = A.copy().reshape(n, p, n, p)
    result[:, each, :, each] += strength[:, None, None]
    return result.reshape(A.shape)


def _with_jitter(A: Array, share: float) -> Array:
    if share == 0.0:
        return A
    A = A.copy()
    A.flat[:: len(A) + 1] += share * np.maximum(np.diagonal(A), np.finfo(np.float64).tiny)
    return A
