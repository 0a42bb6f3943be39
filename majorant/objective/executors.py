"""Blocks worked on by any ``concurrent.futures.Executor``: a pool of processes, loky, MPI, Ray."""

from __future__ import annotations

import pickle
import tempfile
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any, ClassVar, Protocol

from majorant._threads import numerics
from majorant.objective.elsewhere import Rounds, work_on
from majorant.objective.reduce import Kept, Task, found_again
from majorant.objective.sums import PairwiseSum

# Shares that a worker keeps in memory; the one that was not used for longest goes first.
SHARES_IN_MEMORY = 8
_shares: OrderedDict[str, Iterable[Any]] = OrderedDict()  # of this process


class Reading(Protocol):
    """How a worker gets its share: something that can be pickled."""

    @property
    def fits(self) -> bool:
        """Whether a worker may keep the blocks in memory."""

    def __call__(self) -> Iterable[Any]:
        """Return the blocks."""


@dataclass(frozen=True)
class FromFile:
    """A share that was written to a file, which workers can read."""

    path: Path
    fits: bool = True

    def __call__(self) -> Iterable[Any]:
        """Read it. Nobody but this process and its workers knows the folder."""
        return pickle.loads(self.path.read_bytes())


@dataclass(frozen=True, eq=False)
class Share:
    """A share by its name, and how it is read where it is not in memory."""

    name: str
    read: Reading

    def blocks(self) -> Iterable[Any]:
        """Return the blocks, which this process may remember."""
        if not self.read.fits:
            return self.read()
        if self.name not in _shares:
            _shares[self.name] = self.read()
            while len(_shares) > SHARES_IN_MEMORY:
                _shares.popitem(last=False)
        _shares.move_to_end(self.name)
        return _shares[self.name]


class ExecutorBlocks(Rounds):
    """Shares that whichever worker is free reads, remembers and works on.

    A worker is not known to get the same share again, so nothing is kept with blocks: scores are found from θ.
    """

    delay: ClassVar[float] = 2e6

    def __init__(self, executor: Executor, readings: Sequence[Reading]) -> None:
        name = uuid.uuid4().hex
        self._executor = executor
        self._shares = [Share(f"{name}-{number}", read) for number, read in enumerate(readings)]

    @classmethod
    def holding(cls, executor: Executor, shares: Sequence[Sequence[Any]]) -> ExecutorBlocks:
        """Return blocks that are in memory here, and reach workers through files of a temporary folder."""
        folder = Path(tempfile.mkdtemp(prefix="majorant-"))
        for number, share in enumerate(shares):
            (folder / str(number)).write_bytes(pickle.dumps(share, protocol=pickle.HIGHEST_PROTOCOL))
        blocks = cls(executor, [FromFile(folder / str(number)) for number in range(len(shares))])
        weakref.finalize(blocks, rmtree, folder, ignore_errors=True)
        return blocks

    def keep(self, numbers: float) -> bool:
        """Return False."""
        return False

    def run(self, task: Task, *kept: Kept) -> tuple[Any, Kept]:
        """Return the sum over all blocks; nothing is kept."""
        task, kept = found_again(task, kept)
        assert not kept, "nothing is kept with an executor"
        self.rounds += 1
        total = PairwiseSum()
        for number, found in enumerate(self._executor.map(Round(task), self._shares)):
            total.add(number, found)
        return total.value(), []


@dataclass(frozen=True, eq=False)
class Round:
    """A task on every block of a share."""

    task: Task

    def __call__(self, share: Share) -> Any:
        """Return the sum."""
        with numerics(1):
            return work_on(self.task, share.blocks())[0]
