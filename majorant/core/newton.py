"""Newton's method for few parameters, to a certified distance from the minimum, from a point that may be near it.

Each step asks for F, ∇F and ∇²F together, whatever they are found by. With δ the Newton decrement, S the largest norm
of a difference of outcomes in the inverse Hessian and z = Sδ < 1, self-concordance bounds the decrement after a full
step from what is known before it (see :mod:`majorant.core.certificates`):

    δ'  ≤  e^{z/2} ((e^z − 1)/z − 1) δ,

since the Hessian on the way differs from the one at its start by factors of e^{±z} at most. The last step of a fit
therefore needs no look at the rows where it ends, which is a third of the price of a bootstrap replicate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, expm1, inf, isfinite, log1p, sqrt
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError

from majorant.core.checks import Array
from majorant.core.curvature import Factor, has_clear_pivots, lower_factor
from majorant.core.kernels import choices as kernel

Expansion: TypeAlias = tuple[float, Array, Array]
# Halvings of a step after which F does not decrease but for rounding.
HALVINGS = 40


@dataclass(frozen=True, eq=False)
class Minimum:
    """The point where Newton's steps ended, and how far from it the minimum is.

    ``within`` bounds ‖θ* − θ‖ in the norm of the ``hessian``, which is that of the last point that was looked at: it
    counts standard errors. It is infinite where no minimum is proved to exist.
    """

    theta: Array
    value: float
    hessian: Array
    inverse: Array
    within: float
    spread: float
    steps: int

    @property
    def proved(self) -> bool:
        """Whether there is a minimum, and how near it is."""
        return isfinite(self.within)


def newton(
    expand: Callable[[Array], Expansion],
    theta: Array,
    spread: Callable[[Array], float],
    *,
    tol: float,
    steps: int = 100,
    likely: float = 0.1,
    doubt: Callable[[Array], float] = lambda inverse: 0.0,
) -> Minimum | None:
    """Return the minimum of a self-concordant F; None where a Hessian is singular, or steps end before ``tol``.

    Parameters
    ----------
    expand : callable
        Returns F, ∇F and ∇²F, which is positive definite.
    theta : array of shape (d,)
        Where to begin.
    spread : callable
        Returns a bound on S from the inverse of the Hessian.
    tol : float
        Standard errors of the minimum that are left, at most.
    steps : int
        Steps at most.
    likely : float
        What S may be about: it is not found before it can suffice.
    doubt : callable
        Returns what rounding adds to the decrement, from the inverse of the Hessian.
    """
    here, S = expand(theta), likely
    for step in range(1, steps + 1):
        F, g, H = here
        factor = _factored(H)
        if factor is None:
            return None
        direction = -factor(g)
        δ = sqrt(max(-float(g @ direction), 0.0))
        if δ * δ * S <= 4 * max(tol, 1e-7) or δ == 0:  # the last S is about the next one
            inverse = factor.inverse()
            S = spread(inverse)
            z = S * δ
            after = exp(z / 2) * (expm1(z) / z - 1.0 if z > 1e-5 else z / 2) * δ if z < 1 else inf
            left = after + doubt(inverse) if after < inf else inf
            a = S * exp(z / 2) * left if left < inf else inf
            within = exp(z / 2) * (-log1p(-a) / a if a > 0 else 1.0) * left if a < 1 else inf
            if within <= tol or (within < inf and after <= 0.1 * (left - after)):
                return Minimum(theta + direction, F, H, inverse, within, S, step)
        length, slope = 1.0, float(g @ direction)
        for _ in range(HALVINGS):
            there = theta + length * direction
            here = expand(there)
            if here[0] <= F + 1e-4 * length * slope + 8 * np.finfo(np.float64).eps * abs(F):
                break
            length *= 0.5
        else:
            return None
        theta = there
    return None


def _factored(H: Array) -> Factor | None:
    """Return the Cholesky factor of a Hessian, None where it is singular but for rounding."""
    if not np.isfinite(H).all():
        return None
    try:
        L = lower_factor(H)
    except LinAlgError:
        return None
    return Factor(L) if has_clear_pivots(L, np.diagonal(H)) else None


class SparseChoices:
    """The negative log-likelihood of choices with sparse features, for any weights of the observations.

    Parameters
    ----------
    features : sparse matrix of shape (N, d), CSR
    sets : array of shape (t + 1,)
        Outcomes of set j are rows ``sets[j]`` to ``sets[j + 1]``.
    flat : array of shape (d, m)
        Orthonormal directions that change no probability: F is held there by a square, which is zero at its minimum.
    ridge : array of shape (d,)
        The penalty is ½ Σ_i λ_i θ_i².
    """

    def __init__(self, features: sp.csr_array, sets: Array, flat: Array, ridge: Array) -> None:
        self._arrays = features.data, features.indices, features.indptr, sets
        self.flat, self.ridge, self.size = flat, ridge, features.shape[1]
        self._known: tuple[Array | None, Array] = None, np.zeros(0)

    def begin_at(self, theta: Array) -> None:
        """Find the probabilities at a point where many fits will begin."""
        values, columns, rows, sets = self._arrays
        scores = sp.csr_array((values, columns, rows), shape=(len(rows) - 1, self.size)) @ theta
        sizes, top = np.diff(sets), np.maximum.reduceat(scores, sets[:-1])
        scores -= np.repeat(top, sizes)
        self._known = theta, scores - np.repeat(np.log(np.add.reduceat(np.exp(scores), sets[:-1])), sizes)

    def expand(self, theta: Array, amount: Array) -> Expansion:
        """Return F, ∇F and ∇²F where outcomes were observed so often (N)."""
        gradient, H = self.ridge * theta, np.zeros((self.size, self.size))
        known = self._known[1] if theta is self._known[0] else np.zeros(0)
        loss = kernel.expansion(theta, *self._arrays, amount, known, gradient, H)
        value = loss + 0.5 * float(self.ridge @ theta**2)
        H += H.T
        H[np.diag_indices(self.size)] += self.ridge
        if self.flat.shape[1]:
            held = float(np.mean(np.diagonal(H)))
            along = self.flat.T @ theta
            value += 0.5 * held * float(along @ along)
            gradient += held * (self.flat @ along)
            H += held * (self.flat @ self.flat.T)
        return value, gradient, H

    def spread(self, inverse: Array, amount: Array) -> float:
        """Return a bound on the largest norm of a difference of two outcomes of an observed set."""
        return float(kernel.largest_spread(inverse, *self._arrays, amount))

    def doubt(self, inverse: Array, amount: Array) -> float:
        """Return what rounding of ∇F may add to its norm in an inverse Hessian."""
        sums, counts = np.zeros(self.size), np.zeros(self.size)
        kernel.column_sums(*self._arrays, amount, sums, counts)
        return float(np.finfo(np.float64).eps * ((counts + 20) * sums) @ np.sqrt(np.diagonal(inverse)))
