"""The only functions that touch a design matrix X (t×p, dense or CSR): everything else sees scores.

Parameters of a class model are a matrix W (n×p), scores are class-major (n×t).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from majorant._checks import Array

# Rows are taken so many scalars at a time: the weighted copies of X then stay in cache.
CHUNK = 2**19
# Above this density a CSR block is multiplied faster as a dense one.
DENSE_ENOUGH = 0.25


class WithConstant:
    """A dense X with a last column of ones, which is not stored."""

    def __init__(self, X: Array) -> None:
        self.X = X
        self.shape = (X.shape[0], X.shape[1] + 1)
        self.dtype = X.dtype

    def __getitem__(self, rows: Any) -> WithConstant:
        return WithConstant(self.X[rows])

    def toarray(self) -> Array:
        """Return X with the column written out."""
        return np.column_stack([self.X, np.ones(len(self.X), dtype=self.dtype)])


def project(X: Any, W: Array) -> Array:
    """Return the scores W Xᵀ (n×t) in float64, multiplied in the precision of X."""
    if isinstance(X, WithConstant):
        return project(X.X, W[:, :-1]) + W[:, -1:]
    W = W.astype(X.dtype, copy=False)
    if sp.issparse(X):
        return np.ascontiguousarray((X @ W.T).T, dtype=np.float64)
    return (W @ X.T).astype(np.float64, copy=False)


def pull_back(X: Any, R: Array) -> Array:
    """Return R X (n×p) in float64: residuals on scores become a gradient on parameters."""
    if isinstance(X, WithConstant):
        return np.column_stack([pull_back(X.X, R), R.sum(axis=1)])
    R = R.astype(X.dtype, copy=False)
    G = (X.T @ R.T).T if sp.issparse(X) else R @ X
    return np.asarray(G, dtype=np.float64)


def weighted_gram(X: Any, B: Array, dtype: Any = np.float64) -> Array:
    """Return Σ_j B[:, :, j] ⊗ x_j x_jᵀ, an (np×np) matrix, for symmetric B of shape (n, n, t).

    A dense X may be multiplied in another precision, where n = 1. Cost: n(n+1)/2 weighted Gram products of X (BLAS 3),
    or as many sums over the pairs of non-zeros in a row.
    """
    n, p = len(B), X.shape[1]
    grams = _sparse_grams(X, B) if _worth_sparse(X) else _dense_grams(X, B, dtype)
    full = np.empty((n, p, n, p))
    for c in range(n):
        for e in range(c, n):
            full[c, :, e] = full[e, :, c] = grams[c, e]
    return full.reshape(n * p, n * p)


def columns(X: Any, which: Array) -> Any:
    """Return some columns, given in rising order."""
    if len(which) == X.shape[1]:
        return X
    if isinstance(X, WithConstant):
        stored = X.X[:, which[which < X.shape[1] - 1]]
        return stored if stored.shape[1] == len(which) else WithConstant(stored)
    return X[:, which]


def multiply(X: Any, M: Array) -> Array:
    """Return X M for a p×k array."""
    return X.X @ M[:-1] + M[-1] if isinstance(X, WithConstant) else X @ M


def dense(X: Any) -> Array:
    """Return X as a float64 array."""
    return np.asarray(_written_out(X), dtype=np.float64)


def absolute(X: Any) -> tuple[Any, Array]:
    """Return |X| and the sum of each of its rows."""
    if isinstance(X, WithConstant):
        magnitude, total = absolute(X.X)
        return WithConstant(magnitude), total + 1.0
    magnitude = abs(X)
    return magnitude, np.asarray(magnitude.sum(axis=1), dtype=np.float64).ravel()


def squared(X: Any) -> Any:
    """Return X with every entry squared."""
    if isinstance(X, WithConstant):
        return WithConstant(X.X**2)
    return X.power(2) if sp.issparse(X) else X**2


def outer_rows(L: Array, X: Any) -> Array:
    """Return the rows Σ_c L[y, c, j] e_c ⊗ x_j, one for each row j and outcome y, as a (t·m)×(np) matrix."""
    m, n, t = L.shape
    rows = np.einsum("ycj,jp->jycp", L, dense(X), optimize=False)
    return np.ascontiguousarray(rows).reshape(t * m, n * X.shape[1])


def _written_out(X: Any) -> Array:
    return X if isinstance(X, np.ndarray) else X.toarray()


def _worth_sparse(X: Any) -> bool:
    return sp.issparse(X) and X.nnz < DENSE_ENOUGH * X.shape[0] * X.shape[1]


def _dense_grams(X: Any, B: Array, dtype: Any) -> Array:
    n, p = len(B), X.shape[1]
    grams = np.zeros((n, n, p, p))
    step = max(CHUNK // (n * p), 128)
    for start in range(0, X.shape[0], step):
        x = _written_out(X[start : start + step])
        if n == 1 and (B >= 0).all():  # a square: half the work
            root = x * np.sqrt(B[0, 0, start : start + step, None]).astype(x.dtype, copy=False)
            root = root.astype(dtype, copy=False)
            grams[0, 0] += root.T @ root
            continue
        xt = np.ascontiguousarray(x.T)
        b = B[:, :, start : start + step].astype(x.dtype, copy=False)
        for c in range(n):
            weighted = (b[c, c:, None] * xt).reshape(-1, len(x))
            grams[c, c:] += (weighted @ x).reshape(n - c, p, p)
    return grams


def _sparse_grams(X: Any, B: Array) -> Array:
    from majorant.kernels import compiled

    n, p = len(B), X.shape[1]
    upper = np.triu_indices(n)
    weights = np.ascontiguousarray(B[upper].T)
    pairs = compiled.csr_grams(X.data, X.indices, X.indptr, weights, p)
    grams = np.empty((n, n, p, p))
    for k, (c, e) in enumerate(zip(*upper, strict=True)):
        triangle = pairs[:, :, k]
        grams[c, e] = triangle + np.triu(triangle, 1).T
    return grams
