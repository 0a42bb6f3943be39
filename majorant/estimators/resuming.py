"""Checkpoints: fits that were interrupted go on. What a checkpoint holds besides the model, and whether it suits a fit.

The data of a fit are told from others by a fingerprint, which takes a small share of a pass over them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from majorant.core.checks import Array
from majorant.core.line_search import Point
from majorant.core.objective import Objective
from majorant.core.remote import RemoteBlocks, RemoteRows
from majorant.core.result import Fitted, Progress
from majorant.core.rows import Data
from majorant.core.solver import Solver, State
from majorant.device.estimators import to_array
from majorant.estimators import saving as storage

# Rows of which a fingerprint holds a digest, evenly spread; labels count of all rows, so many at a time.
LOOKED_AT, STRETCH = 64, 2**20
# Scores that a checkpoint holds, at most.
MOST_SCORES = 2**24
PART = "checkpoint"
# Settings that a fit may go on with another value of: the problem, and the way to its solution, are the same.
FREE = ("tol", "max_iter", "verbose", "n_jobs", "warm_start", "dual", "multi_class", "l1_ratio", "callbacks")
# What older code writes for the penalty that is meant anyway.
ALIKE = {"deprecated": "l2", "elasticnet": "l2"}

Fingerprint = dict[str, Any]


def fingerprint(data: Data, names: Iterable[Any]) -> Fingerprint:
    """Return facts and digests by which data, and the names of what is in them, are told from others."""
    prints: Fingerprint = {"number of rows": len(data)}
    # Labels, weights and offsets of all rows, which are in this process unless workers hold the rows.
    if not isinstance(data, RemoteRows):
        digests = {name: sha256() for name in ("labels", "weights", "offsets", "lengths of chunks")}
        for rows in data.outlines(STRETCH):
            block: Any = rows
            arrays = (block.y, block.weight, getattr(block, "offset", None), getattr(block, "starts", len(block)))
            for digest, array in zip(digests.values(), arrays, strict=True):
                digest.update(b"" if array is None else _bytes(np.asarray(to_array(array))))
        prints |= {name: digest.hexdigest() for name, digest in digests.items()}
    # Some rows.
    like = data.like
    some = like.take(np.arange(min(LOOKED_AT, len(like))) * len(like) // min(LOOKED_AT, len(like)))
    facts, parts = some._identity()
    prints |= facts
    for name, of_rows in parts.items():
        digest = sha256()
        for array in of_rows:
            digest.update(f"{array.shape} {array.dtype.str}".encode())
            digest.update(_bytes(array))
        prints[name] = digest.hexdigest()
    # Names.
    digest = sha256()
    for name in names:
        digest.update(f"{name!r}\n".encode(errors="surrogatepass"))
    return prints | {"names of classes or attributes": digest.hexdigest()}


def _bytes(array: Array) -> bytes | memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


@dataclass(frozen=True, eq=False)
class Saving:
    """How the fit of an estimator is written to a file, at any step of it."""

    estimator: Any
    objective: Objective
    names: Callable[[], Iterable[Any]]  # of classes, and of what features are by name

    def __call__(self, path: str | Path, fitted: Fitted, progress: Progress | None = None) -> None:
        """Write the model as it would be if the fit had ended so; the one that is fitted is left alone."""
        model, parts = copy(self.estimator), dict[str, Any]()
        model._publish(fitted)
        if progress is not None:
            scores = None if progress.state.point is None else progress.state.point.scores
            arrays = isinstance(scores, list) and all(isinstance(each, np.ndarray) for each in scores)
            # Scores that are not in this process, or too many for a file, are computed again.
            if scores is not None and not (arrays and sum(each.size for each in scores) <= MOST_SCORES):
                progress = without_scores(progress)
            parts = {PART: {"data": self.fingerprint, "progress": progress}}
        facts, arrays = model._written(None)
        storage.write(path, type(model).__name__, facts, arrays, parts)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """What tells the data from others."""
        return fingerprint(self.objective.data, self.names())


def resumed(path: Any, estimator: Any, saving: Saving) -> Progress | None:
    """Return how far the fit of a checkpoint had come, if it was one of this problem; raise if it was not."""
    if path is None:
        return None
    with storage.naming(path):
        with storage.Archive.opened(path) as archive:
            facts, rebuild = archive.facts(type(estimator).__name__), archive.part(PART)
        settings = storage.fact(facts, "settings", dict)
    if rebuild is None:
        raise ValueError(f"resume_from={str(path)!r} holds a model, but no checkpoint: only callbacks write those")
    for name, value in storage.settings_of(estimator).items():
        before, now = (
            ALIKE.get(each, each) if isinstance(each, str) else storage.storable(each)
            for each in (settings.get(name, value), value)
        )
        if name not in FREE and before != now:
            raise ValueError(
                f"{name} was {settings[name]!r} in the fit that is to be resumed, got {value!r}; only "
                "tol, max_iter, verbose, n_jobs and callbacks may change"
            )
    with storage.naming(path):
        part = rebuild()
    if not _is_whole(part):
        raise ValueError(f"resume_from={str(path)!r} holds a checkpoint that this package did not write")
    progress: Progress = part["progress"]
    for name, value in saving.fingerprint.items():
        before = part["data"].get(name, value)  # workers' rows have fewer digests
        if before != value:
            plain = ("number of rows", "number of columns", "number of parameters", "kind of numbers")
            differs = f"the {name} was {before}, got {value}" if name in plain else f"the {name} are others"
            raise ValueError(f"resume_from={str(path)!r} is a checkpoint of other data: {differs}")
    # Scores may now be kept otherwise than they were, or not at all.
    kept = saving.objective.keeps_scores and not isinstance(saving.objective.blocks, RemoteBlocks)
    return progress if progress.state.point is None or kept else without_scores(progress)


def without_scores(progress: Progress) -> Progress:
    """Return the progress without the scores of rows, which are computed again, for a pass over the data."""
    return replace(progress, state=replace(progress.state, point=replace(progress.state.point, scores=None)))


def _is_whole(part: Any) -> bool:
    """Return whether this is a checkpoint as it is written."""
    progress, data = (part.get("progress"), part.get("data")) if isinstance(part, dict) else (None, None)
    if not isinstance(progress, Progress) or not isinstance(data, dict):
        return False
    if not all(isinstance(name, str) and isinstance(value, str | int) for name, value in data.items()):
        return False
    state: Any = progress.state
    if not isinstance(state, State) or not isinstance(progress.solver, Solver):
        return False
    most = np.iinfo(np.int32).max  # steps, which are counted in an int32
    steps = progress.trace.get("step", np.zeros(0)) if isinstance(progress.trace, dict) else None
    counted = type(progress.steps) is int and 0 <= progress.steps <= most
    if not counted or not isinstance(steps, np.ndarray) or steps.dtype.kind != "f" or not (steps <= most).all():
        return False
    memories = progress.memories
    if not isinstance(memories, tuple) or not all(isinstance(each, tuple) and len(each) == 2 for each in memories):
        return False
    has_theta = isinstance(state.theta, np.ndarray) and state.theta.ndim == 1 and state.theta.dtype.kind == "f"
    return has_theta and isinstance(state.point, Point | None)
