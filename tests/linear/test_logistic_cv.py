"""LogisticRegressionCV against scikit-learn's, and what it adds."""

import warnings

import numpy as np
import pytest
import sklearn
import sklearn.linear_model
from sklearn.metrics import get_scorer, log_loss, make_scorer
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, StratifiedKFold
from sklearn.utils.fixes import parse_version

from majorant import Checkpoint, LogisticRegression, LogisticRegressionCV
from majorant.estimators.saving import all_or_nothing

GRID = [1.0, 0.01, 10.0]
# Before 1.8 scikit-learn had no attributes but the legacy ones.
THEIR_ATTRIBUTES = parse_version(sklearn.__version__) >= parse_version("1.8")


@pytest.fixture(scope="module")
def three():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4)) * [1, 2, 0.5, 1]
    y = np.array(["ash", "beech", "cedar"])[np.argmax(X[:, :3] + 2 * rng.gumbel(size=(150, 3)), axis=1)]
    return X, y, rng.uniform(size=150)


@pytest.fixture(scope="module")
def two(three):
    X, y, weight = three
    return X, y == "cedar", weight


def theirs(**settings):
    """Return scikit-learn's estimator, fitted far enough to be compared with."""
    new = dict(l1_ratios=(0.0,), use_legacy_attributes=False, solver="newton-cholesky", tol=1e-10, max_iter=1000)
    return sklearn.linear_model.LogisticRegressionCV(**{**new, **settings})


def ours(**settings):
    return LogisticRegressionCV(tol=1e-13, **settings)


# --- the same model as scikit-learn's ---------------------------------------------------------------------


@pytest.mark.skipif(not THEIR_ATTRIBUTES, reason="scikit-learn shows its folds otherwise")
@pytest.mark.unwatched
@pytest.mark.parametrize(("problem", "intercept"), [("two", True), ("three", False)])
@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("legacy", [True, False])
@pytest.mark.parametrize("l1_ratios", [None, (0.0,), (0.0, 0.0)])
@pytest.mark.filterwarnings("ignore:.*l1_ratios=None.*:FutureWarning")
def test_every_attribute_is_scikit_learns(request, problem, refit, intercept, legacy, l1_ratios):
    X, y, weight = request.getfixturevalue(problem)
    settings = dict(
        Cs=GRID, cv=3, scoring="neg_log_loss", refit=refit, fit_intercept=intercept, l1_ratios=l1_ratios,
        use_legacy_attributes=legacy, class_weight="balanced",
    )  # fmt: skip
    a, b = ours(**settings).fit(X, y, weight), theirs(**settings).fit(X, y, weight)
    for name in ("coef_", "intercept_", "Cs_", "C_"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), atol=1e-5)
    for name in ("scores_", "coefs_paths_"):
        mine, other = getattr(a, name), getattr(b, name)
        assert type(mine) is type(other)
        for x, z in zip(mine.values(), other.values(), strict=True) if legacy else [(mine, other)]:
            assert x.shape == z.shape
            np.testing.assert_allclose(x, z, atol=1e-5)
        assert not legacy or list(mine) == list(other)
    assert a.n_iter_.shape == b.n_iter_.shape
    np.testing.assert_array_equal(a.l1_ratios_, b.l1_ratios_)
    np.testing.assert_array_equal(a.l1_ratio_, b.l1_ratio_ if refit or l1_ratios else a.l1_ratio_)


@pytest.mark.skipif(not THEIR_ATTRIBUTES, reason="scikit-learn shows its folds otherwise")
@pytest.mark.parametrize("scoring", [None, "neg_log_loss", "f1_macro", get_scorer("balanced_accuracy")])
def test_weights_of_rows_are_weights_of_scores(three, scoring):
    X, y, weight = three
    a = ours(Cs=GRID, cv=3, scoring=scoring).fit(X, y, weight)
    b = theirs(Cs=GRID, cv=3, scoring=scoring).fit(X, y, weight)
    np.testing.assert_allclose(a.scores_, b.scores_, atol=1e-6)
    assert a.score(X, y, sample_weight=weight) == pytest.approx(b.score(X, y, sample_weight=weight), abs=1e-6)
    if scoring == "neg_log_loss":
        assert a.score(X, y) == pytest.approx(-log_loss(y, a.predict_proba(X)))


# --- folds that lack classes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scoring", ["accuracy", "neg_log_loss", make_scorer(log_loss, response_method="predict_proba")]
)
@pytest.mark.parametrize("refit", [True, False])
def test_a_fold_may_lack_a_class(three, scoring, refit):
    X, y, _ = three
    order = np.argsort(y, kind="stable")
    folds = [(np.flatnonzero(y[order] != tree), np.flatnonzero(y[order] == tree)) for tree in ("ash", "beech", "cedar")]
    a = ours(Cs=GRID, cv=folds, scoring=scoring, refit=refit).fit(X[order], y[order])
    assert a.coef_.shape == (3, 4)
    assert np.isfinite(a.scores_).all()
    for lacking, (train, test) in enumerate(folds):
        p = LogisticRegression().fit(X, y)
        p.coef_, p.intercept_ = np.split(a.coefs_paths_[lacking, 0, 0], [4], axis=1)
        p.intercept_ = p.intercept_[:, 0]
        assert p.predict_proba(X[order][test])[:, lacking].max() < 1e-6
        others = np.delete(np.arange(3), lacking)
        without = sklearn.linear_model.LogisticRegression(C=2.0, tol=1e-10, solver="newton-cholesky")
        without.fit(X[order][train], y[order][train])
        # Of two classes with C the softmax has half the penalty.
        np.testing.assert_allclose(np.diff(p.coef_[others], axis=0), without.coef_, atol=1e-3)


def test_a_fold_may_hold_one_class_only(two):
    X, y, _ = two
    order = np.argsort(y, kind="stable")
    y = y[order]
    folds = [(np.flatnonzero(y), np.flatnonzero(~y)), (np.flatnonzero(~y), np.flatnonzero(y))]
    model = LogisticRegressionCV(Cs=GRID, cv=folds).fit(X[order], y)
    assert (model.scores_ == 0).all()
    assert GRID[0] == model.C_
    assert (model.coefs_paths_[..., :-1] == 0).all()
    assert (np.sign(model.coefs_paths_[:, 0, 0, 0, -1]) == [1, -1]).all()
    for settings in (dict(fit_intercept=False), dict(penalize_intercept=True)):
        assert np.isfinite(LogisticRegressionCV(Cs=GRID, cv=folds, **settings).fit(X[order], y).scores_).all()


def test_rows_that_weigh_nothing_are_no_rows(three):
    X, y, weight = three
    gone = np.where(np.arange(150) % 3 == 0, 0.0, weight)
    folds = list(KFold(3).split(X))
    kept = np.flatnonzero(gone)
    fewer = [(np.flatnonzero(np.isin(kept, a)), np.flatnonzero(np.isin(kept, b))) for a, b in folds]
    a = ours(Cs=GRID, cv=folds).fit(X, y, gone)
    b = ours(Cs=GRID, cv=fewer).fit(X[kept], y[kept], gone[kept])
    np.testing.assert_allclose(a.coefs_paths_, b.coefs_paths_, atol=1e-5)
    np.testing.assert_allclose(a.scores_, b.scores_)


# --- what splitters and scorers ask for -------------------------------------------------------------------


def test_groups_are_routed_to_the_splitter(three):
    X, y, _ = three
    groups = np.arange(150) % 7
    with sklearn.config_context(enable_metadata_routing=True):
        routed = ours(Cs=GRID, cv=GroupKFold(3)).fit(X, y, groups=groups)
    given = ours(Cs=GRID, cv=list(GroupKFold(3).split(X, y, groups))).fit(X, y)
    np.testing.assert_array_equal(routed.scores_, given.scores_)
    with pytest.raises(ValueError, match="fit got groups, which is only supported if enable_metadata_routing=True"):
        ours(cv=GroupKFold(3)).fit(X, y, groups=groups)


def test_a_scorer_gets_what_it_asks_for(three):
    X, y, weight = three
    seen = []

    def cost(y_true, y_pred, price):
        seen.append(price)
        return np.average(y_true == y_pred, weights=price)

    with sklearn.config_context(enable_metadata_routing=True):
        scorer = make_scorer(cost).set_score_request(price=True)
        model = LogisticRegressionCV(Cs=[1.0], cv=StratifiedKFold(3), scoring=scorer).fit(X, y, price=weight)
        test = next(iter(StratifiedKFold(3).split(X, y)))[1]
        np.testing.assert_array_equal(seen[0], weight[test])
        assert model.score(X, y, price=weight) == cost(y, model.predict(X), weight)


def test_offsets_are_fitted_and_scored(two):
    X, y, _ = two
    offset = 3 * X[:, 0]
    shifted = ours(Cs=GRID, cv=3, scoring="neg_log_loss").fit(X, y, offset=offset)
    for (train, test), scores in zip(StratifiedKFold(3).split(X, y), shifted.scores_, strict=True):
        model = LogisticRegression(C=GRID[0], tol=1e-13).fit(X[train], y[train], offset=offset[train])
        expected = -log_loss(y[test], model.predict_proba(X[test], offset=offset[test]))
        assert scores[0, 0] == pytest.approx(expected, abs=1e-6)
    final = LogisticRegression(C=shifted.C_, tol=1e-13).fit(X, y, offset=offset)
    np.testing.assert_allclose(shifted.coef_, final.coef_, atol=1e-6)


# --- callbacks, files, failures ---------------------------------------------------------------------------


def test_callbacks_follow_the_fit_of_all_rows(three, tmp_path):
    X, y, _ = three
    rows = []
    model = LogisticRegressionCV(Cs=GRID, cv=3, callbacks=[lambda row, theta: rows.append(row["step"])]).fit(X, y)
    assert rows == model.trace_["step"].tolist()
    path = tmp_path / "on-its-way.npz"
    LogisticRegressionCV(Cs=GRID, cv=3, callbacks=[Checkpoint(path, every=0)]).fit(X, y)
    assert LogisticRegression.load(path).C == model.C_
    with pytest.warns(UserWarning, match="refit=False leaves no fit"):
        LogisticRegressionCV(Cs=GRID, cv=3, refit=False, callbacks=[lambda row, theta: None]).fit(X, y)
    called = []
    with pytest.warns(UserWarning, match="limit of 0 steps"):
        LogisticRegression(max_iter=0, callbacks=[lambda row, theta: called.append(row["step"])]).fit(X, y)
    assert called == [0]


def test_scikit_learns_callbacks_follow_it_too(three):
    pytest.importorskip("sklearn.callback")
    from sklearn.callback.tests._utils import RecordingCallback

    X, y, _ = three
    recorder = RecordingCallback()
    model = LogisticRegressionCV(Cs=GRID, cv=3).set_callbacks(recorder).fit(X, y)
    assert recorder.count_hooks("setup") == recorder.count_hooks("teardown") == 1
    assert recorder.count_hooks("on_fit_task_end") == len(model.trace_["step"]) + 1
    with pytest.warns(UserWarning, match="refit=False leaves no fit"):
        model.set_params(refit=False).fit(X, y)


def test_scikit_learns_callbacks_are_torn_down_after_a_failure(three):
    pytest.importorskip("sklearn.callback")
    from sklearn.callback.tests._utils import RecordingCallback

    X, y, _ = three

    def fail(row, theta):
        raise RuntimeError("late")

    model, recorder = LogisticRegression(callbacks=[fail]), RecordingCallback()
    before = dict(vars(model.set_callbacks(recorder)))
    with pytest.raises(RuntimeError, match="late"):
        model.fit(X, y)
    assert recorder.count_hooks("setup") == recorder.count_hooks("teardown") == 1
    assert vars(model) == before


def test_a_callback_of_scikit_learns_can_stop_a_fit(three):
    callback = pytest.importorskip("sklearn.callback")

    class Stop(callback.FitCallback):
        def setup(self, estimator, context): ...
        def on_fit_task_begin(self, estimator, context, **kwargs): ...
        def teardown(self, estimator, context): ...

        def on_fit_task_end(self, estimator, context, **kwargs):
            return context.task_name == "iteration" and context.task_id == 1

    X, y, _ = three
    assert LogisticRegression(solver="scipy-lbfgs").set_callbacks(Stop()).fit(X, y).n_iter_ == [2]


@pytest.mark.parametrize("legacy", [True, False])
@pytest.mark.parametrize("l1_ratios", [None, (0.0, 0.0)])
@pytest.mark.parametrize("problem", ["two", "three"])
def test_save_and_load(request, tmp_path, problem, legacy, l1_ratios):
    X, y, _ = request.getfixturevalue(problem)
    settings = dict(use_legacy_attributes=legacy, l1_ratios=l1_ratios, Cs=GRID)
    model = LogisticRegressionCV(cv=StratifiedKFold(3), scoring="neg_log_loss", **settings).fit(X, y)
    model.save(tmp_path / "model.npz", notes={"why": "to see"})
    loaded = LogisticRegressionCV.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    for name in ("C_", "Cs_", "l1_ratio_", "l1_ratios_", "n_iter_", "scores_", "coefs_paths_"):
        np.testing.assert_equal(getattr(loaded, name), getattr(model, name))
    assert (loaded.scoring, loaded.cv, loaded.notes_) == ("neg_log_loss", None, {"why": "to see"})
    assert loaded.gap_ == model.gap_
    assert loaded.score(X, y) == pytest.approx(model.score(X, y))
    with pytest.raises(ValueError, match="holds a LogisticRegressionCV"):
        LogisticRegression.load(tmp_path / "model.npz")


def test_a_list_of_splits_is_left_out_of_files(two, tmp_path):
    X, y, _ = two
    splits = [(np.arange(len(y) // 3), np.arange(len(y) // 3, len(y)))]
    LogisticRegressionCV(Cs=2, cv=splits).fit(X, y).save(tmp_path / "m.npz")
    assert LogisticRegressionCV.load(tmp_path / "m.npz").cv is None


def test_a_fit_that_fails_changes_nothing(three):
    X, y, weight = three
    model = LogisticRegressionCV(Cs=GRID, cv=3).fit(X, y)
    before = dict(vars(model))

    def fail(row, theta):
        raise RuntimeError("late")

    model.callbacks = [fail]
    with pytest.raises(RuntimeError, match="late"):
        model.fit(X[:, :2], y == "ash")
    with pytest.raises(ValueError, match="sample_weight must be non-negative"):
        model.fit(X[:, :2], y == "ash", -weight)
    model.callbacks = None
    assert vars(model) == before
    with pytest.raises(KeyboardInterrupt):
        interrupt(model)
    assert vars(model) == before


def interrupt(model):
    with all_or_nothing(model):
        model.coef_, model.new_ = None, 1
        raise KeyboardInterrupt


def test_a_fit_without_refit_forgets_the_fit_of_all_rows(three):
    X, y, _ = three
    model = LogisticRegressionCV(Cs=GRID, cv=3).fit(X, y)
    final = LogisticRegression(C=model.C_).fit(X, y)
    np.testing.assert_allclose(model.posterior_covariance(X), final.posterior_covariance(X), rtol=1e-6)
    np.testing.assert_allclose(
        model.predict_proba(X, posterior=True), final.predict_proba(X, posterior=True), rtol=1e-6
    )
    model.set_params(refit=False).fit(X, y)
    assert not hasattr(model, "trace_")
    with pytest.raises(ValueError, match="call posterior_covariance"):
        model.posterior_covariance()
    with pytest.raises(ValueError, match="averages of folds have no posterior"):
        model.posterior_covariance(X)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(Cs=10.0), "Cs must be a whole number of points or a list of positive numbers, got 10.0"),
        (dict(Cs=-1), "Cs must be a whole number of points .* got -1"),
        (dict(Cs=True), "Cs must be"),
        (dict(Cs="10"), "Cs must be"),
        (dict(Cs=[]), "Cs must be"),
        (dict(Cs=[1, np.nan]), "Cs must be"),
        (dict(Cs=["a"]), "Cs must be"),
        (dict(scoring=["accuracy", "f1"]), "scoring must be one scorer"),
        (dict(scoring=log_loss), "scoring"),
        (dict(refit="no"), "refit must be True or False, got 'no'"),
        (dict(use_legacy_attributes="warn"), "use_legacy_attributes must be True or False"),
        (dict(l1_ratios=(0, 1.5)), "l1_ratio must be a number between 0 and 1, got 1.5"),
        (dict(l1_ratios=()), "l1_ratios must be a list"),
        (dict(penalty=None), r"Cs=\[np.inf\] is a grid without a penalty"),
        (dict(penalty="l0"), "penalty must be one of"),
        (dict(penalty="elasticnet"), "l1_ratios must be given"),
        (dict(solver="liblinear"), "does not support multiclass"),
        (dict(Cs=[1, np.inf], solver="proximal"), "needs a penalty"),
        (dict(tol=None), "tol must be a number"),
    ],
)
def test_bad_settings_are_refused_before_any_fit(three, settings, message):
    X, y, _ = three
    called = []
    model = LogisticRegressionCV(callbacks=[lambda row, theta: called.append(row)], **settings)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not called
    assert not hasattr(model, "classes_")


def test_soft_labels_have_no_scores():
    assert not hasattr(LogisticRegressionCV(), "fit_soft")
    with pytest.raises(AttributeError, match=r"use LogisticRegression\.fit_soft for each C"):
        LogisticRegressionCV().fit_soft([[1.0]], [[0.5, 0.5]])


def test_penalty_l2_and_any_splitter_are_fine(three):
    X, y, _ = three
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LogisticRegressionCV(penalty="l2", cv=ShuffleSplit(2, random_state=0), Cs=3).fit(X, y)
    assert model.scores_.shape == (2, 1, 3)
