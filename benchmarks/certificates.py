"""Certificates: how near to the truth they are, and what they cost a default fit.

    MAJORANT_DATA=... OMP_NUM_THREADS=1 python -m benchmarks.certificates [--shapes 20] [--unpenalised 20] [--seed 7]
        [--generated] [--json FILE]

The first table stops quasi-Newton steps where the true gap, against an optimum that Newton's method finds, has fallen
below 1e-4 and below 1e-8, and asks strong convexity and self-concordance. The second is of default fits (``tol=1e-8``,
a free intercept) with and without the tight certificate, in CPU seconds, alternating: the sets of
``benchmarks.logistic`` of at most 2,000 parameters, the same without a penalty, and shapes of ``benchmarks.shapes``,
with a penalty and without one. ``share`` is what of a fit was spent on certificates, those in vain and Newton's steps
that settle estimates included, and ``true gap`` how far from the optimum it ended, in the tolerance. What is separated
has no optimum, and is not drawn. ``--generated`` is for shapes alone, which need no data.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import data, logistic, shapes
from majorant import Binary, Labelled, Multinomial, Newton, Objective, Outcome, QuasiNewton, minimize
from majorant.core import certificates

LARGEST, TOL = 2_000, 1e-8
# Seconds for one row of the second table, and repetitions.
PATIENCE, FEWEST, MOST = 6.0, 3, 15
COLUMNS = ("kind", "problem", "parameters", "before", "after", "ratio", "share", "looks", "true gap", "certified")


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


def named():
    """Yield names and objectives of sets: with a penalty, and without."""
    for name, (load, ridge) in logistic.SETS.items():
        if name in ("mnist60k", "news20", "rcv1_small", "text"):  # far more parameters, and they take long to read
            continue
        X, y = load()[:2]
        X = X[:, :-1]  # without the constant column
        yield "set", name, objective(X, y, ridge, free=True)
        yield "set, no penalty", name, objective(X, y, 0.0, free=True)


def drawn(count, seed, *, penalised):
    """Yield the first shapes of a seed of at most so many parameters."""
    kind = "shape" if penalised else "shape, no penalty"
    for k in range(count):
        shape = shapes.draw(seed, k)
        if (shape.columns + 1) * (1 if shape.classes == 2 else shape.classes) <= LARGEST:
            X, y = shapes.make(shape, seed)[:2]
            yield kind, str(shape), objective(X, y, 1 / shape.C if penalised else 0.0, free=True)


@contextmanager
def watched():
    """Yield a list of the CPU seconds of every look for a tight certificate."""
    looks, certify = [], certificates.by_self_concordance

    def timed_certify(*given, **how):
        start = time.process_time()
        try:
            return certify(*given, **how)
        finally:
            looks.append(time.process_time() - start)

    certificates.by_self_concordance = timed_certify
    try:
        yield looks
    finally:
        certificates.by_self_concordance = certify


def timed(F, largest):
    """Return CPU seconds of a fit, what of them was spent on certificates, and what was found."""
    with watched() as looks:
        start = time.process_time()
        found = minimize(F.with_ridge(F.penalty), QuasiNewton(), tol=TOL, largest_hessian=largest)
        seconds = time.process_time() - start
    return seconds, sum(looks) / seconds, len(looks), found


def compared(kind, name, F):
    """Return a row of the second table, medians of alternating fits; None of data that are separated."""
    if timed(F, LARGEST)[-1].result.outcome is Outcome.UNBOUNDED:
        return None
    runs, begin = {0: [], LARGEST: []}, time.perf_counter()
    while len(runs[0]) < FEWEST or (time.perf_counter() - begin < PATIENCE and len(runs[0]) < MOST):
        for largest, so_far in runs.items():
            so_far.append(timed(F, largest))
    before, after = (float(np.median([run[0] for run in so_far])) for so_far in runs.values())
    without, (*_, looks, with_it) = runs[0][0][-1], runs[LARGEST][0]
    # Here a Newton step promises what there is to gain, but for a few percent, or rounding hides it.
    suits = certificates.suits(F)
    truth = certificates.by_self_concordance(F, F.point(with_it.params)).decrement if suits else float("nan")
    return {
        "kind": kind,
        "problem": name,
        "parameters": F.size,
        "before": before,
        "after": after,
        "ratio": after / before,
        "share": float(np.median([run[1] for run in runs[LARGEST]])),
        "looks": looks,
        "steps before": len(without.trace["step"]) - 1,
        "steps after": len(with_it.trace["step"]) - 1,
        "gap before": without.result.gap,
        "gap after": with_it.result.gap,
        "true gap": truth / TOL,
        "outcome": with_it.result.outcome.value,
        "certified": "standard errors" in str(with_it.result),
    }


def summarise(rows):
    """Print what the ratios of each kind come to."""
    for kind in dict.fromkeys(row["kind"] for row in rows):
        some = [row for row in rows if row["kind"] == kind]
        ratios, shares = (np.array([row[name] for row in some]) for name in ("ratio", "share"))
        worst, paid = some[int(ratios.argmax())], np.array([row["looks"] > 0 for row in some])
        gaps = np.array([row["true gap"] for row in some])
        gaps = np.percentile(gaps[np.isfinite(gaps)], (0, 25, 50, 75, 100))
        print(
            f"{kind}: {len(some)}, {sum(row['certified'] for row in some)} of them certified\n"
            f"  with / without: geometric mean {np.exp(np.log(ratios).mean()):.2f}, worst {ratios.max():.2f} "
            f"({worst['problem']}), {(ratios > 1.05).sum()} slower by more than 5 %, {(ratios < 0.95).sum()} faster\n"
            f"  more than a quarter spent on certificates in {(shares > 0.25).sum()} of {paid.sum()}, at most "
            f"{shares.max():.0%}; true gap / tol, quartiles: {', '.join(f'{gap:.1g}' for gap in gaps)}"
        )


def tell(rows, columns):
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(_shown(row[name]) for name in columns) + " |", flush=True)


def _shown(value):
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", type=int, default=20, help="how many are drawn with a penalty")
    parser.add_argument("--unpenalised", type=int, default=20, help="how many are drawn without one")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--generated", action="store_true", help="no sets, and no first table")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        first = [] if chosen.generated else list(truths())
        tell(first, ("problem", "true", "strong", "concordant"))
        second = []
        for kind, name, F in chain(
            () if chosen.generated else named(),
            drawn(chosen.shapes, chosen.seed, penalised=True),
            drawn(chosen.unpenalised, chosen.seed, penalised=False),
        ):
            row = compared(kind, name, F) if F.size <= LARGEST else None
            if row is not None:
                second.append(row)
                print(json.dumps(row, ensure_ascii=False), flush=True)
        columns = (
            "kind",
            "problem",
            "parameters",
            "before",
            "after",
            "ratio",
            "share",
            "looks",
            "true gap",
            "certified",
        )
        tell(second, columns)
        summarise(second)
    if chosen.json:
        chosen.json.write_text(json.dumps({"truth": first, "cost": second}, indent=1))


if __name__ == "__main__":
    main()
