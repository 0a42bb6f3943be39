"""What a design matrix can do. Parameters of a class model are a matrix W (n×p), scores are class-major (n×t).

X as an array.

X by its non-zeros.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import scipy.sparse as sp

from majorant.core import kernels
from majorant.core.checks import Array
from majorant.core.kernels.sparse import Csr, Stored
from majorant.core.threads import empty, even_parts, even_slices, for_each, mapped, threads

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
        pass

        return DenseDesign(self.dense())

    def narrowed(self) -> Design:
        """Return X in a lower precision, itself if there is none."""
        pass

        return self if self.dtype == np.float32 else DenseDesign(self.toarray().astype(np.float32))

    @property
    def narrowing(self) -> int | None:
        """How many numbers are copied for that; None where there is no lower precision."""
        return None if self.dtype == np.float32 else self.shape[0] * self.shape[1]

    def columns(self, which: Array) -> Design:
        """Return some columns, given in rising order."""
        pass

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

    def column_norms(self) -> Array:
        """Return for each column how large its sum of products is before anything cancels: ‖x‖, and of the centre."""
        return np.sqrt(np.maximum(self.pull_back_squares(np.ones((1, self.shape[0])))[0], 0.0))

    def frobenius_norm(self) -> float:
        """Return a bound on the norm of X as one long vector, before anything cancels."""
        return float(np.sqrt(sum(float(np.sum(self.part(some).dense() ** 2)) for some in self.chunks())))

    def absolute(self) -> tuple[Design, Array]:
        """Return ``|X|`` and the sum of each of its rows."""
        pass

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


@dataclass(frozen=True, eq=False)
class DenseDesign(Design):
    """An array of shape (t, p), float64 or float32."""

    array: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the array."""
        return self.array.dtype

    def project(self, W: Array) -> Array:
        """Return W Xᵀ."""
        shape, X = (len(W), len(self.array)), self.array
        scores = np.matmul(W.astype(X.dtype, copy=False), X.T, out=empty(shape, X.dtype))
        return scores if X.dtype == np.float64 else _copied(scores, np.float64)

    def pull_back(self, R: Array) -> Array:
        """Return R X."""
        result = np.empty((len(R), self.shape[1]))
        self.write_back(R, result)
        return result

    def write_back(self, R: Array, out: Array) -> None:
        """Write R X to an array in double precision."""
        # While matmul makes few numbers of many, no other thread runs; while dot does, they do.
        R = R if self.dtype == np.float64 else _copied(R, self.dtype)
        out[...] = np.dot(R[0], self.array) if len(R) == 1 else np.dot(R, self.array)

    def part(self, rows: slice | Array) -> DenseDesign:
        """Return some rows."""
        if isinstance(rows, slice) or rows.dtype == bool:
            return DenseDesign(self.array[rows])
        taken = np.empty((len(rows), self.shape[1]), self.dtype)

        def take(some: slice) -> None:
            # With mode="raise" NumPy would take into a copy of the output first, which may be ten times as slow.
            np.take(self.array, rows[some], axis=0, out=taken[some], mode="wrap")

        for_each(take, even_slices(len(rows), CHUNK // 16 // self.shape[1]))
        return DenseDesign(taken)

    def stored(self) -> Stored | None:
        """Return the array, if its rows lie side by side."""
        return Stored(self.array, ZERO, constant=False) if self.array.flags.c_contiguous else None

    def toarray(self) -> Array:
        """Return the array itself."""
        return self.array

    def widened(self) -> DenseDesign:
        """Return X in double precision."""
        return DenseDesign(self.array.astype(np.float64))

    def narrowed(self) -> DenseDesign:
        """Return X in single precision."""
        if self.dtype == np.float32:
            return self
        result = np.empty(self.shape, np.float32)

        def copy(some: slice) -> None:
            result[some] = self.array[some]

        for_each(copy, self.chunks())
        return DenseDesign(result)

    def columns(self, which: Array) -> DenseDesign:
        """Return some columns."""
        return self if len(which) == self.array.shape[1] else DenseDesign(self.array[:, which])

    def times(self, M: Array) -> Array:
        """Return X M."""
        return self.array @ M

    def pull_back_squares(self, R: Array) -> Array:
        """Return R X²."""
        R, total = R.astype(self.dtype, copy=False), np.zeros((len(R), self.shape[1]))
        # A few rows at a time, whose squares stay in cache: fresh memory for more takes longer than to square them.
        for some in even_parts(len(self.array), -(-8 * self.array.size // CHUNK)):
            x = self.array[some]
            total += np.dot(R[:, some], np.square(x, out=empty(x.shape, x.dtype)))
        return total

    def frobenius_norm(self) -> float:
        """Return the norm of X as one long vector."""
        return float(np.linalg.norm(self.array.ravel()))

    def less(self, centre: Array, dtype: Any) -> DenseDesign:
        """Return X − 1cᵀ, rounded once."""
        result = np.empty(self.shape, dtype=dtype)

        def subtract(some: slice) -> None:
            result[some] = self.array[some] - centre

        for_each(subtract, self.chunks())
        return DenseDesign(result)


def laid_out(X: Array, dtype: Any = None) -> Array:
    """Return an array whose rows lie side by side, at addresses that suit its numbers: products copy any other."""
    return np.require(X, dtype, ["C_CONTIGUOUS", "ALIGNED"])


def _copied(array: Array, dtype: Any) -> Array:
    """Return the array in another precision."""
    result = empty(array.shape, dtype)
    result[...] = array
    return result


# Above this density a CSR block is multiplied faster as a dense one.
DENSE_ENOUGH = 0.25
# Rows that are compared before all are: a column that every row stores is stored by these.
FEW_ROWS = 8


@dataclass(frozen=True, eq=False)
class CsrDesign(Design):
    """A SciPy CSR matrix of shape (t, p), float64 or float32."""

    matrix: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.matrix.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the non-zeros."""
        return self.matrix.dtype

    @property
    def density(self) -> float:
        """The share of X that is not zero."""
        return self.matrix.nnz / (self.shape[0] * self.shape[1])

    @property
    def is_sparse(self) -> bool:
        """True."""
        return True

    def project(self, W: Array) -> Array:
        """Return W Xᵀ."""
        scores = empty((len(W), self.shape[0]))
        scores[...] = (self.matrix @ W.T.astype(self.dtype, copy=False)).T
        return scores

    def pull_back(self, R: Array) -> Array:
        """Return R X."""
        return np.asarray((self._transposed @ R.T.astype(self.dtype, copy=False)).T, dtype=np.float64)

    def part(self, rows: slice | Array) -> CsrDesign:
        """Return some rows; those of a slice are views."""
        if not isinstance(rows, slice):
            return CsrDesign(self.matrix[rows])
        start, stop, _ = rows.indices(self.shape[0])
        if start == 0 and stop == self.shape[0]:
            return self
        X, first, last = self.matrix, self.matrix.indptr[start], self.matrix.indptr[stop]
        arrays = (X.data[first:last], X.indices[first:last], X.indptr[start : stop + 1] - first)
        return CsrDesign(as_they_are(type(X), arrays, (stop - start, X.shape[1])))

    def stored(self) -> Stored:
        """Return the non-zeros."""
        return Stored(Csr.of(self.matrix), ZERO, constant=False)

    def toarray(self) -> Array:
        """Return X, zeros included."""
        return self.matrix.toarray()

    def csr(self) -> sp.csr_array:
        """Return X."""
        return sp.csr_array(self.matrix)

    def widened(self) -> CsrDesign:
        """Return X in double precision."""
        return CsrDesign(self.matrix.astype(np.float64))

    def columns(self, which: Array) -> CsrDesign:
        """Return some columns."""
        return self if len(which) == self.shape[1] else CsrDesign(self.matrix[:, which])

    def occurring(self) -> tuple[Array, Array]:
        """Return the columns that are not empty, as a dense array, and which they are."""
        which = np.flatnonzero(self.not_empty())
        return self.columns(which).dense(), which

    def not_empty(self) -> Array:
        """Return for each column whether anything is stored in it."""
        occurs = np.zeros(self.shape[1], dtype=bool)
        occurs[self.matrix.indices] = True
        return occurs

    def times(self, M: Array) -> Array:
        """Return X M."""
        return self.matrix @ M

    def pull_back_squares(self, R: Array) -> Array:
        """Return R X²."""
        squares = np.zeros((len(R), self.shape[1]))
        for some in self.chunks():
            squares += self.part(some)._pull_back_squares(R[:, some])
        return squares

    def chunks(self) -> Iterator[slice]:
        """Yield slices of rows, a cacheful of non-zeros at a time, unless that were fewer than columns."""
        stored = max(self.matrix.nnz // self.shape[0], 1)
        step = max(max(CHUNK, self.shape[1]) // stored, 128)
        return (slice(start, start + step) for start in range(0, self.shape[0], step))

    def _pull_back_squares(self, R: Array) -> Array:
        return np.asarray((self._with_columns(self.matrix.data**2) @ R.T.astype(self.dtype, copy=False)).T)

    @cached_property
    def _in_order(self) -> Any:
        """The matrix with the columns of each row in order."""
        return self.matrix if self.matrix.has_sorted_indices else self.matrix.sorted_indices()

    @cached_property
    def _transposed(self) -> Any:
        return self._with_columns(self.matrix.data)

    def _with_columns(self, data: Array) -> Any:
        """Return a transposed matrix with other non-zeros."""
        return as_they_are(sp.csc_array, (data, self.matrix.indices, self.matrix.indptr), self.shape[::-1])

    def frobenius_norm(self) -> float:
        """Return the norm of the non-zeros."""
        return float(np.linalg.norm(self.matrix.data))

    def absolute(self) -> tuple[CsrDesign, Array]:
        """Return |X| and the sum of each of its rows."""
        magnitude = abs(self.matrix)
        return CsrDesign(magnitude), np.asarray(magnitude.sum(axis=1), dtype=np.float64).ravel()

    def may_be_far(self, rows: Array, weight: Array, deviations: float) -> bool:
        """Return whether any column is stored in enough rows: of a share f of them mean² ≤ f/(1 − f) variance."""
        indices, indptr = self.matrix.indices, self.matrix.indptr
        stored = np.concatenate([indices[indptr[j] : indptr[j + 1]] for j in rows.tolist()])
        each = np.repeat(weight, indptr[rows + 1] - indptr[rows])
        share = np.bincount(stored, each, minlength=1).max() / weight.sum()
        return bool(share >= (1 - 1e-9) * deviations**2 / (1 + deviations**2))

    def moments(self, weight: Array) -> tuple[Array, Array]:
        """Return the weighted mean and variance of every column: zeros are the most of it, and cancel nothing."""
        share, first = weight[None] / weight.sum(), np.zeros(self.shape[1])
        stored = self.without_zeros(weight)
        if stored.any():  # such a column would lose digits to its mean, and is measured from its first entry
            first[stored] = self.matrix[[first_weighted(weight)]].toarray()[0, stored]

        def moments_of(some: slice) -> Array:
            part = self.part(some).less(first) if stored.any() else self.part(some)
            return np.concatenate([part.pull_back(share[:, some]), part._pull_back_squares(share[:, some])])

        mean, squares = sum(mapped(moments_of, list(self.chunks())), np.zeros((2, self.shape[1])))
        return first + mean, np.maximum(squares - mean**2, 0.0)

    def without_zeros(self, weight: Array | None = None) -> Array:
        """Return for each column whether every row, of those with a weight, stores an entry."""
        X, rows = self.matrix, self.shape[0]
        if weight is not None and not weight.all():
            X, rows = X[weight > 0], int(np.count_nonzero(weight))
        none, indptr = np.zeros(self.shape[1], dtype=bool), X.indptr
        if rows == 0 or X.nnz < rows:
            return none
        in_all = X.indices[indptr[0] : indptr[1]]
        for row in (np.arange(1, FEW_ROWS) * (rows - 1) // (FEW_ROWS - 1)).tolist():
            in_all = np.intersect1d(in_all, X.indices[indptr[row] : indptr[row + 1]])
            if not len(in_all):  # as of most sparse data, without a look at the other rows
                return none
        return np.bincount(X.indices, minlength=self.shape[1]) == rows

    def less(self, centre: Array) -> CsrDesign:
        """Return X with a number for each column subtracted from what is stored of it."""
        X = self.matrix
        data = X.data.astype(np.float64)
        data -= centre[X.indices]
        return CsrDesign(as_they_are(type(X), (data.astype(X.dtype, copy=False), X.indices, X.indptr), X.shape))

    @property
    def counts_pairs(self) -> bool:
        """Whether few enough entries are stored."""
        return self.density < DENSE_ENOUGH

    def triangles(self, weights: Array) -> Array:
        """Return the upper triangles of weighted Gram matrices, from the pairs of non-zeros in a row."""
        matrix, (t, p) = self.matrix, self.shape
        if not kernels.worth_compiling(matrix.nnz**2 / t, len(weights)):  # about so many pairs are multiplied
            by_entry = np.repeat(weights, np.diff(matrix.indptr), axis=1)
            parts = [(w * matrix.data, matrix.indices, matrix.indptr) for w in by_entry]
            products = [self._transposed @ as_they_are(sp.csr_array, part, (t, p)) for part in parts]
            return np.stack([np.triu(product.toarray()) for product in products])
        X, grams = Csr.of(self._in_order), np.zeros((len(weights), p, p))

        def add_some(some: slice) -> None:  # one thread finds a row of all triangles, so that none are to be added up
            for weight, gram in zip(weights, grams, strict=True):
                kernels.products.add_csr_gram(X, weight, some.start, some.stop, gram)

        for_each(add_some, even_slices(p, 64))
        return grams


def as_they_are(kind: Any, arrays: tuple[Array, Array, Array], shape: tuple[int, int]) -> Any:
    """Return a SciPy matrix of data, indices and indptr; its constructor would copy views of larger arrays."""
    matrix = kind(shape, dtype=arrays[0].dtype)
    matrix.data, matrix.indices, matrix.indptr = arrays
    return matrix
