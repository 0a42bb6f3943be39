"""log Z, its slope and its Hessian on class-major scores (n×t).

The loss of one score against zero, on many rows; ``logistic_compiled`` has a twin of it for many more.

log Z less the log-sum over the outcomes that agree with an observation, on class-major scores (n×t).

Algorithm 1 of the paper on scores: the curvature of a quadratic bound on log Z, in class space.

The paper visits the outcomes of a row one by one and adds ``β l lᵀ`` to Σ, where ``l = f(y) − g`` and
``g`` is the mean of the features seen so far. Since ``g`` is an average of features, ``l`` is a fixed
combination of them: ``l = Fᵀ(e_y − π)`` with ``π`` the running distribution over the outcomes seen so far.
Hence ``Σ = Fᵀ B F``, and the n×n matrix ``B`` depends on the n scores alone.

===========  =====================================================================
``S``        scores, log α = log h(y) + θᵀf(y), class-major (n×t)
``log_z``    log of the sum of α over the outcomes seen so far
``u``        log(α / z)
``β``        tanh(u/2) / 2u, the curvature an outcome contributes
``κ``        α / (z + α), the share of an outcome in the sum so far
``π``        running distribution over the outcomes seen so far
``τ``        curvature that the outcomes still to come will spread over those seen
``B``        the bound's curvature in class space, (n, n, t)
===========  =====================================================================

Everything is in log space: scores of ±10⁴ and outcomes of zero measure (score −∞) are fine.

References
----------
Choromanska & Jebara, *Stochastic Bound Majorization*, 2013, Algorithm 1 and Theorem 1.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from majorant.core.checks import Array, one_of


def log_partition(S: Array, less: Array | float = 0.0) -> Array:
    """Return log Σ_y exp S[y, j] for each row j; scores of −∞ are outcomes of zero measure.

    ``less`` is subtracted where that costs no digits: of log Z and the observed score only the difference matters.
    """
    top = S.max(axis=0)
    return np.log(np.exp(S - top).sum(axis=0)) + (top - less)


def log_partition_and_probabilities(S: Array, less: Array | float = 0.0) -> tuple[Array, Array]:
    """Return log Z (t), ``less`` subtracted, and the probabilities (n×t) with one exponential per score."""
    top = S.max(axis=0)
    P = np.exp(S - top)
    Z = P.sum(axis=0)
    P /= Z
    return np.log(Z) + (top - less), P


def hessian_matrices(S: Array) -> Array:
    """Return diag(p) − p pᵀ for each row, shape (n, n, t): the curvature of log Z at the scores."""
    P = log_partition_and_probabilities(S)[1]
    H = -P[:, None] * P[None]
    diagonal = np.arange(len(P))
    H[diagonal, diagonal] += P
    return H


def hessian_directions(S: Array) -> Array:
    """Return L[y] = √p_y (e_y − p), shape (n, n, t), so that diag(p) − p pᵀ = Σ_y L_y L_yᵀ."""
    P = log_partition_and_probabilities(S)[1]
    root = np.sqrt(P)
    L = -root[:, None] * P[None]
    diagonal = np.arange(len(P))
    L[diagonal, diagonal] += root
    return L


def loss_and_residual(u: Array, y: Array, weight: Array | None) -> tuple[float, Array]:
    """Return Σ w log(1 + exp(∓u)) for labels 0 and 1, and w(p − y)."""
    side = 1.0 - 2.0 * y  # every call counts where rows are few
    against, e = side * u, np.exp(-np.abs(u))
    losses = np.log1p(e) + np.maximum(against, 0.0)
    residual = np.where(against > 0, side, side * e) / (1.0 + e)  # 1 − p of the label keeps its digits
    if weight is None:
        return float(losses.sum()), residual
    return float(losses @ weight), residual * weight


def posterior(S: Array, seen: Array) -> tuple[Array, Array]:
    """Return log Σ_{y seen} exp S[y, j] for each row j, and q (n×t), the probabilities given that one was seen."""
    return log_partition_and_probabilities(np.where(seen, S, -np.inf))


def losses_and_residuals(S: Array, seen: Array) -> tuple[Array, Array]:
    """Return −log p(seen) of each row, and p − q (n×t), its derivative."""
    log_seen, Q = posterior(S, seen)
    losses, P = log_partition_and_probabilities(S, log_seen)
    # Where nothing else is likely, both sums are the same but for the order of their terms.
    return np.maximum(losses, 0.0), P - Q


def losses(S: Array, seen: Array) -> Array:
    """Return −log p(seen) of each row."""
    return losses_and_residuals(S, seen)[0]


ORDERS = ("descending", "ascending", "given")
# β(u) = ¼ − u²/48 + …: below this it is ¼ to the last digit, and above the quotient loses none.
FLAT = 1e-8


def curvature_weight(u: Array) -> Array:
    """Return β(u) = tanh(u/2)/(2u), an even function with β(0) = 1/4 and β(±∞) = 0."""
    a = np.abs(u)
    flat = a < FLAT
    large = np.where(flat, 1.0, a)
    return np.where(flat, 0.25, np.tanh(large / 2) / (2 * large))


def visiting_order(S: Array, order: str = "descending") -> Array | None:
    """Return for each row the outcomes in the order of the sweep; None where that is the given order.

    The bound is valid in any order; descending α is the tightest of the simple ones.
    """
    one_of("order", order, ORDERS)
    if order == "given":
        return None
    return np.argsort(-S if order == "descending" else S, axis=0, kind="stable")


def bound_matrices(S: Array, order: str = "descending") -> Array:
    """Return B, shape (n, n, t): ``log Z`` of row j has curvature at most ``Fᵀ B[:, :, j] F`` everywhere.

    Cost: O(n²) a row. Adding ``β l lᵀ`` outcome by outcome would take O(n³); what outcome k leaves on the
    outcomes before it is, however, ``(κ(1−κ)τ − β) π``, with τ found by one backward sweep.
    """
    n, t = S.shape
    visit = visiting_order(S, order)
    β, κ, rest = _sweep(S if visit is None else np.take_along_axis(S, visit, axis=0))
    τ = _remaining_curvature(β, rest)
    on_diagonal = β + κ**2 * τ
    off_diagonal = κ * rest * τ - β
    π = np.zeros((n, t))
    B = np.empty((n, n, t))
    rows = np.arange(t)
    for k in range(n):
        c = k if visit is None else visit[k]
        at = slice(None) if visit is None else rows
        B[c, c, at] = on_diagonal[k]
        for i in range(k):
            ci = i if visit is None else visit[i]
            B[c, ci, at] = B[ci, c, at] = off_diagonal[k] * π[i]
        π[:k] *= rest[k]
        π[k] = κ[k]
    return B


def bound_directions(S: Array, order: str = "descending") -> Array:
    """Return L, shape (n−1, n, t): ``L[k, :, j] = √β (e_y − π)`` for the outcomes y in the order of the sweep.

    These are the rank-one terms of Algorithm 1 themselves, B = Σ_k L_k L_kᵀ, for curvatures that absorb
    them one by one. The first outcome visited has β = 0 and is left out.
    """
    n, t = S.shape
    visit = visiting_order(S, order)
    β, κ, rest = _sweep(S if visit is None else np.take_along_axis(S, visit, axis=0))
    L = np.zeros((n - 1, n, t))
    π = np.zeros((n, t))
    π[0] = κ[0]
    for k in range(1, n):
        scale = np.sqrt(β[k])
        L[k - 1, :k] = -scale * π[:k]
        L[k - 1, k] = scale
        π[:k] *= rest[k]
        π[k] = κ[k]
    if visit is None:
        return L
    in_label_order = np.empty_like(L)
    np.put_along_axis(in_label_order, visit[None], L, axis=1)
    return in_label_order


def _sweep(S: Array) -> tuple[Array, Array, Array]:
    """Return β, κ and 1 − κ of each outcome in the order visited; the first has β = 0 and κ = 1."""
    log_z = np.logaddexp.accumulate(S, axis=0)
    u = np.full(S.shape, -np.inf)  # an outcome of zero measure: β = κ = 0
    np.subtract(S[1:], log_z[:-1], out=u[1:], where=np.isfinite(S[1:]))
    u[0, np.isfinite(S[0])] = np.inf
    return curvature_weight(u), expit(u), expit(-u)


def _remaining_curvature(β: Array, rest: Array) -> Array:
    """Return τ_k = Σ_{y>k} β_y (z_k / z_{y−1})², by τ_k = β_{k+1} + (1−κ_{k+1})² τ_{k+1}."""
    τ = np.zeros_like(β)
    for k in range(len(β) - 2, -1, -1):
        τ[k] = β[k + 1] + rest[k + 1] ** 2 * τ[k + 1]
    return τ
