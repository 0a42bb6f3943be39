"""What ChainCRF refuses is named, and changes nothing."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from majorant import ChainCRF, Chunks, LatentChainCRF
from tests.chain.test_crf import X_TEST, Y_TEST, X, Y


@pytest.mark.parametrize(
    ("change", "X", "y", "error", "sentence"),
    [
        ({}, X, Y[:-1], ValueError, "equally many sequences"),
        ({}, [[["a"], ["b"]]], [["x"]], ValueError, "sequence 0 has 2 tokens but 1 labels"),
        ({}, [[["a"]], [["b"], [3]]], [["x"], ["x", "y"]], TypeError, "token 1 of sequence 1: .*strings, got 3"),
        ({}, [[["a"]], [7]], [["x"], ["y"]], TypeError, "token 0 of sequence 1: a token is"),
        ({}, [[{"a": float("nan")}]], [["x"]], ValueError, "token 0 of sequence 0: .*'a' must be finite, got nan"),
        (
            {},
            [[{"a": None}]],
            [["x"]],
            TypeError,
            "token 0 of sequence 0: .*'a' must be a number, a string, .*NoneType",
        ),
        (
            {},
            [[{"a": np.array([0.1, 0.2])}]],
            [["x"]],
            TypeError,
            "'a' must be .*got ndarray; numbers need a name each",
        ),
        ({}, [[{"a": [{"b": 1}]}]], [["x"]], TypeError, "the values in 'a' must be strings, got dict: {'b': 1}"),
        ({}, [[{"a": {"b": [1, 2]}}]], [["x"]], TypeError, "the values in 'b' must be strings, got int: 1"),
        ({}, [np.array([[1.0], [np.inf]])], [["x", "y"]], ValueError, "sequence 0: values must be finite, got inf .*1"),
        ({}, ["text"], [["x"]], TypeError, "a sequence is a list of tokens, got str"),
        ({}, [[["a"]], [["b"]]], [["x"], [1]], TypeError, "all strings or all numbers, got 1"),
        ({}, [[["a"]]], [[None]], ValueError, "every token is unknown"),
        ({}, np.ones((2, 3)), [["x"], ["y"]], ValueError, "needs lengths"),
        ({}, [[{"a": 1j}]], [["x"]], TypeError, "'a' must be .* got complex"),
        ({}, [[["a"], ["b"]]], [[1.0, np.nan]], ValueError, "y holds NaN, which is no label: leave out"),
        ({}, [[{"a": 10**400}]], [["x"]], OverflowError, "token 0 of sequence 0"),
        ({}, [[[]]], [["x"]], ValueError, "no feature is left"),
        ({"min_freq": 100}, X, Y, ValueError, "no feature is left"),
        ({}, [], [], ValueError, "no label"),
        ({"c2": 0}, X, Y, ValueError, "c2 must be a positive number, got 0"),
        ({"c2": "1"}, X, Y, ValueError, "c2 must be a positive number, got '1'"),
        ({"tol": "1"}, X, Y, ValueError, "tol must be a number of at least 0, got '1'"),
        ({"c1": -0.1}, X, Y, ValueError, "c1 must be a number of at least 0, got -0.1"),
        ({"solver": "adam"}, X, Y, ValueError, "solver must be one of"),
        ({"min_freq": -1}, X, Y, ValueError, "min_freq must be a number of at least 0, got -1"),
        ({"random_state": "now"}, X, Y, ValueError, "random_state must be a whole number of at least 0, got 'now'"),
        (
            {"solver": "bbm"},
            [[["a"]] * 400],
            [[*range(20)] * 20],
            ValueError,
            "400 tokens with 20 labels: choose another",
        ),
        ({"solver": "sbm"}, [[["a"]] * 400], [[*range(20)] * 20], ValueError, "needs 10 GB"),
    ],
)
def test_bad_input_is_named(change, X, y, error, sentence):
    with pytest.raises(error, match=sentence):
        ChainCRF(**change).fit(X, y)


@pytest.mark.parametrize("solver", ["bbm", "sbm"])
def test_a_sequence_too_long_for_bounds_is_refused_before_any_work(solver, monkeypatch):
    monkeypatch.setattr("majorant.chain.crf.run", None)
    with pytest.raises(ValueError, match="needs 10 GB for a sequence of 400 tokens"):
        ChainCRF(solver=solver).fit([*X, [["a"]] * 400], [*Y, [f"L{k}" for k in range(16)] * 25])


def test_bad_weights_and_unknown_labels_are_named():
    with pytest.raises(ValueError, match="each of the 60 sequences, got 1"):
        ChainCRF().fit(X, Y, sample_weight=[1.0])
    with pytest.raises(ValueError, match=r"non-negative, got .* for sequence 0"):
        ChainCRF().fit(X[:1], Y[:1], sample_weight=[-1.0])
    with pytest.raises(ValueError, match="sequence 0 must be a number or"):
        ChainCRF().fit(X[:1], Y[:1], sample_weight=[[1.0] * 99])
    for learn in (ChainCRF().fit, ChainCRF().partial_fit):
        with pytest.raises(ValueError, match="sample_weight must not be zero everywhere"):
            learn(X[:2], Y[:2], sample_weight=[0.0, 0.0])
    model = ChainCRF().partial_fit(X, Y)
    with pytest.raises(ValueError, match="not named at the first call: \\['NEW'\\]"):
        model.partial_fit([[["a"]]], [["NEW"]])
    with pytest.raises(ValueError, match="lengths must"):
        model.fit(np.ones((3, 2)), [["a", "b"]], lengths=[2])


def contents(model):
    """Everything that a model holds, by value."""
    return pickle.dumps({name: value for name, value in vars(model).items() if not name.endswith("_features_")})


REFUSED = [
    dict(X=[[["a"], ["b"]]], y=[["P", "Q"]], sample_weight=[-1]),
    dict(X=[[["a"]], [["b"], [3]]], y=[["DET"], ["DET", "NOUN"]]),
    dict(X=[[["a"], ["new"]]], y=[["DET"]]),
    dict(X=[[[]]], y=[["DET"]]),
]


@pytest.mark.parametrize("arguments", REFUSED)
def test_a_fit_that_is_refused_changes_nothing(arguments):
    for model in (ChainCRF().fit(X, Y), ChainCRF().partial_fit(X, Y)):
        before = contents(model)
        for learn in (model.fit, model.partial_fit):
            with pytest.raises((ValueError, TypeError)):
                learn(**arguments)
            assert contents(model) == before


def test_a_fit_whose_warning_is_an_error_changes_nothing():
    model = ChainCRF().fit(X, Y)
    before = contents(model)
    model.set_params(max_iter=1, tol=1e-12, c2=1e-5)
    with pytest.raises(ConvergenceWarning):  # warnings are errors here
        model.fit(X_TEST, Y_TEST)
    model.set_params(max_iter=10_000, tol=1e-3, c2=1.0)
    assert contents(model) == before


def test_a_stream_that_is_refused_goes_on():
    stream, other = ChainCRF().partial_fit(X, Y), ChainCRF().partial_fit(X, Y)
    with pytest.raises(ValueError, match="not named"):
        stream.partial_fit([[["a"]]], [["NEW"]])
    assert stream.partial_fit(X_TEST, Y_TEST).state_features_ == other.partial_fit(X_TEST, Y_TEST).state_features_


def test_a_stream_keeps_its_classes():
    model = ChainCRF().partial_fit(X, Y, classes=["ADJ", "DET", "NOUN", "VERB", "RARE"])
    model.partial_fit(X, Y, classes=iter(["RARE", "ADJ", "DET", "NOUN", "VERB"]))
    with pytest.raises(ValueError, match=r"classes=\['ADJ' 'DET'\] differ from those of the first call"):
        model.partial_fit(X, Y, classes=["ADJ", "DET"])


# --- matrices of another width, and labels that arrays of strings would cut ------------------------------


TWO = [np.eye(2), np.eye(2)[::-1]]
LABELS = [[0, 1], [1, 0]]


@pytest.mark.parametrize("kind", [ChainCRF, LatentChainCRF])
def test_matrices_of_another_width_than_at_the_fit_are_refused(kind, tmp_path):
    model = kind().fit(TWO, LABELS)
    assert model.predict(TWO) == LABELS
    model.save(tmp_path / "model.npz")
    for same in (model, kind.load(tmp_path / "model.npz"), pickle.loads(pickle.dumps(model))):
        assert same.predict([*TWO, np.empty((0, 2))]) == [*LABELS, []]
        for other in (np.eye(3), np.eye(1), sp.csr_array(np.eye(3))):
            width = rf"sequence 1: a matrix with {other.shape[0]} columns, but the model was fitted to 2"
            for method in (same.predict, same.predict_marginals):
                with pytest.raises(ValueError, match=width):
                    method([np.eye(2), other])
            with pytest.raises(ValueError, match=width):
                same.score([np.eye(2), other], [[0, 1], [0] * other.shape[0]])
        with pytest.raises(ValueError, match="a matrix with 3 columns, but the model was fitted to 2"):
            same.predict(np.eye(3), lengths=[2, 1])


def test_matrices_of_several_widths_are_refused():
    with pytest.raises(ValueError, match="sequence 1: a matrix with 3 columns, but those before it have 2"):
        ChainCRF().fit([np.eye(2), np.eye(3)], [[0, 1], [0, 1, 1]])
    stream = ChainCRF().partial_fit(TWO, LABELS)
    before = contents(stream)
    with pytest.raises(ValueError, match="a matrix with 3 columns, but those before it have 2"):
        stream.partial_fit([np.eye(3)], [[0, 1, 1]])
    assert contents(stream) == before
    assert stream.partial_fit(TWO, LABELS).predict(TWO) == LABELS


def test_matrices_of_several_widths_are_refused_in_sources():
    def chunks(*widths):
        return lambda: (([np.eye(k)], [[0, 1, 0][:k]]) for k in widths)

    with pytest.raises(ValueError, match=r"chunk 1: .* a matrix with 3 columns, but those before it have 2"):
        ChainCRF().fit(Chunks(chunks(2, 3)))
    with pytest.raises(ValueError, match=r"chunk 1: .* a matrix with 3 columns, but the model was fitted to 2"):
        ChainCRF().fit(Chunks(chunks(2, 2))).predict(Chunks(chunks(2, 3)))
    with ThreadPoolExecutor(2) as workers, pytest.raises(ValueError, match="a matrix with 3 columns, but those before"):
        ChainCRF().fit(Chunks([chunks(2), chunks(3)]), executor=workers)


def test_a_matrix_is_refused_by_a_model_of_named_attributes():
    with pytest.raises(ValueError, match="a matrix with 2 columns, but the model was fitted to attributes that have"):
        ChainCRF().fit(X, Y).predict(TWO)


@pytest.mark.parametrize("kind", [ChainCRF, LatentChainCRF])
def test_labels_that_end_in_a_null_are_refused(kind):
    with pytest.raises(ValueError, match=r"y must not hold names that end in a NUL character, got 'x\\x00'"):
        kind().fit([[["a"], ["b"]]], [["x", "x\0"]])
    assert kind().fit([[["a"], ["b"]]], [["x", "x\0y"]]).classes_.tolist() == ["x", "x\0y"]


def test_classes_that_end_in_a_null_are_refused():
    with pytest.raises(ValueError, match=r"classes must not hold names that end in a NUL character, got 'y\\x00'"):
        ChainCRF().partial_fit([[["a"], ["b"]]], [["x", "y"]], classes=["x", "y", "y\0"])
    with pytest.raises(ValueError, match=r"chunk 0: y must not hold .* got 'x\\x00'"):
        ChainCRF().fit(Chunks(lambda: iter([([[["a"], ["b"]]], [["x", "x\0"]])])))
