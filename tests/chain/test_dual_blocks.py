"""Dual ascent on sequences that are not in memory: that of sequences in memory, block by block."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from majorant import Chain, ChainCRF, Chunks, Objective, QuasiNewton, minimize
from majorant.chain import source
from majorant.chain.dual import AscentInBlocks, ChainAscent
from majorant.chain.source import StreamedSequences
from majorant.chain.tokens import Encoded, Size, Tokens
from majorant.core import ascent
from majorant.core.ascent import Ascent
from majorant.solvers import LBFGS
from majorant.sources import cache
from tests.problems import sequences

KINDS = [dict(n=3), dict(n=4, attributes=12, values=True, weights=True, share=0.7)]
every_kind = pytest.mark.parametrize("kind", KINDS)


def both(seed=0, t=60, numbers=None, monkeypatch=None, **kind):
    """The same sequences in memory and in blocks of about so many numbers."""
    data = sequences(lengths=tuple(np.random.default_rng(seed).integers(0, 7, size=t)), seed=seed, **kind)
    record = Encoded(Tokens(data.starts, data.indptr, data.attributes, data.values), data.y, data.weight)
    if numbers is not None:
        monkeypatch.setattr(source, "BLOCK", numbers)
        monkeypatch.setattr(source, "TOKENS_PER_PARAMETER", 0.0)
    universe = replace(data.universe, number=np.arange(data.universe.n_attributes, dtype=np.uint32))
    labels = np.arange(universe.n, dtype=np.int32)
    size = Size(len(data), data.n_tokens, len(data.attributes))
    return data, StreamedSequences([record], universe, labels, size, even=data.even)


def of(data, blocks, seed=1):
    ridge = 0.7 * np.exp(np.random.default_rng(seed).normal(size=data.universe.size))
    return ChainAscent(data, ridge), AscentInBlocks(blocks, ridge)


@every_kind
def test_one_block_moves_as_sequences_in_memory_do_to_the_last_bit(kind):
    whole, apart = of(*both(**kind))
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(60)[: 60 - 10 * seed]
        assert whole.visit(order, snapshots=3)
        assert apart.visit(order, snapshots=3)
        np.testing.assert_array_equal(whole.average(), apart.average())
        np.testing.assert_array_equal(whole.gains, apart.gains)
        assert whole.value == apart.value
    np.testing.assert_array_equal(whole.lengths, apart.lengths)
    np.testing.assert_allclose(whole.hessian_diagonal(), apart.hessian_diagonal(), rtol=1e-6)


@every_kind
def test_blocks_are_visited_one_after_the_other(kind, monkeypatch):
    data, blocks = both(numbers=80, monkeypatch=monkeypatch, **kind)
    many = [len(block) for block in blocks.blocks(len(blocks))]
    assert len(many) > 3
    whole, apart = of(data, blocks)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(60)
        assert whole.visit(order[np.argsort(np.searchsorted(np.cumsum(many), order, side="right"), kind="stable")])
        assert apart.visit(order)
    np.testing.assert_allclose(whole.average(), apart.average(), atol=1e-6)
    np.testing.assert_allclose(whole.hessian_diagonal(), apart.hessian_diagonal(), rtol=1e-4, atol=1e-5)


@every_kind
def test_it_is_the_start_of_a_fit_whose_certificate_is_true(kind, monkeypatch):
    _, blocks = both(numbers=80, monkeypatch=monkeypatch, **kind)
    F = Objective(Chain(), blocks, ridge=0.5)
    assert ascent.suits(F)
    found = minimize(F, QuasiNewton(), tol=1e-4)
    lowest = F.value(minimize(F, LBFGS(), tol=1e-9, max_steps=5000).params)
    assert found.result.converged
    assert F.value(found.params) - lowest <= found.result.gap * F.value(found.params)


def test_words_take_fewer_passes_than_without(monkeypatch):
    rng = np.random.default_rng(0)
    words = [np.minimum(rng.zipf(1.3, size=12), 2000) for _ in range(400)]
    X = [[[f"w{w}", f"s{w % 17}", f"p{v % 31}"] for v, w in pairwise([0, *each])] for each in words]
    y = [[f"l{w % 5 if rng.random() < 0.9 else rng.integers(5)}" for w in each] for each in words]
    monkeypatch.setattr(source, "BLOCK", 2**12)
    passes = []
    for suits in (ascent.suits, lambda objective: False):
        monkeypatch.setattr(ascent, "suits", suits)
        model = ChainCRF(c2=0.1, tol=1e-3).fit(Chunks(lambda: iter([(X, y)])))
        assert model.result_.converged
        passes.append(model.trace_["passes"][-1])
    assert passes[0] < 0.8 * passes[1]


def test_marginals_of_a_state_from_a_file_are_found_again(monkeypatch):
    _, blocks = both(seed=4, numbers=80, monkeypatch=monkeypatch, n=3)
    F = Objective(Chain(), blocks, ridge=0.7)
    early = ascent.ascend(F, Ascent(ascent.marginals(F), np.zeros(F.size)), 5)
    before = early.work.gains.copy()
    again = ascent._rewound(F, early.revived(F), 5)
    assert again.rounds == early.rounds
    np.testing.assert_array_equal(again.gains, before)


def test_where_there_is_no_room_the_start_is_another(monkeypatch):
    _, blocks = both(n=3)
    F = Objective(Chain(), blocks, ridge=0.7)
    assert ascent.suits(F)
    uneven = StreamedSequences(blocks._records, blocks.universe, blocks._numbers, blocks.size)
    assert not ascent.suits(Objective(Chain(), uneven, ridge=0.7))
    monkeypatch.setattr(cache, "SHARE", 0.0)
    assert not ascent.suits(F)
    monkeypatch.setattr(AscentInBlocks, "fits", staticmethod(lambda data: True))  # and then there is none after all
    found = minimize(F, QuasiNewton(), tol=1e-6)
    assert found.result.converged
    assert "an online pass made the start instead" in found.result.message
