"""Where the rows of a fit are: in memory, read pass by pass, or with the workers of an executor or a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, NamedTuple, Protocol

from majorant._checks import Array
from majorant._threads import threads
from majorant.callbacks import Callback
from majorant.data import Labelled
from majorant.data.base import Data, InMemory
from majorant.objective import Reducer, Threads
from majorant.objective.elsewhere import AtWorkers, Elsewhere
from majorant.objective.reduce import Blocks
from majorant.sources import Source
from majorant.sources.base import SHOWN, Watcher
from majorant.sources.dask import DaskCollections
from majorant.sources.encoding import Encoding
from majorant.sources.shares import ShareOfSource, blocks_of, evenly, shown
from majorant.sources.spool import Spool
from majorant.sources.streamed import Streamed
from majorant.sources.survey import Outline, Survey, survey_piece, survey_source, together

# Shares for each worker: who has finished one early takes another.
SHARES_PER_WORKER = 2
# Bytes of a share that a worker may keep in memory; of the memory of a cluster, the share that rows may take.
LARGEST_SHARE = 2**28
PINNED = 0.5


class How(NamedTuple):
    """With whose workers to fit, from where to go on, and what shows how far it has come."""

    executor: Any = None
    resume_from: Any = None
    line: Callback | None = None


class Placed(NamedTuple):
    """Data, and who adds up over them."""

    data: Data
    reducer: Reducer


class Place(Protocol):
    """A place for rows, which have been looked at once."""

    @property
    def survey(self) -> Survey:
        """What there is to know of the rows."""

    def put(self, encoding: Encoding) -> Placed:
        """Return them, encoded."""


class Here(NamedTuple):
    """Rows that this process reads pass by pass."""

    source: Source
    survey: Survey
    outline: Outline
    spool: Spool

    watcher: Watcher | None = None

    @classmethod
    def look(cls, source: Source, watcher: Watcher | None = None) -> Here:
        """Read them a first time, and copy them where there is room."""
        spool, watcher = Spool(), watcher or source.watcher
        return cls(source, *survey_source(source, spool, watcher), spool, watcher)

    def put(self, encoding: Encoding) -> Placed:
        """Return rows that are read."""
        data = Streamed(self.source, self.survey, self.outline, encoding, self.spool, self.watcher)
        return Placed(data, Threads(threads()))


class WithExecutor(NamedTuple):
    """Rows that the workers of an executor read."""

    executor: Executor
    pieces: Sequence[Any]
    survey: Survey

    @classmethod
    def look(cls, executor: Executor, source: Source) -> WithExecutor:
        """Let the workers read them a first time."""
        pieces = source.pieces()
        return cls(executor, *_with_rows(pieces, list(executor.map(survey_piece, pieces))))

    def put(self, encoding: Encoding) -> Placed:
        """Return rows that workers share."""
        from majorant.objective.executors import ExecutorBlocks

        shares = evenly(self.pieces, SHARES_PER_WORKER * workers_of(self.executor))
        fits = self.survey.stored * self.survey.dtype.itemsize <= LARGEST_SHARE * len(shares)
        blocks = ExecutorBlocks(self.executor, [ShareOfSource(share, encoding, fits) for share in shares])
        like = shown(encoding, self.pieces)
        assert like is not None
        return Placed(Elsewhere(blocks, like, self.survey.rows), AtWorkers())


class OnDask(NamedTuple):
    """Rows that the workers of a Dask cluster hold, or read at every round if there are too many."""

    client: Any
    pieces: Sequence[Any]  # or what Dask has yet to compute; neighbours are with the same worker
    first: Any  # of them, as they were given: what it looks like does not depend on who has it
    survey: Survey

    @classmethod
    def look(cls, client: Any, source: Source) -> OnDask:
        """Let the workers read them a first time."""
        from dask import delayed

        given = source.delayed_pieces() if isinstance(source, DaskCollections) else source.pieces()
        looks = client.gather(client.compute([delayed(_survey_there)(piece) for piece in given]))
        pieces, survey = _with_rows(given, [found for found, _ in looks])
        # Neighbours share a keeper: those that one worker has need not travel.
        at = [worker for (found, _), worker in looks if found is not None]
        placed = [pieces[k] for k in sorted(range(len(pieces)), key=at.__getitem__)]
        return cls(client, placed, pieces[0], survey)

    def put(self, encoding: Encoding) -> Placed:
        """Return rows that workers share."""
        from dask import delayed

        like = self.client.compute(delayed(shown)(encoding, [self.first]))
        size = self.survey.stored * self.survey.dtype.itemsize
        blocks = held_on_dask(self.client, partial(delayed(blocks_of), encoding), self.pieces, size)
        return Placed(Elsewhere(blocks, like.result(), self.survey.rows), AtWorkers())


def held_on_dask(client: Any, make: Callable[..., Any], pieces: Sequence[Any], size: float) -> Blocks:
    """Return the blocks that ``make`` makes of pieces: in the memory of workers, or made at every round.

    ``size`` is how many bytes they have.
    """
    from majorant.objective.dask import DaskBlocks
    from majorant.objective.keepers import Keepers

    workers = client.scheduler_info(n_workers=-1)["workers"]
    memory = float(sum(worker["memory_limit"] or 2**33 for worker in workers.values()))
    if size <= PINNED * memory:
        shares = [make(*some) for some in evenly(pieces, max(len(workers), 1))]
        return Keepers(client, shares, memory)
    many = SHARES_PER_WORKER * sum(worker["nthreads"] for worker in workers.values())
    return DaskBlocks(client, [make(*some) for some in evenly(pieces, max(many, 1))])


def _survey_there(piece: Any) -> tuple[tuple[Survey | None, list[Array]], str]:
    """Return what there is to know of a piece, and which worker has looked."""
    from distributed import get_worker

    return survey_piece(piece), get_worker().address


def _with_rows(pieces: Sequence[Any], surveys: Sequence[tuple[Survey | None, list[Array]]]) -> tuple[list[Any], Survey]:
    """Return the pieces that have rows, and what there is to know of all of them."""
    pairs = zip(pieces, surveys, strict=True)
    return [piece for piece, (found, _) in pairs if found is not None], together(surveys)


def place_of(source: Source, executor: Any, watcher: Watcher | None = None) -> Callable[[], Place]:
    """Return how to look at a source a first time, here or with workers."""
    client = executor if hasattr(executor, "scheduler_info") else None
    if executor is None and isinstance(source, DaskCollections):
        client = running_client()
    if client is not None:
        return lambda: OnDask.look(client, source)
    if executor is None:
        return lambda: Here.look(source, watcher)
    return lambda: WithExecutor.look(executor, source)


def check_executor(executor: Any) -> Any:
    """Return it, or refuse what can run nothing."""
    if executor is None or isinstance(executor, Executor) or hasattr(executor, "scheduler_info"):
        return executor
    if not callable(getattr(executor, "map", None)):
        raise TypeError(f"executor must be a concurrent.futures.Executor or a Dask Client, got {executor!r:.80}")
    return executor


def refuse_beside(**beside: Any) -> None:
    """Refuse what is given beside a source."""
    for name, value in beside.items():
        if value is not None:
            raise ValueError(f"{name} must be left out: a source brings its own labels and weights")


def placed_in_memory(data: Labelled, executor: Any, scores: int) -> Placed:
    """Return data that are all at hand, here or on a device, and who adds up over them; a row has so many scores."""
    device = data.design.place
    if device is None:
        return Placed(data, Threads(threads())) if executor is None else shared_out(data, executor)
    if executor is not None:
        raise ValueError("executor must be left out: tensors stay on their device")
    from majorant.objective.device import OnDevice

    return Placed(data, OnDevice(device, scores))


def shared_out(data: InMemory, executor: Any) -> Placed:
    """Return data that are in memory here as data that the workers of an executor hold."""
    from majorant.objective.executors import ExecutorBlocks

    many = SHARES_PER_WORKER * workers_of(executor)
    shares = [[part] for part in data.blocks(max(-(-len(data) // many), 1))]
    pool = executor.get_executor() if hasattr(executor, "scheduler_info") else executor
    like = data.part(0, min(len(data), SHOWN))
    return Placed(Elsewhere(ExecutorBlocks.holding(pool, shares), like, len(data)), AtWorkers())


def workers_of(executor: Any) -> int:
    """Return how many workers an executor has, or how many cores there are if it does not say."""
    return int(getattr(executor, "_max_workers", None) or os.cpu_count() or 1)


def running_client() -> Any:
    """Return the Dask client of this process, if there is one."""
    try:
        from distributed import default_client

        return default_client()
    except (ImportError, ValueError):
        return None
