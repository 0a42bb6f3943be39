"""Firth's penalty, profile intervals and resampling of conditional logits."""

import numpy as np
import pytest

from majorant import ConditionalLogit, LogisticRegression


def situations(rng, n=200, size=3, scale=1.0):
    X = rng.normal(size=(n * size, 2)) * scale
    utility = (X @ np.array([0.8, -0.5]) / scale + rng.gumbel(size=n * size)).reshape(n, size)
    return X, (utility == utility.max(axis=1, keepdims=True)).ravel().astype(float), np.repeat(np.arange(n), size)


@pytest.mark.parametrize(("scale", "weighted", "C"), [(1.0, False, np.inf), (1e6, True, np.inf), (1.0, True, 1.0)])
def test_bootstrap_replicates_are_refits(scale, weighted, C):
    rng = np.random.default_rng(0)
    X, chosen, group = situations(rng, scale=scale)
    weight = np.repeat(rng.uniform(0.5, 2, 200), 3) if weighted else None
    model = ConditionalLogit(C=C * scale**-2 if np.isfinite(C) else C).fit(X, chosen, group, sample_weight=weight)
    found = model.bootstrap(50, seed=2)
    assert found.within <= 5e-3
    drawn = np.bincount(np.random.default_rng([2, 0]).integers(200, size=200), minlength=200)
    if weighted:  # draws are of situations in the order of the fit
        again = ConditionalLogit(C=model.C).fit(X, chosen, group, sample_weight=weight * np.repeat(drawn, 3))
        assert np.allclose(found.replicates[0], again.coef_, atol=5e-3 * found.std_errors.max())
    assert np.allclose(found.std_errors, found.infinitesimal, rtol=0.4)
    assert np.allclose(found.infinitesimal, np.sqrt(np.diag(model.covariance("robust"))), rtol=1e-5)


def test_equal_situations_are_drawn_together_and_apart():
    rng = np.random.default_rng(1)
    options = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.7]])
    X, group = np.tile(options, (300, 1)), np.repeat(np.arange(300), 3)
    picks = rng.choice(3, size=300, p=[0.5, 0.3, 0.2])
    chosen = np.eye(3)[picks].ravel()
    model = ConditionalLogit().fit(X, chosen, group)
    found = model.bootstrap(300)
    assert np.allclose(found.infinitesimal, np.sqrt(np.diag(model.covariance("robust"))), rtol=1e-6)
    assert np.allclose(found.std_errors, found.infinitesimal, rtol=0.2)
    person = np.arange(300) // 5
    by_cluster = model.bootstrap(300, cluster=person)
    wanted = np.sqrt(np.diag(model.covariance("cluster", cluster=person)) * 59 / 60)
    assert np.allclose(by_cluster.infinitesimal, wanted, rtol=1e-6)
    rows = model.bootstrap(300, cluster=np.repeat(person, 3))
    assert np.array_equal(rows.replicates, by_cluster.replicates)
    jackknife = model.bootstrap(kind="jackknife")
    assert np.allclose(jackknife.std_errors, found.infinitesimal, rtol=0.02)


def test_firth_of_two_alternatives_is_that_of_logistic_regression():
    rng = np.random.default_rng(2)
    Z, y = rng.normal(size=(40, 2)), rng.integers(2, size=40)
    X, chosen = np.zeros((80, 3)), np.zeros(80)
    X[1::2, :2], X[1::2, 2], chosen[1::2], chosen[::2] = Z, 1.0, y, 1 - y
    choice = ConditionalLogit(penalty="firth").fit(X, chosen, np.repeat(np.arange(40), 2))
    logistic = LogisticRegression(penalty="firth").fit(Z, y)
    assert np.allclose(choice.coef_, [*logistic.coef_[0], logistic.intercept_[0]], atol=1e-7)
    assert np.allclose(choice.conf_int()[[2, 0, 1]], logistic.conf_int(Z, y), atol=1e-6)
    assert np.allclose(choice.covariance()[:2, :2], logistic.summary(Z, y).std_errors[1:] ** 2 * np.eye(2), atol=0.1)
    plain = ConditionalLogit().fit(X, chosen, np.repeat(np.arange(40), 2))
    maximum = LogisticRegression(C=np.inf).fit(Z, y)
    assert np.allclose(plain.conf_int()[[2, 0, 1]], maximum.conf_int(Z, y), atol=1e-6)
    assert np.allclose(plain.conf_int(kind="wald"), plain.summary().interval)


def test_firth_takes_separated_choices():
    X = np.array([[1.0], [0.0]] * 10)
    chosen, group = np.array([1.0, 0.0] * 10), np.repeat(np.arange(10), 2)
    model = ConditionalLogit(penalty="firth").fit(X, chosen, group)
    with pytest.raises(ValueError, match="kind must be 'hessian' with penalty='firth'"):
        model.covariance("robust")
    assert "stationary" in str(model.result_)
    # Ten wins of ten: the log-odds of half a win and half a loss more.
    assert model.coef_[0] == pytest.approx(np.log(10.5 / 0.5), rel=1e-6)
    low, high = model.conf_int()[0]
    assert 0 < low < model.coef_[0] < high
    assert "Firth's penalty" in str(model.summary())
    assert np.isinf(model.coef_error_).all()


def test_firth_and_bootstrap_refuse():
    X, chosen, group = situations(np.random.default_rng(3), n=30)
    with pytest.raises(ValueError, match="penalty must be 'firth' or None, got 'l1'"):
        ConditionalLogit(penalty="l1").fit(X, chosen, group)
    with pytest.raises(ValueError, match="penalty='firth' takes the place of an ℓ2 penalty"):
        ConditionalLogit(penalty="firth", C=1.0).fit(X, chosen, group)
    with pytest.raises(ValueError, match="columns 'x0', 'x1' are collinear within every group"):
        ConditionalLogit(penalty="firth").fit(np.column_stack([X[:, 0], 2 * X[:, 0]]), chosen, group)
    model = ConditionalLogit(penalty="firth").fit(X, chosen, group)
    with pytest.raises(ValueError, match="of fits without Firth's penalty"):
        model.bootstrap()
    with pytest.raises(ValueError, match=r"fit with C=np\.inf, got C=1\.0"):
        ConditionalLogit(C=1.0).fit(X, chosen, group).conf_int()


def test_separated_replicates_are_counted(tmp_path):
    rng = np.random.default_rng(4)
    X, chosen, group = situations(rng, n=10)
    model = ConditionalLogit().fit(X, chosen, group)
    found = model.bootstrap(100)
    assert found.separated > 0
    assert found.unresolved == 0
    assert "have no maximum-likelihood estimate" in str(found)
    assert found.to_frame().shape == (2, 4)
    assert "separated" in found._repr_html_()
    model.save(tmp_path / "model.npz")
    with pytest.raises(ValueError, match="needs the data of the fit"):
        ConditionalLogit.load(tmp_path / "model.npz").bootstrap()
