"""What a model wants of a table: its features, its target, its weights. Learnt from a table, kept with the model."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np

from majorant._checks import Array, one_of
from majorant.cli.refusals import EmptyColumn, MissingLabel, Nameless, NamelessWarning, NoTarget, UnusableWeight
from majorant.cli.tables.encoding import Category, ColumnLearner, Columns, Numeric, complete_rows
from majorant.cli.tables.files import Tables
from majorant.cli.tables.indexed import IndexLearner, Indices
from majorant.cli.tables.labels import find_classes, match_classes
from majorant.cli.tables.sources import settle_types
from majorant.cli.tables.table import Matrix, Table

MISSING_RULES = ("error", "mean", "drop")
# No name, or that which pandas gives to an index that has none: in CSV that was read and written again, and in Parquet.
NO_NAME = re.compile(r"|Unnamed: 0|__index_level_\d+__")


@dataclass(frozen=True)
class Wanted:
    """What to learn from a table.

    Parameters
    ----------
    target : str or None
        The column of labels; None for formats where the labels have a place of their own.
    weight : str, optional
        A column of row weights.
    features : sequence of str
        The columns to use; all others if empty.
    drop : sequence of str
        Columns not to use.
    missing : {"error", "mean", "drop"}
        Missing values: refuse them, put the mean of the column in their place (a text then has no category), or leave
        out their rows.
    standardize : bool
        Whether to bring numbers to mean 0 and standard deviation 1. A matrix is only scaled, so that it stays sparse;
        with an intercept that is the same model.
    categorical : sequence of str
        Columns whose values are categories, whatever they look like.
    """

    target: str | None
    weight: str | None = None
    features: Sequence[str] = ()
    drop: Sequence[str] = ()
    missing: str = "error"
    standardize: bool = False
    categorical: Sequence[str] = ()

    def __post_init__(self) -> None:
        one_of("missing", self.missing, MISSING_RULES)

    def check(self, source: Tables) -> None:
        """Refuse what does not go with the format."""
        if source.named and self.target is None:
            raise NoTarget(source.name, list(next(source.chunks(1)).columns))  # type: ignore[union-attr]
        if not source.named and (self.target or self.weight or self.features or self.drop or self.categorical):
            raise Nameless(source.name)

    @property
    def as_written(self) -> frozenset[str]:
        """The columns whose cells are kept as they are written."""
        return frozenset(self.categorical) | ({self.target} if self.target else set())

    def columns(self, table: Table) -> list[str]:
        """Return the names of the features."""
        for name in (self.target, self.weight, *self.features, *self.drop, *self.categorical):
            if name is not None:
                table.column(name)
        nameless = self.nameless(table)
        others = [name for name in table.columns if name not in (self.target, self.weight, *self.drop, *nameless)]
        names = [name for name in self.features or others if name in others]
        if not names:
            raise ValueError(f"{table.origin} has no columns left to learn from")
        return names

    def nameless(self, table: Table) -> list[str]:
        """Return the columns that have no name, and that nobody has named all the same: they are no features."""
        named = (self.target, self.weight, *self.features, *self.drop)
        return [name for name in table.columns if NO_NAME.fullmatch(name) and name not in named]

    def complete(self, rows: Table | Matrix) -> Table | Matrix:
        """Return the rows to learn from: those that lack nothing, if such are to be dropped."""
        if self.missing != "drop" or isinstance(rows, Matrix):
            return rows
        used = [name for name in (*self.columns(rows), self.target, self.weight) if name is not None]
        kept = complete_rows(rows, used)
        return rows if kept.all() else rows.take(np.flatnonzero(kept))


@dataclass(frozen=True)
class Schema:
    """How a model reads a table."""

    encoding: Columns | Indices
    target: str | None
    weight: str | None
    missing: str

    def features(self, rows: Table | Matrix) -> Any:
        """Return X."""
        return self.encoding.encode(rows, self.missing)

    def labels(self, rows: Table | Matrix, classes: Array) -> Array:
        """Return the labels as entries of ``classes``."""
        return match_classes(read_labels(rows, self.target), classes, rows.origin, rows.row)

    def weights(self, rows: Table | Matrix) -> Array | None:
        """Return the weights of the rows, if there are any."""
        if self.weight is None or isinstance(rows, Matrix):
            return None
        weights = Numeric(self.weight, 1.0).encode(rows, "error")[:, 0]
        if (weights < 0).any():
            place = int(np.argmax(weights < 0))
            raise UnusableWeight(self.weight, rows.origin, float(weights[place]), rows.row(place))
        return weights

    def with_rule(self, missing: str | None) -> Schema:
        """Return the same with another rule for missing values, if one is given."""
        return self if missing is None else replace(self, missing=one_of("missing", missing, MISSING_RULES))

    def to_json(self) -> dict[str, Any]:
        """Return it as data."""
        kind = "columns" if isinstance(self.encoding, Columns) else "indices"
        return {**asdict(self), "kind": kind}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Return what :meth:`to_json` wrote."""
        found = data["encoding"]
        encoding: Columns | Indices
        if data["kind"] == "columns":
            encoding = Columns(tuple(_part(each) for each in found["parts"]))
        else:
            scale = None if found["scale"] is None else tuple(found["scale"])
            encoding = Indices(found["first"], found["width"], scale)
        return cls(encoding, data["target"], data["weight"], data["missing"])

    @classmethod
    def learn(cls, source: Tables, wanted: Wanted, parts: Iterable[Table | Matrix] | None = None) -> tuple[Self, Array]:
        """Return the schema and the classes, from one pass over a source, or from some parts of it."""
        wanted.check(source)

        def one_pass(text: frozenset[str]) -> tuple[Self, Array]:
            return cls._learn(source.chunks() if parts is None else parts, wanted, text)

        return settle_types(one_pass, frozenset())

    @classmethod
    def _learn(cls, parts: Iterable[Table | Matrix], wanted: Wanted, text: frozenset[str]) -> tuple[Self, Array]:
        learner: ColumnLearner | IndexLearner | None = None
        labels: set[str] = set()
        first: Table | Matrix | None = None
        for part in parts:
            rows = wanted.complete(part)
            if learner is None:
                learner, first = _learner(rows, wanted, text), part
            if len(rows):
                learner.update(rows)  # type: ignore[arg-type]
                labels.update(read_labels(rows, wanted.target))
        if learner is None or first is None or not labels:
            raise ValueError("there are no rows to learn from: each of them lacks a value")
        classes = find_classes(labels, wanted.target or "label")
        encoding = learner.finish()
        if isinstance(first, Table):
            for name in wanted.nameless(first):
                warnings.warn(NamelessWarning(name, first.origin, _counts(first, name)), stacklevel=2)
        return cls(encoding, wanted.target, wanted.weight, wanted.missing), classes


def read_labels(rows: Table | Matrix, target: str | None) -> list[str]:
    """Return the labels as text, refusing a row that has none."""
    if isinstance(rows, Matrix):
        found = rows.labels.text()
    elif target is None:
        raise NoTarget(rows.origin, list(rows.columns))
    else:
        found = rows.text(target)
    if None in found:
        raise MissingLabel(rows.origin, rows.row(found.index(None)))
    return [label for label in found if label is not None]


def _learner(rows: Table | Matrix, wanted: Wanted, text: frozenset[str]) -> ColumnLearner | IndexLearner:
    if isinstance(rows, Matrix):
        return IndexLearner(wanted.standardize)
    return ColumnLearner(
        wanted.columns(rows),
        chosen=bool(wanted.features),
        missing=wanted.missing,
        standardize=wanted.standardize,
        text=text,
        categorical=frozenset(wanted.categorical),
    )


def refuse_nothing(rows: Table | Matrix, wanted: Wanted, name: str) -> None:
    """Raise because no row is complete, and name a column that is empty throughout if there is one."""
    for column in wanted.columns(rows) if isinstance(rows, Table) else ():
        if rows.missing(column).all():  # type: ignore[union-attr]
            raise EmptyColumn(column, rows.origin, len(rows))
    raise ValueError(f"{name} has no rows to learn from: each of them lacks a value")


def _counts(table: Table, name: str) -> bool:
    """Return whether a column counts rows, from whatever number on."""
    if table.is_text(name):
        return False
    values = table.numbers(name)
    return bool((np.diff(values) == 1).all()) and values[0] in (0, 1)


def _part(data: dict[str, Any]) -> Numeric | Category:
    return Category(data["name"], tuple(data["levels"])) if "levels" in data else Numeric(**data)
