"""The numbers of the core: the class-space kernel, the cost of a bound iteration, what acceleration saves.

    MAJORANT_DATA=... OMP_NUM_THREADS=1 python -m benchmarks.core [--json FILE]

Single-threaded; every ratio compares runs of this one process, interleaved, by their medians.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from benchmarks import data, report
from benchmarks.report import seconds
from majorant import BatchMajorization, Binary, Labelled, Multinomial, Newton, Objective, minimize


def kernel_against_naive() -> dict:
    """Σ of 10,000 rows, 10 classes, 51 columns: class space against a loop of d×d outer products."""
    X, y = data.mnist_pca()
    F = Objective(Multinomial(10), Labelled(X, y), ridge=1.0)
    theta = 0.5 * np.random.default_rng(0).normal(size=F.size)
    fast = float(np.median([seconds(lambda: F.bound(theta)) for _ in range(5)]))
    started = time.perf_counter()
    Sigma = naive_curvature(theta, X, 10)
    slow = time.perf_counter() - started
    difference = np.abs(F.bound(theta).curvature.as_matrix() - Sigma).max() / np.abs(Sigma).max()
    return {"naive s": slow, "ours s": fast, "speed-up": slow / fast, "relative difference": difference}


def naive_curvature(theta, X, n):
    """Algorithm 1 row by row, outcome by outcome, in the descending order ours uses."""
    p = X.shape[1]
    Sigma = np.zeros((n * p, n * p))
    W = theta.reshape(n, p)
    for x in X:
        scores = W @ x
        log_z, g = -np.inf, np.zeros(n * p)
        for k, y in enumerate(np.argsort(-scores, kind="stable")):
            f = np.zeros(n * p)
            f[y * p : (y + 1) * p] = x
            direction = f - g
            u = scores[y] - log_z
            if k:
                beta = 0.25 if abs(u) < 1e-7 else np.tanh(u / 2) / (2 * u)
                Sigma += beta * np.outer(direction, direction)
            g += direction / (1 + np.exp(-u))
            log_z = np.logaddexp(log_z, scores[y])
    return Sigma


def iteration_against_newton_cholesky() -> list[dict]:
    """One iteration of bound majorization against one of scikit-learn's newton-cholesky."""
    rows = []
    for name, model, (X, y), ridge in (
        ("mnist 10k pca-50", Multinomial(10), data.mnist_pca(), 1e-2),
        ("a9a", Binary(), data.a9a(), 1.0),
    ):
        F = Objective(model, Labelled(X, y), ridge=ridge)
        times: dict[str, list[float]] = {"sklearn": [], "plain": [], "accelerated": []}
        for _ in range(7):
            times["sklearn"].append(per_iteration(lambda k, X=X, y=y, r=ridge: newton_cholesky(X, y, 1 / r, k)))
            for memory, label in ((0, "plain"), (10, "accelerated")):
                solver = BatchMajorization(memory=memory)
                times[label].append(per_iteration(lambda k, F=F, s=solver: minimize(F, s, tol=0.0, max_steps=k)))
        middle = {label: float(np.median(values)) for label, values in times.items()}
        rows.append(
            {
                "data": name,
                **{f"{label} ms": 1e3 * value for label, value in middle.items()},
                "plain / sklearn": middle["plain"] / middle["sklearn"],
                "accelerated / sklearn": middle["accelerated"] / middle["sklearn"],
            }
        )
    return rows


def per_iteration(run, few: int = 1, many: int = 5) -> float:
    """Seconds of one iteration, from runs of two lengths: set-up cancels."""
    return (seconds(lambda: run(many)) - seconds(lambda: run(few))) / (many - few)


def newton_cholesky(X, y, C, iterations):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(C=C, fit_intercept=False, solver="newton-cholesky", tol=1e-300, max_iter=iterations)
        return model.fit(X, y)


def acceleration_against_newton(seeds: int = 10, tol: float = 1e-8) -> list[dict]:
    """Curvature evaluations to a true relative suboptimality of 1e-8 on near-separable data."""
    rows = []
    for share in (1e-2, 1e-3, 1e-5):
        counts: dict[str, list[float]] = {"newton": [], "accelerated": [], "plain": []}
        rise = 0.0
        for seed in range(seeds):
            X, y = data.near_separable(seed)
            F = Objective(Binary(), Labelled(X, y), ridge=share * len(y))
            optimum = minimize(F, Newton(), tol=1e-15).trace["objective"][-1]
            for label, solver in (
                ("newton", Newton()),
                ("accelerated", BatchMajorization()),
                ("plain", BatchMajorization(memory=0)),
            ):
                trace = minimize(F, solver, tol=1e-13, max_steps=10_000).trace
                values = trace["objective"]
                reached = np.argmax(values <= optimum * (1 + tol))
                # Newton and the plain algorithm evaluate curvature at every point they reach, the last included,
                # which was not needed to get there.
                counts[label].append(trace["curvatures"][reached] - (label != "accelerated"))
                if label != "newton":
                    rise = max(rise, float(np.max(np.diff(values) / values[:-1], initial=0.0)))
        middle = {label: float(np.median(values)) for label, values in counts.items()}
        rows.append(
            {
                "λ/t": share,
                **middle,
                "accelerated / newton": middle["accelerated"] / middle["newton"],
                "largest rise": rise,
            }
        )
    return rows


MEASUREMENTS = {
    "class-space kernel against a naive loop, Mnist 10,000×51×10": lambda: [kernel_against_naive()],
    "one iteration against scikit-learn's newton-cholesky": iteration_against_newton_cholesky,
    "curvature evaluations to 1e-8, near-separable 2000×20, median": acceleration_against_newton,
}

if __name__ == "__main__":
    report.run(__doc__, MEASUREMENTS)
