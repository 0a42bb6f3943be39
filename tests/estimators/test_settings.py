"""scikit-learn's settings of LogisticRegression mean what they mean there, and what is refused is named."""

import io
import warnings
from fractions import Fraction

import numpy as np
import pytest
import sklearn.linear_model
from scipy import sparse

import majorant
from majorant import EarlyStopping, LatentLogisticRegression, LogisticRegression, LogisticRegressionCV
from majorant.estimators import base
from majorant.estimators.fitting import ACCEPTED, ALIASES


@pytest.fixture(scope="module")
def three():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)) * [1, 2, 0.5, 1] + [0, 0, 1, 0]
    y = np.array(["ash", "beech", "cedar"])[np.argmax(X[:, :3] + rng.gumbel(size=(200, 3)), axis=1)]
    return X, y


@pytest.fixture(scope="module")
def two(three):
    return three[0], three[1] == "cedar"


def reference(**settings):
    return sklearn.linear_model.LogisticRegression(
        **{"solver": "newton-cholesky", "tol": 1e-10, "max_iter": 10_000, **settings}
    )


def test_settings_may_be_numbers_of_any_kind(two):
    fractions = dict(C=Fraction(1, 2), tol=Fraction(1, 10**9), intercept_scaling=Fraction(1, 3))
    for solver in ("auto", "liblinear", "proximal"):
        a = LogisticRegression(solver=solver, **fractions).fit(*two)
        b = LogisticRegression(solver=solver, **{name: float(value) for name, value in fractions.items()}).fit(*two)
        np.testing.assert_array_equal(a.coef_, b.coef_)
    free = LogisticRegression(solver="liblinear", intercept_scaling=1e200, tol=1e-12).fit(*two)
    np.testing.assert_allclose(free.coef_, LogisticRegression(tol=1e-12).fit(*two).coef_, atol=1e-6)


# --- what scikit-learn's settings mean --------------------------------------------------------------------


@pytest.mark.parametrize("solver", sorted({*ALIASES} - {"liblinear"}))
def test_solvers_of_scikit_learn_find_its_optimum(three, solver):
    ours = LogisticRegression(solver=solver, tol=1e-13).fit(*three)
    theirs = reference().fit(*three)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)
    assert set(ALIASES) < set(ACCEPTED)


@pytest.mark.parametrize("scaling", [1.0, 7.0])
@pytest.mark.parametrize("dual", [True, False])
def test_liblinear_penalises_its_intercept(two, scaling, dual):
    settings = dict(solver="liblinear", intercept_scaling=scaling, dual=dual)
    ours = LogisticRegression(tol=1e-13, **settings).fit(*two)
    theirs = reference(**settings, random_state=0).fit(*two)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)
    free = LogisticRegression(tol=1e-13).fit(*two)
    assert abs(free.intercept_ - ours.intercept_) > 1e-3
    without_effect = LogisticRegression(tol=1e-13, intercept_scaling=scaling).fit(*two)
    np.testing.assert_array_equal(free.intercept_, without_effect.intercept_)


def test_no_penalty_is_an_infinite_C(two):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        none, l2 = LogisticRegression(penalty=None).fit(*two), LogisticRegression("l2").fit(*two)
    np.testing.assert_array_equal(none.coef_, LogisticRegression(C=np.inf).fit(*two).coef_)
    np.testing.assert_array_equal(l2.coef_, LogisticRegression().fit(*two).coef_)
    np.testing.assert_allclose(none.coef_, reference(C=np.inf).fit(*two).coef_, atol=1e-4)
    with pytest.warns(UserWarning, match="penalty=None will ignore the C"):
        LogisticRegression(penalty=None, C=3.0).fit(*two)
    with pytest.warns(UserWarning, match="only used when penalty is 'elasticnet'"):
        LogisticRegression(penalty="l2", l1_ratio=0.5).fit(*two)
    with pytest.raises(ValueError, match="needs a penalty"):
        LogisticRegression(penalty=None).partial_fit(*two, classes=[False, True])


def test_multi_class_is_accepted_where_it_says_nothing_else(two, three):
    for data, names in ((two, ("auto", "ovr")), (three, ("auto", "multinomial"))):
        for name in names:
            model = LogisticRegression(multi_class=name).fit(*data)
            np.testing.assert_array_equal(model.coef_, LogisticRegression().fit(*data).coef_)
    with pytest.raises(ValueError, match=r"multi_class='ovr' is not supported.*OneVsRestClassifier"):
        LogisticRegression(multi_class="ovr").fit(*three)
    with pytest.raises(ValueError, match="multi_class='multinomial' halves the penalty of two classes"):
        LogisticRegression(multi_class="multinomial").fit(*two)


@pytest.mark.parametrize("solver", ["auto", "newton", "scipy-lbfgs", "bbm"])
def test_softmax_coefficients_sum_to_zero(three, solver):
    for settings in (dict(), dict(C=np.inf), dict(fit_intercept=False)):
        model = LogisticRegression(solver=solver, **settings).fit(*three)
        np.testing.assert_allclose(model.coef_.sum(axis=0), 0, atol=1e-10)
        np.testing.assert_allclose(model.intercept_.sum(), 0, atol=1e-10)


def test_steps_are_counted_in_an_array(three, tmp_path):
    X, y = three
    model = LogisticRegression(callbacks=[majorant.Checkpoint(tmp_path / "model.npz", every=0)])
    assert not hasattr(model, "n_iter_")
    model.fit(X, y)
    assert model.n_iter_.shape == (1,)
    assert model.n_iter_.dtype == np.int32
    assert LogisticRegression.load(tmp_path / "model.npz").n_iter_.shape == (1,)
    stream = LogisticRegression().partial_fit(X, y, classes=np.unique(y)).partial_fit(X, y)
    assert stream.n_iter_.tolist() == [2]
    assert "learnt from 2 chunks" in str(stream.result_)


def test_sparse_coefficients_predict_the_same(three, tmp_path):
    X, y = three
    model = LogisticRegression().fit(X, y)
    expected = model.predict_proba(X)
    assert sparse.issparse(model.sparsify().coef_)
    for rows in (X, sparse.csr_array(X), sparse.csr_matrix(X)):
        np.testing.assert_allclose(model.predict_proba(rows), expected)
    model.save(tmp_path / "model.npz")
    np.testing.assert_allclose(LogisticRegression.load(tmp_path / "model.npz").predict_proba(X), expected)
    assert isinstance(model.densify().densify().coef_, np.ndarray)
    np.testing.assert_array_equal(model.predict_proba(X), expected)


# --- what is refused, and how -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(C="1"), "C must be positive .*got '1'"),
        (dict(C=None), "C must be positive"),
        (dict(C=True), "C must be positive"),
        (dict(C=np.nan), "C must be positive"),
        (dict(C=5e-324), "C must be large enough for 1/C to be finite, got 5e-324"),
        (dict(penalty="l0"), "penalty must be one of"),
        (dict(l1_ratio=0.5, solver="lbfgs"), "Solver lbfgs supports only"),
        (dict(penalty="elasticnet", l1_ratio=None), "l1_ratio must be specified"),
        (dict(l1_ratio="0"), "l1_ratio must be a number between 0 and 1"),
        (dict(dual=True), "Solver auto supports only dual=False, got dual=True"),
        (dict(intercept_scaling=0), "intercept_scaling must be positive"),
        (dict(intercept_scaling="1"), "intercept_scaling must be a number"),
        (dict(intercept_scaling=1e-200, solver="liblinear"), "intercept_scaling must be large enough"),
        (dict(multi_class="crammer_singer"), "multi_class must be one of 'deprecated', 'auto'"),
        (dict(tol=None), "tol must be a number of at least 0, got None"),
        (dict(tol="a"), "tol must be a number"),
        (dict(tol=-1), "tol must be a number of at least 0, got -1"),
        (dict(n_jobs="2"), "n_jobs must be None, a number of threads.*got '2'"),
        (dict(n_jobs=0), "n_jobs must be"),
        (dict(fit_intercept="no"), "fit_intercept must be True or False, got 'no'"),
        (dict(penalize_intercept=1), "penalize_intercept must be True or False"),
        (dict(warm_start="x"), "warm_start must be True or False"),
        (dict(shuffle="x"), "shuffle must be True or False"),
        (dict(verbose="x"), "verbose must be a whole number"),
        (dict(solver=None), "solver must be one of"),
        (dict(max_iter=1.5), "max_iter must be a whole number"),
        (dict(feature_penalty=[1, 1, 1, np.inf]), "feature_penalty must be 4 non-negative numbers, all finite"),
        (dict(feature_penalty=[1, 1, 1, -1]), "feature_penalty must be 4 non-negative numbers"),
        (dict(callbacks=EarlyStopping([[0.0]], [0])), r"callbacks must be a list, got EarlyStopping.*callbacks=\["),
        (dict(callbacks=["x"]), "callbacks must be functions or instances"),
        (dict(callbacks=[EarlyStopping]), "callbacks must be functions or instances"),
        (
            dict(class_weight={"ash": -1}),
            "class_weight must be finite and non-negative for each class, got -1 for 'ash'",
        ),
        (dict(class_weight={"ash": np.nan}), "class_weight must be finite"),
        (dict(class_weight={"ash": "2"}), "class_weight must be finite"),
        (dict(class_weight="even"), "class_weight"),
    ],
)
def test_bad_settings_are_named(three, settings, message):
    with pytest.raises(ValueError, match=message):
        LogisticRegression(**settings).fit(*three)


def test_bad_rows_are_named(three, two):
    X, y = three
    with pytest.raises(ValueError, match="sample_weight must be non-negative, got -1 at row 0"):
        LogisticRegression().fit(X, y, sample_weight=-np.ones(200))
    with pytest.raises(ValueError, match="sample_weight contains NaN"):
        LogisticRegression().fit(X, y, sample_weight=np.full(200, np.nan))
    with pytest.raises(ValueError, match="y must hold labels of one type, got int and str"):
        LogisticRegression().fit(X, np.array([1, "a"] * 100, dtype=object))
    with pytest.raises(ValueError, match=r"offset must have the shape of the scores.*\(200,\), got \(200, 2\)"):
        LogisticRegression().fit(*two, offset=np.zeros((200, 2)))
    with pytest.raises(ValueError, match=r"offset must have the shape of the scores.*\(200, 3\), got \(200,\)"):
        LogisticRegression().fit(X, y, offset=np.zeros(200))
    for bad in ([0.5, 0.6], [-0.5, 1.5], [np.nan, 0.5]):
        P = np.tile([0.5, 0.5], (200, 1))
        P[7] = bad
        with pytest.raises(ValueError, match=r"the rows of P must be non-negative and sum to one, got .* at row 7"):
            LogisticRegression().fit_soft(X, P)
    with pytest.raises(ValueError, match="sample_weight must be non-negative"):
        LogisticRegression().fit_soft(X, np.tile([0.5, 0.5], (200, 1)), sample_weight=-np.ones(200))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_in_order_are_not_looked_through(three, form, dtype, monkeypatch):
    X, labels = form(np.round(three[0], 1).astype(dtype)), np.unique(three[1], return_inverse=True)[1]
    model = LogisticRegression(tol=1e-10)
    model.feature_names_in_ = np.array(["of", "another", "fit"])
    monkeypatch.setattr(base, "_is_plain", lambda X, y: False)
    careful = LogisticRegression(tol=1e-10).fit(X, labels)
    monkeypatch.undo()
    monkeypatch.setattr(base, "validate_data", None)
    model.fit(X, labels.astype(np.uint8))
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 4
    np.testing.assert_array_equal(model.coef_, careful.coef_)


def test_rows_out_of_order_are(three, monkeypatch):
    X, y = three[0], np.unique(three[1], return_inverse=True)[1]
    plain = base._is_plain
    assert plain(X, y)
    assert plain(sparse.csr_matrix(X), y == 1)
    others = [X.T, X[:, ::2], X[:0], X[:, :0], X[0], X.astype(int), X.astype(">f8"), X.tolist(), sparse.csc_matrix(X)]
    assert not any(plain(other, y[: len(other)]) for other in others if not sparse.issparse(other))
    assert not any(plain(X, labels) for labels in (y[:-1], y[:, None], y.astype(float), y.astype(object), y.tolist()))
    assert not plain(others[-1], y)
    X = X.copy()
    X[3, 1] = np.nan
    for rows in (X, sparse.csr_matrix(X)):
        with pytest.raises(ValueError, match="NaN"):
            LogisticRegression().fit(rows, y)


@pytest.mark.parametrize("labels", [[0, 1, 2], [2, 5, 3], [-1, 0, 1], [0, 10**6, 7]])
def test_labels_are_counted_or_sorted(labels):
    y = np.random.default_rng(0).choice(labels, size=50)
    classes, places = base.distinct(y)
    np.testing.assert_array_equal(classes, np.unique(y))
    np.testing.assert_array_equal(classes[places], y)


@pytest.mark.parametrize(
    "dtype", ["uint8", "uint16", "uint32", "uint64", "int8", "int64", "bool", "float16", "float32"]
)
def test_labels_may_be_numbers_of_any_kind(three, dtype):
    """NumPy before 2.2 counts no unsigned numbers of 64 bits, so labels become the integers that indices are."""
    X, y = three
    numbers = np.searchsorted(["ash", "beech", "cedar"], y).astype(dtype)
    assert base.distinct(numbers)[1].dtype == np.intp
    model = LogisticRegression().fit(X, numbers)
    assert model.classes_.dtype == model.predict(X).dtype == dtype
    assert model.score(X, numbers) > 0.5
    for other in (LogisticRegressionCV(Cs=2, cv=2), LatentLogisticRegression(2, n_init=1)):
        assert other.fit(X, numbers).predict(X).dtype == dtype


def test_few_sparse_rows_are_fitted_as_an_array(three):
    X, y = np.where(three[0] > 0.5, three[0], 0.0), three[1]
    few, dense = (LogisticRegression(tol=1e-10).fit(form(X), y) for form in (sparse.csr_matrix, np.asarray))
    np.testing.assert_array_equal(few.coef_, dense.coef_)


def test_files_say_what_they_cannot_hold(three, tmp_path):
    X, y = three
    model = LogisticRegression().fit(X, y)
    with pytest.raises(TypeError, match="path must be the name of a file"):
        model.save(io.BytesIO())
    with pytest.raises(ValueError, match="notes must be what JSON can hold"):
        model.save(tmp_path / "model.npz", notes={"when": object()})
    assert not list(tmp_path.iterdir())
    numbers = LogisticRegression().fit(X, np.searchsorted(np.unique(y), y).astype(object))
    numbers.save(tmp_path / "model.npz")
    loaded = LogisticRegression.load(tmp_path / "model.npz")
    assert loaded.predict(X).tolist() == numbers.predict(X).tolist()
    numbers.classes_ = np.array([0, "a", 1.5], dtype=object)
    with pytest.raises(ValueError, match="only classes that are all numbers or all strings can be saved"):
        numbers.save(tmp_path / "model.npz")
