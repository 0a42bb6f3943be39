"""Dual ascent on chains: what it keeps is what it says it is, and where it ends is where L-BFGS ends."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import softmax

from majorant import Chain, ChainCRF, Objective, QuasiNewton, minimize
from majorant.chain.dual import ChainAscent, SharedAscent
from majorant.core import ascent
from majorant.core.ascent import Ascent
from majorant.core.threads import sharing
from majorant.data import Sequences
from majorant.objective import Penalty
from majorant.solvers import LBFGS
from tests.problems import sequences

LENGTHS = (4, 1, 0, 3, 6, 2, 5, 3)
KINDS = [
    dict(n=3),
    dict(n=9, attributes=12, share=0.6),
    dict(n=3, values=True, weights=True, share=0.7),
    dict(n=4, attributes=3, weights=True),
]
every_kind = pytest.mark.parametrize("kind", KINDS)
either_ridge = pytest.mark.parametrize("uneven", [False, True])


def ridge_of(data, uneven, λ=0.7):
    rng = np.random.default_rng(1)
    return λ * np.exp(rng.normal(size=data.universe.size)) if uneven else np.full(data.universe.size, λ)


def of_marginals(data, nodes, pairs):
    """Σ_j w_j E f, of a row of probabilities for each token and a matrix for each sequence."""
    width = data.universe.width
    weight = np.ones(data.n_tokens) if data.weight is None else data.weight
    each = np.array(
        [weight[begin] if m else 0.0 for begin, m in zip(data.starts[:-1], np.diff(data.starts), strict=True)]
    )
    steps = np.einsum("j,jik->ik", each, pairs.reshape(len(data), width, width))
    return Chain().lift(np.concatenate([(weight[:, None] * nodes).ravel(), steps.ravel()]), data)


def gone(work, rounds=3):
    for seed in range(rounds):
        assert work.visit(np.random.default_rng(seed).permutation(len(work.gains)))
    return work


def parameters(work, data):
    universe, (states, table, A) = data.universe, work._weights[:3]
    theta = np.zeros(universe.size)
    theta[: len(universe.label)] = states
    return universe.joined_parts(theta, table.astype(float), A.astype(float))


# ---------------------------------------------------------------- what is kept


@every_kind
@either_ridge
def test_parameters_are_what_was_observed_less_what_marginals_expect(kind, uneven):
    data = sequences(lengths=LENGTHS, seed=0, **kind)
    λ = ridge_of(data, uneven)
    start, work = ChainAscent(data, λ), gone(ChainAscent(data, λ))
    observed, expected = (of_marginals(data, each._kept.nodes, each._kept.pairs) for each in (start, work))
    theta = parameters(work, data)
    assert np.abs(theta).max() > 0.1
    np.testing.assert_allclose(theta, (observed - expected) / λ, atol=2e-5)
    assert work._kept.totals[0] == pytest.approx(λ @ theta**2, rel=1e-4)


@every_kind
def test_marginals_stay_probabilities_and_pairs_agree_with_nodes(kind):
    data = sequences(lengths=LENGTHS, seed=0, **kind)
    work, n, width = gone(ChainAscent(data, ridge_of(data, False))), data.universe.n, data.universe.width
    nodes, pairs = work._kept.nodes, work._kept.pairs.reshape(len(data), width, width)
    assert (nodes >= 0).all()
    assert not nodes[:, n:].any()
    np.testing.assert_allclose(nodes.sum(axis=1), 1.0, atol=1e-5)
    for j, (begin, end) in enumerate(pairwise(data.starts)):
        np.testing.assert_allclose(pairs[j].sum(axis=1), nodes[begin : max(end - 1, begin)].sum(axis=0), atol=1e-5)
        np.testing.assert_allclose(pairs[j].sum(axis=0), nodes[begin + 1 : end].sum(axis=0), atol=1e-5)


def entropy(p):
    return -np.sum(p * np.log(np.maximum(p, 1e-30)), axis=-1)


def best_step(μ, d, log_ν, q):
    """The root of Σ d (log ν − log(μ + g d)) = g q between 0 and 1."""
    return brentq(lambda g: d @ (log_ν - np.log(np.maximum(μ + g * d, 1e-30))) - g * q, 0, 1)


def test_of_single_tokens_entropies_are_exact_and_every_visit_is_the_best_there_is():
    """There labels are independent, so nothing is borrowed: the step is the root of the derivative, to a tenth."""
    data = sequences(n=4, lengths=(1,) * 12, attributes=6, seed=3, values=True, weights=True)
    λ = ridge_of(data, True)
    work, value = ChainAscent(data, λ), 0.0
    for j in np.random.default_rng(0).permutation(np.repeat(np.arange(12), 3)):
        before, theta = work._kept.nodes[j].astype(float), parameters(work, data)
        u = Chain().potentials(theta, data)[: data.n_tokens * 8].reshape(-1, 8)[j, :4]
        work.visit(np.array([j]))
        after, rose = work._kept.nodes[j].astype(float), work.value - value
        value = work.value
        exact = data.weight @ entropy(work._kept.nodes) - 0.5 * λ @ parameters(work, data) ** 2
        assert value == pytest.approx(exact, abs=2e-3)  # the last tenth of a step is a parabola
        assert rose >= -1e-5
        d = softmax(u) - before[:4]
        if np.abs(d).max() > 0.01:
            Q = (parameters(work, data) - theta) ** 2 @ λ / (work._kept.step[j] * data.weight[j]) ** 2
            best = best_step(before[:4], d, np.log(softmax(u)), Q * data.weight[j])
            assert work._kept.step[j] == pytest.approx(best, rel=0.15)
            np.testing.assert_allclose(after[:4], before[:4] + work._kept.step[j] * d, atol=1e-5)


def test_the_estimate_of_the_dual_objective_ends_at_the_minimum_of_the_primal():
    data = sequences(n=4, lengths=(5,) * 40, attributes=10, seed=2)
    F, work = Objective(Chain(), data, ridge=0.7), ChainAscent(data, ridge_of(data, False))
    gone(work, rounds=60)
    lowest = minimize(F, LBFGS(), tol=1e-9).trace["objective"][-1]
    assert F.value(work.average()) == pytest.approx(lowest, rel=1e-4)
    assert work.value == pytest.approx(lowest, rel=1e-3)


def test_marginals_of_an_earlier_state_are_found_again_to_the_last_bit():
    F = Objective(Chain(), many(4, n=3), ridge=0.7)
    early = ascent.ascend(F, Ascent(ascent.marginals(F), np.zeros(F.size)), 5)
    kept = [each.copy() for each in (*early.work._kept, *early.work._weights[:3])]
    late = ascent.ascend(F, early, 5)
    assert late.work is early.work
    assert late.rounds > early.rounds
    again = ascent._rewound(F, early, 5)
    assert again is not early.work
    for one, other in zip(kept, (*again._kept, *again._weights[:3]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_average_is_that_of_all_looks_and_looking_changes_nothing():
    data = sequences(lengths=LENGTHS, seed=0)
    apart, together, order = *(ChainAscent(data, ridge_of(data, False)) for _ in range(2)), np.arange(8)
    seen = []
    for j in order:
        apart.visit(np.array([j]))
        seen.append(parameters(apart, data))
        np.testing.assert_allclose(apart.average(), seen[-1], atol=1e-7)
    together.visit(order, snapshots=4)
    np.testing.assert_array_equal(parameters(together, data), seen[-1])
    np.testing.assert_allclose(together.average(), np.mean(seen[1::2], axis=0), atol=1e-6)


@every_kind
def test_its_diagonal_is_that_of_the_model_where_marginals_are_the_models(kind):
    data = sequences(lengths=LENGTHS, seed=0, **kind)
    F, work = Objective(Chain(), data, ridge=0.7), ChainAscent(data, ridge_of(data, False))
    gone(work, rounds=200)
    exact = F.hessian_diagonal(F.point(parameters(work, data)))
    np.testing.assert_allclose(work.hessian_diagonal(), exact, atol=2e-3 * exact.max())


def test_transitions_of_labels_that_are_certain_have_no_curvature():
    data = sequences(lengths=LENGTHS, seed=0, weights=True)
    work = ChainAscent(data, ridge_of(data, False))
    np.testing.assert_array_equal(work.hessian_diagonal(), 0.0)  # marginals begin at what was observed
    of_steps, P = slice(len(data.universe.label), None), work._kept.nodes
    P[:] = np.random.default_rng(0).dirichlet(np.ones(P.shape[1]), size=len(P))
    expected = np.zeros((P.shape[1], P.shape[1]))
    for t in data.inner_tokens():
        both = np.outer(P[t - 1], P[t]).astype(float)
        expected += data.weight[t] * both * (1 - both)
    np.testing.assert_allclose(work.hessian_diagonal()[of_steps], data.universe.from_matrix(expected), rtol=1e-6)


def test_sequences_that_weigh_nothing_do_not_move():
    data = sequences(lengths=(4, 3, 5), seed=0)
    weight = np.repeat([1.0, 0.0, 1.0], (4, 3, 5))
    some = Sequences.of(data.universe, data.starts, data.indptr, data.attributes, None, data.y, weight)
    work = gone(ChainAscent(some, ridge_of(data, False)))
    assert work.gains[1] == 0.0
    np.testing.assert_array_equal(work._kept.nodes[4:7].max(axis=1), 1.0)


# ---------------------------------------------------------------- as a start


def many(seed, **kind):
    return sequences(lengths=tuple(np.random.default_rng(seed).integers(0, 7, size=60)), seed=seed, **kind)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_the_problem_the_end_is_the_optimum_and_the_certificate_is_true(seed):
    rng = np.random.default_rng(seed)
    data = many(seed, n=int(rng.integers(2, 6)), attributes=8, values=bool(seed % 2), weights=bool(seed % 3))
    if data.values is not None:
        scaled = data.values * 10.0 ** rng.integers(-3, 3)
        data = Sequences.of(data.universe, data.starts, data.indptr, data.attributes, scaled, data.y, data.weight)
    ridge = 10.0 ** rng.integers(-2, 3) * np.exp(rng.normal(size=data.universe.size) * (seed % 2))
    F = Objective(Chain(), data, ridge=ridge)
    assert ascent.suits(F)
    found, right = minimize(F, QuasiNewton(), tol=1e-5), minimize(F, LBFGS(), tol=1e-9, max_steps=5000)
    value, lowest = F.value(found.params), F.value(right.params)
    assert found.result.converged
    assert (value - lowest) / value <= found.result.gap + 1e-12


def test_where_it_does_not_suit_the_start_is_another():
    data, zero = many(0, n=3), np.zeros(many(0, n=3).universe.size)
    F = Objective(Chain(), data, ridge=1.0)
    assert ascent.suits(F)
    assert not ascent.suits(Objective(Chain(), data, ridge=np.append(0.0, zero[1:] + 1.0)))
    assert not ascent.suits(Objective(Chain(), data.take(np.arange(9)), ridge=1.0))
    uneven = np.random.default_rng(0).uniform(size=data.n_tokens)
    weighted = Sequences.of(data.universe, data.starts, data.indptr, data.attributes, None, data.y, uneven)
    assert not ascent.suits(Objective(Chain(), weighted, ridge=1.0))


def test_marginals_that_do_not_fit_are_not_asked_for(monkeypatch):
    data = many(0, n=3)
    assert Chain().ascends(data)
    monkeypatch.setattr("majorant.chain.dual.LARGEST", 8 * data.n_tokens)
    assert not Chain().ascends(data)


def test_another_penalty_than_a_ridge_has_another_start():
    class Towards(Penalty):
        def __init__(self, size):
            self.curvature = self.strength = np.ones(size)

        def value(self, theta):
            return 0.5 * float(np.sum((theta - 1) ** 2))

        def gradient(self, theta):
            return theta - 1

        def scaled(self, factor):
            raise NotImplementedError

    data = many(0, n=3)
    F = Objective(Chain(), data, ridge=Towards(data.universe.size))
    assert not ascent.suits(F)
    assert minimize(F, QuasiNewton(), tol=1e-6).result.converged


@pytest.mark.parametrize("fails", ["finite", "astray"])
def test_where_it_fails_one_starts_over_and_says_so(monkeypatch, fails):
    data = many(1, n=3)
    if fails == "finite":
        monkeypatch.setattr(ChainAscent, "visit", lambda self, order, snapshots=1: False)
        monkeypatch.setattr(ChainAscent, "average", lambda self: np.full(data.universe.size, np.nan))
    else:
        monkeypatch.setattr(ChainAscent, "average", lambda self: np.full(data.universe.size, 100.0))
    F = Objective(Chain(), data, ridge=1.0)
    found = minimize(F, QuasiNewton(), tol=1e-6)
    assert found.result.converged
    assert "dual ascent" in found.result.message
    monkeypatch.undo()
    assert "dual ascent" not in minimize(F, QuasiNewton(), tol=1e-6).result.message


def test_slow_rounds_hand_over_to_quasi_newton_steps(monkeypatch):
    data = many(2, n=3)
    F = Objective(Chain(), data, ridge=1e-3)
    states = []
    solver = QuasiNewton()
    states.append(solver.start(F, np.zeros(F.size)))
    while len(states) <= 30:
        states.append(solver.step(F, states[-1]))
    assert any(state.continuation is None and state.solve is not None for state in states)
    values = [F.value(state.theta) for state in states if state.continuation is None]
    assert all(after <= before for before, after in pairwise(values))


def test_steps_take_over_where_the_next_look_is_far(monkeypatch):
    monkeypatch.setattr(ascent, "FAR", 0.0)
    F, solver, states = Objective(Chain(), many(2, n=3), ridge=0.3), QuasiNewton(), []
    states.append(solver.start(F, np.zeros(F.size)))
    while len(states) <= 40:
        states.append(solver.step(F, states[-1]))
    assert all(state.continuation is None for state in states)  # for good
    lowest = F.value(minimize(F, LBFGS(), tol=1e-9, max_steps=5000).params)
    assert F.value(states[-1].theta) == pytest.approx(lowest, rel=1e-6)
    found = minimize(F, QuasiNewton(), tol=1e-6)
    assert found.result.converged
    assert F.value(found.params) - lowest <= found.result.gap * F.value(found.params) + 1e-12


def test_rounds_cover_what_promises_most_and_forget_nobody():
    class Work:
        gains, lengths, rounds, selects = np.array([10.0, 0.0, 1.0, 1.0]), np.array([1, 1, 1, 100]), 2, True

    work = Work()
    assert set(ascent._order(work, 0)) == {0}
    np.testing.assert_allclose(work.gains, [10.0, 0.0, 1.5, 1.5])
    work.selects = False
    assert set(ascent._order(work, 0)) == {0, 1, 2, 3}


def test_a_run_is_resumed_where_it_stopped():
    F = Objective(Chain(), many(3, n=4), ridge=0.1)
    once = minimize(F, QuasiNewton(), tol=1e-8)
    half = minimize(F, QuasiNewton(), tol=1e-8, max_steps=1)
    for _ in range(2):  # the state of a run is not used up by going on from it
        again = minimize(F, QuasiNewton(), tol=1e-8, start=half)
        np.testing.assert_allclose(again.params, once.params, atol=1e-6)


def test_an_ascent_that_is_over_promises_nothing():
    data = sequences(n=1, lengths=(3,) * 40, attributes=4, seed=0)
    F = Objective(Chain(), data, ridge=1.0)
    after = ascent.ascend(F, Ascent(Chain().dual_ascent(data, np.ones(F.size), 0.0), np.zeros(F.size)), 0)
    assert after.promised == 0.0
    assert not after.theta.any()


def threaded(data, c2, many=4):
    """A fit whose dual ascent is shared by threads, and one by a single thread."""
    with sharing(many):
        return [
            minimize(Objective(Chain(k), data, ridge=2 * c2), QuasiNewton(), tol=1e-5, threads=None) for k in (many, 1)
        ]


@pytest.mark.parametrize(("c2", "weighted"), [(1.0, False), (0.05, False), (0.3, True)])
def test_threads_that_share_one_ascent_end_at_the_same_optimum(monkeypatch, c2, weighted):
    monkeypatch.setattr("majorant.chain.dual.AT_A_TIME", 5)
    monkeypatch.setattr("majorant.chain.dual.LEAST_EACH", 5)
    data = sequences(4, np.random.default_rng(0).integers(0, 9, 120), seed=1, weights=weighted)
    shared, alone = threaded(data, c2)
    assert shared.result.converged
    assert shared.trace["objective"][-1] == pytest.approx(alone.trace["objective"][-1], rel=2e-5)


@pytest.mark.parametrize("uneven_penalty", [False, True])
def test_weights_made_anew_from_marginals_are_those_that_one_thread_moved(uneven_penalty):
    data = sequences(4, np.random.default_rng(0).integers(0, 9, 60), seed=2, values=True, weights=True)
    ridge = np.full(data.universe.size, 0.3)
    if uneven_penalty:
        ridge *= np.random.default_rng(1).uniform(0.5, 2.0, len(ridge))
    ascent = SharedAscent(data, ridge, 0.0, 2)
    for k in range(3):
        ChainAscent.visit(ascent, np.random.default_rng(k).permutation(60))
    before = [part.copy() for part in ascent._weights[:3]]
    total = ascent._kept.totals[0]
    ascent._renew()
    for old, new in zip(before, ascent._weights[:3], strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-3, atol=1e-4)
    assert ascent._kept.totals[0] == pytest.approx(total, rel=1e-3)


def test_one_thread_is_the_default_whatever_shares_the_rest():
    X = [[[f"w{k % 7}", f"v{k % 3}"] for k in range(j, j + 5)] for j in range(200)]
    y = [["ab"[k % 2] for k in range(j, j + 5)] for j in range(200)]
    fits = [ChainCRF(n_jobs=n, c2=0.1).fit(X, y) for n in (None, 1)]
    assert fits[0].state_features_ == fits[1].state_features_
