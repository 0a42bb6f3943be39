"""Dual ascent on sequences that do not fit in memory: their marginals are kept beside them, block by block.

A round goes through the blocks as they stand, and through the sequences of each in the order that was asked for. In
memory are θ, a block, its marginals, and a few numbers of every sequence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from majorant._checks import Array
from majorant.data.beside import InBlocks
from majorant.data.sequences import Sequences
from majorant.models.chain_dual import ChainAscent, as_observed, first_weights, n_marginals, of_sequences, squared_norms

if TYPE_CHECKING:  # Numba is slow to load
    from majorant.kernels.chain_dual import Marginals


class AscentInBlocks(ChainAscent):
    """The same as :class:`ChainAscent` block by block; from a file it goes through its rounds again."""

    LEFT_OUT: ClassVar[tuple[str, ...]] = (
        *("lengths", "_blocks", "_store", "_each"),
        *("_universe", "_weights", "_kept", "_sums"),
    )
    selects: ClassVar[bool] = False  # to read a block takes as long as to visit all of it

    def __init__(self, data: InBlocks, ridge: Array) -> None:
        sequences = data.size.sequences
        self._start(data.universe, ridge, of_sequences(sequences))
        self.lengths, self._each = np.zeros(sequences, dtype=np.int64), np.zeros(sequences)
        self._blocks, self._store = data.blocks(sequences), data.store()

    @staticmethod
    def fits(data: InBlocks) -> bool:
        """Return whether tokens of a sequence weigh the same, and there is room for all marginals."""
        return data.even and 4 * n_marginals(data.universe, data.size.tokens, data.size.sequences) <= data.store().room

    def take_up(self, other: ChainAscent) -> None:
        """Stay at the start: marginals are in no file."""

    def visit(self, order: Array, snapshots: int = 1) -> bool:
        """Move these sequences; return whether all numbers stayed finite, and there was room for them."""
        return super().visit(order, snapshots) and self._store.is_open

    def _visited(self, order: Array) -> Iterator[tuple[Sequences, Marginals, Array]]:
        places = np.full(len(self.lengths), -1)
        places[order] = np.arange(len(order))
        for number, block, here in self._numbered():
            some = np.flatnonzero(places[here] >= 0)
            some = some[np.argsort(places[here][some])]
            if self.rounds == 0:
                self.lengths[here], self._each[here] = np.diff(block.starts), first_weights(block)
                kept = self._joined(as_observed(block), here)
                yield block, kept, some
                self._store.add([kept.nodes, kept.pairs])
            elif len(some):
                kept = self._read(number, block, here)
                yield block, kept, some
                self._store.replace(number, [kept.nodes, kept.pairs])
            if not self._store.is_open:
                return

    def _seen(self) -> Iterator[tuple[Sequences, Marginals]]:
        for number, block, here in self._numbered():
            yield block, self._read(number, block, here)

    def _numbered(self) -> Iterator[tuple[int, Sequences, slice]]:
        """Yield blocks, and which sequences are theirs."""
        begin = 0
        for number, block in enumerate(self._blocks):
            yield number, block, slice(begin, begin + len(block))
            begin += len(block)

    def _read(self, number: int, block: Sequences, here: slice) -> Marginals:
        nodes, pairs = self._store[number]
        return self._joined(self._kept._replace(nodes=nodes, pairs=pairs, norms=squared_norms(block)), here)

    def _joined(self, kept: Marginals, here: slice) -> Marginals:
        """Return what is kept of tokens with what is kept of their sequences, which is changed in place."""
        of = self._kept
        return kept._replace(
            entropy=of.entropy[here],
            ratio=of.ratio[here],
            step=of.step[here],
            gain=of.gain[here],
            totals=of.totals,
        )
