"""X by its non-zeros."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from majorant import kernels
from majorant._buffers import empty
from majorant._checks import Array
from majorant._threads import even_slices, for_each, mapped
from majorant.design.base import CHUNK, ZERO, Design, first_weighted
from majorant.kernels.sparse import Csr, Stored

# Above this density a CSR block is multiplied faster as a dense one.
DENSE_ENOUGH = 0.25
# Of fewer non-zeros SciPy finds the squares before Numba is loaded.
WORTH_COMPILING = 2**16
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
        if len(R) == 1 and self.matrix.nnz >= WORTH_COMPILING:
            kernels.gram.csr_gram_diagonal(Csr.of(self.matrix), R[0], squares[0])
            return squares
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
        X, p = Csr.of(self._in_order), self.shape[1]
        grams = np.zeros((len(weights), p, p))

        def add_some(some: slice) -> None:  # one thread finds a row of all triangles, so that none are to be added up
            for weight, gram in zip(weights, grams, strict=True):
                kernels.gram.add_csr_gram(X, weight, some.start, some.stop, gram)

        for_each(add_some, even_slices(p, 64))
        return grams


def as_they_are(kind: Any, arrays: tuple[Array, Array, Array], shape: tuple[int, int]) -> Any:
    """Return a SciPy matrix of data, indices and indptr; its constructor would copy views of larger arrays."""
    matrix = kind(shape, dtype=arrays[0].dtype)
    matrix.data, matrix.indices, matrix.indptr = arrays
    return matrix
