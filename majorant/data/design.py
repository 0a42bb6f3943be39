"""Reading a design matrix, dense or sparse, and taking rows of it without copying."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from majorant._checks import finite_array, refuse_non_finite
from majorant.kernels.design import WithConstant


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


def with_constant(X: Any) -> Any:
    """Return X with a last column of ones, which is stored only if X is sparse."""
    if not sp.issparse(X):
        return WithConstant(X)
    return sp.hstack([X, np.ones((X.shape[0], 1), dtype=X.dtype)], format="csr")


def take_rows(X: Any, start: int, stop: int) -> Any:
    """Return rows ``start`` to ``stop`` of X as a view."""
    if not sp.issparse(X):
        return X[start:stop]
    first, last = X.indptr[start], X.indptr[stop]
    parts = (X.data[first:last], X.indices[first:last], X.indptr[start : stop + 1] - first)
    return type(X)(parts, shape=(stop - start, X.shape[1]), copy=False)
