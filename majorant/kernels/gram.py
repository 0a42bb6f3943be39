"""Gram matrices of sparse rows, compiled by Numba."""

from __future__ import annotations

import numpy as np

from majorant._checks import Array
from majorant.kernels.compiler import compile_strict
from majorant.kernels.sparse import Csr


@compile_strict
def add_csr_gram(X: Csr, weight: Array, first: int, last: int, G: Array) -> None:
    """Add Σ_j w_j x_j x_jᵀ to a p×p array: its upper triangle, and of that the rows from first to last.

    Column indices must be sorted within each row.
    """
    for j in range(len(X.indptr) - 1):
        end = np.uint64(X.indptr[j + 1])  # unsigned loops are quicker
        for a in range(np.uint64(X.indptr[j]), end):
            i = X.indices[a]
            if i < first:
                continue
            if i >= last:
                break
            row, scaled = G[i], weight[j] * X.data[a]
            for b in range(a, end):
                row[X.indices[b]] += scaled * X.data[b]


@compile_strict
def csr_gram_diagonal(X: Csr, weight: Array, D: Array) -> None:
    """Write the diagonal of Σ_j w_j x_j x_jᵀ."""
    D[:] = 0.0
    for j in range(len(X.indptr) - 1):
        for k in range(np.uint64(X.indptr[j]), np.uint64(X.indptr[j + 1])):
            D[np.uint64(X.indices[k])] += weight[j] * X.data[k] * X.data[k]
