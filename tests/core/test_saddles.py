"""Stationary points that are saddles: found by a few gradients, and left."""

from __future__ import annotations

import numpy as np
import pytest

from majorant import LBFGS, Labelled, LatentMultinomial, Newton, Objective, QuasiNewton, minimize
from majorant.core.solver import GRADIENTS, NEGATIVE, lanczos, leave_saddle, negative_curvature


def quadrants(seed=0, rows=80, ridge=0.3, states=(2, 2)):
    """Data that states would have to part for."""
    X = np.random.default_rng(seed).normal(size=(rows, 2))
    data = Labelled(X, (X[:, 0] * X[:, 1] > 0).astype(int), constant=True)
    return Objective(LatentMultinomial(states), data, ridge=ridge)


def scaled_hessian(F, point):
    """By differences of gradients, parameter by parameter."""
    step = 1e-5 * np.eye(F.size)
    H = np.stack([F.value_and_gradient(point.theta + e)[1] - F.value_and_gradient(point.theta - e)[1] for e in step])
    root = 1 / np.sqrt(F.metric(point))
    return root[:, None] * (H + H.T) / 4e-5 * root


@pytest.mark.parametrize("seed", range(3))
def test_lanczos_finds_the_ends_of_a_spectrum(seed):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(60, 60)))[0]
    spectrum = np.concatenate([[-0.5, -0.2], rng.uniform(0.5, 2.0, size=58)])
    A = (Q * spectrum) @ Q.T
    values, basis, vectors = lanczos(lambda q: A @ q, 60)
    np.testing.assert_allclose(values[:2], [-0.5, -0.2], atol=2e-3)
    np.testing.assert_allclose(basis @ basis.T, np.eye(GRADIENTS), atol=1e-12)
    np.testing.assert_allclose(np.diag(vectors.T @ basis @ A @ basis.T @ vectors), values, atol=1e-12)


def test_lanczos_ends_where_nothing_is_left_to_find():
    values, _, _ = lanczos(lambda q: 3.0 * q, 5)
    np.testing.assert_allclose(values, [3.0])
    assert len(lanczos(lambda q: np.nan * q, 5)[0]) == 0
    answers = iter([np.arange(5.0), np.full(5, np.inf)])
    assert len(lanczos(lambda q: next(answers), 5)[0]) == 1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("apart", [0.0, 1e-3, 1.0])
def test_negative_curvature_is_what_the_hessian_says(seed, apart):
    F = quadrants(seed, states=(2, 3) if seed % 2 else (2, 2))
    start = apart * np.random.default_rng(seed).normal(size=F.size)
    point = F.point(minimize(F, QuasiNewton(), start=start, tol=1e-3, max_steps=200).params)
    H, found = scaled_hessian(F, point), negative_curvature(F, point)
    least = np.linalg.eigvalsh(H)[0]
    assert abs(least - NEGATIVE) > 1e-4  # else nobody could tell
    assert (found is not None) == (least < NEGATIVE)
    if found is not None:
        δ, curvature = found
        q = δ * np.sqrt(F.metric(point))
        assert q @ q == pytest.approx(1.0)
        assert q @ H @ q == pytest.approx(curvature, abs=2e-3)
        assert point.gradient @ δ <= 0
        assert F.value(leave_saddle(F, point)) < point.value


@pytest.mark.parametrize("solver", [QuasiNewton(), LBFGS(), Newton()])
def test_a_run_goes_on_from_a_saddle(solver):
    F = quadrants()
    stays = minimize(F, solver, start=np.zeros(F.size))
    goes_on = minimize(F, solver, start=np.zeros(F.size), saddles=2)
    path = goes_on.trace["objective"]
    assert path[-1] < 0.7 * stays.trace["objective"][-1]
    assert (np.diff(path) <= 1e-12 * path[0]).all()
    np.testing.assert_array_equal(goes_on.trace["step"], np.arange(len(path)))
    assert (np.diff(goes_on.trace["passes"]) > 0).all()
    assert goes_on.result.outcome.value == "stationary"
    assert "left a saddle; 12 gradients found no negative curvature here" in str(goes_on.result)


def test_a_saddle_that_is_not_left_is_called_one():
    F = quadrants()
    look = minimize(F, QuasiNewton(), start=np.zeros(F.size), saddles=0)
    assert "saddle" not in str(look.result)
    F = quadrants(states=(3, 3))
    runs = [minimize(F, QuasiNewton(), start=np.zeros(F.size), saddles=most) for most in (1, 3)]
    assert runs[1].trace["objective"][-1] <= runs[0].trace["objective"][-1]
    assert "no saddle, as far as they tell" in str(runs[1].result)


def test_a_limit_of_steps_holds_below_a_saddle():
    F = quadrants()
    at_rest = int(minimize(F, QuasiNewton(), start=np.zeros(F.size)).trace["step"][-1])
    limited = minimize(F, QuasiNewton(), start=np.zeros(F.size), saddles=2, max_steps=at_rest + 2)
    assert limited.result.outcome.value == "step limit"
    assert limited.trace["step"][-1] == at_rest + 2


def test_what_is_convex_is_not_looked_at():
    F = quadrants(states=(1, 1))
    F = Objective(LatentMultinomial((1, 1)).complete(np.ones((2, 80)) / 2, F.like)[0], F.like, ridge=0.3)
    assert F.convex
    assert "curvature" not in str(minimize(F, QuasiNewton(), saddles=2).result)


def test_the_number_of_saddles_is_checked():
    with pytest.raises(ValueError, match="saddles"):
        minimize(quadrants(), saddles=-1)
