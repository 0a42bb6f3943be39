"""Lower bounds from several points: never above the minimum, and never below what one gradient says."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

from majorant import Chain, Objective, QuasiNewton, minimize
from majorant.core import certificates
from majorant.core.certificates import Cuts, best_weights
from majorant.objective import Point
from majorant.solvers import LBFGS
from tests.problems import sequences


def problem(seed):
    rng = np.random.default_rng(seed)
    lengths = tuple(rng.integers(0, 7, size=40))
    data = sequences(
        lengths=lengths, seed=seed, n=int(rng.integers(2, 5)), values=bool(seed % 2), weights=bool(seed % 3)
    )
    ridge = 10.0 ** rng.integers(-2, 2) * np.exp(rng.normal(size=data.universe.size) * (seed % 2))
    return Objective(Chain(), data, ridge=ridge), rng


def single(F, point):
    return point.value - 0.5 * F.penalty.dual_square(point.gradient)


@pytest.mark.parametrize("many", [0, 10**9])
@pytest.mark.parametrize("some", [7, 2**16])
@pytest.mark.parametrize("seed", range(6))
def test_bounds_lie_between_the_best_gradient_gap_and_the_minimum(monkeypatch, seed, some, many):
    monkeypatch.setattr(certificates, "MANY_PARAMETERS", many)
    monkeypatch.setattr(certificates, "CHUNK", some)
    F, rng = problem(seed)
    best = minimize(F, LBFGS(), tol=1e-10, max_steps=5000)
    lowest, bound, alone = F.value(best.params), Cuts(F.ridge), 0.0
    for k in range(12):
        point = F.point(best.params + rng.normal(size=F.size) * 2.0**-k)
        bound.add(point)
        alone = max(alone, single(F, point))
        assert bound.lowest <= lowest * (1 + 1e-10)
        assert bound.lowest >= alone - (1e-6 if many == 0 else 1e-11) * max(lowest, alone)
    assert bound.lowest >= lowest - (lowest - alone) * (1 + 1e-6)


def test_the_mean_of_tangents_is_the_best_there_is():
    F, rng = problem(4)
    best = minimize(F, LBFGS(), tol=1e-8).params
    points = [F.point(best + rng.normal(size=F.size) * 0.01) for _ in range(3)]
    bound = Cuts(F.ridge)
    for point in points:
        bound.add(point)
    g = np.array([p.gradient - F.ridge * p.theta for p in points])
    c = np.array([p.value - 0.5 * F.ridge @ p.theta**2 - each @ p.theta for p, each in zip(points, g, strict=True)])

    def lower(a):
        a = np.exp(a) / np.exp(a).sum()
        return -(a @ c - 0.5 * np.sum((a @ g) ** 2 / F.ridge))

    found = min(scipy_minimize(lower, rng.normal(size=3), options={"gtol": 1e-10}).fun for _ in range(5))
    assert bound.lowest == pytest.approx(-found, rel=1e-6)
    assert -found > max(single(F, point) for point in points) + 1e-3 * abs(found)


def test_gradients_that_cancel_certify_what_neither_does():
    """½h(x − 1)² + ½x², seen at two points on both sides: their mean slope is nearly that at the minimum."""
    h = 1000.0
    bound = Cuts(np.ones(1))
    for x in (0.99, 1.01):
        bound.add(Point(np.array([x]), 0.5 * h * (x - 1) ** 2 + 0.5 * x * x, np.array([h * (x - 1) + x])))
    lowest = 0.5 * h / (1 + h)
    assert lowest - 0.06 < bound.lowest < lowest
    assert 0.5 * (h * 0.01 - 1) ** 2 > 30  # what the gradient gap would be


def test_a_fit_is_certified_by_all_it_saw_and_truly():
    F, _ = problem(1)
    found = minimize(F, QuasiNewton(), tol=1e-4)
    lowest = F.value(minimize(F, LBFGS(), tol=1e-10, max_steps=5000).params)
    gaps, values = (np.asarray(found.trace[name]) for name in ("gap", "objective"))
    assert ((values - lowest) / values <= gaps + 1e-12).all()
    assert gaps[-1] <= 1e-4


def test_points_twice_and_slopes_of_zero_do_no_harm():
    F, _ = problem(0)
    bound, point = Cuts(F.ridge), F.point(np.zeros(F.size))
    for _ in range(5):
        bound.add(point)
    assert bound.lowest == pytest.approx(max(single(F, point), 0.0), rel=1e-6)
    flat = Cuts(np.ones(2))
    for _ in range(3):
        flat.add(Point(np.zeros(2), 1.0, np.zeros(2)))
    assert flat.lowest == pytest.approx(1.0)


def test_weights_of_cuts_whose_constants_are_far_apart_sum_to_one():
    r = np.random.default_rng(0)
    for _ in range(50):
        many = int(r.integers(2, 5))
        constants, slopes = -(10.0 ** r.uniform(-5, 25, size=many)), r.normal(size=(many, 3)) * 10.0 ** r.uniform(-6, 3)
        weights = best_weights(constants, slopes @ slopes.T)
        assert len(weights)
        np.testing.assert_allclose(weights.sum(axis=1), 1.0)
