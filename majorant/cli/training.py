"""Training on a file: all of it at once, or chunk by chunk."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from majorant import __version__
from majorant._checks import Array
from majorant.cli.output import progress
from majorant.cli.readers import Tables
from majorant.cli.schema import Schema, Wanted, read_split
from majorant.cli.scores import measure
from majorant.cli.tables import Table, find_classes
from majorant.cli.unseen import Unseen
from majorant.estimators import LogisticRegression


@dataclass(frozen=True)
class Fit:
    """A model that was trained, and what to say about it."""

    estimator: LogisticRegression
    schema: Schema
    rows: int
    seconds: float
    result: str
    test: dict[str, Any] | None = None

    @property
    def passes(self) -> float:
        """Over the rows, as the solver counts them; one of a stream."""
        trace = getattr(self.estimator, "trace_", None)
        return float(trace["passes"][-1]) if trace is not None and len(trace["passes"]) else 1.0

    def notes(self, trained_on: str) -> dict[str, Any]:
        """Return what travels with the model."""
        return {
            "schema": self.schema.to_json(),
            "trained_on": trained_on,
            "rows": self.rows,
            "result": self.result,
            "version": __version__,
        }


def fit_whole(
    source: Tables,
    wanted: Wanted,
    estimator: LogisticRegression,
    share: float | None,
    seed: int,
    resume_from: str | None = None,
) -> Fit:
    """Train on all rows, or on all but a share that the model is then tested on."""
    data = read_split(source, wanted, share, seed)
    schema, classes = data.schema, data.classes
    check_class_weight(estimator, classes)
    X, y = schema.features(data.train), schema.labels(data.train, classes)
    started = time.perf_counter()
    estimator.fit(X, y, sample_weight=schema.weights(data.train), resume_from=resume_from)
    seconds = time.perf_counter() - started
    test = None
    if data.test is not None:
        unseen = Unseen(schema)
        unseen.add(data.test)
        unseen.tell(f"the rows of {source.name} to test on")
        test = measure(schema.labels(data.test, classes), estimator.predict_proba(schema.features(data.test)), classes)
    return Fit(estimator, schema, len(data.train), seconds, str(estimator.result_), test)


def fit_stream(source: Tables, wanted: Wanted, estimator: LogisticRegression, named: list[str], rows: int) -> Fit:
    """Train by ``partial_fit`` on chunks of so many rows.

    Classes, categories, means and scales come from a first pass; with the classes ``named``, from the first chunk.
    """
    started = time.perf_counter()
    schema, classes = _learn_ahead(source, wanted, named, rows)
    check_class_weight(estimator, classes)
    seen = chunks = 0
    unseen = Unseen(schema)
    with progress("streaming") as move:
        for part in _complete_chunks(source, wanted, rows):
            unseen.add(part)
            X, y = schema.features(part), schema.labels(part, classes)
            estimator.partial_fit(X, y, classes=classes, sample_weight=schema.weights(part))
            seen, chunks = seen + len(part), chunks + 1
            move(seen)
    unseen.tell(source.name)
    sentence = f"one pass over {seen} rows in {chunks} chunks; nothing certifies a stream"
    return Fit(estimator, schema, seen, time.perf_counter() - started, sentence)


def check_class_weight(estimator: LogisticRegression, classes: Array) -> None:
    """Refuse weights for what is no class."""
    given = estimator.class_weight
    unknown = set(given) - set(classes.tolist()) if isinstance(given, dict) else set()
    if unknown:
        raise ValueError(f"--class-weight names no class of the data: {sorted(unknown)}; there are {classes.tolist()}")


def _learn_ahead(source: Tables, wanted: Wanted, named: list[str], rows: int) -> tuple[Schema, Array]:
    if not named:
        return Schema.learn(source, wanted)
    if not source.named:
        raise ValueError(
            f"leave out --classes: the first pass over {source.name} is needed to count its features, and finds them"
        )
    classes = find_classes(named, wanted.target or "label")
    first = next(iter(_complete_chunks(source, wanted, rows)), None)
    if first is None:
        raise ValueError(f"{source.name} has no rows to learn from: each of them lacks a value")
    return Schema.learn(source, wanted, [first])[0], classes


def _complete_chunks(source: Tables, wanted: Wanted, rows: int) -> Iterator[Table]:
    for part in source.chunks(rows):
        complete = wanted.complete(part)
        if len(complete):
            yield complete
