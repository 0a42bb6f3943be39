"""Rows that are somewhere else.

Rows of several designs, one after the other.

Where columns are, and how far they spread: found of some rows at a time, and added up.

A constant column, and columns measured from their centres, without a copy of the rest.

Reading what people have as a design matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from majorant.core import kernels
from majorant.core.checks import Array, finite_array, lazy, refuse_non_finite
from majorant.core.kernels.sparse import Stored
from majorant.core.matrix import ZERO, CsrDesign, DenseDesign, Design, as_they_are, laid_out


@dataclass(frozen=True, eq=False)
class Absent(Design):
    """What is known of rows that have not been read: a task that looks at labels and scores alone needs no more."""

    rows: int
    like: Design

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows, self.like.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision that they would be multiplied in."""
        return self.like.dtype

    @property
    def centre(self) -> Array | None:
        """Where their columns are measured from."""
        return self.like.centre

    @property
    def density(self) -> float:
        """The share of them that is stored."""
        return self.like.density

    @property
    def is_sparse(self) -> bool:
        """Whether what is stored are non-zeros."""
        return self.like.is_sparse

    def project(self, W: Array) -> Array:
        """Raise: nobody should ask."""
        self._are_absent()

    def pull_back(self, R: Array) -> Array:
        """Raise."""
        self._are_absent()

    def part(self, rows: slice | Array) -> Design:
        """Raise."""
        self._are_absent()

    def toarray(self) -> Array:
        """Raise."""
        self._are_absent()

    def _are_absent(self) -> NoReturn:
        raise TypeError("these rows were not read: a task that looks at rows must not say that it does not")


def joined(designs: Sequence[Design]) -> Design:
    """Return all rows as one matrix; what the designs have in common, such as a centre, is that of the first."""
    first = designs[0]
    if len(designs) == 1:
        return first
    if isinstance(first, Constant):
        parts = [each for each in designs if isinstance(each, Constant)]
        if any(not np.array_equal(each.centred, first.centred) for each in parts):
            return Constant(joined([each.uncentred().inner for each in parts]), first.origin)
        sources = [each.source for each in parts if each.source is not None]
        source = joined(sources) if sources else None
        return Constant(joined([each.inner for each in parts]), first.origin, first.centred, source)
    if first.is_sparse:
        return CsrDesign(sp.vstack([each.csr() for each in designs], format="csr"))
    return DenseDesign(np.concatenate([each.toarray() for each in designs]))


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and variance of the columns of all rows seen so far."""

    rows: int
    weight: float
    mean: Array
    variance: Array

    @classmethod
    def of(cls, X: Any, weight: Array | None) -> Moments:
        """Return those of a chunk."""
        each = np.ones(X.shape[0]) if weight is None else weight
        return cls(len(each), float(each.sum()), *read_design("X", X).moments(each))

    def __add__(self, other: Moments) -> Moments:
        total = self.weight + other.weight
        share, apart = other.weight / total, other.mean - self.mean
        variance = (1 - share) * self.variance + share * other.variance + share * (1 - share) * apart**2
        return Moments(self.rows + other.rows, total, self.mean + share * apart, variance)

    def widened(self, columns: int) -> Moments:
        """Return those of rows that have zeros in further columns."""
        more = np.zeros(columns - len(self.mean))
        return Moments(self.rows, self.weight, np.append(self.mean, more), np.append(self.variance, more))


# Numbers that are written out once, and kept: Hessians of small data are found at every step.
FEW = 2**15
# Of centred columns more are: to subtract their centres each time takes a fourth as long as the Hessian.
FEW_CENTRED = 2**18
# Centred squares below so many rounding errors of the sums that they are differences of are zero.
ROUNDING = 64


@dataclass(frozen=True, eq=False)
class Constant(Design):
    """[X − 1cᵀ, 1]: columns measured from a centre, and a last column of ones, neither of them stored.

    Parameters
    ----------
    inner : Design
        X, which is what is multiplied.
    origin : array of shape (p,), optional
        c. It does not matter to a model with a free intercept, but rounding errors are those of X, not of X − 1cᵀ.
    centred : bool or array of shape (p,)
        Whether X is what is left after c has been subtracted, because rounding errors would be too large: for all
        columns, or for each.
    source : Design, optional
        X before that, where the subtraction cannot be undone without rounding.
    """

    inner: Design
    origin: Array | None = None
    centred: bool | Array = False
    source: Design | None = None

    @classmethod
    def of_sparse(cls, X: CsrDesign, centre: Array, stored: Array) -> Constant:
        """Return a sparse matrix whose ``stored`` columns, those without zeros, have their centre subtracted at once.

        The subtraction fills nothing in there, and a constant column becomes zero as it does in a dense matrix. Another
        column has a zero: its mean is at most √t standard deviations, and the difference of sums keeps its digits.
        """
        if not (centre[stored] != 0).any():
            return cls(X, centre)
        return cls(X.less(np.where(stored, centre, 0.0)), centre, stored, X)

    @lazy
    def shape(self) -> tuple[int, int]:
        """Rows and columns, the constant one included."""
        return self.inner.shape[0], self.inner.shape[1] + 1

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of X."""
        return self.inner.dtype

    @property
    def centre(self) -> Array | None:
        """Where columns are measured from."""
        return self.origin

    @property
    def density(self) -> float:
        """The share of X that is stored; the ones are not."""
        return self.inner.density

    @property
    def is_sparse(self) -> bool:
        """Whether what is stored of X are its non-zeros."""
        return self.inner.is_sparse

    @lazy
    def shift(self) -> Array | None:
        """What is still to be subtracted from X."""
        if self.origin is None or np.all(self.centred):
            return None
        shift = np.where(self.centred, 0.0, self.origin)
        return shift if shift.any() else None

    def without_ones(self) -> Array:
        """Return X − 1cᵀ written out."""
        X = self.inner.dense()
        return X if self.shift is None else X - self.shift

    def project(self, W: Array) -> Array:
        """Return W [X − 1cᵀ, 1]ᵀ."""
        if not W[:, :-1].any():  # where most fits start
            return np.repeat(W[:, -1:], self.shape[0], axis=1)
        constant = W[:, -1:] if self.shift is None else W[:, -1:] - (W[:, :-1] @ self.shift)[:, None]
        scores = self.inner.project(W[:, :-1])
        scores += constant
        return scores

    def pull_back(self, R: Array) -> Array:
        """Return R [X − 1cᵀ, 1]."""
        total, G = R.sum(axis=1), np.empty((len(R), self.shape[1]))
        G[:, -1] = total
        if isinstance(self.inner, DenseDesign):
            self.inner.write_back(R, G[:, :-1])
        else:
            G[:, :-1] = self.inner.pull_back(R)
        if self.shift is not None:
            G[:, :-1] -= total[:, None] * self.shift
        return G

    def stored(self) -> Stored | None:
        """Return what is stored of X; the ones are not."""
        inner = self.inner.stored()
        shift = ZERO if self.shift is None else self.shift
        return None if inner is None else Stored(inner.rows, shift, constant=True)

    def part(self, rows: slice | Array) -> Constant:
        """Return some rows, with the same centre."""
        source = None if self.source is None else self.source.part(rows)
        return Constant(self.inner.part(rows), self.origin, self.centred, source)

    def toarray(self) -> Array:
        """Return the whole matrix, written out; that of a few rows is remembered."""
        few = FEW if self.shift is None else FEW_CENTRED
        return self._remembered if self.shape[0] * self.shape[1] <= few else self._written_out()

    @lazy
    def _remembered(self) -> Array:
        return self._written_out()

    def _written_out(self) -> Array:
        X, shift = self.inner.toarray(), self.shift
        written = np.empty(self.shape, X.dtype if shift is None else np.result_type(X, shift))
        written[:, -1] = 1.0
        if shift is None:
            written[:, :-1] = X
        else:
            np.subtract(X, shift, out=written[:, :-1])  # there: fresh memory for a copy takes longer than to subtract
        return written

    def csr(self) -> sp.csr_array:
        """Return the whole matrix as a CSR array; of centred columns all are stored."""
        if not self.is_sparse or self.shift is not None:
            return sp.csr_array(self.toarray())
        X = self.inner.csr()
        ends = X.indptr[1:]  # of rows: SciPy's hstack looks at what it is given for longer than a small fit takes
        data, indices = np.insert(X.data, ends, 1.0), np.insert(X.indices, ends, X.shape[1])
        before = np.arange(len(X.indptr), dtype=X.indptr.dtype)
        return as_they_are(sp.csr_array, (data, indices, X.indptr + before), self.shape)

    def uncentred(self) -> Constant:
        """Return the matrix with columns measured from zero."""
        if self.source is not None:
            return Constant(self.source)
        if self.origin is None or not np.any(self.centred):
            return Constant(self.inner)
        return Constant(DenseDesign(self.inner.toarray() + self.origin))

    def widened(self) -> Constant:
        """Return the matrix in double precision, rounded only once."""
        if self.dtype == np.float64:
            return self
        X = self.inner if self.source is None else self.source
        if self.origin is None:
            return Constant(X.widened())
        if isinstance(X, CsrDesign):
            return Constant.of_sparse(X.widened(), self.origin, np.broadcast_to(self.centred, len(self.origin)))
        if not isinstance(X, DenseDesign):
            return Constant(X.widened(), self.origin)
        return Constant(X.less(self.origin, np.float64), self.origin, centred=True)

    def narrowed(self) -> Constant:
        """Return the matrix in single precision, columns less their centre."""
        if self.dtype == np.float32:
            return self
        if self.shift is None or not isinstance(self.inner, DenseDesign):
            return Constant(self.inner.narrowed(), self.origin, self.centred)
        return Constant(self.inner.less(self.shift, np.float32), self.origin, centred=True)

    def columns(self, which: Array) -> Design:
        """Return some columns, the constant one among them or not."""
        if len(which) == self.shape[1]:
            return self
        stored = which[which < self.shape[1] - 1]
        some = Constant(self.inner.columns(stored), None if self.shift is None else self.shift[stored])
        if len(stored) < len(which):
            return some
        return some.inner if some.shift is None else DenseDesign(some.toarray()[:, :-1])

    def occurring(self) -> tuple[Array, Array]:
        """Return the columns that are not empty, as a dense array, and which they are."""
        if not isinstance(self.inner, CsrDesign):
            return super().occurring()
        occurs = self.inner.not_empty() | (False if self.shift is None else self.shift != 0)
        which = np.flatnonzero(np.append(occurs, True))
        return self.columns(which).dense(), which

    def times(self, M: Array) -> Array:
        """Return [X − 1cᵀ, 1] M."""
        return self.inner.times(M[:-1]) + (M[-1] if self.shift is None else M[-1] - self.shift @ M[:-1])

    def pull_back_squares(self, R: Array) -> Array:
        """Return R times the squares of the entries."""
        total, squares = R.sum(axis=1, keepdims=True), self.inner.pull_back_squares(R)
        if self.shift is not None:
            moved = total * self.shift**2
            rounding = ROUNDING * np.finfo(self.dtype).eps * (squares + moved)
            squares += moved - 2 * self.shift * self.inner.pull_back(R)
            squares[squares <= rounding] = 0.0
        return np.column_stack([squares, total])

    def column_norms(self) -> Array:
        """Return for each column how large its sum of products is before anything cancels."""
        root, norms = np.sqrt(self.shape[0]), self.inner.column_norms()
        return np.append(norms if self.shift is None else norms + root * np.abs(self.shift), root)

    def frobenius_norm(self) -> float:
        """Return a bound on the norm of the matrix as one long vector, before anything cancels."""
        shift = 0.0 if self.shift is None else float(np.linalg.norm(self.shift))
        return self.inner.frobenius_norm() + float(np.sqrt(self.shape[0])) * (shift + 1.0)

    def absolute(self) -> tuple[Constant, Array]:
        """Return |X − 1cᵀ| with its column of ones, and the sum of each row."""
        if self.shift is not None and isinstance(self.inner, CsrDesign):
            return self._absolute_of_sparse(self.inner, np.abs(self.shift))
        inner = self.inner if self.shift is None else DenseDesign(self.toarray()[:, :-1])
        magnitude, total = inner.absolute()
        return Constant(magnitude), total + 1.0

    def _absolute_of_sparse(self, inner: CsrDesign, far: Array) -> tuple[Constant, Array]:
        """Return the same with what is not stored, |c|, as a centre of its own: nothing is written out."""
        assert self.shift is not None
        X = inner.csr().copy()
        X.data = np.abs(X.data - self.shift[X.indices]) - far[X.indices]
        return Constant(CsrDesign(X), -far), np.asarray(X.sum(axis=1)).ravel() + far.sum() + 1.0

    def _dense_grams(self, B: Array, dtype: Any) -> Array:
        """Return those of the inner matrix, bordered by its sums, where it need not be written out for that."""
        written_out = self.shift is not None or self.shape[0] * self.shape[1] <= FEW
        if len(B) > 1 or written_out or not isinstance(self.inner, DenseDesign):
            return super()._dense_grams(B, dtype)
        p, weight = self.shape[1] - 1, B[0]
        whole = np.empty((1, 1, p + 1, p + 1))
        whole[0, 0, :p, :p] = self.inner._dense_grams(B, dtype)[0, 0]
        whole[0, 0, p, :p] = whole[0, 0, :p, p] = self.inner.pull_back(weight)[0]
        whole[0, 0, p, p] = weight.sum()
        return whole

    @property
    def counts_pairs(self) -> bool:
        """Whether the inner matrix does."""
        return self.inner.counts_pairs

    def triangles(self, weights: Array) -> Array:
        """Return the triangles of the inner matrix, bordered by its column sums, and moved to the centre."""
        # Sums in single precision could leave a matrix that is not positive.
        inner = self.inner if self.dtype == np.float64 else self.inner.widened()
        p, sums, total = self.shape[1] - 1, inner.pull_back(weights), weights.sum(axis=1)
        whole = np.zeros((len(weights), p + 1, p + 1))
        whole[:, :p, :p], whole[:, :p, p], whole[:, p, p] = inner.triangles(weights), sums, total
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


# A column is centred if its mean is so many standard deviations from zero.
FAR = 1.0
# Rounding errors of a column, relative to its standard deviation, that leave it to be centred after each product.
IMPLICIT = {np.float64: 1e-13, np.float32: 1e-6}
# Rows that tell where columns are.
ENOUGH_ROWS = 200


class Centre(NamedTuple):
    """Where columns are measured from, and how many standard deviations from zero the farthest is."""

    origin: Array
    ratio: float


def read_design(name: str, X: Any) -> Design:
    """Return X as a design: an array, a CSR without duplicates, or a design as it is; what is not finite is refused."""
    if isinstance(X, Design):
        return X
    if np.ndim(X) == 2 and np.shape(X)[1] == 0:
        raise ValueError(f"{name} must have at least one column, got shape {np.shape(X)}")
    if not sp.issparse(X):
        return DenseDesign(laid_out(finite_array(name, X, ndim=2)))
    design = read_csr(X)
    refuse_non_finite(f"{name}.data", design.matrix.data)
    return design


def read_csr(X: Any) -> CsrDesign:
    """Return a sparse matrix as a design; that its numbers are finite is up to others."""
    csr = X.tocsr()
    if csr.dtype != np.float32:
        csr = csr.astype(np.float64, copy=False)
    if not csr.has_canonical_format and _may_repeat(csr):
        csr = csr.copy()
        csr.sum_duplicates()
    return CsrDesign(csr)


def _may_repeat(csr: Any) -> bool:
    """Return whether a row may store a column twice; few non-zeros are sorted, which tells."""
    if not kernels.worth_compiling(csr.nnz) or csr.shape[0] >= np.iinfo(np.int32).max:
        return True
    return kernels.products.repeats(csr.indices, csr.indptr, csr.shape[1])


def with_constant(design: Design, weight: Array | None = None, center: bool | ArrayLike | Centre = False) -> Design:
    """Return a design with a last column of ones, which is not stored, and its columns measured from a centre.

    That is their mean, found here, or what is given. Columns as near to zero as to their mean stay as they are, so
    that non-zeros are all there is to most sparse data.
    """
    own = design.bordered(weight, center)
    if own is not None:
        return own
    if center is False:
        return Constant(design)
    centre, ratio = _means(design, weight) if center is True else given_centre(center)
    if not centre.any():
        return Constant(design)
    if isinstance(design, CsrDesign):
        return Constant.of_sparse(design, centre, design.without_zeros(weight))
    if not isinstance(design, DenseDesign) or ratio * np.finfo(design.dtype).eps <= IMPLICIT[design.dtype.type]:
        return Constant(design, centre)
    source = None if design.dtype == np.float64 else design
    return Constant(design.less(centre, design.dtype), centre, centred=True, source=source)


def given_centre(center: ArrayLike | Centre) -> Centre:
    """Return a centre that somebody has chosen, of who knows which columns."""
    return center if isinstance(center, Centre) else Centre(np.asarray(center), np.inf)


def _means(design: Design, weight: Array | None) -> Centre:
    """Return the mean of every column that is far from zero.

    Any centre near the mean is as good: some rows tell, evenly spread.
    """
    rows, weight = design.shape[0], np.ones(design.shape[0]) if weight is None else weight
    if rows > 2 * ENOUGH_ROWS:
        some = np.arange(ENOUGH_ROWS) * rows // ENOUGH_ROWS
        if weight[some].any():
            if isinstance(design, CsrDesign) and not design.may_be_far(some, weight[some], FAR):
                return Centre(np.zeros(design.shape[1]), 0.0)
            design, weight = design.part(some), weight[some]
    return far_means(*design.moments(weight))


def far_means(mean: Array, variance: Array) -> Centre:
    """Return the means that are far from zero."""
    deviation, size = np.sqrt(variance), np.abs(mean)
    varies = deviation > 0
    usual = deviation
    if not varies.all():  # a column that does not vary is far where it is large beside the others
        usual = np.where(varies, deviation, np.median(deviation[varies]) if varies.any() else 1.0)
    return Centre(np.where(size > FAR * deviation, mean, 0.0), float((size / usual).max(initial=0.0)))
