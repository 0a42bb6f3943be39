"""Several fits of the same rows, one read for all: each waits with its task until the others have one, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from itertools import islice
from threading import Condition, Thread
from typing import Any, TypeVar

from majorant.data.base import Data
from majorant.objective.reduce import Blocks, Kept, Reducer, Task, found_again, reads_rows

T = TypeVar("T")


def all_together(calls: Sequence[Callable[[], T]], group: Group) -> list[T]:
    """Return what every call returns, each in a thread of its own, as members of a group that reads together."""
    results: list[Any] = [None] * len(calls)
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            results[number] = calls[number]()
        except BaseException as error:
            errors.append(error)
        finally:
            group.leave()

    threads = [Thread(target=copy_context().run, args=(work, number)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


@dataclass(eq=False)
class Request:
    """A task that somebody waits for."""

    blocks: Blocks
    task: Task
    kept: tuple[Kept, ...]
    answer: tuple[Any, Kept] | None = None
    error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        """Whether there is an answer, or there will never be one."""
        return self.answer is not None or self.error is not None


class Group:
    """Fits that read together. Rows are read once every one that has not ended waits for them."""

    def __init__(self, members: int) -> None:
        self._members, self._waiting, self._change = members, [], Condition()  # type: tuple[int, list[Request], Any]
        self._blocks: dict[int, Blocks] = {}
        self.reads = 0

    def spread(self, inner: Reducer, data: Data, rows: int) -> Blocks:
        """Return blocks of so many rows, the same for all members."""
        with self._change:
            if rows not in self._blocks:
                self._blocks[rows] = inner.spread(data, rows)
            return self._blocks[rows]

    def run(self, blocks: Blocks, task: Task, kept: tuple[Kept, ...]) -> tuple[Any, Kept]:
        """Return what a task finds, once it is its turn."""
        task, kept = found_again(task, kept)
        if not reads_rows(task):
            return blocks.run(task, *kept)
        request = Request(blocks, task, kept)
        with self._change:
            self._waiting.append(request)
            self._read_if_all_wait()
            while not request.is_done:
                self._change.wait()
        if request.error is not None:
            raise request.error
        assert request.answer is not None
        return request.answer

    def leave(self) -> None:
        """Wait for one less from now on."""
        with self._change:
            self._members -= 1
            self._read_if_all_wait()

    def _read_if_all_wait(self) -> None:
        if not self._waiting or len(self._waiting) < self._members:
            return
        waiting, self._waiting = self._waiting, []
        for blocks in {id(request.blocks): request.blocks for request in waiting}.values():
            self._answer(blocks, [request for request in waiting if request.blocks is blocks])
        self._change.notify_all()

    def _answer(self, blocks: Blocks, requests: list[Request]) -> None:
        self.reads += 1
        joint = Jointly(tuple([request.task for request in requests]), tuple([len(each.kept) for each in requests]))
        try:
            totals, pieces = blocks.run(joint, *[kept for request in requests for kept in request.kept])
        except BaseException as error:
            for request in requests:
                request.error = error
            return
        for number, request in enumerate(requests):
            request.answer = totals[number], [piece[number] for piece in pieces]


@dataclass(frozen=True, eq=False)
class Jointly:
    """Several tasks on one block, each with what was kept for it."""

    tasks: tuple[Task, ...]
    counts: tuple[int, ...]

    def __call__(self, block: Any, *kept: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return what adds up of each, and what is kept for each."""
        left = iter(kept)
        found = [task(block, *islice(left, many)) for task, many in zip(self.tasks, self.counts, strict=True)]
        return tuple(total for total, _ in found), tuple(keep for _, keep in found)


@dataclass(frozen=True, eq=False)
class SharedBlocks(Blocks):
    """Blocks that are read together with others."""

    inner: Blocks
    group: Group

    def keep(self, numbers: float) -> bool:
        """Return whether so many numbers can be kept with the blocks."""
        return self.inner.keep(numbers)

    def run(self, task: Task, *kept: Kept) -> tuple[Any, Kept]:
        """Return the sum over all blocks, and what was kept with them."""
        return self.group.run(self.inner, task, kept)

    def fits(self, kept: Kept) -> bool:
        """Return whether something may have been kept with these blocks."""
        return self.inner.fits(kept)


@dataclass(frozen=True, eq=False)
class ReadTogether(Reducer):
    """A place where blocks are worked on by several fits at once."""

    inner: Reducer
    group: Group = field(compare=False)

    def spread(self, data: Data, rows: int) -> Blocks:
        """Return the blocks; those of a sample are everybody's own."""
        if data.whole is not None:
            return self.inner.spread(data, rows)
        return SharedBlocks(self.group.spread(self.inner, data, rows), self.group)
