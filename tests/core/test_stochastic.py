"""Stochastic solvers against the loops they replace, and against what they should converge to."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, j0

import majorant
from majorant import (
    SGD,
    BatchMajorization,
    Binary,
    Choices,
    Enumerated,
    Labelled,
    LowRankStochasticMajorization,
    Multinomial,
    Newton,
    Objective,
    Outcome,
    ProximalMajorization,
    StochasticMajorization,
    minimize,
    tune,
)
from majorant.data import Order
from tests import oracles, problems
from tests.problems import every_row_problem


def in_label_order(maker, seed=0):
    """A problem whose bound visits outcomes as they come: ties in a sorted order may break either way."""
    F = problems.make(maker, seed)
    model = F.model if isinstance(F.model, Binary) else type(F.model)(**{**vars(F.model), "order": "given"})
    return Objective(model, F.data, ridge=F.ridge)


# --- Algorithm 2 ------------------------------------------------------------------------------------------


def algorithm_2(F, theta, order, m=1, step_size=None, once_per_row=True):
    """Algorithm 2 with explicit rank-one updates and the paper's own φ; returns θ, M, μ, φ.

    ``once_per_row=False`` is as printed: −f_j(y_j) + λθ/t is added for every outcome (E1).
    """
    sets = list(oracles.enumerate_sets(F.model, F.data))
    t, d = len(sets), F.size
    theta, M = theta.copy(), np.diag(1 / F.ridge)
    mu, phi = np.zeros(d), np.zeros(d)
    for start in range(0, len(order), m):
        batch = order[start : start + m]
        at = theta.copy()
        for j in batch:
            features, log_h, target, weight = sets[j]
            log_z, g = -np.inf, np.zeros(d)
            constant = -weight * (target @ features) + F.ridge * at / t
            for k, y in enumerate(np.flatnonzero(log_h > -np.inf)):
                u = log_h[y] + at @ features[y] - log_z
                direction = features[y] - g
                beta = 0.0 if k == 0 else 0.25 if abs(u) < 1e-7 else np.tanh(u / 2) / (2 * u)
                kappa = expit(u)
                xi = weight * kappa * direction
                if k == 0 or not once_per_row:
                    xi = xi + constant
                beta *= weight
                Ml = M @ direction
                N = beta * np.outer(Ml, Ml) / (1 + beta * direction @ Ml)
                M = M - N
                phi = phi + M @ xi - N @ mu
                mu = mu + xi
                g = g + kappa * direction
                log_z = np.logaddexp(log_z, log_h[y] + at @ features[y])
        theta = theta - (len(batch) / t if step_size is None else step_size) * phi
    return theta, M, mu, phi


@every_row_problem
@pytest.mark.parametrize("m", [1, 7])
def test_full_rank_equals_the_rank_one_loop(maker, m):
    F = in_label_order(maker)
    m = min(m, len(F.data))
    start = 0.1 * np.random.default_rng(1).normal(size=F.size)
    order = np.concatenate([Order(5).of_pass(epoch, len(F.data)) for epoch in range(2)])
    # batches do not straddle passes
    theta, M, mu, phi = algorithm_2(F, start, order[: len(F.data)], m)
    np.testing.assert_allclose(phi, M @ mu, atol=1e-9 * max(np.abs(phi).max(), 1))  # the identity φ = Mμ
    solution = minimize(F, StochasticMajorization(batch_size=m, seed=5), start=start, max_steps=1, tol=0.0)
    np.testing.assert_allclose(solution.params, theta, atol=1e-8 * max(np.abs(theta).max(), 1))
    np.testing.assert_allclose(solution.state.M, M, atol=1e-8 * np.abs(M).max())


def test_a_batch_of_all_rows_is_batch_majorization():
    F = problems.make(problems.multinomial)
    start = np.random.default_rng(0).normal(size=F.size)
    stochastic = minimize(F, StochasticMajorization(batch_size=len(F.data)), start=start, max_steps=1)
    batch = minimize(F, BatchMajorization(memory=0), start=start, max_steps=1)
    np.testing.assert_allclose(stochastic.params, batch.params, atol=1e-10)


def test_many_pending_rows_are_flushed_exactly():
    X, y = majorant.datasets.load("ecoli")
    F = Objective(Multinomial(8, order="given"), Labelled(X, y), ridge=1.0)
    theta, _, _, _ = algorithm_2(F, np.zeros(64), np.arange(336))
    solution = minimize(F, StochasticMajorization(shuffle=False), max_steps=1)
    np.testing.assert_allclose(solution.params, theta, atol=1e-8)


def test_e1_applying_the_label_once_per_outcome_diverges():
    F = in_label_order(problems.multinomial)
    passes = np.concatenate([Order(0).of_pass(k, 60) for k in range(3)])
    printed = algorithm_2(F, np.zeros(F.size), passes, once_per_row=False)[0]
    corrected = algorithm_2(F, np.zeros(F.size), passes)[0]
    assert F.value(corrected) < F.value(np.zeros(F.size)) < F.value(printed)


def test_e2_stale_gradients_overshoot_as_a_bessel_function():
    """Where the logistic loss is quadratic and λ negligible, the error after s passes is J₀(2√s) of the first."""
    t = 2000
    features = np.tile([[0.0], [1e-3]], (t, 1))
    evenly = Choices(features, np.full(t, 2), target=np.full(2 * t, 0.5))  # the optimum is zero, without noise
    F = Objective(Enumerated(), evenly, ridge=1e-9)
    solver = StochasticMajorization(report_every=0.5)
    printed = minimize(F, solver, start=[30.0], max_steps=8, tol=0.0, callback=keep())
    errors = [theta[0] / 30.0 for theta in printed_path(printed)]
    np.testing.assert_allclose(errors, j0(2 * np.sqrt(0.5 * np.arange(9))), atol=0.01)
    assert min(errors) < -0.3  # past the optimum, by a third of the way


PATH = []


def keep():
    PATH.clear()
    return lambda row, theta: PATH.append(theta.copy())


def printed_path(solution):
    assert len(PATH) == len(solution.trace["step"])
    return list(PATH)


def test_e7_the_penalty_alone_oscillates_for_ever_and_restarting_damps_it():
    """Where data curvature ≪ λ, θ(s) = θ₀ cos s; with a restart each pass multiplies by cos 1."""
    X = 1e-9 * np.ones((2000, 1))
    F = Objective(Binary(), Labelled(X, np.arange(2000) % 2), ridge=1.0)
    for restart, expected in ((False, np.cos(np.arange(7))), (True, np.cos(1) ** np.arange(7))):
        solution = minimize(
            F, StochasticMajorization(restart=restart), start=[1.0], max_steps=6, tol=0.0, callback=keep()
        )
        np.testing.assert_allclose([theta[0] for theta in printed_path(solution)], expected, atol=2e-3)


def test_e8_going_along_the_gradient_of_j_climbs_the_wrong_way():
    F = problems.make(problems.binary)
    value, gradient = F.value_and_gradient(np.zeros(F.size))
    of_J = -gradient  # the paper maximises J = −F, and subtracts multiples of its gradient
    assert F.value(-1e-3 * of_J) > value > F.value(-1e-3 * gradient)


def test_restarting_is_monotone_where_the_printed_algorithm_is_not():
    F = problems.make(problems.ecoli)
    printed = minimize(F, StochasticMajorization(), max_steps=12, tol=0.0).trace["objective"]
    restarted = minimize(F, StochasticMajorization(restart=True), max_steps=12, tol=0.0).trace["objective"]
    assert (np.diff(restarted) < 0).all()
    assert (np.diff(printed) > 0).any()


# --- low rank ---------------------------------------------------------------------------------------------


@every_row_problem
def test_a_rank_of_all_parameters_is_full_rank(maker):
    F = in_label_order(maker)
    start = 0.1 * np.random.default_rng(1).normal(size=F.size)
    full = minimize(F, StochasticMajorization(), start=start, max_steps=2, tol=0.0)
    low = minimize(F, LowRankStochasticMajorization(rank=F.size), start=start, max_steps=2, tol=0.0)
    np.testing.assert_allclose(low.params, full.params, atol=1e-7)


@pytest.mark.parametrize("rank", [0, 1, 3])
@pytest.mark.parametrize(
    "maker",
    [problems.binary_everything, problems.two_rows, problems.multinomial_everything],
    ids=lambda m: m.__name__,
)
def test_compiled_rows_equal_batches_of_one(maker, rank):
    F = in_label_order(maker)
    solver = LowRankStochasticMajorization(rank=rank, seed=3)
    state = solver.start(F, 0.3 * np.random.default_rng(1).normal(size=F.size))
    compiled = solver.step(F, solver.step(F, state))
    for epoch in range(2):
        for j in Order(3).of_pass(epoch, len(F.data)):
            state = solver._visit_batch(F, state, F.data.take(np.array([j])))
    np.testing.assert_allclose(compiled.theta, state.theta, atol=1e-9)
    np.testing.assert_allclose(compiled.curvature.as_matrix(), state.curvature.as_matrix(), atol=1e-8)


def test_low_rank_dominates_what_full_rank_has_gathered():
    F = in_label_order(problems.multinomial)
    full = StochasticMajorization(step_size=1e-12)  # θ stands still, so that both see the same scores
    low = LowRankStochasticMajorization(rank=2, step_size=1e-12)
    exact = np.linalg.inv(minimize(F, full, max_steps=1, tol=0.0).state.M)
    bound = minimize(F, low, max_steps=1, tol=0.0).state.curvature.as_matrix()
    assert oracles.shortfall(bound, exact) <= 1e-9


def wide(path, n_features):
    from sklearn.datasets import load_svmlight_file

    return load_svmlight_file(str(problems.shared_data(path)), n_features=n_features)


def test_low_rank_works_on_text():
    stored = np.load(problems.shared_data("ssl_benchmark/text.npz"))
    parts = (stored["data"], stored["indices"].astype(np.int32), stored["indptr"])
    X = sp.csr_matrix(parts, shape=tuple(stored["shape"]))
    X = sp.hstack([X, np.ones((X.shape[0], 1))], format="csr")
    F = Objective(Multinomial(2, order="given"), Labelled(X, (stored["y"].ravel() > 0).astype(int)), ridge=10.0)
    assert F.size == 23_922
    for rank in (0, 1):
        trace = minimize(F, LowRankStochasticMajorization(rank=rank), max_steps=1).trace["objective"]
        assert trace[1] < 0.99 * trace[0]


def test_low_rank_works_on_news20():
    X, y = wide("libsvm/news20.bz2", 62_061)
    some = np.arange(0, 15_935, 8)
    F = Objective(Multinomial(20), Labelled(X[some], (y[some] - 1).astype(int)), ridge=1.0)
    trace = minimize(F, LowRankStochasticMajorization(rank=0), max_steps=1).trace["objective"]
    assert trace[1] < 0.99 * trace[0]
    few = Objective(Multinomial(20), F.data.take(np.arange(3)), ridge=1.0)
    trace = minimize(few, LowRankStochasticMajorization(rank=1), max_steps=1).trace["objective"]
    assert trace[1] < trace[0]


# --- SGD and its tuning -----------------------------------------------------------------------------------


@pytest.mark.unwatched
@pytest.mark.parametrize("schedule", ["constant", "adaptive", "inverse"])
@pytest.mark.parametrize("m", [1, 8])
@pytest.mark.parametrize("maker", problems.ROW_MAKERS[:-1], ids=lambda m: m.__name__)
def test_sgd_equals_its_definition(maker, m, schedule):
    assert_sgd_is_its_definition(problems.make(maker), m, schedule)


@pytest.mark.unwatched
@pytest.mark.parametrize("by", ["intercept", "column", "class"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("n", [2, 3])
def test_sgd_with_penalties_that_differ(n, sparse, by):
    """Compiled loops take an intercept that has none, of dense rows any of columns; but not of classes."""
    rng = np.random.default_rng(n)
    X, y = rng.normal(size=(40, 3)), rng.integers(0, n, 40)
    model = Binary() if n == 2 else Multinomial(n)
    data = Labelled(sp.csr_array(X) if sparse else X, y, constant=True)
    classes = 1 if n == 2 else n
    ridge = np.tile([2.0, 2.0, 2.0, 0.0] if by == "intercept" else [1.0, 2.0, 0.5, 0.0], classes)
    ridge = ridge * (1 + np.repeat(np.arange(classes), 4)) if by == "class" else ridge
    assert_sgd_is_its_definition(Objective(model, data, ridge=ridge), 8, "adaptive")


def assert_sgd_is_its_definition(F, m, schedule):
    t, theta = len(F.data), 0.1 * np.random.default_rng(0).normal(size=F.size)
    solver = SGD(gain=0.05, schedule=schedule, tau=20.0, batch_size=m, seed=4)
    found = solver.step(F, solver.step(F, solver.start(F, theta))).theta
    i = 0
    for epoch in range(2):
        order = Order(4).of_pass(epoch, t)
        for start in range(0, t, m):
            i += 1
            gain = 0.05 * {"constant": 1, "adaptive": 20 / (20 + i), "inverse": 1 / i}[schedule]
            batch = order[start : start + m]
            part = Objective(F.model, F.data.take(batch), ridge=F.ridge * len(batch) / t)
            theta = theta - gain * part.value_and_gradient(theta)[1]
    np.testing.assert_allclose(found, theta, atol=1e-10)


def test_a_gain_that_is_too_large_ends_as_non_finite_or_high():
    F = problems.make(problems.binary)
    big = Objective(Binary(), Labelled(1e200 * F.data.design.numbers, F.data.y), ridge=1.0)
    solution = minimize(big, SGD(gain=1.0), max_steps=3)
    assert solution.result.outcome is Outcome.NON_FINITE
    assert np.isfinite(solution.params).all()


def test_tuning_by_both_rules():
    F = problems.make(problems.ecoli)
    fair = tune(F, schedules=["constant"], batch_sizes=[10])
    paper = tune(F, schedules=["constant"], batch_sizes=[10], rule="largest-stable")
    assert fair.objective <= paper.objective
    assert fair.best.gain <= paper.best.gain
    assert fair.objective == min(trial.objective for trial in fair.trials)
    again = minimize(F, fair.best, max_steps=1, tol=0.0).trace["objective"][-1]
    assert again == fair.objective


def test_tuning_works_for_every_model():
    for maker in (problems.binary, problems.multinomial, problems.conditional_logit):
        F = problems.make(maker)
        assert tune(F, schedules=["constant"], batch_sizes=[1]).objective < F.value(np.zeros(F.size))


def test_tuning_skips_gains_beyond_the_first_that_diverges():
    F = problems.make(problems.ecoli)
    scaled = Objective(F.model, Labelled(1e3 * F.data.design.numbers, F.data.y), ridge=1.0)
    found = tune(scaled, schedules=["constant", "adaptive"], taus=[10.0], batch_sizes=[1, 1000])
    assert {trial.solver.batch_size for trial in found.trials} == {1}  # 1,000 is more than the rows there are
    for schedule in ("constant", "adaptive"):
        tried = [trial for trial in found.trials if trial.solver.schedule == schedule]
        assert [trial.objective == np.inf for trial in tried] == [False] * (len(tried) - 1) + [True]
        assert len(tried) < 25
    with pytest.raises(ValueError, match="every gain diverged"):
        tune(scaled, gains=[1.0], schedules=["constant"], batch_sizes=[1])


# --- what all of them share -------------------------------------------------------------------------------

ALL = [
    StochasticMajorization(seed=1),
    StochasticMajorization(seed=1, batch_size=9, restart=True),
    LowRankStochasticMajorization(rank=2, seed=1),
    LowRankStochasticMajorization(rank=0, seed=1, replacement=True),
    ProximalMajorization(batch_size=20, seed=1),
    SGD(gain=1e-2, schedule="adaptive", tau=100.0, batch_size=10, seed=1),
]


@pytest.mark.parametrize("solver", ALL, ids=str)
def test_the_same_seed_gives_the_same_run_whole_or_resumed(solver):
    F = problems.make(problems.ecoli)
    whole = minimize(F, solver, max_steps=4, tol=0.0)
    first = minimize(F, solver, max_steps=2, tol=0.0)
    resumed = minimize(F, solver, start=first, max_steps=2, tol=0.0)
    np.testing.assert_array_equal(resumed.params, whole.params)
    np.testing.assert_array_equal(minimize(F, solver, max_steps=4, tol=0.0).params, whole.params)
    other = minimize(F, type(solver)(**{**vars(solver), "seed": 2}), max_steps=1, tol=0.0)
    assert not np.array_equal(other.params, minimize(F, solver, max_steps=1, tol=0.0).params)


@pytest.mark.parametrize("solver", ALL, ids=str)
def test_reporting_more_often_changes_nothing(solver):
    F = problems.make(problems.ecoli)
    often = type(solver)(**{**vars(solver), "report_every": 0.1})
    a = minimize(F, solver, max_passes=1, tol=0.0)
    b = minimize(F, often, max_passes=1, tol=0.0)
    np.testing.assert_allclose(a.params, b.params, atol=1e-9)
    assert len(b.trace["step"]) >= 10
    look_back = isinstance(solver, ProximalMajorization)
    assert b.trace["passes"][-1] == pytest.approx(1.0 + look_back)


def test_one_report_per_iteration():
    F = problems.make(problems.ecoli)
    trace = minimize(F, StochasticMajorization(report_every=1 / 336), max_steps=20).trace
    np.testing.assert_allclose(trace["passes"], np.arange(21) / 336)


def test_draws_with_replacement_repeat_rows():
    assert len(np.unique(Order(replacement=True).of_pass(0, 1000))) < 700
    assert len(np.unique(Order(0).of_pass(0, 1000))) == 1000


@pytest.mark.parametrize("solver", ALL, ids=str)
def test_they_stop_on_the_certificate(solver):
    F = Objective(Binary(), problems.make(problems.binary).data, ridge=50.0)
    small = type(solver)(**{**vars(solver), "batch_size": 10})
    assert minimize(F, small, tol=0.05, max_steps=200).result.converged


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StochasticMajorization(batch_size=0), "batch_size must be a whole number of at least 1, got 0"),
        (lambda: StochasticMajorization(step_size=0.0), "step_size must be above 0, got 0"),
        (lambda: LowRankStochasticMajorization(step_size=-1.0), "step_size must be above 0, got -1"),
        (lambda: LowRankStochasticMajorization(rank=-1), "rank must be a whole number of at least 0, got -1"),
        (lambda: StochasticMajorization(report_every=0.0), "report_every must be above 0 and at most 1 pass"),
        (lambda: SGD(gain=0.0), "gain must be above 0, got 0"),
        (lambda: SGD(gain=1.0, tau=-1.0), "tau must be above 0, got -1"),
        (lambda: SGD(gain=1.0, schedule="magic"), "schedule must be one of 'constant'"),
    ],
)
def test_bad_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("solver", ALL, ids=str)
def test_a_batch_larger_than_the_data(solver):
    with pytest.raises(ValueError, match=r"batch_size must not exceed the number of rows \(336\), got 337"):
        minimize(problems.make(problems.ecoli), type(solver)(**{**vars(solver), "batch_size": 337}))


@pytest.mark.parametrize("solver", [StochasticMajorization(), LowRankStochasticMajorization()], ids=str)
def test_a_zero_ridge_is_refused_where_it_must_be_inverted(solver):
    F = problems.make(problems.binary)
    with pytest.raises(ValueError, match="needs ridge > 0, got 0"):
        minimize(Objective(F.model, F.data, ridge=0.0), solver)


def test_soft_choices_are_fine_everywhere():
    data = Choices(np.eye(3), [3], target=[0.2, 0.3, 0.5], weight=[10.0])
    F = Objective(Enumerated(order="given"), data, ridge=1.0)
    best = minimize(F, Newton()).trace["objective"][-1]
    assert F.value(minimize(F, ProximalMajorization(), max_passes=1).params) <= best * (1 + 1e-6)
    assert F.value(minimize(F, StochasticMajorization(), max_steps=3).params) < F.value(np.zeros(3))
