"""Rows that are fewer than columns: the small problem has the optimum of the large one."""

from dataclasses import replace

import numpy as np
import pytest

import majorant
from majorant import Binary, Labelled, LogisticRegression, Multinomial, Objective, QuasiNewton
from majorant.core import row_space
from majorant.core.quasi_newton import HessianProducts
from majorant.core.row_space import RowSpace, WithinClasses, newton, suits
from tests.random_fits import Problem, fitted, make

# The price of factors, in products: none, or more than anybody spends. And of a solve with them.
FREE, NEVER, SOLVE = 0.0, np.inf, 0.1


def problem(classes, *, constant=True, weighted=False, soft=False, center=False, offset=True, kind=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(24, 70)) + 3.0 * center).astype(kind)
    y = np.append(np.arange(classes), rng.integers(classes, size=24 - classes))
    if soft:
        y = 0.9 * np.eye(classes)[y] + 0.1 / classes
    weight = rng.integers(0, 3, 24).astype(float) if weighted else None
    log_h = rng.normal(size=24) if classes == 2 else rng.normal(size=(24, classes))
    data = Labelled(X, y, weight, log_h if offset else None, constant=constant, center=center)
    rows = 1 if classes == 2 else classes
    ridge = np.tile(np.append(np.full(70, 0.7), [0.0] * constant), rows)
    return Objective(Binary() if classes == 2 else Multinomial(classes), data, ridge=ridge)


SETTINGS = [{}, {"constant": False}, {"weighted": True}, {"soft": True}, {"center": True}, {"kind": np.float32}]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("classes", [2, 4])
def test_combinations_of_rows_have_the_derivatives_of_what_they_stand_for(classes, settings):
    F = problem(classes, **settings)
    space, rng = RowSpace.of(F), np.random.default_rng(1)
    Z, V = 0.1 * rng.normal(size=(2, *space.ridge.shape))
    ZK, VK = space.times(Z), space.times(V)
    θ, δ, scores = space.parameters(Z), space.parameters(V), space.scores(Z)
    rough = {"rel": 1e-4, "abs": 1e-4}  # products are in single precision
    loss, residual = space.loss_and_residual(scores)
    assert loss + 0.5 * np.vdot(Z, space.ridge * ZK) == pytest.approx(F.value(θ), **rough)
    np.testing.assert_allclose(space.potentials(VK), F.model.potentials(δ, F.like), atol=1e-3)
    point = F.point(θ)
    assert np.vdot(space.gradient(Z, residual), VK) == pytest.approx(point.gradient @ δ, **rough)
    assert np.vdot(space.curve(scores)(V, VK), VK) == pytest.approx(δ @ HessianProducts(F, point)(δ), **rough)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("penalty", [0.7, 1e-4], ids=["usual", "weak"])
@pytest.mark.parametrize("factors", [FREE, NEVER], ids=["factors", "without"])
def test_steps_among_rows_lead_to_the_optimum(classes, settings, penalty, factors, monkeypatch):
    monkeypatch.setattr(row_space, "PRODUCTS_WITHIN", 0)
    F = problem(classes, **settings)
    F = F.with_ridge(F.ridge * (penalty / 0.7))
    place, steps, _ = newton(RowSpace.of(F), np.zeros(1 if classes == 2 else classes), 100, factors, SOLVE)
    assert steps < 40
    assert F.certify(RowSpace.of(F).parameters(place.Z)).gap < (1e-4 if settings.get("kind") is np.float32 else 1e-6)


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_a_factor_is_the_inverse_of_a_hessian_of_one_score(precision):
    F = problem(2, constant=False, weighted=True)
    space = RowSpace.of(F)
    space = replace(space, products=space.products.astype(precision))
    Z = np.random.default_rng(1).normal(size=space.ridge.shape) * (F.like.weight > 0)
    scores = space.scores(0.1 * Z)
    right = space.curve(scores)(Z, space.times(Z))
    found = WithinClasses.of(space, space.loss_and_residual(scores)[1])(right)
    weighed = F.like.weight > 0
    np.testing.assert_allclose(found[:, weighed], Z[:, weighed], atol=1e-4)


@pytest.mark.parametrize("classes", [3, 5])
def test_factors_within_classes_are_those_of_the_blocks_of_the_hessian(classes):
    """But for what all classes have in common, which no score sees, and intercepts, which stay apart."""
    F = problem(classes)
    space, rng = RowSpace.of(F), np.random.default_rng(1)
    Z = rng.normal(size=space.ridge.shape)
    residual = space.loss_and_residual(space.scores(0.1 * Z))[1]
    found, K = WithinClasses.of(space, residual)(Z), space.products.astype(float)
    weights, t = space.class_weights(residual), space.rows
    expected = [
        np.linalg.solve(W[:, None] * K + λ[0] * np.eye(t), z)
        for W, λ, z in zip(weights, space.ridge, Z[:, :t], strict=True)
    ]
    apart = expected - np.mean(expected, axis=0)
    np.testing.assert_allclose(found[:, :t], apart, rtol=1e-3, atol=1e-3 * np.abs(apart).max())
    alone = Z[:, t] / (weights.sum(axis=1) + space.ridge[:, t])
    np.testing.assert_allclose(found[:, t], alone - alone.mean(), atol=1e-5 * np.abs(alone).max())


def test_classes_that_weigh_nothing_have_finite_factors():
    """Probabilities of exactly zero or one: no curvature is left, nor its root in single precision."""
    F = problem(4)
    space = RowSpace.of(F)
    assert space.products.dtype == np.float32
    residual = space.loss_and_residual(1e4 * np.eye(4)[:, F.whole.y])[1]
    with np.errstate(all="raise", under="ignore"):
        found = WithinClasses.of(space, residual)
        assert np.isfinite(found(np.ones_like(space.ridge))).all()


def test_steps_among_rows_go_on_as_long_as_the_limit_allows():
    """Weights of many orders of magnitude take hundreds of steps: a step in all columns costs twenty times as much."""
    task = Problem(seed=9411959, t=24, p=520, n=8, data="degenerate", C=2.01, weights="extreme", mode="offset")
    model, _ = fitted(task, make(task))
    assert model.n_iter_ > 500
    assert model.result_.account[-1][1] == "Newton steps in the space of 24 rows"


@pytest.mark.parametrize("classes", [2, 4])
def test_columns_on_wild_scales_take_factors_and_few_products(classes):
    rng, n = np.random.default_rng(2), 1 if classes == 2 else classes
    X, y = rng.normal(size=(80, 200)) * 10 ** rng.uniform(-2, 2, 200), rng.integers(0, classes, 80)
    model, ridge = Binary() if n == 1 else Multinomial(n), np.tile(np.append(np.full(200, 0.1), 0.0), n)
    F = Objective(model, Labelled(X, y, constant=True, center=True), ridge=ridge)
    space = RowSpace.of(F)
    assert space.products.dtype == np.float64
    place, _, products = newton(space, np.zeros(n), 100, 20.0, SOLVE)
    assert F.certify(space.parameters(place.Z)).gap < 1e-5
    other, _, without = newton(space, np.zeros(n), 100, NEVER, SOLVE)
    assert without > 1.5 * products
    assert other.value == pytest.approx(place.value, rel=1e-5)


def test_factors_are_found_once_products_have_cost_as_much_and_where_solves_save_some(monkeypatch):
    found, of = [], WithinClasses.of.__func__
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(80, 200)) * 10 ** rng.uniform(-2, 2, 200), rng.integers(0, 2, 80)
    space = RowSpace.of(Objective(Binary(), Labelled(X, y), ridge=0.1))
    monkeypatch.setattr(WithinClasses, "of", classmethod(lambda cls, *known: found.append(1) or of(cls, *known)))
    for factors, solve in ((NEVER, SOLVE), (20.0, 1e9)):
        newton(space, np.zeros(1), 100, factors, solve)
        assert not found
    many = []
    for factors in (20.0, 200.0, 1_000.0):
        _, _, products = newton(space, np.zeros(1), 100, factors, SOLVE)
        assert factors * len(found) <= products
        many.append(len(found))
        found.clear()
    assert many[0] > 0
    assert many == sorted(many, reverse=True)


def test_factors_that_rounding_has_spoiled_are_left(monkeypatch):
    """Then conjugate gradients go on as without."""
    F = problem(3)
    space = RowSpace.of(F)
    place, *work = newton(space, np.zeros(3), 100, NEVER, SOLVE)
    monkeypatch.setattr(row_space, "PRODUCTS_WITHIN", 0)
    monkeypatch.setattr(WithinClasses, "of", classmethod(lambda cls, *known: None))
    without, *as_before = newton(space, np.zeros(3), 100, FREE, SOLVE)
    np.testing.assert_array_equal(without.Z, place.Z)
    assert as_before == work
    monkeypatch.undo()
    monkeypatch.setattr(row_space, "PRODUCTS_WITHIN", 0)
    monkeypatch.setattr(WithinClasses, "__call__", lambda self, Z: -Z)
    found, *_ = newton(space, np.zeros(3), 100, FREE, SOLVE)
    assert F.certify(space.parameters(found.Z)).gap < 1e-6


@pytest.mark.parametrize("rows", [12, 90])
def test_repeated_rows_and_more_rows_than_columns_do_no_harm(rows):
    rng = np.random.default_rng(0)
    X, y = np.repeat(rng.normal(size=(rows, 60)), 2, axis=0), rng.integers(0, 3, 2 * rows)
    F = Objective(Multinomial(3), Labelled(X, y, constant=True), ridge=np.tile(np.append(np.ones(60), 0.0), 3))
    space = RowSpace.of(F)
    place, *_ = newton(space, np.zeros(3), 100, FREE, SOLVE)
    assert F.certify(space.parameters(place.Z)).gap < 1e-7


@pytest.mark.parametrize("uneven", ["feature", "class", "none"])
def test_penalties_that_differ_do_not_suit(uneven):
    F = problem(4)
    ridge = F.ridge.reshape(4, -1).copy()
    if uneven == "feature":
        ridge[:, 3] = 2.0
    elif uneven == "class":
        ridge[1] *= 2.0
    else:
        ridge[:] = 0.0
    assert not row_space.suits(F.with_ridge(ridge.ravel()))


def test_losses_that_are_not_convex_stay_in_all_columns():
    """Where they would begin there, at zero, hidden states cannot be told apart."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 900)), np.append(np.arange(10), rng.integers(0, 10, 140))
    F = Objective(majorant.LatentMultinomial([2] * 10), Labelled(X, y), ridge=1.0)
    assert not suits(F)
    assert suits(Objective(Multinomial(10), Labelled(X, y), ridge=1.0))


def test_rows_that_are_many_more_than_columns_do_not_suit():
    rng = np.random.default_rng(0)
    for rows, columns, suit in ((160, 290, True), (300, 290, True), (900, 290, False)):
        X, y = rng.normal(size=(rows, columns)), rng.integers(0, 3, rows)
        assert suits(Objective(Multinomial(3), Labelled(X, y), ridge=1.0)) == suit
    X, y = rng.normal(size=(300, 290)), rng.integers(0, 3, 300)
    assert not suits(Objective(Multinomial(3), Labelled(X, y), ridge=1e-9))  # K is singular, and rounding exceeds λ


def test_wide_data_of_many_classes_are_fitted_there(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 900)), rng.integers(0, 20, 150)
    model = LogisticRegression(tol=1e-8).fit(X, y)
    assert model.result_.account[0] == (0, "Newton steps in the space of 150 rows")
    assert model.gap_ <= 1e-8
    monkeypatch.setattr(row_space, "suits", lambda objective: False)
    without = LogisticRegression(tol=1e-8).fit(X, y)
    np.testing.assert_allclose(model.coef_, without.coef_, atol=1e-3 * np.abs(without.coef_).max())
    np.testing.assert_allclose(model.intercept_, without.intercept_, atol=1e-3)


def test_fits_that_are_slow_in_all_columns_end_there(monkeypatch):
    monkeypatch.setattr(row_space, "is_next_to_free", lambda objective: False)
    X, y = slow_in_all_columns()
    model = LogisticRegression(C=50.0, tol=1e-7, fit_intercept=False).fit(X, y)
    step, what = model.result_.account[-1]
    assert what == "Newton steps in the space of 147 rows"
    assert 0 < step < model.n_iter_[0] < 200
    assert model.gap_ <= 1e-7


def slow_in_all_columns():
    rng = np.random.default_rng(10_072)
    X = rng.normal(size=(147, 592)) * np.exp(1.4 * rng.normal(size=592)) + 5.0 * rng.normal(size=592)
    return X, np.append(np.arange(4), rng.integers(0, 4, 143))


@pytest.mark.parametrize("most", [0, 1, 3])
def test_a_limit_of_steps_holds_there(most):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 900)), rng.integers(0, 20, 150)
    F = Objective(Multinomial(20), Labelled(X, y), ridge=1.0)
    found = majorant.minimize(F, QuasiNewton(), tol=1e-14, max_steps=most)
    assert found.trace["step"][-1] == most
    assert "limit" in found.result.message


def test_a_limit_of_steps_holds_where_a_fit_ends_there(monkeypatch):
    monkeypatch.setattr(row_space, "is_next_to_free", lambda objective: False)
    X, y = slow_in_all_columns()
    F = Objective(Multinomial(4), Labelled(X, y), ridge=0.02)
    freely = majorant.minimize(F, QuasiNewton(), tol=1e-7)
    entered = next(step for step, what in freely.result.account if "rows" in what)
    limited = majorant.minimize(F, QuasiNewton(), tol=1e-14, max_steps=entered + 2)
    assert limited.trace["step"][-1] <= entered + 2


def test_correlated_columns_of_two_classes_are_fitted_there():
    """Steps in all columns would be many."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(200, 5)) @ rng.normal(size=(5, 900)) + 0.3 * rng.normal(size=(200, 900)), np.arange(200) % 2
    model = LogisticRegression(tol=1e-8).fit(X, y)
    assert model.result_.account[0] == (0, "Newton steps in the space of 200 rows")
    assert model.gap_ <= 1e-8


def test_columns_far_from_zero_in_single_precision_lead_nowhere_worse_than_zero():
    rng = np.random.default_rng(0)
    X, y = (rng.normal(size=(5, 346)) + 919_000.0).astype(np.float32), np.array([0, 1, 0, 1, 1])
    F = Objective(Binary(), Labelled(X, y), ridge=1.0)
    assert QuasiNewton().start(F, np.zeros(F.size)).point.value <= F.value_at_zero()
