"""Logistic regression beside its speed: badly scaled columns, peak memory, the first fit of a process.

MAJORANT_DATA=... OMP_NUM_THREADS=1 python -m benchmarks.robustness [--only scaled|memory|first]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import numpy as np

from benchmarks import data, report
from majorant import LBFGS, Binary, Labelled, Multinomial, Newton, Objective, QuasiNewton, minimize

LEVEL = 1e-6
FIT_THEIRS = (
    "from sklearn.linear_model import LogisticRegression as T; "
    "T(C=1.0, fit_intercept=False, tol=1e-4, max_iter=30).fit(X, y)"
)
FIT_OURS = (
    "from majorant import LogisticRegression as T; T(C=1.0, fit_intercept=False, tol=1e-4, max_iter=30).fit(X, y)"
)


def scaled_columns(seed: int = 0):
    """Full passes to 1e-6 with every column multiplied by 10^U(−4, 4)."""
    rows = []
    for name, load in {"a9a": data.a9a, "letter": data.letter, "mnist10k": data.mnist_pca}.items():
        X, y = load()
        factors = 10 ** np.random.default_rng(seed).uniform(-4, 4, size=X.shape[1])
        X = X.multiply(factors).tocsr() if hasattr(X, "multiply") else X * factors
        n = int(y.max()) + 1
        F = Objective(Binary() if n == 2 else Multinomial(n), Labelled(X, y), ridge=1.0)
        optimum = minimize(F, Newton(), tol=1e-13).trace["objective"][-1]
        rows.append(
            {
                "set": name,
                "ours": passes_to(F, QuasiNewton(), optimum),
                "lbfgs": passes_to(F, LBFGS(), optimum),
                "target": 60,
            }
        )
    return rows


def passes_to(F, solver, optimum, max_steps=1500):
    trace = minimize(F, solver, tol=1e-12, max_steps=max_steps).trace
    reached = trace["objective"] <= optimum * (1 + LEVEL)
    return float(trace["passes"][np.argmax(reached)]) if reached.any() else float("nan")


def peak_memory():
    """Peak resident memory of thirty iterations, each estimator in a process of its own."""
    rows = []
    for name in ("mnist_raw", "news20"):
        load = f"from benchmarks import data; X, y = data.{name}(); "
        bare = peak_of(load + "import sklearn.linear_model, scipy.optimize")
        theirs, ours = peak_of(load + FIT_THEIRS), peak_of(load + FIT_OURS)
        rows.append(
            {
                "set": name,
                "data MB": bare,
                "sklearn lbfgs MB": theirs,
                "ours MB": ours,
                "ratio": ours / theirs,
                "target": 1.5,
            }
        )
    return rows


def peak_of(code):
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code + PRINT_PEAK], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return float(done.stdout) / 1024


PRINT_PEAK = "\nimport resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"


def first_fit():
    """Seconds of a new process that imports majorant and fits ecoli, everything compiled before."""
    code = "import majorant as m; X, y = m.datasets.load('ecoli'); m.LogisticRegression().fit(X[:, :-1], y)"
    subprocess.run([sys.executable, "-c", code], check=True)
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        seconds.append(time.perf_counter() - started)
    return [{"what": "import and first fit, ecoli", "seconds": min(seconds), "target": 3.0}]


PARTS = {"scaled": scaled_columns, "memory": peak_memory, "first": first_fit}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PARTS)
    arguments = parser.parse_args()
    for name, part in PARTS.items():
        if arguments.only in (None, name):
            report.show(part.__doc__.splitlines()[0], part())


if __name__ == "__main__":
    main()
