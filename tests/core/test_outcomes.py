"""Every ending of a run has its sentence."""

import numpy as np
import pytest
import scipy.sparse as sp

import majorant
from majorant import (
    BFGS,
    LBFGS,
    BatchMajorization,
    Binary,
    Choices,
    Enumerated,
    Labelled,
    Multinomial,
    Newton,
    Objective,
    Outcome,
    SteepestDescent,
    minimize,
)
from tests import problems


def test_converged_carries_its_certificate():
    result = minimize(problems.make(problems.binary)).result
    assert result.outcome is Outcome.CONVERGED
    assert result.gap <= 1e-8
    assert "certified to be within" in str(result)


def test_step_limit():
    result = minimize(problems.make(problems.ecoli), max_steps=2).result
    assert result.outcome is Outcome.STEP_LIMIT
    assert "limit of 2 steps; certified to be within" in result.message
    assert not result.converged


def separable(**kwargs):
    X = np.array([[1.0, 0.2], [2.0, -1.0], [-1.0, 0.5], [-2.0, 0.1]])
    return Labelled(X, [1, 1, 0, 0], **kwargs)


@pytest.mark.parametrize("solver", [BatchMajorization(), BatchMajorization(memory=0), LBFGS(), Newton()], ids=str)
@pytest.mark.parametrize("model", [Binary(), Multinomial(2)], ids=str)
def test_separated_data_without_ridge_are_unbounded(model, solver):
    result = minimize(Objective(model, separable(), ridge=0.0), solver).result
    assert result.outcome is Outcome.UNBOUNDED
    assert "penalise them" in result.message
    assert np.isnan(result.gap)


@pytest.mark.parametrize("solver", [BatchMajorization(), Newton()], ids=str)
def test_one_class_with_a_free_intercept_is_unbounded(solver):
    X = np.column_stack([np.arange(5.0), np.ones(5)])
    F = Objective(Binary(), Labelled(X, [1] * 5), ridge=[1.0, 0.0])
    assert minimize(F, solver).result.outcome is Outcome.UNBOUNDED


def test_a_start_that_already_separates_is_not_called_converged():
    F = Objective(Binary(), separable(), ridge=0.0)
    assert minimize(F, start=[50.0, 0.0]).result.outcome is Outcome.UNBOUNDED


def test_rows_without_weight_or_choice_do_not_separate():
    free = Choices(np.eye(2), sizes=[1, 1], chosen=[0, 0])
    assert not Objective(Enumerated(), free, ridge=0.0).separated(np.ones(2))
    spoiled = Labelled([[1.0], [-1.0], [-5.0]], [1, 0, 1], weight=[1, 1, 0])
    assert Objective(Binary(), spoiled, ridge=0.0).separated([1.0])
    offset = [[0.0, 0.0, -np.inf], [0.0, 0.0, 0.0]]
    forbidden = Labelled([[1.0], [-1.0]], [0, 1], offset=offset)
    assert Objective(Multinomial(3), forbidden, ridge=0.0).separated([1.0, -1.0, 9.0])


def test_soft_targets_never_separate():
    soft = Choices([[1.0], [0.0]], sizes=[2], target=[0.9, 0.1])
    F = Objective(Enumerated(), soft, ridge=0.0)
    assert not F.separated([1.0])
    np.testing.assert_allclose(minimize(F).params, [np.log(9)], rtol=1e-5)


def test_separated_choices_without_ridge_are_unbounded():
    data = Choices([[1.0], [0.0], [2.0], [5.0]], sizes=[2, 1, 1], chosen=[0, 0, 0])
    assert minimize(Objective(Enumerated(), data, ridge=0.0)).result.outcome is Outcome.UNBOUNDED


def test_offsets_do_not_count_as_separation():
    """The offset alone classifies every row; the parameters do not, so there is a minimum."""
    X, y = np.array([[1.0], [1.5], [-1.0], [-0.5]]), [1, 0, 1, 0]
    data = Labelled(X, y, offset=np.array([5.0, -5.0, 5.0, -5.0]))
    solution = minimize(Objective(Binary(), data, ridge=0.0))
    assert solution.result.converged
    assert solution.trace["step"][-1] > 0


def test_overlapping_data_without_ridge_are_certified_by_a_hessian_alone():
    F = problems.make(problems.multinomial)
    F = Objective(F.model, F.data, ridge=0.0)
    found = minimize(F)
    assert found.result.converged
    assert found.result.gap <= 1e-8
    assert "a unique maximum-likelihood estimate exists (proved)" in found.result.message
    solution = minimize(F, largest_hessian=0)
    assert solution.result.converged
    assert np.isnan(solution.result.gap)
    assert "nothing certifies" in solution.result.message
    assert np.linalg.norm(F.value_and_gradient(solution.params)[1]) < 1e-5


def test_an_impossible_tolerance_stalls_honestly():
    for solver in (BatchMajorization(), BatchMajorization(memory=0), Newton(), LBFGS(), BFGS()):
        result = minimize(problems.make(problems.ecoli), solver, tol=0.0).result
        assert result.outcome is Outcome.STALLED
        assert "no further decrease was found in this precision" in result.message
        assert result.gap < 1e-8


def test_float32_converges_or_stalls_but_never_lies():
    X, y = majorant.datasets.load("ecoli")
    narrow = Objective(Multinomial(8), Labelled(X.astype(np.float32), y), ridge=1.0)
    wide = Objective(Multinomial(8), Labelled(X.astype(np.float32).astype(float), y), ridge=1.0)
    solution = minimize(narrow)
    assert solution.result.outcome in (Outcome.CONVERGED, Outcome.STALLED)
    best = minimize(wide, Newton()).trace["objective"][-1]
    true_gap = (wide.value(solution.params) - best) / best
    assert true_gap <= 1e-6
    assert true_gap <= solution.result.gap + 1e-6  # to the rounding of float32


@pytest.mark.parametrize("solver", [BatchMajorization(), LBFGS(), Newton(), SteepestDescent()], ids=str)
@pytest.mark.parametrize("start", [np.nan, np.inf, 1e200])
def test_a_non_finite_start_ends_as_such(solver, start):
    F = problems.make(problems.binary)
    solution = minimize(F, solver, start=np.full(F.size, start))
    assert solution.result.outcome is Outcome.NON_FINITE
    assert "at the starting parameters" in solution.result.message
    assert not solution.result.converged


def test_one_class_only_is_fine_with_a_ridge():
    F = Objective(Multinomial(3), Labelled(np.ones((5, 1)), [1] * 5), ridge=1.0)
    assert minimize(F).result.converged


def test_constant_and_empty_columns_are_fine():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=40), np.zeros(40), np.ones(40), np.ones(40)])
    y = (X[:, 0] + rng.logistic(size=40) > 0).astype(int)
    for ridge in (0.0, 1.0):
        for data in (X, sp.csr_array(X)):
            assert minimize(Objective(Binary(), Labelled(data, y), ridge=ridge)).result.converged
