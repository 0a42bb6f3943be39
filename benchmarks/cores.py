"""What more cores bring: seconds of a fit with 1, 2, 4, 8, 16 threads, and of scikit-learn's default beside it.

    [MAJORANT_DATA=...] python -m benchmarks.cores [--only TEXT] [--threads 1 2 4 8 16] [--json FILE]

Data are made up, but for Mnist where ``MAJORANT_DATA`` has it. Every fit is the best of three, all in one process;
scikit-learn's is one, with as many threads of BLAS as the last of ours. Coefficients are compared with those of one
thread: chains of strings differ, since threads share dual ascent. What the machine itself has to give comes first: work
in the caches of cores, and reading memory, by as many threads.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression as Theirs
from threadpoolctl import threadpool_limits

from benchmarks import data
from benchmarks.report import seconds, show
from majorant import ChainCRF, LogisticRegression
from majorant.core.threads import even_parts, for_each, sharing

COUNTS = (1, 2, 4, 8, 16)
REPEATS = 3


def binary_dense(t=400_000, p=200):
    """Gaussian rows, labels by a logistic model."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(t, p)), rng.normal(size=p) / np.sqrt(p)
    return X, (X @ w + rng.logistic(size=t) > 0).astype(int)


def mnist(t=60_000, p=784, n=10):
    """Mnist, or rows like it: most entries zero, the others correlated."""
    if os.environ.get("MAJORANT_DATA"):
        return data.mnist_raw()
    rng = np.random.default_rng(0)
    y, strokes = rng.integers(0, n, t), rng.normal(size=(n, 40))
    hidden = strokes[y] + 1.5 * rng.normal(size=(t, 40))
    return np.clip(hidden @ rng.normal(size=(40, p)) / 8 - 0.4, 0.0, 1.0), y


def binary_sparse(t=300_000, p=5_000, density=0.01):
    """Rows of which one entry in a hundred is not zero."""
    rng = np.random.default_rng(0)
    stored = int(p * density)
    columns = np.sort(rng.integers(0, p, size=(t, stored)), axis=1)
    X = sp.csr_array((rng.exponential(size=t * stored), columns.ravel(), stored * np.arange(t + 1)), shape=(t, p))
    X.sum_duplicates()
    return X, (X @ rng.normal(size=p) + 2 * rng.logistic(size=t) > 0).astype(int)


def chunking(t=9_000, labels=22, words=20_000):
    """Sentences whose tokens have a dozen attributes around them, labels by a Markov chain."""
    rng = np.random.default_rng(0)
    frequency = 1.0 / np.arange(1, words + 1)
    draw = rng.choice(words, size=(t, 24), p=frequency / frequency.sum())
    prefers = rng.integers(0, labels, words)
    X, Y = [], []
    for sentence in draw:
        noisy = np.where(rng.uniform(size=24) < 0.8, prefers[sentence], rng.integers(0, labels, 24))
        around = {k: np.roll(sentence, k) for k in (-2, -1, 0, 1, 2)}
        single = [[f"{k}:{w[i]}" for k, w in around.items()] for i in range(24)]
        pairs = [[f"{k}|{around[k][i]}|{around[k + 1][i]}" for k in (-2, -1, 0, 1)] for i in range(24)]
        X.append([one + two for one, two in zip(single, pairs, strict=True)])
        Y.append([str(label) for label in noisy])
    return X, Y


def ceilings(counts):
    """How much faster so many threads do what needs no memory, and what needs nothing else."""
    large, small = np.ones(2**27), np.ones((256, 256))

    def compute(_):
        np.dot(small, small)

    def read(some):
        large[some].sum()

    rows, alone = [], None
    for count in counts:
        with sharing(count):
            taken = [
                min(seconds(lambda: for_each(work, items)) for _ in range(REPEATS))  # noqa: B023
                for work, items in ((compute, range(2048)), (read, even_parts(len(large), 256)))
            ]
        alone = taken if alone is None else alone
        speed = [a / b for a, b in zip(alone, taken, strict=True)]
        rows.append({"threads": count, "in cache": speed[0], "memory": speed[1], "GB/s": large.nbytes / taken[1] / 1e9})
    show("what the machine has to give, over one thread", rows)


def embeddings(t=100_000, p=768, labels=9, length=20):
    """Correlated columns that say a little of labels, which follow a Markov chain."""
    rng = np.random.default_rng(0)
    step, y = (
        rng.dirichlet(np.full(labels, 0.3), size=labels).cumsum(axis=1),
        np.zeros((t // length, length), dtype=int),
    )
    for k in range(1, length):
        y[:, k] = (rng.random(len(y))[:, None] > step[y[:, k - 1]]).sum(axis=1).clip(max=labels - 1)
    X = rng.normal(size=(t, p)) + 0.05 * rng.normal(size=(labels, p))[y.ravel()]
    X = (X * np.arange(1, p + 1) ** -0.5) @ np.linalg.qr(rng.normal(size=(p, p)))[0]
    return (X + 12 * rng.normal(size=p) / np.sqrt(p)).reshape(-1, length, p), y


def logistic(threads):
    return LogisticRegression(n_jobs=threads)


def chain(threads):
    return ChainCRF(n_jobs=threads)


CASES = {
    "400,000×200 binary": (binary_dense, logistic, lambda: Theirs(max_iter=1000)),
    "mnist 60,000×784×10": (mnist, logistic, lambda: Theirs(max_iter=1000)),
    "300,000×5,000 sparse binary": (binary_sparse, logistic, lambda: Theirs(max_iter=1000)),
    "chain 9,000 sentences": (chunking, chain, None),
    "dense chain 100,000×768×9": (lambda: tuple(map(list, embeddings())), chain, None),
}


def coefficients(model):
    return np.array(list(model.state_features_.values())) if isinstance(model, ChainCRF) else model.coef_


def measure(name, counts):
    make, ours, theirs = CASES[name]
    X, y = make()
    rows, alone, of_one = [], None, np.nan
    for count in counts:
        fitted = ours(count).fit(X[:200], y[:200])  # compiled, and threads begun
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            taken = min(seconds(lambda: fitted.fit(X, y)) for _ in range(REPEATS))  # noqa: B023
            alone = (taken, coefficients(fitted)) if alone is None else alone
            row = {"threads": count, "ours s": taken, "speed-up": alone[0] / taken}
            steps = float(fitted.trace_["seconds"][-1])  # without what reads strings, which Python does in one thread
            of_one = steps if count == counts[0] else of_one
            row |= {"steps s": steps, "steps' speed-up": of_one / steps, "sklearn s": np.nan}
            if theirs is not None and count == counts[-1]:
                with threadpool_limits(count):
                    row["sklearn s"] = seconds(lambda: theirs().fit(X, y))
            row["ours / sklearn"] = taken / row["sklearn s"]
        largest = np.abs(alone[1]).max()
        row["difference"] = float(np.abs(coefficients(fitted) - alone[1]).max() / largest)
        rows.append(row)
    show(name, rows)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="only the cases whose name contains this text")
    parser.add_argument("--threads", type=int, nargs="+", help="how many, if not 1, 2, 4, 8, 16 as far as there are")
    parser.add_argument("--json", help="also write the numbers to this file")
    arguments = parser.parse_args()
    counts = arguments.threads or [count for count in COUNTS if count <= (os.cpu_count() or 1)]
    names = [name for name in CASES if arguments.only is None or arguments.only in name]
    ceilings(counts)
    results = {name: measure(name, counts) for name in names}
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=1, ensure_ascii=False)


if __name__ == "__main__":
    main()
