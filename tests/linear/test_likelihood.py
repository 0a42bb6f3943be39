"""Firth's penalty, profile intervals, marginal effects, prediction intervals and resampling of logistic regression."""

import numpy as np
import pytest
import scipy.optimize

from majorant import LogisticRegression
from majorant.likelihood import Firth, FirthBinary, profile_interval, stationary_point

# Grade point average, score of a test, whether a new method taught it, whether grades improved: Spector & Mazzeo
# (1980), as statsmodels has it.
SPECTOR = np.array(
    [
        list(map(float, line.split()))
        for line in (
            "2.66 2.89 3.28 2.92 4 2.86 2.76 2.87 3.03 3.92 2.63 3.32 3.57 3.26 3.53 2.74 2.75 2.83 3.12 3.16 2.06 "
            "3.62 2.89 3.51 3.54 2.83 3.39 2.67 3.65 4 3.1 2.39",
            "20 22 24 12 21 17 17 21 25 29 20 23 23 25 26 19 25 19 23 25 22 28 14 26 24 27 17 24 21 23 21 19",
            "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
            "0 0 0 0 1 0 0 0 0 1 0 0 0 1 0 0 0 0 0 1 0 1 0 0 1 1 1 0 1 1 0 1",
        )
    ]
).T
X_SPECTOR, Y_SPECTOR = SPECTOR[:, :3], SPECTOR[:, 3].astype(int)


def separated():
    """Return a hundred rows of which one column separates: the simulation that firthmodels compares with logistf."""
    rng = np.random.default_rng(42)
    alone = rng.choice([0, 1], 100, p=[0.8, 0.2])
    others = [rng.standard_normal(100), rng.uniform(-1, 1, 100), rng.exponential(scale=2.0, size=100)]
    X = np.column_stack([alone, *others])
    y = rng.binomial(1, 1 / (1 + np.exp(0.5 - X[:, 1:] @ [0.8, -0.6, 0.3])))
    return X, np.where(alone == 1, 1, y)


def test_firth_has_the_numbers_of_logistf():
    X, y = separated()
    model = LogisticRegression(penalty="firth").fit(X, y)
    assert model.result_.outcome.value == "stationary"
    assert np.allclose(model.intercept_, -0.4434562830, rtol=1e-6)
    assert np.allclose(model.coef_[0], [3.6577140153, 0.6759781501, -0.8633119501, 0.3385788510], rtol=1e-6)
    # Standard errors are Heinze & Schemper's (2002), of the inverse information; logistf counts hat values as rows.
    A, p = np.column_stack([np.ones(100), X]), model.predict_proba(X)[:, 1]
    W = (p * (1 - p))[:, None] * A
    V = np.linalg.inv(A.T @ W)
    assert np.allclose(model.summary(X, y).std_errors, np.sqrt(np.diag(V)), rtol=1e-7)
    h = np.einsum("ij,jk,ik->i", W, V, A)
    counted = np.sqrt(np.diag(np.linalg.inv(A.T @ ((1 + h)[:, None] * W))))
    assert np.allclose(counted, [0.3452906671, 1.4822786334, 0.2687886213, 0.3874453554, 0.1370778814], rtol=1e-5)
    ends = model.conf_int(X, y)
    low = [-1.16089382506, 1.3901042899, 0.1602568036, -1.6677883758, 0.0893054012]
    high = [0.2295139209, 8.5876062114, 1.2568999211, -0.1135186948, 0.6572681313]
    assert np.allclose(ends, np.stack([low, high], axis=1), rtol=2e-5)
    assert "Firth's penalty" in str(model.summary(X, y))


def test_firth_gradients_are_those_of_its_value():
    rng = np.random.default_rng(1)
    X, n = rng.normal(size=(40, 3)), 40
    weight, offset, share = rng.uniform(0.5, 2, n), rng.normal(size=n), rng.uniform(size=n)
    binary = FirthBinary(X, share, weight, offset)
    features, amount, log_h = np.zeros((2 * n, 3)), np.zeros(2 * n), np.zeros(2 * n)
    features[1::2], amount[1::2], amount[::2], log_h[1::2] = X, weight * share, weight * (1 - share), offset
    outcomes = Firth(features, 2 * np.arange(n), amount, log_h)
    free = Firth(rng.normal(size=(30, 3)), np.array([0, 4, 9, 11, 20]), rng.uniform(size=30))
    for likelihood in (binary, outcomes, free):
        theta = 0.5 * rng.normal(size=3)
        g = likelihood.expand(theta)[1]
        step = 1e-6 * np.eye(3)
        numeric = [(likelihood.expand(theta + e)[0] - likelihood.expand(theta - e)[0]) / 2e-6 for e in step]
        assert np.allclose(g, numeric, atol=1e-6)
    one, two = binary.expand(theta), outcomes.expand(theta)
    assert one[0] == pytest.approx(two[0])
    assert np.allclose(one[1], two[1])
    assert np.allclose(one[2], two[2])


@pytest.mark.parametrize("classes", [2, 3])
def test_firth_maximises_the_penalised_likelihood(classes):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(30, 2)) + 5.0, rng.integers(classes, size=30)
    model = LogisticRegression(penalty="firth").fit(X, y)
    A = np.column_stack([X, np.ones(30)])

    def value(params):
        W = np.vstack([np.zeros(3), params.reshape(-1, 3)])
        s = A @ W.T
        log_p = s - np.log(np.exp(s - s.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True)) - s.max(axis=1)[:, None]
        P = np.exp(log_p)
        H = np.zeros((3 * (classes - 1),) * 2)
        for j in range(30):
            p = P[j, 1:]
            H += np.kron(np.diag(p) - np.outer(p, p), np.outer(A[j], A[j]))
        return -log_p[np.arange(30), y].sum() - 0.5 * np.linalg.slogdet(H)[1]

    B = np.column_stack([model.coef_, model.intercept_])
    found = (B if classes == 2 else B[1:] - B[0]).ravel()
    best = scipy.optimize.minimize(value, found, method="BFGS", options={"gtol": 1e-7})
    assert value(found) <= best.fun + 1e-9
    # Units and an offset of columns do not matter: the prior is Jeffreys'.
    again = LogisticRegression(penalty="firth").fit(1000 * X - 7, y)
    assert np.allclose(1000 * again.coef_, model.coef_, atol=1e-6)
    assert np.allclose(again.predict_proba(1000 * X - 7), model.predict_proba(X), atol=1e-7)


def test_firth_refuses_what_it_cannot_do():
    X, y = separated()
    with pytest.raises(ValueError, match="columns that are not collinear"):
        LogisticRegression(penalty="firth").fit(np.column_stack([X, X[:, 0]]), y)
    with pytest.raises(ValueError, match="leave l1_ratio and feature_penalty out"):
        LogisticRegression(penalty="firth", feature_penalty=np.ones(4)).fit(X, y)
    model = LogisticRegression(penalty="firth").fit(X, y)
    with pytest.raises(ValueError, match="kind must be 'hessian' with penalty='firth'"):
        model.summary(X, y, kind="robust")
    with pytest.raises(ValueError, match="bootstrap\\(\\) is of fits with penalty='l2' or None"):
        model.bootstrap(X, y)


def test_marginal_effects_of_spector():
    model = LogisticRegression(C=np.inf).fit(X_SPECTOR, Y_SPECTOR)
    found = model.marginal_effects(X_SPECTOR, Y_SPECTOR)
    assert np.allclose(found.estimates, [0.36258083, 0.01220841, 0.3051777], atol=1e-7)
    assert np.allclose(found.std_errors, [0.10944115, 0.01779416, 0.09237957], atol=1e-6)
    step = model.marginal_effects(X_SPECTOR, Y_SPECTOR, discrete=["x2"])
    assert step.estimates[2] == pytest.approx(0.35751516, abs=1e-7)
    assert step.std_errors[2] == pytest.approx(0.14200339, abs=1e-6)


def test_marginal_effects_of_three_classes_are_derivatives():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(200, 2)), rng.integers(3, size=200)
    model = LogisticRegression(C=np.inf).fit(X, y)
    found = model.marginal_effects(X, y).estimates.reshape(3, 2)
    step = 1e-5
    for k in range(2):
        e = step * np.eye(2)[k]
        numeric = (model.predict_proba(X + e) - model.predict_proba(X - e)).mean(axis=0) / (2 * step)
        assert np.allclose(found[:, k], numeric, atol=1e-8)
    assert np.allclose(found.sum(axis=0), 0, atol=1e-12)


def test_prediction_intervals_of_spector():
    model = LogisticRegression(C=np.inf).fit(X_SPECTOR, Y_SPECTOR)
    with pytest.raises(ValueError, match="posterior_covariance"):
        model.predict_interval(X_SPECTOR)
    model.posterior_covariance(X_SPECTOR)
    low, high = model.predict_interval(X_SPECTOR[:3])
    assert np.allclose(low[:, 1], [0.002452, 0.009068, 0.048975], atol=1e-6)  # statsmodels' get_prediction
    assert np.allclose(high[:, 1], [0.232741, 0.304291, 0.507602], atol=1e-6)
    assert np.allclose(low[:, 0], 1 - high[:, 1])


def test_prediction_intervals_of_three_classes_by_sampling():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 2))
    y = (X @ rng.normal(size=(2, 3)) + rng.gumbel(size=(400, 3))).argmax(axis=1)
    model = LogisticRegression().fit(X, y)
    covariance = model.posterior_covariance(X)
    low, high = model.predict_interval(X[:2])
    mean = np.column_stack([model.coef_, model.intercept_]).ravel()
    draws = rng.multivariate_normal(mean, covariance + 1e-12 * np.eye(9), size=20_000).reshape(-1, 3, 3)
    s = np.einsum("jp,bcp->bjc", np.column_stack([X[:2], np.ones(2)]), draws)
    P = np.exp(s - s.max(axis=2, keepdims=True))
    P /= P.sum(axis=2, keepdims=True)
    assert np.allclose(np.quantile(P, 0.025, axis=0), low, atol=0.01)
    assert np.allclose(np.quantile(P, 0.975, axis=0), high, atol=0.01)


def test_profile_intervals_by_their_definition():
    model = LogisticRegression(C=np.inf).fit(X_SPECTOR, Y_SPECTOR)
    ends = model.conf_int(X_SPECTOR, Y_SPECTOR, level=0.9)
    A = np.column_stack([np.ones(32), X_SPECTOR])
    top = model.summary(X_SPECTOR, Y_SPECTOR).facts.log_likelihood

    def profiled(k, value):
        rest = [i for i in range(4) if i != k]

        def negative(params):
            theta = np.zeros(4)
            theta[k], theta[rest] = value, params
            s = A @ theta
            p = 1 / (1 + np.exp(-s))
            return (np.logaddexp(0, s) - Y_SPECTOR * s).sum(), (p - Y_SPECTOR) @ A[:, rest]

        start = np.concatenate([model.intercept_, model.coef_[0]])[rest]
        return scipy.optimize.minimize(negative, start, jac=True, method="BFGS", options={"gtol": 1e-6}).fun

    for k in (0, 1, 3):
        for end in ends[k]:
            assert profiled(k, end) + top == pytest.approx(0.5 * 2.705543, abs=1e-5)
    assert np.allclose(model.conf_int(X_SPECTOR, Y_SPECTOR, kind="wald"), model.summary(X_SPECTOR, Y_SPECTOR).interval)


def test_an_end_may_be_infinite():
    rng = np.random.default_rng(5)
    X, y = np.array([[0.0], [0.0], [0.0], [1.0], [1.0]]), np.array([0, 1, 0, 1, 1])  # quasi-complete separation
    likelihood = FirthBinary(np.column_stack([X, np.ones(5)]), y.astype(float), np.ones(5), np.zeros(5))
    theta = stationary_point(likelihood.expand, np.zeros(2))[0]
    low, high = profile_interval(likelihood.expand, theta, np.array([1.0, 0.0]), 0.95)
    assert low < theta[0] < high
    # Of three classes, intervals are those of contrasts, and nested in their level.
    Z, z = rng.normal(size=(90, 1)), rng.integers(3, size=90)
    model = LogisticRegression(C=np.inf).fit(Z, z)
    wide, narrow = model.conf_int(Z, z), model.conf_int(Z, z, level=0.8)
    assert wide.shape == (4, 2)
    assert (wide[:, 0] < narrow[:, 0]).all()
    assert (narrow[:, 1] < wide[:, 1]).all()
    firth = LogisticRegression(penalty="firth").fit(Z, z)
    assert np.allclose(firth.conf_int(Z, z), wide, atol=0.15)


@pytest.mark.parametrize(("classes", "C"), [(2, np.inf), (2, 1.0), (3, np.inf), (3, 0.5)])
def test_bootstrap_replicates_are_refits(classes, C):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(300, 3)) + 10.0
    y = ((X - 10) @ rng.normal(size=(3, classes)) + rng.gumbel(size=(300, classes))).argmax(axis=1)
    model = LogisticRegression(C=C).fit(X, y)
    found = model.bootstrap(X, y, n=50, seed=1)
    assert found.within <= 5e-3
    assert len(found.replicates) == 50
    for b in (0, 1):
        drawn = np.bincount(np.random.default_rng([1, b]).integers(300, size=300), minlength=300)
        again = LogisticRegression(C=C, tol=1e-12).fit(X, y, sample_weight=drawn)
        B = np.column_stack([again.intercept_, again.coef_])
        B = B if classes == 2 or np.isfinite(C) else B[1:] - B[0]
        assert np.allclose(found.replicates[b], B.ravel(), atol=5e-3 * found.std_errors.max())
    assert np.allclose(found.std_errors, found.infinitesimal, rtol=0.45)
    if np.isinf(C):
        robust = model.summary(X, y, kind="robust")
        assert found.names == robust.names
        assert np.allclose(found.infinitesimal, robust.std_errors, rtol=1e-6)
        assert np.allclose(found.estimates, robust.estimates)


def test_weights_clusters_and_separated_replicates():
    X = np.arange(12.0)[:, None]
    y = np.array([0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 1])
    model = LogisticRegression(C=np.inf).fit(X, y)
    found = model.bootstrap(X, y, n=100)
    assert found.separated > 10
    assert found.unresolved == 0
    assert len(found.replicates) + found.separated == 100
    assert LogisticRegression().fit(X, y).bootstrap(X, y, n=20).separated == 0
    jackknife = LogisticRegression().fit(X, y).bootstrap(X, y, kind="jackknife", cluster=np.arange(12) // 2)
    assert len(jackknife.replicates) == 6
    with pytest.raises(ValueError, match="kind must be one of 'multinomial', 'bayesian', 'jackknife', got 'wild'"):
        model.bootstrap(X, y, kind="wild")
    with pytest.raises(ValueError, match=r"cluster must have one entry per observation \(12\)"):
        model.bootstrap(X, y, cluster=[1, 2])
    few = [2, 5, 7, 8]  # two of each class, of which the draw of a pair is separated
    with pytest.raises(ValueError, match="replicates have no maximum-likelihood estimate"):
        LogisticRegression(C=np.inf).fit(X[few], y[few] * 0 + [0, 1, 0, 1]).bootstrap(X[few], [0, 1, 0, 1], n=2, seed=3)


def test_weights_of_effects_are_repetitions():
    rng = np.random.default_rng(5)
    X, times = rng.normal(size=(60, 2)), rng.integers(0, 4, size=60)
    y = (X[:, 0] + rng.logistic(size=60) > 0).astype(int)
    X[:, 1] = X[:, 1] > 0
    weighted = LogisticRegression(C=np.inf, tol=1e-12).fit(X, y, sample_weight=times)
    repeated = LogisticRegression(C=np.inf, tol=1e-12).fit(X.repeat(times, axis=0), y.repeat(times))
    found = weighted.marginal_effects(X, y, sample_weight=times, discrete=[False, True])
    expected = repeated.marginal_effects(X.repeat(times, axis=0), y.repeat(times), discrete=[1])
    assert np.allclose(found.estimates, expected.estimates, rtol=1e-8)
    assert np.allclose(found.std_errors, expected.std_errors, rtol=1e-6)


@pytest.mark.parametrize("discrete", [[7], [1.9], ["zz"], [True, False], 0, None])
def test_columns_of_effects_are_named(discrete):
    X, y = np.arange(6.0)[:, None], [0, 1, 0, 0, 1, 1]
    model = LogisticRegression(C=np.inf).fit(X, y)
    with pytest.raises(ValueError, match="discrete must"):
        model.marginal_effects(X, y, discrete=discrete)
