"""Reading X as a design matrix: a constant column, centres and moments of columns, rows put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from majorant.core import kernels
from majorant.core.checks import Array, finite_array, refuse_non_finite
from majorant.core.matrix import CsrDesign, DenseDesign, Design, StoredDesign, laid_out


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
        return Constant(joined([part.inner for part in designs if isinstance(part, Constant)]), first.origin)
    if not isinstance(first, StoredDesign):
        return DenseDesign(np.concatenate([part.toarray() for part in designs]))
    parts = [part for part in designs if isinstance(part, StoredDesign)]
    if any(not np.array_equal(part.centred, first.centred) for part in parts):
        parts = [part.uncentred().bordered(first.origin) for part in parts]
    sources = [part.source for part in parts if part.source is not None]
    source = joined(sources) if sources else None
    if isinstance(parts[0], CsrDesign):
        stacked = sp.vstack([sp.csr_array(part.numbers) for part in parts], format="csr")
        return replace(parts[0], numbers=stacked, source=source)
    return replace(parts[0], numbers=np.concatenate([part.numbers for part in parts]), source=source)


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


@dataclass(frozen=True, eq=False)
class Constant(Design):
    """[X − 1cᵀ, 1] of a design that knows neither ones nor centres, such as one of a user.

    Parameters
    ----------
    inner : Design
        X.
    origin : array of shape (p,), optional
        c, zero if not given.
    """

    inner: Design
    origin: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape[0], self.inner.shape[1] + 1

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.inner.dtype

    @property
    def centre(self) -> Array | None:
        return self.origin

    def project(self, W: Array) -> Array:
        constant = W[:, -1:] if self.origin is None else W[:, -1:] - (W[:, :-1] @ self.origin)[:, None]
        return self.inner.project(W[:, :-1]) + constant

    def pull_back(self, R: Array) -> Array:
        G, total = self.inner.pull_back(R), R.sum(axis=1, keepdims=True)
        return np.column_stack([G if self.origin is None else G - total * self.origin, total])

    def part(self, rows: slice | Array) -> Constant:
        return Constant(self.inner.part(rows), self.origin)

    def toarray(self) -> Array:
        X = self.inner.toarray()
        return np.column_stack([X if self.origin is None else X - self.origin, np.ones(len(X), X.dtype)])

    def without_ones(self) -> Array:
        return self.dense()[:, :-1]

    def uncentred(self) -> Constant:
        return Constant(self.inner)

    def column_norms(self) -> Array:
        """Return for each column how large its sum of products is before anything cancels."""
        root, norms = np.sqrt(self.shape[0]), self.inner.column_norms()
        return np.append(norms if self.origin is None else norms + root * np.abs(self.origin), root)

    def frobenius_norm(self) -> float:
        """Return a bound on the norm of the matrix as one long vector, before anything cancels."""
        return float(np.linalg.norm(self.column_norms()))


# A column is centred if its mean is so many standard deviations from zero.
FAR = 1.0
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
    refuse_non_finite(f"{name}.data", design.numbers.data)
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
    own = getattr(design, "with_constant", None)
    if own is not None:  # of tensors
        bordered: Design = own(weight, center)
        return bordered
    origin, ratio = None, 0.0
    if center is not False:
        centre = _means(design, weight) if center is True else given_centre(center)
        origin, ratio = (centre.origin, centre.ratio) if centre.origin.any() else (None, 0.0)
    if not isinstance(design, StoredDesign):
        return Constant(design, origin)
    if origin is not None and isinstance(design, CsrDesign):
        return design.centred_at(origin, design.without_zeros(weight))
    # Rounding errors of a column, relative to its standard deviation, that leave it to be centred after each product.
    is_implicit = ratio * np.finfo(design.dtype).eps <= ({np.float64: 1e-13, np.float32: 1e-6})[design.dtype.type]
    if origin is None or is_implicit or not isinstance(design, DenseDesign):
        return design.bordered(origin)
    source = None if design.dtype == np.float64 else design
    less = design.less(origin, design.dtype)
    return replace(less, constant=True, origin=origin, centred=True, source=source)


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
