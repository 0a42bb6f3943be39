"""Class-space kernels against their definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from majorant.core.kernels import partition, stochastic
from majorant.core.kernels import partition as softmax
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
    at_switch = partition.curvature_weight(partition.FLAT * np.array([1 - 1e-12, 1.0]))
    assert at_switch[0] == pytest.approx(at_switch[1], rel=1e-15)
    assert partition.curvature_weight(np.array([5e-324])) == 0.25  # half of which is zero
    series = 0.25 - u**2 / 48 + u**4 / 480 - 17 * u**6 / 80640
    np.testing.assert_allclose(beta[u < 1e-2], series[u < 1e-2], rtol=5e-16)
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
        L, p = stochastic.row_bound(S[:, j].copy(), descending, n == 1)
        if n == 1:
            B, P = partition.curvature_weight(S[:, j]), 1 / (1 + np.exp(-S[:, j]))
        else:
            B, P = partition.bound_matrices(S, order)[:, :, j], softmax.log_partition_and_probabilities(S)[1][:, j]
            visit = partition.visiting_order(S[:, [j]], order)
            visit = np.arange(n) if visit is None else visit[:, 0]
            Q = stochastic.bound_rows(S[:, j].copy(), visit, np.array([0, n]), np.full(1, 4.0), F)
            np.testing.assert_allclose(Q.T @ Q, 4 * F.T @ B @ F, atol=1e-10)
        np.testing.assert_allclose(L.T @ L, B.reshape(n, n), atol=1e-12)
        np.testing.assert_allclose(p, P, atol=1e-12)
