"""Chains with hidden states against enumeration of all paths, finite differences, and chains without."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from majorant import BatchMajorization, Chain, Objective, QuasiNewton, Threads, minimize
from majorant.chain import latent_crf
from majorant.chain.feature_index import Universe
from majorant.chain.model import split_scores
from majorant.data import Sequences
from majorant.models import LatentChain
from tests.oracles import rises
from tests.problems import sequences as make

SHAPES = [(2, 2, 2), (1, 3, 2), (1, 1, 1), (3, 1)]
KINDS = [dict(), dict(values=True, weights=True, share=0.6)]


def hidden(data, states):
    """The same sequences with hidden states."""
    universe = data.universe.with_states(np.array(states))
    before = np.argsort(data.universe.number)  # attributes by the numbers that both universes were made from
    attributes = universe.number[before[data.attributes]]
    return Sequences.of(universe, data.starts, data.indptr, attributes, data.values, data.y, data.weight)


def problem(states, seed=0, lengths=(4, 1, 0, 3), **kind):
    return LatentChain(states), hidden(make(len(states), lengths, seed=seed, **kind), states)


def paths(model, data, theta):
    """Yield for each sequence that is not empty its weight, labels, every path of states and its score."""
    U, A = split_scores(model.scores(theta, data), data)
    n = data.universe.n
    for i, k in zip(data.starts[:-1], data.starts[1:], strict=True):
        if i < k:
            every = np.array(list(product(range(n), repeat=k - i)))
            scores = U[i:k][np.arange(k - i), every].sum(axis=1)
            scores = scores + sum(A[every[:, t - 1], every[:, t]] for t in range(1, k - i))
            yield 1.0 if data.weight is None else data.weight[i], data.y[i:k], every, scores


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("states", SHAPES)
@pytest.mark.parametrize("scale", [0.3, 30.0])
def test_loss_and_marginals_are_those_of_all_paths(states, kind, scale):
    model, data = problem(states, **kind)
    theta = scale * np.random.default_rng(1).normal(size=data.universe.size)
    loss, P, best = 0.0, [], []
    for weight, y, every, score in paths(model, data, theta):
        labels, log_z = model.owner[every], np.logaddexp.reduce(score)
        loss += weight * (log_z - np.logaddexp.reduce(score[(labels == y).all(axis=1)]))
        p = np.exp(score - log_z)
        P += [[p[labels[:, t] == c].sum() for c in range(len(states))] for t in range(len(y))]
        best += every[score.argmax()].tolist()
    scores = model.scores(theta, data)
    assert model.loss(scores, data) == pytest.approx(loss, rel=1e-10, abs=1e-8)
    assert model.loss_and_gradient(theta, data)[0] == pytest.approx(loss, rel=1e-10, abs=1e-8)
    np.testing.assert_allclose(model.marginals(scores, data), P, atol=1e-10)
    np.testing.assert_array_equal(model.decode_states(scores, data), best)
    np.testing.assert_array_equal(model.decode(scores, data), model.owner[best])
    by_marginals = LatentChain(states, "marginal").decode(scores, data)
    np.testing.assert_array_equal(by_marginals, np.argmax(P, axis=1))
    np.testing.assert_array_equal(model.hits(scores, data), model.owner[best] == data.y)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("states", SHAPES)
def test_the_gradient_is_that_of_finite_differences(states, kind):
    model, data = problem(states, seed=1, **kind)
    theta = np.random.default_rng(2).normal(size=data.universe.size)
    gradient = model.loss_and_gradient(theta, data)[1]
    steps = 1e-5 * np.eye(len(theta))
    each = [(model.loss_and_gradient(theta + e, data)[0], model.loss_and_gradient(theta - e, data)[0]) for e in steps]
    np.testing.assert_allclose(gradient, [(a - b) / 2e-5 for a, b in each], atol=1e-6)
    residual = model.loss_and_residual(model.scores(theta, data), data)[1]
    np.testing.assert_allclose(model.lift(residual, data), gradient, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_one_state_for_each_label_is_a_chain(kind):
    data = make(3, (4, 1, 0, 3), **kind)
    theta = np.random.default_rng(3).normal(size=data.universe.size)
    model, twin = LatentChain((1, 1, 1)), hidden(data, (1, 1, 1))
    for a, b in zip(model.loss_and_gradient(theta, twin), Chain().loss_and_gradient(theta, data), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    assert model.convex(data)
    assert not LatentChain((1, 2, 1)).convex(data)


def test_copies_of_a_state_are_one():
    # Equal states of a label are as many times as likely together: where all labels have as many, nothing changes.
    data = make(3, (4, 2, 3), share=0.7)
    theta = np.random.default_rng(4).normal(size=data.universe.size)
    model, twin = LatentChain((2, 2, 2)), hidden(data, (2, 2, 2))
    loss = model.loss_and_gradient(copied(theta, data.universe, twin.universe, model.owner), twin)[0]
    assert loss == pytest.approx(Chain().loss_and_gradient(theta, data)[0], rel=1e-12)


@pytest.mark.parametrize("states", [(2, 2, 2), (1, 3, 2), (1, 1, 4)])
def test_labels_come_back_from_their_states(states):
    for seed in range(5):
        data, rng = make(3, (4, 0, 2, 3), seed=seed, share=0.6, values=True), np.random.default_rng(seed)
        model, twin = LatentChain(states), hidden(data, states)
        back = latent_crf.of_labels(twin, model.owner)
        theta = rng.normal(size=data.universe.size)
        for a, b in zip(Chain().loss_and_gradient(theta, back), Chain().loss_and_gradient(theta, data), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)
        ours = latent_crf.copied(theta, back.universe, twin.universe, model.owner)
        np.testing.assert_array_equal(ours, copied(theta, data.universe, twin.universe, model.owner))


def copied(theta, labels, states, owner):
    """Give every state the weights of its label."""
    weight = dict(zip(labels.pairs.tolist(), theta, strict=False))
    steps = dict(zip(labels.steps.tolist(), theta[len(labels.label) :], strict=True))
    n, many = labels.n, states.n
    found = [weight[k // many * n + owner[k % many]] for k in states.pairs.tolist()]
    return np.array([*found, *(steps[owner[k // many] * n + owner[k % many]] for k in states.steps.tolist())])


@pytest.mark.parametrize("states", SHAPES)
def test_the_loss_at_zero_is_known(states):
    model, data = problem(states, weights=True)
    assert model.loss_at_zero(data) == pytest.approx(model.loss_and_gradient(np.zeros(data.universe.size), data)[0])


def test_scores_that_are_far_apart_stay_finite():
    model, data = problem((2, 2), lengths=(6, 3))
    for scale in (1e3, 1e5):
        theta = scale * np.random.default_rng(5).normal(size=data.universe.size)
        theta[len(data.universe.label) :] /= scale
        loss, gradient = model.loss_and_gradient(theta, data)
        assert np.isfinite(loss)
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize("states", [(1, 1, 1), (2, 1, 2)])
def test_a_loss_that_is_no_number_is_infinite(states):
    """Tokens leave no doubt of their labels, but one label never follows another: log Z is too small for a number."""
    universe = Universe.of(np.array([0, 4, 8]), np.arange(9), 3, 3)
    y = np.arange(3, dtype=np.int32)
    data = Sequences.of(universe, np.array([0, 3]), np.arange(4), universe.number[y], None, y)
    twin, model = hidden(data, states), LatentChain(states)
    never = {(0, 1): -200.0, (2, 1): -200.0, (0, 2): -800.0, (1, 2): -800.0}
    theta = np.full(twin.universe.size, 1e4)
    steps = [(model.owner[k // twin.universe.n], model.owner[k % twin.universe.n]) for k in twin.universe.steps]
    theta[len(twin.universe.label) :] = [never.get(step, 0.0) for step in steps]
    assert model.loss_and_gradient(theta, twin)[0] == np.inf
    assert model.loss(model.scores(theta, twin), twin) == np.inf
    assert Objective(model, twin, ridge=1.0).value(theta) == np.inf
    if states == (1, 1, 1):
        assert Chain().loss_and_gradient(theta, data)[0] == np.inf


@pytest.mark.parametrize("states", [(1, 1, 1), (2, 1, 2)])
def test_scores_that_are_far_apart_add_up_to_the_loss_or_to_none(states):
    told = 0
    for seed in range(40):
        model, data = problem(states, seed=seed, lengths=(4, 2))
        theta = np.random.default_rng(seed).choice([300.0, 1000.0, 3000.0]) * np.random.default_rng([seed]).normal(
            size=data.universe.size
        )
        truth = 0.0
        for _, y, every, score in paths(model, data, theta):
            own = (model.owner[every] == y).all(axis=1)
            truth += np.logaddexp.reduce(score) - np.logaddexp.reduce(score[own])
        loss, gradient = model.loss_and_gradient(theta, data)
        if np.isfinite(loss) and np.isfinite(gradient).all():
            assert loss == pytest.approx(truth, rel=1e-9)
            told += 1
    assert told > 5


def test_parts_make_no_difference():
    model, data = problem((2, 1, 2), lengths=(3, 0, 4, 2, 1, 5), weights=True)
    theta = np.random.default_rng(6).normal(size=data.universe.size)
    whole = Objective(model, data, ridge=1.0).value_and_gradient(theta)
    value, gradient = Objective(model, data, ridge=1.0, reducer=Threads(3)).value_and_gradient(theta)
    assert value == pytest.approx(whole[0])
    np.testing.assert_allclose(gradient, whole[1], atol=1e-12)


@pytest.mark.parametrize("states", [(2, 2), (1, 3)])
def test_the_bound_touches_and_lies_above(states):
    model, data = problem(states, lengths=(3, 2), attributes=3, weights=True)
    objective, rng = Objective(model, data, ridge=0.5), np.random.default_rng(7)
    for _ in range(5):
        anchor = rng.normal(size=objective.size)
        bound = objective.bound(anchor)
        assert bound(anchor) == pytest.approx(objective.value(anchor))
        for scale in (0.1, 1.0, 5.0):
            there = anchor + scale * rng.normal(size=objective.size)
            assert bound(there) >= objective.value(there) * (1 - 1e-10)


@pytest.mark.parametrize("solver", [QuasiNewton(), BatchMajorization()])
def test_solvers_never_rise_and_end_where_the_gradient_is_small(solver):
    for seed in range(3):
        model, data = problem((2, 2), seed, lengths=(4, 3, 5, 2, 4))
        objective = Objective(model, data, ridge=0.2)
        start = np.random.default_rng(seed).normal(size=objective.size)
        solution = minimize(objective, solver, start=start, tol=1e-11, max_steps=20_000)
        assert solution.result.converged
        assert np.isnan(solution.result.gap)
        assert rises(solution.trace) <= 1e-10
        assert np.abs(objective.value_and_gradient(solution.params)[1]).max() < 1e-4


def test_a_universe_of_states_has_what_that_of_labels_has():
    rng = np.random.default_rng(8)
    for _ in range(20):
        n, attributes = int(rng.integers(1, 5)), int(rng.integers(1, 6))
        pairs = np.flatnonzero(rng.uniform(size=n * attributes) < 0.5)
        steps = np.flatnonzero(rng.uniform(size=n * n) < 0.5)
        many = rng.integers(1, 4, size=n)
        owner, labels = np.repeat(np.arange(n), many), Universe.of(pairs, steps, n, attributes)
        states, total = labels.with_states(many), int(many.sum())
        each = [a * total + s for a in range(attributes) for s in range(total) if a * n + owner[s] in pairs]
        assert sorted(states.pairs.tolist()) == each
        assert states.steps.tolist() == [
            r * total + s for r in range(total) for s in range(total) if owner[r] * n + owner[s] in steps
        ]


def test_what_does_not_fit_is_refused():
    model, data = problem((2, 2))
    with pytest.raises(ValueError, match="4 states, but the parameters are of 2"):
        Objective(model, make(2), ridge=1.0)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        LatentChain((2, 0))
    with pytest.raises(ValueError, match="decoding must be"):
        LatentChain((2, 2), "best")
    uneven = Sequences.of(
        data.universe, data.starts, data.indptr, data.attributes, None, data.y, np.arange(1.0, data.n_tokens + 1)
    )
    with pytest.raises(ValueError, match="the same for all tokens"):
        Objective(model, uneven, ridge=1.0)
    with pytest.raises(ValueError, match="the same for all tokens"):
        model.loss_and_gradient(np.zeros(data.universe.size), uneven)
