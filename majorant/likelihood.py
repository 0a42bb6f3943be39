"""Likelihoods near their maximum: Firth's penalty, profile intervals, and fits to reweighted rows.

**Firth's penalty** is Jeffreys' prior, ½ log det H(θ), H the Hessian of the negative log-likelihood: it takes away the
first term of the bias, and its maximum exists where rows are separated (Firth, 1993). With outcomes written out,
f_j(y) − mean its features from their mean and q_j(y) their squares in H⁻¹, the gradient is

    ∂/∂θ ½ log det H = ½ Σ_j w_j Σ_y p_j(y) q_j(y) (f_j(y) − mean),

which for two classes is Σ_j h_j (½ − p_j) x_j, h_j the hat values. Neither is the penalised likelihood known to be
concave, so that its maximum is *stationary*, not certified.

**Profile intervals** hold all ψ = cᵀθ that a likelihood-ratio test does not reject (Venzon & Moolgavkar, 1988). At
each of their ends the likelihood has fallen by half a quantile of χ², and θ is its maximum under ψ. Newton's step to
both at once is −H⁻¹g + s H⁻¹c, s the root of a quadratic equation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite, sqrt

import numpy as np
from scipy.linalg import LinAlgError, eigvalsh
from scipy.linalg.lapack import dpotrf
from scipy.special import chdtri, xlogy

from majorant.core.certificates import largest_spread
from majorant.core.checks import Array
from majorant.core.curvature import Factor, has_clear_pivots, inverse_root, lower_factor
from majorant.core.newton import Expansion, newton
from majorant.core.objective import Objective
from majorant.resampling import TOLERANCE, Replicate

# Steps of Firth's fit, and of an end of an interval; and how many standard errors the last one is at most.
STEPS, SETTLED = 200, 1e-8
# How many times a step may be halved.
HALVINGS = 30


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The objective of a fit near its minimum.

    ``flat`` are orthonormal directions (d×m) that change no probability and no penalty, held by a square.
    """

    objective: Objective
    flat: Array

    def expand(self, theta: Array) -> Expansion:
        """Return F, ∇F and ∇²F."""
        F, g, found = self.objective.hessian(theta)
        H = found.as_matrix() + np.diag(self.objective.ridge)
        if self.flat.shape[1]:
            held = float(np.mean(np.diagonal(H)))
            along = self.flat.T @ theta
            F += 0.5 * held * float(along @ along)
            g = g + held * (self.flat @ along)
            H += held * (self.flat @ self.flat.T)
        return F, g, H

    def refit(
        self, theta: Array, reweighed: Callable[[Array], Objective], separated: Callable[[Objective], bool]
    ) -> Callable[[Array], Replicate]:
        """Return a function that fits to other weights of the rows, from ``theta`` on.

        A Hessian of all rows bounds how far outcomes are apart in that of any weights, by an eigenvalue.
        """
        H = self.expand(theta)[2]
        root = inverse_root(H)[0]
        widest = largest_spread(self.objective, root, exactly=True)
        L = np.linalg.cholesky(H)

        def spread(inverse: Array) -> float:
            return widest * sqrt(max(float(eigvalsh(L.T @ inverse @ L)[-1]), 0.0))

        def fit(weights: Array) -> Replicate:
            objective = reweighed(weights)
            found = newton(Likelihood(objective, self.flat).expand, theta, spread, tol=TOLERANCE, likely=widest)
            if found is None:
                return Replicate(None, separated=separated(objective))
            return Replicate(found.theta, found.within)

        return fit


@dataclass(frozen=True, eq=False)
class Firth:
    """The negative log-likelihood of outcomes written out, less Jeffreys' prior.

    Parameters
    ----------
    features : array of shape (N, d)
    starts : array of shape (t,)
        Where the outcomes of each row begin.
    amount : array of shape (N,)
        How often each outcome was observed.
    log_measure : array of shape (N,), optional
    """

    features: Array
    starts: Array
    amount: Array
    log_measure: Array | None = None

    def expand(self, theta: Array) -> Expansion:
        """Return F, ∇F and the Hessian of the likelihood alone; F is infinite where that is singular."""
        starts, X = self.starts, self.features
        sizes = np.diff(np.append(starts, len(X)))
        scores = X @ theta if self.log_measure is None else X @ theta + self.log_measure
        p = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), sizes))
        p /= np.repeat(np.add.reduceat(p, starts), sizes)
        weight = np.repeat(np.add.reduceat(self.amount, starts), sizes)
        loss = -float(xlogy(self.amount, p).sum())
        centred = X - np.repeat(np.add.reduceat(p[:, None] * X, starts), sizes, axis=0)
        curved = (weight * p)[:, None] * centred
        return self._penalised(loss, X.T @ (weight * p - self.amount), centred, curved)

    @staticmethod
    def _penalised(loss: float, g: Array, centred: Array, curved: Array) -> Expansion:
        H = curved.T @ centred
        factor = _factor(H)
        if factor is None or not isfinite(loss):
            return inf, g, H
        q = np.einsum("ij,ij->i", factor(centred.T).T, centred)
        return loss - float(np.log(np.diagonal(factor.L)).sum()), g - 0.5 * curved.T @ q, H


@dataclass(frozen=True, eq=False)
class FirthBinary:
    """The same for two classes: rows X, the share of the second class, weights, and numbers added to scores."""

    X: Array
    share: Array
    weight: Array
    offset: Array

    def expand(self, theta: Array) -> Expansion:
        """Return F, ∇F and the Hessian of the likelihood alone; F is infinite where that is singular."""
        s = self.X @ theta + self.offset
        e = np.exp(-np.abs(s))
        odds = 1.0 / (1.0 + e)
        p = np.where(s > 0, odds, e * odds)
        loss = float(self.weight @ (np.log1p(e) + np.maximum(s, 0.0) - self.share * s))
        curved = self.weight * (e * odds * odds)
        WX = curved[:, None] * self.X
        H = WX.T @ self.X
        factor = _factor(H)
        residual = self.weight * (p - self.share)
        if factor is None:
            return inf, residual @ self.X, H
        h = np.einsum("ij,ij->i", self.X @ factor.inverse(), WX)
        return loss - float(np.log(np.diagonal(factor.L)).sum()), (residual + h * (p - 0.5)) @ self.X, H


def _factor(H: Array) -> Factor | None:
    try:
        L = lower_factor(H, clean=True)
    except LinAlgError:
        return None
    return Factor(L) if has_clear_pivots(L, np.diagonal(H)) else None


def stationary_point(
    expand: Callable[[Array], Expansion], theta: Array, *, max_iter: int = STEPS
) -> tuple[Array, float, Array, int, float]:
    """Return where −H⁻¹∇F is nothing, F and H there, the steps taken, and the last one in standard errors.

    The Hessian is that of the likelihood, so steps converge linearly, the faster the more rows there are.
    """
    F, g, H = expand(theta)
    δ = inf
    for step in range(max_iter + 1):
        factor = _factor(H)
        if factor is None:
            return theta, F, H, step, inf
        direction = -factor(g)
        δ = sqrt(max(-float(g @ direction), 0.0))
        if δ <= SETTLED or step == max_iter:
            break
        length = min(1.0, 5.0 / max(float(np.abs(direction * np.sqrt(np.diagonal(H))).max()), 1e-300) * len(g))
        for _ in range(HALVINGS):
            there = theta + length * direction
            F_there, g_there, H_there = expand(there)
            if F_there <= F + 1e-12 * abs(F):
                break
            length *= 0.5
        else:
            break
        theta, F, g, H = there, F_there, g_there, H_there
    return theta, F, H, step, δ


def profile_interval(
    expand: Callable[[Array], Expansion], theta: Array, direction: Array, level: float
) -> tuple[float, float]:
    """Return the profile-likelihood interval of cᵀθ; an end is infinite where the likelihood never falls so far.

    Parameters
    ----------
    expand : callable
        Returns F, ∇F and a Hessian, at any θ.
    theta : array of shape (d,)
        The minimum of F.
    direction : array of shape (d,)
        c.
    level : float
        Of the interval.
    """
    start = expand(theta)
    rise, factor = 0.5 * float(chdtri(1, 1.0 - level)), _factor(start[2])
    if factor is None:
        return -inf, inf
    reach = sqrt(2.0 * rise * float(direction @ factor(direction)))
    low, high = (_end(expand, theta, start, direction, start[0] + rise, side, reach) for side in (-1.0, 1.0))
    return low, high


def _end(
    expand: Callable[[Array], Expansion],
    theta: Array,
    start_of: Expansion,
    c: Array,
    aim: float,
    side: float,
    reach: float,
) -> float:
    here, (F, g, H) = theta, start_of
    start = float(c @ theta)
    for _ in range(STEPS):
        L, trouble = dpotrf(H, lower=1)
        if trouble:
            return side * inf
        factor = Factor(L)
        a, b = -factor(g), factor(c)
        across = float(c @ b)
        room = 2.0 * (aim - F) - float(g @ a)  # twice what the model may still rise, its least under cᵀθ left out
        move = a + side * sqrt(max(room, 0.0) / across) * b
        # What is left: F, and the slope across ψ, of which an end is off by the square.
        along = float(c @ a) / across
        slope = a - along * b
        left = sqrt(max(float(slope @ (H @ slope)), 0.0))
        if abs(aim - F) <= 1e-8 and left <= 1e-4:
            return float(c @ here)
        length = 1.0
        for _ in range(HALVINGS):
            there = here + length * move
            found = expand(there)
            if isfinite(found[0]) and found[0] - aim <= 4.0 * max(aim - F, 1.0):
                break
            length *= 0.5
        else:
            return side * inf
        here, (F, g, H) = there, found
        if side * (float(c @ here) - start) > 1e3 * reach:
            return side * inf
    return float("nan")
