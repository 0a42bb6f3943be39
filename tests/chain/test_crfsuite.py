"""CRFsuite's surface and files: sklearn-crfsuite's constructor and attributes, and models that its taggers read."""

from __future__ import annotations

import contextlib
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

from majorant import CRF, ChainCRF, LatentChainCRF
from majorant.chain import crfsuite
from tests.chain.test_crf import X_TEST, X, Y

# One sequence of ten days, with values, an empty token, and a value of bytes.
WEATHER = [
    {"walk": 1, "shop": 0.5},
    {"walk": 1},
    {"walk": 1, "clean": 0.25},
    {"shop": 0.5, "clean": 1.0},
    {"clean": 1},
    {"clean": 0.75, "shop": 0.1},
    {"walk": 1},
    {},
    {"clean": 1},
    {"небо": "серое".encode(), "clean": 1},
]
DAYS = ["sun", "sun", "sun", "rain", "rain", "rain", "sun", "sun", "rain", "rain"]
either = pytest.mark.parametrize("algorithm", [None, "lbfgs", "l2sgd"])

# ---------------------------------------------------------------- sklearn-crfsuite's behaviours


@either
@pytest.mark.parametrize("dev", [False, True])
@pytest.mark.parametrize("verbose", [False, True])
def test_fit_predict_score_and_marginals(algorithm, dev, verbose):
    more = {"X_dev": [WEATHER], "y_dev": [DAYS]} if dev else {}
    crf = CRF(algorithm, verbose=verbose, c2=0.1).fit([WEATHER, WEATHER], [DAYS, DAYS], **more)
    assert crf.predict([WEATHER]) == [crf.predict_single(WEATHER)] == [DAYS]
    assert crf.score([WEATHER], [DAYS]) == 1.0
    (marginals,) = crf.predict_marginals([WEATHER])
    assert len(marginals) == len(DAYS)
    for each in marginals:
        assert set(each) == set(crf.tagger_.labels()) == {"sun", "rain"}
        assert sum(each.values()) == pytest.approx(1.0, abs=1e-9)
    assert ("item_accuracy" in crf.training_log_.last_iteration) == dev
    assert crf.training_log_.last_iteration["loss"] == crf.trace_["objective"][-1]


@either
def test_models_are_pickled_cloned_searched_and_cross_validated(algorithm):
    crf = CRF(algorithm=algorithm, c2=0.1).fit([WEATHER], [DAYS])
    again = pickle.loads(pickle.dumps(crf))
    assert again.score([WEATHER], [DAYS]) == 1.0
    assert again.algorithm == algorithm
    assert clone(crf).get_params() == crf.get_params()
    assert cross_val_score(CRF(algorithm, c2=0.1), [WEATHER] * 10, [DAYS] * 10, cv=5).mean() == 1.0
    search = GridSearchCV(CRF("lbfgs"), {"c1": [0.01, 0.1], "c2": [0.01, 0.1]}, cv=2).fit(X, Y)
    assert search.best_estimator_.size_ > 0


@either
def test_before_fit_there_is_nothing(algorithm):
    crf = CRF(algorithm)
    with pytest.raises(NotFittedError):
        crf.predict([WEATHER])
    for name in ("attributes_", "num_attributes_", "size_", "state_features_", "transition_features_", "tagger_"):
        with pytest.raises(NotFittedError):
            getattr(crf, name)


def test_a_model_is_written_to_the_file_that_is_named_and_read_from_it(tmp_path):
    path = str(tmp_path / "model.crfsuite")
    CRF(model_filename=path, c2=0.1).fit([WEATHER], [DAYS])
    crf = CRF(model_filename=path)
    assert crf.score([WEATHER], [DAYS]) == 1.0
    assert pickle.loads(pickle.dumps(crf)).score([WEATHER], [DAYS]) == 1.0


def test_attributes_are_those_with_weights():
    crf = CRF(c2=0.1).fit([WEATHER], [DAYS])
    assert set(crf.attributes_) == {"walk", "shop", "clean", "небо:серое"} == {name for name, _ in crf.state_features_}
    assert crf.num_attributes_ == 4
    assert crf.tagger_.tag(WEATHER) == DAYS
    tagger = crf.tagger_
    tagger.set(WEATHER)
    assert tagger.tag() == DAYS
    assert tagger.marginal("sun", 3) == crf.predict_marginals_single(WEATHER)[3]["sun"]


def test_the_same_settings_are_the_same_model():
    ours = CRF("lbfgs", c1=0.1, c2=0.1, max_iterations=100, all_possible_transitions=True, epsilon=1e-5, period=10)
    chain = ChainCRF(c1=0.1, c2=0.1, all_possible_transitions=True).fit(X, Y)
    assert ours.fit(X, Y).state_features_ == chain.state_features_
    assert CRF().fit(X, Y).transition_features_ == ChainCRF().fit(X, Y).transition_features_


def test_files_are_those_of_crfsuite_whatever_they_are_called(tmp_path):
    path, other = tmp_path / "m.model", tmp_path / "m.npz"
    crf = CRF(model_filename=str(path), c2=0.1).fit([WEATHER], [DAYS])
    for name in ("state_features_", "attributes_", "size_"):
        assert getattr(CRF(model_filename=path), name) == getattr(crf, name)
    assert CRF(model_filename=path).classes_.tolist() == CRF(model_filename=path).tagger_.labels() == ["rain", "sun"]
    assert CRF(model_filename=path).tagger_.tag(WEATHER) == DAYS
    crf.save(other)
    assert path.read_bytes() == other.read_bytes()
    assert CRF.load(other).predict([WEATHER]) == [DAYS]
    assert crf.fit(X, Y).state_features_ == CRF(c2=0.1).fit(X, Y).state_features_


def test_what_cannot_be_done_after_a_fit_is_refused_before(tmp_path, monkeypatch):
    monkeypatch.setattr(ChainCRF, "fit", None)
    with pytest.raises(FileNotFoundError, match="the folder of model_filename"):
        CRF(model_filename=str(tmp_path / "nowhere" / "m.model")).fit([WEATHER], [DAYS])
    with pytest.raises(ValueError, match="X_dev and y_dev must have equally many sequences, got 1 and 2"):
        CRF().fit([WEATHER], [DAYS], [WEATHER], [DAYS, DAYS])
    with pytest.raises(ValueError, match="sequence 0 of X_dev has 10 tokens but 9 labels"):
        CRF().fit([WEATHER], [DAYS], [WEATHER], [DAYS[1:]])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"algorithm": "ap"}, "algorithm='ap' trains a perceptron, which has another objective"),
        ({"algorithm": "arow"}, "algorithm='arow' trains a perceptron"),
        ({"algorithm": "adam"}, "algorithm must be one of"),
        ({"pa_type": 1}, "pa_type is a setting of perceptrons, got 1: leave it out"),
        ({"trainer_cls": object}, "trainer_cls is of python-crfsuite"),
        ({"algorithm": "l2sgd", "c1": 0.1}, "algorithm='l2sgd' has no c1, got c1=0.1: use 'lbfgs'"),
        ({"max_iterations": -1}, "max_iter must be a whole number"),
    ],
)
def test_what_cannot_be_mapped_is_said(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        CRF(**settings).fit([WEATHER], [DAYS])


def test_held_out_sequences_need_labels():
    with pytest.raises(ValueError, match="X_dev and y_dev go together"):
        CRF().fit([WEATHER], [DAYS], [WEATHER])
    with pytest.raises(TypeError, match=r"use majorant\.ChainCRF"):
        CRF().partial_fit([WEATHER], [DAYS])


def test_bytes_are_strings_in_utf_8():
    texts = ChainCRF().fit([[["été"], {"k": "ü"}]], [["x", "y"]])
    encoded = ChainCRF().fit([[["été".encode()], {"k": "ü".encode()}]], [["x", "y"]])
    assert encoded.state_features_ == texts.state_features_


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("settings", [{"c2": 0.1}, {"c1": 0.3, "c2": 0.01}, {"all_possible_transitions": True}])
def test_taggers_of_crfsuite_label_as_we_do(tmp_path, settings):
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")
    path = str(tmp_path / "model.crfsuite")
    data = [[{name: 0.5 + 0.1 * len(name) for name in token} for token in tokens] for tokens in X]
    model = ChainCRF(**settings).fit(data, Y)
    model.save(path)
    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    assert set(tagger.labels()) == set(model.classes_)
    for tokens in [*data[:10], *([dict.fromkeys(token, 1.0) for token in each] for each in X_TEST)]:
        labels = tagger.tag(tokens)
        assert model.predict_single(tokens) == labels
        assert tagger.probability(labels) == pytest.approx(np.exp(-model._losses([tokens], [labels])[0]), rel=1e-9)
        assert tagger.marginal(labels[0], 0) == pytest.approx(model.predict_marginals_single(tokens)[0][labels[0]])
    again = ChainCRF.load(path)
    assert again.state_features_ == {key: w for key, w in model.state_features_.items() if w}
    assert again.predict(X_TEST) == model.predict(X_TEST)
    assert "read from a file of CRFsuite" in str(again.result_)


def test_labels_that_nothing_follows_have_an_empty_list(tmp_path):
    """CRFsuite's tagger would read other bytes as their transitions, and crash."""
    model = ChainCRF(c2=0.1).fit([[["a"], ["b"]], [["b"]]], [["P", "Q"], ["P"]])
    model.save(tmp_path / "model.crfsuite")
    data = (tmp_path / "model.crfsuite").read_bytes()
    at = data.index(b"LFRF")
    lists = np.frombuffer(data, "<u4", 4, at + 12)  # P, Q, begin and end
    assert (lists[:2] > at).all()
    assert not lists[2:].any()
    assert int.from_bytes(data[lists[1] : lists[1] + 4], "little") == 0
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model.crfsuite"))
    assert tagger.tag([["a"], ["b"]]) == ["P", "Q"]


def test_models_of_crfsuite_are_read_and_written_back_to_the_last_byte(tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")
    path = tmp_path / "theirs.crfsuite"
    trainer = pycrfsuite.Trainer(verbose=False, params={"c2": 0.1})
    for tokens, labels in zip(X, Y, strict=True):
        trainer.append(tokens, labels)
    trainer.train(str(path))
    model, tagger = ChainCRF.load(path), pycrfsuite.Tagger()
    tagger.open(str(path))
    assert model.predict(X_TEST) == [tagger.tag(tokens) for tokens in X_TEST]
    content = path.read_bytes()
    assert crfsuite.to_bytes(crfsuite.from_bytes(content)) == content
    assert model.size_ <= len(content)


NAMES = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40), unique=True)


@given(st.data())
def test_tables_come_back_as_they_were(data):
    labels, attributes = data.draw(NAMES.filter(len)), data.draw(NAMES)
    n, m, rng = len(labels), len(attributes), np.random.default_rng(data.draw(st.integers(0, 99)))
    states = np.argwhere(rng.uniform(size=(m, n)) < 0.5).reshape(-1, 2)
    steps = np.argwhere(rng.uniform(size=(n, n)) < 0.5).reshape(-1, 2)
    of_states, of_steps = rng.normal(size=len(states)), rng.normal(size=len(steps))
    tables = crfsuite.Tables(labels, attributes, states, of_states, steps, of_steps)
    back = crfsuite.from_bytes(crfsuite.to_bytes(tables))
    assert (back.labels, back.attributes) == (labels, attributes)
    for one, other in zip(back[2:], tables[2:], strict=True):
        np.testing.assert_array_equal(one, other)


@given(st.integers(0, 2**31), st.integers(0, 255))
def test_damaged_files_are_refused_and_nothing_else_is_raised(place, byte):
    none = np.empty((0, 2), dtype=int)
    tables = crfsuite.Tables(["x"], ["a"], np.array([[0, 0]]), np.ones(1), none, np.empty(0))
    content = bytearray(crfsuite.to_bytes(tables))
    with pytest.raises(ValueError, match=r"no file of CRFsuite|file is damaged"):
        crfsuite.from_bytes(bytes(content[: place % len(content)]))
    content[place % len(content)] = byte
    with contextlib.suppress(ValueError):
        assert len(crfsuite.from_bytes(bytes(content)).labels) <= 1


def test_what_such_files_cannot_hold_is_refused(tmp_path):
    model = ChainCRF().fit([[["a\0b"]] * 2], [["x", "y"]])
    with pytest.raises(ValueError, match="no names with a NUL character"):
        model.save(tmp_path / "m.crfsuite")
    with pytest.raises(ValueError, match="holds no notes: save a ChainCRF to a name that ends in"):
        ChainCRF().fit(X, Y).save(tmp_path / "m.crfsuite", notes={"by": "us"})
    latent = LatentChainCRF(n_latent=2, max_iter=2, n_init=1)
    with pytest.warns(Warning, match="limit of 2 steps"):
        latent.fit(X, Y)
    with pytest.raises(ValueError, match="holds no hidden states, so no LatentChainCRF"):
        latent.save(tmp_path / "m.crfsuite")
    assert not list(tmp_path.iterdir())
