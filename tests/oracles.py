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
    from majorant.data import Sequences

    if isinstance(data, Sequences):
        yield from _labellings(data)
        return
    weights = np.ones(len(data)) if data.weight is None else data.weight
    if isinstance(data, Choices):
        F = data.design.dense()
        log_h = np.zeros(len(F)) if data.log_measure is None else data.log_measure
        for j, (a, b) in enumerate(itertools.pairwise(data.indptr)):
            yield F[a:b], log_h[a:b], data.target[a:b], weights[j]
        return
    X = data.design.dense()
    one_row = model.coefficient_rows == 1
    n = 2 if one_row else model.n_classes
    for j, x in enumerate(X):
        features = np.array([0 * x, x]) if one_row else np.kron(np.eye(n), x)
        log_h = np.zeros(n)
        if data.offset is not None:
            log_h = np.array([0.0, data.offset[0, j]]) if one_row else data.offset[:, j]
        yield features, log_h, data.y[:, j] if data.soft else np.eye(n)[data.y[j]], weights[j]


def _labellings(data):
    """Yield each sequence that is not empty as the set of all its labellings."""
    n, size = data.universe.n, data.universe.size
    steps = {
        (int(a), int(b)): size - len(data.universe.transitions) + k
        for k, (a, b) in enumerate(data.universe.transitions)
    }
    for begin, end in itertools.pairwise(data.starts):
        if begin == end:
            continue
        of_token = np.stack([_token_features(data, t) for t in range(begin, end)])
        every = list(itertools.product(range(n), repeat=end - begin))
        features = np.zeros((len(every), size))
        for f, labels in zip(features, every, strict=True):
            f += of_token[np.arange(len(labels)), labels].sum(axis=0)
            for step in itertools.pairwise(labels):
                if step in steps:
                    f[steps[step]] += 1
        target = np.array([labels == tuple(data.y[begin:end]) for labels in every], dtype=float)
        yield features, np.zeros(len(every)), target, 1.0 if data.weight is None else data.weight[begin]


def _token_features(data, t):
    """Return the features of each label at one token."""
    universe, features = data.universe, np.zeros((data.universe.n, data.universe.size))
    for e in range(data.indptr[t], data.indptr[t + 1]):
        a = data.attributes[e]
        for f in range(universe.first[a], universe.first[a + 1]):
            features[universe.label[f], f] += 1.0 if data.values is None else data.values[e]
    if hasattr(data, "design"):  # whose columns have the first parameters, one for each label
        for k, x in enumerate(data.design.toarray()[t]):
            features[np.arange(universe.n), k * universe.n + np.arange(universe.n)] = x
    return features


def hessian(theta, sets, ridge):
    """The Hessian of F written out: a covariance of features for each row."""
    H = np.diag(np.broadcast_to(ridge, theta.shape)).astype(float)
    for features, log_h, _, weight in sets:
        centred, p = _centred(theta, features, log_h)
        H += weight * (centred.T * p) @ centred
    return H


def _centred(theta, features, log_h):
    scores = features @ theta + log_h
    p = np.exp(scores - np.logaddexp.reduce(scores))
    return features - p @ features, p


def gradient(theta, sets, ridge):
    g = ridge * theta
    for features, log_h, target, weight in sets:
        scores = features @ theta + log_h
        g = g + weight * (np.exp(scores - np.logaddexp.reduce(scores)) - target) @ features
    return g


def optimum(F):
    """Return the least value of an objective, by damped Newton steps on it written out."""
    sets, theta = list(enumerate_sets(F.model, F.data)), np.zeros(F.size)
    value = objective(theta, sets, F.ridge)
    for _ in range(100):
        slope = gradient(theta, sets, F.ridge)
        step = -np.linalg.lstsq(hessian(theta, sets, F.ridge), slope, rcond=1e-13)[0]
        while (lower := objective(theta + step, sets, F.ridge)) > value and np.abs(step).max() > 1e-12:
            step = step / 2
        if not lower < value - 1e-15 * value:
            break
        theta, value = theta + step, lower
    return value


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
