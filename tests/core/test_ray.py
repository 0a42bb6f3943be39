"""F along a ray, for every model, and the search for its least point, on rays of any kind."""

import numpy as np
import pytest

from majorant import Chain, Objective
from majorant.core.line_search import best_step
from tests import problems
from tests.problems import every_problem

STEPS = (0.7, 0.0, -1.3, 0.7, 4.0)


@every_problem
def test_a_ray_is_the_objective_along_it(maker):
    F, rng = problems.make(maker), np.random.default_rng(0)
    theta, direction = rng.normal(size=(2, F.size))
    ray = F.ray(theta, direction)
    for a in STEPS:
        value, gradient = F.value_and_gradient(theta + a * direction)
        found, slope = ray.value_and_slope(a)
        np.testing.assert_array_equal(ray.at(a), theta + a * direction)
        assert found == pytest.approx(value, rel=1e-12)
        assert slope == pytest.approx(gradient @ direction, rel=1e-9, abs=1e-9)


@every_problem
def test_a_ray_lands_where_it_is_told_wherever_it_was_evaluated_last(maker):
    F, rng = problems.make(maker), np.random.default_rng(1)
    theta, direction = rng.normal(size=(2, F.size))
    ray = F.ray(theta, direction)
    for evaluated in (None, 0.7, -1.3):
        if evaluated is not None:
            ray.value_and_slope(evaluated)
        for a in (0.7, 2.0):
            point, (value, gradient) = ray.point_at(a), F.value_and_gradient(theta + a * direction)
            np.testing.assert_array_equal(point.theta, theta + a * direction)
            assert point.value == pytest.approx(value, rel=1e-12)
            np.testing.assert_allclose(point.gradient, gradient, atol=1e-10)


def test_what_a_ray_costs():
    """Of rows written out one pass buys every evaluation, and a landing is half of one; a chain pays for each."""
    for maker in (problems.binary, problems.chain):
        F = problems.make(maker)
        per_evaluation = 1.0 if isinstance(F.model, Chain) else 0.0
        ray, before = F.ray(np.zeros(F.size), np.ones(F.size)), F.work.passes
        assert before == 1.0 - per_evaluation
        for a in (0.5, 2.0, 3.0):
            ray.value_and_slope(a)
        assert F.work.passes == before + 3 * per_evaluation
        ray.point_at(3.0)
        assert F.work.passes == before + (3.0 if per_evaluation else 0.5)


# --- the best step ----------------------------------------------------------------------------------------


class Curve:
    """A function of one number and its derivative, asked as a ray is."""

    def __init__(self, value, slope):
        self._value, self._slope, self.asked = value, slope, 0

    def value_and_slope(self, a):
        self.asked += 1
        with np.errstate(all="ignore"):
            return float(self._value(np.float64(a))), float(self._slope(np.float64(a)))


# Convex functions of one number with their slopes, and where they are least.
CURVES = {
    "quadratic": (lambda a: (a - 3) ** 2, lambda a: 2 * (a - 3), 3.0),
    "least far out": (lambda a: (a / 1e6 - 1) ** 2, lambda a: 2e-6 * (a / 1e6 - 1), 1e6),
    "least close by": (lambda a: (1e6 * a - 1) ** 2, lambda a: 2e6 * (1e6 * a - 1), 1e-6),
    "quartic": (lambda a: (a - 0.3) ** 4, lambda a: 4 * (a - 0.3) ** 3, 0.3),
    "exponential": (lambda a: np.exp(a) - 5 * a, lambda a: np.exp(a) - 5, np.log(5)),
    "a kink": (lambda a: max(-a, 40 * (a - 1)), lambda a: -1.0 if a < 40 / 41 else 40.0, 40 / 41),
    "infinite beyond a half": (
        lambda a: -np.log(0.5 - a) - 9 * a if a < 0.5 else np.inf,
        lambda a: 1 / (0.5 - a) - 9 if a < 0.5 else np.inf,
        0.5 - 1 / 9,
    ),
}


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("known", [False, True])
def test_the_best_step_is_near_the_least_point(name, known):
    value, slope, least = CURVES[name]
    curve = Curve(value, slope)
    a = best_step(curve, (value(0.0), slope(0.0)) if known else None)
    assert value(a) < value(0.0)
    if name != "a kink":  # there a slope is never small
        assert abs(slope(a)) <= 0.1 * abs(slope(0.0))
    assert value(a) - value(least) <= 0.1 * (value(0.0) - value(least))
    assert curve.asked < 70


def test_a_ray_that_is_not_convex_is_followed_to_a_lower_valley():
    rng, followed = np.random.default_rng(0), 0
    for _ in range(300):
        height, pace, phase = rng.normal(size=5), rng.exponential(3, size=5), rng.uniform(0, 6, size=5)

        def value(a, height=height, pace=pace, phase=phase):
            return 0.01 * a**2 + height @ np.cos(pace * a + phase)

        def slope(a, height=height, pace=pace, phase=phase):
            return 0.02 * a - (height * pace) @ np.sin(pace * a + phase)

        if slope(0.0) < 0:
            curve = Curve(value, slope)
            a = best_step(curve)
            assert value(a) < value(0.0)
            assert abs(slope(a)) <= 0.1 * abs(slope(0.0))
            assert curve.asked < 70
            followed += 1
    assert followed > 100


def test_a_ray_that_does_not_descend_is_not_followed():
    for slope in (0.0, 1.0, np.nan):
        assert best_step(Curve(lambda a: 1.0, lambda a, s=slope: s)) == 0.0


def test_a_ray_that_descends_for_ever_is_followed_far_but_not_for_ever():
    curve = Curve(lambda a: -a, lambda a: -1.0)
    assert 1e6 < best_step(curve) < 1e12
    assert curve.asked < 50


def test_a_flat_ray_of_an_objective():
    """Where nothing depends on θ and nothing is penalised, F along a ray is a constant."""
    F = problems.make(problems.binary)
    flat = Objective(F.model, type(F.data)(np.zeros((60, 2)), F.data.y), ridge=0.0)
    ray = flat.ray(np.zeros(2), np.ones(2))
    assert ray.value_and_slope(1e9) == (pytest.approx(60 * np.log(2)), 0.0)
    assert best_step(ray) == 0.0


@pytest.mark.parametrize("length", [1e3, 1e160, 1e300])
def test_steps_along_directions_of_any_length_descend(length):
    F = problems.make(problems.multinomial)
    theta = np.random.default_rng(0).normal(size=F.size)
    value, gradient = F.value_and_gradient(theta)
    with np.errstate(all="ignore"):
        ray = F.ray(theta, -length * gradient / np.linalg.norm(gradient))
        a = best_step(ray)
        assert a == 0 or F.value(ray.at(a)) < value
    assert a > 0 or length > 1e12


def test_a_direction_of_rounding_size_moves_nothing_up():
    F = problems.make(problems.binary)
    theta = np.zeros(F.size)
    value, gradient = F.value_and_gradient(theta)
    ray = F.ray(theta, -1e-12 * gradient)
    assert F.value(ray.at(best_step(ray))) <= value
