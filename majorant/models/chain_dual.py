"""Dual ascent on the sequences of a chain: what is kept of them, and θ as compiled loops move it.

All is in single precision: it finds where to start, and certifies nothing.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from majorant import kernels
from majorant._checks import Array
from majorant.data.sequences import Sequences

if TYPE_CHECKING:  # Numba is slow to load
    from majorant.kernels.chain_dual import Marginals, Weights

# Marginals that are kept, at most: a quarter of a gigabyte.
LARGEST = 2**26
# How far a first visit goes to begin with.
FIRST_STEP = 0.3
# Times that θ is looked at in a round, to be averaged.
SNAPSHOTS = 10


class ChainAscent:
    """Marginals of every sequence, which start at what was observed, and θ = 0 with them.

    A visit moves some sequences in place; :meth:`copy` makes one that moves on its own.
    """

    def __init__(self, data: Sequences, ridge: Array) -> None:
        self.lengths = np.diff(data.starts)
        self._data, self._ridge = data, ridge
        self._weights = _at_zero(data, ridge)
        self._kept = _as_observed(data)
        self._sums = _zeros_like(self._weights)

    @staticmethod
    def suits(data: Sequences) -> bool:
        """Return whether tokens of a sequence weigh the same, and all marginals fit in memory."""
        width = data.universe.width
        return data.even and data.n_tokens > 0 and width * (data.n_tokens + width * len(data)) <= LARGEST

    @property
    def gains(self) -> Array:
        """What a visit to each sequence would add to the dual objective, roughly; who skips one may let it grow."""
        return self._kept.gain

    @property
    def value(self) -> float:
        """The dual objective, as far as the entropies of marginals are known: an estimate, no bound."""
        entropy, weight, starts = self._kept.entropy, self._data.weight, self._data.starts
        if weight is not None:
            entropy = entropy * np.append(weight, 0.0)[starts[:-1]]
        return float(entropy.sum() - 0.5 * self._kept.totals[0])

    def visit(self, order: Array) -> bool:
        """Move these sequences, one after the other; return whether all numbers stayed finite."""
        data, universe = self._data, self._data.universe
        floor = universe.floor.astype(np.float32)
        room = kernels.chain.room_for(data.starts, universe.width, np.float32)
        self._sums = _zeros_like(self._weights)
        for some in np.array_split(order, SNAPSHOTS):
            if not kernels.chain_dual.ascend(
                data.features, data.starts, data.weight, some, self._weights, self._kept, floor, room, universe.blocks
            ):
                return False
            for total, now in zip(self._sums, self._weights[:3], strict=True):
                total += now
        return bool(np.isfinite(self._kept.totals).all())

    def average(self) -> Array:
        """Return the mean of θ over the last round of visits."""
        universe, (states, table, A) = self._data.universe, self._sums
        theta = np.zeros(universe.size)
        theta[: len(universe.label)] = states
        return universe.joined_parts(theta, table, A) / SNAPSHOTS

    def copy(self) -> ChainAscent:
        """Return one that moves on its own."""
        twin = copy(self)
        twin._kept = kernels.chain_dual.Marginals(*(each.copy() for each in self._kept))
        moving = {name: getattr(self._weights, name).copy() for name in ("states", "table", "A")}
        twin._weights = self._weights._replace(**moving)
        return twin


def _at_zero(data: Sequences, ridge: Array) -> Weights:
    universe, single = data.universe, np.float32
    inverse, same = 1 / ridge, bool((ridge == ridge[0]).all())
    return kernels.chain_dual.Weights(
        np.zeros(len(universe.label), single),
        universe.table().astype(single),
        np.zeros((universe.width, universe.width), single),
        None if same else inverse[: len(universe.label)].astype(single),
        universe.table(inverse).astype(single),
        universe.transition_matrix(inverse).astype(single),
        float(single(inverse[0])) if same else 1.0,
    )


def _as_observed(data: Sequences) -> Marginals:
    """Return what was observed as marginals: of these the entropy is zero, and known."""
    width, sequences, single = data.universe.width, len(data), np.float32
    nodes = np.zeros((data.n_tokens, width), single)
    nodes[np.arange(data.n_tokens), data.y] = 1.0
    pairs, inner = np.zeros((sequences * width, width), single), data.inner_tokens()
    of = np.repeat(np.arange(sequences), np.diff(data.starts))[inner]
    np.add.at(pairs.reshape(-1), (of * width + data.y[inner - 1]) * width + data.y[inner], single(1.0))
    return kernels.chain_dual.Marginals(
        nodes,
        pairs,
        _squared_norms(data).astype(single),
        entropy=np.zeros(sequences),
        ratio=np.ones(sequences),
        step=np.full(sequences, FIRST_STEP),
        gain=np.zeros(sequences),
        totals=np.zeros(3),
    )


def _squared_norms(data: Sequences) -> Array:
    """Return Σ v² over the attributes of each token."""
    if data.values is None:
        return np.diff(data.indptr)
    before = np.concatenate([[0.0], np.cumsum(data.values**2)])
    return np.maximum(np.diff(before[data.indptr]), 0.0)


def _zeros_like(weights: Weights) -> tuple[Array, ...]:
    return tuple(np.zeros(each.shape) for each in weights[:3])
