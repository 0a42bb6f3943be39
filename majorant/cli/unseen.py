"""Values of text that a model was not trained on: they count for nothing, which somebody should be told."""

from __future__ import annotations

from collections import Counter

from majorant.cli.output import warn
from majorant.cli.schema import Schema
from majorant.cli.tables import Table

# Values shown of each column, the most frequent first.
SHOWN = 3


class Unseen:
    """Counts them, chunk by chunk."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._counts: dict[str, Counter[str]] = {}

    def add(self, rows: Table) -> None:
        """Take note of more rows."""
        for column, values in self.schema.encoding.unseen(rows).items():
            self._counts.setdefault(column, Counter()).update(values)

    def tell(self, origin: str) -> None:
        """Print a warning for each column that has some."""
        for column, values in self._counts.items():
            if values:
                shown = ", ".join(f"{value!r} ({count})" for value, count in values.most_common(SHOWN))
                more = f" and {len(values) - SHOWN} more values" if len(values) > SHOWN else ""
                warn(
                    f"column {column!r} of {origin} holds in {values.total()} rows what the model was not trained on, "
                    f"and what counts for nothing: {shown}{more}"
                )
