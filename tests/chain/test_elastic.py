"""Chains with an ℓ1 penalty: the optimum, its certificate, dual ascent by a soft threshold, and sparse models."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest

from majorant import Chain, ChainCRF, Chunks, Objective, minimize
from majorant.chain.dual import PROXIMITY, ChainAscent, squared_norms
from majorant.core.ascent import suits
from majorant.core.penalty import soft_threshold
from majorant.core.proximal_quasi_newton import ProximalQuasiNewton
from majorant.objective import ElasticNet
from tests import oracles
from tests.chain.test_crf import sentences
from tests.chain.test_dual import of_marginals
from tests.problems import sequences

KINDS = [dict(n=3), dict(n=3, values=True, weights=True, share=0.7), dict(n=2, attributes=3, weights=True)]
every_kind = pytest.mark.parametrize("kind", KINDS)
LENGTHS = (4, 1, 0, 3, 2, 4, 2) * 6
X, Y = sentences(60)


def written_out(data, theta, l1, l2):
    """F and the least subgradient in long double, from all labellings."""
    sets, θ = list(oracles.enumerate_sets(Chain(), data)), np.asarray(theta, dtype=np.longdouble)
    value = oracles.objective(θ, sets, l2) + l1 * np.abs(θ).sum()
    slope = oracles.gradient(θ, sets, 0.0)
    return value, np.where(θ == 0, soft_threshold(slope, l1), slope + l1 * np.sign(θ) + l2 * θ)


def fitted(data, l1, l2, **settings):
    F = Objective(Chain(), data, ridge=ElasticNet(l1, l2, data.universe.size))
    return F, minimize(F, ProximalQuasiNewton(), **settings)


@every_kind
@pytest.mark.parametrize("l2", [0.5, 0.01, 0.0])
def test_the_optimum_is_stationary_among_all_labellings_and_sparse(kind, l2):
    data = sequences(lengths=LENGTHS, seed=1, **kind)
    F, found = fitted(data, 0.6, l2, tol=1e-10)
    assert suits(F)
    value, slope = written_out(data, found.params, 0.6, l2)
    assert found.trace["objective"][-1] == pytest.approx(float(value), rel=1e-12)
    assert np.abs(slope).max() < 1e-3
    assert 0 < np.count_nonzero(found.params) < F.size
    assert found.result.converged
    assert 0 <= found.result.gap <= 1e-10


@every_kind
@pytest.mark.parametrize("l2", [0.5, 0.01, 0.0])
def test_certificates_hold_wherever_a_run_stops(kind, l2):
    data = sequences(lengths=LENGTHS, seed=2, **kind)
    best = written_out(data, fitted(data, 0.6, l2, tol=1e-12)[1].params, 0.6, l2)[0]
    for steps in (0, 1, 2, 4, 8):
        early = fitted(data, 0.6, l2, tol=1e-12, max_steps=steps)[1]
        value = written_out(data, early.params, 0.6, l2)[0]
        assert (value - best) / value <= early.result.gap <= 1


@every_kind
def test_entropies_of_mixtures_are_those_of_all_labellings(kind):
    data = sequences(lengths=(4, 1, 0, 3, 2), seed=3, **kind)
    theta, shares, expected = np.random.default_rng(0).normal(size=data.universe.size), np.array([0.3, 0.8, 1.0]), 0.0
    for features, _, target, weight in oracles.enumerate_sets(Chain(), data):
        scores = features @ theta
        p = np.exp(scores - np.logaddexp.reduce(scores))
        mixed = (1 - shares[:, None]) * target + shares[:, None] * p
        terms = np.where(mixed > 0, -mixed * np.log(np.maximum(mixed, 1e-300)), 0).sum(axis=1)
        expected = expected + weight * (terms - shares * -(p * np.log(p)).sum())
    found = Chain().mixed_entropies(shares, Chain().scores(theta, data), data)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@every_kind
@pytest.mark.parametrize("λ", [2.0, 0.05])
def test_parameters_are_thresholded_and_the_centre_pulls(kind, λ):
    data = sequences(lengths=LENGTHS, seed=0, **kind)
    start, work = (ChainAscent(data, np.full(data.universe.size, λ), 0.4) for _ in range(2))
    weight = 1.0 if data.weight is None else data.weight
    κ = max(PROXIMITY * np.mean(weight * squared_norms(data)) - λ, 0.0)
    assert (κ > 0) == (λ < 0.1)
    centre = np.zeros(data.universe.size)
    for seed in range(3):
        centre = whole(data, work._centre) if work._centre else centre
        assert work.visit(np.random.default_rng(seed).permutation(len(data)))
    observed, expected = (of_marginals(data, each._kept.nodes, each._kept.pairs) for each in (start, work))
    if κ:
        centre = whole(data, work._centre)
    z = (observed - expected + κ * centre) / (λ + κ)
    np.testing.assert_allclose(whole(data, work._weights[:3]), z, atol=2e-4)
    theta = soft_threshold(z, 0.4 / (λ + κ))
    np.testing.assert_allclose(
        data.universe.from_matrix(work._weights.shrunk_A), theta[len(data.universe.label) :], atol=2e-4
    )
    assert work._kept.totals[0] == pytest.approx((λ + κ) * theta @ theta, rel=1e-3)


def whole(data, parts):
    states, table, A = parts
    theta = np.zeros(data.universe.size)
    theta[: len(data.universe.label)] = states
    return data.universe.joined_parts(theta, table.astype(float), A.astype(float))


def test_units_of_attributes_do_not_matter():
    data = [[dict.fromkeys(token, 3.0) for token in tokens] for tokens in X]
    # Nobody scales transitions, so every token is a sequence of its own.
    y = [[label] for labels in Y for label in labels]
    plain = ChainCRF(c1=0.2, c2=0.1, tol=1e-10).fit([[token] for tokens in X for token in tokens], y)
    scaled = ChainCRF(c1=0.6, c2=0.9, tol=1e-10).fit([[token] for tokens in data for token in tokens], y)
    assert plain.trace_["objective"][-1] == pytest.approx(scaled.trace_["objective"][-1], rel=1e-7)
    for pair, weight in plain.state_features_.items():
        assert scaled.state_features_[pair] == pytest.approx(weight / 3, abs=1e-4)


@pytest.mark.parametrize("c2", [0.1, 0.0])
def test_a_weight_of_two_is_the_sequence_twice(c2):
    twice, weighed = ChainCRF(c1=0.3, c2=c2, tol=1e-7), ChainCRF(c1=0.3, c2=c2, tol=1e-7)
    twice.fit([*X, *X[:20]], [*Y, *Y[:20]])
    weighed.fit(X, Y, sample_weight=np.where(np.arange(len(X)) < 20, 2.0, 1.0))
    assert weighed.trace_["objective"][-1] == pytest.approx(twice.trace_["objective"][-1], rel=1e-6)
    assert max(weighed.gap_, twice.gap_) <= 1e-7


@pytest.mark.parametrize(("c1", "c2"), [(0.1, 0.1), (1.0, 0.0), (0.3, 0.01)])
def test_the_objective_is_that_of_crfsuite(tmp_path, c1, c2):
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")
    trainer = pycrfsuite.Trainer(verbose=False, params={"c1": c1, "c2": c2, "max_iterations": 25})
    for tokens, labels in zip(X, Y, strict=True):
        trainer.append(tokens, labels)
    trainer.train(str(tmp_path / "model"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    theirs, ours = tagger.info(), ChainCRF(c1=1e-9, c2=1.0, max_iter=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours.fit(X, Y)
    # F at the weights that CRFsuite has found, of which six digits are printed.
    universe, names = ours._weights.universe, ours._vocabulary.names()
    keys = [(names[k // universe.n], ours.classes_[k % universe.n]) for k in universe.pairs]
    steps = [(ours.classes_[i], ours.classes_[k]) for i, k in universe.transitions]
    theta = np.array([*(theirs.state_features.get(k, 0) for k in keys), *(theirs.transitions.get(k, 0) for k in steps)])
    loss = Chain().loss_and_gradient(theta, ours._read_more(X, Y))[0]
    value = loss + c1 * np.abs(theta).sum() + c2 * theta @ theta
    assert value == pytest.approx(trainer.logparser.last_iteration["loss"], rel=1e-5)
    best = ChainCRF(c1=c1, c2=c2, tol=1e-6).fit(X, Y)
    assert best.trace_["objective"][-1] <= value * (1 + 1e-6)


def test_only_weights_that_are_not_zero_are_kept_saved_and_used(tmp_path):
    model = ChainCRF(c1=0.5, c2=0.01).fit(X, Y)
    full = ChainCRF(c2=0.01).fit(X, Y)
    assert 0 < len(model.state_features_) < len(full.state_features_)
    assert all(model.state_features_.values())
    assert all(model.transition_features_.values())
    assert set(model._vocabulary.names()) == {name for name, _ in model.state_features_}
    model.save(tmp_path / "m.npz")
    full.save(tmp_path / "full.npz")
    assert (tmp_path / "m.npz").stat().st_size < (tmp_path / "full.npz").stat().st_size
    loaded = ChainCRF.load(tmp_path / "m.npz")
    assert loaded.state_features_ == model.state_features_
    test = sentences(20, seed=1)[0]
    assert loaded.predict(test) == model.predict(test)
    # Every weight stands beside the attribute and the label that it is of: marginals follow from them.
    scores = {label: sum(model.state_features_.get((a, label), 0.0) for a in test[0][0]) for label in model.classes_}
    z = np.logaddexp.reduce(list(scores.values()))
    found = model.predict_marginals([test[0][:1]])[0][0]
    assert found == pytest.approx({label: np.exp(score - z) for label, score in scores.items()})


def test_a_penalty_above_the_largest_leaves_no_weight():
    model = ChainCRF(c1=1e4, c2=1.0).fit(X, Y)
    assert model.state_features_ == model.transition_features_ == {}
    assert set(model.predict_marginals([X[0]])[0][0].values()) == {0.25}
    assert model.gap_ <= 1e-3


def test_columns_of_a_matrix_keep_their_numbers():
    rng = np.random.default_rng(0)
    data = [rng.normal(size=(5, 6)) * [1, 1, 0.01, 1, 0.01, 0.01] for _ in range(60)]
    y = [["ab"[int(row[0] + row[3] > 0)] for row in each] for each in data]
    model = ChainCRF(c1=2.0, c2=0.1, tol=1e-6).fit(data, y)
    assert {"0", "3"} <= {name for name, _ in model.state_features_} < set("012345")
    assert model.score(data, y) > 0.9
    with pytest.raises(ValueError, match="a matrix with 5 columns"):
        model.predict([data[0][:, :5]])


def test_files_and_threads_end_at_the_same_optimum():
    here = ChainCRF(c1=0.2, c2=0.05, tol=1e-7).fit(X, Y)
    read = ChainCRF(c1=0.2, c2=0.05, tol=1e-7).fit(Chunks([partial(chunk, 0), partial(chunk, 1)]))
    both = ChainCRF(c1=0.2, c2=0.05, tol=1e-7, n_jobs=2).fit(X, Y)
    for other in (read, both):
        assert other.trace_["objective"][-1] == pytest.approx(here.trace_["objective"][-1], rel=1e-6)
        assert other.gap_ <= 1e-7


def chunk(k):
    yield X[30 * k : 30 * k + 30], Y[30 * k : 30 * k + 30]


def test_what_cannot_be_done_is_said():
    with pytest.raises(
        ValueError, match=r"partial_fit minimises with an ℓ2 penalty alone \(c1=0\), got c1=0.1: use fit"
    ):
        ChainCRF(c1=0.1).partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"c1=0.1 needs solver='auto', got 'lbfgs'"):
        ChainCRF(c1=0.1, solver="lbfgs").fit(X, Y)
    with pytest.raises(ValueError, match="c1 must be a number of at least 0, got -1"):
        ChainCRF(c1=-1).fit(X, Y)
    with pytest.raises(ValueError, match="c2 must be a positive number, got 0"):
        ChainCRF(c1=0.0, c2=0.0).fit(X, Y)
