"""Every solver finds the optimum; bound majorization never rises on the way; every ending has its sentence."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

import majorant
from majorant import (
    BFGS,
    LBFGS,
    BatchMajorization,
    Binary,
    Choices,
    ConjugateGradient,
    Enumerated,
    Labelled,
    Multinomial,
    Newton,
    Objective,
    Outcome,
    ProximalMajorization,
    QuasiNewton,
    SteepestDescent,
    StochasticMajorization,
    held_out,
    minimize,
)
from majorant.core import quasi_newton
from majorant.curvature import Dense
from majorant.objective import Point
from tests import oracles, problems
from tests.oracles import rises
from tests.problems import every_problem

SOLVERS = [
    BatchMajorization(),
    BatchMajorization(memory=0),
    BatchMajorization(curvature="low-rank", rank=3),
    BatchMajorization(curvature="diagonal"),
    QuasiNewton(),
    LBFGS(),
    BFGS(),
    ConjugateGradient(),
    SteepestDescent(),
]


@pytest.mark.unwatched
@every_problem
@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_reaches_the_optimum(maker, solver):
    F = problems.make(maker)
    reference = oracles.optimum(F)
    solution = minimize(F, solver, max_steps=20_000, tol=1e-9)
    assert solution.result.converged, solution.result
    assert abs(F.value(solution.params) - reference) <= 1e-8 * reference
    if isinstance(solver, BatchMajorization):
        assert rises(solution.trace) <= 1e-12


@pytest.mark.parametrize("curvature", ["kronecker", "boehning"])
@pytest.mark.parametrize("maker", [problems.binary, problems.multinomial, problems.ecoli], ids=lambda m: m.__name__)
def test_kronecker_bounds_drive_the_same_solver(maker, curvature):
    F = problems.make(maker)
    solution = minimize(F, BatchMajorization(curvature=curvature), max_steps=5000)
    assert solution.result.converged
    assert rises(solution.trace) <= 1e-12


@pytest.mark.parametrize("curvature", ["sample", "kronecker", "diagonal"])
@pytest.mark.parametrize("maker", [problems.binary_everything, problems.multinomial_soft, problems.ecoli])
def test_every_curvature_of_the_quasi_newton_solver_converges(maker, curvature):
    F = problems.make(maker)
    solution = minimize(F, QuasiNewton(curvature=curvature), tol=1e-10)
    assert solution.result.converged, solution.result
    assert rises(solution.trace) <= 1e-12


def generated(t, p, n, *, density=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(t, p)) if density == 1 else sp.random(t, p, density, format="csr", random_state=seed)
    return Objective(Binary() if n == 2 else Multinomial(n), Labelled(X, rng.integers(n, size=t)), ridge=1.0)


def test_starts_are_chosen_by_what_they_cost():
    def start(F):
        begun = QuasiNewton().start_within(F, np.zeros(F.size), 1)
        return "dual sweeps" if begun.continuation is not None else " ".join(what for _, what in begun.account)

    assert "rows, and their Hessian" in start(generated(40_000, 5, 2))
    assert "rows, and their Hessian" in start(generated(40_000, 5, 4))
    assert not start(generated(2_000, 5, 2))  # not tall enough
    assert "double precision" in start(generated(8_000, 60, 12))  # Hessians of 720 parameters are dearer than passes
    assert start(generated(600, 5_000, 2, density=0.01)) == "dual sweeps"
    assert not start(generated(600, 1_000, 2, density=0.01))  # rows are too much alike
    assert not start(generated(600, 1_300, 2))  # a dense X is no work for sweeps
    assert "double precision" in start(generated(1_300, 600, 2))  # rows are too many


@pytest.mark.parametrize("curvature", ["sample", "kronecker", "diagonal"])
def test_the_quasi_newton_solver_needs_no_penalty(curvature):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=80), np.zeros(80), np.ones(80), np.ones(80)])
    F = Objective(Multinomial(3), Labelled(X, rng.integers(0, 3, size=80)), ridge=0.0)
    assert minimize(F, QuasiNewton(curvature=curvature)).result.converged


def test_a_sample_is_a_start_and_a_curvature():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(60_000, 5)), np.ones(60_000)])
    F = Objective(Binary(), Labelled(X, (X[:, 0] + rng.logistic(size=60_000) > 0).astype(int)), ridge=1.0)
    trace = minimize(F, QuasiNewton()).trace
    best = minimize(F, Newton(), tol=1e-13).trace["objective"][-1]
    assert trace["objective"][0] < best * 1.01  # the optimum of a sample
    assert trace["passes"][-1] < 8


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(problems.MAKERS),
    st.integers(0, 10**6),
    st.floats(0.01, 1.99),
    st.sampled_from([0, 10]),
    st.sampled_from(["dense", "diagonal", "low-rank"]),
    st.floats(-3, 2),
)
def test_monotone_for_every_step_size_start_and_bound(maker, seed, eta, memory, curvature, log_start):
    F = problems.make(maker, seed)
    start = 10**log_start * np.random.default_rng(seed).normal(size=F.size)
    solver = BatchMajorization(step_size=eta, memory=memory, curvature=curvature, rank=2)
    solution = minimize(F, solver, start=start, max_steps=25)
    assert rises(solution.trace) <= 1e-12
    assert solution.trace["objective"][-1] < F.value(start) or solution.trace["gap"][0] <= 1e-8


@every_problem
@pytest.mark.parametrize("curvature", ["dense", "diagonal", "low-rank"])
@pytest.mark.parametrize("eta", [0.1, 1.0, 1.95])
def test_a_bound_step_descends_without_any_guard(maker, curvature, eta):
    F = problems.make(maker)
    theta = np.random.default_rng(3).normal(size=F.size)
    for _ in range(20):
        bound = F.bound(theta, curvature, rank=2)
        before, theta = bound.value, theta + eta * bound.step()
        assert F.value(theta) <= before * (1 + 1e-12)


def test_a_longer_step_goes_further():
    F = problems.make(problems.multinomial)
    moved = [
        np.linalg.norm(minimize(F, BatchMajorization(memory=0, step_size=eta), max_steps=1).params)
        for eta in (0.5, 1.0)
    ]
    assert moved[1] == pytest.approx(2 * moved[0])


def test_the_bound_is_renewed_at_steps_one_three_nine():
    trace = minimize(problems.make(problems.ecoli), max_steps=12, tol=0.0).trace
    assert trace["curvatures"].tolist() == [1, 1, 2, 2, 3, 3, 3, 3, 3, 3, 4, 4, 4]


def test_where_acceleration_fails_the_bound_takes_over(monkeypatch):
    monkeypatch.setattr("majorant.core.solver.best_step", lambda *_: 1e6)
    F = problems.make(problems.multinomial)
    solution = minimize(F, BatchMajorization(), max_steps=500)
    assert solution.result.converged
    assert rises(solution.trace) <= 1e-12


def near_separable(seed, ridge):
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(500, 10)), rng.normal(size=10)
    y = (X @ w + 0.05 * np.linalg.norm(w) * rng.normal(size=500) > 0).astype(int)
    return Objective(Binary(), Labelled(X, y), ridge=ridge)


def test_acceleration_saves_most_steps_on_nearly_separable_data():
    F = near_separable(0, ridge=0.5)
    plain = minimize(F, BatchMajorization(memory=0), max_steps=5000)
    fast = minimize(F, BatchMajorization())
    assert plain.result.converged
    assert fast.result.converged
    assert 8 * fast.trace["step"][-1] < plain.trace["step"][-1]


def test_bad_scaling_does_not_matter_to_a_dense_bound():
    rng = np.random.default_rng(0)
    X, y = problems.design(rng), rng.integers(0, 3, size=60)
    scale = 10.0 ** rng.uniform(-4, 4, size=4)
    plain = Objective(Multinomial(3), Labelled(X, y), ridge=1.0)
    scaled = Objective(Multinomial(3), Labelled(X * scale, y), ridge=np.tile(scale**2, 3))
    a, b = minimize(plain), minimize(scaled)
    assert abs(a.trace["step"][-1] - b.trace["step"][-1]) <= 1
    np.testing.assert_allclose(a.params, b.params * np.tile(scale, 3), atol=1e-5)


def test_a_metric_is_refused():
    def half_the_bound(factors):
        return Dense(0.5 * factors.matrix(), majorizes=False)

    with pytest.raises(ValueError, match="is no bound"):
        minimize(problems.make(problems.multinomial), BatchMajorization(curvature=half_the_bound))


@pytest.mark.parametrize("eta", [0.0, 2.0, -1.0, np.nan])
def test_step_size_out_of_range(eta):
    with pytest.raises(ValueError, match="step_size must be above 0 and below 2, got"):
        BatchMajorization(step_size=eta)


def test_memory_out_of_range():
    with pytest.raises(ValueError, match="memory must be a whole number of at least 0, got -1"):
        BatchMajorization(memory=-1)


# --- the certificate --------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(problems.MAKERS), st.integers(0, 10**6), st.floats(-3, 1))
def test_the_certificate_is_never_below_the_true_gap(maker, seed, log_distance):
    F = problems.make(maker, seed)
    best = minimize(F, tol=1e-10).params
    theta = best + 10**log_distance * np.random.default_rng(seed).normal(size=F.size)
    value, gradient = F.value_and_gradient(theta)
    true_gap = (value - oracles.optimum(F)) / value
    assert F.gap(theta, value, gradient) >= true_gap - 1e-12


@settings(max_examples=60, deadline=None)
@given(st.booleans(), st.integers(0, 10**6), st.floats(-3, 1))
def test_the_certificate_holds_with_a_free_intercept(binary, seed, log_distance):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3)) + 2.0  # not centred: the intercept matters
    model, y = (Binary(), rng.integers(0, 2, size=60)) if binary else (Multinomial(3), rng.integers(0, 3, size=60))
    ridge = np.tile([0.3, 0.3, 0.3, 0.0], model.coefficient_rows)
    F = Objective(model, Labelled(X, y, constant=True), ridge=ridge)
    assert F.intercept
    best = minimize(F, Newton(), tol=1e-12)
    assert best.result.converged
    theta = best.params + 10**log_distance * rng.normal(size=F.size)
    found = F.certify(theta)
    assume(not np.isnan(found.gap))  # far out, where F is linear to rounding, the intercept may not be found
    assert found.value <= F.value(theta) * (1 + 1e-12)
    true_gap = (found.value - F.value(best.params)) / found.value
    assert found.gap >= true_gap - 1e-12
    slope = found.gradient.reshape(model.coefficient_rows, -1)[:, -1]
    assert np.abs(slope).max() <= 1e-3  # F is flat along the intercepts


def test_the_intercept_is_nearly_always_found():
    missed = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        data = Labelled(rng.normal(size=(60, 3)) + 2, rng.integers(0, 3, size=60), constant=True)
        F = Objective(Multinomial(3), data, ridge=np.tile([0.3, 0.3, 0.3, 0.0], 3))
        missed += np.isnan(F.certify(10 ** rng.uniform(-2, 1) * rng.normal(size=F.size)).gap)
    assert missed <= 2


# --- the loop ---------------------------------------------------------------------------------------------


def test_trace_has_equal_columns_and_held_out_metrics():
    X, y = majorant.datasets.load("ecoli")
    train, test = np.arange(336) % 10 != 0, np.arange(336) % 10 == 0
    F = Objective(Multinomial(8), Labelled(X[train], y[train]), ridge=1.0)
    trace = minimize(F, metrics=held_out(F.model, Labelled(X[test], y[test]))).trace
    columns = ["step", "passes", "curvatures", "seconds", "cpu_seconds", "objective", "gradient_norm", "gap"]
    assert list(trace) == [*columns, "test_log_likelihood", "test_error"]
    assert len({len(trace[c]) for c in trace}) == 1
    assert (np.diff(trace["passes"]) > 0).all()
    assert (np.diff(trace["seconds"]) > 0).all()
    assert trace["test_error"][-1] < 0.25
    assert trace["test_error"][0] == pytest.approx(np.mean(y[test] != 0))  # at zero the first class wins
    assert trace["test_log_likelihood"][0] == pytest.approx(-np.log(8))
    with pytest.raises(KeyError, match="the trace has step, passes"):
        trace["loss"]


class Clock:
    """Clocks that go on only where they are told to: what a wall clock shows, and what a processor has worked."""

    def __init__(self, monkeypatch):
        self.wall, self.processor = 100.0, 50.0
        monkeypatch.setattr("time.perf_counter", lambda: self.wall)
        monkeypatch.setattr("time.process_time", lambda: self.processor)

    def pass_by(self, wall, processor=0.0):
        self.wall, self.processor = self.wall + wall, self.processor + processor


@pytest.mark.parametrize("solver", [BatchMajorization(), LBFGS(), ProximalMajorization(), QuasiNewton()], ids=str)
def test_metrics_and_callbacks_cost_neither_time_nor_passes(solver, monkeypatch):
    F = problems.make(problems.binary)
    without, clock = minimize(F, solver), Clock(monkeypatch)

    def slow(theta):
        clock.pass_by(1.0, 1.0)
        return F.value(theta)

    trace = minimize(F, solver, metrics={"slow": slow}, callback=lambda row, theta: clock.pass_by(2.0)).trace
    assert clock.wall == 100 + 3 * len(trace["step"])
    assert not trace["seconds"].any()
    assert not trace["cpu_seconds"].any()
    np.testing.assert_array_equal(trace["passes"], without.trace["passes"])
    np.testing.assert_allclose(trace["slow"], without.trace["objective"], rtol=1e-12)


def test_seconds_are_those_of_evaluations(monkeypatch):
    clock, evaluate = Clock(monkeypatch), Objective.point

    def timed(F, theta, **settings):
        clock.pass_by(3.0, 2.0)
        return evaluate(F, theta, **settings)

    monkeypatch.setattr(Objective, "point", timed)
    trace = minimize(problems.make(problems.binary), LBFGS(), callback=lambda row, theta: clock.pass_by(7.0, 5.0)).trace
    np.testing.assert_array_equal(trace["seconds"], 3 * trace["passes"])  # one evaluation is one pass
    np.testing.assert_array_equal(trace["cpu_seconds"], 2 * trace["passes"])


@pytest.mark.parametrize("name", ["gap", "estimated_gap"])
def test_seconds_hold_what_it_takes_to_certify(name, monkeypatch):
    F, clock, certify = problems.make(problems.binary), Clock(monkeypatch), getattr(Objective, name)

    def timed(F, *arguments):
        clock.pass_by(3.0, 2.0)
        return certify(F, *arguments)

    monkeypatch.setattr(Objective, name, timed)
    trace = minimize(F, QuasiNewton(), callback=lambda row, theta: None).trace
    assert clock.wall > 100
    assert trace["seconds"][-1] == clock.wall - 100
    assert trace["cpu_seconds"][-1] == clock.processor - 50


def test_an_objective_that_a_solver_does_not_need_costs_no_seconds(monkeypatch):
    clock, evaluate = Clock(monkeypatch), Objective.point

    def timed(F, theta, **settings):
        clock.pass_by(3.0, 2.0)
        return evaluate(F, theta, **settings)

    monkeypatch.setattr(Objective, "point", timed)
    trace = minimize(problems.make(problems.binary), StochasticMajorization(), max_steps=3).trace
    assert clock.wall > 100
    assert not trace["seconds"][:-1].any()  # a run ends with a certificate, which it pays for


@pytest.mark.parametrize("solver", [BatchMajorization(), LBFGS(), ConjugateGradient()], ids=str)
def test_a_callback_sees_each_step_and_can_stop(solver):
    seen = []

    def stop_at_three(row, theta):
        seen.append((row["step"], theta.shape))
        return row["step"] == 3

    solution = minimize(problems.make(problems.ecoli), solver, callback=stop_at_three)
    assert seen == [(k, (64,)) for k in range(4)]
    assert solution.result.outcome is Outcome.STOPPED
    assert "certifi" in solution.result.message  # how far, or that nothing can be said yet


@pytest.mark.parametrize("solver", [BatchMajorization(), BatchMajorization(memory=0), Newton()], ids=str)
def test_a_run_resumed_from_its_state_is_the_same_run(solver):
    F = problems.make(problems.ecoli)
    whole = minimize(F, solver, max_steps=8, tol=0.0)
    first = minimize(F, solver, max_steps=3, tol=0.0)
    second = minimize(F, solver, start=first, max_steps=5, tol=0.0)
    np.testing.assert_array_equal(second.params, whole.params)


def test_a_run_on_another_objective_lends_only_its_parameters():
    F = problems.make(problems.ecoli)
    strong = minimize(Objective(F.model, F.data, ridge=100.0), Newton())
    weak = minimize(F, Newton(), start=strong)
    assert weak.trace["step"][-1] > 0
    assert weak.trace["objective"][0] == pytest.approx(F.value(strong.params))


def test_stalling_adds_no_row():
    trace = minimize(problems.make(problems.ecoli), Newton(), tol=0.0).trace
    assert (np.diff(trace["passes"]) > 0).all()


def test_observers_cannot_touch_the_parameters():
    F = problems.make(problems.binary)

    def meddle(theta):
        theta *= 2

    with pytest.raises(ValueError, match="read-only"):
        minimize(F, metrics={"meddle": meddle})
    with pytest.raises(ValueError, match="column of the trace: 'objective'"):
        minimize(F, metrics={"objective": F.value})


def test_held_out_metrics_weigh_rows_and_frequencies():
    model, theta = Multinomial(2), np.array([0.0, 1.0])
    data = Labelled([[1.0], [1.0]], [0, 1], weight=[3.0, 1.0])
    metrics = held_out(model, data)
    assert metrics["test_error"](theta) == 0.75
    p = np.exp([0.0, 1.0]) / np.exp([0.0, 1.0]).sum()
    assert metrics["test_log_likelihood"](theta) == pytest.approx((3 * np.log(p[0]) + np.log(p[1])) / 4)
    soft = held_out(Enumerated(), Choices([[0.0], [1.0]], [2], target=[0.3, 0.7]), prefix="")
    assert soft["error"](np.array([1.0])) == pytest.approx(0.3)


def test_blas_runs_in_one_thread_unless_told_otherwise():
    from threadpoolctl import threadpool_info

    F, seen = problems.make(problems.ecoli), []

    def count(row, theta):
        seen.append(max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"))

    minimize(F, callback=count, max_steps=1)
    minimize(F, callback=count, max_steps=1, threads=2)
    assert seen == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(solver=BatchMajorization), TypeError, r"solver must be a solver such as BatchMajorization\(\)"),
        (dict(solver="lbfgs"), TypeError, "solver must be a solver"),
        (dict(tol=-1.0), ValueError, "tol must be non-negative, got -1"),
        (dict(tol=np.nan), ValueError, "tol must be non-negative, got nan"),
        (dict(max_steps=-1), ValueError, "max_steps must be a whole number of at least 0, got -1"),
        (dict(max_steps=None), ValueError, "max_steps must be a whole number"),
        (dict(threads=0), ValueError, "threads must be a whole number of at least 1, got 0"),
        (dict(start=[1.0]), ValueError, r"parameters must have shape \(4,\), got \(1,\)"),
    ],
)
def test_bad_settings_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        minimize(problems.make(problems.binary), **arguments)


def test_bad_settings_of_solvers_are_named_at_once():
    with pytest.raises(ValueError, match=r"curvature must be one of 'dense'.* got 'foo'"):
        BatchMajorization(curvature="foo")
    with pytest.raises(ValueError, match=r"rank must be a whole number of at least 0, got 2\.5"):
        BatchMajorization(curvature="low-rank", rank=2.5)
    with pytest.raises(ValueError, match="memory must be a whole number of at least 1, got 0"):
        LBFGS(memory=0)


def test_parameters_of_one_solver_start_another():
    F = problems.make(problems.ecoli)
    rough = minimize(F, LBFGS(), tol=1e-2)
    assert minimize(F, BatchMajorization(), start=rough).trace["step"][-1] < minimize(F).trace["step"][-1]


def test_passes_and_curvatures_are_counted():
    F = problems.make(problems.ecoli)
    plain = minimize(F, BatchMajorization(memory=0), max_steps=4, tol=0.0).trace
    assert plain["passes"].tolist() == plain["curvatures"].tolist() == [1, 2, 3, 4, 5]
    newton = minimize(F, Newton(), max_steps=2, tol=0.0).trace
    assert newton["passes"].tolist() == [1, 2, 3]  # a step is one ray; scores are known where it lands
    assert newton["curvatures"].tolist() == [1, 2, 3]
    assert minimize(F, LBFGS(), max_steps=2, tol=0.0).trace["curvatures"].tolist() == [0, 0, 0]


# --- real data --------------------------------------------------------------------------------------------


def test_a9a_converges_in_few_passes():
    X, y = load_svmlight_file(str(problems.shared_data("libsvm/a9a.gz")), n_features=123)
    X = sp.hstack([X, np.ones((X.shape[0], 1))], format="csr")
    solution = minimize(Objective(Binary(), Labelled(X, (y > 0).astype(int)), ridge=1.0))
    assert solution.result.converged
    assert solution.trace["curvatures"][-1] <= 15
    assert rises(solution.trace) <= 1e-12


def test_digit1_agrees_with_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    stored = np.load(problems.shared_data("ssl_benchmark/digit1.npz"))
    X, y = stored["X"], (stored["y"].ravel() > 0).astype(int)
    ours = minimize(Objective(Binary(), Labelled(X, y), ridge=1.0), tol=1e-13)
    theirs = LogisticRegression(C=1.0, fit_intercept=False, solver="newton-cholesky", tol=1e-10).fit(X, y)
    np.testing.assert_allclose(ours.params, theirs.coef_[0], atol=1e-6)


@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 12))
def test_a_quasi_newton_step_at_once_is_that_of_two_loops(seed, d, many):
    rng = np.random.default_rng(seed)
    A, pairs = rng.normal(size=(d, d)), ()
    A = A @ A.T + 0.1 * np.eye(d)
    objective = Objective(Binary(), Labelled(rng.normal(size=(2, d)), np.arange(2)), ridge=1.0)
    points = (Point(theta, 0.0, A @ theta) for theta in rng.normal(size=(many + 1, d)))
    for before, after in pairwise(points):
        pairs = quasi_newton.add_pair(objective, pairs, before, after, 20)
    gradient, solve = rng.normal(size=d), lambda b: b / np.diag(A)
    _, y, sy = pairs[-1]
    for least, factor in ((None, 1.0), (0.2, max(sy / (y @ solve(y)), 0.2)), (1e3, 1e3)):
        at_once = quasi_newton.quasi_newton_step(gradient, pairs, solve, least)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(quasi_newton, "FEW_PARAMETERS", 0)
            by_loops = quasi_newton.quasi_newton_step(gradient, pairs, quasi_newton.Scaled(solve, factor))
        assert at_once @ gradient < 0
        np.testing.assert_allclose(at_once, by_loops, rtol=1e-6, atol=1e-8 * np.abs(by_loops).max())


def test_a_direction_is_found_once(monkeypatch):
    """Whoever asks what a step promises, as fits without a penalty do, finds the next step."""
    from majorant.core import policy

    found = []
    step = quasi_newton.quasi_newton_step
    monkeypatch.setattr(policy, "quasi_newton_step", lambda *of: found.append(of) or step(*of))
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 30)) @ rng.normal(size=(30, 30)), rng.integers(0, 2, 400)
    F = Objective(Binary(), Labelled(X, y), ridge=0.0)
    solution = minimize(F, QuasiNewton(curvature="diagonal"), tol=1e-10)
    assert 20 < len(found) <= len(solution.trace["objective"]) + len(solution.result.account) + 3
