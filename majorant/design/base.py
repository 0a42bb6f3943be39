"""What a design matrix can do. Parameters of a class model are a matrix W (n×p), scores are class-major (n×t)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import scipy.sparse as sp

from majorant._buffers import empty
from majorant._checks import Array
from majorant._threads import even_slices, for_each, mapped, threads
from majorant.kernels.sparse import Stored

# Rows are taken so many scalars at a time: the weighted copies of X then stay in cache.
CHUNK = 2**19
# Columns of the tiles that large Gram matrices are found in.
TILE = 256
# What columns are measured from, if that is zero.
ZERO = np.empty(0)


class Design(ABC):
    """A matrix X (t×p) that is multiplied by parameters and by residuals, and asked for nothing else.

    Its :attr:`shape`, its :attr:`dtype` and four methods make one: :meth:`project`, :meth:`pull_back`, :meth:`part` and
    :meth:`toarray`. The others are written in terms of these, some rows at a time, and may be made faster. Products are
    found in the precision of X and returned in double precision.
    """

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Rows t and columns p."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """The precision in which X is multiplied: float64 or float32."""

    @abstractmethod
    def project(self, W: Array) -> Array:
        """Return the scores W Xᵀ (n×t), as a new array."""

    @abstractmethod
    def pull_back(self, R: Array) -> Array:
        """Return R X (n×p): residuals on scores become a gradient on parameters."""

    @abstractmethod
    def part(self, rows: slice | Array) -> Design:
        """Return some rows: a slice as a view, if that can be, numbers as a copy in that order."""

    @abstractmethod
    def toarray(self) -> Array:
        """Return X written out, in its own precision."""

    # --- what may be made faster --------------------------------------------------------------------------

    @property
    def centre(self) -> Array | None:
        """Where columns are measured from, if not from zero."""
        return None

    @property
    def epsilon(self) -> float:
        """How far a factor of a product may be off, relative to itself."""
        return float(np.finfo(self.dtype).eps)

    def beside(self, array: Any) -> Any:
        """Return what belongs to rows, such as labels, where the rows are."""
        return array

    @property
    def place(self) -> Any:
        """Where it is multiplied, if not by this processor."""
        return None

    def here(self) -> Design:
        """Return X in the memory of this process, if it is on a device."""
        return self

    @property
    def gram_slowness(self) -> float:
        """How much longer products for Gram matrices take than others, which may be of a lower precision."""
        return 1.0

    @property
    def density(self) -> float:
        """The share of X that is stored."""
        return 1.0

    @property
    def is_sparse(self) -> bool:
        """Whether what is stored of X are its non-zeros."""
        return False

    def stored(self) -> Stored | None:
        """Return what compiled loops over rows may read, if these are stored one after the other."""
        return None

    def without_ones(self) -> Array:
        """Return X written out without a column of ones, which is a view where it can be."""
        return self.dense()

    def bordered(self, weight: Array | None, center: Any) -> Design | None:
        """Return the matrix with a last column of ones, and columns measured from a centre; None if others do that."""
        return None

    def dense(self) -> Array:
        """Return X written out, in double precision."""
        return np.asarray(self.toarray(), dtype=np.float64)

    def csr(self) -> sp.csr_array:
        """Return X as a CSR array, in its own precision."""
        return sp.csr_array(self.toarray())

    def uncentred(self) -> Design:
        """Return X with columns measured from zero."""
        return self

    def widened(self) -> Design:
        """Return X in double precision."""
        from majorant.design.dense import DenseDesign

        return DenseDesign(self.dense())

    def narrowed(self) -> Design:
        """Return X in a lower precision, itself if there is none."""
        from majorant.design.dense import DenseDesign

        return self if self.dtype == np.float32 else DenseDesign(self.toarray().astype(np.float32))

    @property
    def narrowing(self) -> int | None:
        """How many numbers are copied for that; None where there is no lower precision."""
        return None if self.dtype == np.float32 else self.shape[0] * self.shape[1]

    def columns(self, which: Array) -> Design:
        """Return some columns, given in rising order."""
        from majorant.design.dense import DenseDesign

        return DenseDesign(self.toarray()[:, which])

    def occurring(self) -> tuple[Array, Array]:
        """Return the columns that are not empty, as a dense array, and which they are."""
        return self.dense(), np.arange(self.shape[1])

    def times(self, M: Array) -> Array:
        """Return X M for a p×k array."""
        return self.project(M.T).T

    def pull_back_squares(self, R: Array) -> Array:
        """Return R X² (n×p), with every entry of X squared, for R ≥ 0."""
        parts = (R[:, some] @ self.part(some).dense() ** 2 for some in self.chunks())
        return sum(parts, np.zeros((len(R), self.shape[1])))

    @property
    def finds_columns_at_once(self) -> bool:
        """Whether norms of columns, with nothing to subtract from them, take no longer than that of all of X."""
        return False

    def column_norms(self) -> Array:
        """Return for each column how large its sum of products is before anything cancels: ‖x‖, and of the centre."""
        return np.sqrt(np.maximum(self.pull_back_squares(np.ones((1, self.shape[0])))[0], 0.0))

    def frobenius_norm(self) -> float:
        """Return a bound on the norm of X as one long vector, before anything cancels."""
        return float(np.sqrt(sum(float(np.sum(self.part(some).dense() ** 2)) for some in self.chunks())))

    def absolute(self) -> tuple[Design, Array]:
        """Return ``|X|`` and the sum of each of its rows."""
        from majorant.design.dense import DenseDesign

        magnitude = np.abs(self.toarray())
        return DenseDesign(magnitude), magnitude.sum(axis=1, dtype=np.float64)

    def moments(self, weight: Array) -> tuple[Array, Array]:
        """Return the weighted mean and variance of every column, in double precision."""
        share, weighs = weight / weight.sum(), first_weighted(weight)
        first = self.part(slice(weighs, weighs + 1)).dense()[0]

        def moments_of(some: slice) -> Array:
            x = self.part(some).toarray() - first  # so that a column loses no digits to its mean
            return np.stack([share[some] @ x, share[some] @ np.square(x, out=x)])

        first_sums, *more = mapped(moments_of, list(self.chunks()))
        mean, squares = sum(more, first_sums)
        return first + mean, np.maximum(squares - mean**2, 0.0)

    def gram(self, B: Array, dtype: Any = np.float64) -> Array:
        """Return Σ_j B[:, :, j] ⊗ x_j x_jᵀ, an (np×np) matrix, for symmetric B of shape (n, n, t).

        A dense X may be multiplied in another precision, where n = 1. Cost: n(n+1)/2 weighted Gram products of X (BLAS
        3), or as many sums over the pairs of non-zeros in a row.
        """
        n, p = len(B), self.shape[1]
        grams = self._sparse_grams(B) if self.counts_pairs else self._dense_grams(B, dtype)
        if n == 1:
            return grams[0, 0]
        full = np.empty((n, p, n, p))
        for c in range(n):
            for e in range(c, n):
                full[c, :, e] = full[e, :, c] = grams[c, e]
        return full.reshape(n * p, n * p)

    @property
    def counts_pairs(self) -> bool:
        """Whether X is so sparse that :meth:`triangles` beats products of matrices."""
        return False

    def triangles(self, weights: Array) -> Array:
        """Return Σ_j w[k, j] x_j x_jᵀ for every row k of w, upper triangles, as an (m, p, p) array."""
        raise NotImplementedError(f"{type(self).__name__} has no pairs of non-zeros to count")

    def outer_rows(self, L: Array) -> Array:
        """Return the rows Σ_c L[y, c, j] e_c ⊗ x_j, one for each row j and outcome y, as a (t·m)×(np) matrix."""
        m, n, t = L.shape
        rows = np.einsum("ycj,jp->jycp", L, self.dense(), optimize=False)
        return np.ascontiguousarray(rows).reshape(t * m, n * self.shape[1])

    def chunks(self) -> Iterator[slice]:
        """Yield slices of rows, a cacheful at a time."""
        step = max(CHUNK // self.shape[1], 128)
        return (slice(start, start + step) for start in range(0, self.shape[0], step))

    def _dense_grams(self, B: Array, dtype: Any) -> Array:
        n, p = len(B), self.shape[1]
        grams = np.zeros((n, n, p, p))
        step, square = max(CHUNK // (n * p), 128), n == 1 and bool((B >= 0).all())
        for start in range(0, self.shape[0], step):
            some = slice(start, start + step)
            x = self.toarray() if step >= self.shape[0] else self.part(some).toarray()
            if square:  # half the work
                root = weighted_rows(x, np.sqrt(B[0, 0, some]), dtype)
                add_gram(root, grams[0, 0])
                continue
            # Of several classes a difference is left, which single precision may turn negative.
            x = x.astype(np.float64, copy=False)
            xt = np.ascontiguousarray(x.T)

            def add_class(c: int, x: Array = x, xt: Array = xt, some: slice = some) -> None:
                kept = empty((n, p, len(x)))[c:]  # of one size, so that all classes use the same memory
                weighted = np.multiply(B[c, c:, None, some], xt, out=kept).reshape(-1, len(x))
                grams[c, c:] += (weighted @ x).reshape(n - c, p, p)

            for_each(add_class, range(n))
        return grams

    def _sparse_grams(self, B: Array) -> Array:
        n, p = len(B), self.shape[1]
        upper = np.triu_indices(n)
        triangles = self.triangles(np.ascontiguousarray(B[upper]))
        if n == 1:
            return mirrored(triangles[0])[None, None]
        grams = np.empty((n, n, p, p))
        for c, e, triangle in zip(*upper, triangles, strict=True):
            grams[c, e] = triangle + np.triu(triangle, 1).T
        return grams


def first_weighted(weight: Array) -> int:
    """Return the number of the first row that has a weight: measured from it, a constant column is exactly zero."""
    return int(np.argmax(weight > 0))


def weighted_rows(x: Array, weight: Array, dtype: Any) -> Array:
    """Return rows times their weights, in some precision."""
    result, each = empty(x.shape, dtype), weight[:, None].astype(x.dtype, copy=False)
    if threads() == 1:
        return np.multiply(x, each, out=result, casting="same_kind")

    def weigh(some: slice) -> None:
        np.multiply(x[some], each[some], out=result[some], casting="same_kind")

    for_each(weigh, even_slices(len(x), CHUNK // 16 // x.shape[1]))
    return result


def add_gram(x: Array, total: Array) -> None:
    """Add xᵀx to a symmetric matrix, tile by tile: threads share the tiles, whose sums do not depend on them."""
    p = x.shape[1]
    if p <= 2 * TILE:
        total += np.dot(x.T, x)  # other threads run meanwhile, however small the product
        return
    ends = [(first, min(first + TILE, p)) for first in range(0, p, TILE)]

    def add_tile(tile: tuple[tuple[int, int], tuple[int, int]]) -> None:
        (a, b), (c, d) = tile
        product = x[:, a:b].T @ x[:, c:d]
        total[a:b, c:d] += product
        if a != c:
            total[c:d, a:b] += product.T

    for_each(add_tile, combinations_with_replacement(ends, 2))


def mirrored(upper: Array) -> Array:
    """Return a matrix with its upper triangle written to the lower one as well: there, since it may be large."""
    for first in range(0, len(upper), TILE):
        some, after = slice(first, first + TILE), slice(first + TILE, None)
        upper[after, some] = upper[some, after].T
        square = upper[some, some]
        square[np.tril_indices(len(square), -1)] = square.T[np.tril_indices(len(square), -1)]
    return upper
