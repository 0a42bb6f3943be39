"""Streams of chains: each chunk against a twin that rebuilds everything, and what a chunk costs."""

from __future__ import annotations

import copy
import pickle
import tracemalloc

import numpy as np
import pytest

from majorant import Chain, ChainCRF
from majorant.chain import crf
from majorant.chain.feature_index import GrowingUniverse, Stack, Universe
from majorant.chain.features import FittedWeights, observed_pairs, read_sequences, sequences
from majorant.chain.tokens import Vocabulary
from majorant.core.ascent import OnlineStream

LABELS = ["P", "Q", "R"]


def chunks(seed, count=5, values=False):
    """Chunks of sequences, large and small by turns, whose attributes come from a set that grows."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        X, y = [], []
        for length in rng.integers(0, 5, size=1 if k % 2 else 5):
            names = [[f"a{a}" for a in set(rng.integers(4 * k + 3, size=3).tolist())] for _ in range(length)]
            X.append([dict.fromkeys(token, rng.normal()) for token in names] if values else names)
            y.append(rng.choice(LABELS, size=length).tolist())
        yield [*X, [["last"]]], [*y, ["P"]]


class Twin:
    """A stream by definition: with every chunk all parameters are laid out anew."""

    def __init__(self, c2, **settings):
        self.c2, self.settings, self.vocabulary, self.known = c2, settings, Vocabulary(), {}

    def learn(self, X, y):
        tokens, labels, _ = read_sequences(X, y, None, self.vocabulary, np.array(LABELS))
        n, many = len(LABELS), len(self.vocabulary)
        pairs, steps = observed_pairs(tokens, labels, n, many, **self.settings)
        old_pairs = [key for kind, key in self.known if kind == "pair"]
        old_steps = [key for kind, key in self.known if kind == "step"]
        universe = Universe.of(
            np.union1d(pairs, old_pairs).astype(int), np.union1d(steps, old_steps).astype(int), n, many
        )
        keys = [("pair", k) for k in universe.pairs.tolist()] + [("step", k) for k in universe.steps.tolist()]
        start = np.array([self.known.get(key, (0.0, 2 * self.c2)) for key in keys])
        data = sequences(universe, tokens, labels, None)
        after = OnlineStream(Chain(), start[:, 0], start[:, 1]).learn(data, np.arange(len(data)))
        self.known = dict(zip(keys, zip(after.theta.tolist(), after.precision.tolist(), strict=True), strict=True))

    def features(self):
        names = self.vocabulary.names()
        states = {(names[k // 3], LABELS[k % 3]): w for (kind, k), (w, _) in self.known.items() if kind == "pair"}
        return states, {
            (LABELS[k // 3], LABELS[k % 3]): w for (kind, k), (w, _) in self.known.items() if kind == "step"
        }


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "settings",
    [{}, {"values": True}, {"all_possible_states": True}, {"all_possible_transitions": True}, {"min_freq": 2}],
    ids=str,
)
def test_a_stream_is_what_laying_everything_out_anew_gives(seed, settings, tmp_path):
    settings = dict(settings)
    values, c2 = settings.pop("values", False), 0.3
    model = ChainCRF(c2=c2, **settings)
    twin = Twin(
        c2,
        min_freq=settings.get("min_freq", 0),
        all_states=settings.get("all_possible_states", False),
        all_transitions=settings.get("all_possible_transitions", False),
    )
    for k, (X, y) in enumerate(chunks(seed, values=values)):
        if k == 3:  # files and copies go on as the stream would
            model.save(tmp_path / "stream.npz")
            model = pickle.loads(pickle.dumps(ChainCRF.load(tmp_path / "stream.npz")))
        if settings.get("min_freq"):
            X, y = [*X, *X], [*y, *y]
        model.partial_fit(X, y, classes=LABELS)
        twin.learn(X, y)
        assert (model.state_features_, model.transition_features_) == twin.features()


@pytest.mark.parametrize("seed", range(3))
def test_predictions_of_a_stream_are_those_of_all_its_weights(seed):
    model = ChainCRF(c2=0.1)
    for X, y in chunks(seed, values=True):
        model.partial_fit(X, y, classes=LABELS)
        whole = copy.copy(model)
        universe, theta, precision = model._weights.whole()
        assert (precision > 0).all()
        whole._weights = FittedWeights(universe, theta)
        test = [*X, [{"a1": 2.0, "unknown": 1.0}, {}], []]
        assert model.predict(test) == whole.predict(test)
        for ours, theirs in zip(model.predict_marginals(test), whole.predict_marginals(test), strict=True):
            assert ours == [pytest.approx(each, abs=1e-12) for each in theirs]


@pytest.mark.parametrize("seed", range(5))
def test_a_growing_universe_keeps_places_and_forgets(seed):
    rng = np.random.default_rng(seed)
    n, universe, places, history = 3, GrowingUniverse(3), {}, []
    for known in (4, 4, 9, 15):
        attributes = np.sort(rng.choice(known, size=4, replace=False))
        pairs = np.sort(rng.choice(4 * n, size=5, replace=False))
        steps = np.sort(rng.choice(n * n, size=3, replace=False))
        history.append((len(universe), universe.n_attributes, pickle.dumps(universe)))
        universe.grow(attributes, pairs, steps, known)
        for key in [(int(attributes[k // n]), int(k % n)) for k in pairs] + [("step", int(k)) for k in steps]:
            places.setdefault(key, len(places))
        assert len(universe) == len(places)
        asked = np.sort(rng.choice(known, size=3, replace=False))
        part, found = universe.part(asked)
        expected = {
            (k * n + label): places[a, label] for k, a in enumerate(asked) for label in range(n) if (a, label) in places
        }
        assert dict(zip(part.pairs.tolist(), found.tolist(), strict=False)) == expected
        steps_there = {key[1]: place for key, place in places.items() if key[0] == "step"}
        assert dict(zip(part.steps.tolist(), found[len(part.label) :].tolist(), strict=True)) == steps_there
    for size, n_attributes, before in reversed(history):
        universe.cut(size, n_attributes)
        assert pickle.dumps(universe) == before


def test_a_stack_grows_and_is_cut():
    stack, expected = Stack(np.int64), []
    for k in range(30):
        stack.extend(np.arange(k))
        expected += range(k)
        if k % 7 == 6:
            stack.cut(len(stack) - 5)
            del expected[-5:]
        assert stack.values.tolist() == expected
    assert len(pickle.dumps(Stack(np.int64, np.zeros(1000)))) < 8500


def peak_of_a_chunk(attributes):
    """The most memory that learning a chunk takes at a time, in a stream that knows so many attributes."""
    model = ChainCRF()
    X, y = [[[f"w{k}" for k in range(attributes)], ["b"]]], [["P", "Q"]]
    model.partial_fit(X, y, classes=LABELS).partial_fit([[["new"]]], [["P"]])  # room for more from now on
    tracemalloc.start()
    try:
        model.partial_fit([[["w1", "newer"], ["b", "w2"]]], [["P", "R"]]).predict([[["w1"]]])
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_chunk_takes_what_it_holds_not_what_is_known():
    """Memory is counted, not seconds: an array as long as the vocabulary would be seen.

    The least of three: threads that other tests left behind are counted too, in some of them.
    """
    peak_of_a_chunk(10)  # compiled by now
    few, many = (min(peak_of_a_chunk(known) for _ in range(3)) for known in (100, 100_000))
    assert many < few + 50_000  # an array of bytes as long as the vocabulary has 100,000


def test_a_copy_of_a_stream_learns_on_its_own():
    (X, y), (X2, y2) = list(chunks(0, count=2))
    model = ChainCRF().partial_fit(X, y, classes=LABELS)
    before, twin = dict(model.state_features_), copy.copy(model)
    twin.partial_fit(X2, y2)
    assert model.state_features_ == before == ChainCRF().partial_fit(X, y, classes=LABELS).state_features_
    assert model.partial_fit(X2, y2).state_features_ == twin.state_features_


def test_an_interrupted_chunk_leaves_no_trace(monkeypatch):
    (X, y), (X2, y2) = list(chunks(1, count=2))
    model = ChainCRF().partial_fit(X, y, classes=LABELS)
    before = pickle.dumps(model)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(crf, "publish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X2, y2)
    assert pickle.dumps(model) == before
    assert model.partial_fit(X2, y2).state_features_ != pickle.loads(before).state_features_
