"""Dual ascent on the sequences of a chain: what is kept of them, and θ as compiled loops move it.

All is in single precision: it finds where to start, and certifies nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

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
# Tokens whose curvature is found at a time.
TOKENS = 2**12


class ChainAscent:
    """Marginals of every sequence, which start at what was observed, and θ = 0 with them.

    Visits move sequences in place, and ``rounds`` counts them.
    """

    LEFT_OUT: ClassVar[tuple[str, ...]] = ("lengths", "_data", "_ridge")  # of files: the data have it

    def __init__(self, data: Sequences, ridge: Array) -> None:
        self.lengths = np.diff(data.starts)
        self._data, self._ridge = data, ridge
        self._weights = _at_zero(data, ridge)
        self._kept = _as_observed(data)
        self._sums: tuple[Array, ...] = ()
        self.rounds, self._snapshots = 0, 1

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

    def visit(self, order: Array, snapshots: int = 1) -> bool:
        """Move these sequences, one after the other; return whether all numbers stayed finite.

        So many times on the way θ is looked at, to be averaged; once, at the end, costs nothing.
        """
        data, universe = self._data, self._data.universe
        floor = universe.floor.astype(np.float32)
        room = kernels.chain.room_for(data.starts, universe.width, np.float32)
        self._sums, self._snapshots = (), snapshots
        for some in np.array_split(order, snapshots):
            if not kernels.chain_dual.ascend(
                data.features, data.starts, data.weight, some, self._weights, self._kept, floor, room, universe.blocks
            ):
                return False
            self._add_snapshot()
        self.rounds += 1
        return bool(np.isfinite(self._kept.totals).all())

    def take_up(self, other: ChainAscent) -> None:
        """Go on from where another one was, which was read from a file and knows no sequences."""
        self._weights, self._kept, self._sums = other._weights, other._kept, other._sums
        self.rounds, self._snapshots = other.rounds, other._snapshots

    def _add_snapshot(self) -> None:
        now = self._weights[:3]
        if self._snapshots == 1:
            self._sums = now
        elif not self._sums:
            self._sums = tuple(each.copy() for each in now)
        else:
            for total, each in zip(self._sums, now, strict=True):
                total += each

    def average(self) -> Array:
        """Return the mean of θ over the last round of visits."""
        universe, (states, table, A) = self._data.universe, self._sums
        theta = np.zeros(universe.size)
        theta[: len(universe.label)] = states
        return universe.joined_parts(theta, table, A) / self._snapshots

    def hessian_diagonal(self) -> Array:
        """Return Σ_t v² μ(1 − μ), as if tokens were independent: to scale steps by."""
        data, universe = self._data, self._data.universe
        x, each, of = data.features.squared(), data.weight, _first_weights(data)
        G, table = np.zeros(universe.size), universe.table()
        for begin in range(0, data.n_tokens, TOKENS):
            end = min(begin + TOKENS, data.n_tokens)
            μ = self._kept.nodes[begin:end].astype(np.float64)
            R = μ * (1 - μ) if each is None else μ * (1 - μ) * each[begin:end, None]
            kernels.chain.lifted(x.part(begin, end), R, G, table, universe.blocks)
        B = (of @ self._kept.pairs.reshape(len(data), -1)).reshape(universe.width, -1).astype(np.float64)
        return universe.joined_parts(G, table, B * (1 - B / max(B.sum(), 1.0)))


def _at_zero(data: Sequences, ridge: Array) -> Weights:
    universe, single = data.universe, np.float32
    inverse, same = 1 / ridge, bool((ridge == ridge[0]).all())
    return kernels.chain_dual.Weights(
        np.zeros(len(universe.label), single),
        universe.table().astype(single),
        np.zeros((universe.width, universe.width), single),
        None if same else inverse[: len(universe.label)].astype(single),
        None if same else universe.table(inverse).astype(single),
        universe.transition_matrix(inverse).astype(single),
        np.packbits(universe.table(inverse) > 0, axis=1, bitorder="little"),
        single(inverse[0] if same else 1.0),
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


def _first_weights(data: Sequences) -> Array:
    """Return the weight of each sequence; of an empty one, zero."""
    weight = np.ones(data.n_tokens) if data.weight is None else data.weight
    return np.where(np.diff(data.starts) > 0, np.append(weight, 0.0)[data.starts[:-1]], 0.0).astype(np.float32)
