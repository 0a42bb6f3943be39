"""The schema of a model: how tables become features, labels and weights. Learnt from a table, kept with the model."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from majorant.cli.readers import Source, Tables, settle_types
from majorant.cli.refusals import NoRows, Refusal
from majorant.cli.tables import (
    LABELS,
    OTHER_DECIMAL,
    Column,
    Matrix,
    MixedColumns,
    Table,
    find_classes,
    is_number,
    looks_numeric,
    match_classes,
    widened,
)
from majorant.core.checks import Array, one_of
from majorant.sources.base import Chunk, Labels, Piece, as_rows
from majorant.sources.base import Source as Rows

MISSING_RULES = ("error", "mean", "drop")
# No name, or that which pandas gives to an index that has none: in CSV that was read and written again, and in Parquet.
NO_NAME = re.compile(r"|Unnamed: 0|__index_level_\d+__")
# A column of that many different strings, more than one for every two rows, is a name and not a category.
MOST_CATEGORIES = 50
# A word in at most that share of the cells of a measured quantity is a slip. Numbers measure something if there are
# that many different ones, or that many of which few occur twice; with fewer, numbers may be names such as 1, 2 and 3+.
STRAY, MEASURED, HARDLY_REPEATED = 0.1, 20, 5
# Among such names, a word is a slip if it stands in one cell of at least that many.
ONE_OF = 50
# Below this share of non-zeros the features are kept as a sparse matrix.
DENSE = 0.2


# --- features of named columns ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Numeric:
    """A column of numbers: (x − center) / scale, and ``mean`` in place of a missing one."""

    name: str
    mean: float
    center: float = 0.0
    scale: float = 1.0

    @property
    def names(self) -> list[str]:
        """Return the name of the feature."""
        return [self.name]

    def encode(self, table: Table, missing: str) -> Array:
        """Return the feature as one column."""
        values = table.numbers(self.name)
        refuse_missing(table, self.name, missing)
        if np.isinf(values).any():
            row = table.row(int(np.argmax(np.isinf(values))))
            raise Refusal(f"column {self.name!r} of {table.origin} is infinite in row {row}")
        filled = np.where(np.isnan(values), self.mean, values)
        return ((filled - self.center) / self.scale)[:, None]


@dataclass(frozen=True)
class Category:
    """A column of text: one feature for each of its ``levels``; any other value is zero in all of them."""

    name: str
    levels: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """Return the names of the features."""
        return [f"{self.name}={level}" for level in self.levels]

    def encode(self, table: Table, missing: str) -> Any:
        """Return the features as a sparse matrix."""
        refuse_missing(table, self.name, missing)
        number = {level: i for i, level in enumerate(self.levels)}
        found = np.array([number.get(value or "", -1) for value in table.text(self.name)])
        rows = np.flatnonzero(found >= 0)
        return sp.csr_matrix((np.ones(len(rows)), (rows, found[rows])), shape=(len(found), len(self.levels)))


@dataclass(frozen=True)
class Columns:
    """The features of a table with named columns, in the order of the file that was trained on."""

    parts: tuple[Numeric | Category, ...]

    @property
    def names(self) -> list[str]:
        """Return the names of the features."""
        return [name for part in self.parts for name in part.names]

    @property
    def levels(self) -> dict[str, int]:
        """Return how many different values each column of text has."""
        return {part.name: len(part.levels) for part in self.parts if isinstance(part, Category)}

    def encode(self, table: Table, missing: str) -> Any:
        """Return the features, dense or, where most of them are zero, sparse. Other columns are left out."""
        self._check(table)
        blocks: list[Any] = [part.encode(table, missing) for part in self.parts]
        if len(self.parts) < DENSE * len(self.names):
            return sp.hstack(blocks, format="csr")
        return np.hstack([block.toarray() if sp.issparse(block) else block for block in blocks])

    def unseen(self, table: Table) -> dict[str, Counter[str]]:
        """Return for each column of text which values are none of its levels, and how often they occur."""
        self._check(table)
        unseen = {p.name: table.column(p.name).counts() for p in self.parts if isinstance(p, Category)}
        for part in self.parts:
            for level in part.levels if isinstance(part, Category) else ():
                unseen[part.name].pop(level, None)
        return unseen

    def complete(self, table: Table) -> Array:
        """Return which rows lack nothing."""
        self._check(table)
        return table.complete_rows(part.name for part in self.parts)

    def _check(self, table: Table) -> None:
        if isinstance(table, Matrix):
            raise Refusal(f"the model was trained on named columns, which {table.origin} does not have")
        absent = [part.name for part in self.parts if part.name not in table.columns]
        if absent:
            more = f" (and {len(absent) - 1} more)" if len(absent) > 1 else ""
            raise Refusal(f"{table.origin} lacks the column {absent[0]!r} that the model was trained on{more}")


def refuse_missing(table: Table, name: str, missing: str) -> None:
    """Raise if a value is missing and nothing is to be put in its place."""
    lacking = table.column(name).missing() if missing != "mean" else np.zeros(0)
    if lacking.any():
        where = f"lacks a value in row {table.row(int(np.argmax(lacking)))} ({int(lacking.sum())} in all)"
        raise Refusal(
            f"column {name!r} of {table.origin} {where}",
            "say --missing mean to fill it in, or --missing drop to leave such rows out",
        )


def empty_column(name: str, origin: str, rows: int) -> Refusal:
    """Return the refusal of a column that lacks a value in every row."""
    return Refusal(f"column {name!r} of {origin} is empty in all {rows} rows", f"leave it out with --drop {name!r}")


@dataclass
class _Moments:
    """Count, mean and sum of squares about the mean of a column (Chan, Golub & LeVeque 1983)."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    empty: bool = True

    def update(self, values: Array) -> None:
        self.empty &= bool(np.isnan(values).all())
        seen = values[np.isfinite(values)]
        if not len(seen):
            return
        total, mean = self.count + len(seen), float(seen.mean())
        apart = mean - self.mean
        self.squares += float(((seen - mean) ** 2).sum()) + apart**2 * self.count * len(seen) / total
        self.mean += apart * len(seen) / total
        self.count = total

    def finish(self, name: str, standardize: bool) -> Numeric:
        if not standardize:
            return Numeric(name, self.mean)
        deviation = float(np.sqrt(self.squares / max(self.count, 1)))
        return Numeric(name, self.mean, self.mean, deviation if deviation > 0 else 1.0)


@dataclass
class _Levels:
    """How often a column of text has each value; ``decimal`` is the mark of fractions, had it been numbers."""

    decimal: str | None
    counts: Counter[str] = field(default_factory=Counter)
    first_word: tuple[str, str] | None = None  # the first cell that is no number, and its file

    @property
    def empty(self) -> bool:
        return not self.counts

    def update(self, name: str, table: Table) -> None:
        column = table.column(name)
        self.counts.update(column.counts())
        if self.first_word is None and column.kind == "cells" and isinstance(place := column.numbers(), int):
            cell = f"{column.values[place].as_py()!r:.80}"
            self.first_word = f"{cell} in row {table.row(place)}", table.origin

    def question(self, name: str, chosen: bool, rows: int) -> None:
        """Refuse a column that holds no categories: numbers in another notation or but for a few cells, names of rows.

        Columns that were chosen by name may hold names of rows, and of another notation is only warned.
        """
        if self.decimal is not None and all(map(looks_numeric, self.counts)):
            misread = sorted(level for level in self.counts if not is_number(level, self.decimal))
            if misread:
                sentence = f"column {name!r} holds numbers such as {misread[0]!r} that are taken for text"
                if not chosen:
                    more = f"; or leave it out with --drop {name}, or choose it as text with --features"
                    raise Refusal(sentence, OTHER_DECIMAL + more)
                warnings.warn(f"{sentence}; {OTHER_DECIMAL}", stacklevel=2)
        if self.decimal is not None and self.first_word is not None:
            filled = self.counts.total()
            other = [count for level, count in self.counts.items() if not is_number(level, self.decimal)]
            words, numbers = sum(other), len(self.counts) - len(other)
            measured = numbers >= MEASURED or (numbers >= HARDLY_REPEATED and 2 * numbers >= filled - words)
            if words <= max(STRAY * filled, 1) and (measured or (words == 1 and filled >= ONE_OF)):
                where, origin = self.first_word
                more = "" if words == 1 else f" ({words} such cells in all)"
                raise Refusal(
                    f"column {name!r} of {origin} is numeric except for {where}{more}",
                    f"mend that cell, empty it if its value is missing, or say --categorical {name!r} if its values "
                    "are categories",
                )
        if not chosen and len(self.counts) > max(MOST_CATEGORIES, rows / 2):
            raise Refusal(
                f"column {name!r} has {len(self.counts)} different strings in {rows} rows, as the name of a row does",
                f"leave it out with --drop {name}, or list the columns to use with --features",
            )


class ColumnLearner:
    """Learns :class:`Columns` from the features of tables; those in ``text`` hold text whatever they look like."""

    def __init__(self, wanted: Wanted, names: Sequence[str], text: frozenset[str]) -> None:
        self.wanted, self.names, self.text = wanted, names, text | frozenset(wanted.categorical)
        self._seen: dict[str, _Moments | _Levels] = {}
        self._mixed: set[str] = set()
        self._rows, self._origin = 0, ""

    def update(self, table: Table) -> None:
        """Take note of more rows."""
        self._rows, self._origin = self._rows + len(table), table.origin
        for name in self.names:
            column = table.column(name)
            is_text = name in self.text or column.is_text
            if self.wanted.missing != "mean" and (lacking := column.missing()).any():
                if lacking.all() and len(table) > 1:
                    raise empty_column(name, table.origin, len(table))
                refuse_missing(table, name, self.wanted.missing)
            decimal = column.decimal if column.kind == "cells" else None
            seen = self._seen.setdefault(name, _Levels(decimal) if is_text else _Moments())
            if isinstance(seen, _Levels):
                seen.update(name, table)
            elif is_text:
                self._mixed.add(name)
            else:
                seen.update(table.numbers(name))

    def finish(self) -> Columns:
        """Return what was learnt, without columns that are empty throughout.

        Raises :class:`MixedColumns` of all that began as numbers and held text later.
        """
        if self._mixed:
            raise MixedColumns(self._mixed)
        empty = [empty_column(name, self._origin, self._rows) for name, seen in self._seen.items() if seen.empty]
        if len(empty) == len(self._seen):
            raise empty[0]
        for problem in empty:
            warnings.warn(f"{problem.args[0]}: it is left out", stacklevel=2)
        parts: list[Numeric | Category] = []
        for name, seen in self._seen.items():
            if isinstance(seen, _Moments) and not seen.empty:
                parts.append(seen.finish(name, self.wanted.standardize))
            elif isinstance(seen, _Levels) and not seen.empty:
                if name not in self.wanted.categorical:
                    seen.question(name, bool(self.wanted.features), self._rows)
                parts.append(Category(name, tuple(sorted(seen.counts))))
        return Columns(tuple(parts))


# --- features by number -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Indices:
    """Features by number: ``width`` of them, from ``first`` (0 or 1) on, each divided by its ``scale``."""

    first: int
    width: int
    scale: tuple[float, ...] | None = None

    @property
    def names(self) -> list[str]:
        """Return what to call the features."""
        return [str(self.first + i) for i in range(self.width)]

    @property
    def levels(self) -> dict[str, int]:
        """Return nothing: no column is text."""
        return {}

    def encode(self, table: Table, missing: str) -> Any:
        """Return the features; those that the model does not know are left out, those that are absent are zero."""
        if not isinstance(table, Matrix):
            raise Refusal(f"the model was trained on features without names (svmlight, npz), not on {table.origin}")
        X, stop = table.X, self.first + self.width
        if X.shape[1] < stop:
            if not sp.issparse(X):
                raise Refusal(f"X of {table.origin} has {X.shape[1]} columns, the model needs {stop}")
            X = widened(X, stop)
        X = X[:, self.first : stop]
        if not np.isfinite(X.sum()):
            found = sp.coo_array(X)
            bad = np.flatnonzero(~np.isfinite(found.data))
            if len(bad):
                row, feature = (int(place[bad[0]]) for place in found.coords)
                where = f"{found.data[bad[0]]} in row {table.row(row)}"
                raise Refusal(f"feature {self.first + feature} of {table.origin} is {where}")
        if self.scale is None:
            return X
        factors = 1 / np.array(self.scale)
        return X.multiply(factors).tocsr() if sp.issparse(X) else X * factors

    def unseen(self, table: Table) -> dict[str, Counter[str]]:
        """Return nothing: there are no categories."""
        return {}

    def complete(self, table: Table) -> Array:
        """Return which rows lack nothing: all, since a matrix has no missing values."""
        return np.ones(len(table), dtype=bool)


class IndexLearner:
    """Learns :class:`Indices` from matrices: which features there are and, if asked, their standard deviations."""

    def __init__(self, standardize: bool) -> None:
        self.standardize = standardize
        self._least, self._rows = 1, 0
        self._sums = np.zeros((2, 0))

    def update(self, table: Table) -> None:
        """Take note of more rows."""
        assert isinstance(table, Matrix)
        X = table.X
        self._rows += len(table)
        # svmlight counts from 1; a file that has a feature 0, and any array, counts from 0.
        if not sp.issparse(X) or (X.indices == 0).any():
            self._least = 0
        if X.shape[1] > self._sums.shape[1]:
            self._sums = np.pad(self._sums, ((0, 0), (0, X.shape[1] - self._sums.shape[1])))
        squares = X.multiply(X) if sp.issparse(X) else X * X
        for total, part in zip(self._sums, (X, squares), strict=True):
            total[: X.shape[1]] += np.asarray(part.sum(axis=0)).ravel()

    def finish(self) -> Indices:
        """Return what was learnt."""
        width = self._sums.shape[1] - self._least
        if width < 1:
            raise Refusal("there are no features: every row is empty")
        if not self.standardize:
            return Indices(self._least, width)
        mean, square = self._sums / self._rows
        deviation = np.sqrt(np.maximum(square - mean**2, 0.0))[self._least :]
        return Indices(self._least, width, tuple(np.where(deviation > 0, deviation, 1.0).tolist()))


# --- what is wanted, and what was learnt ------------------------------------------------------------------


@dataclass(frozen=True)
class Wanted:
    """What to learn from a table."""

    target: str | None  # None for formats where the labels have a place of their own
    weight: str | None = None
    features: Sequence[str] = ()  # all other columns if empty
    drop: Sequence[str] = ()
    # Missing values are refused, replaced by the mean of the column (no category, if it is text), or their rows are
    # left out.
    missing: str = "error"
    # A matrix is only scaled, so that it stays sparse; with an intercept that is the same model.
    standardize: bool = False
    categorical: Sequence[str] = ()  # columns whose values are categories, whatever they look like

    def __post_init__(self) -> None:
        one_of("missing", self.missing, MISSING_RULES)

    def check(self, source: Tables) -> None:
        """Refuse what does not go with the format."""
        if source.named and self.target is None:
            raise _no_target(next(source.chunks(1)).columns, source.name)
        if not source.named and (self.target or self.weight or self.features or self.drop or self.categorical):
            raise Refusal(
                f"the columns of {source.name} have no names",
                "leave out --target, --weight, --features, --drop and --categorical",
            )

    @property
    def as_written(self) -> frozenset[str]:
        """The columns whose cells are kept as they are written."""
        return frozenset(self.categorical) | ({self.target} if self.target else set())

    def columns(self, table: Table) -> list[str]:
        """Return the names of the features."""
        for name in (self.target, self.weight, *self.features, *self.drop, *self.categorical):
            if name is not None:
                table.named(name)
        nameless = self.nameless(table)
        others = [name for name in table.columns if name not in (self.target, self.weight, *self.drop, *nameless)]
        names = [name for name in self.features or others if name in others]
        if not names:
            raise Refusal(f"{table.origin} has no columns left to learn from")
        return names

    def nameless(self, table: Table) -> list[str]:
        """Return the columns that have no name, and that no option names all the same: they are no features."""
        named = (self.target, self.weight, *self.features, *self.drop)
        return [name for name in table.columns if NO_NAME.fullmatch(name) and name not in named]

    def complete(self, table: Table) -> Table:
        """Return the rows to learn from: those that lack nothing, if such are to be dropped."""
        if self.missing != "drop" or isinstance(table, Matrix):
            return table
        used = [name for name in (*self.columns(table), self.target, self.weight) if name is not None]
        kept = table.complete_rows(used)
        return table if kept.all() else table.take(np.flatnonzero(kept))


@dataclass(frozen=True)
class Schema:
    """How a model reads a table."""

    encoding: Columns | Indices
    target: str | None
    weight: str | None
    missing: str

    def features(self, table: Table) -> Any:
        """Return X."""
        return self.encoding.encode(table, self.missing)

    def labels(self, table: Table, classes: Array) -> Array:
        """Return the labels as entries of ``classes``."""
        return match_classes(read_labels(table, self.target), classes, table.origin, table.row)

    def weights(self, table: Table) -> Array | None:
        """Return the weights of the rows, if there are any."""
        if self.weight is None or isinstance(table, Matrix):
            return None
        weights = Numeric(self.weight, 1.0).encode(table, "error")[:, 0]
        refuse_negative(weights, self.weight, table)
        return weights

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
            encoding = Columns(
                tuple(
                    Category(part["name"], tuple(part["levels"])) if "levels" in part else Numeric(**part)
                    for part in found["parts"]
                )
            )
        else:
            scale = None if found["scale"] is None else tuple(found["scale"])
            encoding = Indices(found["first"], found["width"], scale)
        return cls(encoding, data["target"], data["weight"], data["missing"])

    @classmethod
    def learn(cls, source: Tables, wanted: Wanted, parts: Iterable[Table] | None = None) -> tuple[Self, Array]:
        """Return the schema and the classes, from one pass over a source, or from some parts of it."""
        wanted.check(source)

        def one_pass(text: frozenset[str]) -> tuple[Self, Array]:
            learner: ColumnLearner | IndexLearner | None = None
            labels: set[str] = set()
            first: Table | None = None
            for part in source.chunks() if parts is None else parts:
                table = wanted.complete(part)
                if learner is None:
                    first = part
                    if isinstance(table, Matrix):
                        learner = IndexLearner(wanted.standardize)
                    else:
                        learner = ColumnLearner(wanted, wanted.columns(table), text)
                if len(table):
                    learner.update(table)
                    labels.update(read_labels(table, wanted.target))
            if learner is None or first is None or not labels:
                raise Refusal("there are no rows to learn from: each of them lacks a value")
            classes = find_classes(labels, wanted.target or "label")
            encoding = learner.finish()
            for name in () if isinstance(first, Matrix) else wanted.nameless(first):
                _warn_of_nameless(first.columns[name], name, first.origin)
            return cls(encoding, wanted.target, wanted.weight, wanted.missing), classes

        return settle_types(one_pass, frozenset())


def read_labels(table: Table, target: str | None) -> list[str]:
    """Return the labels as text, refusing a row that has none."""
    name = LABELS if isinstance(table, Matrix) else target
    if name is None:
        raise _no_target(table.columns, table.origin)
    labels = table.text(name)
    if None in labels:
        where = f"row {table.row(labels.index(None))} of {table.origin}"
        raise Refusal(f"{where} has no label", "say --missing drop to leave such rows out")
    return [label for label in labels if label is not None]


def refuse_negative(weights: Array, name: str, table: Table) -> None:
    """Refuse weights below zero."""
    if (weights < 0).any():
        place = int(np.argmax(weights < 0))
        where = f"the weight {weights[place]:g} in row {table.row(place)}, below zero"
        raise Refusal(f"column {name!r} of {table.origin} holds {where}")


def _no_target(columns: Iterable[str], origin: str) -> Refusal:
    names = ", ".join(filter(None, columns))
    return Refusal(f"choose the column of {origin} to predict with --target; it has {names}")


def _warn_of_nameless(column: Column, name: str, origin: str) -> None:
    which = f"column {name!r}" if name else "a column without a name"
    values = column.numbers() if column.usable and not column.is_text else 0
    counts = isinstance(values, np.ndarray) and bool((np.diff(values) == 1).all()) and values[0] in (0, 1)
    why = "counts the rows, as an index that pandas wrote does, and" if counts else "is no feature: it"
    warnings.warn(f"{which} in {origin} {why} is left out; give it another name in the file to use it", stacklevel=2)


# --- rows to train on -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """The rows of a source to train on, those to test on (if any), and how to read them; learnt from the former."""

    train: Table
    test: Table | None
    schema: Schema
    classes: Array


def read_split(source: Tables, wanted: Wanted, share: float | None, seed: int) -> Split:
    """Read a source whole and keep a share of each class for a test, if one is given."""
    wanted.check(source)
    whole = source.read(wanted.as_written)
    table = wanted.complete(whole)
    if not len(table):
        for column in () if isinstance(whole, Matrix) else wanted.columns(whole):
            if whole.column(column).missing().all():
                raise empty_column(column, whole.origin, len(whole))
        raise Refusal(f"{source.name} has no rows to learn from: each of them lacks a value")
    if share is None:
        return Split(table, None, *Schema.learn(source, wanted, [table]))
    codes = np.unique(read_labels(table, wanted.target), return_inverse=True)[1]
    train, test = split(codes, share, seed)
    part = table.take(train)
    return Split(part, table.take(test), *Schema.learn(source, wanted, [part]))


def split(labels: Array, share: float, seed: int) -> tuple[Array, Array]:
    """Return the rows to train on and those to test on: that share of each class, rounded down.

    So every class keeps a row to learn from.

    Examples
    --------
    >>> train, test = split(np.array([0, 0, 0, 0, 1]), 0.5, seed=0)
    >>> len(train), len(test), 4 in train
    (3, 2, True)
    """
    if not 0 < share < 1:
        raise Refusal(f"the share of rows for testing must be between 0 and 1, got {share}")
    order = np.random.default_rng(seed)
    testing = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        rows = order.permutation(np.flatnonzero(labels == label))
        testing[rows[: int(share * len(rows))]] = True
    if not testing.any():
        raise Refusal(f"a share of {share} for testing leaves no row: every class is too small")
    return np.flatnonzero(~testing), np.flatnonzero(testing)


@dataclass(frozen=True, eq=False)
class Reading:
    """How tables become rows: by what was learnt of their columns, without those that lack what they must have."""

    wanted: Wanted
    schema: Schema
    classes: Array
    rows: int | None = None  # of a chunk


@dataclass(frozen=True, eq=False)
class EncodedPiece:
    """A file, or some row groups of one."""

    source: Source
    reading: Reading

    def read(self) -> Iterator[Chunk]:
        """Yield the rows."""
        wanted, schema, classes = self.reading.wanted, self.reading.schema, self.reading.classes
        with suppress(NoRows):
            for part in self.source.chunks(self.reading.rows):
                table = wanted.complete(part)
                if len(table):
                    labels = Labels(classes, np.searchsorted(classes, schema.labels(table, classes)))
                    X = as_rows(schema.features(table))
                    yield Chunk(X, labels, schema.weights(table), part.origin, part.first_row)


@dataclass(frozen=True, eq=False)
class EncodedRows(Rows):
    """The rows of a table that is read again and again; one piece for each file, or for some row groups of Parquet."""

    tables: Tables
    reading: Reading
    watcher: Callable[[int], None] | None = None  # told how many rows were read

    def pieces(self) -> Sequence[Piece]:
        """Return the pieces."""
        return [EncodedPiece(source, self.reading) for source in self.tables.pieces()]
