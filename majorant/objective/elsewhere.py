"""Blocks that live with workers, in other processes or on other machines: tasks travel there, sums come back.

Rows never travel but for those of a sample. Workers hold *shares*: lists of blocks that are worked on one after the
other, so that a round (one message to everybody, one answer) is one call for each share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn
from zlib import crc32

import numpy as np

from majorant.data import Labelled, Order
from majorant.data.base import Data
from majorant.objective.reduce import Again, Blocks, Kept, Reducer, Task, Threads
from majorant.objective.sums import PairwiseSum


def work_on(task: Task, share: Iterable[Any], *kept: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Return the sum over the blocks of a share, and what is to be kept with each."""
    total, pieces = PairwiseSum(), []
    for number, some in enumerate(zip(share, *kept, strict=True)):
        found, keep = task(*some)
        total.add(number, found)
        pieces.append(keep)
    return total.value(), pieces


@dataclass(frozen=True, eq=False)
class Drawn:
    """Some rows of every block, in proportion to its size, drawn by a seed and by what it holds."""

    share: float
    seed: int

    def __call__(self, block: Labelled) -> tuple[Gathered, None]:
        """Return them."""
        rng = np.random.default_rng([self.seed, crc32(np.ascontiguousarray(block.y).data), len(block)])
        wanted = min(int(np.ceil(self.share * len(block))), len(block))
        return Gathered((block.take(np.sort(rng.permutation(len(block))[:wanted])),)), None


@dataclass(frozen=True, eq=False)
class Gathered:
    """Blocks whose sums are all of them."""

    blocks: tuple[Labelled, ...]

    def __add__(self, other: Gathered) -> Gathered:
        return Gathered(self.blocks + other.blocks)


class Elsewhere:
    """Rows or sequences that workers hold.

    Parameters
    ----------
    at_workers : Blocks
        Where they are.
    like : Labelled or Sequences
        Some of them, or none: what parameters they have.
    rows : int
        How many there are.
    """

    whole = None

    def __init__(self, at_workers: Blocks, like: Any, rows: int) -> None:
        self.at_workers, self.like, self._rows = at_workers, like, rows

    def __len__(self) -> int:
        return self._rows

    def blocks(self, rows: int) -> Iterable[Labelled]:
        """Raise: rows do not come here."""
        self._stay()

    def outlines(self, rows: int) -> Iterable[Labelled]:
        """Raise."""
        self._stay()

    def sample(self, rows: int, seed: int) -> Labelled:
        """Return about so many rows drawn at random without replacement: these do come here."""
        drawn: Gathered = self.at_workers.total(Drawn(min(rows / self._rows, 1.0), seed))
        return Labelled.joined(drawn.blocks)

    def visits(self, order: Order, passes: int, begin: int, end: int, multiple: int) -> Iterator[Labelled]:
        """Raise: solvers that go from row to row need rows here."""
        self._stay()

    def narrowed(self) -> Elsewhere:
        """Return the rows in single precision, if their workers can have a copy of them."""
        narrow = self.at_workers.narrowed()
        return self if narrow is self.at_workers else Elsewhere(narrow, self.like.narrowed(), self._rows)

    def _stay(self) -> NoReturn:
        raise TypeError(
            "these rows stay with their workers: use a solver that asks for sums alone, "
            "such as 'auto', 'bbm', 'newton' or 'lbfgs'"
        )


class AtWorkers(Reducer):
    """Where :class:`Elsewhere` says that its rows are."""

    def spread(self, data: Data, rows: int) -> Blocks:
        """Return the blocks as workers hold them, cut if these can do that; those of a sample are here."""
        return data.at_workers.cut(max(rows, 1)) if isinstance(data, Elsewhere) else Threads().spread(data, rows)


class Rounds(Blocks):
    """Blocks with workers. ``rounds`` counts how often all of them were asked for something."""

    rounds: int = 0

    def derive(self, task: Task, *kept: Kept, anew: Task | None = None) -> Kept:
        """Return how it is found when it is needed: that spares a round."""
        return Again(task, kept, anew)

    def fits(self, kept: Kept) -> bool:
        """Return whether something was kept with these blocks."""
        return isinstance(kept, list | Again)
