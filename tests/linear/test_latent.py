"""Outcomes with hidden parts: losses against enumeration, bounds, solvers that never rise, and what fits say."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import majorant
from examples import latent_figure, latent_ranking
from majorant import (
    LBFGS,
    SGD,
    BatchMajorization,
    Choices,
    Enumerated,
    Labelled,
    LatentEnumerated,
    LatentMultinomial,
    LowRankStochasticMajorization,
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
    minimize_from,
)
from majorant.core.kernels import partition, softmax
from majorant.core.line_search import best_step
from majorant.core.run import with_spread
from tests import oracles, problems

TINY_RISE = 1e-10


def states(rng):
    X = problems.design(rng)
    return LatentMultinomial((2, 1, 3)), Labelled(X, rng.integers(0, 3, size=60)), 0.5


def states_everything(rng):
    X = problems.design(rng) * (rng.uniform(size=(60, 4)) < 0.5)
    y, offset = rng.integers(0, 2, size=60), rng.normal(size=(60, 5))
    offset[np.arange(60), np.where(y == 0, 4, 0)] = np.where(rng.uniform(size=60) < 0.3, -np.inf, 0.0)
    data = Labelled(sp.csr_array(X), y, rng.exponential(size=60), offset, constant=True)
    return LatentMultinomial((2, 3), order="given"), data, np.array([1.0, 2.0, 0.5, 0.1, 1.0] * 5)


def xor(rng):
    X = rng.normal(size=(80, 2))
    return LatentMultinomial((2, 2)), Labelled(X, (X[:, 0] * X[:, 1] > 0).astype(int), constant=True), 0.1


def pairs(rng):
    sizes = rng.integers(1, 6, size=40)
    consistent = rng.uniform(size=sizes.sum()) < 0.4
    consistent[np.cumsum(sizes) - 1] = True
    return LatentEnumerated(), Choices(rng.normal(size=(sizes.sum(), 5)), sizes, consistent=consistent), 0.3


def pairs_everything(rng):
    sizes = rng.integers(2, 6, size=40)
    F = rng.normal(size=(sizes.sum(), 5)) * (rng.uniform(size=(sizes.sum(), 5)) < 0.5)
    consistent, log_h = rng.uniform(size=sizes.sum()) < 0.5, rng.normal(size=sizes.sum())
    ends = np.cumsum(sizes)
    consistent[ends - 1], log_h[ends - 2] = True, -np.inf
    weight = rng.exponential(size=40)
    return LatentEnumerated(), Choices(sp.csr_array(F), sizes, None, None, weight, log_h, consistent), 1.0


MAKERS = [states, states_everything, xor, pairs, pairs_everything]
every_problem = pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)


def enumerated(F):
    """Write data out as (features, log_measure, which outcomes were seen, weight) per row."""
    data = F.data
    weights = np.ones(len(data)) if data.weight is None else data.weight
    if isinstance(data, Choices):
        features = data.design.dense()
        log_h = np.zeros(len(features)) if data.log_measure is None else data.log_measure
        for j, (a, b) in enumerate(itertools.pairwise(data.indptr)):
            yield features[a:b], log_h[a:b], data.target[a:b] > 0, weights[j]
        return
    n = F.model.n_classes
    owner = [label for label, count in enumerate(F.model.states) for _ in range(count)]
    for j, x in enumerate(data.design.dense()):
        log_h = np.zeros(n) if data.offset is None else data.offset[:, j]
        yield np.kron(np.eye(n), x), log_h, np.array(owner) == data.y[j], weights[j]


def slow_value(theta, sets, ridge):
    total = 0.5 * np.sum(ridge * theta**2)
    for features, log_h, seen, weight in sets:
        scores = features @ theta + log_h
        total += weight * (np.logaddexp.reduce(scores) - np.logaddexp.reduce(scores[seen]))
    return total


# --- the loss ---------------------------------------------------------------------------------------------


@every_problem
def test_value_equals_enumeration_and_gradient_finite_differences(maker):
    F = problems.make(maker)
    sets, theta = list(enumerated(F)), np.random.default_rng(1).normal(size=F.size)
    value, gradient = F.value_and_gradient(theta)
    assert F.value(theta) == pytest.approx(slow_value(theta, sets, F.ridge), rel=1e-12)
    assert value == pytest.approx(F.value(theta), rel=1e-12)
    numeric = oracles.finite_difference(lambda x: slow_value(x, sets, F.ridge), theta)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-6)


@every_problem
def test_blocks_make_the_whole_and_taking_rows_repeats_them(maker):
    whole, parts = problems.make(maker), problems.make(maker, reducer=problems.InBlocks(7))
    theta = np.random.default_rng(3).normal(size=whole.size)
    one, many = whole.bound(theta), parts.bound(theta)
    assert many.value == pytest.approx(one.value, rel=1e-13)
    np.testing.assert_allclose(many.gradient, one.gradient, atol=1e-11)
    np.testing.assert_allclose(many.curvature.as_matrix(), one.curvature.as_matrix(), atol=1e-11)
    rows = np.arange(len(whole.data))
    twice = Objective(whole.model, whole.data.take(np.concatenate([rows, rows])), ridge=0.0).value(theta)
    assert twice == pytest.approx(2 * Objective(whole.model, whole.data, ridge=0.0).value(theta), rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(-2, 3), st.booleans())
def test_compiled_rows_equal_numpy(seed, log_scale, weighted):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 4, size=rng.integers(2, 5))
    first, t = np.concatenate([[0], np.cumsum(counts)]), int(rng.integers(1, 150))
    S, y = 10**log_scale * rng.normal(size=(first[-1], t)), rng.integers(0, len(counts), size=t)
    w = rng.exponential(size=t) if weighted else np.ones(t)
    losses, R = partition.losses_and_residuals(S, np.repeat(np.arange(len(counts)), counts)[:, None] == y)
    found = np.empty_like(S)
    loss = softmax.hidden_loss_and_residual(S, first, y, w if weighted else np.empty(0), found)
    assert loss == pytest.approx(w @ losses, rel=1e-11, abs=1e-12)
    np.testing.assert_allclose(found, R * w, atol=1e-12)


def test_scores_that_are_far_apart_lose_nothing():
    S = np.array([[800.0, -5.0], [-900.0, 1e4], [-901.0, 3.0]])
    seen = np.array([[False, True], [True, True], [True, True]])
    losses, R = partition.losses_and_residuals(S, seen)
    np.testing.assert_allclose(losses, [1700.0 - np.log1p(np.exp(-1.0)), 0.0], rtol=1e-14)
    q = 1 / (1 + np.exp(-1.0))
    np.testing.assert_allclose(R[:, 0], [1.0, -q, q - 1], atol=1e-14)
    found = np.empty_like(S)
    assert softmax.hidden_loss_and_residual(S[:, :1].copy(), np.array([0, 1, 3]), np.array([1]), np.empty(0), found)
    np.testing.assert_allclose(found[:, 0], R[:, 0], atol=1e-14)


@pytest.mark.parametrize("rows", [60, 3000])
def test_one_state_each_is_the_model_without(rows):
    rng = np.random.default_rng(5)
    X, y = problems.design(rng, rows), rng.integers(0, 3, size=rows)
    latent, plain = (Objective(m, Labelled(X, y), ridge=1.0) for m in (LatentMultinomial((1, 1, 1)), Multinomial(3)))
    theta = rng.normal(size=plain.size)
    assert latent.value(theta) == pytest.approx(plain.value(theta), rel=1e-13)
    np.testing.assert_allclose(latent.value_and_gradient(theta)[1], plain.value_and_gradient(theta)[1], atol=1e-10)
    np.testing.assert_allclose(latent.hessian_diagonal(latent.point(theta)), plain.hessian_diagonal(plain.point(theta)))


# --- bounds -----------------------------------------------------------------------------------------------


@every_problem
def test_the_curvature_is_that_of_algorithm_1(maker):
    F = problems.make(maker)
    theta, expected = np.random.default_rng(2).normal(size=F.size), np.zeros((F.size, F.size))
    for features, log_h, _, weight in enumerated(F):
        given_order = getattr(F.model, "order", "") == "given"
        order = None if given_order else np.argsort(-(features @ theta + log_h), kind="stable")
        expected += weight * oracles.naive_bound(theta, features, log_h, order)[2]
    np.testing.assert_allclose(F.bound(theta).curvature.as_matrix(), expected, atol=1e-10)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(MAKERS), st.integers(0, 10**6), st.floats(-2, 2), st.sampled_from(["dense", "diagonal"]))
def test_bounds_touch_and_lie_above(maker, seed, log_distance, curvature):
    F, rng = problems.make(maker, seed), np.random.default_rng(seed)
    sets, anchor = list(enumerated(F)), rng.normal(size=F.size)
    bound = F.bound(anchor, curvature)
    assert bound(anchor) == pytest.approx(slow_value(anchor, sets, F.ridge), rel=1e-12)
    for _ in range(5):
        theta = anchor + 10**log_distance * rng.normal(size=F.size)
        assert bound(theta) >= slow_value(theta, sets, F.ridge) * (1 - 1e-12)


@every_problem
def test_what_completes_the_data_touches_and_lies_above_but_for_a_constant(maker):
    F, rng = problems.make(maker), np.random.default_rng(4)
    anchor = rng.normal(size=F.size)
    model, data = F.model.completed(anchor, F.data)
    complete = Objective(model, data, ridge=F.ridge)
    assert complete.convex
    assert not F.convex
    here = F.point(anchor)
    constant = complete.value(anchor) - here.value
    np.testing.assert_allclose(complete.point(anchor).gradient, here.gradient, atol=1e-11)
    for scale in (0.01, 0.3, 3.0):
        theta = anchor + scale * rng.normal(size=F.size)
        assert complete.value(theta) - constant >= F.value(theta) * (1 - 1e-12)


# --- solvers ----------------------------------------------------------------------------------------------

FORMS = ["dense", "low-rank", "diagonal", "kronecker", "boehning"]


@every_problem
@pytest.mark.parametrize("curvature", FORMS)
def test_bound_steps_never_rise_without_a_line_search(maker, curvature):
    if curvature in FORMS[3:] and maker in (pairs, pairs_everything):
        pytest.skip("outcomes with features of their own have no classes")
    F = problems.make(maker)
    for size in (1.0, 1.9):
        solver = BatchMajorization(curvature, memory=0, step_size=size)
        trace = minimize(F, solver, max_steps=60).trace
        assert oracles.rises(trace) <= TINY_RISE
        assert trace["objective"][-1] < trace["objective"][0]


FULL = [BatchMajorization(), QuasiNewton(), QuasiNewton(curvature="diagonal"), Newton(), LBFGS(), SteepestDescent()]


@every_problem
@pytest.mark.parametrize("solver", FULL, ids=str)
def test_full_solvers_never_rise_and_end_stationary(maker, solver):
    F = problems.make(maker)
    solution = minimize(F, solver, max_steps=3000)
    assert oracles.rises(solution.trace) <= TINY_RISE
    result = solution.result
    assert result.outcome is Outcome.STATIONARY
    assert result.converged
    assert np.isnan(result.gap)
    assert np.isnan(solution.trace["gap"]).all()
    assert "stationary" in str(result)
    assert "nothing certifies an optimum: the loss is not convex" in str(result)
    assert F.predicted_decrease(F.point(solution.params)) <= 1e-8
    assert np.linalg.norm(F.value_and_gradient(solution.params)[1]) < 0.05


def test_the_promise_is_a_gradient_in_the_metric():
    F = problems.make(states)
    point = F.point(np.random.default_rng(0).normal(size=F.size))
    metric = F.hessian_diagonal(point) + F.ridge
    assert F.predicted_decrease(point) == pytest.approx(0.5 * np.sum(point.gradient**2 / metric) / point.value)


STOCHASTIC = [
    StochasticMajorization(restart=True),
    StochasticMajorization(batch_size=7, restart=True),
    LowRankStochasticMajorization(rank=2, restart=True),
    SGD(gain=0.02),
]


@every_problem
@pytest.mark.parametrize("solver", STOCHASTIC, ids=str)
def test_stochastic_solvers_decrease_the_loss(maker, solver):
    F = problems.make(maker)
    trace = minimize(F, solver, max_steps=8).trace
    assert trace["objective"][-1] < trace["objective"][0]


def test_rows_one_at_a_time_are_the_steps_written_out():
    F = problems.make(pairs_everything)
    start, t = F.first_params(), len(F.data)
    found = minimize(F, StochasticMajorization(shuffle=False), start=start, max_steps=1).params
    theta, M, mu = start.copy(), np.diag(1 / F.ridge), np.zeros(F.size)
    for features, log_h, seen, weight in enumerated(F):
        scores = features @ theta + log_h
        order = np.argsort(-scores, kind="stable")
        _, mean, Sigma = oracles.naive_bound(theta, features, log_h, order)
        q = np.where(seen, np.exp(scores - np.logaddexp.reduce(scores[seen])), 0.0)
        M = np.linalg.inv(np.linalg.inv(M) + weight * Sigma)
        mu += weight * (mean - q @ features) + F.ridge * theta / t
        theta = theta - M @ mu / t
    np.testing.assert_allclose(found, theta, atol=1e-9)


@every_problem
@pytest.mark.parametrize("curvature", ["whole", "block", "diagonal"])
def test_a_proximal_pass_leads_to_a_stationary_point(maker, curvature):
    if curvature != "whole" and maker in (pairs, pairs_everything):
        pytest.skip("outcomes with features of their own have no classes")
    F = problems.make(maker)
    solution = minimize(F, ProximalMajorization(curvature=curvature, batch_size=5), max_steps=2000)
    assert solution.result.outcome is Outcome.STATIONARY
    assert oracles.rises({"objective": solution.trace["objective"][1:]}) <= TINY_RISE


def test_the_start_at_zero_is_a_saddle_that_the_usual_start_avoids():
    F = problems.make(xor)
    symmetric = minimize(F, QuasiNewton(), start=np.zeros(F.size))
    W = symmetric.params.reshape(4, -1)
    np.testing.assert_allclose(W[0], W[1])
    found = minimize(F, QuasiNewton())
    assert found.trace["objective"][-1] < 0.5 * symmetric.trace["objective"][-1]
    assert found.params.tolist() == minimize(F, QuasiNewton()).params.tolist()
    assert not np.array_equal(F.first_params(0), F.first_params(1))


def test_starts_know_the_scale_of_columns():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 3)), rng.integers(0, 2, size=500)
    scaled = X * [1e-6, 1.0, 1e6]
    for data in (X, scaled, sp.csr_array(scaled), np.column_stack([X, np.zeros(500)])):
        F = Objective(LatentMultinomial((2, 2)), Labelled(data, y, constant=True, center=True), ridge=1.0)
        scores = F.model.scores(F.first_params(), F.data)
        assert 0.2 < scores.std() < 3.0


class Ridge:
    """F along a ray that has a valley close by, a ridge, and beyond it a valley that is higher than where it began."""

    def value_and_slope(self, a):
        return self.value(a), (self.value(a + 1e-6) - self.value(a - 1e-6)) / 2e-6

    def value(self, a):
        return -0.2 * a * np.exp(-((a / 0.3) ** 2)) + (1 - np.exp(-((a / 0.5) ** 4))) * (1 + 0.5 * (a - 1.5) ** 2)


def test_line_searches_do_not_end_on_higher_ground():
    ray = Ridge()
    start = ray.value_and_slope(0.0)
    for flat_enough in (0.1, 0.9):
        a = best_step(ray, start, flat_enough)
        assert a > 0
        assert ray.value_and_slope(a)[0] < start[0]


@pytest.mark.parametrize("beyond", [(np.inf, np.nan), (np.nan, np.nan), (np.inf, np.inf), (0.0, np.nan)], ids=str)
def test_line_searches_turn_back_where_there_are_no_numbers(beyond):
    class Parabola:
        def value_and_slope(self, a):
            return beyond if a > 1e-4 else ((a - 1e-6) ** 2, 2 * (a - 1e-6))

    a = best_step(Parabola(), None, 0.1)
    assert 0 < a <= 2e-6


# --- several starts ---------------------------------------------------------------------------------------


def test_the_best_of_several_starts_is_kept():
    F = problems.make(states)
    starts = [F.first_params(seed) for seed in range(4)]
    restarts = minimize_from(F, QuasiNewton(), starts)
    alone = [minimize(F, QuasiNewton(), start=start).trace["objective"][-1] for start in starts]
    np.testing.assert_allclose(restarts.objectives, alone, rtol=1e-12)
    assert restarts.best.trace["objective"][-1] == restarts.objectives.min()
    assert "best of 4 restarts" in str(restarts.result)


def test_restarts_that_fail_are_said_and_leave_no_nan():
    F = problems.make(xor)
    wild = np.full(F.size, 1e200)
    both = minimize_from(F, QuasiNewton(), [wild, F.first_params()])
    assert np.isinf(both.objectives[0])
    assert both.best.result.converged
    assert "1 failed" in str(both.result)
    none = minimize_from(F, QuasiNewton(), [wild, wild])
    assert "all 2 restarts failed" in str(none.result)
    assert np.isfinite(none.best.params).all()


def test_the_spread_of_restarts_is_said():
    result = minimize(problems.make(xor), max_steps=1).result
    assert with_spread(result, np.array([3.0])) == result
    said = str(with_spread(result, np.array([10.0, 11.0, 10.00001])))
    assert said.endswith("best of 3 restarts: 2 ended there, the worst 1.0e-01 above (relative)")


# --- data and refusals ------------------------------------------------------------------------------------


def test_held_out_data_are_scored_by_label():
    F = problems.make(xor)
    params = minimize(F, QuasiNewton()).params
    scores = F.model.class_scores(F.model.scores(params, F.data))
    metrics = held_out(F.model, F.data)
    assert metrics["test_error"](params) == pytest.approx(np.mean(scores.argmax(axis=0) != F.data.y))
    p = np.exp(scores - np.logaddexp.reduce(scores))[F.data.y, np.arange(80)]
    assert metrics["test_log_likelihood"](params) == pytest.approx(np.log(p).mean())


def test_pairs_that_are_likeliest_are_hits():
    data = Choices(np.eye(3), sizes=[3], consistent=[False, True, True])
    model = LatentEnumerated()
    assert model.hits(np.array([0.0, 0.5, 1.0]), data).tolist() == [1.0]
    assert model.hits(np.array([2.0, 0.5, 1.0]), data).tolist() == [0.0]
    assert model.margins(np.array([2.0, 0.5, 1.0]), data).tolist() == [-1.0]


TRIPLE = dict(features=np.eye(3), sizes=[3])
BAD = [
    (lambda: LatentMultinomial((2,)), "at least two classes"),
    (lambda: LatentMultinomial((2, 0)), "states must be a whole number of at least 1, got 0"),
    (lambda: LatentMultinomial((2, 1), order="random"), "order must be one of"),
    (lambda: Choices(**TRIPLE, chosen=[0], consistent=[True] * 3), "give either chosen"),
    (lambda: Choices(**TRIPLE), "consistent"),
    (lambda: Choices(**TRIPLE, consistent=[True]), "True or False for each outcome"),
    (lambda: Choices(**TRIPLE, consistent=[1.0, 0.0, 0.0]), "True or False for each outcome"),
    (lambda: Choices(**TRIPLE, consistent=[False] * 3), "set 0 has none"),
    (lambda: Choices(**TRIPLE, log_measure=[-np.inf, 0, 0], consistent=[True, False, False]), "set 0 has none"),
    (lambda: objective_of(Enumerated(), Choices(**TRIPLE, consistent=[True] * 3)), "use LatentEnumerated"),
    (lambda: objective_of(LatentEnumerated(), Choices(**TRIPLE, chosen=[0])), "give consistent="),
    (lambda: objective_of(LatentMultinomial((2, 1)), Labelled([[1.0]], [2])), "labels below 2"),
    (lambda: objective_of(LatentMultinomial((2, 1)), Labelled([[1.0]], [[0.5, 0.5]])), "one label for each row"),
    (lambda: objective_of(LatentMultinomial((2, 1)), Labelled([[1.0]], [0], offset=[[0.0, 0.0]])), "3 columns"),
    (
        lambda: objective_of(LatentMultinomial((2, 1)), Labelled([[1.0]], [0], offset=[[-np.inf, -np.inf, 0.0]])),
        "all states of a class",
    ),
]


def objective_of(model, data):
    return Objective(model, data, ridge=1.0)


@pytest.mark.parametrize(("make", "message"), BAD)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_constant_that_favours_what_was_seen_is_found_to_run_away():
    """All rows of one class, and an intercept that is not penalised: the likelihood grows for ever."""
    data = Labelled(np.random.default_rng(0).normal(size=(30, 2)), np.zeros(30, dtype=int), constant=True)
    F = Objective(LatentMultinomial((2, 1)), data, ridge=np.tile([1.0, 1.0, 0.0], 3))
    assert minimize(F, QuasiNewton()).result.outcome is Outcome.UNBOUNDED


# --- examples ---------------------------------------------------------------------------------------------


def test_the_model_of_the_examples_is_short_and_finds_both_tastes(capsys):
    latent_ranking.main()
    first, *tastes = capsys.readouterr().out.splitlines()
    assert "best of 5 restarts" in first
    found = sorted(tuple(float(x) for x in re.findall(r"[+-]\d\.\d", line)) for line in tastes)
    assert found[0][0] < -1 < found[1][0]
    assert found[1][1] > 1 > found[0][1]
    source = Path(latent_ranking.__file__).read_text()
    assert len([line for line in source.splitlines() if line.strip()]) < 40
    assert "majorant._" not in source


def test_the_figure_is_drawn(tmp_path, monkeypatch):
    for name in ("MAJORANT_DATA", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    latent_figure.main(str(tmp_path / "latent.png"))
    assert (tmp_path / "latent.png").stat().st_size > 10_000


def test_public_names():
    assert {"LatentEnumerated", "LatentMultinomial", "LatentLogisticRegression", "minimize_from"} <= set(
        majorant.__all__
    )
