"""Entropy balancing: a million rows against SciPy on the dual, and random problems that can and cannot be balanced.

    python -m benchmarks.balance [--only TEXT] [--problems N]

Every random problem is decided by a linear program in the weights; what is returned as balanced is looked at again.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from scipy.optimize import linprog, minimize

from majorant import EntropyBalancing


def large(n=1_000_000, d=50, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.1 * rng.normal(size=(d, d)))
    return X, X.mean(axis=0) + X.std(axis=0) * rng.uniform(-0.15, 0.15, d)


def imbalance(X, w, target):
    return float(np.abs((w @ X / w.sum() - target) / X.std(axis=0)).max())


def million():
    X, target = large()
    EntropyBalancing(X[:200_000], target)  # kernels compile
    seconds, walls = [], []
    for _ in range(3):
        begun, wall = time.process_time(), time.perf_counter()
        found = EntropyBalancing(X, target)
        seconds.append(time.process_time() - begun)
        walls.append(time.perf_counter() - wall)
    off = imbalance(X, found.weights_, target)
    print(f"10^6 x 50, majorant: {min(seconds):.2f} s CPU ({min(walls):.2f} s), off by {off:.1e}")
    print(f"  {found}")

    Z = (X - target) / X.std(axis=0)

    def dual(a):
        s = Z @ a
        top = s.max()
        w = np.exp(s - top)
        total = w.sum()
        return np.log(total) + top, w @ Z / total

    for method, options in (("L-BFGS-B", {"gtol": 1e-9, "ftol": 0.0, "maxiter": 1000}), ("BFGS", {"gtol": 1e-9})):
        begun = time.process_time()
        theirs = minimize(dual, np.zeros(50), jac=True, method=method, options=options)
        spent, w = time.process_time() - begun, np.exp(Z @ theirs.x - (Z @ theirs.x).max())
        print(
            f"10^6 x 50, SciPy {method} on the dual: {spent:.1f} s CPU ({spent / min(seconds):.0f}x), off by "
            f"{imbalance(X, w, target):.1e} after {theirs.nfev} evaluations ({theirs.message})"
        )


def feasible(X, target, tolerance, cap):
    A = np.vstack([X.T - target[:, None], target[:, None] - X.T])
    bound = np.full(len(A), tolerance) + 1e-12
    n = len(X)
    ends = (0.0, min(cap / n, 1.0))
    return linprog(np.zeros(n), A_ub=A, b_ub=bound, A_eq=np.ones((1, n)), b_eq=[1.0], bounds=ends).status == 0


def random_problems(count):
    warnings.simplefilter("error")
    tally = dict.fromkeys(("balanced", "proved infeasible", "falsely balanced", "falsely infeasible", "undecided"), 0)
    for seed in range(count):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 60))
        d = int(rng.integers(1, min(6, n)))
        draw = (rng.normal, lambda size, rng=rng: rng.integers(0, 3, size=size).astype(float), rng.exponential)
        X = draw[rng.integers(3)](size=(n, d))
        tolerance, cap = (0.0, 0.05)[rng.integers(2)], (np.inf, 3.0)[rng.integers(2)]
        if rng.random() < 0.4:
            target = rng.dirichlet(np.full(n, 0.5)) @ X
        else:
            target = X.mean(axis=0) + rng.normal(size=d) * X.std(axis=0) * rng.choice([0.3, 1, 2])
        there_are = feasible(X, target, tolerance, cap)
        try:
            ratio = None if np.isinf(cap) else cap
            w = EntropyBalancing(X, target, tolerance=tolerance, max_ratio=ratio).weights_
            off = np.abs(w @ X / w.sum() - target) - tolerance
            right = there_are and (off <= 1e-8 * np.maximum(X.std(axis=0), 1)).all() and (w <= cap + 1e-9).all()
            tally["balanced" if right else "falsely balanced"] += 1
        except ValueError:
            tally["falsely infeasible" if there_are else "proved infeasible"] += 1
        except Warning:
            tally["undecided"] += 1
    print(f"{count} random problems: " + ", ".join(f"{number} {name}" for name, number in tally.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--problems", type=int, default=2000)
    given = parser.parse_args()
    if given.only in "million":
        million()
    if given.only in "random":
        random_problems(given.problems)


if __name__ == "__main__":
    main()
