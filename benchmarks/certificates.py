"""Certificates: how near to the truth they are, and what they cost a default fit.

    MAJORANT_DATA=... OMP_NUM_THREADS=1 python -m benchmarks.certificates [--shapes 20] [--seed 7] [--json FILE]

The first table stops quasi-Newton steps where the true gap, against an optimum that Newton's method finds, has fallen
below 1e-4 and below 1e-8, and asks strong convexity and self-concordance. The second is of default fits (``tol=1e-8``,
a free intercept) with and without the tight certificate, in CPU seconds, alternating: the sets of
``benchmarks.logistic`` of at most 2,000 parameters, the same without a penalty, and shapes of ``benchmarks.shapes``.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import data, logistic, shapes
from majorant import Binary, Labelled, Multinomial, Newton, Objective, QuasiNewton, minimize

LARGEST = 2_000
# Seconds for one row of the second table, and repetitions.
PATIENCE, FEWEST, MOST = 6.0, 3, 15


def made(t=20_000, p=23):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(t, p))
    return X, (X @ rng.normal(size=p) / np.sqrt(p) + rng.logistic(size=t) > 0).astype(int)


def six_letters():
    X, y = data.letter()[:2]
    some = y < 6
    return X[some][:, :-1], y[some]  # without the constant column


def objective(X, y, ridge, *, free):
    n = len(np.unique(y))
    d = Labelled(X, y, constant=free, center=free).n_features
    penalty = np.full(d, float(ridge))
    if free:
        penalty[-1] = 0.0
    model, classes = (Binary(), 1) if n == 2 else (Multinomial(n), n)
    return Objective(model, Labelled(X, y, constant=free, center=free), ridge=np.tile(penalty, classes))


def truths():
    """Yield the rows of the first table."""
    for name, (X, y), ridge in (
        ("20,000×23 binary, λ=1", made(), 1.0),
        ("20,000×23 binary, λ=0", made(), 0.0),
        ("a9a, λ=1", data.a9a()[:2], 1.0),
        ("six letters, λ=1", six_letters(), 1.0),
        ("six letters, λ=0", six_letters(), 0.0),
    ):
        F = objective(X, y, ridge, free=ridge == 0)
        best = F.value(minimize(F, Newton(), tol=1e-15, gradient_tol=1e-13, max_steps=100).params)
        path = []
        follow = lambda row, θ, path=path: path.append(θ.copy())  # noqa: E731
        minimize(F, QuasiNewton(), tol=1e-14, gradient_tol=1e-12, callback=follow)
        for level in (1e-4, 1e-8):
            theta = next((θ for θ in path if (F.value(θ) - best) / F.value(θ) <= level), path[-1])
            value = F.value(theta)
            loose, tight = F.certify(theta, move=False, largest=0).gap, F.certify(theta, move=False).gap
            yield {"problem": name, "true": (value - best) / value, "strong": loose, "concordant": tight}


def cases(count, seed):
    """Yield names and objectives of the second table."""
    for name, (load, ridge) in logistic.SETS.items():
        if name in (
            "mnist60k",
            "news20",
            "rcv1_small",
            "text",
        ):  # which have far more parameters, and take long to read
            continue
        X, y = load()[:2]
        X = X[:, :-1]  # without the constant column
        yield name, objective(X, y, ridge, free=True)
        yield f"{name}, no penalty", objective(X, y, 0.0, free=True)
    for k in range(count):
        shape = shapes.draw(seed, k)
        X, y = shapes.make(shape, seed)[:2]
        yield str(shape), objective(X, y, 1 / shape.C, free=True)


def timed(F, largest):
    start = time.process_time()
    found = minimize(F.with_ridge(F.penalty), QuasiNewton(), largest_hessian=largest)
    return time.process_time() - start, found


def compared(name, F):
    """Return a row of the second table: medians of alternating fits."""
    timed(F, LARGEST)
    runs, begin = {0: [], LARGEST: []}, time.perf_counter()
    while len(runs[0]) < FEWEST or (time.perf_counter() - begin < PATIENCE and len(runs[0]) < MOST):
        for largest, so_far in runs.items():
            so_far.append(timed(F, largest))
    (before, without), (after, with_it) = (
        (float(np.median([run[0] for run in so_far])), so_far[0][1]) for so_far in runs.values()
    )
    start = time.process_time()
    used = "standard errors" in str(with_it.result)
    if used:
        F.certify(with_it.params, largest=LARGEST)
    return {
        "problem": name,
        "parameters": F.size,
        "before": before,
        "after": after,
        "ratio": after / before,
        "steps before": len(without.trace["step"]) - 1,
        "steps after": len(with_it.trace["step"]) - 1,
        "gap before": without.result.gap,
        "gap after": with_it.result.gap,
        "outcome": with_it.result.outcome.value,
        "used": used,
        "certificate": time.process_time() - start if used else 0.0,
    }


def tell(rows, columns):
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(_shown(row[name]) for name in columns) + " |", flush=True)


def _shown(value):
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        first = list(truths())
        tell(first, ("problem", "true", "strong", "concordant"))
        second = []
        for name, F in cases(chosen.shapes, chosen.seed):
            if F.size <= LARGEST:
                second.append(compared(name, F))
                print(json.dumps(second[-1]), flush=True)
        tell(second, ("problem", "parameters", "before", "after", "ratio", "steps before", "steps after", "used"))
    if chosen.json:
        chosen.json.write_text(json.dumps({"truth": first, "cost": second}, indent=1))


if __name__ == "__main__":
    main()
