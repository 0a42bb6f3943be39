"""The proximal solver: its inner problems, its memories, its pass and its finish."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize as scipy_minimize

import majorant
from majorant import Binary, Labelled, Multinomial, Newton, Objective, ProximalMajorization, minimize
from majorant.core import proximal
from majorant.core.files import decode, encode
from majorant.core.policy import WINDOW
from majorant.core.proximal import ByClass, ByColumn, Whole, WholeByRow
from majorant.curvature import Block, Dense, Diagonal, Growing
from tests import problems
from tests.core.test_stochastic import wide
from tests.problems import every_row_problem


@every_row_problem
def test_one_batch_of_all_rows_is_the_optimum_and_its_hessian(maker):
    F = problems.make(maker)
    best = minimize(F, Newton(), tol=1e-14)
    solution = minimize(F, ProximalMajorization(batch_size=len(F.data)), max_passes=1, tol=0.0)
    np.testing.assert_allclose(solution.params, best.params, atol=1e-3)
    assert F.value(solution.params) <= best.trace["objective"][-1] * (1 + 1e-6)
    H = F.hessian(solution.params)[2].as_matrix() + np.diag(F.ridge)
    np.testing.assert_allclose(solution.state.memory.precision.as_matrix(), H, atol=1e-2 * np.abs(H).max())


@every_row_problem
@pytest.mark.parametrize("m", [1, 4])
def test_score_space_and_parameter_space_agree(maker, m):
    F = problems.make(maker)
    theta = {}
    for memory in (whole(F.ridge), by_row(F.ridge)):
        at, after = memory.learn(F.model, np.zeros(F.size), F.data.batches(m))
        theta[type(memory)] = at
        np.testing.assert_allclose(after.precision.solve(after.precision.matvec(at)), at, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(theta[Whole], theta[WholeByRow], atol=2e-4)


def whole(ridge):
    return Whole(Dense(np.diag(ridge), majorizes=False))


def by_row(ridge):
    return WholeByRow(Growing(np.diag(ridge)))


def by_class(ridge):
    return ByClass(Block(tuple(Growing(np.diag(each)) for each in ridge)))


def test_one_block_is_the_whole():
    F = problems.make(problems.binary_everything)
    a, one = by_row(F.ridge).learn(F.model, np.zeros(F.size), F.data.batches(9))
    b, block = by_class(F.ridge[None]).learn(F.model, np.zeros(F.size), F.data.batches(9))
    np.testing.assert_allclose(a, b, atol=1e-10)
    np.testing.assert_allclose(one.precision.compact(), block.precision.compact()[0], atol=1e-10)


def test_blocks_and_diagonal_are_parts_of_the_hessian():
    F = problems.make(problems.multinomial_everything)
    rows = F.data.take(np.arange(5))
    ridge = np.tile([1.0, 2.0, 0.5, 0.1], 3)
    after, block = by_class(ridge.reshape(3, 4)).learn(F.model, np.zeros(F.size), [rows])
    H = F.model.hessian_factors(F.model.scores(after, rows), rows).matrix() + np.diag(ridge)
    for c in range(3):
        at = slice(4 * c, 4 * c + 4)
        np.testing.assert_allclose(block.precision.compact()[c], H[at, at], atol=1e-9)
    after, diagonal = ByColumn(Diagonal(ridge, majorizes=False)).learn(F.model, np.zeros(F.size), [rows])
    H = F.model.hessian_factors(F.model.scores(after, rows), rows).matrix() + np.diag(ridge)
    np.testing.assert_allclose(diagonal.precision.compact(), np.diag(H), atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.floats(-6, 6), st.floats(0, 2), st.sampled_from([1, 3]))
def test_the_inner_problem_is_solved_on_any_scale(seed, log_scale, log_spread, n):
    rng = np.random.default_rng(seed)
    m = 3
    model = Binary() if n == 1 else Multinomial(3)
    batch = Labelled(rng.normal(size=(m, 2)), rng.integers(0, max(n, 2), size=m))
    half = rng.normal(size=(n * m, n * m)) * 10**log_scale
    G, scores = half @ half.T, 10**log_spread * rng.normal(size=(n, m))
    a = proximal.solve_in_scores(model, batch, scores, G)

    def value(a):
        return 0.5 * a @ G @ a + model.loss((scores.ravel() + G @ a).reshape(n, m), batch)

    assert np.isfinite(a).all()
    # A loss is a difference of scores, so it is known to their last digits only, however small it is.
    rounding = 1e-9 * abs(a) @ abs(G) @ abs(a) + 1e-12 * (1 + abs(scores).max())
    assert value(a) <= value(np.zeros(n * m)) + rounding
    if log_scale < 2:
        best = scipy_minimize(value, a, method="Nelder-Mead", options={"maxiter": 2000, "xatol": 1e-10}).fun
        assert value(a) <= best + 1e-6 * m + rounding


def test_the_scalar_case_on_which_a_bound_creeps():
    batch = Labelled([[1.0]], [1])
    a = proximal.solve_in_scores(Binary(), batch, np.array([[-20.0]]), np.array([[1e6]]))
    u = -20 + 1e6 * a[0]
    assert 1e6 * abs(a[0] - 1 / (1 + np.exp(u))) < 0.1  # on a score of about 10


@pytest.mark.parametrize("solve", ["scores", "parameters"])
def test_the_bound_step_is_there_when_halving_fails(solve, monkeypatch):
    monkeypatch.setattr(proximal, "HALVINGS", 0)
    F = problems.make(problems.multinomial)
    memory = whole(F.ridge) if solve == "parameters" else by_row(F.ridge)
    theta, _ = memory.learn(F.model, np.zeros(F.size), [F.data])
    assert F.value(theta) <= minimize(F, Newton()).trace["objective"][-1] * (1 + 1e-4)


@pytest.mark.parametrize("curvature", ["whole", "block", "diagonal"])
@pytest.mark.parametrize("maker", [problems.binary_everything, problems.multinomial], ids=lambda m: m.__name__)
def test_the_finish_reaches_the_optimum_in_any_curvature(maker, curvature):
    F = problems.make(maker)
    solution = minimize(F, ProximalMajorization(curvature=curvature, batch_size=5))
    assert solution.result.converged, solution.result
    best = minimize(F, Newton(), tol=1e-14).trace["objective"][-1]
    assert F.value(solution.params) - best <= 1e-8 * best
    assert (np.diff(solution.trace["objective"][1:]) <= 0).all()


def test_an_unpenalised_intercept_gets_a_weak_prior_and_an_exact_finish():
    F = problems.make(problems.binary)
    ridge = np.array([1.0, 1.0, 1.0, 0.0])
    free = Objective(F.model, F.data, ridge=ridge)
    one_pass = minimize(free, ProximalMajorization(batch_size=len(F.data)), max_passes=1)
    H = free.hessian(one_pass.params)[2].as_matrix() + np.diag([1.0, 1.0, 1.0, 1e-3])
    np.testing.assert_allclose(one_pass.state.memory.precision.as_matrix(), H, rtol=1e-3)
    solution = minimize(free, ProximalMajorization(), tol=1e-11)
    assert solution.result.converged
    np.testing.assert_allclose(solution.params, minimize(free, Newton(), tol=1e-11).params, atol=1e-5)


def test_the_prior_is_centred_at_zero_wherever_one_starts():
    F = problems.make(problems.multinomial)
    solver = ProximalMajorization(batch_size=10)
    elsewhere = minimize(F, solver, start=np.full(F.size, 7.0), max_passes=1)
    np.testing.assert_array_equal(elsewhere.params, minimize(F, solver, max_passes=1).params)


def test_batches_may_miss_classes_and_be_sorted():
    X, y = majorant.datasets.load("ecoli")
    by_label = np.argsort(y)
    F = Objective(Multinomial(8), Labelled(X[by_label], y[by_label]), ridge=1.0)
    for curvature in ("whole", "block", "diagonal"):
        solver = ProximalMajorization(shuffle=False, batch_size=10, curvature=curvature)
        trace = minimize(F, solver, max_passes=1).trace
        assert trace["objective"][-1] < trace["objective"][0]


def test_the_look_back_shrinks_what_an_adversarial_order_has_spoiled():
    X, y = majorant.datasets.load("ecoli")
    by_label = np.argsort(y)
    F = Objective(Multinomial(8), Labelled(1e3 * X[by_label], y[by_label]), ridge=1.0)
    solver = ProximalMajorization(shuffle=False, batch_size=1)
    spoiled = solver.visit(F, solver.start(F, np.zeros(F.size)), F.data).theta
    at_zero = F.value(np.zeros(F.size))
    assert F.value(spoiled) > at_zero
    kept = minimize(F, solver, max_passes=1).params
    assert F.value(kept) <= at_zero
    shrink = (kept @ spoiled) / (spoiled @ spoiled)
    np.testing.assert_allclose(kept, shrink * spoiled, atol=1e-12)
    assert 0 <= shrink < 1


@pytest.mark.unwatched
@pytest.mark.parametrize("curvature", ["whole", "block", "diagonal"])
@pytest.mark.parametrize("m", [1, 10, 100])
@pytest.mark.parametrize("ridge", [1e-4, 1e3])
@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_pass_never_diverges_on_ecoli(curvature, m, ridge, scale):
    X, y = majorant.datasets.load("ecoli")
    by_label = np.argsort(y)
    F = Objective(Multinomial(8), Labelled(scale * X[by_label], y[by_label]), ridge=ridge)
    for shuffle in (False, True):
        solver = ProximalMajorization(batch_size=m, curvature=curvature, shuffle=shuffle)
        trace = minimize(F, solver, max_passes=1).trace["objective"]
        assert len(trace) == 2
        assert trace[1] <= trace[0]


def test_the_curvature_is_chosen_by_size():
    def kind(n, p):
        X = sp.csr_array(([1.0], ([0], [0])), shape=(500, p))
        model = Binary() if n == 1 else Multinomial(n)
        F = Objective(model, Labelled(X, np.arange(500) % max(n, 2)), ridge=1.0)
        solver = ProximalMajorization()
        return type(solver.start(F, np.zeros(F.size)).memory), solver.rows_per_batch(F)

    assert kind(1, 300) == (WholeByRow, 100)
    assert kind(10, 51) == (Whole, 100)
    assert kind(1, 1500) == (WholeByRow, 100)
    assert kind(10, 200) == (ByClass, 40)
    assert kind(20, 3000) == (ByColumn, 20)
    assert kind(1, 3000) == (ByColumn, 100)
    with pytest.raises(ValueError, match="curvature='block' needs a model with classes; Enumerated has only 'whole'"):
        minimize(problems.make(problems.conditional_logit), ProximalMajorization(curvature="block"))
    with pytest.raises(ValueError, match="curvature must be one of 'auto'"):
        ProximalMajorization(curvature="full")


def on_wild_scales(spread, ridge=0.1, rows=200, columns=30):
    """Return 12 classes of rows whose columns differ by so many powers of ten, up or down."""
    random = np.random.default_rng(11)
    Z, W = random.normal(size=(rows, columns)), random.normal(size=(columns, 12))
    y = np.argmax(Z @ W / 3 + random.gumbel(size=(rows, 12)), axis=1)
    return Objective(Multinomial(12), Labelled(Z * 10.0 ** random.uniform(-spread, spread, columns), y), ridge=ridge)


@pytest.mark.parametrize("curvature", ["block", "diagonal"])
def test_a_finish_on_wild_scales_is_short(curvature):
    solution = minimize(on_wild_scales(3.0), ProximalMajorization(curvature=curvature), max_steps=60)
    assert solution.result.converged  # it took more than 1,000 steps


def test_a_finish_in_a_poor_metric_buys_a_better_one():
    solution = minimize(on_wild_scales(3.0, rows=150, columns=90), ProximalMajorization(curvature="block"))
    assert solution.result.converged
    first, then = solution.result.account[:2]
    assert first == (0, "the metric of a proximal pass")
    assert then[0] > WINDOW  # steps that tell


def test_a_finish_in_a_good_metric_buys_nothing():
    F = problems.make(problems.multinomial)
    result = minimize(F, ProximalMajorization(batch_size=len(F.data) // 2)).result
    assert result.converged
    assert result.account == ((0, "the metric of a proximal pass"),)


@pytest.mark.parametrize("curvature", ["block", "diagonal"])
def test_classes_do_not_move_together(curvature):
    F = on_wild_scales(1.0)
    for steps in (1, 5):
        W = minimize(F, ProximalMajorization(curvature=curvature), max_steps=steps, tol=0.0).params.reshape(12, -1)
        np.testing.assert_allclose(W.sum(axis=0), 0.0, atol=1e-12 * np.abs(W).max())


def test_classes_of_different_penalties_may_move_together():
    ridge = np.repeat(np.geomspace(0.1, 10.0, 12), 30)
    F = on_wild_scales(0.0, ridge)
    solution = minimize(F, ProximalMajorization(curvature="block"), tol=1e-9)
    assert solution.result.converged
    assert np.abs(solution.params.reshape(12, -1).sum(axis=0)).max() > 0.1
    np.testing.assert_allclose(solution.params, minimize(F, Newton(), tol=1e-12).params, atol=1e-3)


@pytest.mark.parametrize("steps", [3, 14])  # in the metric of the pass, and in another
def test_a_finish_goes_on_from_a_file(steps):
    F, solver = on_wild_scales(3.0, rows=150, columns=90), ProximalMajorization(curvature="block")
    state = minimize(F, solver, max_steps=steps, tol=0.0).state
    again = decode(*encode(state)).revived(F)
    np.testing.assert_equal(again.predicted_decrease(), state.predicted_decrease())
    np.testing.assert_allclose(solver.step(F, again).theta, solver.step(F, state).theta, rtol=1e-9, atol=1e-12)


def test_one_pass_on_a9a_is_within_a_tenth_of_a_percent():
    X, y = wide("libsvm/a9a.gz", 123)
    X = sp.hstack([X, np.ones((X.shape[0], 1))], format="csr")
    F = Objective(Binary(), Labelled(X, (y > 0).astype(int)), ridge=1.0)
    optimum = minimize(F).trace["objective"][-1]
    trace = minimize(F, ProximalMajorization(), tol=1e-10).trace
    assert trace["objective"][1] / optimum - 1 < 1e-3
    reached = np.argmax(trace["objective"] <= optimum * (1 + 1e-6))
    assert reached <= 4  # full-gradient evaluations: the one at the end of the pass, and one a step
