"""ChainCRF as a person would use it."""

from __future__ import annotations

import cProfile
import itertools
import pickle
import pstats
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from majorant import Chain, ChainCRF, held_out
from majorant.chain import features
from majorant.chain.feature_index import Universe
from majorant.chain.features import observed_pairs, read_sequences, sequences, token_weights
from majorant.chain.tokens import Vocabulary, encode
from majorant.estimators import saving

WORDS = {"DET": ["the", "a"], "NOUN": ["cat", "dog", "house"], "VERB": ["sat", "ran"], "ADJ": ["big", "red"]}
NEXT = {"DET": ["NOUN", "ADJ"], "ADJ": ["NOUN"], "NOUN": ["VERB"], "VERB": ["DET"]}


def sentences(count, seed=0):
    """Sentences whose labels follow each other by a grammar."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(count):
        labels = ["DET"]
        while len(labels) < rng.integers(2, 7):
            labels.append(str(rng.choice(NEXT[labels[-1]])))
        words = [str(rng.choice(WORDS[label])) for label in labels]
        X.append([[f"w={word}", f"end={word[-1]}", "bias"] for word in words])
        y.append(labels)
    return X, y


X, Y = sentences(60)
X_TEST, Y_TEST = sentences(20, seed=1)


def drawn(seed, words, many, length=6, labels=8):
    """Sequences of words, frequent and rare; if these are many, labels are learnt by heart."""
    rng = np.random.default_rng(seed)
    frequent = 1 / np.arange(1, words + 1) ** 0.7
    X, y = [], []
    for _ in range(many):
        drawn = [rng.choice(words, size=4, replace=False, p=frequent / frequent.sum()) for _ in range(length)]
        X.append([[f"w{k}" for k in each] for each in drawn])
        y.append([int((each.min() + rng.integers(0, 2)) % labels) for each in drawn])
    return X, y


@pytest.mark.parametrize("c2", [1e-5, 1e-4, 1e-3])
def test_small_penalties_take_few_passes(c2):
    model = ChainCRF(c2=c2, tol=1e-5).fit(*drawn(0, words=1500, many=300))
    assert model.result_.converged
    assert model.trace_["passes"][-1] < 150


def test_the_limit_of_steps_is_that_of_the_user_and_far_away_otherwise():
    X, y = drawn(1, words=12, many=60)
    model = ChainCRF(c2=1e-5, tol=1e-6).fit(X, y)
    assert model.result_.converged
    assert model.n_iter_ > 1000
    with pytest.warns(ConvergenceWarning, match="stopped at the limit of 7 steps"):
        assert ChainCRF(c2=1e-5, tol=1e-6, max_iter=7).fit(X, y).n_iter_ == 7


@pytest.mark.parametrize("solver", ["auto", "proximal", "sbm", "bbm", "lbfgs"])
def test_every_solver_learns_the_grammar(solver):
    model = ChainCRF(c2=0.1, solver=solver).fit(X, Y)
    assert model.score(X_TEST, Y_TEST) > (0.9 if solver == "sbm" else 0.95)  # a stiff bound, one pass
    assert model.classes_.tolist() == ["ADJ", "DET", "NOUN", "VERB"]
    assert set(model.trace_) >= {"objective", "passes", "seconds"}
    assert solver in ("proximal", "sbm") or model.gap_ <= 1e-3
    assert str(model.result_)


def test_solvers_agree():
    models = [ChainCRF(c2=0.5, solver=solver, tol=1e-9).fit(X, Y) for solver in ("auto", "bbm", "lbfgs")]
    for other in models[1:]:
        assert other.state_features_ == pytest.approx(models[0].state_features_, abs=1e-3)
        assert other.transition_features_ == pytest.approx(models[0].transition_features_, abs=1e-3)


def test_features_are_those_that_occur():
    model = ChainCRF().fit([[["a"], ["b"]], [["a"]]], [["x", "y"], ["y"]])
    assert set(model.state_features_) == {("a", "x"), ("a", "y"), ("b", "y")}
    assert set(model.transition_features_) == {("x", "y")}
    every = ChainCRF(all_possible_states=True, all_possible_transitions=True).fit([[["a"], ["b"]]], [["x", "y"]])
    assert len(every.state_features_) == 4
    assert len(every.transition_features_) == 4
    frequent = ChainCRF(min_freq=2).fit([[["a"], ["b"]], [["a"], ["c"]]], [["x", "y"], ["x", "x"]])
    assert set(frequent.state_features_) == {("a", "x")}
    assert frequent.transition_features_ == {}


def test_the_objective_is_that_of_crfsuite(tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")
    trainer = pycrfsuite.Trainer(verbose=False)
    for tokens, labels in zip(X, Y, strict=True):
        trainer.append([{"values": 0.5, **dict.fromkeys(token, 1.0)} for token in tokens], labels)
    trainer.set_params({"c1": 0, "c2": 0.3, "epsilon": 1e-9, "max_iterations": 1000})
    trainer.train(str(tmp_path / "crfsuite.model"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "crfsuite.model"))
    theirs = tagger.info()
    data = [[{"values": 0.5, **dict.fromkeys(token, 1.0)} for token in tokens] for tokens in X]
    ours = ChainCRF(c2=0.3, tol=1e-10).fit(data, Y)
    assert len(ours.state_features_) == len(theirs.state_features)
    for pair, weight in theirs.state_features.items():
        assert ours.state_features_[pair] == pytest.approx(weight, abs=2e-3)
    for pair, weight in theirs.transitions.items():
        assert ours.transition_features_[pair] == pytest.approx(weight, abs=2e-3)
    tagger.set(data[0])
    found = ours.predict_marginals(data[:1])[0][0]
    assert found["DET"] == pytest.approx(tagger.marginal("DET", 0), abs=1e-3)


def test_tokens_are_dicts_lists_strings_or_rows():
    vocabulary = Vocabulary()
    token = {"w": "cat", "title": True, "upper": False, "length": 3, "parts": ["c", "t"], "in": {"x": 2.0, "y": "z"}}
    tokens = encode([[token, ["w:cat", "bias"], "bias"]], vocabulary, grow=True)
    names = vocabulary.names()
    assert names == ["w:cat", "title", "upper", "length", "parts:c", "parts:t", "in:x", "in:y:z", "bias"]
    assert tokens.values.tolist() == [1, 1, 0, 3, 1, 1, 2, 1, 1, 1, 1]
    assert [names[a] for a in tokens.attributes[-3:]] == ["w:cat", "bias", "bias"]
    assert tokens.indptr.tolist() == [0, 8, 10, 11]


def test_dicts_and_lists_of_the_same_attributes_agree():
    lists = ChainCRF().fit(X, Y)
    dicts = ChainCRF().fit([[dict.fromkeys(token, 1.0) for token in tokens] for tokens in X], Y)
    assert dicts.state_features_ == pytest.approx(lists.state_features_, abs=1e-9)


@pytest.mark.parametrize("form", ["arrays", "sparse", "one matrix", "one sparse matrix"])
def test_numeric_rows(form):
    rng = np.random.default_rng(0)
    lengths = [4, 1, 0, 5, 3]
    y = [rng.choice(["p", "q"], size=m).tolist() for m in lengths]
    rows = [np.array([[1.0, (c == "p") + 0.1 * rng.normal()] for c in labels]).reshape(-1, 2) for labels in y]
    stacked = np.vstack(rows)
    given, extra = {
        "arrays": (rows, {}),
        "sparse": ([sp.csr_array(r) for r in rows], {}),
        "one matrix": (stacked, {"lengths": lengths}),
        "one sparse matrix": (sp.csr_matrix(stacked), {"lengths": lengths}),
    }[form]
    model = ChainCRF(c2=0.01, tol=1e-10).fit(given, y, **extra)
    assert model.predict(given, **extra) == y
    assert model.score(given, y, **extra) == 1.0
    reference = ChainCRF(c2=0.01, tol=1e-10).fit([[{"0": a, "1": b} for a, b in r.tolist()] for r in rows], y)
    assert model.state_features_ == pytest.approx(reference.state_features_, abs=1e-5)


def test_generators_are_read_once():
    streamed = ChainCRF().fit((tokens for tokens in X), (labels for labels in Y))
    assert streamed.state_features_ == ChainCRF().fit(X, Y).state_features_


def test_empty_and_short_sequences_and_unknown_attributes():
    model = ChainCRF().fit([[], *X, [["w=the"]]], [[], *Y, ["DET"]])
    assert model.predict([[], [["w=the"]], [["never seen"]], [[]]])[:2] == [[], ["DET"]]
    assert model.predict([]) == []
    marginals = model.predict_marginals([[["never seen"], []], []])
    assert [len(m) for m in marginals] == [2, 0]
    assert sum(marginals[0][1].values()) == pytest.approx(1.0)
    assert model.score([[["w=the"]]], [["NEVER TRAINED ON"]]) == 0.0


def test_weights_are_repetitions():
    weight = np.arange(len(X)) % 3
    weighted = ChainCRF(tol=1e-9, all_possible_states=True, all_possible_transitions=True).fit(X, Y, weight)
    repeated = ChainCRF(tol=1e-9, all_possible_states=True, all_possible_transitions=True).fit(
        [tokens for tokens, w in zip(X, weight, strict=True) for _ in range(w)],
        [labels for labels, w in zip(Y, weight, strict=True) for _ in range(w)],
    )
    shared = repeated.state_features_
    found = weighted.state_features_
    assert {pair: found[pair] for pair in shared} == pytest.approx(shared, abs=1e-4)


def test_threads_end_at_the_same_optimum():
    one, two = (ChainCRF(n_jobs=jobs, tol=1e-8).fit(X, Y) for jobs in (None, 2))
    assert two.state_features_ == pytest.approx(one.state_features_, abs=1e-3)


def test_partial_fit_grows_and_keeps_the_meaning_of_weights():
    model = ChainCRF(c2=0.1)
    for k in range(0, 60, 20):
        model.partial_fit(X[k : k + 20], Y[k : k + 20], classes=["ADJ", "DET", "NOUN", "VERB"])
    assert model.score(X_TEST, Y_TEST) > 0.9
    before = model.state_features_
    model.partial_fit([[["w=new"]]], [["NOUN"]])
    after = model.state_features_
    assert set(after) == {*before, ("w=new", "NOUN")}
    assert {pair: after[pair] for pair in before} == before
    assert np.isnan(model.gap_)


def test_partial_fit_is_one_pass_in_the_order_given():
    whole = ChainCRF().partial_fit(X, Y)
    chunks = ChainCRF()
    for k in range(0, 60, 15):
        chunks.partial_fit(X[k : k + 15], Y[k : k + 15], classes=whole.classes_)
    # Not the same: a chunk's features have no parameter before it comes; but what all chunks share is close.
    shared = {pair: w for pair, w in whole.state_features_.items() if pair[0] == "bias"}
    assert {pair: chunks.state_features_[pair] for pair in shared} == pytest.approx(shared, abs=0.3)
    assert set(chunks.state_features_) == set(whole.state_features_)


def test_saved_models_are_the_same(tmp_path):
    model = ChainCRF(c2=0.1).fit(X, Y)
    model.save(tmp_path / "chain.npz", notes={"made by": "a test"})
    loaded = ChainCRF.load(tmp_path / "chain.npz")
    assert loaded.state_features_ == model.state_features_
    assert loaded.transition_features_ == model.transition_features_
    assert loaded.predict(X_TEST) == model.predict(X_TEST)
    assert loaded.notes_ == {"made by": "a test"}
    assert loaded.result_ == model.result_
    assert loaded.get_params() == model.get_params()
    stream = ChainCRF().partial_fit(X[:30], Y[:30])
    stream.save(tmp_path / "stream.npz")
    again = ChainCRF.load(tmp_path / "stream.npz").partial_fit(X[30:], Y[30:])
    assert again.state_features_ == stream.partial_fit(X[30:], Y[30:]).state_features_


def test_labels_may_be_numbers(tmp_path):
    y = [[len(label) for label in labels] for labels in Y]
    model = ChainCRF().fit(X, y)
    model.save(tmp_path / "numbers.npz")
    assert ChainCRF.load(tmp_path / "numbers.npz").predict(X[:1]) == model.predict(X[:1])
    assert isinstance(model.predict(X[:1])[0][0], int)


def test_it_can_be_searched_over():
    search = GridSearchCV(ChainCRF(solver="proximal"), {"c2": [0.1, 10.0]}, cv=3).fit(X, Y)
    assert search.best_score_ > 0.9
    assert pickle.loads(pickle.dumps(search.best_estimator_)).predict(X_TEST) == search.predict(X_TEST)


def test_it_is_an_estimator():
    model = ChainCRF(c2=0.3, min_freq=1)
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(Exception, match="not fitted"):
        model.predict(X)


def test_tokens_that_weigh_nothing_are_not_learnt_from():
    wrong = [["VERB" if label == "NOUN" else label for label in labels] for labels in Y]
    weight = [[0.0 if label == "NOUN" else 1.0 for label in labels] for labels in Y]
    # Wrong twice as often as right: equally often would be a tie, which rounding decides.
    misled = ChainCRF(c2=0.1).fit(3 * X, Y + 2 * wrong)
    told = ChainCRF(c2=0.1).fit(3 * X, Y + 2 * wrong, sample_weight=[1.0] * len(Y) + 2 * weight)
    assert told.score(X_TEST, Y_TEST) > misled.score(X_TEST, Y_TEST)
    assert np.isnan(told.gap_)
    assert "not convex" in str(told.result_)
    assert told.score(X_TEST[:1], Y_TEST[:1], sample_weight=[np.ones(len(Y_TEST[0]))]) == 1.0


@pytest.mark.parametrize("c2", [1.0, 1e-2, 1e-4])
def test_one_pass_never_ends_above_where_it_began(c2):
    noisy = [["VERB" if k % 7 == 0 else label for k, label in enumerate(labels)] for labels in Y]
    model = ChainCRF(c2=c2, solver="proximal").fit(X, noisy)
    assert model.trace_["objective"][-1] < 0.6 * model.trace_["objective"][0]


def test_a_stream_of_surprises_stays_finite():
    model = ChainCRF(c2=0.01)
    for k in range(52):
        labels = ["A"] * 30 if k < 50 else ["B"] * 30 if k == 50 else ["A", "B"] * 15
        model.partial_fit([[["b"]] * 30], [labels], classes=["A", "B"])
    assert max(abs(w) for w in model.transition_features_.values()) < 20
    assert np.isfinite(list(model.predict_marginals([[["b"]] * 3])[0][1].values())).all()


def test_a_chunk_costs_what_is_new_not_what_is_known():
    """Calls are counted, not seconds: what grows with the vocabulary is left to whole arrays."""
    calls = []
    for size in (30, 30_000):
        model = ChainCRF().partial_fit([[[f"w{k}"]] for k in range(size)], [["x"], ["y"]] * (size // 2))
        model.partial_fit([[["w1"]]], [["x"]])  # compiled by now
        profile = cProfile.Profile()
        profile.runcall(model.partial_fit, [[["new"], ["w1"]]], [["x", "y"]])
        calls.append(pstats.Stats(profile).total_calls)
    assert calls[1] < 1.2 * calls[0]


def test_features_are_read_off_once_for_each_fit():
    model = ChainCRF().fit(X, Y)
    first = model.state_features_, model.transition_features_
    assert (model.state_features_, model.transition_features_) == first
    assert model.state_features_ is first[0]
    model.fit(X_TEST, Y_TEST)
    assert model.state_features_ != first[0]
    assert model.transition_features_ != first[1]
    second = model.state_features_
    assert model.partial_fit(X, Y).state_features_ != second


def test_random_states():
    orders = [ChainCRF(solver="proximal", random_state=state) for state in (0, 1, np.random.RandomState(7))]
    weights = [model.fit(X, Y).state_features_["bias", "DET"] for model in orders]
    assert len(set(weights)) == 3
    again = ChainCRF(solver="proximal", random_state=np.random.RandomState(7)).fit(X, Y)
    assert again.state_features_["bias", "DET"] == weights[2]


def test_a_random_state_is_not_saved(tmp_path):
    ChainCRF(random_state=np.random.RandomState(7)).fit(X, Y).save(tmp_path / "m.npz")
    assert ChainCRF.load(tmp_path / "m.npz").random_state is None


def crfsuite_features(tmp_path, data, y, **settings):
    """The weights that CRFsuite learns, with almost no penalty, so that it writes out none of zero."""
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")
    trainer = pycrfsuite.Trainer(verbose=False)
    for tokens, labels in zip(data, y, strict=True):
        trainer.append(tokens, labels)
    trainer.set_params({"c1": 0, "c2": 0.01, "max_iterations": 3, **settings})
    trainer.train(str(tmp_path / "crfsuite.model"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "crfsuite.model"))
    return set(tagger.info().state_features), set(tagger.info().transitions)


@pytest.mark.parametrize("least", [0, 1.5, 3])
@pytest.mark.parametrize("every", [False, True])
def test_frequencies_are_those_of_crfsuite(tmp_path, monkeypatch, least, every):
    rng = np.random.default_rng(0)
    data = [[{**dict.fromkeys(token, 1.0), "v": rng.uniform(), "flag": False} for token in tokens] for tokens in X]
    names = {"feature.minfreq": least, "feature.possible_states": every, "feature.possible_transitions": every}
    theirs = crfsuite_features(tmp_path, data, Y, **names)
    model = ChainCRF(min_freq=least, all_possible_states=every, all_possible_transitions=every)
    for largest in (features.LARGEST_TABLE, 1):
        monkeypatch.setattr(features, "LARGEST_TABLE", largest)
        ours = model.fit(data, Y)
        # A value of 0 has no slope, so CRFsuite leaves its weight of 0 out of the file.
        states = {pair for pair in ours.state_features_ if pair[0] != "flag"}
        assert (states, set(ours.transition_features_)) == theirs
        assert any(pair[0] == "flag" for pair in ours.state_features_) == (least == 0)


def number_of_crfsuites_features(tmp_path, data, y, least):
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")
    trainer = pycrfsuite.Trainer(verbose=False, params={"max_iterations": 1, "feature.minfreq": least})
    for tokens, labels in zip(data, y, strict=True):
        trainer.append(tokens, labels)
    trainer.train(str(tmp_path / "crfsuite.model"))
    return trainer.logparser.featgen_num_features


@pytest.mark.parametrize("seed", range(3))
def test_values_that_sum_to_less_than_zero(tmp_path, seed):
    """CRFsuite's own count of features: the same above a frequency of 0, and at 0 without sums below 0."""
    rng = np.random.default_rng(seed)
    data = [
        [{f"v{k}": float(v) for k, v in enumerate(rng.integers(-2, 3, size=9))} for _ in tokens] for tokens in X[:9]
    ]
    sums, steps = {}, set()
    for tokens, labels in zip(data, Y, strict=False):
        steps |= set(itertools.pairwise(labels))
        for token, label in zip(tokens, labels, strict=True):
            for name, value in token.items():
                sums[name, label] = sums.get((name, label), 0.0) + value
    assert min(sums.values()) < 0.0 in sums.values()
    for least in (0.5, 1.0, 3.0):
        ours = ChainCRF(min_freq=least).fit(data, Y[:9])
        count = number_of_crfsuites_features(tmp_path, data, Y[:9], least)
        assert len(ours.state_features_) + len(ours.transition_features_) == count
    assert set(ChainCRF().fit(data, Y[:9]).state_features_) == set(sums)
    left_out = sum(value < 0 for value in sums.values())
    assert number_of_crfsuites_features(tmp_path, data, Y[:9], 0) == len(sums) + len(steps) - left_out
    positive = ChainCRF(min_freq=np.nextafter(0, 1)).fit(data, Y[:9])
    assert set(positive.state_features_) == {pair for pair, value in sums.items() if value > 0}


def test_a_stream_forgets_what_a_fit_said():
    model = ChainCRF().fit(X, Y).partial_fit(X, Y)
    assert "nothing certifies a stream" in str(model.result_)
    assert not hasattr(model, "trace_")
    assert model.predict_single(X[0]) == model.predict(X[:1])[0]
    assert model.predict_marginals_single(X[0]) == model.predict_marginals(X[:1])[0]


def test_one_label_and_no_steps():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ChainCRF().fit([[["a"], ["b"]], [["a"]]], [["x", "x"], ["x"]])
    assert 0 <= model.gap_ <= 1
    assert ChainCRF(max_iter=0, solver="proximal").get_params()["max_iter"] == 0
    with pytest.warns(ConvergenceWarning, match="limit of 0 steps"):
        ChainCRF(max_iter=0, solver="proximal").fit(X, Y)


def test_what_can_be_saved(tmp_path):
    odd = ChainCRF(c2=np.float32(0.5), max_iter=np.int64(50)).fit([[["\ud800"], ["b"]]], [[np.uint8(3), np.uint8(4)]])
    odd.save(tmp_path / "odd.npz")
    loaded = ChainCRF.load(tmp_path / "odd.npz")
    assert loaded.state_features_ == odd.state_features_
    assert loaded.classes_.tolist() == [3, 4]


def test_empty_arrays_and_arrays_of_strings():
    model = ChainCRF().fit([np.empty((0, 2)), np.eye(2), np.array([])], [[], ["x", "y"], []])
    assert model.predict([np.array([]), np.eye(2)]) == [[], ["x", "y"]]
    with pytest.raises(TypeError, match="attributes must be strings, got 0"):
        model.predict([[[0.0, 1.0]]])
    with pytest.raises(ValueError, match="no token"):
        model.score([], [])
    words = ChainCRF().fit([np.array(["a", "b"])], [np.array(["x", "y"])])
    assert words.predict([["a", "b"]]) == [["x", "y"]]


def test_a_column_of_a_wide_matrix_is_named_once():
    """Calls are counted, not seconds: a hundred matrices with one more column take about one call more."""
    calls, widths = [], (500, 50_000)
    for width in widths:
        rng = np.random.default_rng(0)
        rows = [sp.csr_array((np.ones(4), rng.integers(0, 500, 4), [0, 2, 4]), shape=(2, width)) for _ in range(100)]
        ChainCRF(solver="proximal").fit(rows, [["x", "y"]] * 100)  # compiled by now
        profile = cProfile.Profile()
        profile.runcall(ChainCRF(solver="proximal").fit, rows, [["x", "y"]] * 100)
        calls.append(pstats.Stats(profile).total_calls)
    assert calls[1] - calls[0] < 3 * (widths[1] - widths[0])


def test_held_out_metrics_of_weighted_sequences():
    tokens, labels, classes = read_sequences(X, Y, None, vocabulary := Vocabulary())
    found = observed_pairs(
        tokens, labels, len(classes), len(vocabulary), min_freq=0, all_states=False, all_transitions=False
    )
    universe = Universe.of(*found, len(classes), len(vocabulary))
    data = sequences(universe, tokens, labels, token_weights(np.arange(len(X)), tokens.starts))
    metrics = held_out(Chain(), data)
    zero = np.zeros(universe.size)
    assert metrics["test_log_likelihood"](zero) == pytest.approx(-np.log(4))
    assert 0 <= metrics["test_error"](zero) <= 1


def test_new_features_of_a_stream_start_from_the_prior():
    """A token with an attribute that is new: p = ½, so that D = 2 c2 + ¼·¼ and θ = ½/D."""
    model = ChainCRF(c2=3.0).partial_fit([[["a"]], [["b"]]] * 5, [["x"], ["y"]] * 5)
    model.partial_fit([[["new"]]], [["x"]])
    assert model.state_features_["new", "x"] == pytest.approx(0.5 / (6.0 + 1 / 16), rel=1e-12)


def test_models_of_a_later_format_are_refused(tmp_path, monkeypatch):
    model = ChainCRF().fit(X, Y)
    monkeypatch.setattr(saving, "VERSION", saving.VERSION + 1)
    model.save(tmp_path / "later.npz")
    assert ChainCRF.load(tmp_path / "later.npz").predict(X_TEST) == model.predict(X_TEST)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="holds a ChainCRF of format 2; this is ChainCRF, format 1"):
        ChainCRF.load(tmp_path / "later.npz")
