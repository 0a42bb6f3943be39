"""Solving with a positive definite matrix, also where rounding has made it indefinite: a factor that always exists."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, eigh
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from majorant._checks import Array
from majorant._threads import all_for_blas
from majorant.curvature import lapack

# What is added to the diagonal, relative to itself, where a factor does not exist: more each time.
JITTER = 1e-14
GROWTH = 100.0
# Factors of smaller matrices take one thread less than a second; with more, their last digits depend on how many.
LARGE = 2_000
# Of larger ones several may be worked on at once: other threads run meanwhile, which takes microseconds to arrange.
WORTH_SHARING = 256


@dataclass(frozen=True, eq=False)
class Factor:
    """A⁻¹ as a function, by a Cholesky factor L in a lower triangle; what stands above it is not read."""

    L: Array

    def __call__(self, b: Array) -> Array:
        """Return A⁻¹b."""
        return lapack.potrs(self.L, b) if len(self.L) >= WORTH_SHARING else dpotrs(self.L, b, lower=1)[0]

    def inverse(self) -> Array:
        """Return A⁻¹, both triangles."""
        lower = np.tril(dpotri(self.L, lower=1)[0])
        return lower + np.tril(lower, -1).T


@dataclass(frozen=True, eq=False)
class PseudoInverse:
    """A⁺ as a function, by a root R of it: A⁺ = RRᵀ."""

    root: Array

    def __call__(self, b: Array) -> Array:
        """Return a solution of Ax = b, if there is one."""
        return self.root @ (self.root.T @ b)


@dataclass(frozen=True, eq=False)
class NoInverse:
    """What is left of a matrix that is not finite; whoever steps there finds out."""

    def __call__(self, b: Array) -> Array:
        """Return NaN."""
        return np.full_like(b, np.nan)


def steady_factor(A: Array, classes: int = 1) -> Factor:
    """Return a Cholesky factor of A; a share of its diagonal is added until there is one.

    Only the lower triangle of A is read. Of several ``classes`` the direction in which all move together is grounded:
    nothing but the prior resists there, which is lost to rounding beside large columns; but no step goes there either.
    """
    A = _occupied(grounded(A, classes) if classes > 1 else A)
    share = 0.0
    while share < 1:
        try:
            with for_large(len(A)):
                return Factor(lower_factor(_with_jitter(A, share)))
        except LinAlgError:
            share = max(GROWTH * share, JITTER * len(A))
    return Factor(np.diag(np.sqrt(np.abs(np.diagonal(A)))))


def lower_factor(A: Array, *, overwrite: bool = False, clean: bool = False) -> Array:
    """Return L with A = LLᵀ, whatever stands above it, or zeros if ``clean``; raise if there is none."""
    # SciPy's cho_factor and cho_solve look at what they are given for longer than a small system takes.
    if len(A) >= WORTH_SHARING and not clean:
        L = np.asarray(A, np.float64, order="F") if overwrite else np.array(A, np.float64, order="F")
        trouble = lapack.potrf(L)
    else:
        L, trouble = dpotrf(A, lower=1, clean=clean, overwrite_a=overwrite)
    if trouble:
        raise LinAlgError(f"the leading minor of order {trouble} is not positive")
    return L


def for_large(size: int) -> AbstractContextManager[Any]:
    """Return a context for factors: of a large matrix BLAS gets all threads."""
    return all_for_blas() if size >= LARGE else nullcontext()


def singular_inverse(A: Array) -> PseudoInverse:
    """Return what solves Ax = b for singular A ⪰ 0 and b in its range."""
    # Scaling by the diagonal first makes the cut-off independent of the units of the features.
    scale = np.sqrt(np.where(np.diag(A) > 0, np.diag(A), 1.0))
    values, vectors = eigh(A / np.outer(scale, scale), check_finite=False)
    keep = values > 1e-13 * len(A) * max(values[-1], 1e-300)
    return PseudoInverse(vectors[:, keep] / np.sqrt(values[keep]) / scale[:, None])


def grounded(A: Array, classes: int, columns: Array | None = None) -> Array:
    """Return A with curvature along the direction in which the coefficients of a column move together in all classes.

    Softmax scores do not change along it, so a model has none there. All columns are grounded, or those given.
    """
    n, p = classes, len(A) // classes
    each = np.arange(p) if columns is None else columns
    strength = np.diagonal(A).reshape(n, p).mean(axis=0)[each] / n
    result = A.copy().reshape(n, p, n, p)
    result[:, each, :, each] += strength[:, None, None]
    return result.reshape(A.shape)


def _occupied(A: Array) -> Array:
    """Return A with something on its diagonal where a parameter has nothing: no gradient goes there either."""
    nothing = np.diagonal(A) <= 0
    if not nothing.any():
        return A
    return A + np.diag(np.where(nothing, max(float(np.diagonal(A).max()), 1.0), 0.0))


def _with_jitter(A: Array, share: float) -> Array:
    if share == 0.0:
        return A
    A = A.copy()
    A.flat[:: len(A) + 1] += share * np.maximum(np.diagonal(A), np.finfo(np.float64).tiny)
    return A
