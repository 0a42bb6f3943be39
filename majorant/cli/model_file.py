"""Model files: which model a file holds, the command that reads it, and what it predicts for files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from majorant.cli.files import Refusal
from majorant.cli.output import check_writable, warn
from majorant.core.checks import Array, one_of

if TYPE_CHECKING:
    from majorant import LogisticRegression
    from majorant.cli.readers import Tables
    from majorant.cli.schema import Schema
    from majorant.cli.tables import Table

TENSORS = ".safetensors"
CHOICES = ("ConditionalLogit", "LatentClassLogit")
# What majorant predict and majorant evaluate read.
KINDS = ("LogisticRegression", "LinearProbe", *CHOICES)
# The commands that read a model, by what they are for.
READ_BY = {
    **{kind: {"predict": "majorant predict", "evaluate": "majorant evaluate"} for kind in KINDS},
    "ChainCRF": {"predict": "majorant crf tag", "evaluate": "majorant crf eval"},
}


def kind_saved(path: str) -> str:
    """Return the name of the estimator that a file holds; what is no model is refused."""
    from majorant.estimators.saving import kind_of
    from majorant.linear.probe import FORMAT

    if Path(path).suffix != TENSORS:
        return kind_of(path)
    with open(path, "rb") as file:  # which begins with the length of its header, and that
        length = int.from_bytes(file.read(8), "little")
        try:
            header = json.loads(file.read(min(length, Path(path).stat().st_size)))
            found = header["__metadata__"]["format"]
        except (ValueError, KeyError, TypeError):
            found = None
    if found != FORMAT:
        raise Refusal(f"{path} is not a saved majorant model")
    return "LinearProbe"


def refuse_other_kinds(path: str, kinds: tuple[str, ...], purpose: str) -> None:
    """Refuse a model of another kind, and say what reads it; what is no model is refused where it is loaded."""
    try:
        kind = kind_saved(path)
    except ValueError:
        return
    if kind not in kinds:
        use = f"`{READ_BY[kind][purpose]}`" if kind in READ_BY else f"majorant.{kind}.load in Python"
        raise Refusal(f"{path} holds a {kind}: use {use}")


def refuse_options(path: str, kind: str, given: Mapping[str, Any]) -> None:
    """Refuse options that do not go with a model of this kind, where they are given."""
    for name, value in given.items():
        if value is not None:
            flag = "--" + name.replace("_", "-")
            raise typer.BadParameter(f"{flag} does not go with {path}, which holds a {kind}: leave it out")


def check_model_path(path: str | None, *inputs: str, suffixes: tuple[str, ...] = (".npz",)) -> None:
    """Refuse to write a model where that is not possible, over what is none, or under a name of another format."""
    check_writable(path, *inputs)
    if path is None:
        return
    place = Path(path)
    if place.is_file() and place.stat().st_size:
        try:
            kind_saved(path)
        except ValueError:
            raise Refusal(
                f"cannot write {path}: the file exists and holds no majorant model; choose another name, or remove it"
            ) from None
    elif not place.exists() and place.suffix.lower() not in ("", *suffixes):
        known = " or ".join(suffixes)
        raise Refusal(f"cannot write {path}: models are written as {known}; choose a name that ends so")


class Unseen:
    """Counts values of text that a model was not trained on, table by table."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._counts: dict[str, Counter[str]] = {}

    def add(self, table: Table) -> None:
        """Count the values of another table, unless its columns are numbered: then none is text."""
        from majorant.cli.schema import Columns

        if isinstance(self.schema.encoding, Columns):
            for column, values in self.schema.encoding.unseen(table).items():
                self._counts.setdefault(column, Counter()).update(values)

    def tell(self, origin: str) -> None:
        """Print a warning for each column that has some."""
        for column, values in self._counts.items():
            if values:
                shown = ", ".join(f"{value!r} ({count})" for value, count in values.most_common(3))
                more = f" and {len(values) - 3} more values" if len(values) > 3 else ""
                warn(
                    f"column {column!r} of {origin} holds in {values.total()} rows what the model was not trained on, "
                    f"and what counts for nothing: {shown}{more}"
                )


@dataclass(frozen=True)
class Predicted:
    """A table, which of its rows are complete, those alone, and the probabilities of their classes."""

    table: Table
    kept: Array
    complete: Table
    probability: Array


@dataclass(frozen=True)
class TableModel:
    """A logistic regression from a file, and how it reads a table."""

    estimator: LogisticRegression
    schema: Schema
    notes: dict[str, Any]

    @classmethod
    def of(cls, estimator: LogisticRegression, path: str) -> TableModel | None:
        """Return an estimator with the schema that it was saved with, or None if that was from Python, without one."""
        from majorant.cli.schema import Schema

        notes = estimator.notes_
        if not isinstance(notes, dict) or "schema" not in notes:
            return None
        try:
            return cls(estimator, Schema.from_json(notes["schema"]), notes)
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise Refusal(f"{path} says how it reads columns, but that is damaged ({problem!s:.200})") from None

    @classmethod
    def load(cls, path: str, *, target: str | None = None, missing: str | None = None) -> TableModel:
        """Read a model; another target or rule for missing values takes the place of its own."""
        from majorant import LogisticRegression
        from majorant.cli.schema import MISSING_RULES

        found = cls.of(LogisticRegression.load(path), path)
        if found is None:
            raise Refusal(f"{path} holds a model without the columns it reads: train it with majorant fit")
        schema = found.schema
        if missing is not None:
            schema = replace(schema, missing=one_of("missing", missing, MISSING_RULES))
        return replace(found, schema=schema if target is None else replace(schema, target=target))

    def probabilities(self, source: Tables) -> Iterator[Predicted]:
        """Yield the predictions, chunk by chunk; a warning at the end names values that were not trained on."""
        from majorant.cli.schema import Columns

        unseen, drop, encoding = Unseen(self.schema), self.schema.missing == "drop", self.schema.encoding
        for table in source.chunks():
            unseen.add(table)
            kept = np.ones(len(table), dtype=bool)
            if drop and isinstance(encoding, Columns):
                kept = encoding.complete(table)
            complete = table if kept.all() else table.take(np.flatnonzero(kept))
            probability = np.zeros((0, len(self.estimator.classes_)))
            if len(complete):
                probability = self.estimator.predict_proba(self.schema.features(complete))
            yield Predicted(table, kept, complete, probability)
        unseen.tell(source.name)
