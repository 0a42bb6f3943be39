"""Chains over dense columns: sums over all labellings, the block of the Hessian, the metric, and what people give."""

import itertools

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from majorant import ChainCRF, Checkpoint, EarlyStopping, Objective, QuasiNewton, Threads, minimize
from majorant.chain.dense import Basis, DenseChain, InSingle, KroneckerWithBlock, dense_sequences
from majorant.chain.matrices import Matrices
from majorant.core.matrix import DenseDesign
from tests import oracles


def made_up(sequences=40, columns=6, labels=3, seed=0, longest=6):
    """Correlated columns far from zero, labels that follow each other."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, longest + 1, sequences)
    starts = np.append(0, np.cumsum(lengths))
    X = rng.normal(size=(starts[-1], columns)) @ rng.normal(size=(columns, columns)) + 3.0
    y = np.argmax(X[:, :labels] + 2 * rng.normal(size=(len(X), labels)), axis=1).astype(np.int32)
    return X, y, starts


def as_sequences(X, y, starts):
    ends = list(itertools.pairwise(starts))
    return [X[a:b] for a, b in ends], [[str(label) for label in y[a:b]] for a, b in ends]


STEPS = np.array([0, 1, 2, 4, 5, 6, 8])


def long_double_loss(theta, data):
    """Σ_j w_j (−log p(y_j)), with a sum over every labelling."""
    total = np.longdouble(0)
    for features, _, target, weight in oracles.enumerate_sets(DenseChain(), data):
        scores = features.astype(np.longdouble) @ theta.astype(np.longdouble)
        top = scores.max()
        total += weight * (top + np.log(np.exp(scores - top).sum()) - scores @ target)
    return total


@pytest.mark.parametrize("weighted", [False, True])
def test_loss_and_gradient_are_sums_over_all_labellings(weighted):
    X, y, starts = made_up(12, 4, longest=4)
    weight = np.repeat(np.random.default_rng(1).uniform(0.5, 2.0, 12), np.diff(starts)) if weighted else None
    data = dense_sequences(X, y, starts, 3, weight=weight, steps=STEPS)
    F, theta = Objective(DenseChain(), data, ridge=0.3), np.random.default_rng(2).normal(size=4 * 3 + len(STEPS))
    value, gradient = F.value_and_gradient(theta)
    assert value == pytest.approx(float(long_double_loss(theta, data)) + 0.15 * theta @ theta, rel=1e-14)
    exact = oracles.gradient(theta, list(oracles.enumerate_sets(DenseChain(), data)), np.full(F.size, 0.3))
    np.testing.assert_allclose(gradient, exact, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("share", [0.4, 1.0])
def test_block_of_the_hessian_is_a_difference_of_gradients(monkeypatch, share):
    monkeypatch.setattr("majorant.chain.dense.SHARE", share)
    monkeypatch.setattr("majorant.chain.dense.LEAST_SEQUENCES", 10)
    X, y, starts = made_up(60)
    data = dense_sequences(X, y, starts, 3, steps=STEPS)
    basis, theta = Basis.of(data), np.random.default_rng(0).normal(size=6 * 3 + len(STEPS))
    assert len(basis.sample) == share * 60
    some = Objective(DenseChain(), basis.sample, ridge=1e-12)
    directions = np.zeros((3 + len(STEPS), len(theta)))
    for label in range(3):
        directions[label, :18] = np.outer(basis.Q[:, -1], np.eye(3)[label]).ravel()
    directions[3:, 18:] = np.eye(len(STEPS))

    def difference(d, h=1e-3):  # of four gradients: exact to h⁴
        g = {k: some.value_and_gradient(theta + k * h * d)[1] for k in (-2, -1, 1, 2)}
        return (8 * (g[1] - g[-1]) - (g[2] - g[-2])) / (12 * h)

    expected = np.array([difference(d) for d in directions]) @ directions.T / basis.share
    found = basis.block(theta)
    assert np.abs(found - expected).max() <= 2e-10 * np.abs(expected).max()


def test_metric_is_the_inverse_of_a_positive_matrix_whose_block_is_exact():
    X, y, starts = made_up()
    F = Objective(DenseChain(), dense_sequences(X, y, starts, 3), ridge=0.7)
    point = F.point(np.random.default_rng(0).normal(size=F.size) / 10)
    solve = KroneckerWithBlock().at(F, point)(F.ridge)
    inverse = np.array([solve(e) for e in np.eye(F.size)])
    np.testing.assert_allclose(inverse, inverse.T, rtol=1e-9, atol=1e-12)
    assert np.linalg.eigvalsh(inverse)[0] > 0
    basis = Basis.of(F.data)
    assert basis.share == 1.0
    span = np.zeros((3 + 9, F.size))
    for label in range(3):
        span[label, :18] = np.outer(basis.Q[:, -1], np.eye(3)[label]).ravel()
    span[3:, 18:] = np.eye(9)
    block = np.linalg.inv(span @ inverse @ span.T)
    np.testing.assert_allclose(block, basis.block(point.theta) + 0.7 * np.eye(12), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("c2", [1e-3, 0.1])
def test_the_optimum_is_that_of_attributes(c2):
    X, y, starts = made_up()
    given, labels = as_sequences(X, y, starts)
    dense = ChainCRF(c2=c2, tol=1e-9).fit(given, labels)
    named = ChainCRF(c2=c2, tol=1e-9).fit(
        [[dict(zip("012345", r, strict=True)) for r in x.tolist()] for x in given], labels
    )
    assert dense.result_.converged
    assert dense.trace_["objective"][-1] == pytest.approx(named.trace_["objective"][-1], rel=2e-9)
    assert dense.state_features_.keys() == named.state_features_.keys()
    assert dense.state_features_ == pytest.approx(named.state_features_, abs=5e-3)
    assert dense.predict(given) == named.predict(given)
    assert dense.trace_["passes"][-1] < named.trace_["passes"][-1]


def test_single_precision_is_finished_in_double():
    X, y, starts = made_up()
    given, labels = as_sequences(X.astype(np.float32), y, starts)
    single = ChainCRF(c2=0.01, tol=1e-8).fit(given, labels)
    double = ChainCRF(c2=0.01, tol=1e-8).fit([x.astype(np.float64) for x in given], labels)
    assert single.gap_ <= 1e-8
    assert single.trace_["objective"][-1] == pytest.approx(double.trace_["objective"][-1], rel=1e-8)


def test_products_in_single_precision_are_those_of_a_wide_copy():
    X = np.random.default_rng(0).normal(size=(5_000, 300)).astype(np.float32)
    W, R = np.random.default_rng(1).normal(size=(2, 3, 300)), np.random.default_rng(2).normal(size=(3, 5_000))
    narrow, wide = InSingle(X), DenseDesign(X.astype(np.float64))
    np.testing.assert_allclose(narrow.project(W[0]), wide.project(W[0]), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(narrow.pull_back(R), wide.pull_back(R), rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(
        narrow.part(slice(3, 9)).project(W[1]), wide.project(W[1])[:, 3:9], rtol=1e-12, atol=1e-12
    )


def test_weights_are_repetitions_and_order_does_not_matter():
    X, y, starts = made_up(25)
    given, labels = as_sequences(X, y, starts)
    weight = np.random.default_rng(3).integers(1, 3, 25)
    order = np.random.default_rng(4).permutation(np.repeat(np.arange(25), weight))
    weighted = ChainCRF(c2=0.1, tol=1e-10).fit(given, labels, sample_weight=weight)
    repeated = ChainCRF(c2=0.1, tol=1e-10).fit([given[j] for j in order], [labels[j] for j in order])
    assert weighted.trace_["objective"][-1] == pytest.approx(repeated.trace_["objective"][-1], rel=1e-10)


def test_units_of_columns_are_those_of_the_penalty():
    """Columns times k with k² times the penalty have the same optimum, but for transitions."""
    X, y, _ = made_up(60, longest=4)
    starts = np.arange(len(y) + 1)  # one token each: no transition
    one, ten = (ChainCRF(c2=0.01 * k * k, tol=1e-10).fit(*as_sequences(k * X, y, starts)) for k in (1, 10))
    assert one.trace_["objective"][-1] == pytest.approx(ten.trace_["objective"][-1], rel=1e-9)


def test_threads_find_the_same_bits(monkeypatch):
    monkeypatch.setattr("majorant.chain.dense.TOKENS", 20)
    X, y, starts = made_up(80)
    data = dense_sequences(X, y, starts, 3)
    fits = [minimize(Objective(DenseChain(), data, ridge=0.02, reducer=Threads(k)), QuasiNewton()) for k in (1, 2)]
    np.testing.assert_array_equal(fits[0].params, fits[1].params)


def test_a_matrix_and_attributes():
    X, y, starts = made_up()
    rows, labels = as_sequences(X, y, starts)
    words = [[[f"w{int(abs(r[0])) % 4}"] for r in x] for x in rows]
    pairs = list(zip(rows, words, strict=True))
    mixed = ChainCRF(c2=0.1, tol=1e-9).fit(pairs, labels)
    dicts = [
        [{**dict(zip("012345", r, strict=True)), word: 1.0} for r, (word,) in zip(x.tolist(), w, strict=True)]
        for x, w in pairs
    ]
    named = ChainCRF(c2=0.1, tol=1e-9).fit(dicts, labels)
    assert mixed.trace_["objective"][-1] == pytest.approx(named.trace_["objective"][-1], rel=2e-9)
    assert mixed.predict(pairs) == named.predict(dicts)
    assert mixed.score(pairs, labels) == named.score(dicts, labels)
    assert mixed.predict_single(pairs[1]) == mixed.predict(pairs)[1]


def test_forms_of_the_same_matrices(tmp_path):
    X, y, starts = made_up()
    rows, labels = as_sequences(X, y, starts)
    fits = [
        ChainCRF().fit(rows, labels),
        ChainCRF().fit(iter(rows), labels),
        ChainCRF().fit(X, labels, lengths=np.diff(starts)),
        ChainCRF().fit(X, y.astype(str), lengths=np.diff(starts)),
    ]
    assert all(fit.state_features_ == fits[0].state_features_ for fit in fits)
    assert fits[0].predict(X, lengths=np.diff(starts)) == fits[0].predict(rows)
    fits[0].save(tmp_path / "model.npz")
    assert ChainCRF.load(tmp_path / "model.npz").predict(rows) == fits[0].predict(rows)
    numbers = ChainCRF().fit(X, y, lengths=np.diff(starts))
    assert numbers.classes_.tolist() == [0, 1, 2]
    assert numbers.predict(rows)[1] == [int(label) for label in fits[0].predict(rows)[1]]


def test_mostly_zeros_are_attributes():
    X = np.eye(4)[np.random.default_rng(0).integers(0, 4, 30)]
    assert Matrices.of([X])[0] is None
    assert Matrices.of([X + 1])[0] is not None


@pytest.mark.parametrize("form", [np.array, list, lambda y: np.array(y, dtype=object)])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(
    "settings",
    [{}, {"transitions": lambda a, b: True}, {"solver": "proximal"}, {"min_freq": 0.1}],
    ids=["plain", "transitions", "proximal", "min_freq"],
)
def test_labels_in_a_row_are_cut_by_lengths(settings, zeros, form):
    X, labels, lengths = np.random.default_rng(0).normal(size=(6, 4)), list("PQPQQP"), [2, 3, 1]
    X *= np.eye(6, 4) if zeros else 1
    flat, nested = form(labels), [["P", "Q"], ["P", "Q", "Q"], ["P"]]
    for fit in (ChainCRF.fit, ChainCRF.partial_fit):
        if fit is ChainCRF.partial_fit and "transitions" in settings:
            continue
        model = fit(ChainCRF(c2=0.1, **settings), X, flat, lengths=lengths)
        cut = fit(ChainCRF(c2=0.1, **settings), X, nested, lengths=lengths)
        assert model.state_features_ == cut.state_features_
        assert model.score(X, flat, lengths=lengths) == cut.score(X, nested, lengths=lengths)


def test_labels_in_a_row_may_be_known_in_part():
    X, lengths = np.random.default_rng(0).normal(size=(6, 4)), [2, 3, 1]
    flat = ChainCRF().fit(X, ["P", None, "Q", {"P", "Q"}, "Q", "P"], lengths=lengths)
    cut = ChainCRF().fit(X, [["P", None], ["Q", {"P", "Q"}, "Q"], ["P"]], lengths=lengths)
    assert flat.state_features_ == cut.state_features_
    with pytest.raises(ValueError, match="y has 5 labels, but lengths sum to 6"):
        ChainCRF(solver="proximal").fit(X, np.array(list("PQPQQ")), lengths=lengths)


def test_what_cannot_be_read_is_refused():
    X, y, starts = made_up(6)
    rows, labels = as_sequences(X, y, starts)
    words = [[["w"] for _ in x] for x in rows]
    longest = int(np.argmax(np.diff(starts)))
    with pytest.raises(ValueError, match=r"has a matrix of .* rows but"):
        ChainCRF().fit([(x, [*w, ["w"]]) for x, w in zip(rows, words, strict=True)], labels)
    with pytest.raises(ValueError, match="equally many columns"):
        ChainCRF().fit(
            [(x[:, : 6 - (j == longest)], w) for j, (x, w) in enumerate(zip(rows, words, strict=True))], labels
        )
    with pytest.raises(ValueError, match="called as a column"):
        ChainCRF().fit([(x, [["3"] for _ in x]) for x in rows], labels)
    with pytest.raises(ValueError, match="lengths must be non-negative and sum to"):
        ChainCRF().fit(X, labels, lengths=[1, 2])
    with pytest.raises(ValueError, match="finite"):
        ChainCRF().fit([(np.full_like(x, np.nan), w) for x, w in zip(rows, words, strict=True)], labels)
    with pytest.raises(ValueError, match="a matrix beside attributes takes solver 'auto'"):
        ChainCRF(solver="bbm").fit(list(zip(rows, words, strict=True)), labels)
    model = ChainCRF().fit(rows, labels)
    with pytest.raises(ValueError, match="a matrix with 5 columns"):
        model.predict([x[:, :5] for x in rows])
    with pytest.raises(TypeError, match="fit needs y"):
        ChainCRF().fit(rows)


def test_tokens_of_uneven_weight_end_where_the_gradient_does():
    X, y, starts = made_up(20)
    rows, labels = as_sequences(X, y, starts)
    weight = [np.random.default_rng(j).uniform(0.5, 2.0, len(x)) for j, x in enumerate(rows)]
    fit = ChainCRF(c2=0.1, tol=1e-8).fit(rows, labels, sample_weight=weight)
    assert str(fit.result_).startswith("stationary")


def test_a_fit_is_followed_and_resumed(tmp_path):
    X, y, starts = made_up(60)
    rows, labels = as_sequences(X, y, starts)
    stopped = ChainCRF(c2=1e-4, callbacks=[EarlyStopping(rows[40:], labels[40:])]).fit(rows[:40], labels[:40])
    assert stopped.n_iter_ > 0
    path = tmp_path / "run"
    with pytest.warns(ConvergenceWarning, match="the limit of 6 steps"):
        ChainCRF(c2=1e-3, tol=1e-9, max_iter=6, callbacks=[Checkpoint(path, every=0)]).fit(rows, labels)
    resumed = ChainCRF(c2=1e-3, tol=1e-9, max_iter=200).fit(rows, labels, resume_from=path)
    whole = ChainCRF(c2=1e-3, tol=1e-9).fit(rows, labels)
    assert resumed.trace_["objective"][-1] == pytest.approx(whole.trace_["objective"][-1], rel=1e-8)
    with pytest.raises(ValueError, match="the columns are others"):
        ChainCRF(c2=1e-3, tol=1e-9).fit([x + 1.0 for x in rows], labels, resume_from=path)


def test_an_l1_penalty_selects_columns():
    X, y, starts = made_up(30)
    rows, labels = as_sequences(X, y, starts)
    dense = ChainCRF(c1=2.0, c2=0.01, tol=1e-6).fit(rows, labels)
    named = ChainCRF(c1=2.0, c2=0.01, tol=1e-6).fit(
        [[dict(zip("012345", r, strict=True)) for r in x.tolist()] for x in rows], labels
    )
    assert dense.trace_["objective"][-1] == pytest.approx(named.trace_["objective"][-1], rel=2e-6)
    assert 0 < len(dense.state_features_) < 18


@pytest.mark.parametrize("c1", [0.3, 2.0])
def test_an_l1_penalty_leaves_attributes_beside_columns(c1):
    X, y, starts = made_up(30)
    rows, labels = as_sequences(X, y, starts)
    words = [[[f"w{int(abs(r[0])) % 4}"] for r in x] for x in rows]
    pairs = list(zip(rows, words, strict=True))
    dicts = [
        [{**dict(zip("012345", r, strict=True)), word: 1.0} for r, (word,) in zip(x.tolist(), w, strict=True)]
        for x, w in pairs
    ]
    mixed, named = (ChainCRF(c1=c1, c2=0.01, tol=1e-9).fit(each, labels) for each in (pairs, dicts))
    assert {name for name, _ in mixed.state_features_} - set("012345")
    assert len([name for name, _ in mixed.state_features_ if name in "012345"]) < 18
    for one, other in zip(mixed.predict_marginals(pairs), named.predict_marginals(dicts), strict=True):
        for ours, theirs in zip(one, other, strict=True):
            assert ours == pytest.approx(theirs, abs=1e-4)
