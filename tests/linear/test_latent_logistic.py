"""``LatentLogisticRegression``: scikit-learn's contract, one state, restarts, files, and refusals."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from majorant import Checkpoint, EarlyStopping, LatentLogisticRegression, LatentMultinomial, LogisticRegression, Outcome


@parametrize_with_checks([LatentLogisticRegression(n_init=2)])
def test_scikit_learn_compatible(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def rings():
    """Three classes, two of them in two places."""
    rng = np.random.default_rng(0)
    centres = np.array([[-2.0, 0.0], [2.0, 0.0], [0.0, 2.0], [0.0, -2.0], [0.0, 0.0]])
    state = rng.integers(0, 5, size=300)
    names = np.array(["ash", "ash", "beech", "beech", "cedar"])
    return centres[state] + 0.5 * rng.normal(size=(300, 2)), names[state], state


def fitted(rings, **settings):
    return LatentLogisticRegression(**{"n_latent": {"ash": 2, "beech": 2}, "n_init": 3, **settings}).fit(*rings[:2])


def test_it_finds_what_lines_cannot(rings):
    X, y, state = rings
    model = fitted(rings)
    assert model.score(X, y) > 0.95 > LogisticRegression(tol=1e-8).fit(X, y).score(X, y) + 0.1
    assert model.states_.tolist() == [2, 2, 1]
    assert model.coef_.shape == (5, 2)
    assert model.result_.outcome is Outcome.STATIONARY
    assert np.isnan(model.gap_)
    assert "best of 3 restarts" in str(model.result_)
    assert model.restarts_.shape == (3,)
    assert model.trace_["objective"][-1] <= model.restarts_.min() * (1 + 1e-12)
    assert (np.diff(model.trace_["objective"]) <= 1e-10 * model.trace_["objective"][:-1]).all()
    found = model.predict_latent(X, y)
    for label, members in (("ash", (0, 1)), ("beech", (2, 3))):
        rows = y == label
        agree = np.mean(found[rows] == (state[rows] == members[1]))
        assert max(agree, 1 - agree) > 0.97
        assert np.mean(found[rows] == 0) >= 0.5


def test_probabilities_are_sums_over_states(rings):
    X, _, _ = rings
    model = fitted(rings)
    scores = X @ model.coef_.T + model.intercept_
    joint = np.exp(scores - logsumexp(scores, axis=1, keepdims=True))
    np.testing.assert_allclose(model.predict_joint_proba(X), joint, atol=1e-12)
    p = np.column_stack([joint[:, :2].sum(axis=1), joint[:, 2:4].sum(axis=1), joint[:, 4]])
    np.testing.assert_allclose(model.predict_proba(X), p, atol=1e-12)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(p), atol=1e-9)
    assert (model.predict(X) == model.classes_[p.argmax(axis=1)]).all()
    decisions = model.decision_function(X)
    np.testing.assert_allclose(decisions, np.log(p) - np.log(p).mean(axis=1, keepdims=True), atol=1e-9)
    likeliest = p.argmax(axis=1)
    first = np.array([0, 2, 4])[likeliest]
    masked = np.where(np.repeat([0, 1, 2], [2, 2, 1]) == likeliest[:, None], joint, -1)
    assert (model.predict_latent(X) == masked.argmax(axis=1) - first).all()
    shares = np.array([model.predict_joint_proba(X)[:, k].sum() for k in range(5)])
    assert model.state_shares_[0] >= model.state_shares_[1]
    assert model.state_shares_.reshape(-1)[:2].sum() == pytest.approx(1.0)
    assert (shares > 1).all()


@pytest.mark.parametrize("n_latent", [1, [1, 1, 1], {"ash": 1}])
@pytest.mark.parametrize("classes", [2, 3])
def test_one_state_is_logistic_regression(rings, classes, n_latent):
    X, y, _ = rings
    keep = y != "cedar" if classes == 2 else slice(None)
    X, y, weight = X[keep], y[keep], np.random.default_rng(1).exponential(size=300)[keep]
    n_latent = [1] * classes if isinstance(n_latent, list) else n_latent
    settings = dict(C=0.3, class_weight="balanced")
    plain = LogisticRegression(tol=1e-8, **settings).fit(X, y, weight)
    latent = LatentLogisticRegression(n_latent, **settings).fit(X, y, weight)
    np.testing.assert_allclose(latent.coef_, plain.coef_, atol=1e-10)
    np.testing.assert_allclose(latent.intercept_, plain.intercept_, atol=1e-10)
    np.testing.assert_allclose(latent.predict_proba(X), plain.predict_proba(X), atol=1e-10)
    np.testing.assert_allclose(latent.decision_function(X), plain.decision_function(X), atol=1e-10)
    assert (latent.predict(X) == plain.predict(X)).all()
    assert latent.gap_ == plain.gap_ <= 1e-8
    assert latent.predict_latent(X).tolist() == [0] * len(X)


def test_fits_are_the_same_every_time_and_for_any_number_of_threads(rings):
    one = fitted(rings)
    for other in (fitted(rings), fitted(rings, n_jobs=2)):
        assert other.coef_.tolist() == one.coef_.tolist()
        assert other.restarts_.tolist() == one.restarts_.tolist()
    seeded = fitted(rings, random_state=7, max_iter=20, tol=1e-2)
    assert seeded.restarts_.tolist() != fitted(rings, max_iter=20, tol=1e-2).restarts_.tolist()


def test_weights_are_repetitions_and_sparse_rows_are_rows(rings):
    X, y, _ = rings
    times = np.random.default_rng(3).integers(0, 3, size=300)
    settings = dict(n_latent=2, n_init=2, tol=1e-8)
    weighted = LatentLogisticRegression(**settings).fit(X, y, times)
    repeated = LatentLogisticRegression(**settings).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)
    dense, sparse = (fitted((rows, y), fit_intercept=False) for rows in (X, sp.csr_array(X)))
    np.testing.assert_allclose(sparse.predict_proba(sp.csr_array(X)), dense.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("solver", ["bbm", "newton", "scipy-lbfgs", "proximal"])
def test_solvers_never_rise_and_agree(rings, solver):
    _X, _y, _ = rings
    model = fitted(rings, solver=solver, n_init=2)
    path = model.trace_["objective"][1 if solver == "proximal" else 0 :]
    assert (np.diff(path) <= 1e-10 * path[:-1]).all()
    assert model.restarts_.min() == pytest.approx(fitted(rings).restarts_.min(), rel=1e-3)


@pytest.mark.parametrize("solver", ["sbm", "sbm-lowrank"])
def test_stochastic_solvers_run_and_say_that_they_were_stopped(rings, solver):
    some = (rings[0][:60], rings[1][:60])
    with pytest.warns(ConvergenceWarning, match="stopped at the limit of 2 steps"):
        model = fitted(some, solver=solver, penalize_intercept=True, max_iter=2, n_init=2)
    assert np.isfinite(model.coef_).all()
    assert model.trace_["objective"][-1] < model.trace_["objective"][0]


def test_a_warm_start_goes_on_from_before(rings):
    X, y, _ = rings
    model = fitted(rings, warm_start=True)
    before = model.coef_.copy()
    model.fit(X, y)
    assert model.n_iter_[0] <= 3
    assert model.restarts_.shape == (1,)
    np.testing.assert_allclose(model.coef_, before, atol=1e-5)
    model.set_params(n_latent=2).fit(X, y)  # of another shape: from random starts again
    assert model.restarts_.shape == (3,)


def test_files_hold_the_model(rings, tmp_path):
    X, _y, _ = rings
    for model in (fitted(rings), fitted(rings, n_latent=[1, 2, 1]), fitted(rings, n_latent=1)):
        model.save(tmp_path / "model.npz", notes={"of": "rings"})
        again = LatentLogisticRegression.load(tmp_path / "model.npz")
        assert again.predict_proba(X).tolist() == model.predict_proba(X).tolist()
        assert again.predict_latent(X).tolist() == model.predict_latent(X).tolist()
        assert again.get_params() == model.get_params()
        assert str(again.result_) == str(model.result_)
        assert again.restarts_.tolist() == model.restarts_.tolist()
        assert again.state_shares_.tolist() == model.state_shares_.tolist()
        assert again.notes_ == {"of": "rings"}
    with pytest.raises(ValueError, match="holds a LatentLogisticRegression"):
        LogisticRegression.load(tmp_path / "model.npz")


def test_callbacks_follow_every_start(rings, tmp_path, capsys):
    X, y, _ = rings
    seen = []
    model = fitted(rings, callbacks=[lambda row, theta: seen.append(row["step"]) and None], verbose=1)
    assert seen.count(0.0) == 3
    assert model.coef_.tolist() == fitted(rings).coef_.tolist()
    assert "stationary" in capsys.readouterr().err
    checkpointed = fitted(rings, callbacks=[Checkpoint(tmp_path / "model.npz")])
    again = LatentLogisticRegression.load(tmp_path / "model.npz")
    np.testing.assert_allclose(again.predict_proba(X), checkpointed.predict_proba(X), atol=1e-12)
    with pytest.warns(ConvergenceWarning, match="limit of 4 steps"):
        cut = fitted(rings, callbacks=[Checkpoint(tmp_path / "model.npz")], max_iter=4)
    again = LatentLogisticRegression.load(tmp_path / "model.npz")
    np.testing.assert_allclose(again.predict_proba(X), cut.predict_proba(X), atol=1e-12)
    early = EarlyStopping(X[200:], y[200:], patience=2)
    stopped = LatentLogisticRegression(n_latent=2, n_init=2, callbacks=[early]).fit(X[:200], y[:200])
    assert stopped.result_.outcome in (Outcome.STOPPED, Outcome.STATIONARY)
    assert stopped.score(X, y) > 0.7
    halted = fitted(rings, callbacks=[lambda row, theta: row["step"] >= 2])
    assert halted.n_iter_[0] == 2
    assert "stopped by the callback" in str(halted.result_)


def interrupted_at(step):
    def callback(row, theta):
        if row["step"] == step:
            raise KeyboardInterrupt

    return callback


def test_a_fit_that_was_interrupted_goes_on(rings, tmp_path):
    X, y, _ = rings
    path, weight = tmp_path / "model.npz", np.random.default_rng(0).uniform(size=len(y))
    offset = np.random.default_rng(1).normal(size=(len(y), 3))
    whole = LatentLogisticRegression(n_init=1).fit(X, y, weight, offset)
    for step in (0, 3, int(whole.n_iter_[0]) - 1):
        cut = LatentLogisticRegression(n_init=1, callbacks=[Checkpoint(path, every=0), interrupted_at(step)])
        with pytest.raises(KeyboardInterrupt):
            cut.fit(X, y, weight, offset)
        again = LatentLogisticRegression(n_init=1).fit(X, y, weight, offset, resume_from=path)
        np.testing.assert_array_equal(again.coef_, whole.coef_)
        np.testing.assert_array_equal(again.trace_["objective"], whole.trace_["objective"])
        assert str(again.result_) == str(whole.result_)
    with pytest.raises(ValueError, match="n_init must be 1, got 5"):
        LatentLogisticRegression().fit(X, y, resume_from=path)
    with pytest.raises(ValueError, match="checkpoint of other data"):
        LatentLogisticRegression(n_init=1).fit(X[:-1], y[:-1], resume_from=path)


def test_offsets_are_added_to_the_scores_of_classes(rings):
    X, y, _ = rings
    offset, C = np.random.default_rng(0).normal(size=(len(y), 3)), 3.0
    model = LatentLogisticRegression(n_latent=[2, 2, 1], C=C, n_init=2).fit(X, y, None, offset)
    owner, seen = np.array([0, 0, 1, 1, 2]), np.searchsorted(model.classes_, y)

    def joint(W):
        scores = X @ W[:, :2].T + W[:, 2] + offset[:, owner]
        return np.exp(scores - logsumexp(scores, axis=1, keepdims=True))

    def F(W):
        of_label = np.where(owner == seen[:, None], joint(W), 0.0).sum(axis=1)
        return -C * np.log(of_label).sum() + 0.5 * (W[:, :2] ** 2).sum()

    W = np.column_stack([model.coef_, model.intercept_])
    for e in 1e-4 * np.eye(15).reshape(15, 5, 3):
        assert abs(F(W + e) - F(W - e)) / 2e-4 < 1e-5 * C * len(y)
        assert F(W + e) > F(W)
    np.testing.assert_allclose(model.predict_joint_proba(X, offset), joint(W), atol=1e-12)
    assert model.trace_["objective"][-1] == pytest.approx(F(W) / C)
    assert (model.predict(X, offset) == model.classes_[model.predict_proba(X, offset).argmax(axis=1)]).all()
    with pytest.raises(ValueError, match=r"offset must have the shape of the scores"):
        model.predict(X, offset[:, 0])
    for bad, said in ((np.nan, "got nan"), (np.inf, "got inf"), ("a", "numeric")):
        with pytest.raises(ValueError, match=f"offset must .*{said}"):
            model.predict_proba(X, np.full(offset.shape, bad))


def test_a_fit_that_gets_nowhere_says_so(rings):
    X, y, _ = rings
    with pytest.warns(ConvergenceWarning, match="no further decrease"):
        model = LatentLogisticRegression(n_init=1).fit(1e4 * X, y, np.full(len(y), 1e300))
    assert np.isfinite(model.coef_).all()
    heavy = LatentLogisticRegression(n_init=1).fit(X, y, np.full(len(y), 1e300))
    assert heavy.score(X, y) > 0.95
    assert np.isfinite(LatentLogisticRegression(n_init=1).fit(1e150 * X, y).coef_).all()
    assert LatentLogisticRegression(n_init=1, tol=0.0).fit(X, y).result_.outcome is Outcome.STALLED  # no warning


def test_an_offset_of_two_classes_is_that_of_the_second(rings):
    X, y, _ = rings
    y = np.where(y == "ash", "ash", "other")
    shift = np.full(len(y), 0.7)
    plain, moved = (LatentLogisticRegression(n_init=2).fit(X, y, None, offset) for offset in (None, shift))
    np.testing.assert_allclose(moved.predict_proba(X, shift), plain.predict_proba(X), atol=1e-5)
    assert np.abs(moved.predict_proba(X) - plain.predict_proba(X)).max() > 1e-2
    ours, theirs = (
        model.fit(X, y, None, X[:, 0]) for model in (LatentLogisticRegression(n_latent=1), LogisticRegression(tol=1e-8))
    )
    np.testing.assert_allclose(ours.predict_proba(X, X[:, 0]), theirs.predict_proba(X, X[:, 0]), atol=1e-12)


def test_it_is_tuned_and_piped_like_any_other(rings):
    X, y, _ = rings
    pipe = make_pipeline(StandardScaler(), LatentLogisticRegression(n_init=1, tol=1e-4))
    search = GridSearchCV(pipe, {"latentlogisticregression__n_latent": [1, 2]}, cv=3).fit(X, y)
    assert search.best_params_ == {"latentlogisticregression__n_latent": 2}


def test_without_a_penalty_on_rows_that_can_be_separated_no_parameter_is_nan():
    X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), [0, 0, 1, 1]
    with pytest.warns(ConvergenceWarning) as said:
        model = LatentLogisticRegression(C=np.inf, n_init=2, max_iter=50).fit(X, y)
    assert len(said) == 1
    assert np.isfinite(model.coef_).all()
    assert model.score(X, y) == 1.0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e30, 1e200])
def test_columns_on_wild_scales_do_no_harm(scale):
    X, y = np.array([[scale, 1.0], [-scale, 1.0], [scale, -1.0], [-scale, -1.0]] * 3), [0, 1, 1, 0] * 3
    model = LatentLogisticRegression(n_init=2, C=10.0).fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.intercept_).all()
    assert np.isfinite(model.restarts_).all()


def test_restarts_that_all_fail_are_said_and_leave_no_nan(rings, monkeypatch):
    monkeypatch.setattr(LatentMultinomial, "first_params", lambda self, like, seed: np.full(15, 1e200))
    with pytest.warns(ConvergenceWarning, match="all 3 restarts failed: the objective is not finite"):
        model = fitted(rings)
    assert model.result_.outcome is Outcome.NON_FINITE
    assert np.isinf(model.restarts_).all()
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.predict_proba(rings[0])).all()


ROWS = np.arange(12.0).reshape(6, 2)
LABELS = ["a", "a", "a", "b", "b", "b"]
BAD = [
    (dict(n_latent=0), {}, "n_latent must be a whole number of at least 1, got 0"),
    (dict(n_latent=-1), {}, "n_latent must be a whole number of at least 1, got -1"),
    (dict(n_latent=1.5), {}, "n_latent must be a whole number"),
    (dict(n_latent="two"), {}, "n_latent must be a whole number"),
    (dict(n_latent=[2, 0]), {}, "n_latent of class 'b' must be a whole number of at least 1, got 0"),
    (dict(n_latent=[2]), {}, "one number for each of 2 classes"),
    (dict(n_latent={"c": 2}), {}, r"classes that y does not hold: \['c'\]"),
    (dict(n_latent=4), {}, "asks for 4 states of class 'a', of which there are only 3 rows"),
    (dict(n_latent={"b": 3}), dict(sample_weight=[1, 1, 1, 1, 1, 0]), "of which there are only 2 rows"),
    (dict(n_init=0), {}, "n_init must be a whole number of at least 1"),
    (dict(C=0.0), {}, "C must be positive"),
    (dict(tol=-1.0), {}, "tol must be a number"),
    (dict(max_iter=-1), {}, "max_iter must be a whole number"),
    (dict(solver="sgd"), {}, "solver must be one of"),
    (dict(solver="sbm"), {}, "set penalize_intercept=True"),
    (dict(solver="proximal", C=np.inf), {}, "needs a penalty"),
    (dict(n_jobs=0), {}, "n_jobs must be"),
    (dict(callbacks=3), {}, "callbacks must be a list"),
    ({}, dict(y=["a"] * 6), "only one class"),
    ({}, dict(X=np.where(ROWS == 3.0, np.nan, ROWS)), "NaN"),
    ({}, dict(X=np.where(ROWS == 3.0, np.inf, ROWS)), "infinity"),
    ({}, dict(y=[0.5, 1.5, 2.5, 0.1, 0.2, 0.3]), "Unknown label type"),
    ({}, dict(sample_weight=[0] * 6), "non-zero"),
    ({}, dict(sample_weight=[1, -1, 1, 1, 1, 1]), "non-negative"),
]


@pytest.mark.parametrize(("settings", "given", "message"), BAD)
def test_what_makes_no_sense_is_refused_and_leaves_the_model_as_it_was(settings, given, message):
    model = LatentLogisticRegression(**settings)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=message):
        model.fit(**{"X": ROWS, "y": LABELS, **given})
    assert vars(model) == before


def test_labels_that_were_not_fitted_have_no_states(rings):
    model = fitted(rings)
    with pytest.raises(ValueError, match=r"not fitted: \['oak'\]"):
        model.predict_latent(rings[0][:1], ["oak"])
    with pytest.raises(ValueError, match="one label per row"):
        model.predict_latent(rings[0][:2], ["ash"])


# --- weights that leave one class ---------------------------------------------------------------------------


@pytest.mark.parametrize("n_latent", [1, 2, [1, 3, 2]])
def test_weights_that_leave_one_class_fit_as_without_hidden_states(n_latent):
    r = np.random.default_rng(0)
    X, y = r.normal(size=(60, 2)), np.repeat(["a", "b", "c"], 20)
    weight = np.where(y == "b", r.uniform(0.5, 2, size=60), 0.0)
    plain = LogisticRegression(tol=1e-8).fit(X, y, sample_weight=weight)
    model = LatentLogisticRegression(n_latent).fit(X, y, sample_weight=weight)
    assert not model.coef_.any()
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-12)
    assert "only class 'b' has rows of positive weight" in str(model.result_)
    assert model.predict_joint_proba(X).shape == (60, model.states_.sum())


def test_two_classes_of_which_one_has_weight():
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.repeat([0, 1], 20)
    for only in (0, 1):
        model = LatentLogisticRegression(2).fit(X, y, sample_weight=(y == only).astype(float))
        plain = LogisticRegression(tol=1e-8).fit(X, y, sample_weight=(y == only).astype(float))
        np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-12)


def test_a_class_without_weight_is_fitted_beside_others():
    r = np.random.default_rng(0)
    X, y = r.normal(size=(90, 2)), np.repeat([0, 1, 2], 30)
    model = LatentLogisticRegression(2, random_state=0).fit(X, y, sample_weight=(y != 1).astype(float))
    assert model.predict_proba(X)[:, 1].max() < 1e-3
    for intercept in (dict(fit_intercept=False), dict(penalize_intercept=True)):
        LatentLogisticRegression(2, random_state=0, **intercept).fit(X, y, sample_weight=(y == 1).astype(float))


def test_bootstraps_of_rare_classes_are_fitted():
    X, y = np.random.default_rng(0).normal(size=(100, 3)), np.zeros(100, dtype=int)
    y[:3] = 1
    bagged = BaggingClassifier(LatentLogisticRegression({0: 2}), n_estimators=8, random_state=1).fit(X, y)
    assert np.isfinite(bagged.predict_proba(X)).all()
