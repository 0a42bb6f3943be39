"""Compiled kernels on rows against their definitions in NumPy (``tests/kernel_oracles.py``)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import expit

import majorant
from majorant.core.kernels import Csr, compiler, dual, partition, products, stochastic
from majorant.core.kernels import logistic as logistic_compiled
from majorant.core.kernels import partition as logistic
from majorant.core.kernels import partition as softmax
from majorant.core.kernels import softmax as softmax_compiled
from majorant.design import DenseDesign
from tests import kernel_oracles, oracles


def rows_of(seed, t=12, p=4, n=3, *, zeros=0.4):
    """Random X with zeros, labels (0 and 1 if n is one), weights and offsets (n×t)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(t, p)) * (rng.uniform(size=(t, p)) >= zeros)
    return X, rng.integers(0, max(n, 2), size=t), rng.uniform(0.5, 3.0, size=t), rng.normal(size=(n, t))


def csr(X, index=np.int32):
    """X by its non-zeros; SciPy has both kinds of index."""
    form = sp.csr_array(X)
    form.indices, form.indptr = form.indices.astype(index), form.indptr.astype(index)
    return Csr.of(form)


def scores_with_zero_measure(seed, n, log_scale=0.5):
    rng = np.random.default_rng(seed)
    scores = 10**log_scale * rng.normal(size=n)
    scores[rng.uniform(size=n) < 0.2] = -np.inf
    scores[rng.integers(n)] = rng.normal()
    return scores


# ---------------------------------------------------------------- Algorithm 1


@pytest.mark.parametrize("u", [0.0, 5e-324, 1e-9, -1e-8, 1e-3, -0.7, 3.0, -40.0, 800.0, -1e4])
@pytest.mark.parametrize("log_z", [0.0, -3.0, 1e4])
def test_an_outcome_is_absorbed_as_algorithm_1_says(log_z, u):
    score = log_z + u
    u = score - log_z  # as it was rounded
    β, κ, after = stochastic.absorb(log_z, score)
    assert β == pytest.approx(partition.curvature_weight(np.array(u)), rel=1e-15)
    assert κ == pytest.approx(expit(u), rel=1e-15)
    assert after == pytest.approx(np.logaddexp(log_z, score), rel=1e-15)


def test_first_outcomes_and_outcomes_of_zero_measure():
    assert stochastic.absorb(-np.inf, 2.5) == (0.0, 1.0, 2.5)
    assert stochastic.absorb(2.5, -np.inf) == (0.0, 0.0, 2.5)
    assert stochastic.absorb(-np.inf, -np.inf) == (0.0, 0.0, -np.inf)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 8), st.booleans(), st.floats(-2, 3))
def test_directions_and_probabilities_of_a_row(seed, n, descending, log_scale):
    scores = scores_with_zero_measure(seed, n, log_scale)
    L, p = stochastic.row_bound(scores, descending, False)
    np.testing.assert_allclose(L, kernel_oracles.directions(scores, descending), atol=1e-14)
    np.testing.assert_allclose(p, np.exp(scores - np.logaddexp.reduce(scores)), atol=1e-14)


@pytest.mark.parametrize("score", [0.0, 0.7, -3.0, 40.0, -800.0])
def test_one_score_against_zero(score):
    L, p = stochastic.row_bound(np.array([score]), True, True)
    _, mean, Σ = oracles.naive_bound(np.zeros(1), np.array([[0.0], [1.0]]), np.array([0.0, score]))
    np.testing.assert_allclose(L.T @ L, Σ, rtol=1e-14)
    np.testing.assert_allclose(p, mean, rtol=1e-14)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_rows_of_several_outcome_sets(seed, sizes):
    rng, indptr = np.random.default_rng(seed), np.concatenate([[0], np.cumsum(sizes)])
    F, weight = rng.normal(size=(indptr[-1], 3)), rng.uniform(0.2, 4.0, size=len(sizes))
    scores = np.concatenate([scores_with_zero_measure(seed + j, n) for j, n in enumerate(sizes)])
    visit = np.concatenate([a + rng.permutation(b - a) for a, b in pairwise(indptr)])
    Q = stochastic.bound_rows(scores, visit, indptr, weight, F)
    for j, w in enumerate(weight):
        some = slice(indptr[j], indptr[j + 1])
        _, _, Σ = oracles.naive_bound(np.zeros(3), F, scores, visit[some])
        np.testing.assert_allclose(Q[some].T @ Q[some], w * Σ, atol=1e-12)


def test_an_outcome_set_knows_nothing_of_the_one_before():
    F = np.array([[1e20], [3e20], [1.0], [3.0]])
    Q = stochastic.bound_rows(np.zeros(4), np.arange(4), np.array([0, 2, 4]), np.ones(2), F)
    np.testing.assert_allclose(Q[:, 0], [0.0, 1e20, 0.0, 1.0], rtol=1e-15)


# ---------------------------------------------------------------- losses, Grams, SGD


def test_the_logistic_function():
    u = np.concatenate([np.linspace(-40, 40, 81), [1e4, -1e4, np.inf, -np.inf]])
    np.testing.assert_allclose([logistic_compiled.sigmoid(x) for x in u], expit(u), rtol=1e-15)


def test_exponentials_and_logarithms_as_arithmetic():
    x = np.concatenate([-np.geomspace(1e-300, 707.9, 5000), np.random.default_rng(0).uniform(-40, 0, 5000), [0.0]])
    np.testing.assert_allclose([compiler.exp_of_negative(v) for v in x], np.exp(x), rtol=5e-16)
    assert [compiler.exp_of_negative(v) for v in (-np.inf, -1e5, -746.0)] == [0.0, 0.0, 0.0]
    assert np.isnan(compiler.exp_of_negative(np.nan))
    e = np.concatenate([np.geomspace(1e-300, 1.0, 5000), np.linspace(0, 1, 5000)])
    np.testing.assert_allclose([compiler.log1p_to_one(v) for v in e], np.log1p(e), rtol=7e-16)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_logistic_loss_is_exact_on_any_scale(weighted):
    u = np.concatenate([np.linspace(-40, 40, 81), [1e4, -1e4, 0.0]])
    for y in (np.zeros(84, dtype=int), np.ones(84, dtype=int)):
        w = np.random.default_rng(0).exponential(size=84) if weighted else np.ones(84)
        residual = np.empty(84)
        loss = logistic_compiled.loss_and_residual(u, y, w if weighted else np.empty(0), residual)
        twin = logistic.loss_and_residual(u, y, w if weighted else None)
        margin = np.where(y == 1, u, -u)
        for value, slopes in ((loss, residual), twin):
            assert value == pytest.approx(w @ np.logaddexp(0, -margin), rel=1e-14)
            np.testing.assert_allclose(slopes, w * np.where(y == 1, -1, 1) * expit(-margin), rtol=1e-14)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [2, 3, 30])
@pytest.mark.parametrize("scale", [0.1, 5.0, 1e3])
def test_the_softmax_loss_is_that_of_its_twin(n, scale, weighted):
    rng = np.random.default_rng(n)
    for t in (1, 63, 64, 200):
        S, y, w = scale * rng.normal(size=(n, t)), rng.integers(0, n, t), rng.exponential(size=t)
        S[(rng.uniform(size=S.shape) < 0.1) & (np.arange(n)[:, None] != y)] = -np.inf
        R = np.empty_like(S)
        loss = softmax_compiled.loss_and_residual(S, y, w if weighted else np.empty(0), R)
        w = w if weighted else np.ones(t)
        losses, P = softmax.log_partition_and_probabilities(S, S[y, np.arange(t)])
        assert loss == pytest.approx(w @ losses, rel=1e-13)
        np.testing.assert_allclose(R, w * (P - (np.arange(n)[:, None] == y)), atol=1e-14)


def test_scores_that_are_no_numbers_are_not_hidden():
    S, y = np.zeros((3, 70)), np.zeros(70, dtype=int)
    for c in range(3):
        wrong = S.copy()
        wrong[c, 66] = np.nan
        assert np.isnan(softmax_compiled.loss_and_residual(wrong, y, np.empty(0), np.empty_like(S)))
    assert np.isnan(logistic_compiled.loss_and_residual(np.full(3, np.nan), y[:3], np.empty(0), np.empty(3)))


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_grams_of_sparse_rows_are_those_of_dense_ones(index):
    X = rows_of(0, t=30, p=6)[0]
    weight = np.random.default_rng(1).normal(size=30)
    found = np.zeros((6, 6))
    for first, last in ((0, 2), (2, 5), (5, 6)):
        products.add_csr_gram(csr(X, index), weight, first, last, found)
    np.testing.assert_allclose(found, np.triu(np.einsum("j,jp,jq->pq", weight, X, X)), atol=1e-13)


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("scale", [1.0, 500.0])
def test_a_residual_is_the_weight_times_probabilities_less_the_label(n, scale):
    scores, weight = scale * np.array([1.0, -2.0, 0.5])[-n:], np.array([2.5])
    expected = kernel_oracles.residuals(scores[None], np.array([1]), weight)[0]
    stochastic.softmax_residual(scores, 1, 2.5)
    np.testing.assert_allclose(scores, expected, atol=1e-15, rtol=1e-13)


@pytest.mark.parametrize("gains", [[0.05] * 6, [0.05, 1 / 6, 0.05, 0.5, 0.05, 0.05], [0.0] * 3, [1e40] * 6])
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_passes_of_sgd_are_their_definition(gains, n, index):
    """Also where a gain of 1/(rows·decay) shrinks all to nothing, and where gains blow it up."""
    X, y, weight, offset = rows_of(0, n=n)
    start = np.random.default_rng(1).normal(size=(n, 4))
    expected = kernel_oracles.sgd(X, y, weight, offset, start, gains, 2, 3.0)
    dense, sparse = start.copy(), np.ascontiguousarray(start.T)
    stochastic.dense_pass(X, y, weight, offset, dense, np.array(gains), 2, np.full(4, 3.0))
    stochastic.csr_pass(csr(X, index), y, weight, offset, sparse, np.array(gains), 2, 3.0, np.zeros(4, bool))
    for found in (dense, sparse.T):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12 * abs(expected).max())


def test_a_last_mini_batch_may_be_smaller():
    X, y, weight, offset = rows_of(2, t=11)
    expected = kernel_oracles.sgd(X, y, weight, offset, np.zeros((3, 4)), [0.05] * 3, 4, 0.7)
    dense, sparse = np.zeros((3, 4)), np.zeros((4, 3))
    stochastic.dense_pass(X, y, weight, offset, dense, np.full(3, 0.05), 4, np.full(4, 0.7))
    stochastic.csr_pass(csr(X), y, weight, offset, sparse, np.full(3, 0.05), 4, 0.7, np.zeros(4, bool))
    np.testing.assert_allclose(dense, expected, rtol=1e-12)
    np.testing.assert_allclose(sparse.T, expected, rtol=1e-12)


def test_columns_have_penalties_of_their_own():
    X, y, weight, offset = rows_of(3)
    dense, decay = np.ones((3, 4)), np.array([0.0, 0.7, 3.0, 0.1])
    expected = kernel_oracles.sgd(X, y, weight, offset, dense.copy(), [0.05] * 3, 4, decay)
    stochastic.dense_pass(X, y, weight, offset, dense, np.full(3, 0.05), 4, decay)
    np.testing.assert_allclose(dense, expected, rtol=1e-12)


@pytest.mark.parametrize("gain", [0.05, 1 / (4 * 3.0)], ids=["some", "one that leaves nothing"])
def test_columns_of_sparse_rows_may_be_free_of_the_penalty(gain):
    X, y, weight, offset = rows_of(3)
    sparse, decay = np.ones((4, 3)), np.array([0.0, 3.0, 3.0, 0.0])
    expected = kernel_oracles.sgd(X, y, weight, offset, sparse.T.copy(), [gain] * 3, 4, decay)
    stochastic.csr_pass(csr(X), y, weight, offset, sparse, np.full(3, gain), 4, 3.0, decay == 0)
    np.testing.assert_allclose(sparse.T, expected, rtol=1e-9)


def test_zeros_that_are_blown_up_stay_zeros():
    X, y, weight, offset = rows_of(0)
    X[:10] = 0.0
    gains = [1e70] * 5 + [0.05]
    expected = kernel_oracles.sgd(X, y, weight, offset, np.zeros((3, 4)), gains, 2, 3.0)
    sparse = np.zeros((4, 3))
    stochastic.csr_pass(csr(X), y, weight, offset, sparse, np.array(gains), 2, 3.0, np.zeros(4, bool))
    np.testing.assert_allclose(sparse.T, expected, rtol=1e-12)


# ---------------------------------------------------------------- low rank


@pytest.mark.parametrize("rank", [0, 1, 3, 6])
def test_absorbing_rows_drops_the_smallest_eigenpair_to_the_diagonal(rank):
    rows = np.random.default_rng(0).normal(size=(20, 6))
    rows[5], rows[6] = rows[4], 0.0  # in the span, and nothing at all
    V, S, D = np.eye(rank, 6), np.zeros((rank, rank)), np.zeros(6)
    L, entries, basis = np.zeros((6, 6)), np.zeros(6), np.eye(rank, 6)
    stochastic.absorb_rows(V, S, D, rows)
    for q in rows:
        L, entries, basis = kernel_oracles.absorb(L, entries, basis, q)
    np.testing.assert_allclose(V @ V.T, np.eye(rank), atol=1e-12)
    np.testing.assert_allclose(V.T @ S @ V, L, atol=1e-10)
    np.testing.assert_allclose(D, entries, atol=1e-10)


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_low_rank_rows_are_steps_with_whole_matrices(rank, n, descending, index):
    X, y, weight, offset = rows_of(3, n=n)
    X[:, 2], X[-2:, 1] = 0.0, 0.0  # a column that is never met, and one that is behind at the end
    d = 4 * n
    shrink, ridge = np.linspace(0.05, 0.2, d), np.linspace(0.5, 2.0, d)
    θ, μ, D = np.random.default_rng(4).normal(size=d), np.zeros(d), ridge.copy()
    expected = kernel_oracles.low_rank_rows(X, y, weight, offset, descending, θ, μ, rank, ridge, 0.3, shrink)
    V, S = np.eye(rank, d), np.zeros((rank, rank))
    batch = (csr(X, index), y, weight, offset, descending)
    if rank:
        stochastic.low_rank_rows(*batch, θ, μ, V, S, D, 0.3, shrink)
    else:
        stochastic.diagonal_rows(*batch, θ, μ, D, 0.3, shrink)
    for found, right in zip((θ, μ, V.T @ S @ V, D), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-8, atol=1e-9)


def test_a_solve_is_that_of_the_whole_matrix():
    rng = np.random.default_rng(5)
    V, half = np.linalg.qr(rng.normal(size=(6, 2)))[0].T.copy(), rng.normal(size=(2, 2))
    E, b = rng.uniform(1, 2, size=6), rng.normal(size=6)
    S = half @ half.T
    np.testing.assert_allclose(stochastic.low_rank_solve(V, S, E, b), np.linalg.solve(V.T @ S @ V + np.diag(E), b))


# ---------------------------------------------------------------- the dual


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("ridge", [0.3, 10.0])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("stiffness", [np.inf, 2.0])
def test_an_epoch_solves_each_row_exactly_against_the_others(n, ridge, index, stiffness):
    X, y, weight, _ = rows_of(6, t=15, p=8, n=n)
    weight[3] = 0.0
    ones = np.full((15, 1), np.sqrt(ridge / stiffness))  # an intercept is a column, of which b is so much
    order, r, W, b = np.random.default_rng(7).permutation(15), np.zeros((15, n)), np.zeros((8, n)), np.zeros(n)
    norms = dual.row_squares(csr(X, index)) / ridge
    np.testing.assert_allclose(norms, (X**2).sum(axis=1) / ridge, rtol=1e-14)
    epoch, free = (dual.binary_epoch, (r[:, 0], W[:, 0])) if n == 1 else (dual.softmax_epoch, (r, W))
    whole, expected = np.column_stack([X, ones]), (r.copy(), np.zeros((9, n)))
    for _ in range(2):
        gain, curvature = epoch(csr(X, index), y, weight, norms, 1 / ridge, 1 / stiffness, order, *free, b)
        before, expected = expected[0], kernel_oracles.dual_epoch(whole, y, weight, ridge, order, *expected)[1:]
    np.testing.assert_allclose(r, expected[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(W, expected[1][:8], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(b, expected[1][8] * ones[0], rtol=1e-5, atol=1e-5)
    assert (curvature > 0) == np.isfinite(stiffness)
    gained = [kernel_oracles.dual_objective(whole, y, weight, ridge, each) for each in (before, expected[0])]
    assert gain == pytest.approx(gained[1] - gained[0], rel=0.3)  # the second sweep moves little


def test_a_shuffle_is_one():
    order, again = np.arange(100), np.arange(100)
    dual.shuffle(order, np.uint64(1))
    dual.shuffle(again, np.uint64(2))
    assert sorted(order) == list(range(100))
    assert (order != again).any()
    firsts = np.zeros(10)
    for seed in range(4000):
        few = np.arange(10)
        dual.shuffle(few, np.uint64(seed * 2**40 + 12345))
        firsts[few[0]] += 1
    assert abs(firsts - 400).max() < 100  # five standard deviations


def test_compiled_rows_of_a_hessian_are_those_of_numpy():
    rng = np.random.default_rng(0)
    indptr, F = np.array([0, 2, 3, 7]), rng.normal(size=(7, 3)) + 5.0
    data = majorant.Choices(F, np.diff(indptr), chosen=[0, 0, 1], weight=[1.0, 0.0, 2.5])
    scores = np.array([0.0, 1.0, 3.0, -np.inf, 1.0, 2.0, -1.0])
    model = majorant.Enumerated()
    rows = stochastic.hessian_rows(model.probabilities(scores, data), indptr, data.weight, F)
    assert_allclose(rows, model.hessian_root_times(scores, data, F), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [2_048, 2_051])
def test_squares_of_columns_are_those_of_their_twin(rows, dtype):
    rng = np.random.default_rng(rows)
    X, weight = rng.normal(size=(rows, 7)).astype(dtype), rng.random((1, rows))
    design, few = DenseDesign(X), DenseDesign(X[:100])
    np.testing.assert_allclose(design.pull_back_squares(weight), weight @ X.astype(float) ** 2, rtol=1e-4)
    np.testing.assert_allclose(
        few.pull_back_squares(weight[:, :100]), weight[:, :100] @ X[:100].astype(float) ** 2, rtol=1e-4
    )
    across = DenseDesign(np.asfortranarray(X))  # no rows side by side
    np.testing.assert_allclose(across.pull_back_squares(weight), design.pull_back_squares(weight), rtol=1e-4)
