"""What tells data from others, at the price of a small share of a pass over them.

Fits that were interrupted, and go on: what a checkpoint holds besides the model, and whether it suits a fit.
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

# Rows that are looked at, evenly spread over those that are here.
LOOKED_AT = 64
# Labels that are looked at at a time; all of them are.
STRETCH = 2**20
# What is told as it is; of the rest there are digests.
PLAIN = ("number of rows", "number of columns", "number of parameters", "kind of numbers")

Fingerprint = dict[str, Any]


def fingerprint(data: Data, names: Iterable[Any]) -> Fingerprint:
    """Return what tells data, and the names of what is in them, from others: in words, and how to tell."""
    like = data.like
    some = like.take(np.arange(min(LOOKED_AT, len(like))) * len(like) // min(LOOKED_AT, len(like)))
    facts, arrays = some._identity()
    facts.update((name, _digest(parts)) for name, parts in arrays.items())
    named = {"names of classes or attributes": _digest_of_names(names)}
    return {"number of rows": len(data), **_of_labels(data), **facts, **named}


def difference(before: Fingerprint, now: Fingerprint) -> str:
    """Return in words what differs, nothing if they are the same."""
    for name, value in now.items():
        then = before.get(name, value)  # what workers hold is not looked at so closely
        if then != value:
            return f"the {name} was {then}, got {value}" if name in PLAIN else f"the {name} are others"
    return ""


def _of_labels(data: Data) -> Fingerprint:
    """Return digests of labels, weights and offsets of all rows, which are here unless workers hold the rows."""
    if isinstance(data, RemoteRows):
        return {}
    digests = {name: sha256() for name in ("labels", "weights", "offsets", "lengths of chunks")}
    for block in data.outlines(STRETCH):
        found: Any = block
        arrays = (found.y, found.weight, getattr(found, "offset", None), getattr(found, "starts", len(found)))
        for digest, array in zip(digests.values(), arrays, strict=True):
            digest.update(b"" if array is None else _bytes(np.asarray(to_array(array))))
    return {name: digest.hexdigest() for name, digest in digests.items()}


def _digest(arrays: Iterable[Array]) -> str:
    digest = sha256()
    for array in arrays:
        digest.update(f"{array.shape} {array.dtype.str}".encode())
        digest.update(_bytes(array))
    return digest.hexdigest()


def _digest_of_names(names: Iterable[Any]) -> str:
    digest = sha256()
    for name in names:
        digest.update(f"{name!r}\n".encode(errors="surrogatepass"))
    return digest.hexdigest()


def _bytes(array: Array) -> bytes | memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


PART = "checkpoint"
# Settings that a fit may go on with another value of: the problem, and the way to its solution, are the same.
FREE = ("tol", "max_iter", "verbose", "n_jobs", "warm_start", "dual", "multi_class", "l1_ratio", "callbacks")
# What older code writes for the penalty that is meant anyway.
ALIKE = {"deprecated": "l2", "elasticnet": "l2"}
# Steps that no fit makes.
MOST_STEPS = 2**31
# Scores that are written, at most; more are found again.
MOST_SCORES = 2**24


@dataclass(frozen=True, eq=False)
class Saving:
    """How the fit of an estimator is written to a file, at any step of it."""

    estimator: Any
    objective: Objective
    names: Callable[[], Iterable[Any]]  # of classes, and of what features are by name

    def __call__(self, path: str | Path, fitted: Fitted, progress: Progress | None = None) -> None:
        """Write the model as it would be if the fit had ended so; the one that is fitted is left alone."""
        model = copy(self.estimator)
        model._publish(fitted)
        parts = {} if progress is None else {PART: self._part(progress)}
        model._write(path, None, parts)

    def _part(self, progress: Progress) -> dict[str, Any]:
        return {"data": self.fingerprint, "progress": _without_large(progress)}

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """What tells the data from others."""
        return fingerprint(self.objective.data, self.names())


def resumed(path: Any, estimator: Any, saving: Saving) -> Progress | None:
    """Return how far the fit had come that a checkpoint is of, if it was one of this problem; raise if it was not."""
    if path is None:
        return None
    kind = type(estimator).__name__
    with storage.naming(path):
        rebuild, before = storage.read_part(path, kind, PART), storage.read_facts(path, kind)
        settings = storage.fact(before, "settings", dict)
    if rebuild is None:
        raise ValueError(f"resume_from={str(path)!r} holds a model, but no checkpoint: only callbacks write those")
    _refuse_other_settings(settings, storage.settings_of(estimator))
    with storage.naming(path):
        part = rebuild()
    if not _is_whole(part):
        raise ValueError(f"resume_from={str(path)!r} holds a checkpoint that this package did not write")
    differs = difference(part["data"], saving.fingerprint)
    if differs:
        raise ValueError(f"resume_from={str(path)!r} is a checkpoint of other data: {differs}")
    return _as_kept(part["progress"], saving.objective)


def _as_kept(progress: Progress, objective: Objective) -> Progress:
    """Return the progress without scores where they are kept otherwise than they were, or not at all."""
    state: State = progress.state
    if state.point is None or (objective.keeps_scores and not isinstance(objective.blocks, RemoteBlocks)):
        return progress
    return replace(progress, state=replace(state, point=replace(state.point, scores=None)))


def _is_whole(part: Any) -> bool:
    """Return whether this is what is written."""
    progress, data = (part.get("progress"), part.get("data")) if isinstance(part, dict) else (None, None)
    if not isinstance(progress, Progress) or not isinstance(data, dict):
        return False
    if not all(isinstance(name, str) and isinstance(value, str | int) for name, value in data.items()):
        return False
    state = progress.state
    if not isinstance(state, State) or not isinstance(progress.solver, Solver):
        return False
    steps = progress.trace.get("step", np.zeros(0)) if isinstance(progress.trace, dict) else None
    counted = type(progress.steps) is int and 0 <= progress.steps < MOST_STEPS
    if not counted or not isinstance(steps, np.ndarray) or steps.dtype.kind != "f" or not (steps < MOST_STEPS).all():
        return False
    has_theta = isinstance(state.theta, np.ndarray) and state.theta.ndim == 1 and state.theta.dtype.kind == "f"
    return has_theta and isinstance(state.point, Point | None)


def _refuse_other_settings(before: dict[str, Any], now: dict[str, Any]) -> None:
    for name, value in now.items():
        if name in FREE or name not in before:
            continue
        then = before[name]
        if _meant(then) != _meant(value):
            raise ValueError(
                f"{name} was {then!r} in the fit that is to be resumed, got {value!r}; only "
                "tol, max_iter, verbose, n_jobs and callbacks may change"
            )


def _meant(value: Any) -> Any:
    if isinstance(value, str):
        return ALIKE.get(value, value)
    return storage.storable(value)


def _without_large(progress: Progress) -> Progress:
    """Return the progress without scores that are too many for a file, or are not here."""
    state: State = progress.state
    if state.point is None or state.point.scores is None or _are_few(state.point.scores):
        return progress
    return replace(progress, state=replace(state, point=replace(state.point, scores=None)))


def _are_few(scores: Any) -> bool:
    if not isinstance(scores, list) or not all(isinstance(each, np.ndarray) for each in scores):
        return False
    return sum(each.size for each in scores) <= MOST_SCORES
