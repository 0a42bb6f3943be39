"""Design matrices with a constant column, and with columns measured from a centre, without a copy of X.

Also: where columns are and how far they spread, rows of several matrices one after the other, rows that were not read,
and reading what people have as a design.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from majorant.core import kernels
from majorant.core.checks import Array, finite_array, refuse_non_finite
from majorant.core.kernels.sparse import Stored
from majorant.core.matrix import ZERO, CsrDesign, DenseDesign, Design, as_they_are, laid_out

# Numbers that are written out once, and kept: Hessians of small data are found at every step.
FEW = 2**15
# Of centred columns more are: to subtract their centres each time takes a fourth as long as the Hessian.
FEW_CENTRED = 2**18
# Centred squares below so many rounding errors of the sums that they are differences of are zero.
ROUNDING = 64


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

    def __init__(
        self,
        inner: Design,
        origin: Array | None = None,
        centred: bool | Array = False,
        source: Design | None = None,
    ) -> None:
        self.inner, self.origin, self.centred, self.source = inner, origin, centred, source
        self.shape, self.dtype, self.centre = (inner.shape[0], inner.shape[1] + 1), inner.dtype, origin
        self.density, self.is_sparse, self.counts_pairs = inner.density, inner.is_sparse, inner.counts_pairs
        shift = None if origin is None or np.all(centred) else np.where(centred, 0.0, origin)
        self.shift = shift if shift is not None and shift.any() else None  # what is still to be subtracted from X
        self.finds_columns_at_once = self.shift is None and inner.finds_columns_at_once
        self._written: Array | None = None

    @classmethod
    def of_sparse(cls, X: CsrDesign, centre: Array, stored: Array) -> Constant:
        """Return a sparse matrix whose ``stored`` columns, those without zeros, have their centre subtracted at once.

        The subtraction fills nothing in there, and a constant column becomes zero as it does in a dense matrix. Another
        column has a zero: its mean is at most √t standard deviations, and the difference of sums keeps its digits.
        """
        if not (centre[stored] != 0).any():
            return cls(X, centre)
        return cls(X.less(np.where(stored, centre, 0.0)), centre, stored, X)

    def without_ones(self) -> Array:
        X = self.inner.dense()
        return X if self.shift is None else X - self.shift

    def project(self, W: Array) -> Array:
        if not W[:, :-1].any():  # where most fits start
            return np.repeat(W[:, -1:], self.shape[0], axis=1)
        constant = W[:, -1:] if self.shift is None else W[:, -1:] - (W[:, :-1] @ self.shift)[:, None]
        scores = self.inner.project(W[:, :-1])
        scores += constant
        return scores

    def pull_back(self, R: Array) -> Array:
        total, G = R.sum(axis=1), np.empty((len(R), self.shape[1]))
        G[:, -1] = total
        if isinstance(self.inner, DenseDesign):
            self.inner.pull_back(R, G[:, :-1])
        else:
            G[:, :-1] = self.inner.pull_back(R)
        if self.shift is not None:
            G[:, :-1] -= total[:, None] * self.shift
        return G

    def stored(self) -> Stored | None:
        inner = self.inner.stored()
        shift = ZERO if self.shift is None else self.shift
        return None if inner is None else Stored(inner.rows, shift, constant=True)

    def part(self, rows: slice | Array) -> Constant:
        source = None if self.source is None else self.source.part(rows)
        return Constant(self.inner.part(rows), self.origin, self.centred, source)

    def toarray(self) -> Array:
        """Return the whole matrix, written out; that of a few rows is remembered."""
        if self._written is not None:
            return self._written
        X, shift = self.inner.toarray(), self.shift
        written = np.empty(self.shape, X.dtype if shift is None else np.result_type(X, shift))
        written[:, -1] = 1.0
        if shift is None:
            written[:, :-1] = X
        else:
            np.subtract(X, shift, out=written[:, :-1])  # there: fresh memory for a copy takes longer than to subtract
        if written.size <= (FEW if shift is None else FEW_CENTRED):
            self._written = written
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
        if not isinstance(self.inner, CsrDesign):
            return super().occurring()
        occurs = self.inner.not_empty() | (False if self.shift is None else self.shift != 0)
        which = np.flatnonzero(np.append(occurs, True))
        return self.columns(which).dense(), which

    def times(self, M: Array) -> Array:
        return self.inner.times(M[:-1]) + (M[-1] if self.shift is None else M[-1] - self.shift @ M[:-1])

    def pull_back_squares(self, R: Array) -> Array:
        total, squares = R.sum(axis=1, keepdims=True), self.inner.pull_back_squares(R)
        if self.shift is not None:
            moved = total * self.shift**2
            rounding = ROUNDING * np.finfo(self.dtype).eps * (squares + moved)
            squares += moved - 2 * self.shift * self.inner.pull_back(R)
            squares[squares <= rounding] = 0.0
        return np.column_stack([squares, total])

    def column_norms(self) -> Array:
        root, norms = np.sqrt(self.shape[0]), self.inner.column_norms()
        return np.append(norms if self.shift is None else norms + root * np.abs(self.shift), root)

    def frobenius_norm(self) -> float:
        shift = 0.0 if self.shift is None else float(np.linalg.norm(self.shift))
        return self.inner.frobenius_norm() + float(np.sqrt(self.shape[0])) * (shift + 1.0)

    def absolute(self) -> tuple[Constant, Array]:
        """Return |X − 1cᵀ| with its column of ones, and the sum of each row."""
        if self.shift is not None and isinstance(self.inner, CsrDesign):
            # What is not stored, |c|, becomes a centre of its own: nothing is written out.
            X, far = self.inner.csr().copy(), np.abs(self.shift)
            X.data = np.abs(X.data - self.shift[X.indices]) - far[X.indices]
            return Constant(CsrDesign(X), -far), np.asarray(X.sum(axis=1)).ravel() + far.sum() + 1.0
        inner = self.inner if self.shift is None else DenseDesign(self.toarray()[:, :-1])
        magnitude, total = inner.absolute()
        return Constant(magnitude), total + 1.0

    def gram(self, B: Array, dtype: Any = np.float64) -> Array:
        """Return that of the inner matrix, bordered by its sums, where it need not be written out for that."""
        written_out = self.shift is not None or self.shape[0] * self.shape[1] <= FEW
        if len(B) > 1 or written_out or not isinstance(self.inner, DenseDesign):
            return super().gram(B, dtype)
        p, weight = self.shape[1] - 1, B[0]
        whole = np.empty((p + 1, p + 1))
        whole[:p, :p] = self.inner.gram(B, dtype)
        whole[p, :p] = whole[:p, p] = self.inner.pull_back(weight)[0]
        whole[p, p] = weight.sum()
        return whole

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


class Absent(Design):
    """What is known of rows that have not been read: functions of labels and scores alone need no more."""

    def __init__(self, rows: int, like: Design) -> None:
        self.shape, self.dtype, self.centre = (rows, like.shape[1]), like.dtype, like.centre
        self.density, self.is_sparse = like.density, like.is_sparse

    def _refuse(self, *_: Any) -> NoReturn:
        raise TypeError("these rows were not read: what looks at rows must not be marked as if it did not")

    project = pull_back = part = toarray = _refuse  # type: ignore[assignment]


def joined(designs: Sequence[Design]) -> Design:
    """Return all rows as one matrix; what the designs have in common, such as a centre, is that of the first."""
    first = designs[0]
    if len(designs) == 1:
        return first
    if isinstance(first, Constant):
        parts = [design for design in designs if isinstance(design, Constant)]
        if any(not np.array_equal(part.centred, first.centred) for part in parts):
            return Constant(joined([part.uncentred().inner for part in parts]), first.origin)
        sources = [part.source for part in parts if part.source is not None]
        source = joined(sources) if sources else None
        return Constant(joined([part.inner for part in parts]), first.origin, first.centred, source)
    if first.is_sparse:
        return CsrDesign(sp.vstack([design.csr() for design in designs], format="csr"))
    return DenseDesign(np.concatenate([design.toarray() for design in designs]))


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
        weight = np.ones(X.shape[0]) if weight is None else weight
        return cls(len(weight), float(weight.sum()), *read_design("X", X).moments(weight))

    def __add__(self, other: Moments) -> Moments:
        total = self.weight + other.weight
        share, apart = other.weight / total, other.mean - self.mean
        variance = (1 - share) * self.variance + share * other.variance + share * (1 - share) * apart**2
        return Moments(self.rows + other.rows, total, self.mean + share * apart, variance)

    def widened(self, columns: int) -> Moments:
        """Return those of rows that have zeros in further columns."""
        more = np.zeros(columns - len(self.mean))
        return Moments(self.rows, self.weight, np.append(self.mean, more), np.append(self.variance, more))


# A column is centred if its mean is so many standard deviations from zero.
FAR = 1.0
# Rounding errors of a column, relative to its standard deviation, that leave it to be centred after each product.
IMPLICIT = {np.float64: 1e-13, np.float32: 1e-6}
# Non-zeros whose order matters to nobody, and takes longer to put right than a kernel to look through them.
WORTH_COMPILING = 2**14
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
    if not csr.has_canonical_format:  # of few non-zeros to sort them is quicker than to load a kernel
        few = csr.nnz < WORTH_COMPILING or csr.shape[0] >= np.iinfo(np.int32).max
        if few or kernels.products.repeats(csr.indices, csr.indptr, csr.shape[1]):
            csr = csr.copy()
            csr.sum_duplicates()
    return CsrDesign(csr)


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
