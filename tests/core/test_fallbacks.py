"""What solvers do where a step fails, by direct calls: a run hardly ever gets there."""

from dataclasses import replace

import numpy as np
import pytest

from majorant import (
    BatchMajorization,
    Binary,
    Choices,
    Enumerated,
    Labelled,
    Multinomial,
    Newton,
    Objective,
    ProximalMajorization,
    QuasiNewton,
)
from majorant.core import dual
from tests import problems
from tests.core.test_dual import wide


def test_the_bound_step_is_that_of_a_bound_at_the_point_itself():
    F = problems.make(problems.multinomial)
    solver, rng = BatchMajorization(), np.random.default_rng(0)
    here = rng.normal(size=F.size)
    elsewhere = solver.start(F, 3 * rng.normal(size=F.size))
    point = F.point(here)
    found = solver._bound_step(F, elsewhere.moved_to(point), point)
    np.testing.assert_allclose(found.theta, here + F.bound(here).step(), atol=1e-12)
    assert found.point.value < point.value


def above(F, point):
    """A point that is above another one."""
    there = F.point(point.theta + 10.0)
    assert there.value > point.value
    return there


def worse(solver, F, state, here):
    """A state that is above another one."""
    return state.moved_to(above(F, here))


@pytest.mark.parametrize("memory", [0, 10])
def test_batch_majorization_takes_no_step_that_rises(memory, monkeypatch):
    F = problems.make(problems.multinomial)
    solver = BatchMajorization(memory=memory)
    state = solver.start(F, np.zeros(F.size))
    descent = solver._bound_step(F, state, state.point)
    monkeypatch.setattr(BatchMajorization, "_corrected_step", worse)
    assert solver.step(F, state).point.value == descent.point.value  # the bound's own step is left
    monkeypatch.setattr(BatchMajorization, "_bound_step", worse)
    found = solver.step(F, state)
    assert found.stalled
    np.testing.assert_array_equal(found.theta, state.theta)


def test_descent_takes_no_step_that_rises(monkeypatch):
    F = problems.make(problems.multinomial)
    state = Newton().start(F, np.zeros(F.size))
    monkeypatch.setattr("majorant.core.solver.best_step", lambda ray, start: -1.0)
    found = Newton().step(F, state)
    assert found.stalled
    np.testing.assert_array_equal(found.theta, state.theta)


def test_the_finish_of_the_proximal_solver_takes_no_step_that_rises(monkeypatch):
    F = problems.make(problems.multinomial)
    solver = ProximalMajorization()
    state = solver.step(F, solver.start(F, np.zeros(F.size)))
    monkeypatch.setattr("majorant.core.policy.best_step", lambda ray, *rest: -1.0)
    found = solver.step(F, state)
    assert found.stalled
    np.testing.assert_array_equal(found.theta, state.theta)


def test_a_margin_of_zero_separates_nothing():
    labelled = Objective(Binary(), Labelled([[1.0], [-1.0]], [1, 0]), ridge=0.0)
    assert labelled.separated([1.0])
    assert not labelled.separated([0.0])
    choices = Objective(Enumerated(), Choices([[1.0], [0.0], [1.0]], [3], [0]), ridge=0.0)
    assert not choices.separated([1.0])  # the third outcome is as good


def test_soft_labels_separate_nothing():
    X = np.array([[1.0], [-1.0], [2.0]])
    hard, soft = np.array([[0, 1], [1, 0], [0, 1.0]]), np.array([[0, 1], [1, 0], [0.2, 0.8]])
    assert Objective(Binary(), Labelled(X, hard), ridge=0.0).separated([1.0])
    assert not Objective(Binary(), Labelled(X, soft), ridge=0.0).separated([1.0])
    np.testing.assert_array_equal(Binary().margins(np.array([[1.0, -1, 2]]), Labelled(X, soft)), [1, 1, -np.inf])


def test_labels_spread_over_several_classes_separate_nothing():
    """The third class is beaten by both of those that were observed, in every row."""
    soft = np.array([[0.4, 0.6, 0.0], [0.4, 0.6, 0.0]])
    F = Objective(Multinomial(3), Labelled([[1.0], [2.0]], soft), ridge=0.0)
    assert not F.separated([1.0, 1.0, -1.0])
    assert Objective(Multinomial(3), Labelled([[1.0], [2.0]], np.eye(3)[[0, 0]]), ridge=0.0).separated([1.0, 0.0, -1.0])


def test_a_sweep_of_the_dual_that_rises_is_not_kept(monkeypatch):
    X, y = wide(1)
    F = Objective(Binary(), Labelled(X, y), ridge=0.1)
    solver, sweep = QuasiNewton(), dual.sweep
    state = solver.start(F, np.zeros(F.size))
    assert state.continuation is not None

    def worse(objective, start, seed):
        swept = sweep(objective, start, seed)
        return replace(swept, coefficients=0.3 * start.coefficients, contracts=False)

    monkeypatch.setattr(dual, "sweep", worse)
    assert state.point.value < F.value(0.3 * state.theta) < F.value(np.zeros(F.size))
    left = solver.step(F, state)
    assert left.continuation is None
    assert left.point.value == state.point.value
    np.testing.assert_array_equal(left.theta, state.theta)


def test_soft_choices_separate_nothing():
    """Both observed outcomes beat the third, yet no parameters make both of them sure."""
    features = np.array([[1.0], [2.0], [0.0]])
    assert Objective(Enumerated(), Choices(features, [3], target=[0, 1.0, 0]), ridge=0.0).separated([1.0])
    assert not Objective(Enumerated(), Choices(features, [3], target=[0.5, 0.5, 0]), ridge=0.0).separated([1.0])
