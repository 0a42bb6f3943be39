"""Outcomes that touch few parameters: their Hessian by blocks that never meet, as choices by alternative have it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from majorant._checks import Array
from majorant.curvature.arrow import Arrow, Pattern
from majorant.data import Choices
from majorant.models.base import weights_of

# Shares of outcomes that a parameter has to touch for being one that blocks share; the first that leaves small blocks.
COMMON = (0.5, 0.2, 0.05)
# Numbers in all blocks together, and parameters that they share.
LARGEST, MOST_SHARED = 2**25, 1_000


def pattern_of(X: sp.csr_array) -> Pattern | None:
    """Return which parameters meet in an outcome: blocks that do not meet, and what they share; None if all meet."""
    t, d = X.shape
    touched = np.bincount(X.indices, minlength=d)
    for share in COMMON:
        shared = np.flatnonzero(touched > share * t)
        found = _blocks(X, shared) if len(shared) <= MOST_SHARED else None
        if found is not None:
            return found
    return None


def _blocks(X: sp.csr_array, shared: Array) -> Pattern | None:
    """Return the blocks that are left without what is shared, unless they are too large."""
    d = X.shape[1]
    own = np.ones(d, dtype=bool)
    own[shared] = False
    number = connected_components(_meetings(X, own), directed=False)[1]
    rest = np.flatnonzero(own)
    _, block, sizes = np.unique(number[rest], return_inverse=True, return_counts=True)
    if not len(sizes) or len(sizes) * sizes.max() * (sizes.max() + len(shared)) > LARGEST:
        return None
    order, first = np.argsort(block, kind="stable"), np.cumsum(sizes) - sizes
    blocks = np.full((len(sizes), int(sizes.max())), d)
    blocks[block[order], np.arange(len(rest)) - first[block[order]]] = rest[order]
    return Pattern(d, shared, blocks)


def _meetings(X: sp.csr_array, own: Array) -> Any:
    """Return a graph of parameters that meet: those of an outcome follow each other."""
    kept = own[X.indices]
    columns = X.indices[kept]
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[kept]
    same = row[1:] == row[:-1]
    # Pairs are few, however many outcomes they meet in.
    pairs = np.unique(columns[:-1][same].astype(np.int64) * X.shape[1] + columns[1:][same])
    entries = (np.ones(len(pairs)), (pairs // X.shape[1], pairs % X.shape[1]))
    return sp.coo_array(entries, shape=(X.shape[1], X.shape[1]))


def hessian_by_blocks(p: Array, batch: Choices, pattern: Pattern) -> Arrow:
    """Return the Hessian of Σ_j w_j log Z_j at probabilities p, with a row √w_j f̄_j for each set."""
    k, (m, b), w = len(pattern.shared), pattern.blocks.shape, weights_of(batch)
    shared, cross, blocks = np.zeros((k, k)), np.zeros((m, k, b)), np.zeros((m, b, b))
    of_shared, rows = np.zeros((len(batch), k)), np.zeros((len(batch), pattern.size + 1))
    weighed = p * w[batch.set_of_outcome]
    for number, which, F in _by_block(batch, pattern):
        G = F.T @ (weighed[which, None] * F)
        sets, means = _means(p[which], batch.set_of_outcome[which], F)
        shared += G[:k, :k]
        of_shared[sets] += means[:, :k]
        if number >= 0:
            cross[number], blocks[number] = G[:k, k:], G[k:, k:]
            rows[sets[:, None], pattern.blocks[number]] = means[:, k:]
    rows[:, pattern.shared] = of_shared
    return Arrow(pattern, shared, cross, blocks, np.sqrt(w)[:, None] * rows[:, :-1])


def blocks_of_hessian(p: Array, batch: Choices, pattern: Pattern) -> Arrow:
    """Return the blocks of that Hessian alone: Σ_j w_j Var(f_j), each over its own parameters."""
    k, (m, b), w = len(pattern.shared), pattern.blocks.shape, weights_of(batch)
    shared, blocks, of_shared = np.zeros((k, k)), np.zeros((m, b, b)), np.zeros((len(batch), k))
    weighed = p * w[batch.set_of_outcome]
    for number, which, F in _by_block(batch, pattern):
        G = F.T @ (weighed[which, None] * F)
        sets, means = _means(p[which], batch.set_of_outcome[which], F)
        shared += G[:k, :k]
        of_shared[sets] += means[:, :k]
        if number >= 0:
            own = means[:, k:]
            blocks[number] = G[k:, k:] - own.T @ (w[sets, None] * own)
    shared -= of_shared.T @ (w[:, None] * of_shared)
    return Arrow(pattern, shared, np.zeros((m, k, b)), blocks, np.zeros((0, pattern.size)))


def _means(p: Array, sets: Array, F: Array) -> tuple[Array, Array]:
    """Return which sets there are among outcomes, which stand in their order, and Σ_y p(y) f(y) of each."""
    first = np.flatnonzero(np.diff(sets, prepend=-1))
    return sets[first], np.add.reduceat(p[:, None] * F, first)


def _by_block(batch: Choices, pattern: Pattern) -> Iterator[tuple[int, Array, Array]]:
    """Yield for each block its outcomes and their features, shared ones first; −1 is for those that touch no block."""
    X, k, (m, b) = batch.design.csr(), len(pattern.shared), pattern.blocks.shape
    place, block = np.zeros(pattern.size + 1, dtype=int), np.full(pattern.size + 1, -1)
    place[pattern.blocks], block[pattern.blocks] = np.arange(k, k + b), np.arange(m)[:, None]
    place[pattern.shared] = np.arange(k)
    owner = np.full(X.shape[0], -1)
    full = np.flatnonzero(np.diff(X.indptr))
    owner[full] = np.maximum.reduceat(block[X.indices], X.indptr[full])
    order = np.argsort(owner, kind="stable")
    ends = np.searchsorted(owner[order], np.arange(-1, m), side="right")
    for number, (begin, end) in enumerate(pairwise([0, *ends.tolist()]), start=-1):
        if end > begin:
            which = order[begin:end]
            some = X[which]
            F = np.zeros((end - begin, k + b))
            F[np.repeat(np.arange(end - begin), np.diff(some.indptr)), place[some.indices]] = some.data
            yield number, which, F
