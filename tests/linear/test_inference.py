"""Standard errors of logistic regressions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from majorant import LogisticRegression


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


def test_a_summary_has_its_numbers_by_the_names_of_statsmodels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = (X[:, 0] + rng.logistic(size=200) > 0).astype(int)
    model = LogisticRegression(C=np.inf).fit(X, y)
    table = model.summary(X, y)
    loss = -float(model.predict_log_proba(X)[np.arange(200), y].sum())
    np.testing.assert_allclose([table.llf, table.aic, table.bic], [-loss, 6 + 2 * loss, 3 * np.log(200) + 2 * loss])
    assert table.params is table.estimates
    assert table.bse is table.std_errors
