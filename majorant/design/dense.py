"""X as an array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from majorant import kernels
from majorant._buffers import empty
from majorant._checks import Array
from majorant._threads import even_parts, even_slices, for_each
from majorant.design.base import CHUNK, ZERO, Design
from majorant.kernels.sparse import Stored

# Rows of so many columns, if there are so many numbers, are read once by compiled loops: BLAS is slow beyond the cache.
LONG_ROW, BEYOND_CACHE = 48, 2**18
# So many rows are squared as they are read: models load compiled loops for as many. Fewer are so many numbers at a
# time: more would take fresh memory, which takes longer than to square them.
WORTH_COMPILING, SQUARED = 2**11, 2**16


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
        if len(R) == 1 and self._is_long:
            kernels.dense.pull_back(self.array, R[0], out[0])
            return
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
        many = len(self.array) >= WORTH_COMPILING or self.array.size >= BEYOND_CACHE
        if len(R) == 1 and many and self.array.flags.c_contiguous:
            squares = np.empty((1, self.shape[1]))
            kernels.dense.pull_back_squares(self.array, R[0], squares[0])
            return squares
        R, total = R.astype(self.dtype, copy=False), np.zeros((len(R), self.shape[1]))
        for some in even_parts(len(self.array), -(-self.array.size // SQUARED)):
            total += np.dot(R[:, some], _squares(self.array[some]))
        return total

    @property
    def _is_long(self) -> bool:
        """Whether compiled loops multiply the rows by a vector sooner than BLAS does."""
        X = self.array
        return X.shape[1] >= LONG_ROW and X.size >= BEYOND_CACHE and X.flags.c_contiguous

    @property
    def finds_columns_at_once(self) -> bool:
        """Whether to read X is what takes the time."""
        return self._is_long

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


def _squares(array: Array) -> Array:
    return np.square(array, out=empty(array.shape, array.dtype))


def _copied(array: Array, dtype: Any) -> Array:
    """Return the array in another precision."""
    result = empty(array.shape, dtype)
    result[...] = array
    return result
