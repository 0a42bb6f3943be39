"""Curvatures are one operator in four shapes; bounds among them dominate."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from majorant.curvature import Dense, Diagonal, Kronecker, LowRank, form
from tests import oracles, problems

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(12, 6))
CURVATURES = {
    "dense": Dense(ROWS.T @ ROWS, majorizes=True),
    "diagonal": Diagonal(RNG.exponential(size=6), majorizes=True),
    "kronecker": Kronecker(np.eye(2) - 0.5, ROWS[:, :3].T @ ROWS[:, :3], majorizes=True),
    "low-rank": LowRank.empty(3, 6, majorizes=True).absorb(ROWS),
    "rank 0": LowRank.empty(0, 6, majorizes=True).absorb(ROWS),
}
pairs = [(a, b) for a in CURVATURES for b in CURVATURES]


@pytest.mark.parametrize("name", CURVATURES)
@pytest.mark.parametrize("ridge", [0.7, np.array([0.3, 2.0, 1.0] * 2)], ids=["one", "per parameter"])
def test_matvec_and_solve_agree_with_the_matrix(name, ridge):
    curvature, b = CURVATURES[name], np.arange(1.0, 7.0)
    A = curvature.as_matrix()
    assert curvature.size == 6
    np.testing.assert_allclose(curvature.matvec(b), A @ b, atol=1e-12)
    np.testing.assert_allclose(curvature.solve(b, ridge), np.linalg.solve(A + ridge * np.eye(6), b), atol=1e-10)


@pytest.mark.parametrize(("left", "right"), pairs)
def test_sums_are_exact_or_dominate(left, right):
    a, b = CURVATURES[left], CURVATURES[right]
    exact, total = a.as_matrix() + b.as_matrix(), (a + b)
    if "rank" in left and "rank" in right:
        assert oracles.shortfall(total.as_matrix(), exact) <= 1e-12
    else:
        np.testing.assert_allclose(total.as_matrix(), exact, atol=1e-12)
    assert total.majorizes


def test_a_sum_with_a_metric_is_a_metric():
    for curvature in CURVATURES.values():
        assert not (curvature + Dense(np.eye(6), majorizes=False)).majorizes
    assert not (Diagonal(np.ones(6), True) + Diagonal(np.ones(6), False)).majorizes


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(0, 12), st.integers(1, 40), st.floats(-4, 4))
def test_low_rank_dominates_what_it_absorbs(seed, d, k, m, spread):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(m, d)) * 10 ** (spread * rng.uniform(size=d))
    rows[rng.uniform(size=m) < 0.2] = rows[0]  # exact repeats lie in the span
    low_rank = LowRank.empty(k, d, majorizes=True).absorb(rows)
    assert oracles.shortfall(low_rank.as_matrix(), rows.T @ rows) <= 1e-11
    if k >= d:
        np.testing.assert_allclose(low_rank.as_matrix(), rows.T @ rows, atol=1e-9 * np.abs(rows).max() ** 2)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(problems.MAKERS), st.integers(0, 1000), st.floats(-1, 1.5))
def test_every_bound_dominates_the_hessian_and_each_coarser_one_the_dense(maker, seed, log_scale):
    F = problems.make(maker, seed)
    theta = 10**log_scale * np.random.default_rng(seed).normal(size=F.size)
    dense = F.bound(theta).curvature.as_matrix()
    hessian = F.hessian(theta)[2].as_matrix()
    assert oracles.shortfall(dense, hessian) <= 1e-11
    coarser = ["diagonal", "low-rank"]
    if maker.__name__.startswith(("binary", "two", "multi")):
        coarser.append("kronecker")
        fixed = F.bound(theta, "boehning").curvature.as_matrix()
        assert oracles.shortfall(fixed, hessian) <= 1e-11
    for name in coarser:
        bound = F.bound(theta, name, rank=2).curvature
        assert bound.majorizes
        assert oracles.shortfall(bound.as_matrix(), dense) <= 1e-11


def test_singular_systems_are_solved_with_least_norm():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(3, 5)) * [1, 1e3, 1e-3, 1, 1]
    A = rows.T @ rows
    b = A @ rng.normal(size=5)
    x = Dense(A, majorizes=True).solve(b)
    np.testing.assert_allclose(A @ x, b, rtol=1e-6, atol=1e-9 * np.abs(b).max())
    assert Diagonal(np.array([2.0, 0.0]), True).solve(np.array([1.0, 0.0])).tolist() == [0.5, 0.0]


def test_refusals_say_what_to_do():
    with pytest.raises(ValueError, match="curvature must be one of 'dense', 'low-rank'"):
        form("hessian")
    with pytest.raises(ValueError, match="ridge > 0"):
        LowRank.empty(2, 5, majorizes=True).solve(np.ones(5))
    with pytest.raises(ValueError, match="same ridge in every class"):
        CURVATURES["kronecker"].solve(np.ones(6), np.arange(6.0))
    with pytest.raises(ValueError, match="rank must be non-negative, got -1"):
        LowRank.empty(-1, 5, majorizes=True)
    with pytest.raises(ValueError, match="no classes to factor out"):
        problems.make(problems.conditional_logit).bound(np.zeros(5), "kronecker")
