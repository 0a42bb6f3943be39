"""Chains against enumeration of all label sequences, finite differences, and each other."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from majorant import BatchMajorization, Chain, Objective, OnlineMajorization, QuasiNewton, Threads, minimize
from majorant.chain import feature_index
from majorant.chain.feature_index import Universe
from majorant.chain.kernels import paths as chain_paths
from majorant.chain.model import split_scores
from majorant.chain.sequences import InFeatures
from majorant.core.kernels import partition
from majorant.data import Sequences
from tests.oracles import rises, shortfall
from tests.problems import sequences as make

MODEL = Chain()


KINDS = [dict(), dict(values=True), dict(weights=True), dict(values=True, weights=True, share=0.5), dict(n=9)]
LENGTHS = {9: (3, 1, 0, 2)}


def problem(kind, seed=0):
    return make(lengths=LENGTHS.get(kind.get("n", 3), (4, 1, 0, 3)), seed=seed, **kind)


def paths(data, theta):
    """Yield for each sequence that is not empty its weight, labels, every labelling and its score."""
    U, A = split_scores(MODEL.scores(theta, data), data)
    n = data.universe.n
    for i, k in zip(data.starts[:-1], data.starts[1:], strict=True):
        if i == k:
            continue
        every = np.array(list(product(range(n), repeat=k - i)))
        scores = U[i:k][np.arange(k - i), every].sum(axis=1)
        scores = scores + sum(A[every[:, t - 1], every[:, t]] for t in range(1, k - i))
        yield 1.0 if data.weight is None else data.weight[i], data.y[i:k], every, scores


def scores_by_definition(data, theta):
    """The state scores of every token, from the definition."""
    feature_index, U = data.universe, np.zeros((data.n_tokens, data.universe.n))
    for t in range(data.n_tokens):
        for e in range(data.indptr[t], data.indptr[t + 1]):
            v = 1.0 if data.values is None else data.values[e]
            a = data.attributes[e]
            for f in range(feature_index.first[a], feature_index.first[a + 1]):
                U[t, feature_index.label[f]] += v * theta[f]
    return U


@pytest.mark.parametrize("kind", KINDS)
def test_state_scores_are_sums_over_attributes(kind):
    data = problem(kind)
    theta = np.random.default_rng(1).normal(size=data.universe.size)
    U, A = split_scores(MODEL.scores(theta, data), data)
    np.testing.assert_allclose(U[:, : data.universe.n], scores_by_definition(data, theta), atol=1e-12)
    assert not U[:, data.universe.n :].any()
    np.testing.assert_array_equal(data.universe.from_matrix(A), theta[len(data.universe.label) :])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.3, 30.0])
def test_loss_and_marginals_are_those_of_all_labellings(kind, scale):
    data = problem(kind)
    theta = scale * np.random.default_rng(2).normal(size=data.universe.size)
    scores = MODEL.scores(theta, data)
    loss, P = 0.0, np.zeros((0, data.universe.n))
    for weight, y, every, score in paths(data, theta):
        log_z = np.logaddexp.reduce(score)
        loss += weight * (log_z - score[(every == y).all(axis=1)][0])
        p = np.exp(score - log_z)
        P = np.vstack([P, [[p[every[:, t] == c].sum() for c in range(data.universe.n)] for t in range(len(y))]])
    assert MODEL.loss(scores, data) == pytest.approx(loss, rel=1e-10, abs=1e-9)
    assert MODEL.loss_and_gradient(theta, data)[0] == pytest.approx(loss, rel=1e-10, abs=1e-8)
    np.testing.assert_allclose(MODEL.marginals(scores, data), P, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_that_of_finite_differences(kind):
    data = problem(kind)
    rng = np.random.default_rng(3)
    theta = rng.normal(size=data.universe.size)
    gradient = MODEL.loss_and_gradient(theta, data)[1]
    numeric = np.array(
        [
            (MODEL.loss_and_gradient(theta + e, data)[0] - MODEL.loss_and_gradient(theta - e, data)[0]) / 2e-5
            for e in 1e-5 * np.eye(len(theta))
        ]
    )
    np.testing.assert_allclose(gradient, numeric, atol=1e-6)
    residual = MODEL.loss_and_residual(MODEL.scores(theta, data), data)[1]
    np.testing.assert_allclose(MODEL.lift(residual, data), gradient, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_finds_the_likeliest_labelling(kind):
    data = problem(kind)
    theta = np.random.default_rng(4).normal(size=data.universe.size)
    best = [every[score.argmax()] for _, _, every, score in paths(data, theta)]
    scores = MODEL.scores(theta, data)
    np.testing.assert_array_equal(MODEL.decode(scores, data), np.concatenate(best))
    np.testing.assert_array_equal(MODEL.hits(scores, data), np.concatenate(best) == data.y)


def test_parts_make_no_difference():
    data = make(lengths=(3, 0, 4, 2, 1, 5), weights=True)
    theta = np.random.default_rng(5).normal(size=data.universe.size)
    whole = Objective(Chain(), data, ridge=1.0).value_and_gradient(theta)
    for threads in (2, 3, 6):
        value, gradient = Objective(Chain(), data, ridge=1.0, reducer=Threads(threads)).value_and_gradient(theta)
        assert value == pytest.approx(whole[0])
        np.testing.assert_allclose(gradient, whole[1], atol=1e-12)


def test_a_weight_of_two_is_the_sequence_twice():
    data = make(lengths=(3, 2))
    twice = Sequences.of(
        data.universe,
        np.array([0, 3, 5, 8]),
        np.concatenate([data.indptr, data.indptr[-1] + data.indptr[1:4]]).astype(np.uint32),
        np.concatenate([data.attributes, data.attributes[: data.indptr[3]]]),
        None,
        np.concatenate([data.y, data.y[:3]]),
    )
    weighted = Sequences.of(
        data.universe, data.starts, data.indptr, data.attributes, None, data.y, np.array([2.0, 2, 2, 1, 1])
    )
    theta = np.random.default_rng(6).normal(size=data.universe.size)
    for a, b in zip(MODEL.loss_and_gradient(theta, twice), MODEL.loss_and_gradient(theta, weighted), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS[:4])
@pytest.mark.parametrize("curvature", ["dense", "low-rank", "diagonal"])
def test_the_bound_over_a_chain_holds_everywhere(kind, curvature):
    for seed in range(4):
        F = Objective(MODEL, problem(kind, seed), ridge=0.1)
        rng = np.random.default_rng(seed)
        bound = F.bound(rng.normal(size=F.size), curvature, rank=3)
        assert bound(bound.anchor) == pytest.approx(F.value(bound.anchor))
        for scale in (1e-3, 0.3, 3.0, 30.0):
            for _ in range(10):
                there = bound.anchor + scale * rng.normal(size=F.size)
                assert F.value(there) <= bound(there) * (1 + 1e-10) + 1e-9


def printed_trace(U, A, times):
    """The trace of Σ as printed in JC12: Σ of every state before is added to every state after (erratum E4)."""
    n, traces = len(A), []
    log_z, Σ = U[0].copy(), np.zeros(n)
    for t in range(1, times):
        new_z, new = np.empty(n), np.empty(n)
        for j in range(n):
            total, trace = -np.inf, Σ.sum()
            for i in range(n):
                u = log_z[i] + A[i, j] - total
                if total > -np.inf:
                    trace += partition.curvature_weight(u)
                total = np.logaddexp(total, log_z[i] + A[i, j])
            new_z[j], new[j] = total + U[t, j], trace
        log_z, Σ = new_z, new
        traces.append(Σ.sum())
    return np.array(traces)


def test_the_printed_bound_explodes_with_length_and_ours_does_not():
    rng = np.random.default_rng(0)
    U, A = rng.normal(size=(20, 3)), rng.normal(size=(3, 3))
    printed = printed_trace(U, A, 20)
    assert printed[-1] / printed[0] > 3.0**15  # threefold at each token
    per_token = [np.sum(chain_paths.bound_rows(U[:T], A) ** 2) / T for T in (5, 10, 20)]
    assert per_token[2] < 1.5 * per_token[0]


@pytest.mark.parametrize("curvature", ["dense", "diagonal"])
@pytest.mark.parametrize("memory", [0, 10])
def test_batch_majorization_of_a_chain_is_monotone(curvature, memory):
    F = Objective(MODEL, make(lengths=(4, 3, 5, 2)), ridge=1.0)
    solution = minimize(F, BatchMajorization(curvature=curvature, memory=memory), tol=1e-7, max_steps=3000)
    assert solution.result.converged, solution.result
    assert rises(solution.trace) <= 1e-12


def test_batch_majorization_of_an_optical_character_problem_is_monotone():
    """26 letters, 128 pixels, d = 4,004: what the literature trains dense bounds on."""
    rng = np.random.default_rng(0)
    shapes = rng.uniform(size=(26, 128)) < 0.3
    words = [rng.integers(0, 26, size=rng.integers(2, 6)) for _ in range(12)]
    y = np.concatenate(words).astype(np.int32)
    pixels = shapes[y] ^ (rng.uniform(size=(len(y), 128)) < 0.1)
    feature_index = Universe.of(np.arange(26 * 128), np.arange(26 * 26), 26, 128)
    data = Sequences.of(
        feature_index,
        np.concatenate([[0], np.cumsum([len(word) for word in words])]),
        np.concatenate([[0], np.cumsum(pixels.sum(axis=1))]).astype(np.uint32),
        feature_index.number[np.nonzero(pixels)[1]],
        None,
        y,
    )
    F = Objective(MODEL, data, ridge=1.0)
    assert F.size == 4004
    trace = minimize(F, BatchMajorization(curvature="diagonal"), tol=1e-3).trace
    assert rises(trace) <= 1e-12
    best = minimize(F, QuasiNewton(), tol=1e-6).trace["objective"][-1]
    assert trace["objective"][-1] <= 1.001 * best


def features_token_by_token(data):
    """Of each token: its rows of the table and its codes, each with the value of its attribute."""
    known, shift = data.universe, int(data.features.bits)
    for i, k in zip(data.indptr[:-1].tolist(), data.indptr[1:].tolist(), strict=True):
        rows, codes = [], []
        for e in range(i, k):
            a, value = int(data.attributes[e]), 1.0 if data.values is None else data.values[e]
            if a < known.tabled:
                rows.append((a, value))
                continue
            codes += [((f << shift) + int(known.label[f]), value) for f in range(known.first[a], known.first[a + 1])]
        yield rows, codes


@pytest.mark.parametrize("kind", [dict(), dict(share=0.3), dict(values=True, share=0.3), dict(n=9, values=True)])
@pytest.mark.parametrize("tokens", [1, 3, 100])
@pytest.mark.parametrize("few", [-1, 10**9], ids=["compiled", "NumPy"])
def test_parameters_are_looked_up_some_tokens_at_a_time(kind, tokens, few, monkeypatch):
    monkeypatch.setattr(feature_index, "SOME_TOKENS", tokens)
    monkeypatch.setattr(feature_index, "FEW_CODES", few)
    both = []
    for seed in range(10):
        data = make(lengths=(4, 0, 3, 2), seed=seed, attributes=8, **kind)
        x, every = data.features, list(features_token_by_token(data))
        both.append(len(x.rows) > 0 and len(x.codes) > 0)
        found = ((x.row_starts, x.rows, x.row_values), (x.starts, x.codes, x.values))
        for which, (starts, names, values) in enumerate(found):
            np.testing.assert_array_equal(starts, np.cumsum([0, *(len(token[which]) for token in every)]))
            flat = [pair for token in every for pair in token[which]]
            assert names.tolist() == [name for name, _ in flat]
            assert values is None or values.tolist() == [value for _, value in flat]
    assert any(both) or "share" not in kind


@pytest.mark.parametrize("kind", KINDS)
def test_quasi_newton_ends_at_the_optimum(kind):
    F = Objective(MODEL, problem(kind), ridge=0.5)
    solution = minimize(F, QuasiNewton(), tol=1e-10)
    assert solution.result.converged, solution.result
    best = minimize(F, BatchMajorization(), tol=1e-10, max_steps=5000).trace["objective"][-1]
    assert F.value(solution.params) == pytest.approx(best, rel=1e-8)


@pytest.mark.parametrize("curvature", ["share", "bound"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_online_pass_descends_and_its_first_step_is_the_gradient_over_the_precision(kind, curvature):
    data = problem(kind)
    F = Objective(MODEL, data, ridge=2.0)
    solver = OnlineMajorization(curvature=curvature)
    state = solver.step(F, solver.start(F, np.zeros(F.size)))
    assert F.value(state.theta) < F.value(np.zeros(F.size))
    assert (state.curvature.entries >= 2.0).all()
    one = Objective(MODEL, data.part(0, 1), ridge=2.0)
    first = OnlineMajorization(curvature=curvature).step(one, solver.start(one, np.zeros(F.size)))
    _, gradient = one.value_and_gradient(np.zeros(F.size))
    if curvature == "bound":
        np.testing.assert_allclose(first.theta, -gradient / first.curvature.entries, atol=1e-12)
    # Attributes met twice in a sequence move twice, with a precision that has grown between.
    assert first.theta @ gradient < 0


@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_quasi_newton_survives_wild_scales(scale):
    data = make(lengths=(4, 3, 5, 2), values=True)
    data = Sequences.of(
        data.universe, data.starts, data.indptr, data.attributes, scale * data.values, data.y, data.weight
    )
    F = Objective(MODEL, data, ridge=1e-2)
    assert MODEL.loss_at_zero(data) == pytest.approx(F.value(np.zeros(F.size)))
    solution = minimize(F, QuasiNewton(), tol=1e-6, max_steps=5000)
    assert solution.result.converged, solution.result
    assert rises(solution.trace) <= 1e-10


def test_solvers_that_look_inside_rows_say_that_they_cannot():
    from majorant import Newton, StochasticMajorization

    F = Objective(MODEL, make(), ridge=1.0)
    for solver in (Newton(), StochasticMajorization()):
        with pytest.raises(TypeError, match="QuasiNewton"):
            minimize(F, solver)


def uneven(seed=0):
    data = make(lengths=(4, 1, 0, 3, 2), seed=seed, values=True)
    weight = np.random.default_rng(seed).uniform(size=data.n_tokens)
    weight[::4] = 0.0
    return replace(data, weight=weight)


@pytest.mark.parametrize("seed", range(3))
def test_tokens_of_uneven_weights_are_weighted_conditionals(seed):
    data = uneven(seed)
    theta = np.random.default_rng(9).normal(size=data.universe.size)
    loss, weight = 0.0, iter(data.weight)
    for _, y, every, score in paths(data, theta):
        p = np.exp(score - np.logaddexp.reduce(score))
        for t in range(len(y)):
            before, upto = (every[:, :t] == y[:t]).all(axis=1), (every[:, : t + 1] == y[: t + 1]).all(axis=1)
            loss -= next(weight) * np.log(p[upto].sum() / p[before].sum())
    found, gradient = MODEL.loss_and_gradient(theta, data)
    assert found == pytest.approx(loss, abs=1e-9)
    assert MODEL.loss(MODEL.scores(theta, data), data) == pytest.approx(loss, abs=1e-9)
    steps = 1e-5 * np.eye(len(theta))
    numeric = [
        (MODEL.loss_and_gradient(theta + e, data)[0] - MODEL.loss_and_gradient(theta - e, data)[0]) for e in steps
    ]
    np.testing.assert_allclose(gradient, np.array(numeric) / 2e-5, atol=1e-6)


def test_uneven_weights_that_are_even_change_nothing():
    data = make(lengths=(4, 1, 3), weights=True)
    theta = np.random.default_rng(9).normal(size=data.universe.size)
    even = MODEL.loss_and_gradient(theta, data)
    nearly = replace(data, weight=data.weight * (1 + 1e-12 * np.arange(data.n_tokens)))
    assert data.even
    assert not nearly.even
    for a, b in zip(MODEL.loss_and_gradient(theta, nearly), even, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-8)


def test_nothing_is_certified_or_bounded_where_weights_are_uneven():
    F = Objective(MODEL, uneven(), ridge=1.0)
    solution = minimize(F, QuasiNewton(), gradient_tol=1e-6)
    assert solution.result.converged
    assert np.isnan(solution.result.gap)
    assert "not convex" in str(solution.result)
    with pytest.raises(ValueError, match="same for all tokens"):
        F.bound(np.zeros(F.size))


def test_the_weight_of_a_sequence_is_in_every_form_of_its_bound():
    data = make(lengths=(4, 3), values=True)
    weighted = replace(data, weight=np.repeat([5.0, 0.5], [4, 3]))
    scores = MODEL.scores(np.random.default_rng(0).normal(size=data.universe.size), data)
    factors = MODEL.bound_factors(scores, weighted)
    assert shortfall(np.diag(factors.diagonal()), factors.matrix()) <= 1e-12
    U, A = split_scores(scores, data)
    both = [
        MODEL.bound_factors(np.concatenate([U[tokens].ravel(), A.ravel()]), data.part(j, j + 1))
        for j, tokens in enumerate((slice(0, 4), slice(4, 7)))
    ]
    np.testing.assert_allclose(factors.diagonal(), 5 * both[0].diagonal() + 0.5 * both[1].diagonal(), rtol=1e-12)
    np.testing.assert_allclose(factors.matrix(), 5 * both[0].matrix() + 0.5 * both[1].matrix(), atol=1e-12)


def test_the_diagonal_of_the_hessian_squares_values():
    """At zero every label of a token is as likely as another, whatever its neighbours."""
    data = make(values=True, weights=True)
    feature_index = data.universe
    found = MODEL.hessian_diagonal(MODEL.scores(np.zeros(feature_index.size), data), data)
    token = np.repeat(np.arange(data.n_tokens), np.diff(data.indptr))
    of_attribute = np.bincount(
        data.attributes, weights=data.weight[token] * data.values**2, minlength=feature_index.n_attributes
    )
    expected = of_attribute[feature_index.attribute] * (1 / 3) * (2 / 3)
    np.testing.assert_allclose(found[: len(feature_index.label)], expected, rtol=1e-12)


def one_sequence(tokens, n, steps, weight):
    """A sequence whose tokens have two attributes, of values 2 and −1; parameters for all pairs, and some steps."""
    feature_index = Universe.of(np.arange(2 * n), np.array(steps), n, 2)
    return Sequences.of(
        feature_index,
        np.array([0, tokens]),
        2 * np.arange(tokens + 1, dtype=np.uint32),
        feature_index.number[np.tile([0, 1], tokens)],
        np.tile([2.0, -1.0], tokens),
        (np.arange(tokens) % n).astype(np.int32),
        np.full(tokens, weight),
    )


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_the_online_metric_of_one_token_is_its_closed_form(weight):
    """From zero: p = 1/n, ‖v‖₁ = 3, and a share of ¼."""
    data = one_sequence(1, 3, [0, 5], weight)
    θ, D = MODEL.learn(data, np.zeros(8), np.full(8, 2.0), np.array([0]))
    values, labels = np.repeat([2.0, -1.0], 3), np.tile(np.arange(3), 2)
    expected = 2.0 + weight * 0.25 * 3 * abs(values) * (1 / 3) * (2 / 3)
    order = np.argsort(data.universe.pairs)
    np.testing.assert_allclose(D[:6][order], expected, rtol=1e-12)
    slope = weight * values * (1 / 3 - (labels == 0))
    np.testing.assert_allclose(θ[:6][order], -slope / np.maximum(expected, abs(slope) * 3 / 8), rtol=1e-12)
    assert (θ[6:].tolist(), D[6:].tolist()) == ([0, 0], [2, 2])


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_the_online_metric_of_transitions_is_its_closed_form(weight):
    """From zero: a pair of labels happens w/n² times in a sequence of two tokens, which weigh 2w."""
    n = 3
    data = one_sequence(2, n, range(9), weight)
    θ, D = MODEL.learn(data, np.zeros(15), np.full(15, 2.0), np.array([0]))
    x = weight / n**2
    expected = 2.0 + 2 * 0.25 * x * (1 - x / (2 * weight))
    np.testing.assert_allclose(D[6:], expected, rtol=1e-12)
    slope = np.full(9, x)
    slope[0 * n + 1] -= weight
    np.testing.assert_allclose(θ[6:], -slope / expected, rtol=1e-12)


def test_transitions_without_a_parameter_stay_at_zero_online():
    """Otherwise the second sequence would see another model than ours."""
    feature_index = Universe.of(np.array([0]), np.array([1, 3]), 2, 1)
    data = Sequences.of(
        feature_index,
        np.array([0, 4, 9]),
        np.zeros(10, dtype=np.uint32),
        np.empty(0, dtype=np.uint32),
        None,
        np.array([0, 0, 1, 1, 1, 0, 0, 1, 0], dtype=np.int32),
    )
    first, D = MODEL.learn(data, np.zeros(3), np.full(3, 2.0), np.array([0]))
    gradient = MODEL.loss_and_gradient(first, data.part(1, 2))[1]
    both, grown = MODEL.learn(data, np.zeros(3), np.full(3, 2.0), np.array([0, 1]))
    assert (grown[1:] > D[1:]).all()
    np.testing.assert_allclose(both[1:] - first[1:], -(gradient / grown)[1:], rtol=1e-10)


def test_sequences_that_are_taken_are_those_that_stand_there():
    data = make(values=True, weights=True)
    rows = np.array([3, 0, 3])
    taken = data.take(rows)
    theta = np.random.default_rng(0).normal(size=data.universe.size)
    apart = [MODEL.loss_and_gradient(theta, data.part(j, j + 1)) for j in rows]
    loss, gradient = MODEL.loss_and_gradient(theta, taken)
    assert loss == pytest.approx(sum(each[0] for each in apart))
    np.testing.assert_allclose(gradient, sum(each[1] for each in apart), atol=1e-12)


@pytest.mark.parametrize("kind", [dict(), dict(values=True), dict(n=9, values=True, share=0.4), dict(n=9, share=0.5)])
@pytest.mark.parametrize("seed", range(5))
def test_attributes_are_read_off_features_as_they_were_given(kind, seed):
    data = make(lengths=(4, 1, 0, 7, 3), attributes=40, seed=seed, **kind)
    met = np.flatnonzero(np.diff(data.universe.first))  # of those without a parameter nothing would be left
    known = np.isin(data.attributes, met)
    ends = np.concatenate([[0], np.cumsum(known)])[data.indptr]
    values = None if data.values is None else data.values[known]
    pairs = (np.searchsorted(met, data.universe.attribute) * data.universe.n + data.universe.label).astype(np.int64)
    those = Universe.of(pairs, data.universe.steps, data.universe.n, len(met))
    attributes = those.number[np.searchsorted(met, data.attributes[known])]
    full = Sequences.of(those, data.starts, ends, attributes, values, data.y)
    compact = full.compact()
    assert isinstance(compact.given, InFeatures)
    for one, other in (
        (full, compact),
        (full.part(1, 4), compact.part(1, 4)),
        (full.part(1, 5).part(2, 3), compact.part(1, 5).part(2, 3)),
        (full.take(np.array([3, 0, 3])), compact.take(np.array([3, 0, 3]))),
    ):
        np.testing.assert_array_equal(other.attributes, one.attributes)
        assert other.attributes.dtype == one.attributes.dtype
        assert (one.values is None) == (other.values is None)
        assert one.values is None or (one.values == other.values).all()


def test_attributes_without_a_parameter_are_kept_as_they_were_given():
    data = make(share=0.1)
    assert not data.universe.is_full
    assert data.compact() is data


def test_rows_of_a_large_table_have_numbers_that_are_large_enough():
    many = 2**16 + 2
    known = Universe.of(np.arange(2 * many), np.arange(4), 2, many)
    assert known.tabled == many
    data = Sequences.of(
        known, np.array([0, 1]), np.array([0, 2]), np.array([0, many - 1], np.uint32), None, np.zeros(1, np.int32)
    )
    assert data.features.rows.tolist() == [0, many - 1]
