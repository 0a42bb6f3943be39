"""Passes of stochastic gradient descent, compiled by Numba.

Low-rank curvature VᵀSV + D, one row of factors after the other, compiled by Numba.

Algorithm 1 one outcome at a time, compiled by Numba.

The letters are those of :mod:`majorant.core.kernels.partition`, which takes the same sweep over many rows at once.
"""

from __future__ import annotations

import numpy as np

from majorant.core.checks import Array
from majorant.core.kernels import Csr
from majorant.core.kernels.compiler import compile_strict, compile_sums
from majorant.core.kernels.logistic import sigmoid
from majorant.core.kernels.partition import FLAT


@compile_strict
def absorb(log_z: float, score: float) -> tuple[float, float, float]:
    """Return β and κ of the next outcome of a sweep, and log z with it.

    The first outcome (log z = −∞) has β = 0 and κ = 1; an outcome of zero measure (score −∞) changes nothing.
    """
    if score == -np.inf:
        return 0.0, 0.0, log_z
    if log_z == -np.inf:
        return 0.0, 1.0, score
    u = score - log_z
    a = abs(u)
    e = np.exp(-a)
    β = 0.25 if a < FLAT else np.tanh(a / 2) / (2 * a)
    κ = (1.0 if u >= 0 else e) / (1.0 + e)
    return β, κ, max(log_z, score) + np.log1p(e)


@compile_strict
def bound_rows(scores: Array, visit: Array, indptr: Array, weight: Array, F: Array) -> Array:
    """Return the rows √(wβ) (f(y) − g) of Algorithm 1 for outcome sets with features F, so that Σ = QᵀQ.

    ``visit`` lists the outcomes of each set, from indptr[j] to indptr[j+1], in the order of the sweep.
    Cost: O(d) an outcome, where going through class space would take O(nd).
    """
    Q = np.zeros(F.shape)
    g = np.zeros(F.shape[1])
    for j in range(len(indptr) - 1):
        log_z = -np.inf
        g[:] = 0.0
        for k in range(indptr[j], indptr[j + 1]):
            y = visit[k]
            β, κ, log_z = absorb(log_z, scores[y])
            scale = np.sqrt(weight[j] * β)
            for i in range(len(g)):
                direction = F[y, i] - g[i]
                Q[k, i] = scale * direction
                g[i] += κ * direction
    return Q


@compile_sums
def hessian_rows(p: Array, indptr: Array, weight: Array, F: Array) -> Array:
    """Return the rows √(wp) (f(y) − mean) for outcome sets with features F and probabilities p: their Gram is H."""
    Q = np.empty(F.shape)
    mean = np.empty(F.shape[1])
    for j in range(len(indptr) - 1):
        mean[:] = 0.0
        for y in range(indptr[j], indptr[j + 1]):
            for i in range(len(mean)):
                mean[i] += p[y] * F[y, i]
        for y in range(indptr[j], indptr[j + 1]):
            scale = np.sqrt(weight[j] * p[y])
            for i in range(len(mean)):
                Q[y, i] = scale * (F[y, i] - mean[i])
    return Q


@compile_strict
def row_bound(scores: Array, descending: bool, against_zero: bool) -> tuple[Array, Array]:
    """Return the directions L and the probabilities of one row: Algorithm 1 on its scores.

    What :func:`~majorant.core.kernels.partition.bound_directions` does for many rows. ``against_zero``: there is one
    score, and another outcome of score zero and no features beside it, as in one-row binary models.
    """
    n = len(scores)
    if against_zero:
        β, p, _ = absorb(0.0, scores[0])
        return np.full((1, 1), np.sqrt(β)), np.full(1, p)
    visit = descending_order(scores) if descending else np.arange(n)
    L, π = np.zeros((n - 1, n)), np.zeros(n)
    log_z = -np.inf
    for k in range(n):
        y = visit[k]
        β, κ, log_z = absorb(log_z, scores[y])
        if k > 0:
            L[k - 1] = -np.sqrt(β) * π
            L[k - 1, y] = np.sqrt(β)
        π *= 1 - κ
        π[y] = κ
    return L, π


@compile_strict
def descending_order(scores: Array) -> Array:
    """Return the outcomes by falling score, equal ones as they stand: an insertion sort, quick to compile."""
    visit = np.arange(len(scores))
    for i in range(1, len(scores)):
        y, k = visit[i], i
        while k > 0 and scores[visit[k - 1]] < scores[y]:
            visit[k] = visit[k - 1]
            k -= 1
        visit[k] = y
    return visit


# --- Algorithm 1, one outcome at a time ---------------------------------------------------------------------


@compile_strict
def softmax_residual(scores: Array, y: int, weight: float) -> None:
    """Turn the scores of one row into weight·(p − e_y), in place; a single score is that of label 1 against 0."""
    if len(scores) == 1:
        scores[0] = weight * (sigmoid(scores[0]) - y)
        return
    top = np.max(scores)
    total = 0.0
    for c in range(len(scores)):
        scores[c] = np.exp(scores[c] - top)
        total += scores[c]
    share = weight / total
    for c in range(len(scores)):
        scores[c] *= share
    scores[y] -= weight


@compile_sums
def dense_pass(X: Array, y: Array, weight: Array, offset: Array, W: Array, gains: Array, m: int, decay: Array) -> None:
    """Visit the rows in mini-batches of m: W ← W − gain·(Σ residual xᵀ + rows·W·diag(decay)), in place."""
    n, p = W.shape
    R = np.empty((m, n))
    for k in range(len(gains)):
        start, stop = k * m, min((k + 1) * m, len(X))
        for j in range(start, stop):
            for c in range(n):
                s = offset[c, j]
                for i in range(p):
                    s += W[c, i] * X[j, i]
                R[j - start, c] = s
            softmax_residual(R[j - start], y[j], weight[j])
        for c in range(n):
            for i in range(p):
                W[c, i] *= 1.0 - gains[k] * decay[i] * (stop - start)
            for j in range(start, stop):
                step = gains[k] * R[j - start, c]
                for i in range(p):
                    W[c, i] -= step * X[j, i]


@compile_sums
def rescale(W: Array, scale: float, is_free: Array) -> None:
    """Multiply the columns that are not free, in place."""
    for i in range(len(W)):
        if not is_free[i]:
            W[i] *= scale


@compile_sums
def csr_pass(
    X: Csr, y: Array, weight: Array, offset: Array, W: Array, gains: Array, m: int, decay: float, is_free: Array
) -> None:
    """Do what :func:`dense_pass` does, touching non-zeros only. W is (p, n) here.

    It is kept as scale·U, but for columns that are free of the penalty, whose scale is 1.
    """
    n = W.shape[1]
    R = np.empty((m, n))
    scale = 1.0
    for k in range(len(gains)):
        start, stop = k * m, min((k + 1) * m, len(X.indptr) - 1)
        for j in range(start, stop):
            R[j - start] = offset[:, j]
            for a in range(X.indptr[j], X.indptr[j + 1]):
                x = X.data[a] if is_free[X.indices[a]] else scale * X.data[a]
                for c in range(n):
                    R[j - start, c] += W[X.indices[a], c] * x
            softmax_residual(R[j - start], y[j], weight[j])
        scale *= 1.0 - gains[k] * decay * (stop - start)
        if abs(scale) < 1e-100 or abs(scale) > 1e100:  # also a gain so large that it shrinks W to nothing
            rescale(W, scale, is_free)
            scale = 1.0
        for j in range(start, stop):
            for a in range(X.indptr[j], X.indptr[j + 1]):
                x = gains[k] * X.data[a] / (1.0 if is_free[X.indices[a]] else scale)
                for c in range(n):
                    W[X.indices[a], c] -= R[j - start, c] * x
    rescale(W, scale, is_free)


@compile_strict
def drop_smallest(S: Array, p: Array, γ: float) -> tuple[float, Array, float, Array]:
    """Drop the smallest eigenpair (s, v) of M = [[S + ppᵀ, γp], [γpᵀ, γ²]] and write what is left of it to S.

    Returns s, v, and of the Householder reflection that sends v to the last axis: a sign, and the multiples of
    r + sign·g that it subtracts from the rows of V.
    """
    k = len(S)
    M = np.empty((k + 1, k + 1))
    M[:k, :k] = S + np.outer(p, p)
    M[:k, k] = γ * p
    M[k, :k] = γ * p
    M[k, k] = γ * γ
    values, vectors = np.linalg.eigh(M)
    s, v = max(values[0], 0.0), np.ascontiguousarray(vectors[:, 0])
    sign = 1.0 if v[k] >= 0 else -1.0
    u = v.copy()
    u[k] += sign  # reflects v to −sign·e_k; this sign avoids cancellation
    scale = 2.0 / (u @ u)
    H = np.eye(k + 1) - scale * np.outer(u, u)
    S[:] = (H @ (M - s * np.outer(v, v)) @ H)[:k, :k]
    return s, v, sign, scale * u[:k]


@compile_strict
def absorb_rows(V: Array, S: Array, D: Array, rows: Array) -> None:
    """Update V, S, D in place so that VᵀSV + diag(D) still dominates after Σ q qᵀ over ``rows`` is added to it.

    With p = Vq and residual g, the sum so far and q qᵀ are exactly [V; ĝ]ᵀ M [V; ĝ] for a small matrix M.
    Only its smallest eigenpair (s, v) leaves, for the diagonal: s r rᵀ ⪯ s diag(|r| ‖r‖₁) with r = [V; ĝ]ᵀv.
    One Householder reflection then sends v to the last axis. Cost: O(kd) a row.
    """
    k = len(V)
    for i in range(len(rows)):
        q = rows[i]
        p = V @ q
        g = q - p @ V
        correction = V @ g  # a second Gram–Schmidt sweep: the first loses digits when q is nearly in the span
        p = p + correction
        g = g - correction @ V
        γ = np.sqrt(g @ g)
        if γ <= 1e-14 * np.sqrt(q @ q):
            S += np.outer(p, p)
            continue
        g /= γ
        s, v, sign, scaled = drop_smallest(S, p, γ)
        r = v[:k] @ V + v[k] * g
        size = np.abs(r)
        D += s * np.sum(size) * size
        V -= np.outer(scaled, r + sign * g)


@compile_strict
def low_rank_rows(
    X: Csr,
    y: Array,
    weight: Array,
    offset: Array,
    descending: bool,
    θ: Array,
    μ: Array,
    V: Array,
    S: Array,
    D: Array,
    η: float,
    shrink: Array,
) -> None:
    """Visit CSR rows one at a time by low-rank stochastic majorization, updating θ, μ, V, S and D in place.

    D holds the ridge too. Cost: O(kd) an outcome, and O(k²d) a row for Woodbury's identity, in a few sweeps.
    """
    n = len(offset)
    p = len(θ) // n
    for j in range(len(X.indptr) - 1):
        at = X.indices[X.indptr[j] : X.indptr[j + 1]]
        x = X.data[X.indptr[j] : X.indptr[j + 1]]
        where = np.empty(n * len(at), dtype=np.int64)
        q = np.empty(n * len(at))
        scores = offset[:, j].copy()
        for c in range(n):
            for a in range(len(at)):
                where[c * len(at) + a] = c * p + np.int64(at[a])  # an unsigned one would make it a float
                scores[c] += θ[where[c * len(at) + a]] * x[a]
        L, P = row_bound(scores, descending, n == 1)
        for k in range(len(L)):
            for c in range(n):
                q[c * len(at) : (c + 1) * len(at)] = np.sqrt(weight[j]) * L[k, c] * x
            absorb_sparse(V, S, D, where, q)
        for c in range(n):
            observed = (y[j] == c) if n > 1 else y[j]
            for a in range(len(at)):
                μ[where[c * len(at) + a]] += weight[j] * (P[c] - observed) * x[a]
        for i in range(len(θ)):
            μ[i] += shrink[i] * θ[i]
        θ -= η * low_rank_solve(V, S, D, μ)


@compile_strict
def absorb_sparse(V: Array, S: Array, D: Array, where: Array, q: Array) -> None:
    """Do what :func:`absorb_rows` does for one row with few non-zeros ``q`` at ``where``, in two products with V.

    The residual g = (q − Vᵀp)/γ is never formed: what leaves, r, and what the reflection subtracts, r ± g, are
    combinations of the rows of V plus a multiple of q.
    """
    k = len(V)
    p = np.zeros(k)
    for i in range(len(q)):
        for a in range(k):
            p[a] += V[a, where[i]] * q[i]
    γ2 = q @ q - p @ p
    if γ2 <= 1e-8 * (q @ q):  # the difference has lost its digits
        row = np.zeros((1, V.shape[1]))
        row[0, where] = q
        absorb_rows(V, S, D, row)
        return
    γ = float(np.sqrt(γ2))
    s, v, sign, scaled = drop_smallest(S, p, γ)
    of_r, q_in_r = v[:k] - v[k] / γ * p, v[k] / γ  # r = of_r V + q_in_r q
    of_w, q_in_w = of_r - sign / γ * p, q_in_r + sign / γ  # r + sign g
    R, W = of_r @ V, of_w @ V
    total = 0.0
    for i in range(len(R)):
        total += abs(R[i])
    for i in range(len(q)):
        total += abs(R[where[i]] + q_in_r * q[i]) - abs(R[where[i]])
        R[where[i]] += q_in_r * q[i]
        W[where[i]] += q_in_w * q[i]
    for i in range(len(R)):
        D[i] += s * total * abs(R[i])
    for a in range(k):
        for i in range(len(W)):
            V[a, i] -= scaled[a] * W[i]


@compile_strict
def low_rank_solve(V: Array, S: Array, E: Array, b: Array) -> Array:
    """Return (VᵀSV + diag(E))⁻¹b = E⁻¹b − E⁻¹Vᵀ (I + S VE⁻¹Vᵀ)⁻¹ S VE⁻¹b."""
    x = b / E
    if len(V) == 0:
        return x
    VE = V / E
    small = np.eye(len(V)) + S @ (VE @ V.T)
    return x - np.linalg.solve(small, S @ (V @ x)) @ VE


@compile_strict
def diagonal_rows(
    X: Csr,
    y: Array,
    weight: Array,
    offset: Array,
    descending: bool,
    θ: Array,
    μ: Array,
    D: Array,
    η: float,
    shrink: Array,
) -> None:
    """Do what :func:`low_rank_rows` does for rank 0, touching non-zeros only.

    Between two visits of a coordinate its D is constant and (θ, μ) follows a linear recurrence,
    μ ← μ + aθ, θ ← θ − (η/D)μ: a power of a 2×2 matrix catches up with all the rows in between.
    """
    n = len(offset)
    p = len(θ) // n
    seen = np.zeros(p, dtype=np.int64)  # rows that each column is up to date with
    for j in range(len(X.indptr) - 1):
        at = X.indices[X.indptr[j] : X.indptr[j + 1]]
        x = X.data[X.indptr[j] : X.indptr[j + 1]]
        scores = offset[:, j].copy()
        size = 0.0
        for a in range(len(at)):
            size += abs(x[a])
            for c in range(n):
                i = c * p + np.int64(at[a])
                catch_up(θ, μ, i, η / D[i], shrink[i], j - seen[at[a]])
                scores[c] += θ[i] * x[a]
            seen[at[a]] = j + 1
        L, P = row_bound(scores, descending, n == 1)
        for c in range(n):
            curvature = 0.0
            for k in range(len(L)):
                curvature += abs(L[k, c]) * np.sum(np.abs(L[k]))
            observed = (y[j] == c) if n > 1 else y[j]
            for a in range(len(at)):
                i = c * p + np.int64(at[a])
                D[i] += weight[j] * curvature * abs(x[a]) * size
                μ[i] += weight[j] * (P[c] - observed) * x[a] + shrink[i] * θ[i]
                θ[i] -= η * μ[i] / D[i]
    for k in range(len(θ)):
        catch_up(θ, μ, k, η / D[k], shrink[k], len(X.indptr) - 1 - seen[k % p])


@compile_strict
def catch_up(θ: Array, μ: Array, i: int, b: float, a: float, times: int) -> None:
    """Apply μ ← μ + aθ, θ ← θ − bμ so many times to coordinate i, by repeated squaring."""
    A00, A01, A10, A11 = 1.0 - a * b, -b, a, 1.0
    while times > 0:
        if times & 1:
            θ[i], μ[i] = A00 * θ[i] + A01 * μ[i], A10 * θ[i] + A11 * μ[i]
        A00, A01, A10, A11 = (
            A00 * A00 + A01 * A10,
            A00 * A01 + A01 * A11,
            A10 * A00 + A11 * A10,
            A10 * A01 + A11 * A11,
        )
        times >>= 1
