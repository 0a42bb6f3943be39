"""Standard errors of logistic regressions, and the parts that tables of estimates are made of."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from majorant import Choices, LogisticRegression
from majorant.choice.basis import Collinear, may_be_collinear, refuse_collinear
from majorant.inference import Facts, covariance, in_columns, inverse, likelihood_ratio, ratio, row_scores, through
from tests.oracles import finite_difference
from tests.problems import every_row_problem, make


def rows(seed=0, count=200, features=3, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, features)) + 30.0 * (np.arange(features) == 1)  # one column is far from zero
    scores = (X - 30.0 * (np.arange(features) == 1)) @ rng.normal(size=(features, classes)) + rng.gumbel(
        size=(count, classes)
    )
    return X, scores.argmax(axis=1)


def log_likelihood(params, X, y, classes):
    Z = np.column_stack([np.ones(len(X)), X])
    scores = np.column_stack([np.zeros(len(X)), Z @ params.reshape(classes - 1, -1).T])
    return (scores[np.arange(len(X)), y] - np.logaddexp.reduce(scores, axis=1)).sum()


@pytest.mark.parametrize("classes", [2, 3])
def test_standard_errors_of_logistic_regression(classes):
    X, y = rows(1, classes=classes)
    model = LogisticRegression(C=np.inf, tol=1e-10).fit(X, y)
    summary = model.summary(X, y)
    assert len(summary.names) == 4 * (classes - 1)
    theta = summary.estimates
    assert_allclose(summary.facts.log_likelihood, log_likelihood(theta, X, y, classes), rtol=1e-9)
    step, d, eye = 1e-4, len(theta), np.eye(len(theta))
    scale = np.tile([1.0, 1.0, 1 / 30, 1.0], classes - 1)
    corners = ((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1))
    H = np.empty((d, d))
    for i in range(d):
        for j in range(d):
            moves = [(s, step * scale * (a * eye[i] + b * eye[j])) for a, b, s in corners]
            H[i, j] = -sum(s * log_likelihood(theta + move, X, y, classes) for s, move in moves) / (4 * step**2)
    errors = np.sqrt(np.diag(np.linalg.inv(H / np.outer(scale, scale))))
    assert_allclose(summary.std_errors, errors, rtol=1e-3)
    shares = np.bincount(y) / len(y)
    assert_allclose(summary.facts.null_log_likelihood, len(y) * (shares * np.log(shares)).sum(), rtol=1e-12)


def test_sandwiches_of_logistic_regression():
    X, y = rows(2)
    model = LogisticRegression(C=np.inf, tol=1e-10).fit(X, y)
    Z = np.column_stack([np.ones(len(X)), X])
    p = model.predict_proba(X)[:, 1]
    bread, scores = np.linalg.inv(Z.T @ (Z * (p * (1 - p))[:, None])), (p - y)[:, None] * Z
    robust = np.sqrt(np.diag(bread @ scores.T @ scores @ bread))
    assert_allclose(model.summary(X, y, kind="robust").std_errors, robust, rtol=1e-5)
    cluster = np.arange(200) // 5
    sums = scores.reshape(40, 5, 4).sum(axis=1)
    clustered = np.sqrt(np.diag(bread @ sums.T @ sums @ bread) * 40 / 39)
    assert_allclose(model.summary(X, y, kind="cluster", cluster=cluster).std_errors, clustered, rtol=1e-5)
    weighted = model.summary(X, y, sample_weight=np.full(200, 4.0))
    assert_allclose(weighted.std_errors, 0.5 * model.summary(X, y).std_errors, rtol=1e-6)


def test_statsmodels_says_the_same():
    statsmodels = pytest.importorskip("statsmodels.api")
    X, y = rows(3, classes=3)
    theirs = statsmodels.MNLogit(y, np.column_stack([np.ones(len(X)), X])).fit(disp=0, tol=1e-12)
    ours = LogisticRegression(C=np.inf, tol=1e-10).fit(X, y).summary(X, y)
    assert_allclose(ours.estimates, theirs.params.T.ravel(), rtol=1e-4)
    assert_allclose(ours.std_errors, theirs.bse.T.ravel(), rtol=1e-4)
    assert_allclose(ours.facts.null_log_likelihood, theirs.llnull, rtol=1e-6)


def test_summaries_need_maximum_likelihood_and_its_rows():
    X, y = rows()
    with pytest.raises(ValueError, match=r"fit with C=np.inf, got C=1.0"):
        LogisticRegression().fit(X, y).summary(X, y)
    model = LogisticRegression(C=np.inf, fit_intercept=False).fit(X, y)
    assert model.summary(X, y).names == ("x0", "x1", "x2")
    with pytest.raises(ValueError, match="y must hold the classes of the fit"):
        model.summary(X, y + 1)
    with pytest.raises(ValueError, match="needs cluster="):
        model.summary(X, y, kind="cluster")
    with pytest.raises(ValueError, match="one entry per observation"):
        model.summary(X, y, kind="cluster", cluster=[1, 2])
    with pytest.raises(ValueError, match="at least two clusters"):
        model.summary(X, y, kind="cluster", cluster=np.zeros(200))
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        model.summary(X, y, level=95)


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


@pytest.mark.parametrize("rows", [6, 50])
def test_collinear_columns_are_told_one_by_one(rows, monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setattr("majorant.choice.basis.FACTOR_BLOCK", 70)  # some sets at a time
    X = rng.normal(size=(rows, 5)) * [1e-6, 1.0, 1e6, 1.0, 1.0]
    X[:, 3] = 2 * X[:, 1] - 1e-6 * X[:, 2]
    X[:, 4] = 1e9
    X += np.repeat(rng.normal(size=(rows // 2, 5)), 2, axis=0)  # which no choice depends on
    sets = Choices(X, np.full(rows // 2, 2), chosen=np.zeros(rows // 2, dtype=int))
    found = Collinear.of(sets)
    assert [each.tolist() for each in found.groups()] == [[4], [1, 2, 3]]
    with pytest.raises(ValueError, match="column 'e' is constant"):
        refuse_collinear(found.groups(), "abcde")


def test_a_hessian_says_whether_columns_may_be_collinear():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3)) * [1e-12, 1.0, 1e12]
    assert not may_be_collinear(X.T @ X, (X**2).sum(axis=0))
    assert may_be_collinear(X.T @ X, 1e21 * (X**2).sum(axis=0))  # constant but for rounding errors
    X[:, 2] = X[:, 1] + 1e-6 * X[:, 0] / 1e-12
    assert may_be_collinear(X.T @ X, (X**2).sum(axis=0))
    assert may_be_collinear(np.diag([1.0, 0.0]), np.zeros(2))
    assert may_be_collinear(np.diag([1.0, np.nan]), np.zeros(2))


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
