"""ℓ1 and elastic-net logistic regression: optimality conditions, scikit-learn's saga, and what must not matter."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LogisticRegression as Theirs

import majorant
from majorant import LogisticRegression, LogisticRegressionCV, logistic_regression_path
from majorant.solvers import ProximalNewton


def rows(seed=0, t=120, p=15, classes=2, sparse=False, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(t, p)) * (rng.uniform(size=(t, p)) < (0.3 if sparse else 1)) + shift
    B = rng.normal(size=(classes, p)) * (np.arange(p) < 4)
    y = (2 * (X - shift) @ B.T + rng.gumbel(size=(t, classes))).argmax(axis=1)
    y[:classes] = np.arange(classes)
    return (sp.csr_array(X) if sparse else X), y


def violation(model, X, y, weight=None, factors=None, offset=0.0):
    """Return how far the optimality conditions are from true, relative to λ, written out."""
    X = X.toarray() if sp.issparse(X) else np.asarray(X, dtype=float)
    W, b, n = np.asarray(model.coef_, dtype=float), np.asarray(model.intercept_, dtype=float), len(model.classes_)
    if n == 2:
        W, b, offset = np.vstack([0 * W, W]), np.append(0, b), np.column_stack([0 * y, offset + 0 * y])
    P = softmax(X @ W.T + b + offset, axis=1)
    R = (P - np.eye(n)[y]) * (1 if weight is None else weight[:, None])
    G, r, φ = R.T @ X, model.l1_ratio, 1.0 if factors is None else factors
    G, W = (G[1:], W[1:]) if n == 2 else (G, W)
    λ = φ / model.C
    at = np.where(W != 0, G + λ * (r * np.sign(W) + (1 - r) * W), np.maximum(abs(G) - λ * r, 0))
    free = abs(R.sum(axis=0)).max() if model.fit_intercept else 0.0
    return max(abs(at).max(), free) * model.C


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_optimality_conditions_hold(classes, sparse, l1_ratio, intercept):
    X, y = rows(classes=classes, sparse=sparse, shift=0 if sparse else 3)
    for C in (0.1, 1.0, 20.0):
        model = LogisticRegression(l1_ratio=l1_ratio, C=C, fit_intercept=intercept, tol=1e-8).fit(X, y)
        assert model.gap_ <= 1e-7  # rounding, which counts by itself here
        assert violation(model, X, y) < 1e-2
        assert model.n_nonzero_ == (model.coef_ != 0).sum()
    assert 0 < LogisticRegression(l1_ratio=l1_ratio, C=0.15).fit(X, y).n_nonzero_ < model.coef_.size


@pytest.mark.parametrize("classes", [2, 3])
def test_coefficients_are_sagas(classes):
    X, y = rows(classes=classes)
    ours = LogisticRegression(l1_ratio=0.7, C=0.5, tol=1e-10).fit(X, y)
    theirs = Theirs(l1_ratio=0.7, C=0.5, solver="saga", tol=1e-9, max_iter=20_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_array_equal(ours.coef_ != 0, theirs.coef_ != 0)


@pytest.mark.parametrize("classes", [2, 3])
def test_weights_offsets_factors_and_single_precision(classes):
    X, y = rows(classes=classes)
    rng = np.random.default_rng(1)
    weight, factors = rng.integers(0, 4, len(y)).astype(float), rng.choice([0.5, 1.0, 3.0], X.shape[1])
    offset = rng.normal(size=len(y) if classes == 2 else (len(y), classes))
    settings = dict(l1_ratio=0.8, C=0.3, feature_penalty=factors, tol=1e-10)
    model = LogisticRegression(**settings).fit(X, y, weight, offset)
    assert violation(model, X, y, weight, factors, offset) < 1e-4
    many = np.repeat(np.arange(len(y)), weight.astype(int))
    repeated = LogisticRegression(**settings).fit(X[many], y[many], offset=offset[many])
    np.testing.assert_allclose(model.coef_, repeated.coef_, atol=1e-5)
    order = rng.permutation(len(y))
    shuffled = LogisticRegression(**settings).fit(X[order], y[order], weight[order], offset[order])
    np.testing.assert_allclose(model.coef_, shuffled.coef_, atol=1e-5)
    narrow = LogisticRegression(**settings).fit(X.astype(np.float32), y, weight, offset)
    assert narrow.coef_.dtype == np.float32
    np.testing.assert_allclose(model.coef_, narrow.coef_, atol=1e-5)
    balanced = LogisticRegression(l1_ratio=1, C=0.3, class_weight="balanced", tol=1e-8).fit(X, y)
    counts = np.bincount(y)
    assert violation(balanced, X, y, len(y) / (classes * counts[y])) < 1e-3


def test_features_without_a_penalty_are_always_in():
    X, y = rows()
    factors = np.where(np.arange(X.shape[1]) == 9, 0.0, 1.0)
    model = LogisticRegression(l1_ratio=1, C=0.01, feature_penalty=factors, tol=1e-8).fit(X, y)
    np.testing.assert_array_equal(model.coef_[0] != 0, factors == 0)
    assert violation(model, X, y, factors=factors) < 1e-4


def test_units_of_columns_go_with_their_factors():
    X, y = rows()
    units = 10.0 ** np.random.default_rng(0).integers(-3, 4, X.shape[1])
    plain = LogisticRegression(l1_ratio=1, C=0.5, tol=1e-10).fit(X, y)
    scaled = LogisticRegression(l1_ratio=1, C=0.5, tol=1e-10, feature_penalty=units).fit(X * units, y)
    np.testing.assert_allclose(plain.coef_, scaled.coef_ * units, atol=1e-5)


# --- degenerate cases -------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
def test_at_the_largest_rate_all_are_zero_and_below_it_few_are_not(classes):
    X, y = rows(classes=classes)
    shares = np.eye(classes)[y].mean(axis=0)
    most = abs(X.T @ (shares - np.eye(classes)[y])).max()
    above, below = (
        LogisticRegression(l1_ratio=1, C=1 / (most * factor), tol=1e-8).fit(X, y) for factor in (1.001, 0.999)
    )
    assert above.n_nonzero_ == 0
    assert above.n_iter_[0] <= 1
    assert 1 <= below.n_nonzero_ <= 2
    assert max(above.gap_, below.gap_) <= 1e-8


@pytest.mark.parametrize("classes", [2, 3])
def test_separable_data_have_an_optimum(classes):
    X, y = rows(classes=classes, t=60)
    y = (X[:, :classes] if classes > 2 else np.column_stack([X[:, 0], -X[:, 0]])).argmax(axis=1)
    model = LogisticRegression(l1_ratio=1, C=1e4).fit(X, y)
    assert model.score(X, y) == 1
    assert model.gap_ < 1e-5


def test_duplicate_constant_and_empty_columns_are_fine():
    X, y = rows()
    wide = np.column_stack([X, X, np.ones(len(X)), np.zeros(len(X)), X[:, :1]])
    plain, model = (LogisticRegression(l1_ratio=1, C=0.5, tol=1e-8).fit(each, y) for each in (X, wide))
    assert model.gap_ <= 1e-8
    p = X.shape[1]
    together = model.coef_[:, :p] + model.coef_[:, p : 2 * p]
    together[:, 0] += model.coef_[:, -1]
    np.testing.assert_allclose(together, plain.coef_, atol=1e-4)
    np.testing.assert_array_equal(model.coef_[0, 2 * p : 2 * p + 2], 0)


def test_wide_data_are_fitted_by_compiled_sweeps_as_well():
    rng = np.random.default_rng(0)
    X = sp.random_array((900, 4_000), density=0.1, rng=rng, format="csr")
    y = ((X @ rng.normal(size=4_000)) > 0).astype(int)
    model = LogisticRegression(l1_ratio=1, C=1.0, tol=1e-8).fit(X, y)
    assert violation(model, X, y) < 1e-3
    many = rng.integers(0, 3, len(y))
    assert violation(LogisticRegression(l1_ratio=1, C=1.0, tol=1e-8).fit(X, many), X, many) < 1e-2


def test_sweeps_over_dense_and_sparse_columns_and_the_matrix_agree(monkeypatch):
    X, y = rows(classes=3, t=200, p=60)
    found = []
    for at_once in (0.0, 1e9):  # sweeps first, or the matrix at once
        monkeypatch.setattr("majorant.core.proximal_newton.AT_ONCE", at_once)
        monkeypatch.setattr("majorant.core.proximal_newton.VISITS", 1e9)  # compiled
        for given, labels in ((X, y), (sp.csr_array(X), y), (X, y % 2), (sp.csr_array(X), y % 2)):
            found.append(LogisticRegression(l1_ratio=0.9, C=0.2, tol=1e-10).fit(given, labels).coef_)
    for k in range(4):
        np.testing.assert_allclose(found[k], found[k + 4], atol=1e-5)
        np.testing.assert_allclose(found[k], found[k - k % 2], atol=1e-5)


# --- runs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [0, 1, 2, 3])
def test_gaps_hold_wherever_a_run_stops_and_goes_on(stop, tmp_path):
    X, y = rows(classes=3)
    data = majorant.Labelled(X, y, constant=True)
    factors = np.tile(np.append(np.ones(X.shape[1]), 0.0), 3)
    F = majorant.Objective(majorant.Multinomial(3), data, ridge=majorant.objective.ElasticNet(2 * factors, 0.0, 48))
    whole = majorant.minimize(F, ProximalNewton())
    begun = majorant.minimize(F, ProximalNewton(), max_steps=stop)
    value, best = F.value(begun.params), F.value(whole.params)
    assert (value - best) / value <= begun.result.gap + 1e-12
    resumed = majorant.minimize(F, ProximalNewton(), start=begun)
    assert resumed.result.gap <= 1e-8
    assert F.value(resumed.params) == pytest.approx(best, rel=1e-7)


def test_a_checkpoint_goes_on_as_if_the_fit_had_not_stopped(tmp_path):
    X, y = rows(classes=3)
    path = tmp_path / "fit.majorant"
    settings = dict(l1_ratio=1, C=5.0)
    whole = LogisticRegression(**settings).fit(X, y)
    checkpoint = majorant.Checkpoint(path, every=0)
    with pytest.warns(ConvergenceWarning):
        LogisticRegression(max_iter=1, callbacks=[checkpoint], **settings).fit(X, y)
    resumed = LogisticRegression(**settings).fit(X, y, resume_from=path)
    np.testing.assert_array_equal(whole.coef_, resumed.coef_)


def test_solvers_penalties_and_data_that_have_none_are_refused():
    X, y = rows()
    with pytest.raises(ValueError, match="use 'auto'"):
        LogisticRegression(l1_ratio=1, solver="newton").fit(X, y)
    with pytest.raises(ValueError, match="set l1_ratio=0"):
        LogisticRegression(l1_ratio=1).partial_fit(X, y, classes=[0, 1])
    model = LogisticRegression(l1_ratio=1, C=0.2).fit(X, y)
    with pytest.raises(ValueError, match="no standard errors"):
        model.summary(X, y)
    assert np.isinf(model.coef_error_).all()
    assert np.isfinite(LogisticRegression(l1_ratio=0.5, C=0.2).fit(X, y).coef_error_).all()


def test_select_from_model_takes_the_support():
    X, y = rows()
    model = LogisticRegression(l1_ratio=1, C=0.1)
    chosen = SelectFromModel(model).fit(X, y)
    np.testing.assert_array_equal(chosen.get_support(), model.fit(X, y).coef_[0] != 0)
    assert model.sparsify().coef_.nnz == model.n_nonzero_
    np.testing.assert_array_equal(model.predict(X), model.densify().predict(X))


# --- paths and cross-validation ---------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
def test_every_point_of_a_path_is_the_fit_by_itself(classes):
    X, y = rows(classes=classes, p=40)
    path = logistic_regression_path(X, y, Cs=[3.0, 0.02, 0.3], l1_ratio=0.9, tol=1e-8)
    assert (path.gaps <= 1e-7).all()
    for C, coef in zip(path.Cs, path.coefs, strict=True):
        alone = LogisticRegression(C=C, l1_ratio=0.9, tol=1e-8).fit(X, y)
        np.testing.assert_allclose(coef, alone.coef_, atol=2e-4)
    np.testing.assert_array_equal(path.n_nonzero, (path.coefs != 0).sum(axis=(1, 2)))


def test_cross_validation_chooses_a_ratio_and_a_strength():
    X, y = rows()
    model = LogisticRegressionCV(
        Cs=[0.01, 0.1, 1.0], l1_ratios=[0.0, 0.5, 1.0], cv=3, scoring="neg_log_loss", use_legacy_attributes=False
    ).fit(X, y)
    assert model.scores_.shape == (3, 3, 3)
    ratio, C = np.unravel_index(model.scores_.mean(axis=0).argmax(), (3, 3))
    assert (model.l1_ratio_, model.C_) == ([0.0, 0.5, 1.0][ratio], [0.01, 0.1, 1.0][C])
    alone = LogisticRegression(C=model.C_, l1_ratio=model.l1_ratio_).fit(X, y)
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-6)


def test_a_number_of_points_begins_where_all_are_zero_and_is_drawn():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    X, y = rows()
    path = logistic_regression_path(X, y, Cs=5, l1_ratio=1, tol=1e-6)
    assert path.n_nonzero[0] == 0 < path.n_nonzero[1]
    assert path.Cs[-1] == pytest.approx(1000 * path.Cs[0])
    axes = majorant.plot(path)
    drawn = [line for line in axes.lines if len(line.get_xdata()) == 5]
    assert len(drawn) == path.coefs.any(axis=0).sum()
    assert axes.get_xscale() == "log"
