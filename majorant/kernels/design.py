"""The only functions that touch a design matrix X (t×p, dense or CSR): everything else sees scores.

Parameters of a class model are a matrix W (n×p), scores are class-major (n×t).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from majorant._checks import Array

# Rows are taken so many scalars at a time: the weighted copies of X then stay in cache.
CHUNK = 2**19
# Above this density a CSR block is multiplied faster as a dense one.
DENSE_ENOUGH = 0.25


class WithConstant:
    """X with its columns measured from a centre, and a last column of ones: [X − 1cᵀ, 1], neither of them stored.

    Parameters
    ----------
    X : array or CSR
        What is multiplied.
    centre : array of shape (p,), optional
        c. It does not matter to a model with a free intercept, but rounding errors are those of X, not of X − 1cᵀ.
    centred : bool
        Whether X is what is left after c has been subtracted, because those would be too large.
    source : array, optional
        Then, in single precision, what it was before.
    """

    def __init__(
        self, X: Any, centre: Array | None = None, *, centred: bool = False, source: Array | None = None
    ) -> None:
        self.X, self.centre, self.centred, self.source = X, centre, centred, source
        self.shape = (X.shape[0], X.shape[1] + 1)
        self.dtype = X.dtype

    def __getitem__(self, rows: Any) -> WithConstant:
        return self.like(self.X[rows], None if self.source is None else self.source[rows])

    def like(self, X: Any, source: Any = None) -> WithConstant:
        """Return other rows with the same centre."""
        return WithConstant(X, self.centre, centred=self.centred, source=source)

    @property
    def shift(self) -> Array | None:
        """What is still to be subtracted from X."""
        return None if self.centred else self.centre

    def toarray(self) -> Array:
        """Return the whole matrix, written out."""
        X = _written_out(self.X)
        centred = X if self.shift is None else X - self.shift
        return np.column_stack([centred, np.ones(len(X), dtype=X.dtype)])

    def widened(self) -> WithConstant:
        """Return the matrix in double precision, rounded only once."""
        X = self.X if self.source is None else self.source
        if sp.issparse(X) or self.centre is None:
            return WithConstant(X.astype(np.float64), self.centre)
        return WithConstant(less(X, self.centre, np.float64), self.centre, centred=True)


def less(X: Array, centre: Array, dtype: Any) -> Array:
    """Return X − 1cᵀ for a dense X, rounded once."""
    result = np.empty(X.shape, dtype=dtype)
    for some in _chunks(X):
        result[some] = X[some] - centre
    return result


def project(X: Any, W: Array) -> Array:
    """Return the scores W Xᵀ (n×t) in float64, multiplied in the precision of X."""
    if isinstance(X, WithConstant):
        constant = W[:, -1:] if X.shift is None else W[:, -1:] - (W[:, :-1] @ X.shift)[:, None]
        return project(X.X, W[:, :-1]) + constant
    W = W.astype(X.dtype, copy=False)
    if sp.issparse(X):
        return np.ascontiguousarray((X @ W.T).T, dtype=np.float64)
    return (W @ X.T).astype(np.float64, copy=False)


def pull_back(X: Any, R: Array) -> Array:
    """Return R X (n×p) in float64: residuals on scores become a gradient on parameters."""
    if isinstance(X, WithConstant):
        total = R.sum(axis=1)
        G = np.column_stack([pull_back(X.X, R), total])
        if X.shift is not None:
            G[:, :-1] -= np.outer(total, X.shift)
        return G
    R = R.astype(X.dtype, copy=False)
    G = (X.T @ R.T).T if sp.issparse(X) else R @ X
    return np.asarray(G, dtype=np.float64)


def pull_back_squares(X: Any, R: Array) -> Array:
    """Return R X² (n×p), with every entry of X squared, for R ≥ 0."""
    if sp.issparse(X):
        return pull_back(X.power(2), R)
    if not isinstance(X, WithConstant):
        parts = (pull_back(X[some] ** 2, R[:, some]) for some in _chunks(X))
        return sum(parts, np.zeros((len(R), X.shape[1])))
    total = R.sum(axis=1, keepdims=True)
    squares = pull_back_squares(X.X, R)
    if X.shift is not None:
        squares += total * X.shift**2 - 2 * X.shift * pull_back(X.X, R)
    return np.column_stack([np.maximum(squares, 0.0), total])


def moments(X: Any, weight: Array) -> tuple[Array, Array]:
    """Return the weighted mean and variance of every column, in double precision."""
    share = weight[None] / weight.sum()
    if sp.issparse(X):
        mean = pull_back(X, share)[0]
        return mean, np.maximum(pull_back_squares(X, share)[0] - mean**2, 0.0)
    first, mean, squares = X[0].astype(np.float64), np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for some in _chunks(X):  # less its first row a column loses no digits to its mean
        x = X[some] - first
        mean += (share[:, some] @ x)[0]
        squares += (share[:, some] @ np.square(x, out=x))[0]
    return first + mean, np.maximum(squares - mean**2, 0.0)


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
    if not isinstance(X, WithConstant):
        return X[:, which]
    stored = which[which < X.shape[1] - 1]
    some = WithConstant(X.X[:, stored], None if X.shift is None else X.shift[stored])
    if len(stored) < len(which):
        return some
    return some.X if some.shift is None else some.toarray()[:, :-1]


def multiply(X: Any, M: Array) -> Array:
    """Return X M for a p×k array."""
    if not isinstance(X, WithConstant):
        return X @ M
    return X.X @ M[:-1] + (M[-1] if X.shift is None else M[-1] - X.shift @ M[:-1])


def dense(X: Any) -> Array:
    """Return X as a float64 array."""
    return np.asarray(_written_out(X), dtype=np.float64)


def csr(X: Any) -> sp.csr_array:
    """Return X as a CSR array, a column of ones included."""
    if not is_sparse(X) or (isinstance(X, WithConstant) and X.shift is not None):
        return sp.csr_array(dense(X))
    if not isinstance(X, WithConstant):
        return sp.csr_array(X)
    return sp.hstack([X.X, np.ones((X.shape[0], 1), dtype=X.dtype)], format="csr")


def is_sparse(X: Any) -> bool:
    """Return whether what is stored of X are its non-zeros."""
    return sp.issparse(X.X if isinstance(X, WithConstant) else X)


def density(X: Any) -> float:
    """Return the share of X that is stored."""
    stored = X.X if isinstance(X, WithConstant) else X
    return stored.nnz / (stored.shape[0] * stored.shape[1]) if sp.issparse(stored) else 1.0


def widened(X: Any) -> Any:
    """Return X in double precision."""
    return X.widened() if isinstance(X, WithConstant) else X.astype(np.float64)


def occurring(X: Any) -> tuple[Array, Array]:
    """Return the columns of X that are not empty, as a dense array, and which they are."""
    if not is_sparse(X):
        return dense(X), np.arange(X.shape[1])
    stored = X.X if isinstance(X, WithConstant) else X
    empty = np.ones(X.shape[1], dtype=bool)
    empty[stored.indices] = False
    if isinstance(X, WithConstant):
        empty[-1] = False
        if X.shift is not None:
            empty[:-1] &= X.shift == 0
    which = np.flatnonzero(~empty)
    return dense(columns(X, which)), which


def column_norms(X: Any) -> Array:
    """Return for each column how large its sum of products is before anything cancels: ‖x‖, and of the centre."""
    if not isinstance(X, WithConstant):
        return np.sqrt(np.maximum(pull_back_squares(X, np.ones((1, X.shape[0])))[0], 0.0))
    t, norms = X.shape[0], column_norms(X.X)
    if X.shift is not None:
        norms = norms + np.sqrt(t) * np.abs(X.shift)
    return np.append(norms, np.sqrt(t))


def frobenius_norm(X: Any) -> float:
    """Return a bound on the norm of X as one long vector, before anything cancels."""
    if not isinstance(X, WithConstant):
        return float(np.linalg.norm(X.data if sp.issparse(X) else X.ravel()))
    shift = 0.0 if X.shift is None else float(np.linalg.norm(X.shift))
    return frobenius_norm(X.X) + np.sqrt(X.shape[0]) * (shift + 1.0)


def absolute(X: Any) -> tuple[Any, Array]:
    """Return |X| and the sum of each of its rows."""
    if isinstance(X, WithConstant):
        magnitude, total = absolute(X.X if X.shift is None else X.toarray()[:, :-1])
        return WithConstant(magnitude), total + 1.0
    magnitude = abs(X)
    return magnitude, np.asarray(magnitude.sum(axis=1), dtype=np.float64).ravel()


def outer_rows(L: Array, X: Any) -> Array:
    """Return the rows Σ_c L[y, c, j] e_c ⊗ x_j, one for each row j and outcome y, as a (t·m)×(np) matrix."""
    m, n, t = L.shape
    rows = np.einsum("ycj,jp->jycp", L, dense(X), optimize=False)
    return np.ascontiguousarray(rows).reshape(t * m, n * X.shape[1])


def _chunks(X: Any) -> Iterator[slice]:
    step = max(CHUNK // X.shape[1], 128)
    return (slice(start, start + step) for start in range(0, X.shape[0], step))


def _written_out(X: Any) -> Array:
    return X if isinstance(X, np.ndarray) else X.toarray()


def _worth_sparse(X: Any) -> bool:
    if not is_sparse(X):
        return False
    return density(X) < DENSE_ENOUGH


def _dense_grams(X: Any, B: Array, dtype: Any) -> Array:
    n, p = len(B), X.shape[1]
    grams = np.zeros((n, n, p, p))
    step, square = max(CHUNK // (n * p), 128), n == 1 and bool((B >= 0).all())
    for start in range(0, X.shape[0], step):
        x = _written_out(X[start : start + step])
        if square:  # half the work
            root = x * np.sqrt(B[0, 0, start : start + step, None]).astype(x.dtype, copy=False)
            root = root.astype(dtype, copy=False)
            grams[0, 0] += root.T @ root
            continue
        # Of several classes a difference is left, which single precision may turn negative.
        x = x.astype(np.float64, copy=False)
        xt = np.ascontiguousarray(x.T)
        b = B[:, :, start : start + step]
        for c in range(n):
            weighted = (b[c, c:, None] * xt).reshape(-1, len(x))
            grams[c, c:] += (weighted @ x).reshape(n - c, p, p)
    return grams


def _sparse_grams(X: Any, B: Array) -> Array:
    n, p = len(B), X.shape[1]
    upper = np.triu_indices(n)
    triangles = _triangles(X, np.ascontiguousarray(B[upper].T))
    grams = np.empty((n, n, p, p))
    for k, (c, e) in enumerate(zip(*upper, strict=True)):
        triangle = triangles[:, :, k]
        grams[c, e] = triangle + np.triu(triangle, 1).T
    return grams


def _triangles(X: Any, weights: Array) -> Array:
    """Return Σ_j weights[j, k] x_j x_jᵀ for every k, upper triangles, as a (p, p, m) array."""
    from majorant.kernels import gram

    if not isinstance(X, WithConstant):
        return gram.csr_grams(X.data, X.indices, X.indptr, weights, X.shape[1])
    p, sums, total = X.shape[1] - 1, np.asarray(X.X.T @ weights), weights.sum(axis=0)
    whole = np.empty((p + 1, p + 1, weights.shape[1]))
    whole[:p, :p], whole[:p, p], whole[p], whole[p, p] = _triangles(X.X, weights), sums, 0.0, total
    if X.shift is not None:
        c = X.shift[:, None]
        cross = c[:, None] * sums[None] + sums[:, None] * c[None]
        whole[:p, :p] += np.triu(np.ones((p, p)))[:, :, None] * (c[:, None] * c[None] * total - cross)
        whole[:p, p] -= c * total
    return whole
