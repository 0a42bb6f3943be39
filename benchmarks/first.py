"""The first minute: default against default, warm and cold, single fits and grids.

    OMP_NUM_THREADS=1 python -m benchmarks.first [--json FILE] [--only warm]

Both packages fit with the settings of their constructors, on data sets that come with scikit-learn and on generated
ones. Seconds are those of the processor, both in one process, in turns, each the least of several fits. "excess" is how
far scikit-learn's F ends above the one of ours, relative: its default stops on a gradient, ours on a certified gap.
"first of a process" is a process of its own, with kernels compiled before; "first ever" one with an empty folder of
them. What either takes above a second fit of the same process is counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial

import numpy as np
from scipy.sparse import csr_matrix
from sklearn import datasets, linear_model, preprocessing
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import majorant
from benchmarks import report

OURS, THEIRS = majorant.LogisticRegression, linear_model.LogisticRegression
GRID = np.logspace(-3, 3, 7)
# Where byte code is written, once for all processes.
CODE = os.path.join(tempfile.gettempdir(), "majorant-byte-code")
# Fits of the same data take turns for so many seconds of a data set, three times at least.
SECONDS = 2.0


def generated(rows, columns, classes, seed=0):
    """Standard normal columns, and labels that follow a log-linear model of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    scores = X @ rng.normal(size=(columns, classes)) * 2.0 / np.sqrt(columns)
    return X, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


def text(rows=3_000, words=8_000, classes=4, seed=0):
    """Counts of words by Zipf's law, some of which tell the class, weighted by tf-idf."""
    rng = np.random.default_rng(seed)
    y, common = rng.integers(classes, size=rows), 1.0 / (1.0 + np.arange(words))
    chances = common * np.exp(rng.normal(size=(classes, words)))
    chances /= chances.sum(axis=1, keepdims=True)
    counts = np.array([rng.multinomial(60, chances[label]) for label in y])
    return TfidfTransformer().fit_transform(csr_matrix(counts)), y


def scaled(load):
    X, y = load(return_X_y=True)
    return preprocessing.StandardScaler().fit_transform(X), y


DATA = {
    "iris": lambda: datasets.load_iris(return_X_y=True),
    "iris, scaled": lambda: scaled(datasets.load_iris),
    "wine": lambda: datasets.load_wine(return_X_y=True),
    "wine, scaled": lambda: scaled(datasets.load_wine),
    "cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
    "cancer, scaled": lambda: scaled(datasets.load_breast_cancer),
    "digits": lambda: datasets.load_digits(return_X_y=True),
    "digits, scaled": lambda: scaled(datasets.load_digits),
    "2,000×500": partial(generated, 2_000, 500, 2),
    "20,000×50": partial(generated, 20_000, 50, 2),
    "5,000×20×10": partial(generated, 5_000, 20, 10),
    "tf-idf": text,
}


def in_turns(ours, theirs, seconds=SECONDS):
    """Return the least CPU seconds of each, run in turns."""
    found = ([], [])
    until = time.process_time() + seconds
    while len(found[0]) < 3 or time.process_time() < until:
        for run, taken in zip((ours, theirs), found, strict=True):
            begun = time.process_time()
            run()
            taken.append(time.process_time() - begun)
    return min(found[0]), min(found[1])


def compared(name, ours, theirs, **more):
    mine, its = in_turns(ours, theirs)
    return {"what": name, "ours ms": 1e3 * mine, "scikit-learn ms": 1e3 * its, "ratio": mine / its, **more}


def with_mean(rows):
    """Add the geometric mean of the ratios."""
    mean = float(np.exp(np.mean([np.log(row["ratio"]) for row in rows])))
    last = dict.fromkeys(rows[0], "") | {"what": "geometric mean", "ratio": mean}
    return [*rows, last]


def objective(model, X, y):
    """Return C Σ −log p + ½‖W‖² of a fitted model."""
    log = model.predict_log_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    return -model.C * float(log.sum()) + 0.5 * float(np.square(model.coef_).sum())


def warm(C=1.0):
    rows = []
    for name, load in DATA.items():
        X, y = load()
        ours, theirs = OURS(C=C).fit(X, y), THEIRS(C=C).fit(X, y)
        excess = objective(theirs, X, y) / objective(ours, X, y) - 1
        rows.append(compared(name, partial(OURS(C=C).fit, X, y), partial(THEIRS(C=C).fit, X, y), excess=excess))
    return with_mean(rows)


def weakly_penalised():
    """Digits with weak penalties; scikit-learn's default, which stops early, and its ``tol`` that gets near."""
    rows = []
    for name in ("digits", "digits, scaled"):
        X, y = DATA[name]()
        for C in (10.0, 100.0, 1000.0):
            best = objective(OURS(C=C).fit(X, y), X, y)
            for label, settings in (("default", {}), ("tol=1e-6", {"tol": 1e-6, "max_iter": 10_000})):
                excess = objective(THEIRS(C=C, **settings).fit(X, y), X, y) / best - 1
                fits = partial(OURS(C=C).fit, X, y), partial(THEIRS(C=C, **settings).fit, X, y)
                rows.append(compared(f"{name}, C={C:g}, scikit-learn's {label}", *fits, excess=excess))
    return rows


def grids():
    """GridSearchCV over seven C, RandomizedSearchCV over seven drawn ones and cross_val_score, five folds each."""
    rows = []
    for name, load in (("cancer", datasets.load_breast_cancer), ("digits", datasets.load_digits)):
        X, y = load(return_X_y=True)
        S = preprocessing.StandardScaler().fit_transform(X)
        searches = {
            "GridSearchCV": GridSearchCV,
            "RandomizedSearchCV": partial(RandomizedSearchCV, n_iter=5, random_state=0),
        }
        for title, search in searches.items():
            fits = [partial(search(model(), {"C": GRID}, cv=5).fit, S, y) for model in (OURS, THEIRS)]
            rows.append(compared(f"{title}, {name}", *fits))
        pipes = [make_pipeline(preprocessing.StandardScaler(), model()) for model in (OURS, THEIRS)]
        fits = [partial(cross_val_score, pipe, X, y, cv=5) for pipe in pipes]
        rows.append(compared(f"cross_val_score of a pipeline, {name}", *fits))
    return rows


def cross_validated():
    """LogisticRegressionCV, ten C, five folds."""
    rows = []
    data = {"cancer": DATA["cancer, scaled"], "digits": DATA["digits, scaled"]}
    for name, load in {**data, "2,000×50×5": partial(generated, 2_000, 50, 5)}.items():
        X, y = load()
        kinds = majorant.LogisticRegressionCV, cv_of_scikit_learn()
        rows.append(compared(name, *(partial(kind(Cs=10, cv=5).fit, X, y) for kind in kinds)))
    return with_mean(rows)


def cv_of_scikit_learn():
    """Return the estimator, told what it warns of if it is not told."""
    from inspect import signature

    if "use_legacy_attributes" not in signature(linear_model.LogisticRegressionCV).parameters:
        return linear_model.LogisticRegressionCV
    return partial(linear_model.LogisticRegressionCV, use_legacy_attributes=False, l1_ratios=(0,), scoring="accuracy")


# --- processes of their own -------------------------------------------------------------------------------------

# Prints CPU seconds of an import, of the first fit, and of the least of the next five.
FIT = """
import json, sys, time, warnings
import numpy as np
import sklearn.linear_model
warnings.simplefilter("ignore")
package, path = sys.argv[1:]
kept = np.load(path, allow_pickle=True)
X, y = kept["X"], kept["y"]
X = X.item() if X.ndim == 0 else X
begun = time.process_time()
if package == "majorant":
    from majorant import LogisticRegression
else:
    from sklearn.linear_model import LogisticRegression
taken = [time.process_time() - begun]
for _ in range(6):
    begun = time.process_time()
    LogisticRegression().fit(X, y)
    taken.append(time.process_time() - begun)
print(json.dumps([taken[0], taken[1], min(taken[2:]), "numba" in sys.modules]))
"""


def alone(package, path, cache):
    """Return CPU seconds of the import, of the first fit and of a later one, and whether Numba was loaded."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "OMP_NUM_THREADS": "1", "PYTHONPYCACHEPREFIX": CODE}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is compiled to byte code
    command = [sys.executable, "-c", FIT, package, path]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def cold():
    """The first fit above a second one, of a process without compiled kernels, of one that finds them, and imports."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("cancer", "digits, scaled", "2,000×500", "20,000×50", "5,000×20×10", "tf-idf"):
            X, y = DATA[name]()
            path = os.path.join(folder, "data.npz")
            np.savez(path, X=np.array(X, dtype=object) if not isinstance(X, np.ndarray) else X, y=y)
            theirs = min((alone("sklearn", path, folder) for _ in range(3)), key=lambda times: times[1])
            with tempfile.TemporaryDirectory() as empty:
                ever = alone("majorant", path, empty)
                later = min((alone("majorant", path, empty) for _ in range(3)), key=lambda times: times[1])
            rows.append(
                {
                    "what": name,
                    "first ever, above ms": 1e3 * (ever[1] - ever[2]),
                    "of a process, above ms": 1e3 * (later[1] - later[2]),
                    "scikit-learn's, above ms": 1e3 * (theirs[1] - theirs[2]),
                    "Numba": ever[3],
                }
            )
    return rows


def imports():
    """CPU seconds to import LogisticRegression after scikit-learn's linear models."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "data.npz")
        np.savez(path, X=np.eye(4), y=np.arange(4) % 2)
        best = min(alone("majorant", path, folder)[0] for _ in range(5))
    return [{"what": "LogisticRegression, above scikit-learn's own import", "ms": 1e3 * best}]


def main():
    warnings.simplefilter("ignore")
    report.run(
        __doc__,
        {
            "warm: fits with default settings": warm,
            "weakly penalised digits": weakly_penalised,
            "grids": grids,
            "LogisticRegressionCV": cross_validated,
            "cold: first fits above second ones": cold,
            "imports": imports,
        },
    )


if __name__ == "__main__":
    main()
