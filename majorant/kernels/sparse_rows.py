"""Rows by their non-zeros times a vector, and numbers times such rows: parts of kernels that visit many of them."""

from __future__ import annotations

import numpy as np

from majorant._checks import Array
from majorant.kernels.compiler import compile_inlined
from majorant.kernels.sparse import Csr

# Non-zeros in a row from which a single sum, whose every addition waits for the one before, takes longer than four.
# Of shorter rows processors add several at a time by themselves, and what four sums leave over costs more.
LONG = 16


@compile_inlined
def are_long(X: Csr) -> bool:
    """Return whether rows are long on average."""
    return len(X.data) >= LONG * (len(X.indptr) - 1)


@compile_inlined
def times_long_row(X: Csr, W: Array, begin: np.uint64, end: np.uint64) -> float:
    """Return the product of a row and W, by four sums."""
    s0, s1, s2, s3, one = 0.0, 0.0, 0.0, 0.0, np.uint64(1)
    fours = begin + ((end - begin) & ~np.uint64(3))
    for e in range(begin, fours, np.uint64(4)):
        f, g, h = e + one, e + one + one, e + one + one + one
        s0 += X.data[e] * W[X.indices[e]]
        s1 += X.data[f] * W[X.indices[f]]
        s2 += X.data[g] * W[X.indices[g]]
        s3 += X.data[h] * W[X.indices[h]]
    for e in range(fours, end):
        s0 += X.data[e] * W[X.indices[e]]
    return (s0 + s1) + (s2 + s3)


@compile_inlined
def times_short_row(X: Csr, W: Array, begin: np.uint64, end: np.uint64) -> float:
    """Return the product of a row and W."""
    total = 0.0
    for e in range(begin, end):  # unsigned loops are quicker
        total += X.data[e] * W[X.indices[e]]
    return total


@compile_inlined
def add_row(X: Csr, r: float, begin: np.uint64, end: np.uint64, G: Array) -> None:
    """Add r times a row to G."""
    for e in range(begin, end):
        G[np.uint64(X.indices[e])] += r * X.data[e]
