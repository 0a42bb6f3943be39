"""Constraints on transitions, n-best labellings, spans, and labels that are known in part, against all labellings."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from majorant import ChainCRF, Chunks, EarlyStopping, Outcome
from majorant.chain.constraints import allowed_table
from tests.chain.test_crf import sentences

RNG = np.random.default_rng(0)
CHUNKS = ["B-X", "B-Y", "I-X", "I-Y", "O"]


def chunked(count, seed=0):
    """Sequences labelled in BIO whose attributes hint at the labels."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(count):
        labels = []
        while len(labels) < rng.integers(1, 6):
            kind = rng.choice(["X", "Y", "O"])
            labels += ["O"] if kind == "O" else [f"B-{kind}", *[f"I-{kind}"] * rng.integers(0, 3)]
        X.append([[f"a{rng.integers(6)}", f"h={label[-1] if rng.uniform() < 0.7 else '?'}"] for label in labels])
        y.append(labels)
    return X, y


X, Y = chunked(60)


def all_labellings(model, tokens, obeys=lambda labels: True):
    """Every labelling of a sequence that obeys, and its score, from the weights by their names."""
    states, steps = model.state_features_, model.transition_features_
    every = [labels for labels in product(model.classes_.tolist(), repeat=len(tokens)) if obeys(labels)]
    scores = [
        sum(states.get((a, label), 0.0) for token, label in zip(tokens, labels, strict=True) for a in token)
        + sum(steps.get(pair, 0.0) for pair in pairwise(labels))
        for labels in every
    ]
    return [list(labels) for labels in every], np.array(scores, dtype=np.longdouble)


def is_bio(labels):
    return all(b[0] != "I" or (a[0] in "BI" and a[1:] == b[1:]) for a, b in pairwise(("O", *labels)))


def starts_and_steps(a, b):
    return not (b in ("I-X", "I-Y") and (a is None or a[1:] != b[1:]))


PAIRS = [(a, b) for a in [*CHUNKS, None] for b in [*CHUNKS, None] if starts_and_steps(a, b) and (a or b)]


@pytest.mark.parametrize("transitions", ["BIO", starts_and_steps, PAIRS])
@pytest.mark.parametrize("settings", [{"c2": 0.1}, {"c1": 0.2, "c2": 0.05}, {"c2": 0.01, "solver": "lbfgs"}])
def test_only_what_is_allowed_is_trained_and_tagged(transitions, settings, tmp_path):
    model = ChainCRF(transitions=transitions, tol=1e-8, all_possible_transitions=True, **settings).fit(X, Y)
    assert model.result_.converged
    value = settings.get("c1", 0) * sum(map(abs, weights(model))) + settings["c2"] * sum(w * w for w in weights(model))
    for tokens, labels in zip(X, Y, strict=True):
        every, scores = all_labellings(model, tokens, is_bio)
        z = np.logaddexp.reduce(scores)
        value += z - scores[every.index(labels)]
    assert model.trace_["objective"][-1] == pytest.approx(float(value), rel=1e-9)
    for tokens in chunked(12, seed=1)[0]:
        every, scores = all_labellings(model, tokens, is_bio)
        p = np.exp(scores - np.logaddexp.reduce(scores))
        assert model.predict_single(tokens) == every[int(np.argmax(scores))]
        for t, found in enumerate(model.predict_marginals_single(tokens)):
            for label, probability in found.items():
                exact = float(sum(q for q, labels in zip(p, every, strict=True) if labels[t] == label))
                assert probability == pytest.approx(exact, abs=1e-9)
    model.callbacks, model.transitions = None, transitions if isinstance(transitions, str) else None
    model.save(tmp_path / "m.npz")
    assert ChainCRF.load(tmp_path / "m.npz").predict(X) == model.predict(X)
    with pytest.raises(ValueError, match="no constraints on transitions"):
        model.save(tmp_path / "m.crfsuite")


def weights(model):
    return [*model.state_features_.values(), *model.transition_features_.values()]


def test_schemes():
    bioes = np.array(["B-X", "E-X", "I-X", "O", "S-X"])
    table = allowed_table("BIOES", bioes)
    follow = {
        "B-X": {"I-X", "E-X"},
        "I-X": {"I-X", "E-X"},
        **{label: {"O", "B-X", "S-X", None} for label in ("E-X", "O", "S-X")},
        None: {"O", "B-X", "S-X", None},
    }
    labels = [*bioes.tolist(), None]
    assert {a: {b for k, b in enumerate(labels) if table[j, k]} for j, a in enumerate(labels)} == follow
    assert allowed_table(None, bioes) is None


@pytest.mark.parametrize(
    ("transitions", "sentence"),
    [
        (5, "must be 'BIO', 'BIOES', pairs of labels or a function, got 5"),
        (lambda a, b: (a, b) != (None, "O"), "do not allow a sequence to begin with 'O', as y of sequence 1 has it"),
        (lambda a, b: (a, b) != ("O", None), "do not allow a sequence to end with 'O', as y of sequence 1 has it"),
        ("IOB", "must be 'BIO', 'BIOES', pairs of labels or a function, got 'IOB'"),
        ("BIO", r"transitions do not allow 'I-Y' after 'B-X', as y of sequence 0 has it"),
        ([(None, "O"), ("O", "O"), ("O", None)], "leave a label that nothing may follow"),
        ([("B-X", "Z")], "must be pairs of labels of y, or None for an end"),
        ([("B-X", "O")], "transitions do not allow 'I-Y' after 'B-X'"),
        (lambda a, b: b is not None, "leave a label that nothing may follow, or no label to begin or to end with"),
    ],
)
def test_constraints_that_cannot_be_are_refused(transitions, sentence):
    with pytest.raises(ValueError, match=sentence):
        ChainCRF(transitions=transitions).fit([[["a"]] * 3, [["b"]]], [["B-X", "I-Y", "I-Y"], ["O"]])


def test_sequences_that_no_labelling_fits_are_refused():
    X, Y = [[["a"], ["b"]], [["a"], ["c"], ["b"]]], [["B-X", "E-X"], ["B-X", "I-X", "E-X"]]
    model = ChainCRF(c2=0.1, transitions="BIOES").fit(X, Y)
    short = [[["a"]]]
    for predict in (model.predict, model.predict_marginals, model.predict_nbest):
        with pytest.raises(ValueError, match="transitions allow no labelling of sequence 2, which has 1 token"):
            predict([*X, *short])
    with pytest.raises(ValueError, match="transitions allow no labelling of sequence 0"):
        model.predict_span_marginals(short[0], [(0, 1, ["B-X"])])
    assert model.predict([X[0], [], X[1]]) == [Y[0], [], Y[1]]


@pytest.mark.parametrize("value", [1.0, 1000.0, 1e5])
def test_probabilities_far_below_those_of_illegal_labels(value):
    X, Y = [[["a"], ["b"]], [["b"], ["o"], ["a"]]], [["B-X", "I-X"], ["O", "O", "B-X"]]
    model = ChainCRF(c2=0.1, transitions="BIO").fit(X, Y)
    far = [{"o": value}, {"b": value}, {"b": value}]
    states, steps = model.state_features_, model.transition_features_
    every = [y for y in product(model.classes_.tolist(), repeat=3) if allowed_in_bio(y)]
    scores = np.array(
        [
            sum(states.get((a, k), 0.0) * v for token, k in zip(far, y, strict=True) for a, v in token.items())
            + sum(steps.get(pair, 0.0) for pair in pairwise(y))
            for y in every
        ],
        dtype=np.longdouble,
    )
    p = np.exp(scores - scores.max())
    p /= p.sum()
    first, marginals, last = model.predict_marginals([X[0], far, X[1]])
    assert [first, last] == model.predict_marginals(X)
    for t, token in enumerate(marginals):
        for k, found in token.items():
            assert found == pytest.approx(float(sum(p[[y[t] == k for y in every]])), abs=1e-9)
    best = model.predict_nbest([far], n=100)[0]
    assert {tuple(y): q for y, q in best} == pytest.approx(dict(zip(every, p.astype(float), strict=True)), abs=1e-9)
    spans = [(0, 3, list(y)) for y in every]
    assert model.predict_span_marginals(far, spans) == pytest.approx(p.astype(float).tolist(), abs=1e-9)
    assert model.predict_span_marginals(far, [(0, 2, ["O", "I-X"])]) == [0.0]


def test_probabilities_where_some_exponentials_underflow():
    """log Z was finite, and wrong by 13."""
    X, Y = [[["a"], ["b"]], [["b"], ["o"], ["a"]]], [["B-X", "I-X"], ["O", "O", "B-X"]]
    model = ChainCRF(c2=0.1, transitions="BIO").fit(X, Y)
    values = [(-800.0, -1150.0, 1850.0), (-1800.0, -1400.0, -1600.0), (-1150.0, -450.0, -950.0)]
    best = model.predict_nbest([[dict(zip("abo", token, strict=True)) for token in values]], n=100)[0]
    assert sum(p for _, p in best) == pytest.approx(1.0)


def allowed_in_bio(labels):
    """Whether every I follows a B or an I."""
    return all(after[0] != "I" or before[0] != "O" for before, after in pairwise(["O", *labels]))


def test_settings_that_know_no_constraints_say_so():
    with pytest.raises(ValueError, match="transitions need a solver without bounds, such as 'auto', got 'bbm'"):
        ChainCRF(transitions="BIO", solver="bbm").fit(X, Y)
    with pytest.raises(ValueError, match="partial_fit knows no transitions"):
        ChainCRF(transitions="BIO").partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"takes labels such as 'O' and 'B-X', got 'DET'"):
        ChainCRF(transitions="BIO").fit([[["the"]]], [["DET"]])


@pytest.mark.parametrize("transitions", [None, "BIO"])
@pytest.mark.parametrize("n", [1, 3, 50])
def test_the_best_labellings_are_those_of_all(transitions, n):
    model = ChainCRF(c2=0.1, transitions=transitions).fit(X, Y)
    for tokens, found in zip(X[:8], model.predict_nbest(X[:8], n=n), strict=True):
        every, scores = all_labellings(model, tokens, is_bio if transitions else lambda _: True)
        p = np.sort(np.exp(scores - np.logaddexp.reduce(scores)))[::-1]
        assert [q for _, q in found] == pytest.approx(p[:n].astype(float).tolist(), rel=1e-8)
        assert found[0][0] == model.predict_single(tokens)
        assert len({tuple(labels) for labels, _ in found}) == len(found) == min(n, len(every))
        if transitions:
            assert all(is_bio(labels) for labels, _ in found)
    assert model.predict_nbest([[]], n=2) == [[([], 1.0)]]


def test_spans_are_as_likely_as_the_labellings_that_have_them():
    model, tokens = ChainCRF(c2=0.1).fit(X, Y), [["a1", "h=X"], ["a2", "h=?"], ["a3", "h=Y"], ["a0", "h=O"]]
    every, scores = all_labellings(model, tokens)
    p = np.exp(scores - np.logaddexp.reduce(scores))
    spans = [(0, 2, ["B-X", "I-X"]), (1, 4, [{"O", "I-X"}, None, "O"]), (2, 3, ["B-Y"])]
    exact = [
        float(p[[labels[:2] == ["B-X", "I-X"] for labels in every]].sum()),
        float(p[[labels[1] in ("O", "I-X") and labels[3] == "O" for labels in every]].sum()),
        float(p[[labels[2] == "B-Y" for labels in every]].sum()),
    ]
    assert model.predict_span_marginals(tokens, spans) == pytest.approx(exact, rel=1e-9)
    with pytest.raises(ValueError, match="a span is"):
        model.predict_span_marginals(tokens, [(3, 6, ["O"] * 3)])
    with pytest.raises(ValueError, match="'Z' is none of the labels"):
        model.predict_span_marginals(tokens, [(0, 1, ["Z"])])


# ---------------------------------------------------------------- labels that are known in part


def hidden(y, share, seed=0):
    """Labels of which a share is unknown, and another are one of two."""
    rng = np.random.default_rng(seed)
    return [
        [None if (r := rng.uniform()) < share else {label, "O"} if r < 2 * share else label for label in labels]
        for labels in y
    ]


@pytest.mark.parametrize("transitions", [None, "BIO"])
def test_all_labellings_that_agree_are_trained_on(transitions):
    y = hidden(Y, 0.2)
    model = ChainCRF(c2=0.1, tol=1e-8, transitions=transitions).fit(X, y)
    assert model.result_.outcome is Outcome.STATIONARY

    def objective(change):
        value = 0.1 * sum(w * w for w in weights(model))
        for tokens, labels in zip(X, y, strict=True):
            every, scores = all_labellings(model, tokens, is_bio if transitions else lambda _: True)
            agree = [
                all(b is None or a in (b if isinstance(b, set) else {b}) for a, b in zip(one, labels, strict=True))
                for one in every
            ]
            value += np.logaddexp.reduce(scores) - np.logaddexp.reduce(scores[agree])
        return float(value)

    assert model.trace_["objective"][-1] == pytest.approx(objective(0), rel=1e-9)
    # Stationary: differences vanish along every weight.
    before = dict(model.state_features_)
    for key in list(before)[::9]:
        model.state_features_[key] = before[key] + 1e-4
        up = objective(0)
        model.state_features_[key] = before[key] - 1e-4
        assert up - objective(0) == pytest.approx(0.0, abs=2e-6)
        model.state_features_[key] = before[key]
    assert model.score(X, Y) > 0.6


def test_labels_that_are_all_known_are_those_of_a_plain_fit():
    X, y = sentences(30)
    plain = ChainCRF(c2=0.1, tol=1e-10).fit(X, y)
    whole = ChainCRF(c2=0.1, tol=1e-10).fit(X, [[{label} for label in labels] for labels in y])
    assert whole.trace_["objective"][-1] == pytest.approx(plain.trace_["objective"][-1], rel=1e-9)
    assert whole.predict(X) == plain.predict(X)


def test_what_is_known_helps():
    X, y = sentences(60)
    few = ChainCRF(c2=0.1).fit(X[:6], y[:6])
    part = ChainCRF(c2=0.1).fit(X, [*y[:6], *hidden(y[6:], 0.4)])
    assert part.score(X, y) >= few.score(X, y)


@pytest.mark.parametrize(
    ("settings", "y", "sentence"),
    [
        ({"c1": 0.1}, [["x", None]], "known in part take solver 'auto' or 'lbfgs', c1=0"),
        ({}, [[None, None]], "y holds no label: every token is unknown"),
        ({}, [["x", {None, "y"}]], "a set of labels in y holds None, which stands for any label: give None alone"),
        ({}, [["x", set()]], "a token of sequence 0 may have no label: None stands for any"),
        ({"transitions": [("x", "y"), ("y", "x")]}, [["x", {"x"}]], "transitions allow no labelling that agrees"),
    ],
)
def test_what_cannot_be_known_is_refused(settings, y, sentence):
    y = y if "transitions" not in settings else [["x", "y"], *y]
    with pytest.raises(ValueError, match=sentence):
        ChainCRF(**settings).fit([[["a"], ["b"]]] * len(y), [*y[:-1], y[-1]] if len(y) > 1 else y)


def test_validation_labels_are_known():
    X, y = chunked(12)
    for data in (y, hidden(y, 0.2)):
        model = ChainCRF(c2=0.1, callbacks=[EarlyStopping(X, y)]).fit(X, data)
        assert model.score(X, y) > 0.5
        for unknown in (None, {y[0][0]}):
            with pytest.raises(ValueError, match="validation labels must each be known, got"):
                ChainCRF(callbacks=[EarlyStopping(X[:1], [[unknown, *y[0][1:]]])]).fit(X, data)


def test_sources_take_no_sets():
    with pytest.raises(TypeError, match="sequence 0 has a label that is a collection: labels known in part need"):
        ChainCRF().fit(Chunks(lambda: iter([([[["a"], ["b"]]], [["x", {"x", "y"}]])])))


def test_transitions_of_an_iterator_are_listed_once(tmp_path):
    every = list(product([*CHUNKS, None], repeat=2))
    model, path = ChainCRF(transitions=iter(every)), tmp_path / "m.npz"
    first = model.fit(X, Y).predict(X)
    assert model.fit(X, Y).predict(X) == first
    model.save(path)
    assert ChainCRF.load(path).predict(X) == first


@pytest.mark.parametrize("span", [0, (0, 1), (0, 1, "O"), (0.0, 1, ["O"]), (0, "1", ["O"]), (0, 1, None)], ids=str)
def test_malformed_spans_are_refused(span):
    model = ChainCRF().fit(X, Y)
    with pytest.raises(ValueError, match=r"a span is \(begin, end, a list with a label for each token\), got"):
        model.predict_span_marginals(X[0], [span])
    with pytest.raises(TypeError, match="spans must be a list of"):
        model.predict_span_marginals(X[0], 5)
