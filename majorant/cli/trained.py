"""A model from a file, with the schema that reads tables for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from majorant._checks import Array
from majorant.cli.tables import Matrix, Schema, Source, Table
from majorant.cli.unseen import Unseen
from majorant.estimators import LogisticRegression


@dataclass(frozen=True)
class Trained:
    """A fitted estimator, and how it reads a table."""

    estimator: LogisticRegression
    schema: Schema
    notes: dict[str, Any]

    @classmethod
    def load(cls, path: str, *, target: str | None = None, missing: str | None = None) -> Trained:
        """Read a model; another target or rule for missing values takes the place of its own."""
        estimator = LogisticRegression.load(path)
        notes = estimator.notes_
        if not notes or "schema" not in notes:
            raise ValueError(f"{path} holds a model without the columns it reads: train it with majorant fit")
        schema = Schema.from_json(notes["schema"]).with_rule(missing)
        return cls(estimator, schema if target is None else replace(schema, target=target), notes)

    def probabilities(self, source: Source) -> Iterator[tuple[Table | Matrix, Array, Array]]:
        """Yield for each chunk: the rows, which of them are complete, and the probabilities of those.

        Values that the model was not trained on are warned of at the end.
        """
        unseen = Unseen(self.schema)
        for rows in source.chunks():
            unseen.add(rows)
            kept = self._kept(rows)
            part = rows if kept.all() else rows.take(np.flatnonzero(kept))
            if len(part):
                yield rows, kept, self.estimator.predict_proba(self.schema.features(part))
            else:
                yield rows, kept, np.zeros((0, len(self.estimator.classes_)))
        unseen.tell(source.name)

    def _kept(self, rows: Table | Matrix) -> Array:
        if self.schema.missing == "drop":
            return self.schema.encoding.complete(rows)
        return np.ones(len(rows), dtype=bool)
