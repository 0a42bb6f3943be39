"""ChainCRF against CRFsuite's L-BFGS with set-up included: chunking, tagging, generated data of many labels.

    pip install -e '.[bench]'
    MAJORANT_DATA=... OMP_NUM_THREADS=1 python -m benchmarks.chain_sizes [--only TEXT]

CPU seconds, set-up included on both sides, to 1.001 times the optimum: the lower end of both fits, of which majorant's
is certified to 1e-5. One thread, one process, one run of each.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks import chain, report
from majorant import ChainCRF

LEVEL = 1.001


def conll(count, task="chunking"):
    """The first sentences of the training part of CoNLL-2000."""
    chain.TASK = task
    X, y = chain.part("train")
    return X[:count], y[:count]


def generated(sequences, length, labels, attributes, seen, seed=0):
    """Sequences of a hidden Markov model; of ten attributes of a token its label draws ``seen``."""
    rng = np.random.default_rng(seed)
    follows = rng.dirichlet(np.full(labels, 0.3), size=labels)
    shows = rng.dirichlet(np.full(attributes, 0.05), size=labels)
    X, y = [], []
    for _ in range(sequences):
        path = [int(rng.integers(labels))]
        while len(path) < length:
            path.append(int(rng.choice(labels, p=follows[path[-1]])))
        tokens = [rng.choice(attributes, size=seen, p=shows[label]) for label in path]
        noise = rng.integers(attributes, size=(length, 10 - seen))
        X.append([[f"a{k}" for k in {*own, *other}] for own, other in zip(tokens, noise, strict=True)])
        y.append([f"l{label}" for label in path])
    return X, y


CASES = {
    "chunking, all 8,936 sentences": (lambda: conll(None), 1.0),
    "tagging, 4,000 sentences, 44 labels": (lambda: conll(4000, "pos"), 1.0),
    "5,000 generated words, 26 labels": (lambda: generated(5000, 8, 26, 500, 5), 1.0),
    "1,000 generated sequences, 100 labels": (lambda: generated(1000, 10, 100, 500, 5), 1.0),
}


def ours(X, y, c2):
    """CPU seconds from lists of strings to each state of a fit, and the objectives."""
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the limit of steps, where c2 is small
        trace = ChainCRF(c2=c2, tol=1e-5, n_jobs=1).fit(X, y).trace_
    setup = time.process_time() - started - trace["cpu_seconds"][-1]
    return setup + trace["cpu_seconds"], trace["objective"]


def crfsuite(X, y, c2):
    """The same of CRFsuite, whose log has the seconds of each iteration."""
    import pycrfsuite

    started = time.process_time()
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False, params={"c1": 0.0, "c2": c2})
    for tokens, labels in zip(X, y, strict=True):
        trainer.append(tokens, labels)
    setup = time.process_time() - started
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(str(Path(folder) / "model"))
    steps = [(i["time"], i["loss"]) for i in trainer.logparser.iterations if "loss" in i]
    return setup + np.cumsum([seconds for seconds, _ in steps]), np.array([loss for _, loss in steps])


def measure(name):
    data, c2 = CASES[name]
    X, y = data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for penalty in (c2, 1e-3):  # compile, also what follows dual ascent
            ChainCRF(c2=penalty, max_iter=5, n_jobs=1).fit(X[:500], y[:500])
    (seconds, losses), (theirs, their_losses) = ours(X, y, c2), crfsuite(X, y, c2)
    level = LEVEL * min(losses.min(), their_losses.min())
    mine, peer = (
        float(times[np.argmax(found <= level)]) if (found <= level).any() else np.nan
        for times, found in ((seconds, losses), (theirs, their_losses))
    )
    return {"majorant s": mine, "CRFsuite s": peer, "times as fast": peer / mine, "data": name}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="data whose name contains this text")
    arguments = parser.parse_args()
    rows = []
    for name in (name for name in CASES if arguments.only in name):
        rows.append(measure(name))
        print(rows[-1], flush=True)
    report.show(f"CPU seconds to {LEVEL} × the optimum, set-up included", rows)


if __name__ == "__main__":
    main()
