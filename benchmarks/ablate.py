"""What every mechanism of ``solver="auto"`` is worth: fits with it switched off against fits as they are.

    OMP_NUM_THREADS=1 python -m benchmarks.ablate [--shapes 28] [--seed 0] [--tol 1e-6] [--jobs 1] [--limit 600]
        [--most 0.4] [--only NAME ...] [--out FILE]

Shapes are those of ``benchmarks.shapes``, and of seven more families: paths of penalties, probes of several targets,
chains, choices among alternatives with coefficients of their own, wide dense rows, wide sparse text, and tall data of
few columns and many classes. Variants take turns in one process, and the least CPU seconds of a few fits count;
``--jobs`` spreads shapes over processes. Shapes that take more than ``--most`` seconds with everything on are left out;
a fit with a mechanism switched off may take ten times as long as that with it, or half a second, and counts as that
long if it takes longer. After ``--limit`` seconds the table is that of what was measured.

A line is printed for every shape as it is done, and in the end a row for every mechanism: the geometric mean of off /
on over all shapes (above 1: the mechanism helps), how many fits it changes at all and by a tenth or more, how many it
makes at least 1.25 times as fast, the worst and the best ratio, how many fits took too long without it, and the
families that lose a tenth or more on average. Where a mechanism changes no bit of the coefficients it did not act, and
off / on is 1. CONTRIBUTING.md says what a mechanism has to be worth.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import signal
import time
import warnings
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks import report
from benchmarks.shapes import FAMILIES, Shape, draw, make
from majorant import (
    ChainCRF,
    Choices,
    Enumerated,
    LinearProbe,
    LogisticRegression,
    Objective,
    QuasiNewton,
    logistic_regression_path,
    minimize,
)
from majorant.core import ascent, dual, policy, preconditioners, row_space
from majorant.core import small as small_data
from majorant.core.line_search import Ray
from majorant.core.preconditioners import LADDERS, DiagonalBetweenClasses, GramOfColumns, HessianOfAll
from majorant.core.quasi_newton import HessianProducts
from majorant.core.stopping import Stopping

# --- switches -------------------------------------------------------------------------------------------------


def without(*kinds):
    """Return the ladder of ``auto`` without some metrics."""
    return mock.patch.dict(LADDERS, auto=tuple(rung for rung in LADDERS["auto"] if not isinstance(rung, kinds)))


def set_to(place, name, value):
    return mock.patch.object(place, name, value)


def never(*_, **__):
    return False


def nothing(*_, **__):
    return None


def one_visit_more(self, objective, start, direction, *, unit_step=False, begin=Ray.__init__):
    """Find the gradient of a whole step in a visit of its own."""
    begin(self, objective, start, direction, unit_step=False)


def at_the_end(self, gap, *, ends, due=Stopping.share_due):
    """Compute tight certificates where fits end alone."""
    return due(self, gap, ends=ends) if ends else 0.0


BLOCKS = (preconditioners.BlocksOfHessian, preconditioners.HessianByBlocks)
OFF = {
    "C ⊗ diag": lambda: without(DiagonalBetweenClasses),
    "the Gram matrix": lambda: without(GramOfColumns),
    "the Hessian": lambda: without(HessianOfAll),
    "Hessians by blocks": lambda: without(*BLOCKS),
    "Newton by conjugate gradients": lambda: set_to(HessianProducts, "suit", never),
    "the space of the rows": lambda: set_to(row_space, "suits", never),
    "that space from the start": lambda: set_to(row_space, "is_next_to_free", never),
    "factors in that space": lambda: set_to(row_space, "LARGEST_COPY", 0),
    "dual sweeps": lambda: set_to(dual, "suits", never),
    "Newton's method on small data": lambda: set_to(small_data, "suits", never),
    "Newton steps on a sample": lambda: set_to(policy, "sample_size", never),
    "steps in single precision": lambda: set_to(policy, "pays_in_single_precision", never),
    "Gram matrices in single precision": lambda: set_to(preconditioners, "SINGLE", math.inf),
    "a unit step and its gradient at once": lambda: set_to(Ray, "__init__", one_visit_more),
    "the factor of the last pair": lambda: set_to(policy, "LEAST_FACTOR", None),
    "20 pairs, not 5": lambda: set_to(policy, "PAIRS", 5),
    "raised diagonals": lambda: set_to(preconditioners, "RAISED", 0.0),
    "tight certificates before the end": lambda: set_to(Stopping, "share_due", at_the_end),
    "metrics of another penalty": lambda: set_to(policy.QuasiNewtonState, "carried", nothing),
    "Gram matrices of other targets": lambda: set_to(preconditioners, "shared_gram", lambda *_: (None, None)),
    "dual ascent of chains": lambda: set_to(ascent, "suits", never),
    "an online pass over chains": lambda: set_to(policy, "learns_online", never),
}

KEEPS_BITS = ("a unit step and its gradient at once",)

# --- fits -----------------------------------------------------------------------------------------------------

OTHERS = ("path", "probes", "chain", "choice", "wide", "text", "tall")


def problem(seed, k, tol):
    """Return the family of the k-th shape, what it is, and a function that fits it: one of ``OTHERS`` every third."""
    if k % 4 < 3:
        shape = draw(seed, k - k // 4)
        return shape.family, *of_shape(shape, seed, tol)
    rng, family = np.random.default_rng([seed, k, 2]), OTHERS[k // 4 % len(OTHERS)]
    kinds = {"path": path, "probes": probes, "chain": chain, "choice": choice, "wide": wide, "text": text, "tall": tall}
    return family, *kinds[family](rng, seed, k, tol)


def of_shape(shape, seed, tol):
    X, y = make(shape, seed)
    fit = LogisticRegression(C=shape.C, tol=tol, n_jobs=1, max_iter=5_000).fit
    return str(shape), lambda: fit(X, y)


def small(seed, k, most):
    """Return the first shape from the k-th on that is not too much work."""
    shapes = (draw(seed + 1, number) for number in range(k, k + 1_000))
    return next(s for s in shapes if s.rows * s.columns * s.density * s.classes <= most)


def path(rng, seed, k, tol):
    shape = small(seed, k, 1e6)
    X, y = make(shape, seed)
    return f"{shape}, 11 C", lambda: logistic_regression_path(X, y, Cs=np.logspace(-3, 2, 11), tol=tol, n_jobs=1)


def probes(rng, seed, k, tol):
    rows, columns = (round(np.exp(rng.uniform(np.log(a), np.log(b)))) for a, b in ((500, 4_000), (20, 200)))
    X = rng.normal(size=(rows, columns)) @ rng.normal(size=(columns, columns))
    scores = X @ rng.normal(size=(columns, 4)) / np.sqrt(np.square(X).mean() * columns)
    targets = {t: np.argmax(scores[:, : t + 2] + rng.gumbel(size=(rows, t + 2)), axis=1) for t in range(3)}
    return f"{rows}×{columns}, 3 targets", lambda: LinearProbe(Cs=4, tol=tol, n_jobs=1).fit_many(X, targets)


def wide(rng, seed, k, tol):
    """Fewer dense rows than columns, as of embeddings with a weak penalty."""
    rows, C = round(10 ** rng.uniform(2.3, 2.8)), float(10 ** rng.uniform(0, 2))
    return of_shape(Shape("embeddings", rows, round(rows * rng.uniform(2, 5)), 2, C, 1.0, k), seed, tol)


def text(rng, seed, k, tol):
    """Sparse rows with more than twice as many columns."""
    rows, C = round(10 ** rng.uniform(3, 3.7)), float(10 ** rng.uniform(-1, 1))
    return of_shape(Shape("tf-idf", rows, round(rows * rng.uniform(2.5, 6)), 2, C, 0.005, k), seed, tol)


def tall(rng, seed, k, tol):
    """Many rows of few columns and tens of classes."""
    rows, classes = round(10 ** rng.uniform(4.5, 4.8)), int(rng.integers(5, 20))
    return of_shape(Shape("unstandardised", rows, 5, classes, 10.0, 1.0, k), seed, tol)


def chain(rng, seed, k, tol):
    """Sentences of frequent and rare words, whose labels words and their neighbours tell."""
    count, words, labels = round(10 ** rng.uniform(1.5, 2.8)), round(10 ** rng.uniform(2, 3.5)), rng.integers(3, 12)
    share, X, y = 1.0 / (1.0 + np.arange(words)), [], []
    for length in rng.integers(2, 25, size=count):
        sentence = rng.choice(words, size=length, p=share / share.sum())
        before = np.append(0, sentence[:-1])
        X.append([{f"w{w}": 1.0, f"b{b}": 1.0, f"s{w % 17}": 1.0} for w, b in zip(sentence, before, strict=True)])
        y.append([f"T{tag}" for tag in (sentence + before + (rng.random(length) < 0.2)) % labels])
    settings = {"c2": float(10 ** rng.uniform(-2, 0.5)), "tol": max(100 * tol, 1e-4), "n_jobs": 1}
    return f"{count} sentences, {labels} labels, c2={settings['c2']:.2g}", lambda: ChainCRF(**settings).fit(X, y)


def choice(rng, seed, k, tol):
    """Sets of alternatives, each with coefficients of its own for correlated attributes of people, and two for all."""
    sets, size, alternatives, own = 10 ** rng.uniform(2.5, 3.5), rng.integers(3, 7), rng.integers(20, 150), 20
    sets, rows = round(sets), round(sets) * int(size)
    which = np.concatenate([rng.choice(alternatives, size=size, replace=False) for _ in range(sets)])
    people = rng.normal(size=(sets, own)) @ rng.normal(size=(own, own))
    people = np.repeat(people / people.std(), size, axis=0)
    blocks = sp.csr_array(
        (people.ravel(), (np.repeat(np.arange(rows), own), (own * which[:, None] + np.arange(own)).ravel())),
        shape=(rows, own * alternatives),
    )
    X = sp.hstack([blocks, sp.csr_array(rng.normal(size=(rows, 2)))], format="csr")
    utility = X @ (0.3 * rng.normal(size=X.shape[1])) + rng.gumbel(size=rows)
    data = Choices(X, np.full(sets, size), chosen=np.argmax(utility.reshape(sets, size), axis=1))
    weak = float(10 ** rng.uniform(-3, 0))
    return f"{sets} sets of {size} out of {alternatives}, ridge {weak:.2g}", lambda: minimize(
        Objective(Enumerated(), data, ridge=weak), QuasiNewton(), tol=tol
    )


# --- measurements ---------------------------------------------------------------------------------------------


class OutOfTime(BaseException):
    """A fit that has taken too long. No handler of exceptions in the package catches it."""


def coefficients(fitted):
    """Return the bits of what was fitted."""
    if isinstance(fitted, dict):
        return b"".join(map(coefficients, fitted.values()))
    names = ("coef_", "params", "coefs", "state_features_")
    found = next(getattr(fitted, name) for name in names if hasattr(fitted, name))
    return repr(sorted(found.items())).encode() if isinstance(found, dict) else np.asarray(found).tobytes()


def seconds_of(fit, limit):
    """Return the CPU seconds of a fit, no more than the limit, and its coefficients if it was done."""
    started, done = time.process_time(), False

    def ring(*_):
        left = limit - (time.process_time() - started)
        # Again soon, if what is interrupted cannot raise. A profiling timer would make the clock of CPU time coarse.
        signal.setitimer(signal.ITIMER_REAL, max(left, 0.05))
        if left <= 0 and not done:
            raise OutOfTime

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(limit, 0.01))
    try:
        fitted = fit()
        return time.process_time() - started, coefficients(fitted)
    except OutOfTime:
        return limit, b""
    finally:
        done = True
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def measure(task):
    """Return the family of a shape, its name, seconds by variant ("" has all on), and which of them took too long."""
    seed, k, names, tol, most, deadline = task
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        family, name, fit = problem(seed, k, tol)
        name = f"{k} {name}"

        def run(variant, limit):
            with ExitStack() as stack:
                if variant:
                    stack.enter_context(OFF[variant]())
                return seconds_of(fit, min(limit, deadline - time.time()))

        run("", 20 * most)  # compiles and loads
        on, same = run("", most)
        if on >= most or deadline <= time.time():
            return family, name, {}, [""]
        best, late, limit = {"": on}, set(), max(10 * on, 0.5)
        for variant in names:
            seconds, found = run(variant, limit)
            if seconds >= limit:
                late.add(variant)
            if variant in KEEPS_BITS or found != same:
                best[variant] = min(seconds, limit)
        acts = [variant for variant in best if variant not in late]
        for turn in range(7):
            for variant in acts[:: 1 if turn % 2 else -1]:
                best[variant] = min(best[variant], run(variant, limit)[0])
            if time.time() > deadline or turn * on > 0.3:
                break
    if time.time() > deadline:
        return family, name, {}, [""]
    return family, name, best, sorted(late)


def line(family, name, best, late):
    """Return what is printed of a shape: milliseconds with everything on, and what changes these by a tenth."""
    if "" in late:
        return f"{'':9s}  {family}: {name}: left out, it takes too long"
    ratios = sorted(((best[v] / best[""], v) for v in best if v), reverse=True)
    changed = [f"{r:.2f}{'+' * (v in late)} {v}" for r, v in ratios if not 1 / 1.1 < r < 1.1]
    return f"{1e3 * best['']:9.1f}  {family}: {name}: without " + (", ".join(changed) or "any the same")


def table(measured, names):
    """Return a row for each mechanism, the dearest to lose first."""
    rows = []
    for name in names:
        found = [m for m in measured if "" not in m[3]]
        ratios = [(best.get(name, best[""]) / best[""], family, shape) for family, shape, best, _ in found]
        of = {family: [r for r, other, _ in ratios if other == family] for _, family, _ in ratios}
        need = sorted(((mean(r), family) for family, r in of.items() if mean(r) >= 1.1), reverse=True)
        rows.append(
            {
                "without": name,
                "off / on": mean([r for r, _, _ in ratios]),
                "acts": sum(name in best for _, _, best, _ in found),
                "changed": sum(not 1 / 1.1 < r < 1.1 for r, _, _ in ratios),
                "by 1.25": sum(r >= 1.25 for r, _, _ in ratios),
                "worst": max(ratios)[0],
                "best": min(ratios)[0],
                "late": sum(name in late for _, _, _, late in found),
                "worst at": max(ratios)[2],
                "families": ", ".join(f"{family} {r:.2f}" for r, family in need),
            }
        )
    return sorted(rows, key=lambda row: -row["off / on"])


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def compile_everything(seed, tol):
    """Fit a small shape of every kind, so that processes that are forked find compiled code."""
    for k in (*range(0, 2 * len(FAMILIES), 2), *range(3, 4 * len(OTHERS), 4)):
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seconds_of(problem(seed + 1, k, tol)[2], 10.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", type=int, default=28, help="how many are drawn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with shapes of its own")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for everything")
    parser.add_argument("--most", type=float, default=0.4, help="CPU seconds of a shape with everything on")
    names = ", ".join(OFF)
    parser.add_argument("--only", choices=OFF, nargs="*", default=list(OFF), metavar="NAME", help=f"of {names}")
    parser.add_argument("--out", type=Path, help="a JSON file for all seconds, and the table")
    given = parser.parse_args()
    deadline, measured = time.time() + 0.95 * given.limit, []
    compile_everything(given.seed, given.tol)
    tasks = [(given.seed, k, given.only, given.tol, given.most, deadline) for k in range(given.shapes)]
    print(f"{'CPU ms':>9s}  shape, and off / on of what changes it by a tenth or more; + took too long", flush=True)
    with multiprocessing.get_context("fork").Pool(given.jobs) as pool:
        results = pool.imap_unordered(measure, tasks)
        try:
            for _ in tasks:
                measured.append(results.next(max(deadline + 0.05 * given.limit - time.time(), 0.1)))
                print(line(*measured[-1]), flush=True)
        except multiprocessing.TimeoutError:
            print(f"out of time: {len(tasks) - len(measured)} shapes are not done", flush=True)
        pool.terminate()
    counted = sum("" not in late for *_, late in measured)
    rows = table(measured, given.only) if counted else []
    if given.out:
        keys = ("family", "shape", "seconds", "late")
        shapes = [dict(zip(keys, result, strict=True)) for result in measured]
        given.out.write_text(json.dumps({"table": rows, "shapes": shapes}, indent=1, ensure_ascii=False))
    if rows:
        report.show(f"{counted} shapes of seed {given.seed}, tol={given.tol:g}", rows)


if __name__ == "__main__":
    main()
