"""Slow, obvious versions of the compiled kernels, on dense arrays: what a kernel has to find, not how it finds it."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
from scipy.optimize import brentq, root
from scipy.special import entr, expit, softmax

from tests.oracles import naive_bound

# ---------------------------------------------------------------- rows


def residuals(S, y, weight):
    """w(p − e_y) for scores with a row for each row; a single column is that of label 1 against 0."""
    if S.shape[1] == 1:
        return weight[:, None] * (expit(S) - y[:, None])
    return weight[:, None] * (softmax(S, axis=1) - np.eye(S.shape[1])[y])


def sgd(X, y, weight, offset, W, gains, m, decay):
    for k, gain in enumerate(gains):
        some = slice(k * m, (k + 1) * m)
        R = residuals(X[some] @ W.T + offset[:, some].T, y[some], weight[some])
        W = W - gain * (R.T @ X[some] + len(R) * decay * W)
    return W


def visiting(scores, descending):
    return np.argsort(-scores, kind="stable") if descending else np.arange(len(scores))


def directions(scores, descending):
    """The rows √β (e_y − π) of Algorithm 1, but for the first outcome; zero for outcomes of zero measure."""
    n, order, rows = len(scores), visiting(scores, descending), []
    for k in range(1, n):
        log_z, π, _ = naive_bound(np.zeros(n), np.eye(n), scores, order[:k])
        u = scores[order[k]] - log_z if np.isfinite([scores[order[k]], log_z]).all() else np.inf
        β = 0.25 if u == 0 else np.tanh(u / 2) / (2 * u)
        rows.append(np.sqrt(β) * (np.eye(n)[order[k]] - π))
    return np.array(rows).reshape(-1, n)


def absorb(L, D, basis, q):
    """Add q qᵀ to the matrix L on the span of ``basis``; its smallest eigenpair there leaves for the diagonal."""
    outside = q - basis.T @ (basis @ q)
    if np.linalg.norm(outside) <= 1e-12 * np.linalg.norm(q):
        return L + np.outer(q, q), D, basis
    wider = np.vstack([basis, outside / np.linalg.norm(outside)])
    L = L + np.outer(q, q)
    values, vectors = np.linalg.eigh(wider @ L @ wider.T)
    s, r = max(values[0], 0.0), wider.T @ vectors[:, 0]
    return L - s * np.outer(r, r), D + s * np.abs(r) * np.abs(r).sum(), vectors[:, 1:].T @ wider


def low_rank_rows(X, y, weight, offset, descending, theta, mu, rank, D, eta, shrink):
    """Low-rank stochastic majorization row by row, with d×d matrices; return θ, μ, VᵀSV and D."""
    n, d = len(offset), len(theta)
    L, basis = np.zeros((d, d)), np.eye(rank, d)
    for j, x in enumerate(X):
        scores = theta.reshape(n, -1) @ x + offset[:, j]
        against = np.append(0.0, scores) if n == 1 else scores
        for row in directions(against, descending and n > 1):
            L, D, basis = absorb(L, D, basis, np.sqrt(weight[j]) * np.kron(row[-n:], x))
        mu = mu + np.kron(residuals(scores[None], y[[j]], weight[[j]])[0], x) + shrink * theta
        theta = theta - eta * np.linalg.solve(L + np.diag(D), mu)
    return theta, mu, L, D


# ---------------------------------------------------------------- the dual


def logistic_step(c, q):
    """z with z + q/(1 + exp(−z)) = c. The root lies between c − q and c; a bracket as wide again is never empty."""
    room = 1 + 1e-15 * (abs(c) + q)  # beyond 1e16 a bracket wider by 1 is not wider at all
    return brentq(lambda z: z + q * expit(z) - c, c - q - room, c + room, xtol=1e-13, rtol=1e-13, maxiter=1000)


def softmax_step(c, q, guess):
    """s with s + q p(s) = c."""

    def slope(s):
        p = softmax(s)
        return np.eye(len(s)) + q * (np.diag(p) - np.outer(p, p))

    found = root(lambda s: s + q * softmax(s) - c, guess, jac=slope, tol=1e-10)
    assert found.success, found.message
    return found.x


def dual_epoch(X, y, weight, ridge, order, r, W):
    """Solve each row exactly against all others; return Σ of squared moves, residuals (t×n), coefficients (p×n)."""
    r, W, moved, n = r.copy(), W.copy(), 0.0, W.shape[1]
    for j in order:
        q, target = X[j] @ X[j] / ridge, y[[j]] if n == 1 else np.eye(n)[y[j]]
        c = X[j] @ W + q * (r[j] + weight[j] * target)
        s = np.array([logistic_step(c[0], q * weight[j])]) if n == 1 else softmax_step(c, q * weight[j], X[j] @ W)
        move = weight[j] * ((expit(s) if n == 1 else softmax(s)) - target) - r[j]
        r[j] += move
        W -= np.outer(X[j], move) / ridge
        moved += move @ move
    return moved, r, W


def dual_objective(X, y, weight, ridge, r):
    """Σ_j w_j H(p_j) − ½‖Xᵀr‖²/λ of residuals w(p − e_y)."""
    n, counted = r.shape[1], weight > 0
    target = y[:, None] if n == 1 else np.eye(n)[y]
    P = (r / np.where(counted, weight, 1.0)[:, None] + target)[counted]
    P = np.column_stack([1 - P, P]) if n == 1 else P
    return float(weight[counted] @ entr(np.clip(P, 0, 1)).sum(axis=1)) - 0.5 * float(((X.T @ r) ** 2).sum()) / ridge


# ---------------------------------------------------------------- chains


def labellings(U, A):
    """Every labelling of one sequence, and its score."""
    every = np.array(list(product(range(U.shape[1]), repeat=len(U))))
    scores = U[np.arange(len(U)), every].sum(axis=1)
    return every, scores + A[every[:, :-1], every[:, 1:]].sum(axis=1)


def chain_marginals(U, A):
    """log Z, P(y_t = i) as (T, n), and P(y_{t−1} = i, y_t = j) as (T, n, n), zero for the first token."""
    T, n = U.shape
    every, scores = labellings(U, A)
    log_z = np.logaddexp.reduce(scores)
    P, pairs = np.zeros((T, n)), np.zeros((T, n, n))
    for path, p in zip(every, np.exp(scores - log_z), strict=True):
        P[np.arange(T), path] += p
        pairs[np.arange(1, T), path[:-1], path[1:]] += p
    return log_z, P, pairs


def chain_conditionals(U, A, y, weight):
    """−Σ_t w_t log p(y_t | y_1 … y_{t−1})."""
    every, scores = labellings(U, A)
    total = 0.0
    for t, w in enumerate(weight):
        before, upto = ((every[:, :k] == y[:k]).all(axis=1) for k in (t, t + 1))
        total += w * (np.logaddexp.reduce(scores[before]) - np.logaddexp.reduce(scores[upto]))
    return total


def chain_bound(U, A):
    """Σ of the bound over one sequence: Algorithm 1 for every label of every token, with m×m matrices."""
    T, n = U.shape
    m = T * n + n * n
    unit, Σ = np.eye(m), np.zeros((m, m))
    log_z, g = U[0], unit[:n]
    for t in range(1, T):
        new_z, new_g = np.empty(n), np.empty((n, m))
        for j in range(n):
            scores = log_z + A[:, j]
            features = g + unit[T * n + n * np.arange(n) + j]
            new_z[j], new_g[j], added = naive_bound(np.zeros(m), features, scores, visiting(scores, True))
            Σ += added
        log_z, g = new_z + U[t], new_g + unit[t * n : (t + 1) * n]
    return Σ + naive_bound(np.zeros(m), g, log_z, visiting(log_z, True))[2]


def online_pass(F, starts, y, weight, order, share, leap, theta, D, A, DA):
    """A step after each sequence. F holds the values of attributes of tokens; parameters are (attributes × labels).

    A parameter that is not there has an infinite D, and so has a transition.
    """
    theta, D, A, DA = theta.copy(), D.copy(), A.copy(), DA.copy()
    sequences = list(pairwise(starts))
    for begin, end in (sequences[s] for s in order):
        if begin == end:
            continue
        _, P, pairs = chain_marginals(F[begin:end] @ theta, A)
        w, labels = weight[begin:end], y[begin:end]
        for v, p, label, w_t in zip(F[begin:end], P, labels, w, strict=True):
            size = np.abs(v).sum()
            D += w_t * share * size * np.outer(np.abs(v), p * (1 - p))
            slope = w_t * np.outer(v, p - (np.arange(len(p)) == label))
            theta -= slope / np.maximum(D, np.abs(slope) * size / leap)
        x = np.einsum("t,tij->ij", w, pairs)
        DA += 2 * share * x * (1 - x / np.maximum(w.sum(), x))
        slope = x.copy()
        np.subtract.at(slope, (labels[:-1], labels[1:]), w[1:])
        A -= slope / np.maximum(DA, np.abs(slope) / leap)
    return theta, D, A, DA
