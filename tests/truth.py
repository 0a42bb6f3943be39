"""Objectives of outcomes written out, in long double: what certificates are held against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from majorant import Binary, Choices, Enumerated, Labelled, Multinomial, Objective

KINDS = ("binary", "multinomial", "enumerated")


@dataclass
class Truth:
    """F of outcomes written out, in long double: Φ (outcomes × d), their rows, targets, weights and log h."""

    F: Objective

    def __post_init__(self):
        F, model = self.F, self.F.model
        data = F.whole
        X, self.target = data.design.dense(), model.targets(data)
        if isinstance(data, Choices):
            Φ, self.row, log_h = X, np.repeat(np.arange(len(data)), np.diff(data.indptr)), data.log_measure
        elif model.against_zero:
            Φ, self.row = np.vstack([0 * X, X]), np.tile(np.arange(len(data)), 2)
            self.target = np.concatenate([1 - self.target, self.target])
            log_h = None if data.offset is None else np.concatenate([0 * data.offset[0], data.offset[0]])
        else:
            Φ, self.row = np.kron(np.eye(model.n_classes), X), np.tile(np.arange(len(data)), model.n_classes)
            log_h = None if data.offset is None else data.offset.ravel()
        self.Φ = Φ.astype(np.longdouble)
        self.log_h = 0 if log_h is None else log_h.astype(np.longdouble)
        weight = np.ones(len(data)) if data.weight is None else data.weight
        self.weight, self.rows, self.ridge = weight[self.row], len(data), F.ridge.astype(np.longdouble)
        size = np.sqrt(np.square(self.Φ).mean(axis=0))
        # Of parameters times these, powers of two, no unit of a column is left, and nothing is rounded.
        self.scale = 2.0 ** np.round(np.log2(np.where(size > 0, size, 1.0).astype(float)))

    def probabilities(self, theta):
        s = self.Φ @ theta.astype(np.longdouble) + self.log_h
        top = np.full(self.rows, -np.inf, dtype=np.longdouble)
        np.maximum.at(top, self.row, s)
        e = np.exp(s - top[self.row])
        Z = np.zeros(self.rows, dtype=np.longdouble)
        np.add.at(Z, self.row, e)
        return s - top[self.row] - np.log(Z)[self.row], e / Z[self.row]

    def margin(self, theta):
        """Return by how much θ favours what was observed, at least: where that is positive the data are separated."""
        scores, apart = self.Φ @ theta.astype(np.longdouble), []
        for row in np.unique(self.row[self.weight > 0]):
            here, seen = self.row == row, self.target > 0
            if (here & ~seen).any():
                apart.append(scores[here & seen].min() - scores[here & ~seen].max())
        return min(apart)

    def value(self, theta):
        log_p, _ = self.probabilities(theta)
        seen = self.target > 0
        loss = -np.sum((self.weight * self.target)[seen] * log_p[seen])
        return loss + 0.5 * np.sum(self.ridge * theta.astype(np.longdouble) ** 2)

    def gradient_and_hessian(self, theta):
        _, p = self.probabilities(theta)
        g = self.Φ.T @ (self.weight * (p - self.target)) + self.ridge * theta
        mean = np.zeros((self.rows, self.Φ.shape[1]), dtype=np.longdouble)
        np.add.at(mean, self.row, p[:, None] * self.Φ)
        off = (self.Φ - mean[self.row]).astype(float)
        return g, off.T @ ((self.weight * p).astype(float)[:, None] * off) + np.diag(self.ridge.astype(float))

    def optimum(self, theta):
        """Newton's method, halved until it descends, to the last digits of long double."""
        theta = theta.astype(np.longdouble)
        for _ in range(100):
            g, H = self.gradient_and_hessian(theta)
            if not np.isfinite(H).all():  # steps of huge scores: what was found before is still a point to compare with
                break
            scale = np.sqrt(np.where(np.diagonal(H) > 0, np.diagonal(H), 1.0))
            inverse = np.linalg.pinv(H / np.outer(scale, scale), rcond=1e-13, hermitian=True)
            step = -(inverse @ (g / scale).astype(float)) / scale.astype(np.longdouble)
            # Where F is tiny beside the scores it is a difference of, its last digits say nothing of a step.
            lost = np.finfo(np.longdouble).eps * np.sum(self.weight * (1 + np.abs(self.Φ @ theta + self.log_h)))
            most = self.value(theta) + max(1e-16 * abs(self.value(theta)), lost)
            while self.value(theta + step) > most and np.abs(step * self.scale).max() > 1e-19:
                step = step / 2
            theta = theta + step
            if np.abs(step * self.scale).max() < 1e-16:
                break
        return theta


def drawn(seed, rows=(25, 90), *, odd=False):
    """Return a small problem of some kind, with or without weights, offsets, penalties and an intercept.

    An odd one may have columns in other units, copies of columns, and weights, offsets and penalties of any size.
    """
    rng = np.random.default_rng(seed)
    kind, t, p = KINDS[seed % 3], int(rng.integers(*rows)), int(rng.integers(1, 4))
    weight = rng.choice([0.0, 0.5, 1.0, 3.0], size=t) if rng.random() < 0.3 else None
    weight = None if weight is None or not weight.any() else weight
    scale, more = np.exp(rng.normal(size=p)), np.random.default_rng([seed, 1])
    if odd and more.random() < 0.3:  # other units, exactly
        scale *= 2.0 ** more.integers(-40, 41, size=p)
    copies = odd and p > 1 and more.random() < 0.15
    if kind == "enumerated":
        sizes = rng.integers(1, 5, size=t)
        features = _copied(rng.normal(size=(sizes.sum(), p)) * scale, copies, more)
        log_h = rng.normal(size=sizes.sum()) if rng.random() < 0.3 else None
        data = Choices(features, sizes, chosen=rng.integers(0, sizes), weight=weight, log_measure=log_h)
        model, classes = Enumerated(), 1
    else:
        n = 2 if kind == "binary" else int(rng.integers(2, 5))
        X = rng.normal(size=(t, p)) * scale + (rng.normal(size=p) if rng.random() < 0.5 else 0.0)
        model, classes = (Binary(), 1) if kind == "binary" else (Multinomial(n), n)
        offset = rng.normal(size=(t, classes)) if rng.random() < 0.3 else None
        if odd and offset is not None and weight is not None and more.random() < 0.5:
            offset, weight = 700 * np.sign(offset), weight * 10.0 ** more.integers(-12, 13, size=t)
        X = _copied(X, copies, more)
        data = Labelled(X, rng.integers(0, n, size=t), weight, offset, constant=bool(rng.random() < 0.5))
    columns = data.n_features
    penalty = [np.ones(columns), np.zeros(columns), 10 ** rng.uniform(-3, 1) * np.ones(columns)][seed % 7 % 3]
    if rng.random() < 0.4:
        penalty = penalty * (rng.random(columns) < 0.5)
    if odd and more.random() < 0.15:
        penalty = penalty * 10.0 ** more.integers(-9, 10, size=columns)
    return Objective(model, data, ridge=np.tile(penalty, classes)), rng


def _copied(X, copies, r):
    """Return columns of which the last is the first in another unit, exactly, if there are to be copies."""
    if copies:
        X[:, -1] = X[:, 0] * 2.0 ** r.integers(-40, 41)
    return X


def centred(theta, classes):
    W = theta.reshape(classes, -1)
    return W - W.mean(axis=0) if classes > 1 else W
