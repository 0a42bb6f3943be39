"""What every mechanism of ``solver="auto"`` is worth: fits with it switched off against fits as they are.

    OMP_NUM_THREADS=1 python -m benchmarks.ablate [--shapes 44] [--seed 0] [--tol 1e-6] [--jobs 1] [--only NAME ...]

Shapes are those of ``benchmarks.shapes``. Variants take turns in one process, and the least CPU seconds of a few fits
count; ``--jobs`` spreads shapes over processes. A row tells the geometric mean of off / on over all shapes (above 1:
the mechanism helps), how many fits it changes by a tenth or more, the worst and the best ratio, and the families that
lose a tenth or more on average without it. CONTRIBUTING.md says what a mechanism has to be worth.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import time
import warnings
from contextlib import ExitStack
from unittest import mock

from threadpoolctl import threadpool_limits

from benchmarks import report
from benchmarks.shapes import draw, make
from majorant import LogisticRegression
from majorant.core import dual, policy, preconditioners, quasi_newton, row_space
from majorant.core.preconditioners import LADDERS, DiagonalBetweenClasses, GramOfColumns, HessianOfAll
from majorant.core.products import HessianProducts
from majorant.core.stopping import CertificateSchedule


def without(rung):
    """Return the ladder of ``auto`` without a metric."""
    return mock.patch.dict(LADDERS, auto=tuple(each for each in LADDERS["auto"] if each != rung))


def never(*_, **__):
    return False


def one_visit_more(objective, at, step, flat_enough, *, leap=False, found=quasi_newton.best_point_along):
    """Find the gradient of a whole step in a visit of its own."""
    return found(objective, at, step, flat_enough, leap=False)


def at_the_end(self, state, value, gap, *, ends, due=CertificateSchedule.share_due):
    """Compute tight certificates where fits end alone."""
    return due(self, state, value, gap, ends=ends) if ends else 0.0


OFF = {
    "C ⊗ diag": lambda: without(DiagonalBetweenClasses()),
    "the Gram matrix": lambda: without(GramOfColumns()),
    "the Hessian": lambda: without(HessianOfAll()),
    "metrics found anew": lambda: mock.patch.object(policy, "PATIENCE", math.inf),
    "Newton by conjugate gradients": lambda: mock.patch.object(HessianProducts, "suit", never),
    "the space of the rows": lambda: mock.patch.object(row_space, "suits", never),
    "that space from the start": lambda: mock.patch.object(row_space, "pays_at_once", never),
    "factors in that space": lambda: mock.patch.object(row_space, "LARGEST_FACTORS", 0),
    "dual sweeps": lambda: mock.patch.object(dual, "suits", never),
    "Newton steps on a sample": lambda: mock.patch.object(policy, "sample_size", never),
    "steps in single precision": lambda: mock.patch.object(policy, "pays_in_single_precision", never),
    "a unit step and its gradient at once": lambda: mock.patch.object(policy, "best_point_along", one_visit_more),
    "the factor of the last pair": lambda: mock.patch.object(policy, "LEAST_FACTOR", None),
    "20 pairs, not 5": lambda: mock.patch.object(policy, "PAIRS", 5),
    "raised diagonals": lambda: mock.patch.object(preconditioners, "RAISED", 0.0),
    "what rows of a label have in common": lambda: mock.patch.object(preconditioners, "ROWS_PER_LABEL", math.inf),
    "tight certificates before the end": lambda: mock.patch.object(CertificateSchedule, "share_due", at_the_end),
}


def measure(task):
    """Return the family of a shape, and the least CPU seconds of each variant; "" is the package as it is."""
    seed, k, names, tol = task
    shape = draw(seed, k)
    X, y = make(shape, seed)
    best = dict.fromkeys(("", *names), math.inf)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for turn in range(7):
            for name in best:
                with ExitStack() as stack:
                    if name:
                        stack.enter_context(OFF[name]())
                    started = time.process_time()
                    LogisticRegression(C=shape.C, tol=tol, n_jobs=1, max_iter=5_000).fit(X, y)
                    seconds = time.process_time() - started
                if turn:  # the first fit compiles and loads
                    best[name] = min(best[name], seconds)
            if turn >= 2 and best[""] > 0.3:
                break
    return shape.family, f"{k} {shape}", best


def table(measured, names):
    """Return a row for each mechanism, the dearest to lose first."""
    rows = []
    for name in names:
        ratios = [(best[name] / best[""], family, shape) for family, shape, best in measured]
        of = {family: [r for r, other, _ in ratios if other == family] for _, family, _ in ratios}
        need = sorted(((mean(r), family) for family, r in of.items() if mean(r) >= 1.1), reverse=True)
        worst = max(ratios)
        rows.append(
            {
                "without": name,
                "off / on": mean([r for r, _, _ in ratios]),
                "changed": sum(not 1 / 1.1 < r < 1.1 for r, _, _ in ratios),
                "worst": worst[0],
                "best": min(ratios)[0],
                "families": ", ".join(f"{family} {r:.2f}" for r, family in need),
                "worst at": worst[2],
            }
        )
    return sorted(rows, key=lambda row: -row["off / on"])


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", type=int, default=44, help="how many are drawn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with shapes of its own")
    names = ", ".join(OFF)
    parser.add_argument("--only", choices=OFF, nargs="*", default=list(OFF), metavar="NAME", help=f"of {names}")
    given = parser.parse_args()
    tasks = [(given.seed, k, given.only, given.tol) for k in range(given.shapes)]
    with multiprocessing.get_context("fork").Pool(given.jobs) as pool:
        measured = list(pool.imap_unordered(measure, tasks))
    report.show(f"{len(measured)} shapes of seed {given.seed}, tol={given.tol:g}", table(measured, given.only))


if __name__ == "__main__":
    main()
