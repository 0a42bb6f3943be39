"""LinearProbe against the protocol done by hand with scikit-learn, and what is said of wrong input."""

import json
import sys

import numpy as np
import pytest
import sklearn.linear_model
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import balanced_accuracy_score, f1_score, log_loss
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import majorant
from majorant import LinearProbe, LogisticRegression
from majorant.linear.held_out import Score, Turning, draw, foretold, in_chunks, losses_and_best, moments

GRID = [1e-3, 1e-2, 0.1, 1.0, 10.0]


@parametrize_with_checks([LinearProbe(Cs=4)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def embeddings(classes=4, rows=400, columns=8, seed=0, noise=1.5):
    """Rows around a mean for each class, columns on several scales."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    X = rng.normal(size=(classes, columns))[y] + noise * rng.normal(size=(rows, columns))
    return X * np.geomspace(0.3, 3, columns), np.array([f"class {k}" for k in range(classes)])[y]


def theirs(X, y, C):
    return sklearn.linear_model.LogisticRegression(C=C, solver="newton-cholesky", tol=1e-9, max_iter=1000).fit(X, y)


# --- the protocol -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("standardize", [False, True])
def test_a_sweep_is_that_of_scikit_learn_by_hand(classes, standardize):
    X, y = embeddings(classes)
    fitted, held = slice(0, 300), slice(300, None)
    probe = LinearProbe(GRID, validation=held, standardize=standardize, patience=None, tol=1e-10, refit=False)
    probe.fit(X, y)
    scale = StandardScaler().fit(X[fitted]) if standardize else None
    Z = X if scale is None else scale.transform(X)
    by_hand = [theirs(Z[fitted], y[fitted], C) for C in GRID]
    accuracy = [model.score(Z[held], y[held]) for model in by_hand]
    loss = [log_loss(y[held], model.predict_proba(Z[held])) for model in by_hand]
    assert np.allclose(probe.scores_["score"], accuracy)
    assert np.allclose(probe.scores_["loss"], loss, rtol=1e-4)
    best = max(range(len(GRID)), key=lambda k: (accuracy[k], -loss[k]))
    assert GRID[best] == probe.C_
    assert np.allclose(probe.predict_proba(X), by_hand[best].predict_proba(Z), atol=1e-4)


@pytest.mark.parametrize("standardize", [False, True])
def test_the_head_is_the_optimum_of_all_rows_under_the_best_penalty(standardize):
    X, y = embeddings()
    probe = LinearProbe(GRID, standardize=standardize, tol=1e-10).fit(X, y)
    Z = StandardScaler().fit_transform(X) if standardize else X
    assert np.allclose(probe.predict_proba(X), theirs(Z, y, probe.C_).predict_proba(Z), atol=1e-5)
    assert probe.gap_ <= 1e-10
    assert probe.score(X, y) > 0.5


def test_rows_of_their_own_score_and_are_never_trained_on():
    X, y = embeddings()
    X_val, y_val = X[300:], y[300:]
    given = LinearProbe(GRID, tol=1e-10).fit(X[:300], y[:300], X_val, y_val)
    as_setting = LinearProbe(GRID, tol=1e-10, validation=(X_val, y_val)).fit(X[:300], y[:300])
    alone = LogisticRegression(C=given.C_, tol=1e-10).fit(X[:300], y[:300])
    assert np.allclose(given.coef_, alone.coef_, atol=1e-4)
    assert np.array_equal(given.coef_, as_setting.coef_)
    as_lists = LinearProbe(GRID, tol=1e-10).fit(X[:300].tolist(), y[:300].tolist(), X_val.tolist(), y_val.tolist())
    assert np.array_equal(given.coef_, as_lists.coef_)
    by_index = LinearProbe(GRID, tol=1e-10, validation=np.arange(300, 400)).fit(X, y)
    by_mask = LinearProbe(GRID, tol=1e-10, validation=np.arange(400) >= 300).fit(X, y)
    assert np.allclose(by_index.scores_["score"], given.scores_["score"])
    assert np.array_equal(by_index.coef_, by_mask.coef_)


def test_sparse_and_narrow_rows_are_the_same_rows():
    X, y = embeddings()
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    dense = LinearProbe(GRID, standardize=True, tol=1e-9).fit(X, y)
    thin = LinearProbe(GRID, standardize=True, tol=1e-9).fit(sparse.csr_array(X), y)
    assert thin.C_ == dense.C_
    assert np.allclose(thin.coef_, dense.coef_, atol=1e-4)
    half = LinearProbe(GRID, standardize=True).fit(X.astype(np.float16), y)
    wide = LinearProbe(GRID, standardize=True).fit(X.astype(np.float16).astype(np.float64), y)
    assert np.allclose(half.coef_, wide.coef_)


def test_moments_are_those_of_numpy_whatever_the_chunks(monkeypatch):
    X = embeddings()[0] + 100.0
    monkeypatch.setattr("majorant.linear.held_out.TOGETHER", 200)
    assert len(list(in_chunks(*X.shape))) > 10
    for rows in (X, sparse.csr_array(X), X.astype(np.float32)):
        found = moments(rows)
        assert np.allclose(found.mean, X.mean(axis=0))
        assert np.allclose(found.variance, X.var(axis=0), rtol=1e-4)


def test_data_frames_keep_their_names():
    pandas = pytest.importorskip("pandas")
    X, y = embeddings()
    frame = pandas.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    probe = LinearProbe(GRID).fit(frame, pandas.Series(y))
    assert np.array_equal(probe.coef_, LinearProbe(GRID).fit(X, y).coef_)
    assert probe.feature_names_in_.tolist() == list(frame.columns)
    assert probe.score(frame, y) == probe.score(frame, pandas.Series(y))
    some = LinearProbe(GRID).fit_many(frame, {"some": (np.arange(200), y[:200])})["some"]
    assert np.array_equal(some.coef_, LinearProbe(GRID).fit(X[:200], y[:200]).coef_)


def test_a_constant_column_is_no_reason_to_fail():
    X, y = embeddings()
    X[:, 2] = 7.0
    assert LinearProbe(GRID, standardize=True).fit(X, y).result_.converged


# --- scores -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "oracle"),
    [
        ("balanced_accuracy", lambda model, X, y: balanced_accuracy_score(y, model.predict(X))),
        ("loss", lambda model, X, y: -log_loss(y, model.predict_proba(X))),
        (lambda y, z: f1_score(y, z, average="macro"), lambda m, X, y: f1_score(y, m.predict(X), average="macro")),
    ],
)
def test_metrics_are_those_of_scikit_learn(metric, oracle):
    X, y = embeddings()
    rows = (y != "class 0") | (np.arange(len(y)) % 3 == 0)  # classes of unlike sizes
    X, y = X[rows], y[rows]
    probe = LinearProbe(GRID, metric=metric, refit=False, patience=None, validation=slice(0, 90)).fit(X, y)
    best = probe.scores_["score"][probe.scores_.best]
    assert best == pytest.approx(oracle(probe, X[:90], y[:90]))
    assert best == probe.scores_["score"].max()


def test_losses_of_large_scores_are_finite():
    scores, codes = np.array([[900.0, -900.0, 0.0], [0.0, 1.0, 2.0]]), np.array([1, 2])
    losses, best = losses_and_best(scores, codes)
    assert losses == pytest.approx([1800.0, np.log(np.exp([0.0, 1.0, 2.0]).sum()) - 2.0])
    assert best.tolist() == [0, 2]
    losses, best = losses_and_best(np.array([-900.0, 900.0]), np.array([1, 1]))
    assert losses.tolist() == [900.0, 0.0]
    assert best.tolist() == [0, 1]


def test_a_sweep_ends_when_scores_have_clearly_turned():
    X, y = embeddings(rows=200, columns=60, noise=4.0)
    whole = LinearProbe(12, patience=None, metric="loss", validation=0.5).fit(X, y)
    ended = LinearProbe(12, metric="loss", validation=0.5).fit(X, y)
    assert len(whole.scores_.rows) == 12
    assert len(ended.scores_.rows) < 12
    assert ended.C_ == whole.C_


def test_turning_takes_more_than_chance_and_more_than_one():
    right = np.ones(400)
    unlucky, worse = right.copy(), right.copy()
    unlucky[:3], worse[:100] = 0.0, 0.0

    def scores(*rows):
        turning = Turning(2)
        for each in rows:
            turning.add(Score(each.mean(), 1.0, each))
        return turning.is_over

    assert not scores(right, unlucky, unlucky, unlucky)
    assert not scores(right, worse)
    assert scores(right, worse, worse)
    assert not scores(right, worse, right, worse)


def test_of_equal_scores_the_lower_loss_wins():
    assert Score(0.5, 1.0, None).beats(Score(0.5, 2.0, None))
    assert not Score(0.5, 2.0, None).beats(Score(0.5, 1.0, None))


def test_a_metric_that_is_nan_is_worst_and_named():
    X, y = embeddings()

    def of_certain(truth, found):  # 0/0 as long as only few classes are found at all
        return np.mean(truth == found) if len(np.unique(found)) == 4 else np.nan

    def undefined(truth, found):
        return np.nan

    with pytest.warns(UserWarning, match=r"metric of_certain returned NaN for \d+ of 3 values of C") as said:
        probe = LinearProbe([1e-12, 1e-10, 10.0], metric=of_certain).fit(X, y)
    assert said[0].filename == __file__
    assert np.isnan(probe.scores_["score"][0])
    assert probe.C_ == 10.0
    with pytest.raises(ValueError, match="metric undefined returned NaN for every C"):
        LinearProbe(GRID, metric=undefined).fit(X, y)
    with pytest.raises(ValueError, match="metric must return a number, got None from <lambda>"):
        LinearProbe(GRID, metric=lambda truth, found: None).fit(X, y)
    assert not Score(np.nan, 0.1, None).beats(Score(0.2, 0.9, None))
    assert Score(np.nan, 0.1, None).is_clearly_below(Score(0.2, 0.9, None))


def test_warnings_point_to_the_line_that_fits():
    X, y = embeddings()
    fits = (
        lambda: LinearProbe(GRID, max_iter=1).fit(X, y),
        lambda: LinearProbe(GRID, max_iter=1).fit_many(X, {"all": y}),
        lambda: majorant.LogisticRegressionCV(Cs=[100.0], max_iter=1).fit(X, y),
        lambda: majorant.logistic_regression_path(X, y, Cs=[100.0], max_iter=1),
        lambda: LogisticRegression(C=100.0, max_iter=1).fit(majorant.Chunks(lambda: [(X, y)])),
    )
    for fit in fits:
        with pytest.warns(ConvergenceWarning, match="limit of 1 step;") as said:
            fit()
        assert {each.filename for each in said} == {__file__}


def test_a_callback_sees_every_row_and_may_end_the_sweep():
    X, y = embeddings()
    seen = []
    probe = LinearProbe(GRID, callback=lambda row: seen.append(row) or row.C >= 0.1).fit(X, y)
    assert [row.C for row in seen] == GRID[:3] == probe.scores_["C"].tolist()


def test_estimates_are_the_rest_of_a_geometric_series():
    gains = 0.3 ** np.arange(1, 6)
    values = 2.0 - np.cumsum(np.append(0.0, gains))
    rest = 0.3**6 / 0.7
    assert foretold(values) == pytest.approx(rest / values[-1])
    assert np.isnan(foretold([3.0, 2.0]))
    assert np.isnan(foretold([3.0, 2.9, 2.0]))
    assert foretold([3.0, 2.0, 2.0]) == 0.0


# --- which rows score -------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.1, 0.37, 0.9])
def test_a_share_of_each_class_is_drawn(share):
    sizes = np.array([1, 2, 3, 10, 55, 400, 1000])
    codes = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    for seed in range(20):
        held = draw(codes, share, seed)
        of_class = np.bincount(codes, held)
        assert (of_class < sizes).all()
        assert (np.abs(of_class - share * sizes) <= 2).all()
    assert not np.array_equal(draw(codes, share, 0), draw(codes, share, 1))
    assert np.array_equal(draw(codes, share, 3), draw(codes, share, 3))


def test_few_rows_leave_one_to_score():
    assert draw(np.array([0, 1, 1, 1]), 0.1, 0).sum() == 1


# --- what a probe is kept as ------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[2, 4])
def fitted(request):
    X, y = embeddings(request.param)
    return LinearProbe(GRID, metric=lambda y, z: float(np.mean(y == z))).fit(X.astype(np.float32), y), X


@pytest.mark.parametrize("ending", ["npz", "safetensors"])
def test_files_hold_all_of_a_probe(fitted, ending, tmp_path):
    pytest.importorskip("safetensors")
    probe, X = fitted
    path = tmp_path / f"probe.{ending}"
    probe.save(path, notes={"backbone": "none"})
    loaded = LinearProbe.load(path)
    assert np.array_equal(loaded.coef_, probe.coef_)
    assert np.allclose(loaded.decision_function(X), probe.decision_function(X), atol=1e-5)
    assert loaded.classes_.tolist() == probe.classes_.tolist()
    assert loaded.C_ == probe.C_
    assert str(loaded.scores_) == str(probe.scores_)
    assert loaded.notes_ == {"backbone": "none"}
    assert loaded.result_ == probe.result_
    assert loaded.metric == "accuracy"  # a function is left out


def test_safetensors_are_those_of_a_layer(fitted, tmp_path):
    load_file = pytest.importorskip("safetensors.numpy").load_file
    probe, X = fitted
    probe.save(tmp_path / "head.safetensors")
    layer = load_file(tmp_path / "head.safetensors")
    scores = X @ layer["weight"].T + layer["bias"]
    assert set(layer) == {"weight", "bias"}
    assert np.array_equal(probe.classes_[scores.argmax(axis=1)], probe.predict(X))


def test_a_file_of_something_else_is_refused(tmp_path):
    pytest.importorskip("safetensors.numpy").save_file({"weight": np.ones((2, 2))}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="no probe that majorant has saved"):
        LinearProbe.load(tmp_path / "other.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="not a safetensors file"):
        LinearProbe.load(tmp_path / "broken.safetensors")


def test_the_table_is_text_html_and_a_frame(fitted):
    table = fitted[0].scores_
    frame = table.to_frame()
    assert list(frame.columns) == list(table) == ["C", "score", "loss", "gap", "estimate", "passes", "seconds"]
    assert np.array_equal(frame["score"], table["score"])
    assert len(str(table).splitlines()) == len(table.rows) + 1
    assert str(table).splitlines()[1 + table.best].startswith("*")
    assert table._repr_html_().count("<tr>") == len(table.rows) + 1
    with pytest.raises(KeyError, match="the table has C, score"):
        table["speed"]


def test_a_plot_marks_the_best(fitted):
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    axis = fitted[0].plot()
    assert axis.get_xscale() == "log"
    assert axis.get_lines()[1].get_xdata()[0] == fitted[0].C_
    assert f"{fitted[0].C_:.3g}" in axis.get_xlabel()
    for each in axis.figure.axes:  # score and loss: a label says which curve is whose
        assert each.yaxis.label.get_color() == each.get_lines()[0].get_color()
        assert each.get_legend() is None  # which would cover one of them
    plt.close(axis.figure)


def test_a_head_without_pytorch_says_what_to_install(fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"majorant\[torch\]"):
        fitted[0].head()


# --- wrong input ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (dict(Cs=[]), "Cs must be a whole number of points or a list of positive numbers"),
        (dict(Cs=True), "Cs must be"),
        (dict(validation=1.5), "validation must be a share between 0 and 1"),
        (dict(validation=[0.5, 0.5]), "validation must be a share between 0 and 1, rows"),
        (dict(validation=[400]), "validation must name rows of X, of which there are 400"),
        (dict(metric="speed"), "metric must be one of 'accuracy'"),
        (dict(patience=0), "patience must be a whole number of at least 1"),
        (dict(refit="yes"), "refit must be True or False"),
        (dict(callback=3), "callback must be a function"),
        (dict(tol=-1.0), "tol must be a number of at least 0"),
    ],
)
def test_wrong_settings_are_named(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        LinearProbe(**settings).fit(*embeddings())


def test_wrong_rows_are_named():
    X, y = embeddings()
    with pytest.raises(ValueError, match="y_val must be given with X_val"):
        LinearProbe().fit(X, y, X)
    with pytest.raises(ValueError, match=r"y_val holds classes that y lacks: \['class 9'\]"):
        LinearProbe().fit(X, y, X[:2], ["class 1", "class 9"])
    with pytest.raises(ValueError, match=r"y_val must have one label for each row of X_val \(2\)"):
        LinearProbe().fit(X, y, X[:2], ["class 1"])
    with pytest.raises(ValueError, match=r"validation takes all rows of classes \['class 3'\]"):
        LinearProbe(validation=y == "class 3").fit(X, y)
    with pytest.raises(ValueError, match="validation needs a class with two rows"):
        LinearProbe().fit(X[:3], [0, 1, 2])
    with pytest.raises(TypeError, match="LogisticRegressionCV reads sources"):
        LinearProbe().fit(majorant.Chunks(lambda: iter([(X, y)])), None)


def test_a_failed_fit_leaves_a_probe_as_it_was():
    X, y = embeddings()
    probe = LinearProbe(GRID).fit(X, y)
    before = dict(vars(probe))
    probe.validation = 2.0
    with pytest.raises(ValueError, match="validation"):
        probe.fit(X, y)
    assert vars(probe) == before | {"validation": 2.0}


def test_settings_survive_json(fitted, tmp_path):
    X, y = embeddings()
    LinearProbe(GRID, validation=(X, y), standardize=True).fit(X, y).save(tmp_path / "p.npz")
    loaded = LinearProbe.load(tmp_path / "p.npz")
    assert loaded.validation == 0.1  # rows are left out
    assert json.dumps(loaded.get_params()["Cs"]) == json.dumps(GRID)
