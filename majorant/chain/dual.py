"""Dual ascent on the sequences of a chain: marginals of each, and θ, which follows them, as compiled loops move both.

All is in single precision: it finds where to start, and certifies nothing. :class:`ChainAscent` has sequences in
memory; :class:`AscentInBlocks` goes through blocks that are read, and keeps their marginals in a file beside them. In
memory are then θ, a block, its marginals, and a few numbers of every sequence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from majorant.chain import kernels
from majorant.chain.feature_index import Universe
from majorant.chain.sequences import Sequences
from majorant.chain.streamed import StreamedSequences
from majorant.core.checks import Array

if TYPE_CHECKING:
    from majorant.chain.kernels.dual import Marginals

# Marginals that are kept in memory, at most: a quarter of a gigabyte.
LARGEST = 2**26
# Tokens whose curvature is found at a time.
TOKENS = 2**12


class ChainAscent:
    """Marginals of every sequence, which start at what was observed, and θ = 0 with them.

    Visits move sequences in place, and ``rounds`` counts them.
    """

    LEFT_OUT: ClassVar[tuple[str, ...]] = ("lengths", "_data", "_each", "_universe")  # of files: the data have it

    selects: ClassVar[bool] = True

    def __init__(self, data: Sequences, ridge: Array) -> None:
        self._data, self.lengths, self._each = data, np.diff(data.starts), weights_of(data)
        self._start(data.universe, ridge, as_observed(data))

    def _start(self, universe: Universe, ridge: Array, kept: Marginals) -> None:
        """Set θ to zero, and what is kept of the sequences."""
        single, inverse, same = np.float32, 1 / ridge, bool((ridge == ridge[0]).all())
        self._weights = kernels.dual.Weights(
            np.zeros(len(universe.label), single),
            universe.table().astype(single),
            np.zeros((universe.width, universe.width), single),
            None if same else inverse[: len(universe.label)].astype(single),
            None if same else universe.table(inverse).astype(single),
            universe.transition_matrix(inverse).astype(single),
            np.packbits(universe.table(inverse) > 0, axis=1, bitorder="little"),
            single(inverse[0] if same else 1.0),
        )
        self._universe, self._kept = universe, kept
        self._sums: tuple[Array, ...] = ()
        self.rounds, self._snapshots = 0, 1

    @staticmethod
    def fits(data: Any) -> bool:
        """Return whether tokens of a sequence weigh the same, and there is room for all marginals."""
        return data.even and data.n_tokens > 0 and n_marginals(data.universe, data.n_tokens, len(data)) <= LARGEST

    def take_up(self, other: ChainAscent) -> None:
        """Go on from where another one was, which was read from a file and knows no sequences."""
        self._weights, self._kept, self._sums = other._weights, other._kept, other._sums
        self.rounds, self._snapshots = other.rounds, other._snapshots

    @property
    def gains(self) -> Array:
        """What a visit to each sequence would add to the dual objective, roughly; who skips one may let it grow."""
        return self._kept.gain

    @property
    def value(self) -> float:
        """The dual objective, as far as the entropies of marginals are known: an estimate, no bound."""
        return float(self._each @ self._kept.entropy - 0.5 * self._kept.totals[0])

    def visit(self, order: Array, snapshots: int = 1) -> bool:
        """Move these sequences, one after the other; return whether all numbers stayed finite.

        θ is looked at ``snapshots`` times on the way, to be averaged; once, at the end, costs nothing.
        """
        floor, width = self._universe.floor.astype(np.float32), self._universe.width
        self._sums, self._snapshots = (), 0
        for data, kept, visited in self._parts(order):
            room = kernels.forward_backward.room_for(data.starts, width, np.float32)
            looks = max(round(snapshots * len(visited) / max(len(order), 1)), 1)
            for sequences in np.array_split(visited, looks):
                if not kernels.dual.ascend(
                    data.features, data.starts, data.weight, sequences, self._weights, kept, floor, room,
                    self._universe.blocks,
                ):  # fmt: skip
                    return False
                now = self._weights[:3]
                if snapshots == 1 or not self._sums:
                    self._sums = now if snapshots == 1 else tuple(array.copy() for array in now)
                else:
                    for total, array in zip(self._sums, now, strict=True):
                        total += array
                self._snapshots = 1 if snapshots == 1 else self._snapshots + 1
        self.rounds += 1
        return bool(np.isfinite(self._kept.totals).all())

    def _parts(self, order: Array | None = None) -> Iterator[tuple[Sequences, Marginals, Array]]:
        """Yield sequences, what is kept of them, and which are visited, in this order; without one, none are."""
        yield self._data, self._kept, np.empty(0, dtype=np.int64) if order is None else order

    def average(self) -> Array:
        """Return the mean of θ over the last round of visits, once: what was added up is let go of."""
        universe, (states, table, A), self._sums = self._universe, self._sums, ()
        theta = np.zeros(universe.size)
        theta[: len(universe.label)] = states
        theta = universe.joined_parts(theta, table, A)
        theta /= self._snapshots
        return theta

    def hessian_diagonal(self) -> Array:
        """Return Σ_t v² μ(1 − μ), as if tokens were independent: to scale steps by."""
        universe = self._universe
        G, table, B = np.zeros(universe.size), universe.table(), np.zeros((universe.width, universe.width))
        for data, kept, _ in self._parts():
            x, weight = data.features.squared(), data.weight
            for begin in range(0, data.n_tokens, TOKENS):
                end = min(begin + TOKENS, data.n_tokens)
                μ = kept.nodes[begin:end].astype(np.float64)
                R = μ * (1 - μ) if weight is None else μ * (1 - μ) * weight[begin:end, None]
                kernels.forward_backward.lifted(x.part(begin, end), R, G, table, universe.blocks)
            B += transition_curvature(data, kept.nodes)
        return universe.joined_parts(G, table, B)


class AscentInBlocks(ChainAscent):
    """The same as :class:`ChainAscent` block by block; from a file it goes through its rounds again.

    A round goes through the blocks as they stand, and through the sequences of each in the order that was asked for.
    """

    LEFT_OUT: ClassVar[tuple[str, ...]] = (
        *("lengths", "_blocks", "_store", "_each"),
        *("_universe", "_weights", "_kept", "_sums"),
    )
    selects: ClassVar[bool] = False  # to read a block takes as long as to visit all of it

    def __init__(self, data: StreamedSequences, ridge: Array) -> None:
        self._blocks, self._store = data.blocks(len(data)), data.store()
        self.lengths, self._each = np.zeros(len(data), dtype=np.int64), np.zeros(len(data))
        self._start(data.universe, ridge, of_sequences(len(data)))

    @staticmethod
    def fits(data: Any) -> bool:
        size = data.size
        return data.even and 4 * n_marginals(data.universe, size.tokens, size.sequences) <= data.store().room

    def take_up(self, other: ChainAscent) -> None:
        """Stay at the start: marginals are in no file."""

    def visit(self, order: Array, snapshots: int = 1) -> bool:
        """Move these sequences; return whether all numbers stayed finite, and there was room for them."""
        return super().visit(order, snapshots) and self._store.is_open

    def _parts(self, order: Array | None = None) -> Iterator[tuple[Sequences, Marginals, Array]]:
        places, begin = np.full(len(self.lengths), -1), 0
        if order is not None:
            places[order] = np.arange(len(order))
        for number, block in enumerate(self._blocks):
            span = slice(begin, begin + len(block))
            begin = span.stop
            visited = np.flatnonzero(places[span] >= 0)
            visited = visited[np.argsort(places[span][visited])]
            if self.rounds == 0:
                self.lengths[span], self._each[span] = np.diff(block.starts), weights_of(block)
                observed = as_observed(block)
                nodes, pairs, norms = observed.nodes, observed.pairs, observed.norms
            elif len(visited) or order is None:
                (nodes, pairs), norms = self._store[number], squared_norms(block)
            else:
                continue
            of = self._kept  # what is known of the sequences is changed in place
            entropy, ratio, step, gain = (array[span] for array in (of.entropy, of.ratio, of.step, of.gain))
            yield block, kernels.dual.Marginals(nodes, pairs, norms, entropy, ratio, step, gain, of.totals), visited
            if self.rounds == 0:
                self._store.add([nodes, pairs])
            elif order is not None:
                self._store.replace(number, [nodes, pairs])
            if not self._store.is_open:
                return


def n_marginals(universe: Universe, tokens: int, sequences: int) -> int:
    """Return how many numbers are kept of so many tokens and sequences."""
    return universe.width * (tokens + universe.width * sequences)


def as_observed(data: Sequences) -> Marginals:
    """Return what was observed as marginals: of these the entropy is zero, and known."""
    width, sequences, single = data.universe.width, len(data), np.float32
    nodes = np.zeros((data.n_tokens, width), single)
    nodes[np.arange(data.n_tokens), data.y] = 1.0
    pairs, inner = np.zeros((sequences * width, width), single), data.inner_tokens()
    of = np.repeat(np.arange(sequences), np.diff(data.starts))[inner]
    np.add.at(pairs.reshape(-1), (of * width + data.y[inner - 1]) * width + data.y[inner], single(1.0))
    return of_sequences(sequences)._replace(nodes=nodes, pairs=pairs, norms=squared_norms(data))


def of_sequences(count: int) -> Marginals:
    """Return what is kept of so many sequences, but for their tokens; steps are 0.3 at first."""
    nothing = np.empty(0, np.float32)
    return kernels.dual.Marginals(
        *(nothing, nothing, nothing),
        entropy=np.zeros(count),
        ratio=np.ones(count),
        step=np.full(count, 0.3),
        gain=np.zeros(count),
        totals=np.zeros(3),
    )


def squared_norms(data: Sequences) -> Array:
    """Return Σ v² over the attributes of each token."""
    values = data.values
    if values is None:
        return np.diff(data.indptr).astype(np.float32)
    before = np.concatenate([[0.0], np.cumsum(values**2)])
    return np.maximum(np.diff(before[data.indptr]), 0.0).astype(np.float32)


def weights_of(data: Sequences) -> Array:
    """Return the weight of each sequence; of an empty one, zero."""
    weight = np.ones(data.n_tokens) if data.weight is None else data.weight
    return np.where(np.diff(data.starts) > 0, np.append(weight, 0.0)[data.starts[:-1]], 0.0)


def transition_curvature(data: Sequences, P: Array) -> Array:
    """Return Σ_t w a(1 − a) for each pair of labels, a = P(y_{t−1}) P(y_t): as if tokens were independent."""
    B, inner = np.zeros((data.universe.width, data.universe.width)), data.inner_tokens()
    for begin in range(0, len(inner), TOKENS):
        t = inner[begin : begin + TOKENS]
        before, after = P[t - 1].astype(np.float64), P[t].astype(np.float64)
        weighted = before if data.weight is None else before * data.weight[t, None]
        B += weighted.T @ after - (weighted * before).T @ after**2
    return B
