"""Blocks held by the workers of a Dask cluster, where what is kept with them stays as well.

Blocks in the memory of Dask workers, asked for sums without a detour.

A *keeper* (an actor of Dask's) holds the share of each worker, and what was kept with it under a name. A round is one
call to every keeper: no task is scheduled, so that it takes a few milliseconds. Keepers are called through each other,
as a tree, where there are many. One that is lost with its worker is made anew from its rows by another, and what it had
kept is found again by its *recipe*, without anything that was kept before.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial, reduce
from itertools import compress, count
from typing import Any, ClassVar

from majorant.core.remote import Rounds, work_on
from majorant.core.rows import Again, Function, Gives, Kept, LocalBlocks, add, divided, found_again
from majorant.core.threads import Spare, even_parts, hold_on_to_pages, numerics, recycling, sharing

# Sums that are added up at a time.
ARITY = 8
# The share of the memory of all workers that may be kept with blocks, beside the rows.
KEPT_SHARE = 0.2


class DaskBlocks(Rounds):
    """Shares that Dask computes at every round, for they are too large to be held: nothing is kept with them.

    A share that is lost with its worker is computed again by another.
    """

    delay: ClassVar[float] = 2e7

    def __init__(self, client: Any, shares: Sequence[Any]) -> None:
        self._client, self._shares = client, shares

    def has_room(self, numbers: float) -> bool:
        return False

    def run(
        self, function: Function, *kept: Kept, gives: Gives = "both", anew: Function | None = None
    ) -> tuple[Any, Kept]:
        """Return the sum over all blocks; nothing is kept."""
        from dask import delayed

        function, kept = found_again(function, kept)
        assert not kept, "nothing is kept where rows are not"
        self.rounds += 1
        call = delayed(partial(_sum_of_share, function, gives), pure=False)
        # θ travels with each call: what is scattered would be lost with a worker, for good.
        with large_graphs():
            sums = self._client.compute([call(share) for share in self._shares])
        return self._added(sums), []

    def _added(self, sums: Sequence[Any]) -> Any:
        """Return the sum of all shares: as a tree by the workers, and the last few here."""
        while len(sums) > ARITY:
            some = [sums[k : k + ARITY] for k in range(0, len(sums), ARITY)]
            sums = [self._client.submit(added, each, pure=False) for each in some]
        return added(self._client.gather(sums))


def large_graphs() -> AbstractContextManager[Any]:
    """Return a context in which Dask does not warn of parameters, or vocabularies, that are large: they have to go."""
    from dask import config

    quiet: AbstractContextManager[Any] = config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"})
    return quiet


def added(sums: Sequence[Any]) -> Any:
    """Return the sum of sums, which stay as they are."""
    return reduce(lambda a, b: add(a, b, ours=False), sums)


def _sum_of_share(function: Function, gives: Gives, share: Sequence[Any]) -> Any:
    hold_on_to_pages()
    with numerics(1):
        return work_on(function, gives, share)[0]


# How often a round is asked for again when keepers were lost, and how many seconds Dask may take to notice.
ATTEMPTS = 20
NOTICED_WITHIN = 5.0
# Seconds in which a worker answers that can be called without the scheduler.
REACHED_WITHIN = 1.0


def kept_anew(function: Function, gives: Gives, of: tuple[Function, ...], block: Any) -> Any:
    """Return what was kept, found from nothing but the block."""
    return divided(gives, function(*[find(block) for find in of], block))[1]


@dataclass(frozen=True)
class Cut:
    """Rows as a keeper works on them: at most so many at a time, and in single precision or as they are."""

    name: int
    rows: int | None = None
    narrow: bool = False


UNCUT = Cut(-1)


@dataclass(eq=False)
class AtKeepers:
    """What every keeper keeps under a name with its rows, cut so, until nobody here knows it any more."""

    recipe: Function
    cut: Cut
    name: int = -1


@dataclass(frozen=True, eq=False)
class Call:
    """A function, names of what it is given, of what it keeps, and of what nobody knows any more."""

    function: Function
    gives: Gives
    names: Sequence[int]
    name: int
    unknown: Sequence[int] = ()
    cut: Cut = UNCUT
    large: tuple[int, int] | None = None  # rows that are worth one result, and its size, where that is large


class Keeper:
    """A share in the memory of a worker."""

    def __init__(self, blocks: Sequence[Any]) -> None:
        from distributed import get_worker

        self._rows, self._threads = list(blocks), int(get_worker().state.nthreads)
        self._blocks: dict[int, LocalBlocks] = {}
        self._kept: dict[int, Kept] = {}
        hold_on_to_pages()
        # Large arrays of every call, whatever the system does with memory: fresh pages would take as long as the work.
        self._spare = Spare()

    def run(self, message: bytes, others: Sequence[Any] = ()) -> Any:
        """Return the sum over the share, and over those of other keepers, and keep the rest under a name."""
        heads = asked(others, message)
        call: Call = _unpacked(message)
        for each in call.unknown:
            self._kept.pop(each, None)
            self._blocks.pop(each, None)
        if self.lacks(call.names):
            raise NotKept
        with recycling(self._spare), sharing(self._threads):
            total = self._total(call, self._as_cut(call.cut))
        return added([total, *(each.result() for each in heads)])

    def _total(self, call: Call, blocks: LocalBlocks) -> Any:
        kept = [self._kept[each] for each in call.names]
        if call.large is not None:
            return blocks.total_of_large(call.function, *call.large, *kept)
        total, self._kept[call.name] = blocks.run(call.function, *kept, gives=call.gives)
        return total

    def _as_cut(self, cut: Cut) -> LocalBlocks:
        if cut.name not in self._blocks:
            rows = [each.narrowed() for each in self._rows] if cut.narrow else self._rows
            self._blocks[cut.name] = (
                LocalBlocks(rows, self._threads) if cut.rows is None else LocalBlocks.cut(rows, cut.rows, self._threads)
            )
        return self._blocks[cut.name]

    def lacks(self, names: Sequence[int]) -> list[int]:
        """Return which of the names are not known here."""
        return [each for each in names if each not in self._kept and each not in self._blocks]


class NotKept(Exception):
    """A keeper was made anew, and does not know a name."""


def packed(call: Call) -> bytes:
    """Return a call as it travels: to all keepers the same, so that it is packed once for all of them."""
    from distributed.protocol import pickle

    message: bytes = pickle.dumps(call)
    return message


def _unpacked(message: bytes) -> Call:
    from distributed.protocol import pickle

    call: Call = pickle.loads(message)
    return call


def asked(keepers: Sequence[Any], message: bytes) -> list[Any]:
    """Return what is to come from a few keepers, each of which asks as many others."""
    parts = [keepers[some] for some in even_parts(len(keepers), min(len(keepers), ARITY))] if keepers else []
    return [part[0].run(message, part[1:]) for part in parts]


async def _answers(keepers: Sequence[Any], message: bytes) -> list[Any]:
    """Return what keepers answer: all of a round is done by the thread of the client's loop, which wakes ours once."""
    return await asyncio.gather(*asked(keepers, message))


class Keepers(Rounds):
    """Shares that keepers hold.

    Parameters
    ----------
    client : distributed.Client
    shares : sequence of delayed lists of blocks
        One for each worker.
    memory : float
        Bytes that all of them have.
    """

    delay: ClassVar[float] = 6e6
    holds_rows: ClassVar[bool] = True

    def __init__(self, client: Any, shares: Sequence[Any], memory: float) -> None:
        self._client, self._shares, self._memory = client, shares, memory
        self._names, self._unknown = count(), list[int]()
        self._futures = [self._hired(number) for number in range(len(shares))]
        self._keepers = self._met(self._futures)

    def has_room(self, numbers: float) -> bool:
        return 8 * numbers <= KEPT_SHARE * self._memory

    def fits(self, kept: Kept) -> bool:
        return _fits(kept, UNCUT)

    def run(
        self, function: Function, *kept: Kept, gives: Gives = "both", anew: Function | None = None
    ) -> tuple[Any, Kept]:
        return self.run_on(UNCUT, function, kept, gives, anew)

    def narrowed(self) -> Rounds:
        return CutKeepers(self, None, narrow=True)

    def cut(self, rows: int) -> Rounds:
        return CutKeepers(self, rows, narrow=False)

    def name_of(self, what: object) -> int:
        """Return a new name, which keepers forget once nobody here knows any more what it is the name of."""
        name = next(self._names)
        weakref.finalize(what, self._unknown.append, name)
        return name

    def run_on(
        self,
        cut: Cut,
        function: Function,
        kept: tuple[Kept, ...],
        gives: Gives,
        anew: Function | None = None,
        large: tuple[int, int] | None = None,
    ) -> tuple[Any, Kept]:
        """Return the sum over rows that are cut, and the name of what was kept with them."""
        recipe = anew or partial(kept_anew, function, gives, tuple(map(_recipe_of, kept)))
        function, kept = found_again(function, kept)
        self.rounds += 1
        new = AtKeepers(recipe, cut)
        new.name = self.name_of(new)
        call = Call(function, gives, [each.name for each in kept], new.name, list(self._unknown), cut, large)
        total = self._round(call, kept)
        del self._unknown[: len(call.unknown)]
        return total, new

    def _round(self, call: Call, kept: Sequence[AtKeepers]) -> Any:
        message = packed(call)
        for attempt in range(ATTEMPTS):
            try:
                return added(self._client.sync(_answers, self._keepers, message))
            except (NotKept, OSError, RuntimeError) as problem:
                if not self._mended(kept, problem) or attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError("a round ends")

    def _mended(self, kept: Sequence[AtKeepers], problem: Exception) -> bool:
        """Make keepers anew that were lost; return whether that, or what they had kept, was the problem."""
        lost = self._lost(wait=not isinstance(problem, NotKept))
        for number in lost:
            self._futures[number] = self._hired(number)
        for number, keeper in zip(lost, self._met([self._futures[number] for number in lost]), strict=True):
            self._keepers[number] = keeper
        for keeper in self._keepers:
            missing = keeper.lacks([each.name for each in kept]).result()
            for each in kept:
                if each.name in missing:
                    keeper.run(packed(Call(each.recipe, "kept", (), each.name, cut=each.cut))).result()
        return bool(lost) or isinstance(problem, NotKept)

    def _lost(self, *, wait: bool) -> list[int]:
        deadline = time.monotonic() + (NOTICED_WITHIN if wait else 0.0)
        while True:
            lost = [number for number, future in enumerate(self._futures) if future.status != "finished"]
            if lost or time.monotonic() > deadline:
                return lost
            time.sleep(0.05)

    def _met(self, futures: Sequence[Any]) -> list[Any]:
        """Return keepers, who from the first call on are called through the client that was current then."""
        with self._client.as_current():
            keepers = [future.result() for future in futures]
            for answer in [keeper.lacks(()) for keeper in keepers]:
                answer.result()
        if self._client.direct_to_workers is None:
            within_reach = _within_reach(self._client, [keeper._address for keeper in keepers])
            for keeper in compress(keepers, within_reach):
                keeper._client = Direct(self._client)
        return keepers

    def _hired(self, number: int) -> Any:
        """Return the future of a keeper, which Dask gives to the worker that has fewest.

        It is not told which: what waits for a worker that was lost waits for good.
        """
        return self._client.submit(Keeper, self._client.compute(self._shares[number]), actor=True, pure=False)


class Direct:
    """A client of Dask's that calls actors itself: by default all calls and answers pass through the scheduler."""

    direct_to_workers: ClassVar[bool] = True

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def _within_reach(client: Any, addresses: Sequence[str]) -> list[bool]:
    """Return which workers answer the client, who may be outside of what the workers call each other by."""
    from distributed.comm import connect

    async def answers(address: str) -> bool:
        try:
            comm = await connect(address, timeout=REACHED_WITHIN, **client.connection_args)
        except (OSError, ValueError):
            return False
        await comm.close()
        return True

    async def all_answer() -> list[bool]:
        return await asyncio.gather(*map(answers, addresses))

    found: list[bool] = client.sync(all_answer)
    return found


class CutKeepers(Rounds):
    """The shares of keepers, so many rows at a time; in single precision they are copies, as long as this is known."""

    delay: ClassVar[float] = Keepers.delay
    holds_rows: ClassVar[bool] = True

    def __init__(self, keepers: Keepers, rows: int | None, *, narrow: bool) -> None:
        self._keepers, self._cut = keepers, Cut(keepers.name_of(self), rows, narrow)

    @property
    def rounds(self) -> int:  # type: ignore[override]
        """How often all keepers were asked for something."""
        return self._keepers.rounds

    def has_room(self, numbers: float) -> bool:
        return self._keepers.has_room(numbers)

    def fits(self, kept: Kept) -> bool:
        return _fits(kept, self._cut)

    def run(
        self, function: Function, *kept: Kept, gives: Gives = "both", anew: Function | None = None
    ) -> tuple[Any, Kept]:
        return self._keepers.run_on(self._cut, function, kept, gives, anew)

    def total_of_large(self, function: Function, rows: int, size: int, *kept: Kept) -> Any:
        return self._keepers.run_on(self._cut, function, kept, "sum", large=(rows, size))[0]

    def narrowed(self) -> Rounds:
        return CutKeepers(self._keepers, self._cut.rows, narrow=True)

    def cut(self, rows: int) -> Rounds:
        return CutKeepers(self._keepers, rows, narrow=self._cut.narrow)


def _fits(kept: Kept, cut: Cut) -> bool:
    return isinstance(kept, Again) or (isinstance(kept, AtKeepers) and kept.cut == cut)


def _recipe_of(kept: Kept) -> Function:
    """Return how what was kept, or is found again, is found from nothing."""
    if isinstance(kept, Again):
        return kept.anew or partial(kept_anew, kept.function, "kept", tuple(map(_recipe_of, kept.kept)))
    recipe: Function = kept.recipe
    return recipe
