"""Thousands of small problems, stopped anywhere and gone on with: no certificate may be below the truth.

    python -m tests.fuzz_certificates [--problems 3000] [--first 0]

``make fuzz`` runs it; a few hundred are a test.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

import numpy as np

from majorant import LBFGS, BatchMajorization, Newton, Outcome, QuasiNewton, minimize
from majorant.core import certificates, separation
from majorant.core.certificates import KnownHessian
from majorant.core.curvature import FLAT
from tests.truth import Truth, centred, drawn

SOLVERS = (QuasiNewton(), Newton(), LBFGS(), BatchMajorization())
# Of sums over rows in long double, relative.
ROUNDING = 16 * float(np.finfo(np.longdouble).eps)


def judge(seed):
    """Return what kind of problem it was; raise where something is claimed that is not so."""
    F, rng = drawn(seed, rows=(4, 14), odd=True)
    solver, steps = SOLVERS[rng.integers(len(SOLVERS))], int(rng.integers(0, 12))
    stopped = minimize(F, solver, max_steps=steps)
    resumed = minimize(F, solver, start=stopped, max_steps=int(rng.integers(0, 12)))
    ended = minimize(F, solver, max_steps=300)
    if separation.find(F) is not None:
        for found in (stopped, resumed, ended):
            assert "proved" not in str(found.result), (seed, str(found.result))
        # The intercept of a class that was never seen runs off, but gains next to nothing: that is certified.
        assert ended.result.outcome is not Outcome.CONVERGED or F.intercept, (seed, ended.result)
        return "separated"
    truth = Truth(F)
    if ended.result.outcome is Outcome.UNBOUNDED:  # by less than the tolerance of a linear program
        assert truth.margin(np.where(F.penalty.penalised, 0.0, ended.params)) > 0, (seed, ended.result)
        return "separated"
    best = truth.optimum(np.asarray(ended.params))
    for found in (stopped, resumed, ended):
        hold(seed, F, truth, best, found.params, found.result.gap, found.certificate)
    look(seed, F, truth, best, rng)
    return "certified" if ended.result.gap <= 1e-8 else f"{ended.result.outcome.value}, not certified"


def look(seed, F, truth, best, rng):
    """Look at points near the optimum, with Hessians of all rows, of some, and from nearby, and where those settle."""
    theta = (best + 10 ** rng.uniform(-9, 0) * rng.normal(size=F.size) / truth.scale).astype(float)
    point, nearby = F.point(theta), theta + 10 ** rng.uniform(-6, 0) * rng.normal(size=F.size) / truth.scale
    known = KnownHessian(nearby, F.hessian(nearby)[2].as_matrix())
    for how in (dict(), dict(share=float(rng.uniform(0.3, 1.0))), dict(known=known)):
        found = certificates.by_self_concordance(F, point, **how)
        hold((seed, how), F, truth, best, theta, found.gap, found)
        settled = certificates.by_self_concordance(F, point, **how, settle=1.0)
        hold((seed, how, "settled"), F, truth, best, settled.theta, settled.gap, settled)


def hold(seed, F, truth, best, theta, gap, found):
    """Hold a gap and errors of coefficients against the truth."""
    theta = np.asarray(theta)
    value = truth.value(theta)
    true = float((value - truth.value(best)) / max(value, np.longdouble(1e-300)))
    # Log-probabilities are differences of scores, with the rounding errors of these.
    lost = ROUNDING * (
        1
        + float(truth.weight.sum())
        * (1 + float(np.abs(theta * truth.scale).max(initial=0)) + float(np.abs(truth.log_h).max(initial=0)))
        / max(float(value), 1e-300)
    )
    if found is not None and found.region is not None and found.region.flat.size:
        # Columns count as dependent that are so but for a share of their entries, which these then may be moved by.
        moved = np.abs(truth.Φ) @ np.abs(theta - best)
        lost += FLAT * float(truth.weight @ moved) / max(float(value), 1e-300)
    assert not gap < true - lost, (seed, gap, true)
    if found is not None and found.region is not None and np.array_equal(found.theta, theta):
        classes = F.model.redundancy(F.like)
        error = np.abs(centred((theta - best) * truth.scale, classes)).astype(float)
        within = found.region.within(classes) * truth.scale.reshape(classes, -1)
        assert (within >= error * (1 - 1e-9) - 1e-17).all(), (seed, error, within)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=3000)
    parser.add_argument("--first", type=int, default=0)
    chosen = parser.parse_args()
    kinds = Counter(judge(seed) for seed in range(chosen.first, chosen.first + chosen.problems))
    sys.stdout.write(f"{chosen.problems} problems, none below the truth: {dict(kinds)}\n")


if __name__ == "__main__":
    main()
