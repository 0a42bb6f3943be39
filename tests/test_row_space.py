"""Rows that are fewer than columns: the small problem has the optimum of the large one."""

import numpy as np
import pytest

import majorant
from majorant import Binary, Labelled, LogisticRegression, Multinomial, Objective
from majorant.objective.row_space import RowSpace
from majorant.solvers import row_space
from majorant.solvers.renting import Lease


def problem(classes, *, constant=True, weighted=False, soft=False, center=False, kind=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(24, 70)) + 3.0 * center).astype(kind)
    y = np.append(np.arange(classes), rng.integers(classes, size=24 - classes))
    if soft:
        y = 0.9 * np.eye(classes)[y] + 0.1 / classes
    weight = rng.integers(0, 3, 24).astype(float) if weighted else None
    offset = rng.normal(size=24) if classes == 2 else rng.normal(size=(24, classes))
    data = Labelled(X, y, weight, offset, constant=constant, center=center)
    rows = 1 if classes == 2 else classes
    ridge = np.tile(np.append(np.full(70, 0.7), [0.0] * constant), rows)
    return Objective(Binary() if classes == 2 else Multinomial(classes), data, ridge=ridge)


SETTINGS = [{}, {"constant": False}, {"weighted": True}, {"soft": True}, {"center": True}, {"kind": np.float32}]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("classes", [2, 4])
def test_the_small_problem_has_the_same_optimum(classes, settings):
    F = problem(classes, **settings)
    assert RowSpace.suits(F)
    space = RowSpace.of(F)
    assert space.objective.size < F.size
    A = 0.1 * np.random.default_rng(1).normal(size=(space.objective.size // space.objective.like.n_features, 24))
    small = np.column_stack([A @ space.factor, *([A[:, :1]] if F.like.constant else [])]).ravel()  # W = AX
    tolerance = 1e-5 if settings.get("kind") is np.float32 else 1e-9
    assert F.value(space.back(small)) == pytest.approx(space.objective.value(small), rel=tolerance)
    best = majorant.minimize(space.objective, tol=1e-12).params
    assert F.certify(space.back(best)).gap < 10 * tolerance


def test_repeated_rows_do_no_harm():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(12, 60)), 2, axis=0)
    F = Objective(Binary(), Labelled(X, rng.integers(0, 2, 24), constant=True), ridge=np.append(np.ones(60), 0.0))
    space = RowSpace.of(F)
    best = majorant.minimize(space.objective, tol=1e-10).params
    assert F.certify(space.back(best)).gap < 1e-7


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
    assert not RowSpace.suits(F.with_ridge(ridge.ravel()))


def test_losses_that_are_not_convex_stay_in_all_columns():
    """Where they would begin there, at zero, hidden states cannot be told apart."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 900)), np.append(np.arange(10), rng.integers(0, 10, 140))
    F = Objective(majorant.LatentMultinomial([2] * 10), Labelled(X, y), ridge=1.0)
    assert row_space.in_steps(F) == np.inf
    assert row_space.in_steps(Objective(Multinomial(10), Labelled(X, y), ridge=1.0)) < np.inf


def test_wide_data_of_many_classes_are_fitted_there(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 900)), rng.integers(0, 20, 150)
    model = LogisticRegression(tol=1e-8).fit(X, y)
    assert model.result_.account[0] == (0, "steps in the space of 150 rows")
    assert model.gap_ <= 1e-8
    monkeypatch.setattr(row_space.FromRowSpace, "suits", lambda self, objective, theta: False)
    without = LogisticRegression(tol=1e-8).fit(X, y)
    np.testing.assert_allclose(model.coef_, without.coef_, atol=1e-3 * np.abs(without.coef_).max())
    np.testing.assert_allclose(model.intercept_, without.intercept_, atol=1e-3)


def test_fits_that_are_slow_in_all_columns_end_there():
    rng = np.random.default_rng(10_072)
    X = rng.normal(size=(147, 592)) * np.exp(1.4 * rng.normal(size=592)) + 5.0 * rng.normal(size=592)
    y = np.append(np.arange(4), rng.integers(0, 4, 143))
    model = LogisticRegression(C=50.0, tol=1e-7, fit_intercept=False).fit(X, y)
    step, what = model.result_.account[-1]
    assert what == "steps in the space of 147 rows"
    assert 0 < step < model.n_iter_[0] < 200
    assert model.gap_ <= 1e-7


def test_a_limit_of_steps_holds_there():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 900)), rng.integers(0, 20, 150)
    with pytest.warns(match="limit"):
        model = LogisticRegression(tol=1e-12, max_iter=3).fit(X, y)
    assert model.n_iter_[0] <= 3


@pytest.mark.parametrize("classes", [2, 4])
def test_no_more_steps_are_made_there_than_a_tolerance_asks_for(classes):
    F, made = problem(classes), []
    for tol in (1e-2, 1e-5, 1e-9):
        begun = row_space.FromRowSpace(majorant.QuasiNewton(), 100, tol).begin(F, np.zeros(F.size), seed=0)
        assert F.certify(begun.point, largest=0).gap <= tol  # and none are left to make in all columns
        made.append(begun.made)
    assert made[0] < made[1] < made[2]


def test_correlated_columns_of_two_classes_are_fitted_there():
    """Steps in all columns would be many; of columns that are not correlated they may be few."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(200, 5)) @ rng.normal(size=(5, 900)) + 0.3 * rng.normal(size=(200, 900)), np.arange(200) % 2
    model = LogisticRegression(tol=1e-8).fit(X, y)
    assert model.result_.account[0] == (0, "steps in the space of 200 rows")
    assert model.gap_ <= 1e-8


def test_a_lease_without_steps_says_nothing_of_how_many_are_left():
    assert not Lease().is_slow(1.0, 5.0)
    assert Lease(gains=(1.0, 0.9)).is_slow(1.0, 5.0)
    assert not Lease(gains=(1.0, 1e-6)).is_slow(1.0, 5.0)
