"""Rows that are not in memory: a source is read once to know its labels and columns, and then pass by pass.

Passes are made by this process, by the workers of an executor, or by those of a Dask cluster, which hold the rows where
there is room. Predictions are made chunk by chunk, as rows are read.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from majorant.core.checks import Array
from majorant.core.remote import ExecutorBlocks, RemoteBlocks, RemoteRows
from majorant.core.rows import Data, InMemory, Reducer, Threads
from majorant.core.threads import threads
from majorant.estimators.base import check_class_weight
from majorant.sources.base import SHOWN, Chunk, DaskCollections, Source, Watcher
from majorant.sources.cache import ChunkCache, prefetch
from majorant.sources.streamed import (
    Encoding,
    RowLabels,
    Streamed,
    Survey,
    blocks_of,
    evenly,
    shown,
    streamed_blocks_of,
    survey_piece,
    survey_source,
    total_survey,
)

# Shares for each worker: who has finished one early takes another.
SHARES_PER_WORKER = 2
# Bytes of a share that a worker may keep in memory; of the memory of a cluster, the share that rows may take.
LARGEST_SHARE, PINNED = 2**28, 0.5


class Placed(NamedTuple):
    """Data, and who adds up over them."""

    data: Data
    reducer: Reducer


class Surveyed(NamedTuple):
    """Rows that have been read once: what is known of them, and a function that returns them, encoded."""

    survey: Survey
    place: Callable[[Encoding], Placed]
    in_order: RowLabels | None = None  # labels of the rows, where these are visited in the order of the source


def surveyed(source: Source, executor: Any = None, watcher: Watcher | None = None) -> Surveyed:
    """Read a source a first time: in this process, or by the workers of an executor or of a Dask client."""
    client = executor if hasattr(executor, "scheduler_info") else None
    if executor is None and isinstance(source, DaskCollections):
        client = running_client()
    if client is not None:
        from dask import delayed

        given = source.delayed_pieces() if isinstance(source, DaskCollections) else source.pieces()
        surveys = client.gather(client.compute([delayed(_survey_on_worker)(piece) for piece in given]))
        pieces, survey = _with_rows(given, [of_piece for of_piece, _ in surveys])
        # Neighbours share a worker: pieces that one worker has need not travel.
        workers = [worker for (of_piece, _), worker in surveys if of_piece is not None]
        placed = [pieces[k] for k in sorted(range(len(pieces)), key=workers.__getitem__)]

        def on_cluster(encoding: Encoding) -> Placed:
            # The first piece, as pieces were given, shows the form of all rows.
            like = client.compute(delayed(shown)(encoding, [pieces[0]]))
            size = survey.stored * survey.dtype.itemsize
            blocks = held_on_dask(client, partial(delayed(blocks_of), encoding), placed, size)
            return Placed(RemoteRows(blocks, like.result(), survey.rows), Threads())

        return Surveyed(survey, on_cluster)
    if executor is not None:
        all_pieces = source.pieces()
        pieces, survey = _with_rows(all_pieces, list(executor.map(survey_piece, all_pieces)))

        def by_workers(encoding: Encoding) -> Placed:
            shares = evenly(pieces, SHARES_PER_WORKER * workers_of(executor))
            fits = survey.stored * survey.dtype.itemsize <= LARGEST_SHARE * len(shares)
            make = partial(blocks_of if fits else streamed_blocks_of, encoding)
            blocks = ExecutorBlocks(executor, [partial(make, *share) for share in shares], fits=fits)
            return Placed(RemoteRows(blocks, shown(encoding, pieces), survey.rows), Threads())

        return Surveyed(survey, by_workers)

    cache, watcher = ChunkCache(), watcher or source.watcher
    survey, labels = survey_source(source, cache, watcher)

    def in_process(encoding: Encoding) -> Placed:
        return Placed(Streamed(source, survey, labels, encoding, cache, watcher), Threads(threads()))

    return Surveyed(survey, in_process, None if cache.is_open else labels)


def _survey_on_worker(piece: Any) -> tuple[tuple[Survey | None, list[Array]], str]:
    """Return the survey of a piece, and the address of the worker that has read it."""
    from distributed import get_worker

    return survey_piece(piece), get_worker().address


def _with_rows(pieces: Sequence[Any], surveys: Sequence[tuple[Survey | None, list[Array]]]) -> tuple[list[Any], Survey]:
    """Return the pieces that have rows, and what there is to know of all of them."""
    unweighted = [names for _, names_of_piece in surveys for names in names_of_piece]
    total = total_survey((survey for survey, _ in surveys), unweighted)
    return [piece for piece, (survey, _) in zip(pieces, surveys, strict=True) if survey is not None], total


def held_on_dask(client: Any, make: Callable[..., Any], pieces: Sequence[Any], size: float) -> RemoteBlocks:
    """Return the blocks that ``make`` makes of pieces: in the memory of workers, or made at every round.

    ``size`` is how many bytes they have.
    """
    from majorant.core.remote import ActorBlocks, Actors, DaskBlocks

    workers = client.scheduler_info(n_workers=-1)["workers"]
    memory = float(sum(worker["memory_limit"] or 2**33 for worker in workers.values()))
    if size <= PINNED * memory:
        shares = [make(*share) for share in evenly(pieces, max(len(workers), 1))]
        return ActorBlocks(Actors(client, shares, memory))
    count = SHARES_PER_WORKER * sum(worker["nthreads"] for worker in workers.values())
    return DaskBlocks(client, [make(*share) for share in evenly(pieces, max(count, 1))])


def running_client() -> Any:
    """Return the Dask client of this process, if there is one."""
    try:
        from distributed import default_client

        return default_client()
    except (ImportError, ValueError):
        return None


def check_executor(executor: Any) -> Any:
    """Return the executor; anything that cannot run tasks is refused."""
    if executor is None or isinstance(executor, Executor) or hasattr(executor, "scheduler_info"):
        return executor
    if not callable(getattr(executor, "map", None)):
        raise TypeError(f"executor must be a concurrent.futures.Executor or a Dask Client, got {executor!r:.80}")
    return executor


def workers_of(executor: Any) -> int:
    """Return the number of workers of an executor, or of cores if it does not say."""
    return int(getattr(executor, "_max_workers", None) or os.cpu_count() or 1)


def shared_out(data: InMemory, executor: Any) -> Placed:
    """Return data that are in memory here as data that the workers of an executor hold."""
    count = SHARES_PER_WORKER * workers_of(executor)
    shares = [[part] for part in data.blocks(max(-(-len(data) // count), 1))]
    pool = executor.get_executor() if hasattr(executor, "scheduler_info") else executor
    like = data.part(0, min(len(data), SHOWN))
    return Placed(RemoteRows(ExecutorBlocks.holding(pool, shares), like, len(data)), Threads())


def refuse_beside(**beside: Any) -> None:
    """Refuse what is given beside a source."""
    for name, value in beside.items():
        if value is not None:
            raise ValueError(f"{name} must be left out: a source brings its own labels and weights")


def class_weights(class_weight: Any, survey: Survey) -> Array | None:
    """Return the weight of each class, of rows of which only totals are known."""
    if class_weight is None:
        return None
    if not isinstance(class_weight, Mapping):
        if class_weight != "balanced":
            raise ValueError(f"class_weight must be a dict, 'balanced' or None, got {class_weight!r}")
        weighs = survey.weights > 0  # a balance is of classes that have a weight
        balanced = survey.weights.sum() / (weighs.sum() * np.where(weighs, survey.weights, 1.0))
        return np.where(weighs, balanced, 0.0)
    unknown = [label for label in class_weight if label not in survey.names]
    if unknown:
        raise ValueError(f"class_weight names classes that no row has: {unknown}; there are {survey.names.tolist()}")
    check_class_weight(class_weight)
    return np.array([float(class_weight.get(name, 1.0)) for name in survey.names.tolist()])


# --- predictions --------------------------------------------------------------------------------------------


def accuracy(classifier: Any, source: Source) -> float:
    """Return the accuracy on a source: the share of rows, by weight, whose label is the likeliest one."""
    hits = total = 0.0
    for chunk in fitting_chunks(classifier, source):
        if chunk.labels is None:
            raise chunk.refuse("there are no labels to compare predictions with")
        weight = np.ones(len(chunk)) if chunk.weight is None else chunk.weight
        right = classifier.predict(chunk.X) == chunk.labels.names[chunk.labels.codes]
        hits, total = hits + float(weight @ right), total + float(weight.sum())
    if not total:
        raise ValueError("there are no rows to score, or none that weighs anything")
    return hits / total


def fitting_chunks(classifier: Any, source: Source) -> Iterator[Chunk]:
    """Yield the chunks of a source, read ahead, with the columns of the fit."""
    check_is_fitted(classifier, "coef_")
    ours, columns = getattr(classifier, "feature_names_in_", None), classifier.n_features_in_
    if ours is not None and source.feature_names is not None and list(ours) != list(source.feature_names):
        different = next((a for a, b in zip(ours, source.feature_names, strict=False) if a != b), "")
        raise ValueError(
            f"the columns must be those of the fit, in the same order: {len(ours)} with {different!r} among them, got "
            f"{len(source.feature_names)}; pass features={list(ours)[:3]}…"
        )
    with warnings.catch_warnings():  # names are compared here
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        for chunk in prefetch(source.chunks):
            # Columns that are not written are zero, and those that were never seen in the fit are left out.
            if chunk.X.shape[1] != columns:
                if not chunk.open_ended:
                    raise chunk.refuse(f"there are {chunk.X.shape[1]} columns, but the model was fitted to {columns}")
                X = chunk.X[:, :columns] if chunk.X.shape[1] > columns else chunk.X
                wide = sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], columns))
                chunk = Chunk(wide, chunk.labels, chunk.weight, chunk.where, chunk.first)
            if ours is not None and chunk.columns is not None and tuple(ours) != chunk.columns:
                other = next(name for name, our in zip(chunk.columns, ours, strict=True) if name != our)
                raise chunk.refuse(f"column {other!r} stands where another one did in the fit")
            chunk.refuse_non_finite()
            if len(chunk):
                yield chunk
