"""Small penalties, tiny and long chains against CRFsuite: seconds of the processor to 1.001 times the least F.

    MAJORANT_DATA=... OMP_NUM_THREADS=1 python -m benchmarks.chain_small [--only TEXT] [--json FILE]

Both train on the same attributes in one process, in turn, three times each; the least of the three counts. The least F
is that of a fit certified to 1e-6, or what CRFsuite finds if that is less. Set-up, which reads lists of strings, stands
apart. CRFsuite's F is that of its log at every iteration of L-BFGS, with ``epsilon=1e-9``.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from itertools import chain as chained

import numpy as np

from benchmarks import chain
from benchmarks.report import show
from majorant import ChainCRF

LEVEL, REPEATS = 1.001, 3


def sentences(count, join=1):
    """Sentences of CoNLL-2000; so many of them make one sequence."""
    X, y = chain.part("train")
    X, y = X[:count], y[:count]
    return [[list(chained(*each[k : k + join])) for k in range(0, count, join)] for each in (X, y)]


def noise(sequences=3_000, attributes=20, length=10):
    """Two labels that nothing tells apart."""
    rng = np.random.default_rng(0)
    X = [[[f"a{k}" for k in rng.integers(0, attributes, 3)] for _ in range(length)] for _ in range(sequences)]
    return X, [rng.choice(["p", "q"], length).tolist() for _ in range(sequences)]


# What is trained on, and c2.
CASES = {
    "500 sentences, c2 = 1e-4": (lambda: sentences(500), 1e-4),
    "500 sentences, c2 = 1e-3": (lambda: sentences(500), 1e-3),
    "500 sentences, c2 = 1e-2": (lambda: sentences(500), 1e-2),
    "2 labels, 20 attributes": (noise, 1.0),
    "20 sentences": (lambda: sentences(20), 1.0),
    "100 sentences": (lambda: sentences(100), 1.0),
    "one of 300 sentences": (lambda: sentences(300, 300), 1.0),
    "three of 500 sentences": (lambda: sentences(1500, 500), 1.0),
}


def ours(X, y, c2, tol):
    """Set-up, and seconds and F step by step."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ChainCRF(c2=c2, tol=tol, n_jobs=1).fit(X, y)
    total, trace = time.process_time() - began, model.trace_
    return total - trace["cpu_seconds"][-1], trace["cpu_seconds"], np.minimum.accumulate(trace["objective"])


def theirs(X, y, c2):
    """The same of CRFsuite."""
    import pycrfsuite

    seconds, values = [], []

    class Trainer(pycrfsuite.Trainer):
        def message(self, text):
            if text.startswith("Loss:"):
                seconds.append(time.process_time() - began)
                values.append(float(text.split()[1]))

    began = time.process_time()
    trainer = Trainer(algorithm="lbfgs", params={"c1": 0.0, "c2": c2, "max_iterations": 2000, "epsilon": 1e-9})
    for tokens, labels in zip(X, y, strict=True):
        trainer.append(tokens, labels)
    setup, began = time.process_time() - began, time.process_time()
    trainer.train("")
    return setup, np.array(seconds), np.minimum.accumulate(values)


def to_level(seconds, values, least):
    """Seconds to 1.001 times the least F; infinite if it was not reached."""
    reached = values <= LEVEL * least
    return float(seconds[np.argmax(reached)]) if reached.any() else float("inf")


def measure(name):
    make, c2 = CASES[name]
    X, y = make()
    ours(X, y, c2, 1e-1)  # kernels are compiled
    runs = [(ours(X, y, c2, 1e-6), theirs(X, y, c2)) for _ in range(REPEATS)]
    least = min(float(each[2][-1]) for run in runs for each in run)
    a, b = (min(to_level(run[k][1], run[k][2], least) for run in runs) for k in (0, 1))
    setups = [min(run[k][0] for run in runs) for k in (0, 1)]
    of_ends = [float(runs[0][k][2][-1]) / least - 1 for k in (0, 1)]
    row = {"case": name, "ours s": a, "CRFsuite s": b, "times": b / a, "set-up s": setups[0], "its set-up s": setups[1]}
    return row | {"least F": least, "ours ends above": of_ends[0], "it ends above": of_ends[1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="only the cases whose name contains this text")
    parser.add_argument("--json", help="also write the numbers to this file")
    arguments = parser.parse_args()
    rows = [measure(name) for name in CASES if arguments.only is None or arguments.only in name]
    show("seconds to 1.001 times the least F", rows)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(rows, file, indent=1, ensure_ascii=False)


if __name__ == "__main__":
    main()
