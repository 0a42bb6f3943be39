"""Sequences that are read chunk by chunk, here or by workers: fits as in memory, and errors that name the place."""

import itertools
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

from majorant import ChainCRF, Chunks, Parquet
from majorant.chain.feature_index import PairSums
from majorant.chain.sequences import _stretches
from majorant.chain.tokens import Encoded, Tokens, evened
from majorant.core.ascent import OnlineStream
from majorant.sources import cache

PIECES = 5


def corpus(kind="dicts", t=60, seed=0):
    """Sequences of four labels, of which the last occurs at the end alone, and weights of the sequences."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for j in range(t):
        labels = rng.integers(0, 3 if j < t - 3 else 4, rng.integers(0, 8))
        X.append(SEQUENCE[kind](labels, rng))
        y.append([f"L{label}" for label in labels])
    return X, y, rng.integers(0, 4, t) * 0.5


def noisy(label, rng):
    return f"{(label + rng.integers(3)) % 5}.{rng.integers(4)}"


SEQUENCE = {
    "dicts": lambda labels, rng: [{"w": noisy(k, rng), "odd": bool(k % 2), "x": float(rng.normal())} for k in labels],
    "lists": lambda labels, rng: [["bias", f"w={noisy(k, rng)}", f"s={rng.integers(2)}"] for k in labels],
    "strings": lambda labels, rng: [noisy(k, rng) for k in labels],
    "matrices": lambda labels, rng: np.eye(4)[labels] + rng.normal(size=(len(labels), 4)),
    "sparse": lambda labels, rng: sp.csr_array(np.eye(4)[labels] * rng.uniform(size=(len(labels), 1))),
    "mixed": lambda labels, rng: [[noisy(k, rng)] if rng.random() < 0.9 else {"x": 0.5} for k in labels],
}


def chunks(X, y, weight=None, size=13):
    for k in range(0, len(X), size):
        some = slice(k, k + size)
        yield (X[some], y[some]) if weight is None else (X[some], y[some], weight[some])


def in_chunks(*parts, size=13):
    return Chunks(lambda: chunks(*parts, size=size))


def piece(number, kind, weighted):
    X, y, weight = corpus(kind)
    some = slice(len(X) * number // PIECES, len(X) * (number + 1) // PIECES)
    return chunks(X[some], y[some], weight[some] if weighted else None, size=5)


def in_pieces(kind="dicts", weighted=False):
    return Chunks([partial(piece, number, kind, weighted) for number in range(PIECES)])


def objective(model):
    return model.trace_["objective"][-1]


def assert_same(ours, theirs):
    """Both are as near to the optimum as they say: F is strongly convex, so that weights are near each other."""
    assert ours.result_.converged, ours.result_
    assert theirs.result_.converged, theirs.result_
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    assert objective(ours) == pytest.approx(objective(theirs), rel=1e-8)
    atol = sum(np.sqrt(model.gap_ * objective(model) / model.c2) for model in (ours, theirs))
    assert atol < 1e-3
    for features in ("state_features_", "transition_features_"):
        a, b = getattr(ours, features), getattr(theirs, features)
        assert list(a) == list(b)  # in the same order, even
        np.testing.assert_allclose(list(a.values()), list(b.values()), atol=atol)


def fit(*parts, **settings):
    return ChainCRF(c2=0.5, tol=1e-11, **settings).fit(*parts)


# --- in this process --------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("kind", SEQUENCE)
def test_a_source_is_fitted_as_sequences_in_memory(kind, weighted, monkeypatch):
    X, y, weight = corpus(kind)
    parts = (X, y, weight) if weighted else (X, y)
    copied, theirs = fit(in_chunks(*parts)), fit(*parts)
    assert_same(copied, theirs)
    if weighted == (kind in ("dicts", "strings")):
        copied = fit(in_chunks(*parts), solver="lbfgs")
        monkeypatch.setattr(cache, "SHARE", 0.0)  # no room for a copy: encoded again at every pass
        assert fit(in_chunks(*parts), solver="lbfgs").state_features_ == copied.state_features_
        assert_same(fit(in_chunks(*parts)), theirs)


@pytest.mark.parametrize(
    "settings",
    [
        dict(min_freq=2),
        dict(min_freq=0.7),
        dict(all_possible_states=True),
        dict(all_possible_transitions=True),
        dict(all_possible_states=True, all_possible_transitions=True, min_freq=3),
        dict(solver="lbfgs"),
    ],
    ids=str,
)
def test_settings_mean_the_same(settings):
    X, y, weight = corpus()
    assert_same(fit(in_chunks(X, y, weight), **settings), fit(X, y, weight, **settings))


@pytest.mark.parametrize("small", [True, False])
def test_blocks_are_joined_and_cut(small, monkeypatch):
    """However large chunks, records and blocks are, and whoever works on them."""
    X, y, weight = corpus()
    if small:
        monkeypatch.setattr("majorant.chain.source.RECORD", 50)
        monkeypatch.setattr("majorant.chain.source.BLOCK", 120)
        monkeypatch.setattr("majorant.chain.source.TOKENS_PER_PARAMETER", 0.0)
    theirs = fit(X, y, weight)
    for size in (1, 100):
        ours, shared = (fit(in_chunks(X, y, weight, size=size), n_jobs=n) for n in (1, 2))
        assert_same(ours, theirs)
        assert ours.state_features_ == shared.state_features_


def test_weights_of_tokens():
    X, y, _ = corpus()
    rng = np.random.default_rng(3)
    weight = [rng.uniform(0.5, 2.0, len(labels)) for labels in y]
    ours, theirs = (ChainCRF(tol=1e-6).fit(*parts) for parts in ((in_chunks(X, y, weight),), (X, y, weight)))
    assert np.isnan(ours.gap_)
    assert objective(ours) == pytest.approx(objective(theirs), rel=1e-8)


@pytest.mark.parametrize("solver", ["proximal", "sbm"])
def test_one_pass_is_made_chunk_by_chunk(solver):
    """All fits one block here, so that sequences come in an order of their own: near, not the same."""
    X, y, _ = corpus()
    ours, again = (ChainCRF(solver=solver, random_state=1).fit(in_chunks(X, y)) for _ in range(2))
    theirs = ChainCRF(solver=solver, random_state=1).fit(X, y)
    assert ours.state_features_ == again.state_features_
    assert objective(ours) == pytest.approx(objective(theirs), rel=0.05)


def test_the_bound_over_a_chain():
    X, y, _ = corpus("lists", t=20)
    settings = dict(c2=5.0, solver="bbm", tol=1e-6)
    ours, theirs = ChainCRF(**settings).fit(in_chunks(X, y)), ChainCRF(**settings).fit(X, y)
    assert objective(ours) == pytest.approx(objective(theirs), rel=1e-5)


def test_predictions_of_sources():
    X, y, weight = corpus()
    model = ChainCRF(max_iter=5, tol=0.5).fit(in_chunks(X, y))
    assert model.predict(in_chunks(X, y)) == model.predict(Chunks(lambda: [X[:20], X[20:]])) == model.predict(X)
    assert model.predict_marginals(in_chunks(X, y)) == model.predict_marginals(X)
    assert model.score(in_chunks(X, y)) == model.score(X, y)
    assert model.score(in_chunks(X, y, weight)) == pytest.approx(model.score(X, y, weight))
    with pytest.raises(ValueError, match="chunk 0: there are no labels to compare predictions with"):
        model.score(Chunks(lambda: [X]))
    with pytest.raises(ValueError, match="lengths must be left out"):
        model.predict(in_chunks(X, y), lengths=[1])
    with pytest.raises(ValueError, match="no token of positive weight"):
        model.score(Chunks(lambda: []))


# --- what is wrong ----------------------------------------------------------------------------------------

A, B = [["a"], ["b"]], ["N", "V"]
BAD = {
    "more labels": ([([A], [B]), ([A, A], [B, ["N"]])], "chunk 1: sequence 1 has 2 tokens but 1 labels"),
    "more sequences": (
        [([A, A], [B])],
        "chunk 0: X and y must have equally many sequences, but one of them ends after",
    ),
    "mixed labels": ([([A], [B]), ([A], [[1, 2]])], "chunk 1: labels must be all strings or all numbers, got 1"),
    "no labels": ([[A]], "chunk 0: there are no labels to learn from"),
    "a bad token": ([([A], [B]), ([[["a"], 3]], [B])], "chunk 1: token 1 of sequence 0: a token is a list of strings"),
    "a bad weight": ([([A], [B], [-1.0])], "chunk 0: sample_weight must be finite and non-negative"),
    "no weight": ([([A], [B], [0.0])], "sample_weight must not be zero everywhere"),
    "too much": ([(1, 2, 3, 4)], "chunk 0: expected (X, y) or (X, y, weight), got 4 things"),
    "nothing": ([], "y holds no label: there is nothing to learn from, every chunk of the source is empty"),
    "empty chunks": ([([], []), ([[]], [[]])], "every chunk of the source is empty"),
    "no feature": ([([[[]]], [["N"]])], "no feature is left"),
}


@pytest.mark.parametrize(("items", "what"), BAD.values(), ids=BAD)
def test_errors_name_the_place(items, what):
    with pytest.raises((TypeError, ValueError), match=re.escape(what)):
        ChainCRF().fit(Chunks(lambda: items))


@pytest.mark.parametrize(
    ("labels", "what"),
    [
        (["B-X", "I-Y"], "chunk 1: transitions do not allow 'I-Y' after 'B-X', as y of sequence 1 has it"),
        (["I-X", "O"], "chunk 1: transitions do not allow a sequence to begin with 'I-X', as y of sequence 1"),
    ],
)
def test_labels_that_transitions_do_not_allow_are_refused(labels, what):
    items = [([A, [], A], [["B-Y", "I-Y"], [], ["O", "O"]]), ([A, A], [["B-X", "I-X"], labels])]
    with pytest.raises(ValueError, match=re.escape(what)):
        ChainCRF(transitions="BIO").fit(Chunks(lambda: items))
    pieces = Chunks([lambda: items[:1], lambda: items[1:]])
    with (
        ThreadPoolExecutor(1) as threads,
        pytest.raises(ValueError, match=re.escape(what.replace("chunk 1", "function 1, chunk 0"))),
    ):
        ChainCRF(transitions="BIO").fit(pieces, executor=threads)
    assert ChainCRF(transitions="BIO").fit(Chunks(lambda: items[:1])).predict([A]) in [[["B-Y", "I-Y"]], [["O", "O"]]]


def test_what_goes_beside_a_source_is_refused():
    X, y, _ = corpus(t=5)
    with pytest.raises(ValueError, match="y must be left out: a source brings its own"):
        ChainCRF().fit(in_chunks(X, y), y)
    with pytest.raises(TypeError, match=r"sequences are read from majorant\.Chunks or a Dask bag, got Parquet"):
        ChainCRF().fit(Parquet("nowhere", target="y"))
    with pytest.raises(TypeError, match="fit needs y, the labels of each sequence"):
        ChainCRF().fit(X)


@pytest.mark.parametrize("change", ["fewer", "another word", "another label"])
def test_a_source_that_changes_is_refused(change, monkeypatch):
    monkeypatch.setattr(cache, "SHARE", 0.0)
    calls = []

    def changing():
        calls.append(1)
        new = len(calls) > 2
        yield [A, A], [B, B]
        if not (new and change == "fewer"):
            yield [[["c" if new and change == "another word" else "a"]]], [["M" if new and "label" in change else "N"]]

    with pytest.raises(ValueError, match="the source has changed since it was first read"):
        ChainCRF(tol=1e-12).fit(Chunks(changing))


def test_chunks_that_are_empty_or_weigh_nothing_do_not_matter():
    X, y, weight = corpus()
    with_empty = [([], []), (X[:30], y[:30], weight[:30]), ([[]], [[]]), (X[30:], y[30:], weight[30:])]
    assert_same(fit(Chunks(lambda: with_empty)), fit(X, y, weight))


# --- the parts --------------------------------------------------------------------------------------------


def as_lists(encoded):
    """Every sequence as a list of its tokens: label, weight, attributes and values."""
    tokens = encoded.tokens
    values = np.ones(len(tokens.attributes)) if tokens.values is None else tokens.values
    weight = np.ones(len(encoded.y)) if encoded.weight is None else encoded.weight
    ends = tokens.indptr.tolist()
    each = [
        (int(encoded.y[t]), float(weight[t]), tokens.attributes[i:j].tolist(), values[i:j].tolist())
        for t, (i, j) in enumerate(itertools.pairwise(ends))
    ]
    return [each[i:j] for i, j in zip(tokens.starts[:-1], tokens.starts[1:], strict=True)]


def some_encoded(rng):
    lengths, t = rng.integers(0, 5, rng.integers(0, 12)), 0
    t = int(lengths.sum())
    counts = rng.integers(0, 4, t)
    many = int(counts.sum())
    tokens = Tokens(
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32),
        rng.integers(0, 9, many).astype(np.uint32),
        rng.normal(size=many) if rng.random() < 0.5 else None,
    )
    weight = rng.uniform(size=t) if rng.random() < 0.5 else None
    return Encoded(tokens, rng.integers(0, 3, t).astype(np.int32), weight)


@pytest.mark.parametrize("seed", range(20))
def test_evened_chunks_hold_the_same_sequences(seed):
    rng = np.random.default_rng(seed)
    given, numbers = [some_encoded(rng) for _ in range(rng.integers(1, 8))], int(rng.integers(1, 60))
    found = list(evened(given, numbers))
    assert [each for chunk in found for each in as_lists(chunk)] == [each for some in given for each in as_lists(some)]
    assert all(chunk.size.numbers >= numbers for chunk in found[:-1])
    largest = max((len(s) + sum(len(a) for *_, a, _ in s) for some in given for s in as_lists(some)), default=0)
    assert all(chunk.size.numbers < 2 * numbers + largest for chunk in found)
    for each in found:
        copied = Encoded.from_arrays(each.arrays())
        assert as_lists(copied) == as_lists(each)


@pytest.mark.parametrize("waiting", [1, 30, 2**20])
def test_pairs_are_summed_in_order(waiting, monkeypatch):
    monkeypatch.setattr("majorant.chain.feature_index.WAITING", waiting)
    rng, sums, naive = np.random.default_rng(waiting), PairSums(), {}
    for number in range(20):
        first, second = rng.integers(0, 2**31, 5)[rng.integers(0, 5, 40)], rng.integers(0, 2**16, 40) % 3
        values = rng.normal(size=40) if number % 2 else None
        sums.add(first, second, values)
        for key, value in zip(
            zip(first.tolist(), second.tolist(), strict=True), np.ones(40) if values is None else values, strict=True
        ):
            naive[key] = naive.get(key, 0.0) + value
    first, second, total = sums.found()
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == sorted(naive)
    np.testing.assert_allclose(total, [naive[key] for key in sorted(naive)], atol=1e-12)


@pytest.mark.parametrize("dtype", [np.uint32, np.int64])
def test_stretches_in_any_order(dtype):
    """Unsigned places are no reason to go astray."""
    places, begin = _stretches(np.array([0, 2, 2, 5], dtype=dtype), np.array([2, 0, 1, 2]))
    assert places.tolist() == [2, 3, 4, 0, 1, 2, 3, 4]
    assert begin.tolist() == [0, 3, 5, 5, 8]
    assert begin.dtype == dtype


# --- workers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "weighted"), [("dicts", True), ("matrices", False)])
def test_a_pool_of_processes_fits_sources(pool, kind, weighted):
    X, y, weight = corpus(kind)
    ours = ChainCRF(c2=0.5, tol=1e-11, min_freq=1).fit(in_pieces(kind, weighted), executor=pool)
    assert_same(ours, fit(X, y, weight if weighted else None, min_freq=1))


def test_a_pool_fits_sequences_that_are_in_memory_here(pool):
    X, y, weight = corpus()
    assert_same(ChainCRF(c2=0.5, tol=1e-11).fit(X, y, weight, executor=pool), fit(X, y, weight))


def test_large_shares_are_kept_in_files_of_workers(monkeypatch):
    monkeypatch.setattr("majorant.chain.source.LARGEST_SHARE", 0)
    X, y, _ = corpus()
    with ThreadPoolExecutor(2) as threads:
        assert_same(ChainCRF(c2=0.5, tol=1e-11).fit(in_pieces(), executor=threads), fit(X, y))


def wrong(number):
    yield [A], [B[: 2 - number]]


def test_workers_say_what_is_wrong_and_where(pool):
    with pytest.raises(ValueError, match=re.escape("function 1, chunk 0: sequence 0 has 2 tokens but 1 labels")):
        ChainCRF().fit(Chunks([partial(wrong, 0), partial(wrong, 1)]), executor=pool)


@pytest.mark.parametrize("kind", ["dicts", "lists"])
def test_workers_make_one_pass_together(pool, kind):
    """Each from the same prior, on a few sequences: not as good as one pass over all, but far better than zero."""
    X, y, _ = corpus(kind)
    ours = ChainCRF(solver="proximal").fit(in_pieces(kind), executor=pool)
    theirs, zero = ChainCRF(solver="proximal").fit(X, y), ours.trace_["objective"][0]
    assert zero - objective(ours) > 0.3 * (zero - objective(theirs)) > 0


def test_what_is_learnt_apart_is_multiplied():
    """Of one block that is the pass itself; of two that know different attributes, each has learnt its own."""
    rng = np.random.default_rng(0)
    prior, gathered = rng.uniform(1, 2, (2, 6))
    theta, learnt = rng.normal(size=(2, 6))
    before = OnlineStream(None, theta, prior)
    alone = before.joined((prior + gathered) * learnt - prior * theta, gathered)
    np.testing.assert_allclose(alone.theta, learnt)
    first, second = np.repeat([1, 0], 3), np.repeat([0, 1], 3)
    terms = [
        (((prior + g) * np.where(g > 0, learnt, theta) - prior * theta), g)
        for g in (gathered * first, gathered * second)
    ]
    together = before.joined(terms[0][0] + terms[1][0], terms[0][1] + terms[1][1])
    np.testing.assert_allclose(together.theta, learnt)
    np.testing.assert_allclose(together.precision, prior + gathered)


def test_a_bag_is_fitted_with_a_cluster_or_without(cluster, monkeypatch):
    bags, distributed = pytest.importorskip("dask.bag"), pytest.importorskip("distributed")
    X, y, _ = corpus()
    bag, theirs = bags.from_sequence(zip(X, y, strict=True), npartitions=4), fit(X, y)
    ours = fit(bag)
    assert_same(ours, theirs)
    assert ours.predict(bag) == ours.predict(bags.from_sequence(X, npartitions=3)) == ours.predict(X)
    assert ours.score(bag) == ours.score(X, y)
    with distributed.Client(cluster, set_as_default=False) as client:
        monkeypatch.setattr("majorant.chain.source.running_client", lambda: client)
        monkeypatch.setattr("majorant.estimators.source.PINNED", 0.0)  # read at every round
        assert_same(ChainCRF(c2=0.5, tol=1e-9).fit(bag), theirs)
