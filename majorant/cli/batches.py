"""Training on files pass by pass: the model that memory would have found, in memory for a few chunks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from majorant.cli.cluster import connected
from majorant.cli.readers import Files, Tables
from majorant.cli.schema import EncodedRows, Reading, Schema, Wanted
from majorant.cli.tables import Table
from majorant.cli.training import Fit, check_class_weight
from majorant.estimators import LogisticRegression
from majorant.passes import PassLine


@dataclass(frozen=True)
class Watched:
    """The chunks of a table without rows to leave out; somebody is told of them as they are read."""

    tables: Tables
    wanted: Wanted
    rows: int | None
    line: PassLine

    def __iter__(self) -> Iterator[Table]:
        self.line.begin("first pass")
        for part in self.tables.chunks(self.rows):
            complete = self.wanted.complete(part)
            self.line.watch(len(complete))
            yield complete


def fit_batches(
    source: Tables,
    wanted: Wanted,
    estimator: LogisticRegression,
    *,
    rows: int | None = None,
    scheduler: str | None = None,
    resume_from: str | None = None,
) -> Fit:
    """Train on all rows, read in chunks (of so many, if one says so), here or by the workers of a scheduler.

    Classes, categories, means and scales come from a first pass.
    """
    started = time.perf_counter()
    source = source if scheduler is None else _absolute(source)
    line = PassLine()
    try:
        with connected(scheduler) as client:
            schema, classes = Schema.learn(source, wanted, Watched(source, wanted, rows, line))
            check_class_weight(estimator, classes)
            line.begin("fitting", max(line.rows, 1))
            encoded = EncodedRows(source, Reading(wanted, schema, classes, rows), line.watch)
            estimator.set_params(callbacks=[*(estimator.callbacks or ()), line])
            _fit(estimator, encoded, client, resume_from)
    finally:
        line.end()
    return Fit(estimator, schema, line.total or 0, time.perf_counter() - started, str(estimator.result_))


def _fit(estimator: LogisticRegression, rows: EncodedRows, client: Any, resume_from: str | None) -> None:
    try:
        estimator.fit(rows, executor=client, resume_from=resume_from)
    except ImportError as problem:
        if client is None:
            raise
        raise ValueError(
            f"a worker cannot read the files ({problem}): install 'majorant[files]' of this version there"
        ) from None


def _absolute(source: Tables) -> Tables:
    """Return the same files by names that hold wherever a worker has been started."""
    if isinstance(source, Files):
        return Files(tuple(replace(each, path=os.path.abspath(each.path)) for each in source.each))
    return replace(source, path=os.path.abspath(source.path))
