"""Seconds of a grid of C, each fit warm from the one before, against scikit-learn's.

    MAJORANT_DATA=... OMP_NUM_THREADS=1 python -m benchmarks.sweep [--json FILE]

Ours is certified to be within 1e-6 of each optimum. scikit-learn's L-BFGS takes one tolerance for the whole grid: the
loosest of a ladder with which every fit truly is; beside it, the seconds if each C had the loosest that does for it,
which nobody knows beforehand. Processor seconds of one thread, the medians of rounds in which both take turns.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks import data, report
from majorant import Labelled, Multinomial, Objective, logistic_regression_path

GRIDS = {"10^-6 … 10^5, 45 values": np.logspace(-6, 5, 45), "10^-4 … 10^4, 9 values": np.logspace(-4, 4, 9)}
LEVEL, LADDER, ROUNDS = 1e-6, (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8), 3


class Judge:
    """Says how far from its optimum a fit truly is."""

    def __init__(self, X, y, Cs):
        n, p = int(y.max()) + 1, X.shape[1]
        F = Objective(Multinomial(n), Labelled(X, y, constant=True), ridge=0.0)
        self._objectives = [F.with_ridge(np.tile(np.append(np.full(p, 1 / C), 0.0), n)) for C in Cs]
        best = logistic_regression_path(X, y, Cs=Cs, tol=1e-9)
        self._optima = [self._value(*found) for found in zip(range(len(Cs)), best.coefs, best.intercepts, strict=True)]

    def excess(self, k, coef, intercept):
        return self._value(k, coef, intercept) / self._optima[k] - 1

    def _value(self, k, coef, intercept):
        return self._objectives[k].value(np.hstack([coef, intercept[:, None]]).ravel())


def ours(X, y, Cs, judge):
    started = time.process_time()
    path = logistic_regression_path(X, y, Cs=Cs, tol=LEVEL)
    seconds = time.process_time() - started
    worst = max(judge.excess(k, path.coefs[k], path.intercepts[k]) for k in range(len(Cs)))
    return seconds, worst, int(path.n_iter.sum())


def theirs(X, y, Cs, tol, judge):
    model, seconds, excess, steps = LogisticRegression(warm_start=True, tol=tol, max_iter=10_000), 0.0, [], 0
    for k, C in enumerate(Cs):
        model.C = C
        started = time.process_time()
        model.fit(X, y)
        seconds += time.process_time() - started
        steps += int(model.n_iter_[0])
        excess.append(judge.excess(k, model.coef_, model.intercept_))
    return seconds, max(excess), steps


def best_of_each(X, y, Cs, judge):
    """The seconds of the loosest tolerance that does for each C, what was tried in vain not counted."""
    before, total = {}, 0.0
    for k, C in enumerate(Cs):
        for tol in LADDER:
            model = LogisticRegression(C=C, warm_start=True, tol=tol, max_iter=10_000)
            model.__dict__.update({name: value.copy() for name, value in before.items()})
            started = time.process_time()
            model.fit(X, y)
            seconds = time.process_time() - started
            if judge.excess(k, model.coef_, model.intercept_) <= LEVEL:
                break
        total, before = total + seconds, {"coef_": model.coef_, "intercept_": model.intercept_}
    return total


def measure(Cs):
    X, y = data.mnist_pca()
    X = np.ascontiguousarray(X[:, np.ptp(X, axis=0) > 0])  # the intercept is the estimator's
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        judge = Judge(X, y, Cs)
        tol = next(tol for tol in LADDER if theirs(X, y, Cs, tol, judge)[1] <= LEVEL)
        rounds = [(ours(X, y, Cs, judge), theirs(X, y, Cs, tol, judge)) for _ in range(ROUNDS)]
        each = best_of_each(X, y, Cs, judge)
    us, them = (float(np.median([run[side][0] for run in rounds])) for side in (0, 1))
    return {
        "ours s": us,
        "sklearn s": them,
        "ours / sklearn": us / them,
        "sklearn s, best of each C": each,
        "ratio": us / each,
        "our worst": rounds[0][0][1],
        "their worst": rounds[0][1][1],
        "our steps": rounds[0][0][2],
        "their steps": rounds[0][1][2],
        "their tol": tol,
    }


MEASUREMENTS = {f"Mnist 10,000×50×10, C = {name}": lambda Cs=Cs: [measure(Cs)] for name, Cs in GRIDS.items()}

if __name__ == "__main__":
    report.run(__doc__, MEASUREMENTS)
