"""LogisticRegression against scikit-learn's, and what it adds."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.linear_model
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import majorant
from majorant import LogisticRegression, LogisticRegressionCV, logistic_regression_path

CHECKED = [LogisticRegression(), LogisticRegression(solver="proximal"), LogisticRegressionCV(Cs=[0.01, 1.0], cv=3)]


@pytest.mark.unwatched
@parametrize_with_checks(CHECKED)
def test_scikit_learn_compatible(estimator, check):
    check(estimator)


def trees():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)) * [1, 2, 0.5, 1]
    y = np.array(["ash", "beech", "cedar"])[np.argmax(X[:, :3] + rng.gumbel(size=(200, 3)), axis=1)]
    return X, y


@pytest.fixture(scope="module")
def three():
    return trees()


def two(three):
    X, y = three
    return X, np.where(y == "cedar", "cedar", "other")


# --- the same model as scikit-learn's ---------------------------------------------------------------------


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_coefficients_agree_with_newton_cholesky(three, binary, intercept, class_weight):
    X, y = two(three) if binary else three
    weight = np.random.default_rng(1).integers(0, 4, size=200)
    settings = dict(C=0.7, fit_intercept=intercept, class_weight=class_weight)
    ours = LogisticRegression(tol=1e-14, **settings).fit(X, y, sample_weight=weight)
    theirs = sklearn.linear_model.LogisticRegression(solver="newton-cholesky", tol=1e-12, **settings)
    theirs.fit(X, y, sample_weight=weight)
    assert ours.coef_.shape == theirs.coef_.shape
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-6)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(np.exp(ours.predict_log_proba(X)), ours.predict_proba(X), atol=1e-12)
    assert (ours.predict(X) == theirs.predict(X)).all()


@pytest.mark.parametrize("solver", ["auto", "bbm", "newton", "scipy-lbfgs", "proximal"])
@pytest.mark.parametrize("sparse", [False, True])
def test_every_solver_certifies_the_same_optimum(three, solver, sparse):
    X, y = three
    X = sp.csr_array(X * (np.abs(X) > 0.5)) if sparse else X
    model = LogisticRegression(solver=solver, tol=1e-9, random_state=0).fit(X, y)
    assert model.gap_ <= 1e-9
    assert model.result_.converged
    reference = LogisticRegression(solver="newton", tol=1e-13).fit(X, y)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=2e-4)


@pytest.mark.parametrize("solver", ["sbm", "sbm-lowrank", "sgd", "asgd"])
@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.filterwarnings("ignore:stopped at the limit")
def test_comparators_run_and_learn(three, solver, binary):
    X, y = two(three) if binary else three
    model = LogisticRegression(solver=solver, max_iter=10, penalize_intercept=True, random_state=0).fit(X, y)
    best = LogisticRegression(penalize_intercept=True).fit(X, y)
    assert model.trace_["objective"][-1] < 1.2 * best.trace_["objective"][-1]
    assert model.score(X, y) > best.score(X, y) - 0.1


def test_no_penalty_has_a_certificate(three):
    X, y = three
    model = LogisticRegression(C=np.inf).fit(X, y)
    theirs = sklearn.linear_model.LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-3)
    assert model.gap_ <= 1e-6
    assert (np.abs(model.coef_ - theirs.coef_) <= model.coef_error_ + 1e-5).all()
    assert "a unique maximum-likelihood estimate exists (proved)" in str(model.result_)


def test_the_intercept_can_be_penalised_and_features_differently(three):
    X, y = three
    X1 = np.column_stack([X, np.ones(200)])
    penalised = LogisticRegression(penalize_intercept=True, tol=1e-13).fit(X, y)
    written_out = LogisticRegression(fit_intercept=False, tol=1e-13).fit(X1, y)
    np.testing.assert_allclose(penalised.intercept_, written_out.coef_[:, -1], atol=1e-6)
    factors = np.array([1.0, 4.0, 0.25, 1.0])
    weighted = LogisticRegression(feature_penalty=factors, tol=1e-13).fit(X, y)
    scaled = LogisticRegression(tol=1e-13).fit(X / np.sqrt(factors), y)
    np.testing.assert_allclose(weighted.coef_, scaled.coef_ / np.sqrt(factors), atol=1e-6)


# --- the certificate --------------------------------------------------------------------------------------


def objective_of(model, X, y):
    """Return what is minimised, at the coefficients of a model."""
    log_p = model.predict_log_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    return -log_p.sum() + 0.5 / model.C * (model.coef_.astype(float) ** 2).sum()


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.filterwarnings("ignore:stopped at the limit")
def test_the_gap_is_never_below_the_truth(three, binary):
    X, y = two(three) if binary else three
    best = LogisticRegression(tol=1e-13).fit(X, y).trace_["objective"][-1]
    for steps in range(6):
        model = LogisticRegression(solver="scipy-lbfgs", max_iter=steps).fit(X, y)
        reached = objective_of(model, X, y)
        assert model.gap_ >= (reached - best) / reached - 1e-12
        assert 0 <= model.gap_ <= 1


def test_the_gap_is_never_below_the_truth_where_rows_are_saturated(three):
    X, y = two(three)
    plain = LogisticRegression(tol=1e-12).fit(X, y)
    for size in (5.0, 30.0, 100.0):
        shifted = LogisticRegression(tol=1e-9).fit(X, y, offset=np.full(200, size))
        assert shifted.gap_ <= 1e-9
        np.testing.assert_allclose(shifted.intercept_ + size, plain.intercept_, atol=1e-3)
        np.testing.assert_allclose(shifted.coef_, plain.coef_, atol=1e-3)
    F = majorant.Objective(
        majorant.Binary(), majorant.Labelled(np.zeros((4, 1)), [0, 0, 1, 1], constant=True), ridge=[1.0, 0.0]
    )
    found = F.certify([0.0, 1000.0])
    assert np.isnan(found.gap) or found.value == pytest.approx(4 * np.log(2), rel=1e-6)


def test_a_fit_that_gets_nowhere_says_so(three):
    X, y = three
    with np.errstate(all="ignore"), pytest.warns(ConvergenceWarning, match="no further decrease"):
        LogisticRegression(fit_intercept=False).fit(X * 1e200, y)


def test_columns_that_carry_nothing_are_fine(three):
    X, y = three
    for C in (1.0, np.inf):
        model = LogisticRegression(C=C).fit(np.column_stack([X, np.zeros(200), X[:, 0]]), y)
        assert model.result_.converged
    free = LogisticRegression(feature_penalty=[1, 1, 1, 1, 0]).fit(np.column_stack([X, np.zeros(200)]), y)
    assert free.result_.converged


@pytest.mark.parametrize("shift", [0.0, 30.0, 1000.0])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_float32_never_crashes(shift):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = (rng.normal(size=(5000, 6)) + shift).astype(np.float32)
        y = (X[:, 0] - shift + rng.logistic(size=5000) > 0).astype(int)
        model = LogisticRegression(C=1e6).fit(X, y)
        assert model.score(X, y) > 0.6


def test_stopping_early_is_said_with_how_far(three):
    X, y = three
    with pytest.warns(ConvergenceWarning, match=r"limit of 2 steps; the certificate says nothing yet"):
        LogisticRegression(max_iter=2, solver="scipy-lbfgs").fit(X, y)
    with pytest.warns(ConvergenceWarning, match=r"limit of \d+ steps; certified to be within .* of the optimum"):
        model = LogisticRegression(max_iter=2, solver="newton", tol=1e-15).fit(X, y)
    assert not model.result_.converged
    assert model.gap_ > 1e-4


def test_a_limit_of_steps_is_no_warning_where_a_fit_is_certified_to_be_good(three):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LogisticRegression(max_iter=9, solver="scipy-lbfgs").fit(*three)
    assert model.result_.outcome.value == "step limit"
    assert model.tol < model.gap_ <= 1e-4


def test_separable_data_without_a_penalty_are_reported():
    with pytest.warns(ConvergenceWarning, match="completely separated"):
        LogisticRegression(C=np.inf, fit_intercept=False).fit([[1.0], [-1.0]], [0, 1])


def test_trace_is_a_dict_of_equal_columns(three):
    trace = LogisticRegression(solver="bbm").fit(*three).trace_
    assert {"passes", "seconds", "objective", "gradient_norm", "gap"} < set(trace)
    assert len({len(column) for column in trace.values()}) == 1


# --- data of all kinds ------------------------------------------------------------------------------------


def test_data_frames_keep_their_names(three):
    pd = pytest.importorskip("pandas")
    X, y = three
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = LogisticRegression().fit(frame, pd.Series(y))
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(model.coef_, LogisticRegression().fit(X, y).coef_)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "c", "d"]])


def test_polars_frames_are_fine(three):
    pl = pytest.importorskip("polars")
    X, y = three
    frame = pl.DataFrame({name: X[:, k] for k, name in enumerate("abcd")})
    model = LogisticRegression().fit(frame, pl.Series(y))
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert (model.predict(frame) == LogisticRegression().fit(X, y).predict(X)).all()


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.csc_matrix])
def test_sparse_equals_dense(three, kind):
    X, y = three
    X = X * (np.abs(X) > 1)
    a, b = LogisticRegression(tol=1e-12).fit(X, y), LogisticRegression(tol=1e-12).fit(kind(X), y)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-6)
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(kind(X)), atol=1e-6)


def test_float32_in_float32_out(three):
    X, y = three
    with np.errstate(all="ignore"):
        model = LogisticRegression(tol=1e-5).fit(X.astype(np.float32), y)
    assert model.coef_.dtype == np.float32
    assert model.intercept_.dtype == np.float64  # columns far from zero need it so
    assert model.predict_proba(X.astype(np.float32)).dtype == np.float64
    np.testing.assert_allclose(model.coef_, LogisticRegression().fit(X, y).coef_, atol=1e-2)


def test_soft_labels_are_weighted_copies(three):
    X, _ = three
    P = np.random.default_rng(2).dirichlet(np.ones(3), size=200)
    soft = LogisticRegression(tol=1e-13).fit_soft(X, P, classes=["a", "b", "c"])
    copies = LogisticRegression(tol=1e-13).fit(
        np.repeat(X, 3, axis=0), np.tile(["a", "b", "c"], 200), sample_weight=P.ravel()
    )
    np.testing.assert_allclose(soft.coef_, copies.coef_, atol=1e-6)
    assert soft.predict(X[:2]).tolist() == copies.predict(X[:2]).tolist()
    two_columns = LogisticRegression(tol=1e-13).fit_soft(X, np.column_stack([P[:, 0], 1 - P[:, 0]]))
    assert two_columns.coef_.shape == (1, 4)
    unsorted = LogisticRegression(tol=1e-13).fit_soft(X, P[:, [2, 0, 1]], classes=["c", "a", "b"])
    np.testing.assert_allclose(unsorted.coef_, soft.coef_, atol=1e-8)
    with pytest.raises(ValueError, match="sum to one"):
        LogisticRegression().fit_soft(X, P * 2)
    with pytest.raises(ValueError, match="each differently"):
        LogisticRegression().fit_soft(X, P, classes=["a", "b", "a"])


def test_offsets_shift_the_scores(three):
    X, y = three
    offset = np.random.default_rng(3).normal(size=(200, 3))
    model = LogisticRegression(tol=1e-12).fit(X, y, offset=offset)
    assert np.abs(model.coef_ - LogisticRegression(tol=1e-12).fit(X, y).coef_).max() > 0.01
    # the free intercepts make the expected counts those observed, if the offset is in both
    np.testing.assert_allclose(
        model.predict_proba(X, offset=offset).sum(axis=0), [(y == c).sum() for c in model.classes_], rtol=1e-5
    )
    with pytest.raises(ValueError, match=r"offset must have shape \(200, 3\)"):
        model.predict(X, offset=offset[:, 0])


# --- streaming --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("binary", [True, False])
def test_partial_fit_is_one_proximal_pass(three, binary):
    X, y = two(three) if binary else three
    whole = LogisticRegression(solver="proximal", max_iter=1, shuffle=False, tol=0.0)
    with pytest.warns(ConvergenceWarning, match="limit of 1 step;"):
        whole.fit(X, y)
    stream = LogisticRegression(shuffle=False)
    for start in (0, 100):
        stream.partial_fit(X[start : start + 100], y[start : start + 100], classes=np.unique(y))
    np.testing.assert_allclose(stream.coef_, whole.coef_, atol=0.05)
    fresh = majorant.ProximalMajorization(shuffle=False)
    model = majorant.Binary() if binary else majorant.Multinomial(3)
    data = majorant.Labelled(X, np.unique(y, return_inverse=True)[1], constant=True)
    F = majorant.Objective(model, data, ridge=np.tile([1.0] * 4 + [0.0], model.coefficient_rows))
    one_pass = fresh.visit(F, fresh.start(F, np.zeros(F.size)), F.data).theta
    np.testing.assert_allclose(stream.coef_.ravel(), one_pass.reshape(-1, 5)[:, :4].ravel(), atol=1e-10)
    assert np.isnan(stream.gap_)


def test_chunks_may_miss_classes_and_rows_count_as_often_as_they_come(three):
    X, y = three
    with pytest.warns(UserWarning, match=r"look sorted by it.*shuffle them"):
        model = LogisticRegression().partial_fit(X[y == "ash"], y[y == "ash"], classes=["ash", "beech", "cedar"])
    for tree in ("beech", "cedar", "ash", "cedar", "beech"):
        model.partial_fit(X[y == tree], y[y == tree])
    assert model.coef_.shape == (3, 4)
    assert np.isfinite(model.coef_).all()
    size = len(pickle.dumps(model))
    model.partial_fit(X, y)
    assert len(pickle.dumps(model)) == size  # memory does not grow with the rows seen


def test_partial_fit_refuses_what_it_cannot_do(three):
    X, y = three
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        LogisticRegression().partial_fit(X, y)
    with pytest.raises(ValueError, match="class_weight='balanced'"):
        LogisticRegression(class_weight="balanced").partial_fit(X, y, classes=np.unique(y))
    model = LogisticRegression()
    with pytest.raises(ValueError, match=r"not named at the first call.*cedar"):
        model.partial_fit(X, y, classes=["ash", "beech"])
    model.partial_fit(X, y, classes=np.unique(y))  # a refused call leaves nothing behind
    with pytest.raises(ValueError, match="needs a penalty"):
        LogisticRegression(C=np.inf).partial_fit(X, y, classes=np.unique(y))
    shallow = copy.copy(model)
    before = model.posterior_covariance()
    shallow.partial_fit(X, y)
    np.testing.assert_array_equal(model.posterior_covariance(), before)
    with pytest.raises(ValueError, match=r"not named at the first call.*oak"):
        model.partial_fit(X[:1], ["oak"])
    with pytest.raises(ValueError, match="differ from those of the first call"):
        model.partial_fit(X, y, classes=["ash", "oak"])


# --- files, and life among other estimators ---------------------------------------------------------------


def test_save_and_load(three, tmp_path):
    X, y = three
    settings = dict(C=np.float32(3.0), max_iter=np.int64(70), feature_penalty=np.ones(4), class_weight={"ash": 2})
    model = LogisticRegression(**settings).fit(X, y)
    model.save(tmp_path / "model.npz")
    loaded = LogisticRegression.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.coef_error_, model.coef_error_)
    np.testing.assert_array_equal(loaded.intercept_error_, model.intercept_error_)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.get_params() == {**model.get_params(), "feature_penalty": [1.0] * 4}
    np.testing.assert_allclose(loaded.fit(X, y).coef_, model.coef_)
    numbers = LogisticRegression(class_weight={0: 1, 1: 3}).fit(X, y == "ash")
    numbers.save(tmp_path / "model.npz")
    assert LogisticRegression.load(tmp_path / "model.npz").class_weight == {0: 1, 1: 3}
    assert loaded.gap_ == model.gap_
    assert (loaded.predict(X) == model.predict(X)).all()
    assert [path.name for path in tmp_path.iterdir()] == ["model.npz"]


def test_foreign_and_truncated_files_are_named(three, tmp_path):
    X, y = three
    path = tmp_path / "model.npz"
    LogisticRegression().fit(X, y).save(path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match="not a saved majorant model, or is incomplete"):
        LogisticRegression.load(path)
    np.savez(path, a=np.zeros(3))
    with pytest.raises(ValueError, match="not a saved majorant model"):
        LogisticRegression.load(path)
    path.write_bytes(pickle.dumps({"evil": 1}))
    with pytest.raises(ValueError, match="not a saved majorant model"):
        LogisticRegression.load(path)
    with pytest.raises(FileNotFoundError):
        LogisticRegression.load(tmp_path / "nothing.npz")
    with pytest.raises(NotFittedError):
        LogisticRegression().save(path)


def test_life_among_estimators(three):
    X, y = three
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.6
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=3).fit(X, y)
    assert search.best_params_["C"] in (0.1, 1.0)
    calibrated = CalibratedClassifierCV(LogisticRegression(), cv=3).fit(X, y)
    assert calibrated.predict_proba(X).shape == (200, 3)
    model = LogisticRegression().fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert not hasattr(clone(model), "coef_")


@pytest.mark.parametrize("solver", ["auto", "bbm", "scipy-lbfgs", "newton"])
@pytest.mark.parametrize("rows", [200, 6000])
def test_warm_starts_start_where_they_left_off(three, solver, rows):
    X, y = three
    again = np.random.default_rng(0).integers(200, size=rows)
    model = LogisticRegression(solver=solver, warm_start=True, tol=1e-8).fit(X[again], y[again])
    assert model.fit(X[again], y[again]).n_iter_ <= 1


@pytest.mark.parametrize("solver", ["bbm", "scipy-lbfgs", "newton"])
def test_warm_starts_do_not_pay_for_what_all_classes_share(three, solver):
    """Coefficients of all classes moved by the same are the same model, but of another penalty."""
    X, y = three
    model = LogisticRegression(solver=solver, warm_start=True).fit(X, y)
    best = model.trace_["objective"][-1]
    model.coef_ = model.coef_ + np.array([1.0, -2.0, 0.5, 3.0])
    model.fit(X, y)
    assert model.trace_["objective"][0] == pytest.approx(best, rel=1e-6)
    assert model.n_iter_ <= 1


@pytest.mark.parametrize("far", [1e3, 1e6])
def test_warm_starts_follow_columns_that_moved(three, far):
    X, y = three
    model = LogisticRegression(warm_start=True).fit(X, y).fit(X + far, y)
    assert model.result_.converged
    model.coef_ = np.full_like(model.coef_, np.nan)
    assert model.fit(X, y).result_.converged
    assert LogisticRegression(warm_start=True).fit(X, y).fit(X[:, :2], y).coef_.shape == (3, 2)


def test_far_columns_in_single_precision_are_predicted_as_they_were_fitted(three):
    X, y = three
    X = (np.round(X * 4) + 1e7).astype(np.float32)
    model = LogisticRegression(tol=1e-6).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), model.predict_proba(X.astype(np.float64)), atol=1e-9)


def test_the_path_is_that_of_separate_fits(three):
    X, y = three
    path = logistic_regression_path(X, y, Cs=[10.0, 0.1, 1.0], tol=1e-13)
    assert path.Cs.tolist() == [10.0, 0.1, 1.0]
    for C, coef, intercept in zip(path.Cs, path.coefs, path.intercepts, strict=True):
        alone = LogisticRegression(C=C, tol=1e-13).fit(X, y)
        np.testing.assert_allclose(coef, alone.coef_, atol=1e-5)
        np.testing.assert_allclose(intercept, alone.intercept_, atol=1e-5)
    assert path.n_iter.shape == (3,)
    assert (path.gaps <= 1e-13).all()
    assert path.classes.tolist() == ["ash", "beech", "cedar"]
    with pytest.raises(ValueError, match="C is what a path sets itself"):
        logistic_regression_path(X, y, C=2.0)


def test_cross_validation_chooses_like_a_grid_search(three):
    X, y = three
    ours = LogisticRegressionCV(Cs=[1e-4, 1e-2, 1.0], cv=4, scoring="neg_log_loss", tol=1e-9).fit(X, y)
    theirs = GridSearchCV(LogisticRegression(), {"C": [1e-4, 1e-2, 1.0]}, cv=4, scoring="neg_log_loss").fit(X, y)
    assert theirs.best_params_["C"] == ours.C_
    np.testing.assert_allclose(ours.scores_[:, 0].mean(axis=0), theirs.cv_results_["mean_test_score"], atol=1e-4)
    np.testing.assert_allclose(ours.coef_, theirs.best_estimator_.coef_, atol=1e-4)
    averaged = LogisticRegressionCV(Cs=[1.0], cv=4, refit=False).fit(X, y)
    assert averaged.coef_.shape == (3, 4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(C=0), "C must be positive"),
        (dict(C=-1), "C must be positive"),
        (dict(l1_ratio=1.5), "l1_ratio must be a number between 0 and 1, got 1.5"),
        (dict(solver="sagas"), "solver must be one of 'auto', 'bbm'.*got 'sagas'"),
        (dict(C=np.inf, solver="proximal"), "needs a penalty"),
        (dict(solver="sbm"), "set penalize_intercept=True"),
        (dict(max_iter=-1), "max_iter must be a whole number of at least 0, got -1"),
        (dict(feature_penalty=[1.0]), "feature_penalty must be 4 non-negative numbers"),
    ],
)
def test_bad_settings(three, settings, message):
    with pytest.raises(ValueError, match=message):
        LogisticRegression(**settings).fit(*three)


def test_bad_data(three):
    X, y = three
    with pytest.raises(ValueError, match="at least two classes, got only one class"):
        LogisticRegression().fit(X, np.full(200, "ash"))
    with pytest.raises(ValueError, match="NaN"):
        LogisticRegression().fit(X, np.where(np.arange(200) == 3, np.nan, 1.0))
    with pytest.raises(ValueError, match="infinity"):
        LogisticRegression().fit(np.where(X > 2, np.inf, X), y)
    with pytest.raises(ValueError, match="4 features"):
        LogisticRegression().fit(X, y).predict(X[:, :3])
    with pytest.raises(ValueError, match="non-zero"):
        LogisticRegression().fit(X, y, sample_weight=np.zeros(200))


# --- classes whose rows all weigh zero ----------------------------------------------------------------------


@pytest.mark.parametrize("positives", [2, 3, 5])
@pytest.mark.parametrize("settings", [{}, {"C": np.inf}, {"class_weight": "balanced"}])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_bags_without_a_rare_class_are_fitted(positives, settings):
    """Bootstraps are weights, and some leave one class."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 5)), (np.arange(200) < positives).astype(int)
    for seed in range(5):
        ours = BaggingClassifier(LogisticRegression(**settings), n_estimators=20, random_state=seed).fit(X, y)
        assert all(model.classes_.tolist() == [0, 1] for model in ours.estimators_)
        if not settings:
            its = sklearn.linear_model.LogisticRegression(tol=1e-8)
            theirs = BaggingClassifier(its, n_estimators=20, random_state=seed).fit(X, y)
            np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("solver", ["auto", "bbm", "newton", "scipy-lbfgs", "proximal", "sgd"])
@pytest.mark.parametrize("classes", [2, 3])
def test_one_class_that_counts_is_certain(three, solver, classes):
    X, y = three if classes == 3 else two(three)
    model = LogisticRegression(solver=solver).fit(X, y, sample_weight=(y == "cedar").astype(float))
    assert model.classes_.tolist() == np.unique(y).tolist()
    assert model.predict_proba(X)[:, model.classes_ == "cedar"].min() > 1 - 2e-6
    assert (model.coef_ == 0).all()
    assert model.result_.converged
    assert str(model.result_).startswith("only class 'cedar' has rows of positive weight: coefficients are zero")
    assert np.isnan(model.gap_)  # there is no optimum to be near
    assert np.isinf(model.coef_error_).all()
    assert np.isinf(model.intercept_error_).all()


@pytest.mark.parametrize("settings", [{"fit_intercept": False}, {"penalize_intercept": True}, {"solver": "liblinear"}])
def test_one_class_has_an_optimum_without_a_free_intercept(three, settings):
    X, y = two(three)
    weight = (y == "cedar").astype(float)
    model = LogisticRegression(tol=1e-12, **settings).fit(X, y, weight)
    assert model.gap_ <= 1e-12
    rows = np.repeat(X[y == "cedar"], 2, axis=0)  # as if there were rows of the other class, with no weight to speak of
    near = LogisticRegression(tol=1e-12, **settings)
    near.fit(rows, np.tile(["cedar", "other"], len(rows) // 2), np.tile([1.0, 1e-12], len(rows) // 2))
    np.testing.assert_allclose(model.coef_, near.coef_, atol=1e-5)


def test_one_class_is_certain_whatever_the_offset(three):
    X, y = three
    offset, weight = 100 * np.random.default_rng(0).normal(size=(200, 3)), (y == "beech").astype(float)
    model = LogisticRegression().fit(X, y, weight, offset)
    assert model.predict_proba(X, offset)[y == "beech", 1].min() > 1 - 2e-6
    with pytest.raises(ValueError, match="offset must be finite, got nan"):
        LogisticRegression().fit(X, y, weight, np.where(offset > 0, np.nan, 0.0))


@pytest.mark.parametrize("C", [1.0, np.inf])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_class_that_does_not_count_gets_no_chance(three, C):
    X, y = three
    weight = (y != "ash").astype(float)
    model, without = LogisticRegression(C=C).fit(X, y, weight), LogisticRegression(C=2 * C)
    without.fit(X[y != "ash"], y[y != "ash"])  # of two classes with C the softmax has half the penalty
    assert model.predict_proba(X)[:, 0].max() < 1e-6
    np.testing.assert_allclose(model.predict_proba(X)[:, 1:], without.predict_proba(X), atol=1e-3)
    assert np.isnan(model.gap_) == np.isinf(C)


def test_balanced_weights_do_not_count_a_class_without_weight(three):
    X, y = three
    weight = (y != "ash").astype(float)
    balanced = LogisticRegression(class_weight="balanced", tol=1e-12).fit(X, y, weight)
    counts = {name: (y == name).sum() for name in ("beech", "cedar")}
    by_hand = {"ash": 1.0} | {name: sum(counts.values()) / (2 * count) for name, count in counts.items()}
    np.testing.assert_allclose(
        balanced.coef_, LogisticRegression(class_weight=by_hand, tol=1e-12).fit(X, y, weight).coef_, atol=1e-6
    )


def test_cross_validation_of_one_class_that_counts(three):
    X, y = two(three)
    model = LogisticRegressionCV(Cs=3).fit(X, y, (y == "cedar").astype(float))
    assert model.predict_proba(X)[:, 0].min() > 1 - 2e-6


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_coefficients_in_single_precision_are_no_worse_than_none():
    """Columns that depend on each other but for rounding have huge coefficients that cancel, if they run off."""
    said = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(20, 3))
        X[:, 1] = X[:, 0] * 10.0 ** rng.integers(-6, 7)
        X, y = X.astype(np.float32), np.argmax(X @ rng.normal(size=(3, 3)), axis=1)
        if len(np.unique(y)) < 3:
            continue
        model = LogisticRegression(C=np.inf, fit_intercept=False).fit(X, y)
        scores = X.astype(np.float64) @ model.coef_.astype(np.float64).T
        loss = np.logaddexp.reduce(scores, axis=1) - scores[np.arange(20), y]
        assert loss.sum() <= 20 * np.log(3) + 1e-9
        assert model.coef_.dtype == np.float32
        said += f"F is {loss.sum():.3g} in double precision" in str(model.result_)
    assert said


def test_a_warm_start_of_the_proximal_solver_begins_to_finish_there():
    X, y = majorant.datasets.load("ecoli")
    model = majorant.LogisticRegression(solver="proximal", warm_start=True, random_state=0, tol=1e-8).fit(X, y)
    cold = model.n_iter_[0]
    again = model.fit(X, y)
    assert again.n_iter_[0] == 1 < cold  # the pass, and there it is
    assert again.gap_ <= 1e-8
    away = majorant.LogisticRegression(solver="proximal", warm_start=True, tol=1e-8)
    away.fit(X, y).coef_[:] = 100.0
    assert away.fit(X, y).gap_ <= 1e-8


def test_no_gap_at_all_may_be_asked_for():
    X, y = majorant.datasets.load("ecoli")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert LogisticRegression(tol=0.0).fit(X, y).gap_ < 1e-15
