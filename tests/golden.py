"""Fits of every kind and what they gave: a guard for changes that should change nothing.

    python -m tests.golden [--write] [--only TEXT]

Compares the coefficients (to the bit, by a hash, and by a few numbers), the outcome, the sentence and the account of
each fit with those in golden.json, and prints what differs. It exits with 1 if an outcome differs, if coefficients
differ by more than 1e-6 (relative to their norm), or if a fit fails. Bits may differ between machines and versions of
NumPy: `--write` keeps those of this one. The first run compiles, which takes a minute.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from threadpoolctl import threadpool_limits

import majorant
from majorant import (
    ChainCRF,
    Checkpoint,
    Choices,
    Chunks,
    ConditionalLogit,
    Labelled,
    LatentChainCRF,
    LatentClassLogit,
    LatentLogisticRegression,
    LinearProbe,
    LogisticRegression,
    LogisticRegressionCV,
    Npy,
    Objective,
    Parquet,
    Svmlight,
    datasets,
    minimize,
)

FILE = Path(__file__).with_suffix(".json")
CLOSE, TOO_FAR = 1e-9, 1e-6  # relative differences of coefficients
SHOWN = 8  # coefficients that are kept as numbers
FITTED = (
    "coef_", "intercept_", "C_", "coefs_paths_", "membership_", "state_features_", "transition_features_", "params",
    "coefs", "intercepts",
)  # fmt: skip

Fit = Callable[[Path], Any]
PROBLEMS: dict[str, Fit] = {}


def problem(name: str) -> Callable[[Fit], Fit]:
    """Add a fit to the table; it is given a folder for its files."""
    return lambda fit: PROBLEMS.setdefault(name, fit)


# --- rows with labels -------------------------------------------------------------------------------------


def rows(t: int, p: int, classes: int = 2, seed: int = 0) -> tuple[Any, Any]:
    """Return dense rows and their labels."""
    rng = np.random.default_rng([seed, t, p, classes])
    X = rng.normal(size=(t, p))
    return X, labels(X, classes, rng)


def labels(X: Any, classes: int, rng: np.random.Generator) -> Any:
    """Return labels drawn from a log-linear model of a few columns."""
    W = np.zeros((X.shape[1], classes))
    W[: min(10, len(W))] = rng.normal(size=(min(10, len(W)), classes))
    scores = np.asarray(X @ W)
    return (2 * scores / scores.std() + rng.gumbel(size=scores.shape)).argmax(axis=1)


def sparse(t: int, p: int, classes: int = 2, density: float = 0.05, seed: int = 0) -> tuple[Any, Any]:
    """Return sparse rows, with columns of which few are frequent, and their labels."""
    rng = np.random.default_rng([seed, t, p, classes])
    share = 1.0 / (1.0 + np.arange(p))
    columns = rng.choice(p, size=int(t * p * density), p=share / share.sum())
    X = sp.csr_matrix((np.ones(len(columns)), (rng.integers(t, size=len(columns)), columns)), shape=(t, p))
    X.data = rng.lognormal(sigma=0.5, size=X.nnz)
    return X, labels(X, classes, rng)


def correlated(t: int, p: int, classes: int = 2) -> tuple[Any, Any]:
    rng = np.random.default_rng(t)
    X = rng.normal(size=(t, p // 3)) @ rng.normal(size=(p // 3, p)) + 0.1 * rng.normal(size=(t, p))
    return X, labels(X, classes, rng)


def heavy_tailed(t: int, p: int, classes: int = 2) -> tuple[Any, Any]:
    rng = np.random.default_rng(t)
    X = rng.standard_t(2.5, size=(t, p))
    return X, labels(X, classes, rng)


def moved(X: Any, y: Any, *, by: float = 0.0, scales: float = 0.0, dtype: Any = np.float64) -> tuple[Any, Any]:
    """Return the rows elsewhere, in columns of other scales, and in another precision."""
    if sp.issparse(X):
        return X.astype(dtype), y
    return (X * np.logspace(-scales, scales, X.shape[1]) + by).astype(dtype), y


def ecoli() -> tuple[Any, Any]:
    X, y = datasets.load("ecoli")
    return X[:, :-1], y


ROWS = {
    "binary": lambda: rows(2000, 20),
    "binary, few": lambda: rows(150, 5),
    "binary, tall": lambda: rows(60_000, 8),
    "binary, large": lambda: rows(15_000, 200),
    "binary, wide": lambda: rows(80, 600),
    "binary, correlated": lambda: correlated(3000, 60),
    "binary, heavy tails": lambda: heavy_tailed(5000, 8),
    "binary, scales": lambda: moved(*rows(1500, 12), scales=3),
    "binary, far from zero": lambda: moved(*rows(1500, 12), by=1e4),
    "binary, float32": lambda: moved(*rows(2000, 20), dtype=np.float32),
    "10 classes": lambda: rows(3000, 30, 10),
    "10 classes, large": lambda: rows(6000, 400, 10),
    "10 classes, float32": lambda: moved(*rows(1500, 20, 10), dtype=np.float32),
    "30 classes": lambda: rows(2000, 10, 30),
    "3 classes, wide": lambda: rows(90, 500, 3),
    "4 classes, correlated": lambda: correlated(1500, 40, 4),
    "ecoli": ecoli,
    "sparse": lambda: sparse(3000, 400),
    "sparse, float32": lambda: moved(*sparse(2000, 300), dtype=np.float32),
    "sparse, wide": lambda: sparse(600, 5000, 3, 0.01),
    "sparse, 6 classes": lambda: sparse(2000, 150, 6),
}
for name, make in ROWS.items():
    PROBLEMS[name] = lambda folder, make=make: LogisticRegression(n_jobs=1).fit(*make())

SETTINGS: dict[str, tuple[Callable[[], tuple[Any, Any]], dict[str, Any]]] = {
    "no penalty": (ROWS["binary"], {"C": np.inf}),
    "no penalty, 4 classes": (lambda: rows(1500, 8, 4), {"C": np.inf}),
    "no penalty, separable": (lambda: moved(np.arange(20.0)[:, None], np.arange(20) // 10), {"C": np.inf}),
    "small penalty": (ROWS["4 classes, correlated"], {"C": 1e4}),
    "large penalty": (ROWS["10 classes"], {"C": 1e-4}),
    "no intercept": (ROWS["binary"], {"fit_intercept": False}),
    "balanced classes": (ecoli, {"class_weight": "balanced"}),
    "penalty by column": (ROWS["binary, few"], {"feature_penalty": np.array([0.1, 1.0, 10.0, 1.0, 1.0])}),
    "two steps": (ROWS["10 classes"], {"max_iter": 2}),
    "two threads": (lambda: rows(20_000, 40), {"n_jobs": 2}),
    "tight tolerance": (ecoli, {"tol": 1e-12}),
    "out of reach of float32": (ROWS["10 classes, float32"], {"tol": 1e-20}),
    "bbm": (lambda: rows(600, 8, 3), {"solver": "bbm", "tol": 1e-7}),
    "sbm": (lambda: rows(400, 5, 3), {"solver": "sbm", "penalize_intercept": True, "max_iter": 3}),
    "sbm-lowrank": (lambda: rows(400, 40), {"solver": "sbm-lowrank", "penalize_intercept": True, "max_iter": 3}),
    "proximal": (lambda: rows(2000, 20, 3), {"solver": "proximal", "max_iter": 4}),
    "lbfgs": (ROWS["sparse, 6 classes"], {"solver": "scipy-lbfgs"}),
    "newton": (ecoli, {"solver": "newton"}),
    "sgd": (lambda: rows(100, 3), {"solver": "sgd", "max_iter": 3}),
}
for name, (make, settings) in SETTINGS.items():
    PROBLEMS[name] = lambda folder, make=make, how=settings: LogisticRegression(**{"n_jobs": 1, **how}).fit(*make())


@problem("weights and offsets")
def weighted(folder: Path) -> Any:
    (X, y), rng = rows(1000, 10), np.random.default_rng(1)
    return LogisticRegression(n_jobs=1).fit(X, y, rng.integers(3, size=1000), rng.normal(size=1000))


@problem("soft labels")
def soft(folder: Path) -> Any:
    P = np.random.default_rng(1).dirichlet(np.ones(3), size=1000)
    return LogisticRegression(n_jobs=1).fit_soft(rows(1000, 10)[0], P)


@problem("a warm start")
def warm(folder: Path) -> Any:
    model = LogisticRegression(warm_start=True, n_jobs=1).fit(*ROWS["10 classes"]())
    return model.set_params(C=10.0).fit(*ROWS["10 classes"]())


@problem("a path")
def path(folder: Path) -> Any:
    return majorant.logistic_regression_path(*ROWS["sparse, 6 classes"](), Cs=[1e-3, 1e-2, 0.1, 1.0, 10.0], n_jobs=1)


@problem("cross-validation")
def cross_validated(folder: Path) -> Any:
    return LogisticRegressionCV(Cs=5, cv=3, n_jobs=1).fit(*rows(1000, 15, 3))


@problem("a linear probe")
def probe(folder: Path) -> Any:
    return LinearProbe(Cs=6, n_jobs=1).fit(*rows(1500, 40, 5))


@problem("hidden states")
def hidden(folder: Path) -> Any:
    X = np.random.default_rng(0).normal(size=(800, 4))
    return LatentLogisticRegression(n_init=2, random_state=0, n_jobs=1).fit(X, (X[:, 0] * X[:, 1] > 0).astype(int))


# --- rows that are read from files, or come as a stream ---------------------------------------------------


def parts(X: Any, y: Any, count: int = 6) -> Iterator[tuple[Any, Any]]:
    """Yield rows and labels, part by part."""
    return (
        (X[k * len(y) // count : (k + 1) * len(y) // count], y[k * len(y) // count : (k + 1) * len(y) // count])
        for k in range(count)
    )


@problem("Parquet")
def from_parquet(folder: Path) -> Any:
    X, y = rows(30_000, 3)
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y}), folder / "t.parquet", 5000)
    return LogisticRegression(n_jobs=1).fit(Parquet(folder / "t.parquet", target="y"))


@problem("npy")
def from_npy(folder: Path) -> Any:
    X, y = rows(20_000, 10, 3)
    np.save(folder / "X.npy", X.astype(np.float32))
    np.save(folder / "y.npy", y)
    return LogisticRegression(n_jobs=1).fit(Npy(folder / "X.npy", folder / "y.npy"))


@problem("svmlight")
def from_svmlight(folder: Path) -> Any:
    dump_svmlight_file(*sparse(2000, 300, 3), str(folder / "t.svm"), zero_based=False)
    return LogisticRegression(n_jobs=1).fit(Svmlight(folder / "t.svm"))


@problem("chunks")
def from_chunks(folder: Path) -> Any:
    return LogisticRegression(n_jobs=1).fit(Chunks(lambda: parts(*ROWS["4 classes, correlated"]())))


@problem("chunks, proximal")
def from_chunks_proximal(folder: Path) -> Any:
    return LogisticRegression(solver="proximal", max_iter=3, n_jobs=1).fit(Chunks(lambda: parts(*rows(3000, 20))))


@problem("chunks, cross-validation")
def from_chunks_cross_validated(folder: Path) -> Any:
    return LogisticRegressionCV(Cs=4, cv=3, n_jobs=1).fit(Chunks(lambda: parts(*rows(3000, 12))))


def stream(X: Any, y: Any) -> Any:
    model = LogisticRegression(n_jobs=1)
    for rows_of_part, labels_of_part in parts(X, y):
        model.partial_fit(rows_of_part, labels_of_part, np.unique(y))
    return model


PROBLEMS["a stream"] = lambda folder: stream(*ROWS["binary"]())
PROBLEMS["a stream, 4 classes"] = lambda folder: stream(*rows(1000, 10, 4))
PROBLEMS["a stream, sparse"] = lambda folder: stream(*sparse(1200, 80))
PROBLEMS["a stream, far from zero, float32"] = lambda folder: stream(*moved(*rows(1200, 6), by=30.0, dtype=np.float32))


class Interrupted(Exception):
    """What stops a fit in the middle."""


def interrupt(row: Any, theta: Any) -> None:
    """Stop at the third step."""
    if row["step"] == 3:
        raise Interrupted


def resumed(folder: Path, make: Callable[..., Any], *data: Any) -> Any:
    """Return a fit that went on from a checkpoint of its third step."""
    kept = folder / "checkpoint.npz"
    try:
        make(callbacks=[Checkpoint(kept, every=0), interrupt]).fit(*data)
    except Interrupted:
        return make().fit(*data, resume_from=kept)
    raise AssertionError("the fit ended before its third step")


@problem("resumed")
def resumed_rows(folder: Path) -> Any:
    return resumed(folder, lambda **more: LogisticRegression(tol=1e-12, n_jobs=1, **more), *ROWS["10 classes"]())


# --- chains -----------------------------------------------------------------------------------------------


def sentences(count: int = 120, values: bool = False, seed: int = 0) -> tuple[Any, Any]:
    """Return sequences of attributes and their labels."""
    rng = np.random.default_rng([seed, count])
    X, y = [], []
    for length in rng.integers(1, 14, size=count):
        words = rng.integers(60, size=length)
        value = rng.uniform(0.5, 2.0, size=length) if values else np.ones(length)
        X.append([{f"w{w}": v, f"suffix{w % 7}": 1.0} for w, v in zip(words.tolist(), value.tolist(), strict=True)])
        y.append([f"T{tag}" for tag in ((words + rng.integers(2, size=length)) % 5).tolist()])
    return X, y


CHAINS: dict[str, tuple[Callable[[], tuple[Any, Any]], dict[str, Any]]] = {
    "a chain": (lambda: sentences(300), {}),
    "a chain, small penalty": (sentences, {"c2": 0.01, "max_iter": 60}),
    "a chain, values, all pairs": (
        lambda: sentences(values=True),
        {"all_possible_states": True, "all_possible_transitions": True},
    ),
    "a chain, lbfgs": (sentences, {"solver": "lbfgs"}),
    "a chain, proximal": (sentences, {"solver": "proximal"}),
    "a chain, bbm": (lambda: sentences(20), {"solver": "bbm", "max_iter": 4}),
    "a chain from chunks": (lambda: (Chunks(lambda: parts(*sentences(), 4)),), {}),
}
for name, (make, settings) in CHAINS.items():
    PROBLEMS[name] = lambda folder, make=make, how=settings: ChainCRF(n_jobs=1, **how).fit(*make())


@problem("a chain, weights of tokens")
def chain_weights(folder: Path) -> Any:
    X, y = sentences()
    weight = [np.random.default_rng(len(tags)).uniform(0.5, 2.0, size=len(tags)) for tags in y]
    return ChainCRF(n_jobs=1).fit(X, y, weight)


@problem("a chain, a stream")
def chain_stream(folder: Path) -> Any:
    model = ChainCRF(n_jobs=1)
    for X, y in parts(*sentences(), 4):
        model.partial_fit(X, y, [f"T{k}" for k in range(5)])
    return model


@problem("a chain, resumed")
def chain_resumed(folder: Path) -> Any:
    return resumed(folder, lambda **more: ChainCRF(tol=1e-7, n_jobs=1, **more), *sentences())


@problem("a chain with hidden states")
def chain_hidden(folder: Path) -> Any:
    return LatentChainCRF(random_state=0, max_iter=60, n_jobs=1).fit(*sentences(60))


# --- choice -----------------------------------------------------------------------------------------------


def choices(sets: int, alternatives: int, features: int, distinct: int | None = None) -> tuple[Any, Any, Any]:
    """Return features, what was chosen and groups in long format; of distinct sets there may be few."""
    rng = np.random.default_rng([sets, features])
    X = rng.normal(size=(distinct or sets, alternatives, features))[np.arange(sets) % (distinct or sets)]
    chosen = (X @ rng.normal(size=features) + rng.gumbel(size=(sets, alternatives))).argmax(axis=1)
    return X.reshape(-1, features), np.eye(alternatives)[chosen].ravel(), np.repeat(np.arange(sets), alternatives)


PROBLEMS["choice"] = lambda folder: ConditionalLogit(n_jobs=1).fit(*choices(500, 4, 5))
PROBLEMS["choice, sets that recur"] = lambda folder: ConditionalLogit(n_jobs=1).fit(*choices(900, 3, 4, 30))
PROBLEMS["choice, a penalty"] = lambda folder: ConditionalLogit(C=0.5, n_jobs=1).fit(*choices(60, 5, 40))


@problem("choice, a data frame")
def choice_frame(folder: Path) -> Any:
    import pandas

    X, y, group = choices(400, 3, 2)
    frame = pandas.DataFrame({"price": X[:, 0], "hours": X[:, 1], "chosen": y, "trip": group, "mode": [*"abc"] * 400})
    columns = {"group": "trip", "alternative": "mode", "choice": "chosen", "features": ["price", "hours"]}
    return ConditionalLogit.from_long(frame, **columns, n_jobs=1)


@problem("choice, classes of people")
def choice_classes(folder: Path) -> Any:
    X, y, group = choices(400, 3, 2)
    return LatentClassLogit(n_init=2, random_state=0, n_jobs=1).fit(X, y, group, group // 8)


# --- models without an estimator --------------------------------------------------------------------------


@problem("enumerated outcomes")
def enumerated(folder: Path) -> Any:
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 6, size=200)
    data = Choices(rng.normal(size=(sizes.sum(), 6)), sizes, chosen=rng.integers(0, sizes))
    return minimize(Objective(majorant.Enumerated(), data, ridge=0.3))


@problem("enumerated outcomes, partly hidden")
def enumerated_hidden(folder: Path) -> Any:
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 6, size=200)
    consistent = rng.uniform(size=sizes.sum()) < 0.4
    consistent[np.cumsum(sizes) - 1] = True
    data = Choices(rng.normal(size=(sizes.sum(), 6)), sizes, consistent=consistent)
    return minimize(Objective(majorant.LatentEnumerated(), data, ridge=0.3), majorant.BatchMajorization(), tol=1e-6)


@problem("a bound as the only curvature")
def bound(folder: Path) -> Any:
    X, y = datasets.load("ecoli")
    F = Objective(majorant.Multinomial(8), Labelled(X, y), ridge=1.0)
    return minimize(F, majorant.BatchMajorization(memory=0), tol=1e-5)


# --- what is kept of a fit --------------------------------------------------------------------------------


def answer(fitted: Any) -> dict[str, Any]:
    """Return what is kept: coefficients, the outcome, the sentence and the account, as far as there are any."""
    found = [values(getattr(fitted, name)) for name in FITTED if hasattr(fitted, name)]
    theta = np.concatenate(found)
    across = np.cos(np.arange(len(theta)))  # one number that feels every coefficient
    result = getattr(fitted, "result_", None) or getattr(fitted, "result", None)
    return {
        "hash": hashlib.sha256(theta.tobytes()).hexdigest()[:16],
        "size": len(theta),
        "numbers": [*theta[:SHOWN].tolist(), float(np.linalg.norm(theta)), float(across @ theta)],
        "outcome": result.outcome.value if result else "",
        "sentence": str(result) if result else "",
        "account": [list(entry) for entry in result.account] if result else [],
    }


def values(attribute: Any) -> Any:
    """Return an attribute of a fit as an array of numbers; weights by name are taken in the order of their names."""
    if isinstance(attribute, dict):
        attribute = [attribute[name] for name in sorted(attribute, key=str)]
    return np.ravel(np.asarray(attribute, dtype=np.float64))


def distance(now: dict[str, Any], before: dict[str, Any]) -> float:
    """Return how far the kept numbers are apart, relative to the norm of the coefficients."""
    if now["size"] != before["size"]:
        return np.inf
    most = np.abs(np.subtract(now["numbers"], before["numbers"])).max()
    return float(most / max(before["numbers"][-2], np.finfo(float).tiny))


def differences(now: dict[str, Any], before: dict[str, Any]) -> tuple[list[str], bool]:
    """Return what differs, and whether it is more than a change that changes nothing may do."""
    found, wrong = [], False
    if now["hash"] != before["hash"]:
        apart = distance(now, before)
        wrong = not apart <= TOO_FAR
        found.append(
            f"coefficients differ in bits, within {CLOSE:g}" if apart <= CLOSE else f"coefficients {apart:.1e}"
        )
    for part in ("outcome", "sentence", "account"):
        if now[part] != before[part]:
            found.append(f"{part}: {before[part]!r}, now {now[part]!r}")
    return found, wrong or now["outcome"] != before["outcome"]


def answers(only: str) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Make the fits whose name holds a text; yield what is kept of each, None of one that failed."""
    with threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
        for number, (name, fit) in enumerate(PROBLEMS.items()):
            if only not in name:
                continue
            place = Path(folder) / str(number)
            place.mkdir()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    yield name, answer(fit(place))
            except Exception:
                traceback.print_exc()
                yield name, None


def main() -> int:
    """Compare the fits with what is kept, or keep them; return 1 if any is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="keep what is found")
    parser.add_argument("--only", default="", metavar="TEXT", help="make the fits whose name holds this text")
    options = parser.parse_args()
    golden = json.loads(FILE.read_text()) if FILE.exists() else {}
    wrong, same, began = [], 0, time.perf_counter()
    for name, now in answers(options.only):
        if options.write and now is not None:
            golden[name] = now
        if now is None or name not in golden:
            found, is_wrong = ["failed" if now is None else "is not in golden.json"], True
        else:
            found, is_wrong = differences(now, golden[name])
        same += not found
        wrong += [name] * is_wrong
        print(*(f"{name}: {what}\n" for what in found), sep="", end="", flush=True)
    if options.write:
        kept = {name: golden[name] for name in PROBLEMS if name in golden}
        lines = (f"{json.dumps(name)}: {json.dumps(entry, ensure_ascii=False)}" for name, entry in kept.items())
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{same} the same, {len(wrong)} wrong ({', '.join(wrong) or 'none'}), {time.perf_counter() - began:.0f} s")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
