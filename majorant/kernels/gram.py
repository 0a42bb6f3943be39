"""Gram matrices of sparse rows, compiled by Numba."""

from __future__ import annotations

import numpy as np

from majorant._checks import Array
from majorant.kernels.compiler import compile_strict
from majorant.kernels.sparse import Csr


@compile_strict
def csr_grams(X: Csr, weights: Array, p: int) -> Array:
    """Return Σ_j weights[j, k] x_j x_jᵀ for every k, upper triangles only, as a (p, p, m) array.

    Column indices must be sorted within each row.
    """
    m = weights.shape[1]
    grams = np.zeros((p, p, m))
    for j in range(len(X.indptr) - 1):
        for a in range(X.indptr[j], X.indptr[j + 1]):
            for b in range(a, X.indptr[j + 1]):
                product = X.data[a] * X.data[b]
                cell = grams[X.indices[a], X.indices[b]]
                for k in range(m):
                    cell[k] += weights[j, k] * product
    return grams
