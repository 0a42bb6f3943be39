"""Measuring the columns of a stream from elsewhere, once it turns out that they are far from where it began.

The intercept of a stream has a weak prior, centred at zero. That is harmless where columns are measured from near their
means; far from them the intercept would have to be large. With b' = b + WΔ for a centre moved by Δ, precision and
parameters change by a congruence, and the prior of the old intercept gives way to that of the new one.
"""

from __future__ import annotations

import numpy as np

from majorant._checks import Array
from majorant.curvature.cholesky import steady_factor
from majorant.design import Moments

# Standard deviations between a column's mean and its centre that are too many.
TOO_FAR = 10.0
# And those beyond which what was learnt has no digits left to be moved.
HOPELESS = 1e6
# Fewer rows do not tell where a column is.
FEW = 50


def is_hopeless(moments: Moments, shift: Array) -> bool:
    """Return whether columns are so far away that nothing could be learnt of them from there."""
    return bool((np.abs(shift) > HOPELESS * np.sqrt(moments.variance)).any())


def better_centre(moments: Moments, centre: Array) -> Array | None:
    """Return the centre with what is too far away moved to its mean; nothing if all is near."""
    far = np.abs(moments.mean - centre) > TOO_FAR * np.sqrt(moments.variance)
    return np.where(far, moments.mean, centre) if far.any() else None


def moved_precision(A: Array, prior: float, shift: Array) -> tuple[Array, Array]:
    """Return the precision of parameters of columns measured from a centre moved by ``shift``, old prior and new.

    ``A`` is (n, p, n, p), or (n, p, p) for one block per class; the last parameter of a class is its intercept.
    """
    T = np.eye(len(shift) + 1)
    T[-1, :-1] = -shift
    old = np.einsum("ij,cjek->ciek", T.T, A) @ T if A.ndim == 4 else T.T @ A @ T
    new, classes, last = old.copy(), np.arange(len(A)), len(shift)
    own = (classes, slice(None), classes) if A.ndim == 4 else (classes,)
    new[own] -= prior * np.outer(T[-1], T[-1])
    if A.ndim == 4:
        new[classes, last, classes, last] += prior
    else:
        new[:, last, last] += prior
    return old, new


def moved_parameters(old: Array, new: Array, theta: Array, shift: Array) -> Array:
    """Return θ under the new prior: what was learnt from rows, the information Aθ, is the same under both."""
    W = theta.reshape(len(old), -1).copy()
    W[:, -1] += W[:, :-1] @ shift
    if old.ndim == 3:
        return np.concatenate([_solve(B, A @ w, 1) for A, B, w in zip(old, new, W, strict=True)])
    d = W.size
    return _solve(new.reshape(d, d), old.reshape(d, d) @ W.ravel(), len(old))


def _solve(A: Array, b: Array, classes: int) -> Array:
    return steady_factor(A, classes)(b)
