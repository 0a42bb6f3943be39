"""ℓ1 logistic regression against other solvers: CPU seconds to within 1e-6 of the optimum (relative).

    python -m benchmarks.elastic [--sets a9a text] [--ratios 0.1 0.01 0.001] [--without saga] [--paths] [--classes]

λ is a share of the least that leaves all coefficients zero. Ours is timed until it certifies; a peer at the loosest
tolerance of a ladder whose result truly reaches the level, whole runs, compiled before. The optimum is certified to
1e-9 or as far as rounding lets it. Peers minimise the same objective: with a free intercept skglm, glum and saga,
without one liblinear and celer, beside ours without one. A run that exceeds the cap ends its ladder, and is printed
as a dash with how far it came. One thread; peers come with the extra ``bench``.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from functools import partial

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression as SaGa

import majorant
from majorant import LogisticRegression, logistic_regression_path

SETS = ("a9a", "mushrooms", "rcv1_small", "text", "digit1", "secstr", "letter", "mnist", "news20")
LEVEL, CAP = 1e-6, 20.0
# Bytes of memory: some peers form a matrix of all columns.
MEMORY = 12 * 2**30
LADDER = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)


def two_classes(name):
    """Return rows without a constant column, and labels 0 and 1: of several classes the first half against the rest."""
    X, y = majorant.datasets.load(name)
    X = sp.csr_array(X)[:, :-1] if sp.issparse(X) else np.ascontiguousarray(X[:, :-1], dtype=np.float64)
    if name == "mnist":
        X, y = X[:10_000] / 255.0, y[:10_000]
    return X, (2 * y > y.max()).astype(int)


def largest(X, y, *, intercept):
    """Return the least λ that leaves all coefficients zero."""
    classes = np.eye(int(y.max()) + 1)[y]
    expected = classes.mean(axis=0) if intercept else np.full(classes.shape[1], 1 / classes.shape[1])
    return float(np.abs(X.T @ (expected - classes)).max())


def objective(X, y, coef, b, λ):
    """Return F of two classes."""
    u = np.asarray(X @ coef) + b
    return float(np.logaddexp(0, np.where(y == 1, -u, u)).sum() + λ * np.abs(coef).sum())


def ours(X, y, λ, tol, *, intercept):
    model = LogisticRegression(l1_ratio=1, C=1 / λ, tol=tol, fit_intercept=intercept).fit(X, y)
    return model.coef_[0], float(model.intercept_[0]), model


def skglm(X, y, λ, tol, *, intercept):
    from skglm import SparseLogisticRegression

    model = SparseLogisticRegression(alpha=λ / len(y), tol=tol / len(y), max_iter=200, fit_intercept=intercept)
    model.fit(X, 2.0 * y - 1)
    return np.ravel(model.coef_), float(np.ravel(model.intercept_)[0]) if intercept else 0.0, model


def glum(X, y, λ, tol, *, intercept):
    from glum import GeneralizedLinearRegressor

    settings = dict(family="binomial", l1_ratio=1, gradient_tol=tol, max_iter=1000, fit_intercept=intercept)
    model = GeneralizedLinearRegressor(alpha=λ / len(y), **settings).fit(X, y.astype(float))
    return model.coef_, float(model.intercept_), model


def saga(X, y, λ, tol, *, intercept):
    model = SaGa(l1_ratio=1, C=1 / λ, solver="saga", tol=tol, max_iter=2_000, fit_intercept=intercept).fit(X, y)
    return model.coef_[0], float(model.intercept_[0]), model


def liblinear(X, y, λ, tol, *, intercept):
    model = SaGa(l1_ratio=1, C=1 / λ, solver="liblinear", tol=tol, max_iter=10_000, fit_intercept=False).fit(X, y)
    return model.coef_[0], 0.0, model


def celer(X, y, λ, tol, *, intercept):
    from celer import LogisticRegression as Celer

    model = Celer(C=1 / λ, tol=tol, max_iter=200).fit(X, 2 * y - 1)
    return model.coef_[0], 0.0, model


WITH_INTERCEPT = {"skglm": skglm, "glum": glum, "saga": saga}
WITHOUT = {"skglm": skglm, "liblinear": liblinear, "celer": celer}


def timed(run, repeats=1):
    """Return the least CPU seconds of some runs, and what the last returned."""
    seconds = np.inf
    for _ in range(repeats):
        began = time.process_time()
        found = run()
        seconds = min(seconds, time.process_time() - began)
    return seconds, found


def climbed(name, peer, X, y, λ, least, *, intercept):
    """Return the seconds of the loosest tolerance that reaches the level, as a word."""
    off = np.inf
    for tol in LADDER:
        try:
            seconds, (coef, b, _) = timed(lambda tol=tol: peer(X, y, λ, tol, intercept=intercept))
        except MemoryError:
            return "memory"
        off = min(off, objective(X, y, coef, b, λ) / least - 1)
        if off <= LEVEL:
            return f"{min(seconds, timed(lambda tol=tol: peer(X, y, λ, tol, intercept=intercept))[0]):.3f}"
        if seconds > CAP:
            break
    return f"– ({off:.0e})"


def table(names, ratios, without, *, intercept):
    """Print a table of seconds."""
    of_all = WITH_INTERCEPT if intercept else WITHOUT
    peers = {name: peer for name, peer in of_all.items() if name not in without}
    print(f"\n{'with a free' if intercept else 'without an'} intercept")
    print("| set, ratio | not zero | ours | " + " | ".join(peers) + " |\n|" + "---|" * (3 + len(peers)))
    factors = []
    for name in names:
        X, y = two_classes(name)
        most = largest(X, y, intercept=intercept)
        for ratio in ratios:
            λ = ratio * most
            best = ours(X, y, λ, 1e-9, intercept=intercept)
            least = objective(X, y, best[0], best[1], λ)
            seconds, (_, _, model) = timed(partial(ours, X, y, λ, LEVEL, intercept=intercept), repeats=3)
            assert model.gap_ <= LEVEL, model.result_
            cells = []
            for peer, run in peers.items():
                wide = peer == "glum" and X.shape[1] > 3_000
                as_columns = sp.csc_matrix(X) if sp.issparse(X) else np.asfortranarray(X)
                given = sp.csr_matrix(X) if sp.issparse(X) and peer in ("saga", "liblinear") else as_columns
                given = X if peer in ("saga", "liblinear") and not sp.issparse(X) else given
                cells.append("n/a" if wide else climbed(peer, run, given, y, λ, least, intercept=intercept))
            reached = [float(cell) for cell in cells if cell[0].isdigit()]
            factors += [seconds / min(reached)] if reached else []
            line = " | ".join([f"{name} {ratio:g}", str(model.n_nonzero_), f"{seconds:.3f}", *cells])
            print(f"| {line} |", flush=True)
    if factors:
        geometric = float(np.exp(np.mean(np.log(factors))))
        print(f"ours over the best peer: geometric mean {geometric:.2f}, worst {max(factors):.2f}, {len(factors)} rows")


def paths(names):
    """Print the seconds of paths of 50 points, from λ_max to a thousandth of it."""
    print("\npaths of 50\n| set | ours | largest gap | not zero at the end |\n|---|---|---|---|")
    for name in names:
        X, y = two_classes(name)
        Cs = np.logspace(0, 3, 50) / largest(X, y, intercept=True)
        seconds, path = timed(lambda X=X, y=y, Cs=Cs: logistic_regression_path(X, y, Cs=Cs, l1_ratio=1, tol=LEVEL))
        print(f"| {name} | {seconds:.2f} | {path.gaps.max():.0e} | {path.n_nonzero[-1]} |", flush=True)


def classes():
    """Print the seconds of several classes, for which no peer but saga is there."""
    print("\nseveral classes\n| set, ratio | not zero | ours | gap |\n|---|---|---|---|")
    for name, ratios in (("mnist", (0.1, 0.01)), ("news20", (0.1, 0.01))):
        X, y = majorant.datasets.load(name)
        X = sp.csr_array(X)[:, :-1] if sp.issparse(X) else np.ascontiguousarray(X[:10_000, :-1]) / 255.0
        y = y[: X.shape[0]]
        for ratio in ratios:
            λ = ratio * largest(X, y, intercept=True)
            fit = LogisticRegression(l1_ratio=1, C=1 / λ, tol=LEVEL).fit
            seconds, model = timed(lambda fit=fit, X=X, y=y: fit(X, y))
            print(f"| {name} {ratio:g} | {model.n_nonzero_} | {seconds:.2f} | {model.gap_:.0e} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--ratios", nargs="+", type=float, default=(0.1, 0.01, 0.001))
    parser.add_argument("--without", nargs="+", default=(), help="peers to leave out, such as saga")
    parser.add_argument("--paths", action="store_true")
    parser.add_argument("--classes", action="store_true")
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    X, y = two_classes("text")  # compiles
    for rows in (sp.csc_matrix(X), np.asfortranarray(X[:, :50].toarray())):
        for run in {**WITH_INTERCEPT, **WITHOUT}.values():
            if run is not glum:
                run(rows, y, 5.0, 1e-2, intercept=run not in (liblinear, celer))
    ours(X, y, 0.1, LEVEL, intercept=True)
    if given.paths:
        paths(given.sets)
    if given.classes:
        classes()
    if not (given.paths or given.classes):
        table(given.sets, given.ratios, given.without, intercept=True)
        table(given.sets, given.ratios, given.without, intercept=False)


if __name__ == "__main__":
    main()
