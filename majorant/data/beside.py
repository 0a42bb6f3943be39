"""Sequences that are read block by block, and what is kept beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from majorant._checks import Array
from majorant.data.encoded import Size
from majorant.data.sequences import Sequences
from majorant.data.universe import Universe


class Store(Protocol):
    """Arrays of every block, which need not be in memory."""

    @property
    def is_open(self) -> bool:
        """Whether all that was added is here: there may have been no room for it."""

    @property
    def room(self) -> float:
        """How many bytes there is room for."""

    def __getitem__(self, number: int) -> Sequence[Any]:
        """Return the arrays of a block."""

    def add(self, arrays: Sequence[Array]) -> None:
        """Keep the arrays of one block more."""

    def replace(self, number: int, arrays: Sequence[Array]) -> None:
        """Keep others of the same shapes in their place."""


@runtime_checkable
class InBlocks(Protocol):
    """Sequences of which a few blocks are in memory at a time."""

    universe: Universe
    size: Size
    even: bool  # whether the tokens of a sequence all weigh the same

    def blocks(self, rows: int) -> Iterable[Sequences]:
        """Return them in blocks of at most about so many sequences, always the same ones."""

    def store(self) -> Store:
        """Return somewhere to keep arrays of every block."""
