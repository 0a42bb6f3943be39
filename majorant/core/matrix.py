"""The design matrix X, dense or sparse: products, Gram matrices and norms. Nothing else sees its numbers.

Parameters of a class model are a matrix W (n×p), scores are class-major (n×t). A column of ones, and a centre that
columns are measured from, are fields of a matrix: neither is stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement
from math import sqrt
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from majorant.core import kernels
from majorant.core.checks import Array, lazy
from majorant.core.kernels import Csr, Stored
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
        return DenseDesign(self.dense())

    def narrowed(self) -> Design:
        """Return X in a lower precision, itself if there is none."""
        return self if self.dtype == np.float32 else DenseDesign(self.toarray().astype(np.float32))

    @property
    def narrowing(self) -> int | None:
        """How many numbers are copied for that; None where there is no lower precision."""
        return None if self.dtype == np.float32 else self.shape[0] * self.shape[1]

    def columns(self, which: Array) -> Design:
        """Return some columns, given in rising order."""
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
        magnitude = np.abs(self.toarray())
        return DenseDesign(magnitude), magnitude.sum(axis=1, dtype=np.float64)

    def moments(self, weight: Array) -> tuple[Array, Array]:
        """Return the weighted mean and variance of every column, in double precision."""
        # Measured from the first row that has a weight, a constant column is exactly zero.
        share, weighs = weight / weight.sum(), int(np.argmax(weight > 0))
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
        if self.counts_pairs:
            upper = np.triu_indices(n)
            triangles = self.triangles(np.ascontiguousarray(B[upper]))
            if n == 1:
                return mirrored(triangles[0])
            full = np.empty((n, p, n, p))
            for a, b, triangle in zip(*upper, triangles, strict=True):
                full[a, :, b] = full[b, :, a] = triangle + np.triu(triangle, 1).T
            return full.reshape(n * p, n * p)
        grams = np.zeros((n, n, p, p))
        step, square = max(CHUNK // (n * p), 128), n == 1 and bool((B >= 0).all())
        for start in range(0, self.shape[0], step):
            some = slice(start, start + step)
            x = self.toarray() if step >= self.shape[0] else self.part(some).toarray()
            if square:  # half the work
                add_gram(weighted_rows(x, np.sqrt(B[0, 0, some]), dtype), grams[0, 0])
                continue
            # Of several classes a difference is left, which single precision may turn negative.
            x = x.astype(np.float64, copy=False)
            xt = np.ascontiguousarray(x.T)

            def add_class(c: int, x: Array = x, xt: Array = xt, some: slice = some) -> None:
                kept = empty((n, p, len(x)))[c:]  # of one size, so that all classes use the same memory
                weighted = np.multiply(B[c, c:, None, some], xt, out=kept).reshape(-1, len(x))
                grams[c, c:] += (weighted @ x).reshape(n - c, p, p)

            for_each(add_class, range(n))
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


# Numbers that are written out once, and kept: Hessians of small data are found at every step.
FEW = 2**15
# Centred squares below so many rounding errors of the sums that they are differences of are zero.
ROUNDING = 64


@dataclass(frozen=True, eq=False)
class StoredDesign(Design):
    """[X − 1cᵀ, 1], with X an array or a CSR matrix: a centre c and a last column of ones, which are not stored.

    The centre does not matter to a model with a free intercept, but rounding errors are those of X, not of X − 1cᵀ.

    Attributes
    ----------
    numbers : array or CSR matrix of shape (t, p)
        X, which is what is multiplied.
    constant : bool
        Whether there is a last column of ones. Only then columns have a centre.
    origin : array of shape (p,), optional
        c.
    centred : bool or array of shape (p,)
        Whether X is what is left after c has been subtracted, because rounding errors would be too large: for all
        columns, or for each.
    source : Design, optional
        X before that, where the subtraction cannot be undone without rounding.
    """

    numbers: Any
    constant: bool = False
    origin: Array | None = None
    centred: bool | Array = False
    source: Design | None = None

    @lazy
    def shape(self) -> tuple[int, int]:
        """Rows and columns, the constant one included."""
        return self.numbers.shape[0], self.numbers.shape[1] + self.constant

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of X."""
        return self.numbers.dtype

    @property
    def centre(self) -> Array | None:
        return self.origin

    @lazy
    def shift(self) -> Array | None:
        """What is still to be subtracted from X."""
        if self.origin is None or np.all(self.centred):
            return None
        shift = np.where(self.centred, 0.0, self.origin)
        return shift if shift.any() else None

    @lazy
    def raw(self) -> Self:
        """X itself, without a column of ones or a centre."""
        return type(self)(self.numbers) if self.constant else self

    def bordered(self, origin: Array | None = None) -> Self:
        """Return the matrix with a last column of ones, and columns measured from a centre."""
        return replace(self, constant=True, origin=origin)

    def split(self, W: Array) -> tuple[Array, Array | None]:
        """Return what X is multiplied by to get scores (n×p), and what is added to the product (n×1)."""
        if not self.constant:
            return W, None
        V = W[:, :-1]
        return V, W[:, -1:] if self.shift is None else W[:, -1:] - (V @ self.shift)[:, None]

    def join(self, R: Array, G: Array) -> Array:
        """Complete a gradient G (n×p) of which R X is written: subtract what belongs to the centre, add the border."""
        if self.constant:
            total = R.sum(axis=1)
            G[:, -1] = total
            if self.shift is not None:
                G[:, :-1] -= total[:, None] * self.shift
        return G

    def without_ones(self) -> Array:
        X = self.raw.dense()
        return X if self.shift is None else X - self.shift

    def toarray(self) -> Array:
        """Return the whole matrix, written out; that of a few rows is remembered."""
        X = self.numbers if isinstance(self.numbers, np.ndarray) else self.numbers.toarray()
        if not self.constant:
            return X
        shift, found = self.shift, vars(self).get("written")
        if found is not None:
            return found
        written = np.empty(self.shape, X.dtype if shift is None else np.result_type(X, shift))
        written[:, -1] = 1.0
        if shift is None:
            written[:, :-1] = X
        else:
            np.subtract(X, shift, out=written[:, :-1])  # there: fresh memory for a copy takes longer than to subtract
        # Of centred columns more are: to subtract their centres each time takes a fourth as long as the Hessian.
        if written.size <= (FEW if shift is None else 2**18):
            vars(self)["written"] = written
        return written

    def uncentred(self) -> Self:
        if self.source is not None:
            return self.source.bordered()  # type: ignore[attr-defined]
        if self.origin is None or not np.any(self.centred):
            return self.raw.bordered() if self.constant else self
        return DenseDesign(self.raw.toarray() + self.origin).bordered()  # type: ignore[return-value]

    def times(self, M: Array) -> Array:
        """Return [X − 1cᵀ, 1] M."""
        if not self.constant:
            return self.numbers @ M
        return self.numbers @ M[:-1] + (M[-1] if self.shift is None else M[-1] - self.shift @ M[:-1])

    def with_border_of_squares(self, R: Array, squares: Array) -> Array:
        """Return R times the squares of all entries, given those of X."""
        if not self.constant:
            return squares
        total = R.sum(axis=1, keepdims=True)
        if self.shift is not None:
            moved = total * self.shift**2
            rounding = ROUNDING * np.finfo(self.dtype).eps * (squares + moved)
            squares += moved - 2 * self.shift * self.raw.pull_back(R)
            squares[squares <= rounding] = 0.0
        return np.column_stack([squares, total])

    def column_norms(self) -> Array:
        X, root = self.raw, np.sqrt(self.shape[0])
        norms = np.sqrt(np.maximum(X.pull_back_squares(np.ones((1, self.shape[0])))[0], 0.0))
        if not self.constant:
            return norms
        return np.append(norms if self.shift is None else norms + root * np.abs(self.shift), root)

    def frobenius_norm(self) -> float:
        X = self.numbers
        norm = float(np.linalg.norm(X.ravel() if isinstance(X, np.ndarray) else X.data))
        if not self.constant:
            return norm
        return norm + sqrt(self.shape[0]) * ((0.0 if self.shift is None else float(np.linalg.norm(self.shift))) + 1.0)

    def absolute(self) -> tuple[Design, Array]:
        if not self.constant:
            return super().absolute()
        magnitude = np.abs(self.numbers if self.shift is None else self.toarray()[:, :-1])
        return DenseDesign(magnitude, constant=True), magnitude.sum(axis=1, dtype=np.float64) + 1.0

    def columns(self, which: Array) -> Design:
        if len(which) == self.shape[1]:
            return self
        if not self.constant:
            return type(self)(self.numbers[:, which])
        stored = which[which < self.shape[1] - 1]
        chosen = type(self)(self.numbers[:, stored])
        chosen = chosen.bordered(None if self.shift is None else self.shift[stored])
        if len(stored) < len(which):
            return chosen
        return chosen.raw if chosen.shift is None else DenseDesign(chosen.toarray()[:, :-1])


class DenseDesign(StoredDesign):
    """An array of shape (t, p), float64 or float32, with or without a constant column and a centre."""

    def project(self, W: Array) -> Array:
        """Return W [X − 1cᵀ, 1]ᵀ."""
        X, (V, added) = self.numbers, self.split(W)
        if added is not None and not V.any():  # where most fits start
            return np.repeat(W[:, -1:], len(X), axis=1)
        scores = np.matmul(V.astype(X.dtype, copy=False), X.T, out=empty((len(V), len(X)), X.dtype))
        if X.dtype != np.float64:
            scores = copied(scores, np.float64)
        if added is not None:
            scores += added
        return scores

    def pull_back(self, R: Array) -> Array:
        """Return R [X − 1cᵀ, 1]."""
        X, G = self.numbers, np.empty((len(R), self.shape[1]))
        S = R if X.dtype == np.float64 else copied(R, X.dtype)
        # While matmul makes few numbers of many, no other thread runs; while dot does, they do.
        G[:, : X.shape[1]] = np.dot(S[0], X) if len(S) == 1 else np.dot(S, X)
        return self.join(R, G)

    def part(self, rows: slice | Array) -> DenseDesign:
        """Return some rows, with the same centre."""
        source = None if self.source is None else self.source.part(rows)
        if isinstance(rows, slice) or rows.dtype == bool:
            return replace(self, numbers=self.numbers[rows], source=source)
        taken = np.empty((len(rows), self.numbers.shape[1]), self.dtype)

        def take(some: slice) -> None:
            # With mode="raise" NumPy would take into a copy of the output first, which may be ten times as slow.
            np.take(self.numbers, rows[some], axis=0, out=taken[some], mode="wrap")

        for_each(take, even_slices(len(rows), CHUNK // 16 // taken.shape[1]))
        return replace(self, numbers=taken, source=source)

    def stored(self) -> Stored | None:
        """Return the array, if its rows lie side by side."""
        shift = ZERO if self.shift is None else self.shift
        return Stored(self.numbers, shift, self.constant) if self.numbers.flags.c_contiguous else None

    def widened(self) -> DenseDesign:
        """Return the matrix in double precision, rounded only once."""
        if self.dtype == np.float64:
            return self
        X = self if self.source is None else self.source
        if not isinstance(X, DenseDesign) or self.origin is None:
            return DenseDesign(self.numbers.astype(np.float64), self.constant)
        return replace(X.less(self.origin, np.float64), constant=True, origin=self.origin, centred=True)

    def narrowed(self) -> DenseDesign:
        """Return the matrix in single precision, columns less their centre."""
        if self.dtype == np.float32:
            return self
        narrow = self.less(0.0 if self.shift is None else self.shift, np.float32)
        centred = self.centred if self.shift is None else True
        return replace(narrow, constant=self.constant, origin=self.origin, centred=centred)

    def pull_back_squares(self, R: Array) -> Array:
        S, X = R.astype(self.dtype, copy=False), self.numbers
        total = np.zeros((len(S), X.shape[1]))
        # A few rows at a time, whose squares stay in cache: fresh memory for more takes longer than to square them.
        for some in even_parts(len(X), -(-8 * X.size // CHUNK)):
            x = X[some]
            total += np.dot(S[:, some], np.square(x, out=empty(x.shape, x.dtype)))
        return self.with_border_of_squares(R, total)

    def gram(self, B: Array, dtype: Any = np.float64) -> Array:
        (t, p), weight = self.numbers.shape, B[0, 0]
        few = self.constant and t * (p + 1) <= FEW
        if len(B) > 1 or few or self.shift is not None or not (weight >= 0).all():
            return super().gram(B, dtype)
        G, step = np.zeros((p + self.constant, p + self.constant)), max(CHUNK // p, 128)
        for some in (slice(start, start + step) for start in range(0, t, step)):
            add_gram(weighted_rows(self.numbers[some], np.sqrt(weight[some]), dtype), G[:p, :p])
        if self.constant:  # the border of ones need not be written out for that
            G[p, :p] = G[:p, p] = np.dot(weight.astype(self.numbers.dtype, copy=False), self.numbers)
            G[p, p] = weight.sum()
        return G

    def less(self, centre: Array | float, dtype: Any) -> DenseDesign:
        """Return X − 1cᵀ, rounded once, as it is stored."""
        result = np.empty(self.numbers.shape, dtype=dtype)

        def subtract(some: slice) -> None:
            result[some] = self.numbers[some] - centre

        for_each(subtract, self.raw.chunks())
        return DenseDesign(result)


def laid_out(X: Array, dtype: Any = None) -> Array:
    """Return an array whose rows lie side by side, at addresses that suit its numbers: products copy any other."""
    return np.require(X, dtype, ["C_CONTIGUOUS", "ALIGNED"])


def copied(array: Array, dtype: Any) -> Array:
    """Return the array in another precision."""
    result = empty(array.shape, dtype)
    result[...] = array
    return result


# Rows that are compared before all are: a column that every row stores is stored by these.
FEW_ROWS = 8


class CsrDesign(StoredDesign):
    """A SciPy CSR matrix of shape (t, p), float64 or float32, with or without a constant column and a centre."""

    def centred_at(self, centre: Array, stored: Array) -> CsrDesign:
        """Return the matrix with a constant column; ``stored`` columns, those without zeros, lose their centre at once.

        The subtraction fills nothing in there, and a constant column becomes zero as it does in a dense matrix. Another
        column has a zero: its mean is at most √t standard deviations, and the difference of sums keeps its digits.
        """
        if not (centre[stored] != 0).any():
            return self.bordered(centre)
        less = self.less(np.where(stored, centre, 0.0))
        return replace(less, constant=True, origin=centre, centred=stored, source=self)

    @property
    def density(self) -> float:
        return self.numbers.nnz / (self.numbers.shape[0] * self.numbers.shape[1])

    @property
    def is_sparse(self) -> bool:
        return True

    def project(self, W: Array) -> Array:
        """Return W [X − 1cᵀ, 1]ᵀ."""
        V, added = self.split(W)
        if added is not None and not V.any():  # where most fits start
            return np.repeat(W[:, -1:], self.shape[0], axis=1)
        scores = empty((len(V), self.shape[0]))
        scores[...] = (self.numbers @ V.T.astype(self.dtype, copy=False)).T
        if added is not None:
            scores += added
        return scores

    def pull_back(self, R: Array) -> Array:
        """Return R [X − 1cᵀ, 1]."""
        products = np.asarray((self._transposed @ R.T.astype(self.dtype, copy=False)).T, dtype=np.float64)
        if not self.constant:
            return products
        G = np.empty((len(R), self.shape[1]))
        G[:, :-1] = products
        return self.join(R, G)

    def part(self, rows: slice | Array) -> CsrDesign:
        """Return some rows, with the same centre; those of a slice are views."""
        source = None if self.source is None else self.source.part(rows)
        if not isinstance(rows, slice):
            return replace(self, numbers=self.numbers[rows], source=source)
        start, stop, _ = rows.indices(self.shape[0])
        if start == 0 and stop == self.shape[0]:
            return self
        X, first, last = self.numbers, self.numbers.indptr[start], self.numbers.indptr[stop]
        arrays = (X.data[first:last], X.indices[first:last], X.indptr[start : stop + 1] - first)
        return replace(self, numbers=as_they_are(type(X), arrays, (stop - start, X.shape[1])), source=source)

    def stored(self) -> Stored:
        """Return the non-zeros."""
        return Stored(Csr.of(self.numbers), ZERO if self.shift is None else self.shift, self.constant)

    def csr(self) -> sp.csr_array:
        """Return the whole matrix as a CSR array; of centred columns all are stored."""
        if not self.constant:
            return sp.csr_array(self.numbers)
        if self.shift is not None:
            return sp.csr_array(self.toarray())
        X = self.numbers
        ends = X.indptr[1:]  # of rows: SciPy's hstack looks at what it is given for longer than a small fit takes
        data, indices = np.insert(X.data, ends, 1.0), np.insert(X.indices, ends, X.shape[1])
        before = np.arange(len(X.indptr), dtype=X.indptr.dtype)
        return as_they_are(sp.csr_array, (data, indices, X.indptr + before), self.shape)

    def widened(self) -> CsrDesign:
        """Return the matrix in double precision, rounded only once."""
        if self.dtype == np.float64:
            return self
        X = CsrDesign((self.numbers if self.source is None else self.source.numbers).astype(np.float64))  # type: ignore[attr-defined]
        if self.origin is None:
            return X.bordered() if self.constant else X
        return X.centred_at(self.origin, np.broadcast_to(self.centred, len(self.origin)))

    def narrowed(self) -> Design:
        """Return the matrix in single precision, which makes it dense."""
        if self.dtype == np.float32:
            return self
        narrow = DenseDesign(self.raw.toarray().astype(np.float32))
        return replace(narrow, constant=self.constant, origin=self.origin, centred=self.centred)

    def occurring(self) -> tuple[Array, Array]:
        occurs = np.zeros(self.numbers.shape[1], dtype=bool)
        occurs[self.numbers.indices] = True
        if self.constant:
            occurs = np.append(occurs if self.shift is None else occurs | (self.shift != 0), True)
        which = np.flatnonzero(occurs)
        return self.columns(which).dense(), which

    def pull_back_squares(self, R: Array) -> Array:
        X, squares = self.raw, np.zeros((len(R), self.numbers.shape[1]))
        for some in X.chunks():
            squares += X.part(some).squares(R[:, some])
        return self.with_border_of_squares(R, squares)

    def squares(self, R: Array) -> Array:
        """Return R times the squares of what is stored, of all rows at once."""
        return np.asarray((self._with_columns(self.numbers.data**2) @ R.T.astype(self.dtype, copy=False)).T)

    def chunks(self) -> Iterator[slice]:
        """Yield slices of rows, a cacheful of non-zeros at a time, unless that were fewer than columns."""
        stored = max(self.numbers.nnz // self.shape[0], 1)
        step = max(max(CHUNK, self.shape[1]) // stored, 128)
        return (slice(start, start + step) for start in range(0, self.shape[0], step))

    @cached_property
    def _in_order(self) -> Any:
        """The matrix with the columns of each row in order."""
        return self.numbers if self.numbers.has_sorted_indices else self.numbers.sorted_indices()

    @cached_property
    def _transposed(self) -> Any:
        return self._with_columns(self.numbers.data)

    def _with_columns(self, data: Array) -> Any:
        """Return a transposed matrix with other non-zeros."""
        return as_they_are(sp.csc_array, (data, self.numbers.indices, self.numbers.indptr), self.numbers.shape[::-1])

    def absolute(self) -> tuple[Design, Array]:
        if self.shift is not None:  # what is not stored, |c|, is a centre of its own: nothing is written out
            far, X = np.abs(self.shift), sp.csr_array(self.numbers).copy()
            X.data = np.abs(X.data - self.shift[X.indices]) - far[X.indices]
            return CsrDesign(X).bordered(-far), np.asarray(X.sum(axis=1)).ravel() + far.sum() + 1.0
        magnitude = abs(self.numbers)
        total = np.asarray(magnitude.sum(axis=1), dtype=np.float64).ravel()
        return CsrDesign(magnitude, self.constant), total + 1.0 if self.constant else total

    def may_be_far(self, rows: Array, weight: Array, deviations: float) -> bool:
        """Return whether any column is stored in enough rows: of a share f of them mean² ≤ f/(1 − f) variance."""
        indices, indptr = self.numbers.indices, self.numbers.indptr
        stored = np.concatenate([indices[indptr[j] : indptr[j + 1]] for j in rows.tolist()])
        each = np.repeat(weight, indptr[rows + 1] - indptr[rows])
        share = np.bincount(stored, each, minlength=1).max() / weight.sum()
        return bool(share >= (1 - 1e-9) * deviations**2 / (1 + deviations**2))

    def moments(self, weight: Array) -> tuple[Array, Array]:
        """Return the weighted mean and variance of every column: zeros are the most of it, and cancel nothing."""
        if self.constant:
            return super().moments(weight)
        share, first = weight[None] / weight.sum(), np.zeros(self.shape[1])
        stored = self.without_zeros(weight)
        if stored.any():  # such a column would lose digits to its mean, and is measured from its first entry
            first[stored] = self.numbers[[int(np.argmax(weight > 0))]].toarray()[0, stored]

        def moments_of(some: slice) -> Array:
            part = self.part(some).less(first) if stored.any() else self.part(some)
            return np.concatenate([part.pull_back(share[:, some]), part.squares(share[:, some])])

        mean, squares = sum(mapped(moments_of, list(self.chunks())), np.zeros((2, self.shape[1])))
        return first + mean, np.maximum(squares - mean**2, 0.0)

    def without_zeros(self, weight: Array | None = None) -> Array:
        """Return for each column whether every row, of those with a weight, stores an entry."""
        X, rows = self.numbers, self.shape[0]
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
        X = self.numbers
        data = X.data.astype(np.float64)
        data -= centre[X.indices]
        return CsrDesign(as_they_are(type(X), (data.astype(X.dtype, copy=False), X.indices, X.indptr), X.shape))

    @property
    def counts_pairs(self) -> bool:
        """Whether few enough entries are stored."""
        # Above this density a CSR block is multiplied faster as a dense one.
        return self.density < 0.25

    def triangles(self, weights: Array) -> Array:
        """Return the upper triangles of weighted Gram matrices, from the pairs of non-zeros in a row."""
        if self.constant:
            return self._triangles_with_border(weights)
        matrix, (t, p) = self.numbers, self.numbers.shape
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

    def _triangles_with_border(self, weights: Array) -> Array:
        """Return the triangles of X, bordered by its column sums, and moved to the centre."""
        # Sums in single precision could leave a matrix that is not positive.
        X = self.raw.widened()
        p, sums, total = X.shape[1], X.pull_back(weights), weights.sum(axis=1)
        whole = np.zeros((len(weights), p + 1, p + 1))
        whole[:, :p, :p], whole[:, :p, p], whole[:, p, p] = X.triangles(weights), sums, total
        if self.shift is not None:
            c = self.shift
            cross = c[:, None] * sums[:, None] + sums[:, :, None] * c
            moved = c[:, None] * c * total[:, None, None]
            before = np.abs(np.einsum("kii->ki", whole)[:, :p]) + np.abs(np.einsum("kii->ki", moved))
            whole[:, :p, :p] += np.triu(moved - cross)
            whole[:, :p, p] -= c * total[:, None]
            lost = np.abs(np.einsum("kii->ki", whole)[:, :p]) <= ROUNDING * np.finfo(np.float64).eps * before
            for triangle, columns in zip(whole, lost, strict=True):
                triangle[:p][columns] = triangle[:, :p][:, columns] = 0.0
        return whole


def as_they_are(kind: Any, arrays: tuple[Array, Array, Array], shape: tuple[int, int]) -> Any:
    """Return a SciPy matrix of data, indices and indptr; its constructor would copy views of larger arrays."""
    matrix = kind(shape, dtype=arrays[0].dtype)
    matrix.data, matrix.indices, matrix.indptr = arrays
    return matrix
