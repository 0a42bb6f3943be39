"""Certificates on data that are hard on them: far columns, single precision, runs that were resumed."""

import gc
import weakref

import numpy as np
import pytest
import scipy.sparse as sp

import majorant
from majorant import (
    BatchMajorization,
    Binary,
    Chain,
    Choices,
    EarlyStopping,
    Enumerated,
    Labelled,
    LogisticRegression,
    LowRankStochasticMajorization,
    Multinomial,
    Newton,
    Objective,
    OnlineMajorization,
    ProximalMajorization,
    QuasiNewton,
    StochasticMajorization,
    minimize,
)
from majorant.core import certificates
from majorant.core.intercept import MANY_CLASSES, profile_intercept
from majorant.core.rows import LocalBlocks
from majorant.design import DenseDesign
from tests.problems import MAKERS, make, sequences


def free(model, X, y, **settings):
    ridge = np.tile(np.append(np.ones(X.shape[1]), 0.0), model.coefficient_rows)
    return Objective(model, Labelled(X, y, constant=True, **settings), ridge=ridge)


def excess(F, theta, best):
    """Return the true (F − F*)/F."""
    value = F.value(theta)
    return (value - best) / value


# --- centred columns --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("shift", [3.0, 1e7])
@pytest.mark.parametrize("binary", [True, False])
def test_centred_columns_are_the_same_problem(sparse, shift, binary):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4)) + np.array([shift, 0, -shift, 0])
    X[:, 3] *= rng.uniform(size=50) < 0.3
    model, y = (Binary(), rng.integers(0, 2, 50)) if binary else (Multinomial(3), rng.integers(0, 3, 50))
    F = free(model, sp.csr_array(X) if sparse else X, y, center=True)
    centre = F.data.centre
    np.testing.assert_allclose(centre, [X[:, 0].mean(), 0, X[:, 2].mean(), 0], rtol=1e-12)
    ridge = np.tile([1.0, 1, 1, 1, 0], model.coefficient_rows)
    written_out = np.column_stack([X - centre, np.ones(50)])
    G = Objective(model, Labelled(written_out, y), ridge=ridge)
    theta, loose = rng.normal(size=F.size), 1e-9 * shift if sparse else 1e-9
    np.testing.assert_allclose(F.value(theta), G.value(theta), rtol=loose)
    np.testing.assert_allclose(F.value_and_gradient(theta)[1], G.value_and_gradient(theta)[1], rtol=loose, atol=loose)
    S = F.model.scores(theta, F.data)
    diagonals = [H.model.hessian_diagonal(S, H.data) for H in (F, G)]
    np.testing.assert_allclose(*diagonals, rtol=1e-6, atol=1e-9 * shift**2)
    if shift < 10:
        for form in ("dense", "diagonal"):
            ours, theirs = (H.bound(theta, form).curvature.as_matrix() for H in (F, G))
            np.testing.assert_allclose(ours, theirs, atol=1e-9)
    np.testing.assert_allclose(F.data.design.dense(), written_out, atol=1e-9 * shift)
    M = rng.normal(size=(5, 2))
    np.testing.assert_allclose(F.data.design.times(M), written_out @ M, atol=1e-8 * shift)
    some = np.array([0, 2, 4])
    np.testing.assert_allclose(F.data.design.columns(some).dense(), written_out[:, some], atol=1e-9 * shift)
    np.testing.assert_allclose(F.data.design.csr().toarray(), written_out, atol=1e-9 * shift)
    dense, which = F.data.design.occurring()
    np.testing.assert_allclose(dense, written_out[:, which], atol=1e-9 * shift)


def test_columns_near_zero_stay_as_they_are_and_sparse_ones_sparse():
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.normal(size=(200, 50)) * (rng.random((200, 50)) < 0.05))
    data = Labelled(X, rng.integers(0, 2, 200), constant=True, center=True)
    assert data.centre is None
    assert data.design.numbers.nnz == X.nnz
    with pytest.raises(ValueError, match="set constant=True"):
        Labelled(X, rng.integers(0, 2, 200), center=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moments_keep_their_digits(dtype):
    X = (np.random.default_rng(0).normal(size=(300, 3)) * [1, 10, 0] + [1e4, -3e5, 7]).astype(dtype)
    weight = np.random.default_rng(1).exponential(size=300)
    mean, variance = DenseDesign(X).moments(weight)
    expected = np.average(X.astype(float), axis=0, weights=weight)
    np.testing.assert_allclose(mean, expected, rtol=1e-14)
    np.testing.assert_allclose(variance, np.average((X - expected) ** 2, axis=0, weights=weight), rtol=1e-9, atol=1e-20)


# --- the intercept at its best ----------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0.0, 40.0, 1000.0])
@pytest.mark.parametrize("classes", [2, 4])
def test_the_intercept_is_found_wherever_it_starts(offset, classes):
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, 80)
    model = Binary() if classes == 2 else Multinomial(classes)
    data = Labelled(np.zeros((80, 1)), y, constant=True)
    moved = np.append(np.zeros(model.coefficient_rows - 1), offset)
    scores = np.zeros((model.coefficient_rows, 80)) + moved[:, None]
    best = profile_intercept(model, LocalBlocks([data]), [scores], model.class_totals(data))
    shares = np.bincount(y) / 80
    assert best.loss == pytest.approx(-80 * (shares * np.log(shares)).sum(), rel=1e-12)
    assert best.decrease < 1e-12
    np.testing.assert_allclose(best.residuals[0].sum(axis=1), 0, atol=1e-9)


@pytest.mark.parametrize("scale", [0.1, 3.0, 30.0])
@pytest.mark.parametrize("off", [0.0, 0.05, 5.0])
def test_intercepts_of_many_classes_take_few_hessians_and_end_where_newton_does(scale, off, monkeypatch):
    rng, n, t = np.random.default_rng(0), MANY_CLASSES + 20, 400
    model, y = Multinomial(n), np.append(np.arange(n), rng.integers(0, n, t - n))
    data, scores = Labelled(np.zeros((t, 1)), y, constant=True), scale * rng.normal(size=(n, t))
    totals = model.class_totals(data)
    few = profile_intercept(model, LocalBlocks([data]), [scores], totals)
    shifted = [scores + few.moved[:, None] + off * rng.normal(size=(n, 1))]
    monkeypatch.setattr("majorant.core.intercept.MANY_CLASSES", n)
    newton = profile_intercept(model, LocalBlocks([data]), shifted, totals)
    monkeypatch.undo()
    again = profile_intercept(model, LocalBlocks([data]), shifted, totals)
    for found in (few, again):
        assert found.loss == pytest.approx(newton.loss, rel=1e-12)
        assert found.loss - newton.loss <= found.decrease + 1e-13 * newton.loss
        np.testing.assert_allclose(found.residuals[0].sum(axis=1), 0, atol=1e-6)


def test_no_intercept_is_best_where_one_class_was_observed():
    data = Labelled(np.zeros((5, 1)), np.ones(5, dtype=int), constant=True)
    assert np.isinf(
        profile_intercept(Binary(), LocalBlocks([data]), [np.zeros((1, 5))], Binary().class_totals(data)).decrease
    )


def test_a_certificate_of_a_point_that_may_not_move_counts_its_intercept():
    rng = np.random.default_rng(0)
    F = free(Binary(), rng.normal(size=(60, 2)), rng.integers(0, 2, 60))
    best = minimize(F, Newton(), tol=1e-13)
    off = best.params + np.array([0.0, 0.0, 0.3])
    fixed, moved = F.certify(off, move=False), F.certify(off)
    true = excess(F, off, best.trace["objective"][-1])
    assert true <= fixed.gap <= 1.01 * true + 1e-12
    np.testing.assert_array_equal(fixed.theta, off)
    assert moved.gap < 1e-12


# --- rounding ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("off", [1e-6, 1e-3, 1e-1])
def test_an_intercept_that_is_good_enough_makes_no_gap_larger(classes, off, monkeypatch):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, y = 10.0 ** rng.uniform(-2, 2) * rng.normal(size=(60, 3)), rng.integers(classes, size=60)
        model = Binary() if classes == 2 else Multinomial(classes)
        ridge = np.tile([1.0, 0.1, 3.0, 0.0], model.coefficient_rows)
        F = Objective(model, Labelled(X, y, constant=True), ridge=ridge)
        best = minimize(F, Newton(), tol=1e-13)
        theta = best.params * (1 + off * rng.normal(size=F.size))
        found = F.certify(F.point(theta), largest=0)
        with monkeypatch.context() as exactly:
            exactly.setattr(certificates, "PERCENT", 0.0)
            expected = F.certify(F.point(theta), largest=0)
        truth = (found.value - F.value(best.params)) / found.value
        assert truth - 1e-15 <= found.gap <= 1.01 * expected.gap


def test_the_gap_is_its_formula_where_rounding_is_nothing():
    F = make(MAKERS[4])
    theta = np.random.default_rng(0).normal(size=F.size)
    value, gradient = F.value_and_gradient(theta)
    assert F.gap(theta, value, gradient) == pytest.approx(min(0.5 * (gradient**2 / F.ridge).sum() / value, 1), rel=0.02)


def test_rounding_is_allowed_for():
    rng = np.random.default_rng(0)
    X = 1e7 + rng.normal(size=(60, 2))
    F = free(Binary(), X, (X[:, 0] + rng.logistic(size=60) > 1e7).astype(int))  # not centred
    stalled = minimize(F, QuasiNewton(), tol=0.0)
    G = free(Binary(), X, F.data.y, center=True)
    best = minimize(G, Newton(), tol=1e-12)
    assert best.result.converged
    gap = F.certify(stalled.params).gap
    assert np.isnan(gap) or gap >= excess(F, stalled.params, best.trace["objective"][-1])


def test_a_loss_lost_to_rounding_certifies_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)), rng.integers(0, 2, 20)
    labelled = Labelled(X, y, offset=np.full((20, 2), 1e17))
    choices = Choices(X, np.full(10, 2), chosen=y[::2], log_measure=np.full(20, 1e17))
    for F in (Objective(Multinomial(2), labelled, ridge=1.0), Objective(Enumerated(), choices, ridge=1.0)):
        zero = np.zeros(F.size)
        assert F.gap(zero, *F.value_and_gradient(zero)) == 1.0
        assert not minimize(F, Newton()).result.converged


@pytest.mark.parametrize("binary", [True, False])
def test_single_precision_is_certified_in_double(binary):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(400, 5)) + 3e4).astype(np.float32)
    y = rng.integers(0, 2 if binary else 3, 400)
    model = LogisticRegression(tol=1e-5).fit(X, y)
    wide = LogisticRegression(tol=1e-12).fit(X.astype(np.float64), y)
    F = free(Binary() if binary else Multinomial(3), X.astype(np.float64), y, center=True)
    params = [
        np.column_stack([m.coef_, m.intercept_ + m.coef_.astype(float) @ F.data.centre]).ravel() for m in (model, wide)
    ]
    true = excess(F, params[0], F.value(params[1]))
    assert true <= model.gap_ + 1e-12
    assert model.gap_ < 1e-4


@pytest.mark.parametrize("far", [1e9, 1e12, 1e13])
@pytest.mark.filterwarnings("ignore:no further decrease")
def test_the_rounding_of_an_intercept_is_counted(far):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(300, 3))
    X, y = Z + far, (Z[:, 0] + 0.5 * rng.normal(size=300) > 0).astype(int)
    model = LogisticRegression().fit(X, y)
    F = free(Binary(), X, y, center=True)
    W, b = model.coef_.astype(np.longdouble)[0], model.intercept_.astype(np.longdouble)[0]
    theta = np.append(W, b + W @ F.data.centre.astype(np.longdouble)).astype(float)
    best = minimize(F, Newton(), tol=1e-13).trace["objective"][-1]
    assert excess(F, theta, best) <= model.gap_ + 1e-12


def test_scores_of_a_far_start_are_not_trusted():
    rng = np.random.default_rng(1)
    F = free(Binary(), rng.normal(size=(300, 3)), rng.integers(0, 2, 300))
    best = minimize(F, Newton(), tol=1e-12).trace["objective"][-1]
    for size in (1e12, 1e17, 1e20):
        found = F.certify([0.0, 0.0, 0.0, size])
        assert np.isnan(found.gap) or found.gap >= excess(F, found.theta, best)


def test_a_large_column_that_does_not_vary_is_no_obstacle():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(300, 3))
    y = (Z[:, 0] + rng.logistic(size=300) > 0).astype(int)
    for constant, dtype in ((1.7e9, np.float64), (1e6, np.float32)):
        X = np.column_stack([Z, np.full(300, constant)]).astype(dtype)
        assert LogisticRegression(tol=1e-7).fit(X, y).result_.converged


@pytest.mark.parametrize("wild", [1e6, 1e100, 1e200])
@pytest.mark.parametrize("intercept", [True, False])
def test_rows_that_weigh_nothing_may_hold_anything(wild, intercept):
    rng = np.random.default_rng(0)
    X, y, weight = rng.normal(size=(100, 3)), rng.integers(0, 2, 100), np.ones(100)
    spoilt = X.copy()
    spoilt[[0, 7]], weight[[0, 7]] = wild, 0.0
    model = LogisticRegression(fit_intercept=intercept).fit(spoilt, y, weight)
    without = LogisticRegression(fit_intercept=intercept).fit(X[weight > 0], y[weight > 0])
    np.testing.assert_array_equal(model.coef_, without.coef_)


# --- runs that are resumed --------------------------------------------------------------------------------


def two_orders():
    """Return ecoli twice, the rows of each class in another order."""
    X, y = majorant.datasets.load("ecoli")
    orders = [np.lexsort((np.random.default_rng(seed).random(len(y)), y)) for seed in (0, 1)]
    return [Objective(Multinomial(8), Labelled(X[i], y[i]), ridge=0.01) for i in orders]


@pytest.mark.parametrize("solver", [QuasiNewton(), BatchMajorization(), ProximalMajorization()], ids=str)
def test_rows_in_another_order_are_not_mistaken_for_those_of_before(solver):
    F, G = two_orders()
    again = minimize(G, solver, start=minimize(F, solver, max_steps=5), max_steps=200)
    best = minimize(G, Newton(), tol=1e-12).trace["objective"][-1]
    assert again.trace["objective"][-1] == pytest.approx(G.value(again.params), rel=1e-9)
    assert not excess(G, again.params, best) > again.result.gap + 1e-12


def test_rows_twice_are_not_mistaken_for_weights_of_two():
    X, y = majorant.datasets.load("ecoli")
    F = Objective(Multinomial(8), Labelled(X, y, np.full(len(y), 2.0)), ridge=1.0)
    G = Objective(Multinomial(8), Labelled(np.vstack([X, X]), np.append(y, y)), ridge=1.0)
    again = minimize(G, QuasiNewton(), start=minimize(F, QuasiNewton(), max_steps=3))
    assert again.result.converged


STOCHASTIC = [
    StochasticMajorization(batch_size=12),
    LowRankStochasticMajorization(rank=4, batch_size=12),
    StochasticMajorization(),
]


@pytest.mark.parametrize("solver", STOCHASTIC, ids=str)
def test_resumed_streams_are_evaluated_where_they_are(solver):
    X, y = majorant.datasets.load("ecoli")
    F = Objective(Multinomial(8), Labelled(X, y), ridge=100.0)
    best = minimize(F, Newton(), tol=1e-12).trace["objective"][-1]
    resumed = minimize(F, solver, start=minimize(F, solver, tol=0, max_steps=2), tol=0, max_steps=2)
    assert resumed.trace["objective"][-1] == pytest.approx(F.value(resumed.params), rel=1e-12)
    assert resumed.result.gap >= excess(F, resumed.params, best) - 1e-12


def test_resumed_online_passes_are_evaluated_where_they_are():
    F, online = Objective(Chain(), sequences(), ridge=0.5), OnlineMajorization()
    resumed = minimize(F, online, start=minimize(F, online, tol=0, max_steps=1), tol=0, max_steps=2)
    assert resumed.trace["objective"][-1] == pytest.approx(F.value(resumed.params), rel=1e-12)


# --- what models keep -------------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
def test_models_do_not_keep_their_data_alive(sparse):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 5)) + 2
    X = sp.csr_array(X) if sparse else X
    numbers = weakref.ref(X.data if sparse else X)
    models = [LogisticRegression().fit(X, np.arange(100) % 2), LogisticRegression()]
    models[1].partial_fit(X, np.arange(100) % 2, classes=[0, 1])
    del X
    gc.collect()
    assert numbers() is None
    assert all(np.isfinite(model.coef_).all() for model in models)


def test_early_stopping_says_how_far_the_step_it_kept_is():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(140, 4)) + 5
    y = (X[:, 0] + rng.logistic(size=140) > 5).astype(int)
    stop = EarlyStopping(X[40:], y[40:], patience=1)
    model = LogisticRegression(C=1e3, callbacks=[stop]).fit(X[:40], y[:40])
    best = LogisticRegression(C=1e3, tol=1e-13).fit(X[:40], y[:40]).trace_["objective"][-1]
    F = free(Binary(), X[:40], y[:40])
    F = Objective(F.model, F.data, ridge=F.ridge / 1e3)
    reached = F.value(np.append(model.coef_, model.intercept_))
    assert (reached - best) / reached - 1e-12 <= model.gap_ <= 1
    assert not model.result_.converged


@pytest.mark.parametrize("far", [1e9, 1e11, 1e13, 1e16])
@pytest.mark.parametrize("solver", [Newton(), QuasiNewton(), BatchMajorization()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_scores_that_were_added_up_from_afar_certify_nothing_false(solver, far, seed):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 8))
    F = Objective(Binary(), Labelled(X, (X @ rng.normal(size=8) + rng.normal(size=300) > 0).astype(int)), ridge=0.01)
    best = F.value(minimize(F, Newton(), tol=1e-14).params)
    solution = minimize(F, solver, start=far * np.random.default_rng(seed).normal(size=8))
    assert excess(F, solution.params, best) <= solution.result.gap + 1e-14
    assert not isinstance(solver, Newton) or solution.result.gap <= 1e-8
