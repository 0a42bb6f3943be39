"""Woodbury's identity through a Cholesky factor: (M⁻¹ + QᵀQ)⁻¹ = M − WᵀW."""

from __future__ import annotations

from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf

from majorant._checks import Array


def whiten(Q: Array, QM: Array) -> Array:
    """Return W with (M⁻¹ + QᵀQ)⁻¹ = M − WᵀW, given QM."""
    return whiten_with(QM @ Q.T, QM)


def whiten_with(growth: Array, QM: Array) -> Array:
    """Do what :func:`whiten` does, given QMQᵀ, which is overwritten."""
    growth.flat[:: len(growth) + 1] += 1.0
    # LAPACK directly: on matrices this small SciPy's checks cost more than the work. It wants columns, we have rows;
    # so it solves W^T U = (QM)^T for growth = U^T U, and no array has to be turned.
    U, failed = dpotrf(growth.T, lower=0, overwrite_a=1)
    if failed:
        raise FloatingPointError("the curvature lost its positivity to rounding; scale the features down")
    return dtrsm(1.0, U, QM.T, side=1, lower=0).T
