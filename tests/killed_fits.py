"""Fits that are killed at random moments and go on: ``python -m tests.killed_fits FOLDER [KILLS] [SEED]``.

Every fit is a process of its own, forked from one that has loaded everything; SIGKILL leaves it no time to tidy up. It
prints, for each problem, how often it was killed, or what of the end is not what it is without.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import majorant
from majorant import ChainCRF, Checkpoint, Chunks, LogisticRegression

# Of every step, so that a fit takes long enough to be killed.
PAUSE = 0.003


def dense(rows=400, columns=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    return X, (X[:, 0] - X[:, 1] + rng.logistic(size=rows) > 0).astype(int)


def sparse_classes(seed=0):
    rng = np.random.default_rng(seed)
    X = sp.random(600, 1300, 0.01, format="csr", random_state=seed)
    return X, (X @ rng.normal(size=(1300, 3)) + 0.3 * rng.gumbel(size=(600, 3))).argmax(axis=1)


def chunks():
    for seed in range(4):
        yield dense(100, 4, seed)


def tagged(sequences=40, length=5, seed=0):
    rng = np.random.default_rng(seed)
    words = rng.integers(30, size=(sequences, length))
    tags = (words + rng.integers(2, size=words.shape)) % 3
    X = [[[f"w{word}", f"v{word * 7 % 11}"] for word in row] for row in words]
    return X, [[f"T{tag}" for tag in row] for row in tags]


PROBLEMS = {
    "auto, dense": (LogisticRegression, {"tol": 1e-12}, dense),
    "auto, sparse classes": (LogisticRegression, {}, sparse_classes),
    "bbm": (LogisticRegression, {"solver": "bbm", "tol": 1e-12}, dense),
    "lbfgs": (LogisticRegression, {"solver": "scipy-lbfgs", "tol": 1e-12}, dense),
    "proximal": (LogisticRegression, {"solver": "proximal"}, dense),
    "sbm": (LogisticRegression, {"solver": "sbm", "penalize_intercept": True, "max_iter": 8}, dense),
    "sgd": (LogisticRegression, {"solver": "sgd", "max_iter": 8}, lambda: dense(60)),
    "a source": (LogisticRegression, {"tol": 1e-10}, lambda: (Chunks(chunks),)),
    "a chain": (ChainCRF, {"tol": 1e-8}, tagged),
}


def fit(name, path, callbacks=(), **more):
    kind, settings, data = PROBLEMS[name]
    resume = {"resume_from": path} if path is not None and Path(path).exists() else {}
    saved = [] if path is None else [Checkpoint(path, every=0)]
    return kind(**settings, **more, callbacks=[*saved, *callbacks]).fit(*data(), **resume)


def found(model):
    """Return all of a fit that has to be the same."""
    trace = {name: values for name, values in model.trace_.items() if "seconds" not in name}
    if isinstance(model, ChainCRF):
        return {"theta": model._weights.whole().theta, "n_iter": np.array(model.n_iter_), **trace}
    return {"coef": model.coef_, "intercept": model.intercept_, "n_iter": model.n_iter_, **trace}


def difference(one, other):
    """Return the first thing that is not the same to the last bit."""
    if one.keys() != other.keys():
        return f"{sorted(one)} and {sorted(other)}"
    return next((name for name in one if not np.array_equal(one[name], other[name], equal_nan=True)), "")


def survive(name, kills, rng, folder):
    """Kill fits of a problem, each resumed until it is done, so many times or a few more; return how often, or fail."""
    path, result = Path(folder) / "checkpoint.npz", Path(folder) / "result.npz"
    whole, began = found(fit(name, None)), time.perf_counter()
    _lives(name, path, result, np.inf)
    usual, killed = time.perf_counter() - began, 0
    while killed < kills:
        path.unlink(missing_ok=True)
        patience = usual  # which grows: to read a checkpoint may take longer than a small fit
        while not (done := _lives(name, path, result, rng.uniform(0, 1.3) * patience)):
            killed, patience = killed + 1, 1.2 * patience
        with np.load(result) as file:
            differs = difference(whole, dict(file))
        left = sorted(each.name for each in Path(folder).iterdir() if each not in (path, result))
        if done != "ended" or differs or left:
            raise AssertionError(f"{name}, after {killed} kills: {done}, {differs}, {left}")
    return killed


def pause(row, theta):
    """Let time pass."""
    time.sleep(PAUSE)


def _lives(name, path, result, seconds):
    """Return how a process ended that fits from the latest checkpoint; nothing if it was killed before."""
    child = os.fork()
    if child == 0:
        try:
            np.savez(result, **found(fit(name, path, [pause])))
            os._exit(0)
        except BaseException as problem:
            print(repr(problem), file=sys.stderr)
        os._exit(1)
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return "ended" if status == 0 else f"failed with {status}"
        time.sleep(0.0005)
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    return "" if os.WIFSIGNALED(status) else "ended" if status == 0 else f"failed with {status}"


def main(folder, kills=8, seed=0):
    each, counts = -(-int(kills) // len(PROBLEMS)), {}
    for number, name in enumerate(PROBLEMS):
        own = Path(folder) / str(number)
        own.mkdir(parents=True)
        counts[name] = survive(name, each, random.Random(f"{seed} {name}"), own)
    print(json.dumps({"version": majorant.__version__, "killed": counts}))


if __name__ == "__main__":
    main(*sys.argv[1:])
