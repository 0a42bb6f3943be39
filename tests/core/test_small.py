"""Small dense fits of many classes: the same optima as by the general rules, whatever rows, weights and columns are."""

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

from majorant import Binary, Labelled, LogisticRegression, Multinomial, Objective, QuasiNewton, Threads, minimize
from majorant.core import small
from tests.core.test_checkpoint import assert_goes_on_from_every_step

RULE = small.SmallNewton.name


def data(t=400, p=20, n=12, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(t, p)) * np.exp(scale * rng.normal(size=p)) + rng.normal(scale=scale, size=p)
    scores = X @ rng.normal(size=(p, n)) / X.std(axis=0).sum() * np.sqrt(p)
    return X, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


def problem(kind, seed=0):
    rng = np.random.default_rng(seed + 1)
    X, y = data(seed=seed)
    if kind == "weights":
        return Labelled(X, y, rng.exponential(size=len(y)), constant=True, center=True), 12
    if kind == "offsets":
        return Labelled(X, y, offset=rng.normal(size=(len(y), 12)), constant=True), 12
    if kind == "soft":
        return Labelled(X, rng.dirichlet(np.ones(12), size=len(y)), constant=True, center=True), 12
    return Labelled(X, y), 12


@pytest.mark.parametrize("kind", ["plain", "weights", "offsets", "soft"])
@pytest.mark.parametrize("ridge", [1e-3, 1.0])
def test_the_optimum_is_that_of_scipy(kind, ridge):
    rows, n = problem(kind)
    free = np.tile(np.arange(rows.n_features) < 20, n)
    F = Objective(Multinomial(n), rows, ridge=ridge * free)
    found = minimize(F, QuasiNewton(), tol=1e-9)
    assert found.result.converged
    assert found.result.account == ((0, RULE),)
    settings = {"maxiter": 5_000, "maxfun": 50_000, "ftol": 1e-15, "gtol": 1e-10}
    best = scipy_minimize(F.value_and_gradient, np.zeros(F.size), jac=True, method="L-BFGS-B", options=settings)
    assert F.value(found.params) <= best.fun * (1 + 1e-9)
    assert best.fun * (1 - 1e-9) <= F.value(found.params)


def test_weights_of_two_are_rows_twice():
    X, y = data()
    weight = 1.0 + (np.arange(len(y)) % 3 == 0)
    twice = np.repeat(np.arange(len(y)), weight.astype(int))
    by_weight = LogisticRegression(tol=1e-10, C=10).fit(X, y, weight)
    by_rows = LogisticRegression(tol=1e-10, C=10).fit(X[twice], y[twice])
    assert by_weight.result_.account[0][1] == by_rows.result_.account[0][1] == RULE
    np.testing.assert_allclose(by_weight.coef_, by_rows.coef_, rtol=1e-4, atol=1e-5 * np.abs(by_rows.coef_).max())


def test_units_of_columns_do_not_change_the_steps():
    """Powers of two are exact; a penalty that changes with them leaves the problem as it is."""
    X, y = data()
    scale = 2.0 ** np.random.default_rng(0).integers(-30, 30, size=20)
    plain = LogisticRegression(tol=1e-9).fit(X, y)
    scaled = LogisticRegression(tol=1e-9, feature_penalty=scale**2).fit(X * scale, y)
    assert scaled.n_iter_ == plain.n_iter_
    np.testing.assert_allclose(scaled.coef_ * scale, plain.coef_, rtol=1e-6, atol=1e-9)


def test_columns_without_numbers_and_a_rare_class_are_no_obstacle():
    X, y = data()
    X[:, 3], X[:, 4], y[y == 5] = 0.0, 7.3, 4
    y[0] = 5
    model = LogisticRegression(C=1e4, tol=1e-6).fit(X, y)
    assert model.gap_ <= 1e-6
    assert not model.coef_[:, 3].any()


def test_wild_scales_go_on_by_the_general_rules():
    X, y = data()
    X = X * 10.0 ** np.random.default_rng(0).integers(-150, 150, size=20)
    with np.errstate(all="ignore"):
        found = minimize(Objective(Multinomial(12), Labelled(X, y), ridge=1.0), QuasiNewton(), max_steps=50)
    assert np.isfinite(found.params).all()


def test_the_rule_is_one_of_shape():
    def rule(t, p, n, **settings):
        X, y = data(t, p, n)
        model = Binary() if n == 2 else Multinomial(n)
        return small.suits(Objective(model, Labelled(X, y, **settings), ridge=1.0))

    assert rule(400, 20, 12)
    assert not rule(400, 20, 2)
    assert not rule(400, 20, 4)  # the Hessian is cheap
    assert not rule(400, 120, 5)  # the Gram matrix is dear
    assert not rule(9_000, 20, 12)
    X, y = data()
    assert not small.suits(Objective(Multinomial(12), Labelled(X.astype(np.float32), y), ridge=1.0))
    assert not small.suits(Objective(Multinomial(12), Labelled(X, y), ridge=0.0))


def test_threads_and_blocks_change_nothing():
    X, y = data(t=8_000, p=19)
    rows, ridge = Labelled(X, y), 1.0
    one, two = (minimize(Objective(Multinomial(12), rows, ridge=ridge, reducer=Threads(n))) for n in (1, 2))
    assert np.array_equal(one.params, two.params)


def test_the_next_penalty_takes_up_what_is_known_of_the_rows():
    X, y = data()
    F = Objective(Multinomial(12), Labelled(X, y), ridge=1.0)
    first = minimize(F, QuasiNewton(), tol=1e-6)
    following = minimize(F.with_ridge(0.3), QuasiNewton(), start=first, tol=1e-6)
    assert following.state.continuation.narrow is first.state.continuation.narrow
    assert following.result.converged
    assert len(following.trace["step"]) < len(minimize(F.with_ridge(0.3), QuasiNewton(), tol=1e-6).trace["step"])


def test_fits_go_on_from_every_step(tmp_path):
    X, y = data()
    weight = np.random.default_rng(0).exponential(size=len(y))
    assert_goes_on_from_every_step(lambda **more: LogisticRegression(C=100.0, **more), (X, y, weight), tmp_path)
