"""What an objective promises: penalties, certificates, threads, and runs that share one."""

from dataclasses import replace

import numpy as np
import pytest

from majorant import (
    LBFGS,
    SGD,
    BatchMajorization,
    Binary,
    Labelled,
    LowRankStochasticMajorization,
    Multinomial,
    Newton,
    Objective,
    OnlineMajorization,
    Outcome,
    ProximalMajorization,
    QuasiNewton,
    StochasticMajorization,
    minimize,
)
from majorant.core.penalty import Ridge
from majorant.objective import Point, Threads
from tests import oracles, problems
from tests.problems import every_problem

TIMED = ("seconds", "cpu_seconds")


def same_trace(left, right, **tolerance):
    """Hold all columns of two traces against each other, but for those of a clock."""
    assert list(left.trace) == list(right.trace)
    for column in left.trace:
        if column not in TIMED:
            np.testing.assert_allclose(left.trace[column], right.trace[column], err_msg=column, **tolerance)


# --- penalties --------------------------------------------------------------------------------------------


@every_problem
@pytest.mark.parametrize("kind", ["one number", "one for each, all the same", "one for each", "some of them zero"])
def test_a_penalty_is_the_quadratic_form_of_a_diagonal_matrix(maker, kind):
    F, rng = problems.make(maker), np.random.default_rng(0)
    ridge = {"one number": 0.7, "one for each, all the same": np.full(F.size, 0.7)}.get(
        kind, rng.exponential(size=F.size)
    )
    if kind == "some of them zero":
        ridge[::2] = 0.0
    penalised, free = Objective(F.model, F.data, ridge=ridge), Objective(F.model, F.data, ridge=0.0)
    R = np.diag(np.broadcast_to(ridge, F.size))
    theta, direction = rng.normal(size=(2, F.size))
    value, gradient = free.value_and_gradient(theta)
    assert penalised.value(theta) == pytest.approx(value + 0.5 * theta @ R @ theta, rel=1e-12)
    np.testing.assert_allclose(penalised.value_and_gradient(theta)[1], gradient + R @ theta, atol=1e-12)
    along, without = penalised.ray(theta, direction), free.ray(theta, direction)
    at, a = theta + 0.3 * direction, 0.3
    assert along.value_and_slope(a)[0] == pytest.approx(without.value_and_slope(a)[0] + 0.5 * at @ R @ at, rel=1e-12)
    assert along.value_and_slope(a)[1] == pytest.approx(without.value_and_slope(a)[1] + direction @ R @ at, rel=1e-9)
    bound = penalised.bound(theta)
    assert bound(at) == pytest.approx(free.bound(theta)(at) + 0.5 * at @ R @ at, rel=1e-12)


@every_problem
def test_the_value_at_zero_is_known(maker):
    F = problems.make(maker)
    assert F.value_at_zero() == pytest.approx(F.value(np.zeros(F.size)), rel=1e-12)


# --- certificates -----------------------------------------------------------------------------------------


@every_problem
@pytest.mark.parametrize("same", [True, False])
def test_the_gap_is_half_the_squared_gradient_in_the_norm_of_the_penalty(maker, same):
    F, rng = problems.make(maker), np.random.default_rng(0)
    F = Objective(F.model, F.data, ridge=7.0 if same else 10 ** rng.uniform(0, 2, size=F.size))
    theta = minimize(F, Newton() if maker in problems.ROW_MAKERS else QuasiNewton(), tol=1e-3).params
    value, gradient = F.value_and_gradient(theta)
    expected = 0.5 * gradient @ np.linalg.solve(np.diag(F.ridge), gradient) / value
    assert 0 < expected < 1e-3
    assert F.gap(theta, value, gradient) == pytest.approx(expected, rel=0.02)
    assert minimize(F, start=theta, max_steps=0).trace["gap"][0] == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("ridge", [2.0, [2.0] * 5, [2.0, 2.0, 2.0, 2.0, 0.0], [2.0, 0.0, 2.0, 1.0, 0.0]])
def test_a_ridge_is_the_same_however_it_is_kept(ridge):
    θ, g = np.random.default_rng(0).normal(size=(2, 5))
    each = np.broadcast_to(ridge, 5)
    for kept in (Ridge(ridge, 5), Ridge(each, 5)):
        assert kept.value(θ) == pytest.approx(0.5 * each @ θ**2)
        assert kept.dual_square(g) == pytest.approx(sum(g[each > 0] ** 2 / each[each > 0]))
        np.testing.assert_array_equal(kept.penalised, each > 0)


def test_the_gap_is_tight_where_the_penalty_is_all():
    """Rows that tell nothing: F − F* = ½ Σ λ_i θ_i², to which the certificate adds nothing."""
    ridge, theta = np.array([1.0, 100.0, 1e-2]), np.array([0.1, -0.02, 3.0])
    F = Objective(Binary(), Labelled(np.zeros((50, 3)), np.arange(50) % 2), ridge=ridge)
    excess = 0.5 * np.sum(ridge * theta**2)
    assert F.value(theta) - F.value(np.zeros(3)) == pytest.approx(excess, rel=1e-9)
    assert F.gap(theta, *F.value_and_gradient(theta)) == pytest.approx(excess / F.value(theta), rel=1e-6)


def with_intercepts(penalties, n=3):
    """Three classes, and a penalty on the intercept of each."""
    rng = np.random.default_rng(0)
    data = Labelled(rng.normal(size=(60, 2)) + 2, rng.integers(0, n, 60), constant=True)
    return Objective(Multinomial(n), data, ridge=np.column_stack([np.ones((n, 2)), penalties]).ravel())


def test_intercepts_of_which_some_are_penalised_are_certified_by_a_hessian():
    assert with_intercepts([0.0, 0.0, 0.0]).intercept
    for penalties in ([0.0, 1.0, 1.0], [1.0, 0.0, 0.0]):
        F = with_intercepts(penalties)
        assert not F.intercept
        assert np.isnan(F.certify(np.full(F.size, 0.1), largest=0).gap)
        found = minimize(F, QuasiNewton())
        assert found.result.converged
        assert found.result.gap <= 1e-8
        without = minimize(F, QuasiNewton(), largest_hessian=0)
        assert without.result.converged
        assert np.isnan(without.result.gap)
    assert np.isfinite(with_intercepts([1.0, 1.0, 2.0]).certify(np.zeros(9)).gap)


@pytest.mark.parametrize("solver", [BatchMajorization(), LBFGS(), QuasiNewton(), SGD(gain=1e-3)], ids=str)
@pytest.mark.parametrize("steps", [0, 2])
def test_the_point_that_is_returned_is_the_point_that_is_certified(solver, steps):
    """A free intercept is moved to its best before anything is certified: that is the one to return."""
    F = with_intercepts([0.0, 0.0, 0.0])
    start = np.random.default_rng(1).normal(size=F.size)
    found = minimize(F, solver, start=start, max_steps=steps, tol=0.0, largest_hessian=0)
    slopes = F.value_and_gradient(found.params)[1].reshape(3, 3)
    assert np.abs(slopes[:, -1]).max() < 1e-3
    assert np.abs(slopes[:, :-1]).max() > 1e-1  # elsewhere it is not yet at its best
    best, value = oracles.optimum(F), F.value(found.params)
    assert (value - best) / value <= found.result.gap + 1e-12
    assert found.result.gap == pytest.approx(F.certify(found.params, move=False, largest=0).gap, rel=1e-3)


# --- whose state ------------------------------------------------------------------------------------------


def test_a_state_of_the_same_value_but_another_gradient_is_not_resumed():
    """F(−θ) of mirrored rows is F(θ): at zero values agree and gradients are opposite."""
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    here, mirrored = (Objective(Binary(), Labelled(sign * X, y), ridge=1.0) for sign in (1, -1))
    for solver in (Newton(), BatchMajorization(), StochasticMajorization(batch_size=5)):
        first = minimize(here, solver, max_steps=0)
        resumed = minimize(mirrored, solver, start=first, max_steps=3, tol=0.0)
        np.testing.assert_allclose(resumed.params, minimize(mirrored, solver, max_steps=3, tol=0.0).params, atol=1e-12)


def test_a_state_of_the_same_gradient_but_another_value_is_not_resumed():
    """A row of zeros adds log 2 to F, whatever θ, and a curvature of nothing; a run over it is another run."""
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    few = Objective(Binary(), Labelled(X, y), ridge=1.0)
    more = Objective(Binary(), Labelled(np.vstack([X, np.zeros((20, 3))]), np.append(y, np.zeros(20, int))), ridge=1.0)
    for solver in (StochasticMajorization(batch_size=5), SGD(gain=0.01, schedule="inverse")):
        first = minimize(few, solver, max_steps=2, tol=0.0)
        resumed = minimize(more, solver, start=first, max_steps=1, tol=0.0)
        anew = minimize(more, solver, start=first.params, max_steps=1, tol=0.0)
        np.testing.assert_array_equal(resumed.params, anew.params)
        same_trace(resumed, anew, rtol=1e-12)


# --- threads ----------------------------------------------------------------------------------------------


@every_problem
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(maker, threads):
    one, many = problems.make(maker), problems.make(maker, reducer=Threads(threads))
    theta, direction = np.random.default_rng(1).normal(size=(2, one.size))
    assert many.value(theta) == pytest.approx(one.value(theta), rel=1e-12)
    np.testing.assert_allclose(many.value_and_gradient(theta)[1], one.value_and_gradient(theta)[1], atol=1e-11)
    here, there = (F.ray(theta, direction).point_at(0.4) for F in (one, many))
    assert there.value == pytest.approx(here.value, rel=1e-12)
    np.testing.assert_allclose(there.gradient, here.gradient, atol=1e-11)
    for curvature in ("dense", "diagonal"):
        here, there = (F.bound(theta, curvature).curvature.as_matrix() for F in (one, many))
        np.testing.assert_allclose(there, here, atol=1e-11)
    runs = [minimize(F, BatchMajorization(), max_steps=5, tol=0.0) for F in (one, many)]
    np.testing.assert_allclose(runs[0].params, runs[1].params, atol=1e-7)
    same_trace(*runs, rtol=1e-6, atol=1e-9)


def test_the_same_threads_give_the_same_sums_to_the_last_bit():
    theta = np.random.default_rng(1).normal(size=64)
    found = [problems.make(problems.ecoli, reducer=Threads(2)).value_and_gradient(theta) for _ in range(5)]
    assert len({value for value, _ in found}) == 1
    assert all(np.array_equal(gradient, found[0][1]) for _, gradient in found)


# --- one objective, many runs -----------------------------------------------------------------------------

SHARING = [
    (BatchMajorization(), problems.multinomial),
    (QuasiNewton(), problems.ecoli),
    (Newton(), problems.conditional_logit),
    (LBFGS(), problems.binary),
    (ProximalMajorization(batch_size=20), problems.multinomial),
    (StochasticMajorization(batch_size=9), problems.binary),
    (LowRankStochasticMajorization(rank=2), problems.multinomial),
    (SGD(gain=1e-2), problems.conditional_logit),
    (QuasiNewton(), problems.chain),
    (OnlineMajorization(), problems.chain_everything),
]


@pytest.mark.parametrize(("solver", "maker"), SHARING, ids=lambda each: getattr(each, "__name__", type(each).__name__))
def test_runs_that_share_an_objective_are_runs_on_two(solver, maker):
    shared = problems.make(maker)
    settings = dict(max_steps=5, tol=0.0, metrics={"again": shared.value})
    first, second = (minimize(shared, solver, **settings) for _ in range(2))
    alone = minimize(problems.make(maker), solver, **settings)
    for run in (first, second):
        np.testing.assert_array_equal(run.params, alone.params)
        same_trace(run, alone, rtol=1e-12)
    assert first.trace["passes"][-1] > 0


@pytest.mark.parametrize("solver", [BatchMajorization(), LBFGS(), StochasticMajorization(batch_size=10)], ids=str)
@pytest.mark.parametrize("where", ["metric", "callback"])
def test_a_run_inside_another_is_not_counted(solver, where):
    F = problems.make(problems.multinomial)

    def inner(theta):
        return minimize(F, BatchMajorization(memory=0), start=theta, max_steps=3).trace["objective"][-1]

    inside = {"metrics": {"inner": inner}} if where == "metric" else {"callback": lambda row, theta: inner(theta) < 0}
    plain, nested = (minimize(F, solver, max_steps=5, tol=0.0, **settings) for settings in ({}, inside))
    for column in ("passes", "curvatures", "objective"):
        np.testing.assert_array_equal(plain.trace[column], nested.trace[column])


@pytest.mark.parametrize("solver", [StochasticMajorization(batch_size=10), SGD(gain=1e-3, batch_size=10)], ids=str)
def test_looking_at_a_stochastic_run_costs_it_no_pass(solver):
    """F and ∇F, certificates and metrics are found out of the solver's account: a report is what was visited."""
    free = with_intercepts([0.0, 0.0, 0.0])
    for F in (problems.make(problems.binary), free):
        if isinstance(solver, StochasticMajorization) and F is free:
            continue  # it needs a penalty on every parameter
        often = replace(solver, report_every=1 / 6)
        trace = minimize(F, often, max_steps=9, tol=0.0, metrics={"again": F.value}).trace
        np.testing.assert_allclose(trace["passes"], np.arange(10) / 6)
        assert minimize(F, solver, max_passes=2).trace["passes"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("solver", [LBFGS(), QuasiNewton(), SGD(gain=1e-3, batch_size=10)], ids=str)
def test_a_limit_of_passes_is_one_of_those_that_the_solver_made(solver):
    F = problems.make(problems.binary)
    plain = minimize(F, solver, max_passes=4, tol=0.0)
    costly = {"costly": lambda theta: sum(F.value(theta) for _ in range(9))}
    watched = minimize(F, solver, max_passes=4, tol=0.0, metrics=costly)
    np.testing.assert_array_equal(watched.trace["passes"], plain.trace["passes"])
    assert str(watched.result) == str(plain.result)
    assert "4 passes" in str(plain.result)


def test_a_promise_beyond_all_numbers_is_all_of_F():
    F = Objective(Binary(), Labelled(np.ones((2, 1)), [0, 1]), ridge=0.0)
    assert F.predicted_decrease(Point(np.ones(1), 1.0, np.array([1e10])), np.array([1e-300])) == 1.0
    assert F.predicted_decrease(Point(np.ones(1), 1.0, np.zeros(1)), np.zeros(1)) == 0.0


@pytest.mark.parametrize("solver", [QuasiNewton(), Newton(), LBFGS(), BatchMajorization()])
def test_runs_whose_gradient_is_zero_at_zero_begin_anywhere(solver):
    F = Objective(Binary(), Labelled(np.ones((2, 1)), [0, 1]), ridge=0.0)
    assert minimize(F, solver, start=[1.0]).result.outcome in (Outcome.CONVERGED, Outcome.STALLED)
