"""Reading what people have as a design matrix."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from majorant import kernels
from majorant._checks import Array, finite_array, refuse_non_finite
from majorant.design.base import Design
from majorant.design.constant import Constant
from majorant.design.csr import CsrDesign
from majorant.design.dense import DenseDesign, laid_out

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
    if not csr.has_canonical_format and _may_repeat(csr):
        csr = csr.copy()
        csr.sum_duplicates()
    return CsrDesign(csr)


def _may_repeat(csr: Any) -> bool:
    """Return whether a row may store a column twice; of few non-zeros to sort them is quicker than to load a kernel."""
    if csr.nnz < WORTH_COMPILING or csr.shape[0] >= np.iinfo(np.int32).max:
        return True
    return kernels.stored.repeats(csr.indices, csr.indptr, csr.shape[1])


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
