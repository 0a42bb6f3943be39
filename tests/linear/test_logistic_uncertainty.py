"""How sure LogisticRegression is of its coefficients and of its predictions."""

import copy

import numpy as np
import pytest

from majorant import LogisticRegression
from tests.linear.test_logistic import trees, two


@pytest.fixture(scope="module")
def three():
    return trees()


def test_posterior_covariance_is_the_inverse_hessian(three):
    X, y = two(three)
    model = LogisticRegression(C=2.0, tol=1e-12).fit(X, y)
    X1 = np.column_stack([X, np.ones(200)])
    p = model.predict_proba(X)[:, 1]
    H = (X1.T * (p * (1 - p))) @ X1 + np.diag([0.5, 0.5, 0.5, 0.5, 0.0])
    np.testing.assert_allclose(model.posterior_covariance(X), np.linalg.inv(H), rtol=1e-5)
    np.testing.assert_array_equal(model.posterior_covariance(), model.posterior_covariance(X))
    far = LogisticRegression(C=2.0, tol=1e-12).fit(X + 100, y)
    moved = np.eye(5)
    moved[-1, :-1] = -100  # the intercept of columns measured from zero
    np.testing.assert_allclose(far.posterior_covariance(X + 100), moved @ np.linalg.inv(H) @ moved.T, rtol=1e-4)


@pytest.mark.parametrize("binary", [True, False])
def test_posterior_probabilities_are_less_sure(three, binary):
    X, y = two(three) if binary else three
    model = LogisticRegression().fit(X[:30], y[:30])
    model.posterior_covariance(X[:30])
    plain, posterior = model.predict_proba(10 * X), model.predict_proba(10 * X, posterior=True)
    np.testing.assert_allclose(posterior.sum(axis=1), 1)
    assert posterior.max(axis=1).mean() < plain.max(axis=1).mean()
    # with all the data there is little to be unsure of, however weak the prior
    sure = LogisticRegression(C=1e6).fit(X, y)
    sure.posterior_covariance(X)
    np.testing.assert_allclose(sure.predict_proba(X, posterior=True), sure.predict_proba(X), atol=0.05)
    stream = LogisticRegression().partial_fit(X[:30], y[:30], classes=np.unique(y))
    assert np.isfinite(stream.predict_proba(X, posterior=True)).all()


@pytest.mark.parametrize("binary", [True, False])
def test_posterior_probabilities_are_those_of_mackays_formula(three, binary):
    X, y = two(three) if binary else three
    model = LogisticRegression(C=0.3).fit(X, y)
    n, rows = (1 if binary else 3), np.column_stack([X, np.ones(200)])
    C = model.posterior_covariance(X).reshape(n, 5, n, 5)
    mean = np.eye(n) if n == 1 else np.eye(n) - 1 / n  # softmax scores count less their mean
    variance = np.einsum("ca,jp,apeq,jq,ce->jc", mean, rows, C, rows, mean)
    scores = model.decision_function(X).reshape(200, n) @ mean / np.sqrt(1 + np.pi * variance / 8)
    scores = np.column_stack([np.zeros(200), scores]) if binary else scores
    expected = np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
    np.testing.assert_allclose(model.predict_proba(X, posterior=True), expected, rtol=1e-6)


@pytest.mark.parametrize("far", [0.0, 1e5, 1e9])
def test_the_posterior_is_the_same_wherever_columns_are(three, far, tmp_path):
    X, y = three
    near, away = LogisticRegression().fit(X, y), LogisticRegression().fit(X + far, y)
    away.save(tmp_path / "m.npz")
    near.posterior_covariance(X)
    expected = near.predict_proba(X, posterior=True)
    for model in (away, LogisticRegression.load(tmp_path / "m.npz"), copy.deepcopy(away).sparsify()):
        slopes = model.posterior_covariance(X + far).reshape(3, 5, 3, 5)[:, :4, :, :4]
        np.testing.assert_allclose(slopes, near.posterior_covariance().reshape(3, 5, 3, 5)[:, :4, :, :4], rtol=1e-3)
        np.testing.assert_allclose(model.predict_proba(X + far, posterior=True), expected, atol=1e-5)


def test_posterior_is_refused_where_it_cannot_be():
    rng = np.random.default_rng(0)
    model = LogisticRegression(max_iter=1, solver="scipy-lbfgs", tol=1.0).fit(rng.normal(size=(4, 5001)), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="5002 parameters is too large; the limit is 5000"):
        model.posterior_covariance()
    small = LogisticRegression().fit(rng.normal(size=(4, 2)), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="call posterior_covariance"):
        small.posterior_covariance()
    weighted = LogisticRegression(class_weight="balanced").fit(rng.normal(size=(4, 2)), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="pass y as well"):
        weighted.posterior_covariance(rng.normal(size=(4, 2)))
