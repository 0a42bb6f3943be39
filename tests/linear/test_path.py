"""Grids of C: each fit goes on from what the one before has learnt, and warm starts cost a certificate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import StratifiedKFold

from majorant import (
    Binary,
    Labelled,
    LogisticRegression,
    LogisticRegressionCV,
    Multinomial,
    Objective,
    QuasiNewton,
    logistic_regression_path,
    minimize,
)
from majorant.core.policy import from_sample, sample_size
from majorant.core.preconditioners import DiagonalOfHessian, GramOfColumns, HessianOfAll, pays_in_single_precision
from majorant.linear import logistic
from majorant.linear.path import walk

SHAPES = {  # rows, columns, classes, density
    "long rows": (2000, 200, 5, 1.0),
    "tall": (40_000, 5, 2, 1.0),
    "small": (300, 5, 3, 1.0),
    "sparse": (400, 300, 3, 0.05),
    "wide": (200, 1200, 2, 0.02),
}


def made_up(shape, seed=0, dtype=np.float64):
    t, p, n, density = shape
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(t, p)).astype(dtype)
    if density < 1:
        X = sp.csr_array(np.where(rng.random((t, p)) < density, X, 0))
    W = 2 * rng.normal(size=(p, n)) / np.sqrt(p * density)
    return X, (X @ W + rng.gumbel(size=(t, n))).argmax(axis=1)


def objective(shape, ridge=1.0, seed=0):
    X, y = made_up(shape, seed)
    return Objective(Binary() if shape[2] == 2 else Multinomial(shape[2]), Labelled(X, y), ridge=ridge)


# --- warm starts --------------------------------------------------------------------------------------------


def test_shapes_are_those_with_starts_of_their_own():
    assert pays_in_single_precision(objective(SHAPES["long rows"]))
    assert sample_size(objective(SHAPES["tall"])) > 0


@pytest.mark.parametrize("tolerances", [(1e-9, 1e-8), (1e-6, 1e-3)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_warm_start_within_tolerance_is_one_pass(shape, dtype, tolerances):
    X, y = made_up(SHAPES[shape], dtype=dtype)
    model = LogisticRegression(tol=tolerances[0], warm_start=True).fit(X, y)
    model.set_params(tol=tolerances[1]).fit(X, y)
    assert model.n_iter_[0] == 0
    assert model.gap_ <= tolerances[1]
    assert model.trace_["passes"].tolist() == [1.0]
    assert model.trace_["curvatures"].tolist() == [0.0]


@pytest.mark.parametrize("shape", SHAPES)
def test_so_is_a_start_from_a_solution_or_its_parameters(shape):
    F = objective(SHAPES[shape])
    solution = minimize(F, QuasiNewton(), tol=1e-9)
    for start in (solution, solution.params):
        again = minimize(F, QuasiNewton(), start=start)
        assert again.result.converged
        assert again.trace["passes"][-1] <= 1
        assert again.trace["curvatures"][-1] == 0


@pytest.mark.parametrize("shape", SHAPES)
def test_a_good_point_is_not_left_for_a_start_of_the_plan(shape):
    F = objective(SHAPES[shape])
    cold = minimize(F, QuasiNewton(), tol=1e-10)
    near = minimize(F, QuasiNewton(), start=cold.params * (1 + 1e-3), tol=1e-8)
    assert near.result.converged
    assert not any("rows" in what or "precision" in what for _, what in near.result.account)
    assert near.trace["objective"][0] <= cold.trace["objective"][-1] * (1 + 1e-4)


@pytest.mark.parametrize("shape", ["long rows", "tall"])
def test_a_poor_point_is(shape):
    F = objective(SHAPES[shape])
    poor = minimize(F, QuasiNewton(), start=np.random.default_rng(0).normal(size=F.size), tol=1e-8)
    assert poor.result.converged
    assert any("rows" in what or "precision" in what for _, what in poor.result.account)
    assert (np.diff(poor.trace["objective"]) <= 1e-9 * poor.trace["objective"][0]).all()


@pytest.mark.parametrize("shape", ["small", "sparse", "wide"])
def test_unless_there_is_no_other(shape):
    F = objective(SHAPES[shape])
    trace = minimize(F, QuasiNewton(), start=np.random.default_rng(0).normal(size=F.size)).trace
    assert (np.diff(trace["objective"][:4]) < 0).all()


# --- from one ridge to the next -------------------------------------------------------------------------------


@pytest.mark.parametrize("ridge", [1e-3, 30.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_an_objective_with_another_ridge_is_the_one_made_with_it(shape, ridge):
    F, made = objective(SHAPES[shape]).with_ridge(ridge), objective(SHAPES[shape], ridge)
    theta = np.random.default_rng(1).normal(size=F.size)
    assert F.value(theta) == made.value(theta)
    assert F.certify(theta).gap == made.certify(theta).gap


def test_also_where_other_parameters_are_penalised():
    X, y = made_up(SHAPES["small"])
    free = np.tile(np.append(np.ones(5), 0.0), 3)
    F = Objective(Multinomial(3), Labelled(X, y, constant=True), ridge=free)
    assert F.intercept
    assert not F.with_ridge(1.0).intercept
    assert not F.with_ridge(0.0).certifiable
    assert F.with_ridge(1.0).with_ridge(free).intercept


def test_pairs_change_as_gradients_do():
    F, solver = objective(SHAPES["small"]), QuasiNewton(curvature="diagonal")
    F2 = F.with_ridge(0.3)
    state = solver.start(F, np.zeros(F.size))
    visited = [state.theta]
    for _ in range(5):
        state = solver.step(F, state)
        visited.append(state.theta)
    carried = state.carried(F2, visited[-1])
    assert len(carried.pairs) == 5
    for (s, y, sy), before, after in zip(carried.pairs, visited[:-1], visited[1:], strict=True):
        np.testing.assert_allclose(s, after - before, atol=1e-12)
        change = F2.value_and_gradient(after)[1] - F2.value_and_gradient(before)[1]
        np.testing.assert_allclose(y, change, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(sy, s @ y)


@pytest.mark.parametrize("offer", [DiagonalOfHessian(), GramOfColumns(), HessianOfAll()])
@pytest.mark.parametrize("shape", ["small", "sparse"])
def test_a_curvature_found_under_one_ridge_holds_under_another(shape, offer):
    F = objective(SHAPES[shape])
    F2, rng = F.with_ridge(0.01), np.random.default_rng(0)
    point, b = F.point(0.1 * rng.normal(size=F.size)), rng.normal(size=F.size)
    before, found = offer.at(F, point), offer.at(F2, F2.point(point.theta))
    np.testing.assert_allclose(before(F2.ridge)(b), found(F2.ridge)(b), rtol=1e-2, atol=1e-4 * np.abs(b).max())
    assert not np.allclose(before(F.ridge)(b), before(F2.ridge)(b), rtol=1e-2)


def test_so_does_that_of_a_sample():
    F = objective(SHAPES["tall"])
    begun, b = from_sample(F, np.zeros(F.size), 0, sample_size(F), 8), np.ones(F.size)
    hessian = F.hessian(begun.point.theta)[2].as_matrix()
    for ridge in (1.0, 5e3):
        exact = np.linalg.solve(hessian + ridge * np.eye(F.size), b)
        np.testing.assert_allclose(begun.factorize(np.full(F.size, ridge))(b), exact, rtol=0.3)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_solution_under_another_ridge_saves_passes_and_curvatures(shape):
    F = objective(SHAPES[shape])
    F2 = F.with_ridge(0.5)
    before = minimize(F, QuasiNewton(), tol=1e-8)
    carried, cold = minimize(F2, QuasiNewton(), start=before), minimize(F2, QuasiNewton())
    assert carried.result.converged
    assert carried.trace["objective"][-1] == pytest.approx(cold.trace["objective"][-1], rel=2e-8)
    assert carried.trace["passes"][-1] < cold.trace["passes"][-1]
    assert before.state.ridge[0] == 1.0, "states are never changed"


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_what_was_learnt_of_other_data_does_no_harm(scale):
    F = objective(SHAPES["small"])
    X, y = made_up(SHAPES["small"])
    other = Objective(Multinomial(3), Labelled(scale * X, y), ridge=0.5)
    misled = minimize(other, QuasiNewton(), start=minimize(F, QuasiNewton()), max_steps=100)
    fresh = minimize(other, QuasiNewton(), start=minimize(F, QuasiNewton()).params, max_steps=100)
    assert misled.result.converged
    assert misled.trace["step"][-1] <= fresh.trace["step"][-1] + 10


# --- paths ----------------------------------------------------------------------------------------------------

SETTINGS = {
    "dense": ("small", {}),
    "binary": ("tall", {}),
    "sparse": ("sparse", {"penalize_intercept": True}),
    "wide": ("wide", {"fit_intercept": False}),
    "weights": ("small", {"class_weight": "balanced", "feature_penalty": [1.0, 2.0, 0.5, 1.0, 3.0]}),
    "stochastic": ("small", {"solver": "proximal"}),
    "lbfgs": ("small", {"solver": "scipy-lbfgs"}),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_a_path_is_separate_fits(case):
    shape, settings = SETTINGS[case]
    X, y = made_up(SHAPES[shape], seed=3)
    Cs = [10.0, 0.01, 0.1, 0.1, 1.0]
    path = logistic_regression_path(X, y, Cs=Cs, tol=1e-10, **settings)
    for C, coef, intercept, gap in zip(Cs, path.coefs, path.intercepts, path.gaps, strict=True):
        alone = LogisticRegression(C=C, tol=1e-10, **settings).fit(X, y)
        size = np.abs(alone.coef_).max()
        np.testing.assert_allclose(coef, alone.coef_, atol=2e-4 * size)
        np.testing.assert_allclose(intercept, alone.intercept_, atol=2e-4 * max(size, 1.0))
        assert gap <= 1e-10


def test_a_path_may_end_without_a_penalty():
    X, y = made_up(SHAPES["small"], seed=3)
    path = logistic_regression_path(X, y, Cs=[1.0, np.inf, 1e3])
    alone = LogisticRegression(C=np.inf).fit(X, y)
    assert path.gaps[1] <= 1e-8
    np.testing.assert_allclose(path.coefs[1], alone.coef_, atol=1e-3)


def test_a_path_costs_far_less_than_its_fits():
    X, y = made_up((2000, 30, 5, 1.0))
    X = X @ np.random.default_rng(1).normal(size=(30, 30))  # columns hang together
    Cs = np.logspace(-3, 1, 17)
    path = logistic_regression_path(X, y, Cs=Cs, tol=1e-6)
    alone = [LogisticRegression(C=C, tol=1e-6).fit(X, y).trace_ for C in Cs]
    assert path.n_iter.sum() + len(Cs) < 0.4 * sum(trace["passes"][-1] for trace in alone)


def test_a_path_reads_the_data_once_and_its_models_keep_no_hold_of_them(monkeypatch):
    read = []
    monkeypatch.setattr(logistic, "Labelled", lambda *rows, **more: read.append(rows) or Labelled(*rows, **more))
    X, y = made_up(SHAPES["small"])
    models = [model for _, model in walk(np.array([0.1, 1.0]), {}, lambda model: model.fit(X, y))]
    assert len(read) == 1
    assert not any("_sweep" in vars(model) for model in models)


def test_folds_go_the_same_way():
    X, y = made_up(SHAPES["small"], seed=5)
    model = LogisticRegressionCV(Cs=[0.01, 1.0, 100.0], cv=3, tol=1e-12).fit(X, y)
    for k, (train, test) in enumerate(StratifiedKFold(3).split(X, y)):
        for c, C in enumerate(model.Cs_):
            alone = LogisticRegression(C=C, tol=1e-10).fit(X[train], y[train])
            np.testing.assert_allclose(model.coefs_paths_[k, 0, c][:, :-1], alone.coef_, atol=1e-4)
            assert model.scores_[k, 0, c] == alone.score(X[test], y[test])


def test_a_solution_can_be_moved_before_it_is_gone_on_from():
    F = objective(SHAPES["small"])
    before = minimize(F, QuasiNewton())
    moved = minimize(F.with_ridge(0.5), QuasiNewton(), start=replace(before, params=1.1 * before.params))
    assert moved.result.converged
    assert moved.trace["objective"][0] == F.with_ridge(0.5).value(1.1 * before.params)
