"""Tokens as numbers: against their meaning written out, however they are read."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from majorant.chain import tokens as vocabulary_module
from majorant.chain.tokens import UNKNOWN, Vocabulary, encode

NAMES = ["w", "bias", "suffix", "w:a", "é", ""]
TEXTS = ["a", "b", "", "x:y", "é"]


def meaning(token):
    """The attributes of a token and their values, one after the other."""
    if isinstance(token, bytes):
        token = token.decode()
    if isinstance(token, str):
        return [(token, 1.0)]
    if not isinstance(token, dict):
        return [(name.decode() if isinstance(name, bytes) else name, 1.0) for name in token]
    found = []
    for name, value in token.items():
        if isinstance(value, str | bytes | list | tuple | dict):
            found += [(f"{name}:{inner}", weight) for inner, weight in meaning(value)]
        else:
            found.append((name, float(value)))
    return found


def a_value(rng, kinds):
    kind = rng.choice(kinds)
    return {
        "string": str(rng.choice(TEXTS)),
        "bytes": str(rng.choice(TEXTS)).encode(),
        "list of bytes": [str(text).encode() for text in rng.choice(TEXTS, size=2)],
        "true": True,
        "false": False,
        "float": float(rng.normal()),
        "one": 1.0,
        "int": int(rng.integers(-2, 3)),
        "numpy": rng.normal(),
        "float32": np.float32(rng.normal()),
        "bool_": np.True_,
        "list": [str(text) for text in rng.choice(TEXTS, size=rng.integers(3))],
        "dict": {str(rng.choice(NAMES)): float(rng.normal()), "more": "text"},
    }[str(kind)]


KINDS = [
    ["string"], ["true"], ["true", "false"], ["one", "true"], ["float"], ["float", "int"], ["string", "true"],
    ["string", "float", "one"], ["numpy"], ["numpy", "float32", "bool_", "string"], ["list", "string"],
    ["dict", "float"], ["bytes"], ["bytes", "string", "float", "list of bytes"],
]  # fmt: skip
FORMS = ["lists", "tuples", "dicts", "mixed"]


def some_sequences(rng, kinds, form):
    def token():
        as_dict = form == "dicts" or (form == "mixed" and rng.uniform() < 0.5)
        size = rng.integers(4)
        if as_dict:
            return {str(name): a_value(rng, kinds) for name in rng.choice(NAMES, size=size)}
        names = [str(name) for name in rng.choice(NAMES, size=size)]
        if form == "tuples":
            return tuple(names)
        return names if form == "lists" or rng.uniform() < 0.7 else "alone"

    return [[token() for _ in range(rng.integers(5))] for _ in range(6)]


def decoded(tokens, names):
    values = np.ones(len(tokens.attributes)) if tokens.values is None else tokens.values
    flat = [(names[a], v) for a, v in zip(tokens.attributes.tolist(), values.tolist(), strict=True)]
    each = [flat[i:j] for i, j in zip(tokens.indptr[:-1], tokens.indptr[1:], strict=True)]
    return [each[i:j] for i, j in zip(tokens.starts[:-1], tokens.starts[1:], strict=True)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kinds", KINDS, ids=" ".join)
def test_tokens_mean_what_they_say(kinds, form):
    rng = np.random.default_rng(len(kinds))
    for _ in range(5):
        X, vocabulary = some_sequences(rng, kinds, form), Vocabulary()
        expected = [[meaning(token) for token in tokens] for tokens in X]
        read = encode(X, vocabulary, grow=True)
        assert decoded(read, vocabulary.names()) == expected
        met = dict.fromkeys(name for tokens in expected for token in tokens for name, _ in token)
        assert vocabulary.names() == list(met)
        plain = all(value == 1 for tokens in expected for token in tokens for _, value in token)
        assert (read.values is None) == plain
        known = Vocabulary([name for name in met if rng.uniform() < 0.5])
        kept = [[[pair for pair in token if pair[0] in known.names()] for token in tokens] for tokens in expected]
        assert decoded(encode(X, known), known.names()) == kept


WRONG = [
    [["a"], ["b", ["c"]]],
    [["a"], [3, "b"]],
    [["a"], ["b", 3]],
    [["a"], []],
    [{"a": 1.0}, {"b": float("nan")}],
    [{"a": float("inf")}, {"b": -float("inf")}],
    [{"a": 1e308, "b": 1e308}, {"a": 1e308}],
    [{"a": 10**400}],
    [{"a": "x", "b": np.float64("inf")}],
    [{"a": 1.0}, {"b": None}],
    [{"a": 1.0}, {"b": [1]}],
    [{"a": 1.0}, {"b": np.ones(2)}],
    [{"a": 1.0}, {3: 1.0}],
    [{"a": "b"}, {3: "b"}],
    [{"a": 1.0}, 3],
    [None],
]


def outcome(tokens, grow):
    """What reading a sequence says: attributes and values, or the error."""
    vocabulary = Vocabulary(["a", "b"])
    try:
        read = encode([["b"], tokens], vocabulary, grow=grow)
    except (TypeError, ValueError, OverflowError) as problem:
        return type(problem), str(problem)
    values = None if read.values is None else read.values.tolist()
    return vocabulary.names(), read.attributes.tolist(), read.indptr.tolist(), values


@pytest.mark.parametrize("grow", [True, False])
@pytest.mark.parametrize("tokens", WRONG, ids=lambda tokens: repr(tokens)[:60])
def test_what_is_wrong_is_said_alike_for_whole_sequences_and_token_by_token(tokens, grow):
    assert outcome(tokens, grow) == outcome(iter(tokens), grow)
    assert outcome(tuple(tokens), grow) == outcome(iter(tokens), grow)


def test_bytes_that_are_no_text_stay_apart():
    vocabulary = Vocabulary()
    tokens = encode([[{"w": b"\xff"}, {"w": b"\xfe"}, {"w": b"\xff"}]], vocabulary, grow=True)
    assert tokens.attributes.tolist() == [0, 1, 0]


def test_a_vocabulary_forgets_what_it_met_in_vain():
    vocabulary = Vocabulary(["a", "b"])
    with pytest.raises(TypeError, match="got 3"), vocabulary.all_or_nothing():
        encode([[["b", "c"], ["d"], [3]]], vocabulary, grow=True)
    assert vocabulary.names() == ["a", "b"]
    assert list(vocabulary.numbers(["b", "c"], grow=False)) == [1, UNKNOWN]
    assert list(vocabulary.numbers(["d", "b"], grow=True)) == [2, 1]


MET = ["a", "b=é", "c\ud800", "", *(f"w{k}" for k in range(20))]


@pytest.fixture
def packing(monkeypatch):
    monkeypatch.setattr(vocabulary_module, "FEW", 1)


def test_names_that_wait_are_the_same_names_and_have_the_same_numbers(packing):
    waiting = Vocabulary(MET)
    waiting.pack()
    assert not waiting._found
    assert len(waiting) == len(MET)
    assert waiting.names() == MET
    assert pickle.loads(pickle.dumps(waiting)).names() == MET
    assert not waiting._found  # nobody has asked for a number yet
    assert list(waiting.numbers([*MET, "new"], grow=False)) == [*range(len(MET)), UNKNOWN]
    assert list(waiting.numbers(["new", "a"], grow=True)) == [len(MET), 0]
    assert waiting.names() == [*MET, "new"]
    waiting.pack()
    assert waiting.names_from(len(MET)) == ["new"]


def test_numbers_of_texts_survive_waiting(packing):
    waiting, tokens = Vocabulary(["a:x", "b"]), [{"a": "x", "b": 1.0}, {"a": "y"}]
    before = waiting.numbers_of_items(tokens, grow=False)
    waiting.pack()
    assert waiting.numbers_of_items(tokens, grow=False) == before == [0, 1, UNKNOWN]


def test_names_with_what_stands_between_names_do_not_wait(packing):
    waiting = Vocabulary(["a\0b", "c"])
    waiting.pack()
    assert waiting.names() == list(waiting._found) == ["a\0b", "c"]


def test_all_threads_that_ask_first_find_all_names(packing):
    names = [f"w{k}" for k in range(50_000)]
    for _ in range(5):
        waiting = Vocabulary(names)
        waiting.pack()
        with ThreadPoolExecutor(4) as threads:
            found = threads.map(lambda _, waiting=waiting: list(waiting.numbers(names[-3:], grow=False)), range(4))
        assert all(each == [49_997, 49_998, 49_999] for each in found)
