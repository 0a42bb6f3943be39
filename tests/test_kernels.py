"""Class-space kernels against their definitions."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from majorant.kernels import gram, logistic, low_rank, partition, partition_compiled, sgd, softmax
from tests import oracles


def random_scores(seed, n, t=7, scale=3.0):
    rng = np.random.default_rng(seed)
    S = scale * rng.normal(size=(n, t))
    S[rng.uniform(size=S.shape) < 0.15] = -np.inf
    S[rng.integers(n, size=t), np.arange(t)] = rng.normal(size=t)
    return S


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 8), st.sampled_from(partition.ORDERS), st.floats(-2, 4))
def test_matrices_are_sums_of_directions_and_dominate_the_hessian(seed, n, order, log_scale):
    S = random_scores(seed, n, scale=10**log_scale)
    B, L = partition.bound_matrices(S, order), partition.bound_directions(S, order)
    np.testing.assert_allclose(B, np.einsum("ycj,yej->cej", L, L), atol=1e-13)
    np.testing.assert_allclose(B.sum(axis=0), 0, atol=1e-13)
    for difference in np.moveaxis(B - softmax.hessian_matrices(S), 2, 0):
        assert np.linalg.eigvalsh(difference)[0] >= -1e-13


def test_matrices_equal_algorithm_1_on_unit_features():
    S = random_scores(3, 6)
    B = partition.bound_matrices(S, "given")
    for j in range(S.shape[1]):
        _, _, Sigma = oracles.naive_bound(np.zeros(6), np.eye(6), S[:, j])
        np.testing.assert_allclose(B[:, :, j], Sigma, atol=1e-12)


def test_curvature_weight_is_smooth_even_and_bounded():
    u = np.concatenate([[0.0], np.logspace(-12, 3, 2000)])
    beta = partition.curvature_weight(u)
    np.testing.assert_array_equal(beta, partition.curvature_weight(-u))
    assert beta[0] == 0.25
    assert (np.diff(beta) <= 1e-16).all()
    at_switch = partition.curvature_weight(np.array([1e-2 * (1 - 1e-12), 1e-2]))
    assert at_switch[0] == pytest.approx(at_switch[1], rel=1e-12)
    assert partition.curvature_weight(np.array([np.inf, -np.inf])).tolist() == [0.0, 0.0]


def test_hessian_directions_make_the_hessian():
    S = random_scores(5, 5)
    L = softmax.hessian_directions(S)
    np.testing.assert_allclose(np.einsum("ycj,yej->cej", L, L), softmax.hessian_matrices(S), atol=1e-14)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 8), st.booleans())
def test_row_and_feature_kernels_equal_class_space(seed, n, descending):
    order = "descending" if descending else "given"
    S = random_scores(seed, n, t=4) if n > 1 else np.random.default_rng(seed).normal(size=(1, 4))
    F = np.random.default_rng(seed).normal(size=(n, 3))
    for j in range(4):
        L, p = partition_compiled.row_bound(S[:, j].copy(), descending, n == 1)
        if n == 1:
            B, P = partition.curvature_weight(S[:, j]), 1 / (1 + np.exp(-S[:, j]))
        else:
            B, P = partition.bound_matrices(S, order)[:, :, j], softmax.log_partition_and_probabilities(S)[1][:, j]
            visit = partition.visiting_order(S[:, [j]], order)
            visit = np.arange(n) if visit is None else visit[:, 0]
            Q = partition_compiled.bound_rows(S[:, j].copy(), visit, np.array([0, n]), np.full(1, 4.0), F)
            np.testing.assert_allclose(Q.T @ Q, 4 * F.T @ B @ F, atol=1e-10)
        np.testing.assert_allclose(L.T @ L, B.reshape(n, n), atol=1e-12)
        np.testing.assert_allclose(p, P, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_logistic_kernel_is_exact_on_any_scale(weighted):
    u = np.concatenate([np.linspace(-40, 40, 81), [1e4, -1e4, 0.0]])
    for y in (np.zeros(84, dtype=int), np.ones(84, dtype=int)):
        w = np.random.default_rng(0).exponential(size=84) if weighted else np.ones(84)
        residual = np.empty(84)
        loss = logistic.loss_and_residual(u, y, w if weighted else np.empty(0), residual)
        margin = np.where(y == 1, u, -u)
        assert loss == pytest.approx(w @ np.logaddexp(0, -margin), rel=1e-14)
        np.testing.assert_allclose(residual, w * np.where(y == 1, -1, 1) * expit(-margin), rtol=1e-14)


def test_compiled_kernels_equal_their_python_twins():
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.uniform(size=(30, 6)) * (rng.uniform(size=(30, 6)) < 0.3))
    X.sum_duplicates()
    weights = rng.normal(size=(30, 2))
    arguments = (X.data, X.indices, X.indptr, weights, 6)
    np.testing.assert_allclose(gram.csr_grams(*arguments), gram.csr_grams.py_func(*arguments), atol=1e-13)
    rows = rng.normal(size=(20, 6))
    states = [(np.eye(3, 6), np.zeros((3, 3)), np.zeros(6)) for _ in range(2)]
    low_rank.absorb_rows(*states[0], rows)
    low_rank.absorb_rows.py_func(*states[1], rows)
    matrices = [V.T @ S @ V + np.diag(D) for V, S, D in states]
    np.testing.assert_allclose(*matrices, atol=1e-10)


@pytest.mark.parametrize("run", [sgd.softmax_residual, sgd.softmax_residual.py_func])
@pytest.mark.parametrize("weight", [1.0, 2.5])
def test_a_residual_is_the_weight_times_probabilities_less_the_label(run, weight):
    scores = np.array([1.0, -2.0, 0.5])
    p = np.exp(scores) / np.exp(scores).sum()
    run(scores, 1, weight)
    np.testing.assert_allclose(scores, weight * (p - [0, 1, 0]), rtol=1e-13)
    one = np.array([0.7])
    run(one, 1, weight)
    np.testing.assert_allclose(one, weight * (expit(0.7) - 1), rtol=1e-13)


def both_forms_of_sgd(X, start, gains):
    """Return what mini-batches of two rows make of the coefficients, dense and sparse."""
    rng, form = np.random.default_rng(0), sp.csr_array(X)
    rest = (rng.integers(0, 3, size=len(X)), rng.uniform(0.5, 3, size=len(X)), rng.normal(size=(3, len(X))))
    dense, sparse = start.copy(), np.ascontiguousarray(start.T)
    sgd.dense_pass(X, *rest, dense, np.array(gains), 2, 3.0)
    sgd.csr_pass(form.data, form.indices, form.indptr, *rest, sparse, np.array(gains), 2, 3.0)
    assert np.isfinite(dense).all()
    return dense, sparse.T


@pytest.mark.parametrize("gains", [[0.05] * 6, [0.05, 1 / 6, 0.05, 0.5, 0.05, 0.05], [1e40] * 6])
def test_sgd_on_sparse_rows_is_that_on_dense_ones(gains):
    """Also where a gain of 1/(rows·decay) shrinks all to nothing, and where gains blow it up."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 4)) * (rng.uniform(size=(12, 4)) < 0.6)
    dense, sparse = both_forms_of_sgd(X, rng.normal(size=(3, 4)), gains)
    np.testing.assert_allclose(sparse, dense, rtol=1e-9, atol=1e-12 * abs(dense).max())


def test_zeros_that_are_blown_up_stay_zeros():
    X = np.zeros((12, 4))
    X[10:] = np.random.default_rng(0).normal(size=(2, 4))
    dense, sparse = both_forms_of_sgd(X, np.zeros((3, 4)), [1e70] * 5 + [0.05])
    np.testing.assert_allclose(sparse, dense, rtol=1e-12)


def test_a_step_of_sgd_is_its_definition():
    rng = np.random.default_rng(1)
    X, y, weight = rng.normal(size=(4, 3)), np.array([0, 2, 1, 1]), np.array([1.0, 4.0, 0.5, 2.0])
    W = rng.normal(size=(3, 3))
    scores = X @ W.T
    P = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    expected = W - 0.1 * ((weight[:, None] * (P - np.eye(3)[y])).T @ X + 4 * 0.7 * W)
    sgd.dense_pass(X, y, weight, np.zeros((3, 4)), W, np.array([0.1]), 4, 0.7)
    np.testing.assert_allclose(W, expected, rtol=1e-12)
