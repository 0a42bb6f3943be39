"""Gram matrices of sparse rows, compiled by Numba."""

from __future__ import annotations

import numpy as np

from majorant._checks import Array
from majorant.kernels.compiler import compile_strict


@compile_strict
def csr_grams(data: Array, indices: Array, indptr: Array, weights: Array, p: int) -> Array:
    """Return Σ_j weights[j, k] x_j x_jᵀ for every k, upper triangles only, as a (p, p, m) array.

    Column indices must be sorted within each row.
    """
    m = weights.shape[1]
    grams = np.zeros((p, p, m))
    for j in range(len(indptr) - 1):
        for a in range(indptr[j], indptr[j + 1]):
            for b in range(a, indptr[j + 1]):
                product = data[a] * data[b]
                cell = grams[indices[a], indices[b]]
                for k in range(m):
                    cell[k] += weights[j, k] * product
    return grams
