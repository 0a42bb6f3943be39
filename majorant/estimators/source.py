"""What the fits of a grid of C share: the data, read once, and what the fit before has learnt of their curvature.

Where the rows of a fit are: in memory, read pass by pass, or with the workers of an executor or a Dask cluster.

Fitting rows that are not in memory, and predicting them.

Predictions for sources: chunk by chunk, as they are read.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial, wraps
from math import inf, log
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from majorant.callbacks import Callback, PassLine
from majorant.core.checks import Array
from majorant.core.labelled import Labelled
from majorant.core.objective import Objective
from majorant.core.remote import RemoteBlocks, RemoteRows, SharedReads
from majorant.core.result import Solution
from majorant.core.rows import Data, InMemory, Reducer, Threads
from majorant.core.threads import all_finite, sharing, threads
from majorant.estimators.base import check_class_weight, fit_threads
from majorant.estimators.fitting import ONE_AFTER_THE_OTHER, StepTasks, warn_outside
from majorant.sources.base import SHOWN, Chunk, Source, Watcher
from majorant.sources.cache import ChunkCache, prefetch
from majorant.sources.chunks import DaskCollections
from majorant.sources.streamed import Encoding, ShareOfSource, Streamed, blocks_of, evenly, shown
from majorant.sources.survey import RowLabels, Survey, survey_piece, survey_source, total_survey

T = TypeVar("T")


class Sweep:
    """Fits of the same rows under one ridge after another."""

    def __init__(self) -> None:
        self._objective: Objective | None = None
        self._seen: Any = None
        self._found: list[tuple[float, Solution]] = []  # the last two, with log λ of each

    def seen(self, look: Callable[[], T]) -> T:
        """Return what a first look at the rows has found: only one is needed."""
        self._seen = look() if self._seen is None else self._seen
        return self._seen

    def under(self, ridge: Callable[[], Array], make: Callable[[], Objective]) -> Objective:
        """Return the objective of the rows under a ridge; what it takes to read them is done once."""
        self._objective = make() if self._objective is None else self._objective.with_ridge(ridge())
        return self._objective

    def start(self) -> Solution | None:
        """Return the solution before, with the parameters that are likely now."""
        if not self._found:
            return None
        return replace(self._found[-1][1], params=self._foretold(self._size()))

    def add(self, solution: Solution | None) -> None:
        """Remember a solution, if it is one to go on from."""
        if solution is not None and all_finite(solution.params):
            self._found = [*self._found[-1:], (self._size(), solution)]

    def _foretold(self, size: float) -> Array:
        """Return θ on the line in log λ through the last two: more of them foretell no better."""
        (before, earlier), (at, latest) = self._found[0], self._found[-1]
        if not (abs(before) < inf and abs(at) < inf and abs(size) < inf) or at == before:
            return latest.params
        return latest.params + (size - at) / (at - before) * (latest.params - earlier.params)

    def _size(self) -> float:
        """Return log λ, up to a constant."""
        assert self._objective is not None
        largest = float(self._objective.ridge.max())
        return log(largest) if largest > 0 else -inf


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
    row_labels: RowLabels
    cache: ChunkCache
    watcher: Watcher | None = None

    @classmethod
    def look(cls, source: Source, watcher: Watcher | None = None) -> Here:
        """Read them a first time, and copy them where there is room."""
        cache, watcher = ChunkCache(), watcher or source.watcher
        return cls(source, *survey_source(source, cache, watcher), cache, watcher)

    def put(self, encoding: Encoding) -> Placed:
        """Return rows that are read."""
        data = Streamed(self.source, self.survey, self.row_labels, encoding, self.cache, self.watcher)
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
        from majorant.core.remote import ExecutorBlocks

        shares = evenly(self.pieces, SHARES_PER_WORKER * workers_of(self.executor))
        fits = self.survey.stored * self.survey.dtype.itemsize <= LARGEST_SHARE * len(shares)
        blocks = ExecutorBlocks(self.executor, [ShareOfSource(share, encoding, fits) for share in shares], fits=fits)
        return Placed(RemoteRows(blocks, shown(encoding, self.pieces), self.survey.rows), Threads())


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
        return Placed(RemoteRows(blocks, like.result(), self.survey.rows), Threads())


def held_on_dask(client: Any, make: Callable[..., Any], pieces: Sequence[Any], size: float) -> RemoteBlocks:
    """Return the blocks that ``make`` makes of pieces: in the memory of workers, or made at every round.

    ``size`` is how many bytes they have.
    """
    from majorant.core.dask import ActorBlocks, Actors, DaskBlocks

    workers = client.scheduler_info(n_workers=-1)["workers"]
    memory = float(sum(worker["memory_limit"] or 2**33 for worker in workers.values()))
    if size <= PINNED * memory:
        shares = [make(*some) for some in evenly(pieces, max(len(workers), 1))]
        return ActorBlocks(Actors(client, shares, memory))
    many = SHARES_PER_WORKER * sum(worker["nthreads"] for worker in workers.values())
    return DaskBlocks(client, [make(*some) for some in evenly(pieces, max(many, 1))])


def _survey_there(piece: Any) -> tuple[tuple[Survey | None, list[Array]], str]:
    """Return what there is to know of a piece, and which worker has looked."""
    from distributed import get_worker

    return survey_piece(piece), get_worker().address


def _with_rows(pieces: Sequence[Any], surveys: Sequence[tuple[Survey | None, list[Array]]]) -> tuple[list[Any], Survey]:
    """Return the pieces that have rows, and what there is to know of all of them."""
    total = total_survey((found for found, _ in surveys), [names for _, unweighted in surveys for names in unweighted])
    return [piece for piece, (found, _) in zip(pieces, surveys, strict=True) if found is not None], total


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
    from majorant.device.blocks import OnDevice

    return Placed(data, OnDevice(device, scores))


def shared_out(data: InMemory, executor: Any) -> Placed:
    """Return data that are in memory here as data that the workers of an executor hold."""
    from majorant.core.remote import ExecutorBlocks

    many = SHARES_PER_WORKER * workers_of(executor)
    shares = [[part] for part in data.blocks(max(-(-len(data) // many), 1))]
    pool = executor.get_executor() if hasattr(executor, "scheduler_info") else executor
    like = data.part(0, min(len(data), SHOWN))
    return Placed(RemoteRows(ExecutorBlocks.holding(pool, shares), like, len(data)), Threads())


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


# Passes over rows that have to be read are worth sharing, however few they are.
LARGE = 2**62
# Fits that share a read: their scores are all kept.
TOGETHER = 16
# Solvers that visit rows as they come want a row's place to tell less of its label than this.
SORTED = 0.3
Classifier = TypeVar("Classifier", bound=Any)


class FitSource:
    """``fit`` of a source, for a linear classifier."""

    def _fit_source(self: Classifier, source: Source, how: How, **beside: Any) -> Classifier:
        """Fit to all rows of a source: a first look, then as many passes as it takes."""
        refuse_beside(**beside)
        sweep = Sweep() if self._sweep is None else self._sweep
        line = PassLine() if self.verbose and source.watcher is None else None
        how = how._replace(line=line if line is not None and line.is_seen else None)
        with sharing(fit_threads(self.n_jobs, LARGE)):
            place = sweep.seen(place_of(source, how.executor, None if line is None else line.watch))
            self._take_note(source, place.survey)
            self._warn_of_sorted(place)
            if line is not None:
                line.begin("fitting", place.survey.rows)
            self._solve_at(place, sweep, lambda: self._objective_at(place), how)
        return self

    def _solve_at(self: Any, place: Place, sweep: Sweep, make: Callable[[], Objective], how: How) -> None:
        """Fit rows that have been looked at; those of one class as they are fitted in memory."""
        tasks = StepTasks(self, None, lambda: np.empty(0), self._attributes)
        of_class, found = class_weights(self.class_weight, place.survey), place.survey.weights
        weighs = np.flatnonzero(found if of_class is None else found * of_class)
        if self._is_free and len(weighs) == 1:
            self._fit_one_class(tasks, int(weighs[0]), 0.0)
        else:
            self._solve(sweep.under(self._ridge, make), sweep, tasks, how)

    def _warn_of_sorted(self: Any, place: Place) -> None:
        """Say so if rows are to be visited one after the other, stand sorted by their labels, and stay so."""
        if self.solver not in ONE_AFTER_THE_OTHER or not isinstance(place, Here) or place.cache.is_open:
            return
        told = place.row_labels.told_by_chunk(self.classes_)
        if told > SORTED:
            warn_outside(
                f"rows seem to be sorted by label (where a row stands tells {told:.0%} of its label), and "
                f"solver={self.solver!r} visits them in the order of the source, as the disk has no room for a copy: "
                "it may end far from the optimum; point TMPDIR at a larger disk, shuffle the rows, or use "
                "solver='auto', to which their order does not matter"
            )

    def _objective_at(self: Any, place: Place) -> Objective:
        data, reducer = place.put(self._encoding(place.survey))
        return Objective(self._model(), data, ridge=self._ridge(), reducer=reducer)

    def _take_note(self: Any, source: Source, found: Survey) -> None:
        """Set what is known of rows and labels once all have been looked at."""
        self.n_features_in_ = found.columns
        self.__dict__.pop("feature_names_in_", None)
        names = found.column_names if source.feature_names is None else source.feature_names
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        self._dtype = found.dtype
        self._set_classes(found.names)

    def _encoding(self: Any, found: Survey) -> Encoding:
        return Encoding(
            classes=self.classes_,
            class_weights=class_weights(self.class_weight, found),
            columns=found.columns,
            dtype=found.dtype,
            constant=bool(self.fit_intercept),
            centre=found.centre() if self._is_free else None,
            total=found.rows,
        )


def fit_together(source: Source, models: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """Yield the number of every model and the model, fitted to the same source: some at a time share every read."""
    place: Place | None = None
    for begin in range(0, len(models), TOGETHER):
        some = models[begin : begin + TOGETHER]
        with sharing(fit_threads(some[0].n_jobs, LARGE)):
            place = place_of(source, None)() if place is None else place
            _fit_members(source, place, some)
        yield from enumerate(some, begin)


def _fit_members(source: Source, place: Place, models: Sequence[Any]) -> None:
    for model in models:
        model._check_settings()
        model._take_note(source, place.survey)
    data, reducer = place.put(models[0]._encoding(place.survey))
    reads = SharedReads(reducer)

    def fit(model: Any) -> None:
        make = partial(Objective, model._model(), data, ridge=model._ridge(), reducer=reads)
        model._solve_at(place, Sweep(), make, How())

    reads.run_all([partial(fit, model) for model in models])


def class_weights(class_weight: Any, found: Survey) -> Array | None:
    """Return the weight of each class, of rows of which only totals are known."""
    if class_weight is None:
        return None
    if not isinstance(class_weight, Mapping) and class_weight != "balanced":
        raise ValueError(f"class_weight must be a dict, 'balanced' or None, got {class_weight!r}")
    if not isinstance(class_weight, Mapping):
        weighs = found.weights > 0  # a balance is of classes that have a weight
        balanced = found.weights.sum() / (weighs.sum() * np.where(weighs, found.weights, 1.0))
        return np.where(weighs, balanced, 0.0)
    unknown = [label for label in class_weight if label not in found.names]
    if unknown:
        raise ValueError(f"class_weight names classes that no row has: {unknown}; there are {found.names.tolist()}")
    check_class_weight(class_weight)
    return np.array([float(class_weight.get(name, 1.0)) for name in found.names.tolist()])


Method = TypeVar("Method", bound=Callable[..., Array])


def chunkwise(method: Method) -> Method:
    """Let a method of rows take a source as well: what it returns for each chunk is put together."""

    @wraps(method)
    def of_rows_or_source(self: Any, X: Any, *args: Any, **kwargs: Any) -> Array:
        if not isinstance(X, Source):
            return method(self, X, *args, **kwargs)
        if kwargs.get("offset") is not None or (args and args[0] is not None):
            raise ValueError("offset must be left out: a source has none")
        found = [method(self, chunk.X, *args, **kwargs) for chunk in fitting_chunks(self, X)]
        if not found:
            raise ValueError("there are no rows to predict: every piece of the source is empty")
        return np.concatenate(found)

    return of_rows_or_source  # type: ignore[return-value]


def accuracy(classifier: Any, source: Source, **beside: Any) -> float:
    """Return the share of rows, by weight, whose label is the likeliest one."""
    refuse_beside(**beside)
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
    _check_names(classifier, source)
    with warnings.catch_warnings():  # names have been compared
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        for chunk in prefetch(source.chunks):
            fitting = _fitted_width(chunk, classifier.n_features_in_)
            _refuse_other_names(classifier, fitting)
            fitting.refuse_non_finite()
            if len(fitting):
                yield fitting


def _check_names(classifier: Any, source: Source) -> None:
    ours = getattr(classifier, "feature_names_in_", None)
    if ours is not None and source.feature_names is not None and list(ours) != list(source.feature_names):
        different = next((a for a, b in zip(ours, source.feature_names, strict=False) if a != b), "")
        raise ValueError(
            f"the columns must be those of the fit, in the same order: {len(ours)} with {different!r} among them, got "
            f"{len(source.feature_names)}; pass features={list(ours)[:3]}…"
        )


def _refuse_other_names(classifier: Any, chunk: Chunk) -> None:
    ours = getattr(classifier, "feature_names_in_", None)
    if ours is not None and chunk.columns is not None and tuple(ours) != chunk.columns:
        other = next(name for name, our in zip(chunk.columns, ours, strict=True) if name != our)
        raise chunk.refuse(f"column {other!r} stands where another one did in the fit")


def _fitted_width(chunk: Chunk, columns: int) -> Chunk:
    """Return a chunk whose unwritten columns are zero, and without those that were never seen."""
    if chunk.X.shape[1] == columns:
        return chunk
    if not chunk.open_ended:
        raise chunk.refuse(f"there are {chunk.X.shape[1]} columns, but the model was fitted to {columns}")
    X = chunk.X[:, :columns] if chunk.X.shape[1] > columns else chunk.X
    wide = sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], columns))
    return Chunk(wide, chunk.labels, chunk.weight, chunk.where, chunk.first)
