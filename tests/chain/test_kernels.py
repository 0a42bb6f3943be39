"""Compiled kernels on chains against enumeration and NumPy (``tests/kernel_oracles.py``)."""

from __future__ import annotations

from itertools import pairwise

import numba
import numpy as np
import pytest

from majorant.chain.kernels import forward_backward, online, paths, rows
from majorant.core.kernels import Features, Occurrences, partition
from tests import kernel_oracles

STARTS = np.array([0, 3, 3, 4, 8])  # an empty sequence, and one of one token
TOKENS, ATTRIBUTES, N, WIDTH = 8, 6, 3, 8
FLOOR = np.zeros((4 + WIDTH, WIDTH))  # which labels there are, begin with, end with, and may follow each other: all
FLOOR[0, N:], FLOOR[1, :N], FLOOR[4 : 4 + N, :N] = -1e30, 1.0, 1.0


class Tokens:
    """Tokens with sparse attributes: F holds their values; ``there`` says which pairs with a label have a parameter."""

    def __init__(self, seed=0, *, values=True, share=0.7):
        rng = np.random.default_rng(seed)
        occurs = rng.uniform(size=(TOKENS, ATTRIBUTES)) < 0.5
        self.F = np.where(occurs, rng.normal(size=occurs.shape) if values else 1.0, 0.0)
        self.there = rng.uniform(size=(ATTRIBUTES, N)) < share
        self.y = rng.integers(0, N, size=TOKENS).astype(np.int32)
        self.label = np.nonzero(self.there)[1].astype(np.uint16)
        self.first = np.concatenate([[0], np.cumsum(self.there.sum(axis=1))]).astype(np.uint32)
        self.attributes = np.nonzero(occurs)[1].astype(np.uint32)
        self.indptr = np.concatenate([[0], np.cumsum(occurs.sum(axis=1))]).astype(np.uint32)
        self.values = self.F[occurs] if values else None

    def occurrences(self):
        return Occurrences(self.indptr, self.attributes, self.values, self.first, self.label)

    def features(self, tabled):
        """Attributes before ``tabled`` are rows of a table, the others have parameters one by one."""
        rows, codes, values, row_starts, starts = [], [], [], [0], [0]
        for v in self.F:
            for a in np.flatnonzero(v):
                if a < tabled:
                    rows.append((a, v[a]))
                else:
                    places = range(self.first[a], self.first[a + 1])
                    codes += [f << 2 | int(self.label[f]) for f in places]
                    values += [v[a]] * len(places)
            row_starts.append(len(rows))
            starts.append(len(codes))
        tables, of_rows = np.array(rows).reshape(-1, 2).T
        of_codes = np.array(values)
        if self.values is None:
            of_rows = of_codes = None
        packed = np.array(codes, dtype=np.uint32)
        singles = (np.array(starts), packed, of_codes, np.uint32(2), np.uint32(3))
        return Features(np.array(row_starts), tables.astype(np.uint32), of_rows, *singles)


def transitions(seed, scale=1.0):
    """Scores of transitions, padded."""
    A = np.zeros((WIDTH, WIDTH))
    A[:N, :N] = scale * np.random.default_rng(seed).normal(size=(N, N))
    return A


def exponentials(U, A):
    """E, T and the shifts, as models prepare them for conditionals."""
    E, T, largest = np.exp(U - U[:, :N].max(axis=1, keepdims=True)), np.exp(A), U[:, :N].max(axis=1)
    E[:, N:], T[N:], T[:, N:] = 0.0, 0.0, 0.0
    return E, T, largest


@numba.njit
def online_scores(x, begin, m, θ, floor, U, width):
    x, θ, floor, U = rows.bare((x, θ, floor, U), width)
    online.state_scores(x, begin, m, θ, floor, U)


@numba.njit
def online_move(x, begin, m, P, y, weight, share, θ, D):
    online.move_states(x, begin, m, P, y, weight, share, θ, D)


def viterbi(U, A, starts, y):
    paths.viterbi(U, A, starts, N, np.empty((len(U), N)), y)


def state_scores(seed, scale=1.0):
    U = np.zeros((TOKENS, WIDTH))
    U[:, :N] = scale * np.random.default_rng(seed).normal(size=(TOKENS, N))
    return U


# ---------------------------------------------------------------- features


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("tabled", [0, 2, ATTRIBUTES])
def test_scores_and_gradients_are_products_with_the_matrix_of_attributes(values, tabled):
    tokens, rng = Tokens(values=values), np.random.default_rng(1)
    x = tokens.features(tabled)
    Θ = np.where(tokens.there, rng.normal(size=tokens.there.shape), 0.0)
    table = np.zeros((tabled, WIDTH))
    table[:, :N] = Θ[:tabled]
    U = np.full((TOKENS, WIDTH), np.nan)
    forward_backward.scores(x, Θ[tokens.there], table, FLOOR, U, (0,))
    np.testing.assert_allclose(U[:, :N], tokens.F @ Θ, atol=1e-13)
    assert (U[:, N:] == -1e30).all()
    again = np.full((5, WIDTH), np.nan)
    online_scores(tokens.occurrences(), 3, 5, Θ[tokens.there], FLOOR, again, (0,))
    np.testing.assert_allclose(again, U[3:], atol=1e-13)
    R = state_scores(2)
    G, sums = np.zeros(tokens.there.sum()), np.zeros((tabled, WIDTH))
    forward_backward.lifted(x, R, G, sums, (0,))
    found = np.zeros_like(Θ)
    found[tokens.there] = G
    found[:tabled] = sums[:, :N]
    expected = tokens.F.T @ R[:, :N]
    expected[tabled:][~tokens.there[tabled:]] = 0.0
    np.testing.assert_allclose(found, expected, atol=1e-13)


# ---------------------------------------------------------------- sums over labellings


@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_marginals_are_those_of_all_labellings(scale, weighted):
    U, A = state_scores(0, scale), transitions(1, scale)
    weight = np.repeat([0.5, 2.0, 0.0], [3, 1, 4]) if weighted else np.ones(TOKENS)
    P, pairs, room = np.empty_like(U), np.zeros_like(A), forward_backward.room_for(STARTS, WIDTH)
    total = forward_backward.marginals(U, A, STARTS, weight if weighted else None, FLOOR, room, (0,), P, pairs)
    expected, steps = 0.0, np.zeros((N, N))
    for begin, end in pairwise(STARTS):
        if begin < end:
            log_z, nodes, of_pairs = kernel_oracles.chain_marginals(U[begin:end, :N], A[:N, :N])
            np.testing.assert_allclose(P[begin:end, :N], weight[begin] * nodes, atol=1e-12)
            expected += weight[begin] * log_z
            steps += weight[begin] * of_pairs.sum(axis=0)
    assert total == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(pairs[:N, :N], steps, atol=1e-12)
    assert not P[:, N:].any()
    assert not pairs[N:].any()
    assert not pairs[:, N:].any()


@pytest.mark.parametrize("scale", [0.0, 1.0, 5.0])
def test_conditionals_are_those_of_all_labellings(scale):
    """The value, and its derivative along every score by finite differences."""
    U, A, y = state_scores(0, scale), transitions(1, scale), np.random.default_rng(2).integers(0, N, size=TOKENS)
    weight = np.array([1.0, 0.0, 2.0, 0.5, 0.3, 0.3, 1.7, 0.0])

    def kernel(U, A):
        E, T, largest = exponentials(U, A)
        P, pairs = np.empty_like(U), np.zeros_like(A)
        return paths.conditionals(E, T, STARTS, y, weight, largest, P, pairs), P, pairs

    def definition(U, A):
        total = 0.0
        for begin, end in pairwise(STARTS):
            if begin < end:
                some = slice(begin, end)
                total += kernel_oracles.chain_conditionals(U[some, :N], A[:N, :N], y[some], weight[some])
        return total

    observed, inner = np.zeros_like(U), np.array([1, 2, 5, 6, 7])
    observed[np.arange(TOKENS), y] = weight
    steps = np.zeros_like(A)
    np.add.at(steps, (y[inner - 1], y[inner]), weight[inner])
    value, P, pairs = kernel(U, A)
    assert value - (observed * U).sum() - (steps * A).sum() == pytest.approx(definition(U, A), abs=1e-10)
    rng = np.random.default_rng(3)
    for _ in range(5):
        V, B = np.zeros_like(U), np.zeros_like(A)
        V[:, :N], B[:N, :N] = rng.normal(size=(TOKENS, N)), rng.normal(size=(N, N))
        numeric = (definition(U + 1e-5 * V, A + 1e-5 * B) - definition(U - 1e-5 * V, A - 1e-5 * B)) / 2e-5
        slope = ((P - observed) * V).sum() + ((pairs - steps) * B).sum()
        assert slope == pytest.approx(numeric, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_viterbi_finds_the_likeliest_of_all_labellings(seed):
    U, A, y = state_scores(seed), transitions(seed + 9), np.full(TOKENS, 9, dtype=np.int32)
    viterbi(U, A, STARTS, y)
    for begin, end in pairwise(STARTS):
        if begin < end:
            every, scores = kernel_oracles.labellings(U[begin:end, :N], A[:N, :N])
            assert y[begin:end].tolist() == every[scores.argmax()].tolist()


def test_of_equally_likely_labellings_the_first_is_taken():
    y = np.full(4, 9, dtype=np.int32)
    viterbi(np.zeros((4, 8)), np.zeros((8, 8)), np.array([0, 3, 4]), y)
    assert y.tolist() == [0, 0, 0, 0]
    U, A = np.zeros((2, 8)), np.zeros((8, 8))
    A[2, 1] = A[1, 1] = 1.0  # the last label is 1, and both 1 and 2 lead there
    viterbi(U, A, np.array([0, 2]), y)
    assert y[:2].tolist() == [1, 1]


# ---------------------------------------------------------------- the bound


@pytest.mark.parametrize("scale", [0.1, 1.0, 100.0])
@pytest.mark.parametrize(("T", "n"), [(1, 2), (1, 5), (2, 1), (2, 3), (5, 3), (3, 4)])
def test_the_bound_over_a_chain_is_algorithm_1_at_every_label(T, n, scale):
    rng = np.random.default_rng(T + n)
    U, A = scale * rng.normal(size=(T, n)), scale * rng.normal(size=(n, n))
    Q = paths.bound_rows(U, A)
    np.testing.assert_allclose(Q.T @ Q, kernel_oracles.chain_bound(U, A), atol=1e-12)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_the_bound_of_one_token_is_that_of_a_row(n):
    U, A = np.random.default_rng(n).normal(size=(1, n)), np.ones((n, n))
    Q = paths.bound_rows(U, A)
    np.testing.assert_allclose(Q[:, :n].T @ Q[:, :n], partition.bound_matrices(U.T)[:, :, 0], atol=1e-12)
    assert not Q[:, n:].any()  # one token has no transition


# ---------------------------------------------------------------- one pass online


def run_online(tokens, weight, order, share, Θ, D, A, DA):
    """Return what the kernel makes of parameters and metric; pairs without a parameter are left out of both."""
    θ, metric = Θ[tokens.there].copy(), D[tokens.there].copy()
    steps, of_steps = transitions(0, 0.0), np.full((WIDTH, WIDTH), np.inf)
    steps[:N, :N], of_steps[:N, :N] = A, DA
    online.online_pass(
        tokens.occurrences(),
        STARTS,
        tokens.y,
        weight,
        order,
        share,
        FLOOR,
        forward_backward.room_for(STARTS, WIDTH),
        (0,),
        θ,
        metric,
        steps,
        of_steps,
    )
    assert not steps[N:].any()
    assert not steps[:, N:].any()
    return θ, metric, steps[:N, :N], of_steps[:N, :N]


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize(("scale", "prior"), [(0.0, 2.0), (1.0, 0.5), (30.0, 1e-3)])
def test_an_online_pass_is_its_definition(values, uneven, scale, prior):
    """From zero; from anywhere; and from where a model is surely wrong in a metric that says nothing."""
    tokens, rng = Tokens(values=values), np.random.default_rng(5)
    weight = rng.uniform(0.2, 3.0, size=TOKENS) if uneven else np.ones(TOKENS)
    order, share = np.array([3, 0, 1, 2, 0]), 0.25
    Θ = scale * np.where(tokens.there, rng.normal(size=tokens.there.shape), 0.0)
    D = np.where(tokens.there, prior * rng.uniform(1, 2, size=Θ.shape), np.inf)
    DA = prior * rng.uniform(1, 2, size=(N, N))
    DA[0, 1] = np.inf  # a transition without a parameter
    A = scale * rng.normal(size=(N, N)) * np.isfinite(DA)
    found = run_online(tokens, weight, order, share, Θ, D, A, DA)
    expected = kernel_oracles.online_pass(tokens.F, STARTS, tokens.y, weight, order, share, online.LEAP, Θ, D, A, DA)
    theta, metric, steps, of_steps = expected
    for one, other in zip(found, (theta[tokens.there], metric[tokens.there], steps, of_steps), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    assert found[2][0, 1] == 0.0


@pytest.mark.parametrize("weight", [1.0, 7.0])
def test_no_token_moves_a_score_by_more_than_a_leap(weight):
    """Two attributes of values 2 and −1, surely wrong, in a metric of nearly nothing: the score of each label leaps."""
    x = Occurrences(
        np.array([0, 2], dtype=np.uint32),
        np.array([0, 1], dtype=np.uint32),
        np.array([2.0, -1.0]),
        np.array([0, 2, 4], dtype=np.uint32),
        np.array([0, 1, 0, 1], dtype=np.uint16),
    )
    θ, D = np.array([-50.0, 50.0, 0.0, 0.0]), np.full(4, 1e-9)
    before, P = np.array([2.0, -1.0]) @ θ.reshape(2, 2), np.array([[0.0, 1.0]])
    online_move(x, 0, 1, P, np.array([0]), np.array([weight]), 0.25, θ, D)
    after = np.array([2.0, -1.0]) @ θ.reshape(2, 2)
    np.testing.assert_allclose(after - before, [8.0, -8.0], rtol=1e-12)
    np.testing.assert_array_equal(D, 1e-9)  # p(1 − p) is zero
