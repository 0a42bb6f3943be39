"""Reading a design matrix, dense or sparse, and taking rows of it without copying."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from majorant._checks import Array, finite_array, refuse_non_finite
from majorant.kernels.design import WithConstant, less, moments

# A column is centred if its mean is so many standard deviations from zero.
FAR = 1.0
# Rounding errors of a column, relative to its standard deviation, that leave it to be centred after each product.
IMPLICIT = {np.float64: 1e-13, np.float32: 1e-6}


def read_design(name: str, X: Any) -> Any:
    """Return X as a C-contiguous array or a canonical CSR, float64 or float32, refusing NaN and infinities."""
    if np.ndim(X) == 2 and np.shape(X)[1] == 0:
        raise ValueError(f"{name} must have at least one column, got shape {np.shape(X)}")
    if not sp.issparse(X):
        return np.ascontiguousarray(finite_array(name, X, ndim=2))
    csr = X.tocsr()
    if csr.dtype != np.float32:
        csr = csr.astype(np.float64, copy=False)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    refuse_non_finite(f"{name}.data", csr.data)
    return csr


def with_constant(X: Any, weight: Array | None = None, center: bool | ArrayLike = False) -> WithConstant:
    """Return X with a last column of ones, which is not stored, and with its columns measured from a centre.

    That is their mean, found here, or what is given. Columns as near to zero as to their mean stay as they are, so
    that non-zeros are all there is to most sparse data.
    """
    if center is False:
        return WithConstant(X)
    centre, ratio = _means(X, weight) if center is True else (np.asarray(center), np.inf)
    if not centre.any():
        return WithConstant(X)
    if sp.issparse(X) or ratio * np.finfo(X.dtype).eps <= IMPLICIT[X.dtype.type]:
        return WithConstant(X, centre)
    source = None if X.dtype == np.float64 else X
    return WithConstant(less(X, centre, X.dtype), centre, centred=True, source=source)


def _means(X: Any, weight: Array | None) -> tuple[Array, float]:
    """Return the mean of every column that is far from zero, and how many standard deviations the farthest is away."""
    mean, variance = moments(X, np.ones(X.shape[0]) if weight is None else weight)
    deviation = np.sqrt(variance)
    # A column that does not vary is far where it is large beside the others.
    usual = float(np.median(deviation[deviation > 0])) if deviation.any() else 1.0
    ratio = np.abs(mean) / np.where(deviation > 0, deviation, usual)
    return np.where(np.abs(mean) > FAR * deviation, mean, 0.0), float(ratio.max(initial=0.0))


def take_rows(X: Any, start: int, stop: int) -> Any:
    """Return rows ``start`` to ``stop`` of X as a view."""
    if isinstance(X, WithConstant) and sp.issparse(X.X):
        return X.like(take_rows(X.X, start, stop))
    if not sp.issparse(X):
        return X[start:stop]
    first, last = X.indptr[start], X.indptr[stop]
    parts = (X.data[first:last], X.indices[first:last], X.indptr[start : stop + 1] - first)
    return type(X)(parts, shape=(stop - start, X.shape[1]), copy=False)
