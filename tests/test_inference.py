"""Covariances of estimates from derivatives, and likelihood-ratio tests."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from majorant.inference import Facts, covariance, in_columns, inverse, likelihood_ratio, ratio, row_scores, through
from tests.oracles import finite_difference
from tests.problems import every_row_problem, make


@every_row_problem
def test_scores_of_rows_sum_to_the_gradient_and_are_those_of_each_row(maker):
    F = make(maker)
    model, data = F.model, F.data
    theta = 0.3 * np.random.default_rng(0).normal(size=F.size)
    scores = row_scores(model, theta, data)
    assert_allclose(scores.sum(axis=0), model.loss_and_gradient(theta, data)[1], rtol=1e-9, atol=1e-9)
    number = len(data) // 2
    row = data.part(number, number + 1)
    gradient = finite_difference(lambda t: model.loss(model.scores(t, row), row), theta)
    assert_allclose(scores[number], gradient, rtol=1e-4, atol=1e-6)


def test_what_cannot_be_known_has_an_infinite_variance():
    H = np.array([[2.0, 2.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 4.0]])
    found = inverse(H)
    assert_array_equal(np.isinf(np.diag(found)), [True, True, False])
    assert found[2, 2] == 0.25
    assert_allclose(covariance(np.diag([1.0, 4.0]), None, "hessian"), np.diag([1.0, 0.25]))
    assert ratio("a / b", np.array([1.0, 2.0, 1.0]), found, 0, 2).std_error == np.inf
    with pytest.raises(ValueError, match="below the line is zero"):
        ratio("a / b", np.array([1.0, 0.0]), np.eye(2), 0, 1)


def test_ratios_of_models_that_are_not_nested_are_refused():
    better, larger = Facts(-10.0, -20.0, 5, 1), Facts(-12.0, -20.0, 5, 2)
    with pytest.raises(ValueError, match="lower log-likelihood"):
        likelihood_ratio(better, larger)
    assert "p = " in str(likelihood_ratio(Facts(-12.0, -20.0, 5, 1), Facts(-10.0, -20.0, 5, 2)))


def test_sandwiches_of_what_cannot_be_known_hold_no_nan():
    H, scores = np.array([[2.0, 2.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 4.0]]), np.ones((5, 3))
    for kind, clusters in (("robust", None), ("cluster", np.array([0, 0, 1, 1, 2]))):
        found = covariance(H, scores, kind, clusters)
        assert not np.isnan(found).any()
        assert_array_equal(np.isinf(np.diag(found)), [True, True, False])
    moved = through(np.array([[0.0, 0.0, 2.0], [1.0, 0.0, 1.0]]), inverse(H))
    assert_array_equal(np.isinf(np.diag(moved)), [False, True])
    assert moved[0, 0] == 1.0


@pytest.mark.filterwarnings("error")
def test_variances_beyond_double_precision_are_infinite():
    H = np.array([[1.21e-304, 2.17e-304, 0.0], [2.17e-304, 4.63e-304, 0.0], [0.0, 0.0, 2.0]])
    scores = np.ones((4, 3))
    for kind in ("hessian", "robust"):
        errors = np.sqrt(np.diag(covariance(H, scores, kind)))
        assert not np.isnan(errors).any()
        assert (errors > 0).all()
    found = in_columns(np.array([1e9, 1.0, 1.0]), covariance(H, None, "hessian"))
    assert found[0, 0] == np.inf
    assert found[2, 2] == pytest.approx(0.5)
