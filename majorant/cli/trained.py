"""A model from a file, with the schema that reads tables for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from majorant._checks import Array, one_of
from majorant.cli.readers import Tables
from majorant.cli.schema import MISSING_RULES, Schema
from majorant.cli.tables import Table
from majorant.cli.unseen import Unseen
from majorant.estimators import LogisticRegression


@dataclass(frozen=True)
class Part:
    """Some rows, which of them are complete, those alone, and the probabilities of their classes."""

    rows: Table
    kept: Array
    complete: Table
    probability: Array


@dataclass(frozen=True)
class Trained:
    """A fitted estimator, and how it reads a table."""

    estimator: LogisticRegression
    schema: Schema
    notes: dict[str, Any]

    @classmethod
    def load(cls, path: str, *, target: str | None = None, missing: str | None = None) -> Trained:
        """Read a model; another target or rule for missing values takes the place of its own."""
        found = cls.of(LogisticRegression.load(path), path)
        if found is None:
            raise ValueError(f"{path} holds a model without the columns it reads: train it with majorant fit")
        schema = found.schema
        if missing is not None:
            schema = replace(schema, missing=one_of("missing", missing, MISSING_RULES))
        return replace(found, schema=schema if target is None else replace(schema, target=target))

    @classmethod
    def of(cls, estimator: LogisticRegression, path: str) -> Trained | None:
        """Return an estimator with the schema that it was saved with, or None if that was from Python, without one."""
        notes = estimator.notes_
        if not isinstance(notes, dict) or "schema" not in notes:
            return None
        try:
            return cls(estimator, Schema.from_json(notes["schema"]), notes)
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise ValueError(f"{path} says how it reads columns, but that is damaged ({problem!s:.200})") from None

    def probabilities(self, source: Tables) -> Iterator[Part]:
        """Yield chunk by chunk what is predicted; values that were not trained on are warned of at the end."""
        unseen = Unseen(self.schema)
        for rows in source.chunks():
            unseen.add(rows)
            kept = self._kept(rows)
            complete = rows if kept.all() else rows.take(np.flatnonzero(kept))
            yield Part(rows, kept, complete, self._probability(complete))
        unseen.tell(source.name)

    def _probability(self, rows: Table) -> Array:
        if not len(rows):
            return np.zeros((0, len(self.estimator.classes_)))
        return self.estimator.predict_proba(self.schema.features(rows))

    def _kept(self, rows: Table) -> Array:
        if self.schema.missing == "drop":
            return self.schema.encoding.complete(rows)
        return np.ones(len(rows), dtype=bool)
