"""Logistic regression on generated shapes, with default settings, against the best of scikit-learn's solvers.

    OMP_NUM_THREADS=1 python -m benchmarks.shapes [--shapes 80] [--seed 0] [--json FILE] [--again] [--plot FILE]
        [--given 2000x2x1000]

Shapes are drawn by seed: eleven families of columns (``FAMILIES``), 200 to 100,000 rows, 2 to 5,000 columns, 2 to 1,000
classes, C from 0.01 to 100, with a free intercept, as is the default of both packages.
Every method runs a ladder of its own tolerances, from loose to tight, and is credited with the CPU seconds of the first
fit that is within 1e-6 of the optimum (relative), the least of a few repetitions. What is not there in time stays in
the table. ``--again`` runs ours again, against what a file holds of the peers: for work in progress, not for print.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import time
import warnings
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks import report
from majorant import Binary, Labelled, LogisticRegression, Multinomial, Objective
from majorant.plotting import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION

LEVEL = 1e-6
DENSE = ("standardised", "unstandardised", "correlated", "heavy-tailed", "embeddings", "polynomial", "images")
SPARSE = ("sparse", "one-hot", "tf-idf", "counts")
FAMILIES = DENSE + SPARSE
# Numbers in X, and scores times columns: what keeps a run of all shapes within an hour or so.
MOST_NUMBERS, MOST_PRODUCTS = 1.2e7, 1.2e8
OURS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
PEERS = {
    "lbfgs": (1e-2, 1e-3, 1e-4, 1e-5, 1e-7),
    "newton-cg": (1e-1, 1e-2, 1e-3, 1e-5),
    "newton-cholesky": (1e-1, 1e-2, 1e-4, 1e-6),
    "sag": (1e-2, 1e-3, 1e-4, 1e-5),
    "saga": (1e-2, 1e-3, 1e-4, 1e-5),
}
LARGEST_HESSIAN = 4_000


@dataclass(frozen=True)
class Shape:
    """What was drawn."""

    family: str
    rows: int
    columns: int
    classes: int
    C: float
    density: float
    seed: int

    def __str__(self):
        kind = f"{self.family} {100 * self.density:.2g} %" if self.family in SPARSE else self.family
        return f"{self.rows}×{self.columns}×{self.classes} {kind} C={self.C:.2g}"


def draw(seed: int, k: int) -> Shape:
    """Return the k-th shape: sizes uniform in their logarithms, drawn again while they are too much work."""
    rng = np.random.default_rng([seed, k])
    family = FAMILIES[k % len(FAMILIES)]
    while True:
        rows, columns = (round(np.exp(rng.uniform(np.log(a), np.log(b)))) for a, b in ((200, 1e5), (2, 5_000)))
        classes = 2 if rng.random() < 0.4 else round(np.exp(rng.uniform(np.log(3), np.log(1_000))))
        density = float(np.exp(rng.uniform(np.log(0.002), np.log(0.1)))) if family in SPARSE else 1.0
        numbers = rows * columns * density
        fits = numbers <= MOST_NUMBERS and numbers * classes <= MOST_PRODUCTS and rows * classes <= MOST_NUMBERS
        if fits and rows >= 4 * classes and columns * density >= 1:
            return Shape(family, rows, columns, classes, float(10 ** rng.uniform(-2, 2)), density, k)


def given(text: str, k: int) -> Shape:
    """Return a shape that was asked for."""
    rows, columns, classes = (int(number) for number in text.replace("x", "×").split("×"))
    return Shape("standardised", rows, columns, classes, 1.0, 1.0, k)


def make(shape: Shape, seed: int = 0):
    """Return X and y: labels follow a log-linear model that explains some of them."""
    rng = np.random.default_rng([seed, shape.seed, 1])
    X = COLUMNS[shape.family](rng, shape)
    spread = np.sqrt(np.asarray(X.multiply(X).mean(axis=0)).ravel() if sp.issparse(X) else X.var(axis=0)) + 1e-12
    W = rng.normal(size=(shape.columns, shape.classes)) / spread[:, None]
    scores = np.asarray(X @ W)
    scores *= rng.choice([1.0, 3.0]) / scores.std()
    y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    y[: 2 * shape.classes] = np.tile(np.arange(shape.classes), 2)  # every class occurs
    return X, y


def standardised(rng, shape):
    return rng.normal(size=(shape.rows, shape.columns))


def unstandardised(rng, shape):
    scale = 10 ** rng.uniform(-2, 2, size=shape.columns)
    return scale * (rng.normal(size=(shape.rows, shape.columns)) + rng.normal(scale=3, size=shape.columns))


def correlated(rng, shape):
    rank = max(shape.columns // 3, 1)
    loadings = rng.normal(size=(rank, shape.columns)) * (1.0 + np.arange(rank))[:, None] ** -0.7
    X = rng.normal(size=(shape.rows, rank)) @ loadings
    X += 0.3 * X.std() * rng.normal(size=X.shape)
    return X / X.std(axis=0)


def heavy_tailed(rng, shape):
    return rng.standard_t(2.5, size=(shape.rows, shape.columns))


def sparse(rng, shape):
    share = (1.0 + np.arange(shape.columns)) ** -rng.uniform(0.0, 1.0)
    count = int(shape.rows * shape.columns * shape.density)
    columns = rng.choice(shape.columns, size=count, p=share / share.sum())
    rows = rng.integers(shape.rows, size=count)
    X = sp.csr_matrix((np.ones(count), (rows, columns)), shape=(shape.rows, shape.columns))
    if rng.random() < 0.5:
        X.data[:] = 1.0
    else:
        X.data = rng.lognormal(sigma=0.5, size=X.nnz)
    return X


def embeddings(rng, shape):
    """Principal components whose variances follow a power law, rotated, around a mean that is not zero."""
    p = shape.columns
    variance = (1.0 + np.arange(p)) ** -rng.uniform(0.8, 1.6)
    X = rng.normal(size=(shape.rows, p)) * np.sqrt(variance / variance.mean())
    for _ in range(3):  # reflections: nearly any rotation, without a p×p matrix
        v = rng.normal(size=p)
        X -= np.outer(X @ v, 2.0 * v / (v @ v))
    return X + rng.normal(size=p)


def polynomial(rng, shape):
    """All products of two of a few columns, as they come."""
    base = int(np.ceil((np.sqrt(9 + 8 * shape.columns) - 3) / 2))
    Z = rng.normal(size=(shape.rows, base)) + rng.normal(size=base)
    pairs = [Z[:, i : i + 1] * Z[:, i:] for i in range(base)]
    return np.ascontiguousarray(np.hstack([Z, *pairs])[:, : shape.columns])


def images(rng, shape):
    """Smooth pixels between 0 and 1; those at the border are nearly always 0."""
    p, rank = shape.columns, max(shape.columns // 8, 2)
    where, centre = np.linspace(0, 1, p)[None], rng.uniform(0.2, 0.8, size=rank)[:, None]
    bumps = np.exp(-0.5 * ((where - centre) * min(rank, 30)) ** 2)
    X = rng.gamma(0.5, size=(shape.rows, rank)) @ bumps
    return np.clip(X / max(float(np.quantile(X, 0.98)), 1e-12), 0.0, 1.0) + 0.0


def one_hot(rng, shape):
    """Categories of which some are frequent, one column each."""
    variables = min(max(round(shape.columns * shape.density), 1), shape.columns)
    edges = np.linspace(0, shape.columns, variables + 1).astype(int)
    chosen = []
    for first, last in pairwise(edges):
        share = (1.0 + np.arange(last - first)) ** -rng.uniform(0.5, 1.5)
        chosen.append(first + rng.choice(last - first, size=shape.rows, p=share / share.sum()))
    columns, starts = np.stack(chosen, axis=1).ravel(), np.arange(0, variables * shape.rows + 1, variables)
    return sp.csr_matrix((np.ones(len(columns)), columns, starts), shape=(shape.rows, shape.columns))


def counts(rng, shape):
    """How often words occur in texts of different lengths."""
    share = (1.0 + np.arange(shape.columns)) ** -1.1
    lengths = np.maximum(rng.lognormal(sigma=0.6, size=shape.rows) * shape.columns * shape.density, 1).astype(int)
    columns = rng.choice(shape.columns, size=int(lengths.sum()), p=share / share.sum())
    rows = np.repeat(np.arange(shape.rows), lengths)
    X = sp.csr_matrix((np.ones(len(columns)), (rows, columns)), shape=(shape.rows, shape.columns))
    X.sum_duplicates()
    return X


def tf_idf(rng, shape):
    from sklearn.feature_extraction.text import TfidfTransformer

    return sp.csr_matrix(TfidfTransformer(sublinear_tf=True).fit_transform(counts(rng, shape)))


COLUMNS = {
    "standardised": standardised,
    "unstandardised": unstandardised,
    "correlated": correlated,
    "heavy-tailed": heavy_tailed,
    "embeddings": embeddings,
    "polynomial": polynomial,
    "images": images,
    "sparse": sparse,
    "one-hot": one_hot,
    "tf-idf": tf_idf,
    "counts": counts,
}


def fit_ours(X, y, C, tol):
    model = LogisticRegression(C=C, tol=tol, max_iter=10_000, n_jobs=1).fit(X, y)
    return np.column_stack([model.coef_, model.intercept_])


def fit_theirs(name):
    def fit(X, y, C, tol):
        from sklearn.linear_model import LogisticRegression as Theirs

        model = Theirs(C=C, solver=name, tol=tol, max_iter=10_000).fit(X, y)
        return np.column_stack([model.coef_, model.intercept_])

    return fit


def timed(fit, X, y, C, tol, limit, pipe):
    """Run in a process of its own: the least CPU seconds of a few fits, more of them where they are quick."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spent, best, times = 0.0, np.inf, 0
        try:
            while times < 2 or (spent < min(0.3, 20 * best) and times < 40):
                started = time.process_time()
                W = fit(X, y, C, tol)
                seconds = time.process_time() - started
                spent, best, times = spent + seconds, min(best, seconds), times + 1
                if seconds > 1.0:
                    break
            pipe.send((best, np.asarray(W, dtype=float)))
        except Exception as problem:
            pipe.send(f"{type(problem).__name__}: {problem}")


def attempt(fit, X, y, C, tol, limit):
    """Return seconds and coefficients, or a sentence."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=timed, args=(fit, X, y, C, tol, limit, sender))
    process.start()
    answer = receiver.recv() if receiver.poll(limit + 1) else f"no answer within {limit:.1f} s"
    process.kill()
    process.join()
    return answer


def ladder(fit, tolerances, X, y, C, value, good, limit):
    """Return the runs up to the first that is good."""
    runs = []
    for tol in tolerances:
        answer = attempt(fit, X, y, C, tol, limit)
        if isinstance(answer, str):
            runs.append({"tol": tol, "note": answer})
            break
        runs.append({"tol": tol, "seconds": answer[0], "objective": value(answer[1])})
        if runs[-1]["objective"] <= good:
            break
    return runs


def measure(shape: Shape, seed: int, known: dict | None) -> dict:
    X, y = make(shape, seed)
    n, C = shape.classes, shape.C
    ridge = np.tile(np.append(np.full(shape.columns, 1 / C), 0.0), 1 if n == 2 else n)
    F = Objective(Binary() if n == 2 else Multinomial(n), Labelled(X, y, constant=True), ridge=ridge)

    def value(W):
        return float(F.value(W.ravel()))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = value(fit_ours(X, y, C, 1e-10))  # to be told what is good enough; it counts for nobody
    if known:
        best = min(best, known["optimum"])
    good = best * (1 + LEVEL)
    ours = ladder(fit_ours, OURS, X, y, C, value, good, 120.0)
    quickest = min((run["seconds"] for run in ours if run.get("objective", np.inf) <= good), default=120.0)
    result = {"shape": asdict(shape), "name": str(shape), "optimum": best, "runs": {"majorant": ours}}
    if known:
        result["runs"] |= {name: known["runs"][name] for name in PEERS if name in known["runs"]}
        return result
    limit = min(max(4 * quickest, 2.0), 60.0)
    for name, tolerances in PEERS.items():
        if name == "newton-cholesky" and F.size > LARGEST_HESSIAN:
            result["runs"][name] = [{"tol": None, "note": f"needs a {F.size}² matrix"}]
            continue
        result["runs"][name] = ladder(fit_theirs(name), tolerances, X, y, C, value, good, limit)
        reached = [r["seconds"] for r in result["runs"][name] if r.get("objective", np.inf) <= good]
        limit = min([limit, *(2 * seconds + 1.0 for seconds in reached)])
    return result


def summarise(results: list[dict]) -> list[dict]:
    """One row a shape: milliseconds of ours and of the best peer."""
    rows = []
    for result in results:
        good = result["optimum"] * (1 + LEVEL)
        seconds = {
            name: min((r["seconds"] for r in runs if r.get("objective", np.inf) <= good), default=np.nan)
            for name, runs in result["runs"].items()
        }
        peers = {name: s for name, s in seconds.items() if name != "majorant" and s == s}
        best = min(peers, key=peers.get) if peers else ""
        theirs = peers.get(best, np.nan)
        ratio = seconds["majorant"] / theirs
        rows.append(
            {
                "ms": 1e3 * seconds["majorant"],
                "best peer ms": 1e3 * theirs,
                "ratio": ratio,
                "peer": best,
                "shape": result["name"],
            }
        )
    return rows


def plot(rows, results, path):
    """Draw every shape as a point: the ratio to the best peer against the seconds of that, log axes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8, 4.2), layout="constrained")
    colours = dict(zip(FAMILIES, itertools.cycle((GREEN, VERMILION, PURPLE, ORANGE, SKY)), strict=False))
    family = [result["shape"]["family"] for result in results]
    for name, colour in colours.items():
        some = [row for row, of in zip(rows, family, strict=True) if of == name]
        axis.plot(
            [r["best peer ms"] for r in some], [r["ratio"] for r in some], "o", color=colour, label=name, alpha=0.8
        )
    axis.axhline(1.0, color=GREY, lw=1)
    axis.text(axis.get_xlim()[1], 0.95, "majorant is faster below", color=BLUE, ha="right", va="top")
    axis.set(xscale="log", yscale="log", xlabel="CPU ms of the best of scikit-learn's solvers, to 1e-6")
    axis.set_ylabel("majorant / scikit-learn, CPU time to 1e-6")
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, loc="outside right upper")
    figure.savefig(path, dpi=150)


def tell(rows):
    """Print what the ratios come to."""
    ratios = np.array([row["ratio"] for row in rows])
    there = np.isfinite(ratios)
    tiny = there & (np.array([row["best peer ms"] for row in rows]) < 3.0)
    print(f"\n{there.sum()} shapes: geometric mean of ours / best peer {np.exp(np.log(ratios[there]).mean()):.3f}")
    for title, some in (("fits of 3 ms and more", there & ~tiny), ("quicker fits", tiny)):
        if some.any():
            worst = int(np.argmax(np.where(some, ratios, -1.0)))
            mean = np.exp(np.log(ratios[some]).mean())
            print(f"  {title}: {some.sum()}, mean {mean:.3f}, worst {ratios[worst]:.2f} ({rows[worst]['shape']})")
    for row, ok in zip(rows, there, strict=True):
        if not ok:
            print(f"  not compared: {row['shape']}: ours {row['ms']:.1f} ms, best peer {row['best peer ms']:.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", type=int, default=80, help="how many are drawn")
    parser.add_argument("--only", type=int, action="append", help="only the shape of this number")
    parser.add_argument(
        "--given", metavar="T×P×N", action="append", help="standardised data of this shape instead, C=1"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", help="keep every run in this file; shapes already there are not run again")
    parser.add_argument("--again", action="store_true", help="run ours again on the shapes of the file")
    parser.add_argument("--plot", help="draw the figure here")
    arguments = parser.parse_args()
    kept = Path(arguments.json) if arguments.json else None
    results = {r["shape"]["seed"]: r for r in json.loads(kept.read_text())} if kept and kept.exists() else {}
    shapes = [given(text, k) for k, text in enumerate(arguments.given or ())]
    for shape in shapes or [draw(arguments.seed, k) for k in arguments.only or range(arguments.shapes)]:
        k = shape.seed
        if k in results and not arguments.again:
            continue
        results[k] = measure(shape, arguments.seed, results.get(k))
        row = summarise([results[k]])[0]
        print(f"{k:3d}  {row['ms']:9.1f} ms  {row['ratio']:6.2f} of {row['peer']:15s} {row['shape']}", flush=True)
        if kept and not arguments.again:
            kept.write_text(json.dumps(list(results.values()), indent=1, ensure_ascii=False))
    rows = summarise(list(results.values()))
    report.show("CPU milliseconds to 1e-6", sorted(rows, key=lambda row: -row["ratio"]))
    tell(rows)
    if arguments.plot:
        plot(rows, list(results.values()), arguments.plot)


if __name__ == "__main__":
    main()
