"""Slow, obvious versions of what the package does fast."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.special import expit


def naive_bound(theta, features, log_measure=None, order=None):
    """Algorithm 1 as printed, with a loop over outcomes and d×d outer products, in log space."""
    n, d = features.shape
    log_h = np.zeros(n) if log_measure is None else log_measure
    log_z, g, Sigma = -np.inf, np.zeros(d), np.zeros((d, d))
    for y in range(n) if order is None else order:
        log_alpha = log_h[y] + theta @ features[y]
        if log_alpha == -np.inf:
            continue
        direction = features[y] - g
        if log_z == -np.inf:
            beta, kappa = 0.0, 1.0
        else:
            u = log_alpha - log_z
            beta = 0.25 if abs(u) < 1e-7 else np.tanh(u / 2) / (2 * u)
            kappa = expit(u)
        Sigma += beta * np.outer(direction, direction)
        g += kappa * direction
        log_z = np.logaddexp(log_z, log_alpha)
    return log_z, g, Sigma


def log_partition(theta, features, log_measure=None):
    scores = features @ theta + (0 if log_measure is None else log_measure)
    return np.logaddexp.reduce(scores)


def objective(theta, sets, ridge):
    """F written out: ``sets`` holds (features, log_measure, target, weight) for each row."""
    total = 0.5 * np.sum(ridge * theta**2)
    for features, log_h, target, weight in sets:
        scores = features @ theta + log_h
        total += weight * (np.logaddexp.reduce(scores) - target[target > 0] @ scores[target > 0])
    return total


def enumerate_sets(model, data):
    """Write any data out as (features, log_measure, target, weight) per row, for :func:`objective`."""
    from majorant import Choices

    weights = np.ones(len(data)) if data.weight is None else data.weight
    if isinstance(data, Choices):
        F = data.design.toarray()
        log_h = np.zeros(len(F)) if data.log_measure is None else data.log_measure
        for j, (a, b) in enumerate(itertools.pairwise(data.indptr)):
            yield F[a:b], log_h[a:b], data.target[a:b], weights[j]
        return
    X = data.design.toarray()
    one_row = model.coefficient_rows == 1
    n = 2 if one_row else model.n_classes
    for j, x in enumerate(X):
        features = np.array([0 * x, x]) if one_row else np.kron(np.eye(n), x)
        log_h = np.zeros(n)
        if data.offset is not None:
            log_h = np.array([0.0, data.offset[0, j]]) if one_row else data.offset[:, j]
        yield features, log_h, data.y[:, j] if data.soft else np.eye(n)[data.y[j]], weights[j]


def finite_difference(f, theta, eps=1e-6):
    steps = eps * np.eye(len(theta))
    return np.array([(f(theta + s) - f(theta - s)) / (2 * eps) for s in steps])


def shortfall(upper, lower):
    """Return by how much ``upper ⪰ lower`` fails, relative to their size: about 1e-15 if it holds."""
    return max(-np.linalg.eigvalsh(upper - lower)[0], 0.0) / max(np.abs(upper).max(), 1e-300)


def rises(trace):
    """Largest relative increase of the objective in one step."""
    F = trace["objective"]
    return max(np.max(np.diff(F) / np.abs(F[:-1]), initial=0.0), 0.0)
