"""Each row of docs/works_with.md."""

import copy
import pickle

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import BaggingClassifier, StackingClassifier
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_score, learning_curve
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from majorant import LinearProbe, LogisticRegression, LogisticRegressionCV


@pytest.fixture(scope="module")
def cancer():
    return load_breast_cancer(return_X_y=True)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def test_pipelines(cancer):
    X, y = cancer
    columns = make_column_transformer((StandardScaler(), [0, 1, 2]), remainder="passthrough")
    assert make_pipeline(columns, StandardScaler(), LogisticRegression()).fit(X, y).score(X, y) > 0.97


def test_cross_validation(cancer):
    X, y = cancer
    assert cross_val_score(LogisticRegression(), X, y, cv=3, scoring="roc_auc").min() > 0.98
    assert learning_curve(LogisticRegression(), X, y, cv=3, train_sizes=[0.5, 1.0])[2].mean() > 0.9


@pytest.mark.parametrize("search", [GridSearchCV, RandomizedSearchCV])
def test_searches(iris, search):
    more = {"n_iter": 3, "random_state": 0} if search is RandomizedSearchCV else {}
    found = search(LogisticRegression(), {"C": [0.01, 1.0, 100.0]}, cv=3, **more).fit(*iris)
    assert found.best_score_ > 0.95


@pytest.mark.parametrize(
    "outer",
    [
        lambda model: CalibratedClassifierCV(model, cv=3),
        lambda model: BaggingClassifier(model, n_estimators=3, random_state=0),
        lambda model: StackingClassifier([("one", model), ("other", LogisticRegression(C=0.01))], model, cv=3),
        OneVsRestClassifier,
    ],
)
def test_inner_estimators(iris, outer):
    X, y = iris
    assert outer(LogisticRegression()).fit(X, y).score(X, y) > 0.93


def test_selection_of_columns(cancer):
    X, y = cancer
    assert RFE(LogisticRegression(), n_features_to_select=10, step=5).fit(X, y).support_.sum() == 10
    assert SelectFromModel(LogisticRegression()).fit(X, y).transform(X).shape[1] < X.shape[1]
    model = LogisticRegression().fit(X, y)
    assert permutation_importance(model, X, y, n_repeats=2, random_state=0).importances_mean.max() > 0


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_data_frames(iris, package):
    frames = pytest.importorskip(package)
    X, y = frames.DataFrame(dict(zip("abcd", iris[0].T, strict=True))), iris[1]
    model = LogisticRegression().fit(X, y)
    assert model.feature_names_in_.tolist() == [*"abcd"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[[*"dcba"]])


def test_copies(iris, tmp_path):
    X, y = iris
    model = LogisticRegression().fit(X, y)
    joblib.dump(model, tmp_path / "model.joblib")
    model.save(tmp_path / "model.npz")
    copies = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model), joblib.load(tmp_path / "model.joblib")]
    for other in [*copies, LogisticRegression.load(tmp_path / "model.npz"), clone(model).fit(X, y)]:
        assert np.array_equal(other.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("make", [LogisticRegression, lambda: LogisticRegressionCV(Cs=3, cv=3), LinearProbe])
@pytest.mark.parametrize("data", ["iris", "cancer"])
def test_scikit_learns_own_class(make, data, request):
    X, y = request.getfixturevalue(data)
    names = np.array([f"class {label}" for label in y])
    model = make().fit(X, names)
    theirs = model.to_sklearn()
    assert type(theirs).__module__.startswith("sklearn.linear_model")
    np.testing.assert_allclose(theirs.predict_proba(X), model.predict_proba(X), rtol=1e-6, atol=1e-12)
    assert (theirs.predict(X) == model.predict(X)).all()
    theirs.coef_[:] = 0.0  # it is a copy
    assert model.coef_.any()


def test_a_model_that_is_not_fitted_has_no_copy():
    with pytest.raises(ValueError, match="not fitted yet"):
        LogisticRegression().to_sklearn()


@pytest.mark.parametrize("data", ["iris", "cancer"])
def test_onnx(data, request):
    convert, runtime = pytest.importorskip("skl2onnx"), pytest.importorskip("onnxruntime")
    X, y = request.getfixturevalue(data)
    X = StandardScaler().fit_transform(X).astype(np.float32)
    model = LogisticRegression().fit(X, y)
    graph = convert.to_onnx(model.to_sklearn(), X[:1], options={"zipmap": False})
    session = runtime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    labels, probabilities = session.run(None, {session.get_inputs()[0].name: X})
    assert (labels == model.predict(X)).all()
    np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=1e-5)


def test_shap(iris):
    shap = pytest.importorskip("shap")
    X, y = iris
    assert np.shape(shap.LinearExplainer(LogisticRegression().fit(X, y), X).shap_values(X))[0] == len(X)
