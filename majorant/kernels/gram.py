"""Gram matrices of sparse rows, compiled by Numba."""

from __future__ import annotations

from majorant._checks import Array
from majorant.kernels.compiler import compile_strict
from majorant.kernels.sparse import Csr


@compile_strict
def add_csr_grams(X: Csr, weights: Array, first: int, last: int, grams: Array) -> None:
    """Add Σ_j weights[j, k] x_j x_jᵀ for every k to a (p, p, m) array: upper triangles, of their rows some.

    Column indices must be sorted within each row.
    """
    m = weights.shape[1]
    for j in range(len(X.indptr) - 1):
        for a in range(X.indptr[j], X.indptr[j + 1]):
            if X.indices[a] < first:
                continue
            if X.indices[a] >= last:
                break
            for b in range(a, X.indptr[j + 1]):
                product = X.data[a] * X.data[b]
                cell = grams[X.indices[a], X.indices[b]]
                for k in range(m):
                    cell[k] += weights[j, k] * product
