"""Curvatures are one operator in many shapes; bounds among them dominate."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dpotrs

from majorant import Choices, Enumerated, Objective, log_partition_bound
from majorant.core.curvature import WORTH_SHARING, Factor, lower_factor
from majorant.core.threads import sharing
from majorant.curvature import Block, Dense, Diagonal, DiagonalByClass, Growing, Kronecker, LowRank, form
from tests import oracles, problems

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(12, 6))
CURVATURES = {
    "dense": Dense(ROWS.T @ ROWS, majorizes=True),
    "diagonal": Diagonal(RNG.exponential(size=6), majorizes=True),
    "kronecker": Kronecker(np.eye(2) - 0.5, ROWS[:, :3].T @ ROWS[:, :3], majorizes=True),
    "low-rank": LowRank.empty(3, 6, majorizes=True).absorb(ROWS),
    "rank 0": LowRank.empty(0, 6, majorizes=True).absorb(ROWS),
    "block": Block((Dense(ROWS[:, :3].T @ ROWS[:, :3], True), Diagonal(np.arange(1.0, 4), True)), majorizes=True),
    "other block": Block((Diagonal(np.arange(1.0, 4), True), Diagonal(np.ones(3), True)), majorizes=True),
    "classes apart": Kronecker(np.eye(2), ROWS[:, 3:].T @ ROWS[:, 3:], majorizes=True),
    "diagonal by class": DiagonalByClass(np.array([[1.0, -0.3], [-0.3, 0.5]]), RNG.exponential(size=3)),
    "growing": Growing(np.diag(np.arange(1.0, 7))).grown(ROWS[:1], ROWS[:1] / np.arange(1.0, 7), np.ones((1, 1))),
}
pairs = [(a, b) for a in CURVATURES for b in CURVATURES]


@pytest.mark.parametrize("name", CURVATURES)
@pytest.mark.parametrize("ridge", [0.7, np.array([0.3, 2.0, 1.0] * 2)], ids=["one", "per parameter"])
def test_matvec_and_solve_agree_with_the_matrix(name, ridge):
    curvature, b = CURVATURES[name], np.arange(1.0, 7.0)
    A = curvature.as_matrix()
    assert curvature.size == 6
    np.testing.assert_allclose(curvature.matvec(b), A @ b, atol=1e-12)
    solution = np.linalg.solve(A + ridge * np.eye(6), b)
    np.testing.assert_allclose(curvature.solve(b, ridge), solution, atol=1e-10)
    assert curvature.compact().shape in ((6, 6), (2, 3, 3), (6,))
    travelled = pickle.loads(pickle.dumps(curvature.factorized(ridge)))
    np.testing.assert_allclose(travelled(b), solution, atol=1e-10)


@pytest.mark.parametrize(("left", "right"), pairs)
def test_sums_are_exact_or_dominate(left, right):
    a, b = CURVATURES[left], CURVATURES[right]
    exact, total = a.as_matrix() + b.as_matrix(), (a + b)
    if "rank" in left and "rank" in right:
        assert oracles.shortfall(total.as_matrix(), exact) <= 1e-12
    else:
        np.testing.assert_allclose(total.as_matrix(), exact, atol=1e-12)
    assert total.majorizes == (a.majorizes and b.majorizes)


def test_a_sum_with_what_is_no_bound_is_none():
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
    hessian = oracles.hessian(theta, oracles.enumerate_sets(F.model, F.data), 0.0)
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


def test_singular_systems_are_solved():
    rng = np.random.default_rng(1)
    scale = np.array([1, 1e3, 1e-3, 1, 1])
    rows = rng.normal(size=(3, 5))
    A = rows.T @ rows
    b = A @ rng.normal(size=5)
    x = Dense(A, majorizes=True).solve(b)
    np.testing.assert_allclose(A @ x, b, atol=1e-9)
    scaled = Dense(A * np.outer(scale, scale), majorizes=True).solve(b * scale)
    np.testing.assert_allclose(scaled * scale, x, atol=1e-9)  # units do not matter
    low_rank = LowRank.empty(5, 5, majorizes=True).absorb(rows)  # exact, so its diagonal is zero
    np.testing.assert_allclose(A @ low_rank.solve(b), b, atol=1e-8)
    assert Diagonal(np.array([2.0, 0.0]), True).solve(np.array([1.0, 0.0])).tolist() == [0.5, 0.0]


def test_a_pivot_that_is_rounding_noise_is_not_divided_by():
    """Cholesky succeeds on this matrix; what it makes of a last bit in b is then no solution of least norm."""
    A = np.array([[1.0, 1.0], [1.0, 1.0 + 2**-52]])
    b = np.array([1.0, 1.0 + 2**-50])
    np.linalg.cholesky(A)
    np.testing.assert_allclose(Dense(A, majorizes=True).solve(b), [0.5, 0.5], atol=1e-8)
    np.testing.assert_allclose(Dense(A, majorizes=True).solve(np.ones(2), ridge=1.0), [1 / 3, 1 / 3], atol=1e-12)


def test_kronecker_eigenvalues_of_any_size():
    tiny = Kronecker(1e-13 * np.diag([1.0, 2.0]), 1e13 * np.eye(2), majorizes=True)
    np.testing.assert_allclose(tiny.solve(np.ones(4)), [1, 1, 0.5, 0.5])


def test_diagonal_and_low_rank_stay_low_rank():
    for total in (
        CURVATURES["diagonal"] + CURVATURES["low-rank"],
        CURVATURES["low-rank"] + CURVATURES["diagonal"],
    ):
        assert isinstance(total, LowRank)


def test_factors_without_rows_are_zero_curvature():
    F = Objective(Enumerated(), Choices(np.ones((3, 2)), sizes=[1, 1, 1], chosen=[0, 0, 0]), ridge=1.0)
    for name in ("dense", "diagonal", "low-rank"):
        np.testing.assert_array_equal(F.bound(np.zeros(2), name).curvature.as_matrix(), np.zeros((2, 2)))


def test_large_outcome_sets_cost_memory_in_proportion():
    """30,000 outcomes: a class-space matrix would need 7 GB."""
    features = np.random.default_rng(0).normal(size=(30_000, 2))
    bound = log_partition_bound(np.ones(2), features)
    theta = np.array([0.3, -1.0])
    assert bound(theta) >= oracles.log_partition(theta, features)


def test_refusals_say_what_to_do():
    with pytest.raises(ValueError, match="curvature must be one of 'dense', 'low-rank'"):
        form("hessian")
    with pytest.raises(ValueError, match="same ridge in every class"):
        CURVATURES["kronecker"].solve(np.ones(6), np.arange(6.0))
    with pytest.raises(ValueError, match="rank must be a whole number of at least 0, got -1"):
        LowRank.empty(-1, 5, majorizes=True)
    with pytest.raises(ValueError, match="no classes to factor out"):
        problems.make(problems.conditional_logit).bound(np.zeros(5), "kronecker")


@pytest.mark.parametrize("size", [WORTH_SHARING - 1, WORTH_SHARING, 300])
@pytest.mark.parametrize("many", [None, 1, 4])
def test_lapack_while_other_threads_run_is_lapack(size, many):
    rng = np.random.default_rng(size)
    rows = rng.normal(size=(2 * size, size))
    A, b = rows.T @ rows, rng.normal(size=size if many is None else (many, size)).T
    before, given = A.copy(), b.copy()
    L = lower_factor(A)
    np.testing.assert_allclose(np.tril(L) @ np.tril(L).T, A, atol=1e-12 * size * A.max())
    np.testing.assert_array_equal(np.tril(L), np.tril(dpotrf(A, lower=1)[0]))
    np.testing.assert_array_equal(Factor(L)(b), dpotrs(L, b, lower=1)[0])
    np.testing.assert_array_equal(Factor(np.ascontiguousarray(L))(b), Factor(L)(b))
    np.testing.assert_array_equal(A, before)
    np.testing.assert_array_equal(b, given)
    with pytest.raises(LinAlgError, match="minor of order 1 "):
        lower_factor(-A)
    assert lower_factor(A.T, overwrite=True) is not None
    np.testing.assert_array_equal(np.tril(A.T), np.tril(L))  # there


def test_solves_of_groups_do_not_depend_on_threads():
    rng = np.random.default_rng(0)
    rows, classes = rng.normal(size=(500, 280)), rng.normal(size=(5, 5)) * np.array([0.1, 1, 3, 10, 30])
    metric = Kronecker(classes @ classes.T, rows.T @ rows, majorizes=False)
    B, found = rng.normal(size=(2, metric.size)), []
    for count in (1, 2, 5):
        with sharing(count):
            solve = metric.nearly_factorized(1.0)
            found.append(solve.several(B))
    assert len(solve.groups) > 2
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
