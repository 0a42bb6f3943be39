"""The schema of a model: how tables become features, labels and weights. Learnt from a table, kept with the model."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NoReturn, Self

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from majorant.cli.files import NoRows, Refusal
from majorant.cli.readers import Source, Tables, settle_types
from majorant.cli.tables import (
    LABELS,
    MEASURED,
    OTHER_DECIMAL,
    MixedColumns,
    Table,
    find_classes,
    is_number,
    is_string,
    looks_numeric,
    match_classes,
    widened,
)
from majorant.core.checks import Array, one_of
from majorant.sources.base import Chunk, Labels, Piece, as_rows
from majorant.sources.base import Source as Rows
from majorant.sources.cache import ChunkCache

MISSING_RULES = ("error", "mean", "drop")
# No name, or that which pandas gives to an index that has none: in CSV that was read and written again, and in Parquet.
NO_NAME = re.compile(r"|Unnamed: 0|__index_level_\d+__")
# More different strings than that, and more than one for every two rows, are names of rows and no categories; one word
# in a column with as many numbers is a slip, however few of them differ.
MANY = 50


# --- features of named columns ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Numeric:
    """A column of numbers: (x − center) / scale, and ``mean`` in place of a missing one."""

    name: str
    mean: float
    center: float = 0.0
    scale: float = 1.0


@dataclass(frozen=True)
class Category:
    """A column of text: one feature for each of its ``levels``; any other value is zero in all of them."""

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True)
class Columns:
    """The features of a table with named columns, in the order of the file that was trained on."""

    parts: tuple[Numeric | Category, ...]

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        names: list[str] = []
        for part in self.parts:
            names += [part.name] if isinstance(part, Numeric) else [f"{part.name}={level}" for level in part.levels]
        return names

    @property
    def levels(self) -> dict[str, int]:
        """The number of different values of each column of text."""
        return {part.name: len(part.levels) for part in self.parts if isinstance(part, Category)}

    def encode(self, table: Table, missing: str) -> Any:
        """Return the features, dense or, where most of them are zero, sparse. Other columns are left out."""
        self._check(table)
        blocks: list[Any] = []
        for part in self.parts:
            refuse_missing(table, part.name, missing)
            if isinstance(part, Category):
                number = {level: i for i, level in enumerate(part.levels)}
                found = np.array([number.get(value or "", -1) for value in table.text(part.name)])
                rows = np.flatnonzero(found >= 0)
                shape = len(found), len(part.levels)
                blocks.append(sp.csr_matrix((np.ones(len(rows)), (rows, found[rows])), shape=shape))
            else:
                values = table.numbers(part.name)
                if np.isinf(values).any():
                    row = table.row(int(np.argmax(np.isinf(values))))
                    raise Refusal(f"column {part.name!r} of {table.origin} is infinite in row {row}")
                filled = np.where(np.isnan(values), part.mean, values)
                blocks.append(((filled - part.center) / part.scale)[:, None])
        if len(self.parts) < 0.2 * len(self.names):  # the share of non-zeros of a row
            return sp.hstack(blocks, format="csr")
        return np.hstack([block.toarray() if sp.issparse(block) else block for block in blocks])

    def unseen(self, table: Table) -> dict[str, Counter[str]]:
        """Return for each column of text which values are none of its levels, and how often they occur."""
        self._check(table)
        unseen = {}
        for part in self.parts:
            if isinstance(part, Category):
                counts = unseen[part.name] = table.counts(part.name)
                for level in part.levels:
                    counts.pop(level, None)
        return unseen

    def complete(self, table: Table) -> Array:
        """Return a mask of the rows without missing values."""
        self._check(table)
        return table.complete_rows(part.name for part in self.parts)

    def _check(self, table: Table) -> None:
        if table.X is not None:
            raise Refusal(f"the model was trained on named columns, which {table.origin} does not have")
        absent = [part.name for part in self.parts if part.name not in table.columns]
        if absent:
            more = f" (and {len(absent) - 1} more)" if len(absent) > 1 else ""
            raise Refusal(f"{table.origin} lacks the column {absent[0]!r} that the model was trained on{more}")


def refuse_missing(table: Table, name: str, missing: str) -> None:
    """Raise if a value is missing and nothing is to be put in its place."""
    lacking = table.missing(name) if missing != "mean" else np.zeros(0)
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
class ColumnFacts:
    """Statistics of a column, updated table by table.

    Of numbers that is their count, mean and sum of squares about the mean (Chan, Golub & LeVeque 1983); of text, how
    often it has each value, the mark of fractions had it been numbers, and the first cell that is none.
    """

    is_text: bool
    decimal: str | None
    empty: bool = True
    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    levels: Counter[str] = field(default_factory=Counter)
    first_word: tuple[str, str] | None = None  # and its file

    def update(self, name: str, table: Table) -> None:
        """Take note of more rows."""
        if self.is_text:
            self.levels.update(table.counts(name))
            self.empty = not self.levels
            column = table.named(name)
            if self.first_word is None and is_string(column.type) and self.decimal is not None:
                place = table.parsed(name)
                if isinstance(place, int):
                    self.first_word = f"{column[place].as_py()!r:.80} in row {table.row(place)}", table.origin
            return
        values = table.numbers(name)
        self.empty &= bool(np.isnan(values).all())
        seen = values[np.isfinite(values)]
        if len(seen):
            total, mean = self.count + len(seen), float(seen.mean())
            apart = mean - self.mean
            self.squares += float(((seen - mean) ** 2).sum()) + apart**2 * self.count * len(seen) / total
            self.mean += apart * len(seen) / total
            self.count = total

    def feature(self, name: str, standardize: bool) -> Numeric | Category:
        """Return the encoding of the column."""
        if self.is_text:
            return Category(name, tuple(sorted(self.levels)))
        if not standardize:
            return Numeric(name, self.mean)
        deviation = float(np.sqrt(self.squares / max(self.count, 1)))
        return Numeric(name, self.mean, self.mean, deviation if deviation > 0 else 1.0)

    def refuse_no_categories(self, name: str, chosen: bool, rows: int) -> None:
        """Refuse text that holds no categories: numbers in another notation or but for a few cells, names of rows.

        Columns that were chosen by name may hold names of rows, and of another notation is only warned.
        """
        levels, decimal = self.levels, self.decimal
        if decimal is not None and all(map(looks_numeric, levels)):
            misread = sorted(level for level in levels if not is_number(level, decimal))
            if misread:
                sentence = f"column {name!r} holds numbers such as {misread[0]!r} that are taken for text"
                if not chosen:
                    more = f"; or leave it out with --drop {name}, or choose it as text with --features"
                    raise Refusal(sentence, OTHER_DECIMAL + more)
                warnings.warn(f"{sentence}; {OTHER_DECIMAL}", stacklevel=2)
        if decimal is not None and self.first_word is not None:
            filled = levels.total()
            other = [count for level, count in levels.items() if not is_number(level, decimal)]
            words, numbers = sum(other), len(levels) - len(other)
            # Numbers measure something if MEASURED of them differ, or if few of at least five occur twice; with fewer,
            # numbers may be names such as 1, 2 and 3+. Words in at most a tenth of the cells of a quantity are slips.
            measured = numbers >= MEASURED or (numbers >= 5 and 2 * numbers >= filled - words)
            if words <= max(0.1 * filled, 1) and (measured or (words == 1 and filled >= MANY)):
                where, origin = self.first_word
                more = "" if words == 1 else f" ({words} such cells in all)"
                raise Refusal(
                    f"column {name!r} of {origin} is numeric except for {where}{more}",
                    f"mend that cell, empty it if its value is missing, or say --categorical {name!r} if its values "
                    "are categories",
                )
        if not chosen and len(levels) > max(MANY, rows / 2):
            raise Refusal(
                f"column {name!r} has {len(levels)} different strings in {rows} rows, as the name of a row does",
                f"leave it out with --drop {name}, or list the columns to use with --features",
            )


class ColumnLearner:
    """Learns :class:`Columns` from the features of tables; those in ``text`` hold text whatever they look like."""

    def __init__(self, wanted: Wanted, names: Sequence[str], text: frozenset[str]) -> None:
        self.wanted, self.names, self.text = wanted, names, text | frozenset(wanted.categorical)
        self._facts: dict[str, ColumnFacts] = {}
        self._mixed: set[str] = set()
        self._rows, self._origin = 0, ""

    def update(self, table: Table) -> None:
        """Take note of more rows."""
        self._rows, self._origin = self._rows + len(table), table.origin
        for name in self.names:
            is_text = name in self.text or table.is_text(name)
            if self.wanted.missing != "mean" and (lacking := table.missing(name)).any():
                if lacking.all() and len(table) > 1:
                    raise empty_column(name, table.origin, len(table))
                refuse_missing(table, name, self.wanted.missing)
            facts = self._facts.setdefault(name, ColumnFacts(is_text, table.decimal))
            if is_text and not facts.is_text:
                self._mixed.add(name)
            else:
                facts.update(name, table)

    def finish(self) -> Columns:
        """Return the encoding, without columns that are empty throughout.

        Raises :class:`MixedColumns` of all that began as numbers and held text later.
        """
        if self._mixed:
            raise MixedColumns(self._mixed)
        empty = [empty_column(name, self._origin, self._rows) for name, facts in self._facts.items() if facts.empty]
        if len(empty) == len(self._facts):
            raise empty[0]
        for problem in empty:
            warnings.warn(f"{problem.args[0]}: it is left out", stacklevel=2)
        filled = {name: facts for name, facts in self._facts.items() if not facts.empty}
        for name, facts in filled.items():
            if facts.is_text and name not in self.wanted.categorical:
                facts.refuse_no_categories(name, bool(self.wanted.features), self._rows)
        return Columns(tuple(facts.feature(name, self.wanted.standardize) for name, facts in filled.items()))


# --- features by number -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Indices:
    """Features by number: ``width`` of them, from ``first`` (0 or 1) on, each divided by its ``scale``."""

    first: int
    width: int
    scale: tuple[float, ...] | None = None

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        return [str(self.first + i) for i in range(self.width)]

    def encode(self, table: Table, missing: str) -> Any:
        """Return the features; those that the model does not know are left out, those that are absent are zero."""
        if table.X is None:
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


class IndexLearner:
    """Learns :class:`Indices` from matrices: which features there are and, if asked, their standard deviations."""

    def __init__(self, standardize: bool) -> None:
        self.standardize = standardize
        self._least, self._rows = 1, 0
        self._sums = np.zeros((2, 0))

    def update(self, table: Table) -> None:
        """Take note of more rows."""
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
        """Return the encoding."""
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
    """The options of learning from a table: target, weight, columns, missing values."""

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
            refuse_no_target(next(source.chunks(1)).columns, source.name)
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

    def used(self, table: Table) -> list[str]:
        """Return the names of the features, and those of target and weight."""
        return [name for name in (*self.columns(table), self.target, self.weight) if name is not None]

    def nameless(self, table: Table) -> list[str]:
        """Return the columns that have no name, and that no option names all the same: they are no features."""
        named = (self.target, self.weight, *self.features, *self.drop)
        return [name for name in table.columns if NO_NAME.fullmatch(name) and name not in named]

    def complete(self, table: Table) -> Table:
        """Return the rows to learn from: those that lack nothing, if such are to be dropped."""
        if self.missing != "drop" or table.X is not None:
            return table
        kept = table.complete_rows(self.used(table))
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
        if self.weight is None or table.X is not None:
            return None
        weights = Columns((Numeric(self.weight, 1.0),)).encode(table, "error")[:, 0]
        refuse_negative(weights, self.weight, table)
        return weights

    def to_json(self) -> dict[str, Any]:
        """Return the schema as data that JSON can hold."""
        return {**asdict(self), "kind": "columns" if isinstance(self.encoding, Columns) else "indices"}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Return the schema that :meth:`to_json` wrote."""
        found = data["encoding"]
        encoding: Columns | Indices
        if data["kind"] == "columns":
            parts = found["parts"]
            encoding = Columns(
                tuple(
                    Category(part["name"], tuple(part["levels"])) if "levels" in part else Numeric(**part)
                    for part in parts
                )
            )
        else:
            scale = None if found["scale"] is None else tuple(found["scale"])
            encoding = Indices(found["first"], found["width"], scale)
        return cls(encoding, data["target"], data["weight"], data["missing"])

    @classmethod
    def learn(
        cls,
        source: Tables,
        wanted: Wanted,
        read: Callable[[], Iterable[Table]] | None = None,
        copy: TableCopy | None = None,
    ) -> tuple[Self, Array]:
        """Return the schema and the classes, from one pass over a source, or over what a function reads of it.

        What is read is written to a copy, if there is one.
        """
        wanted.check(source)

        def one_pass(text: frozenset[str]) -> tuple[Self, Array]:
            learner: ColumnLearner | IndexLearner | None = None
            labels: set[str] = set()
            first: Table | None = None
            if copy is not None:
                copy.clear()
            for part in (source.chunks if read is None else read)():
                table = wanted.complete(part)
                if learner is None:
                    first = part
                    if table.X is not None:
                        learner = IndexLearner(wanted.standardize)
                    else:
                        learner = ColumnLearner(wanted, wanted.columns(table), text)
                if len(table):
                    learner.update(table)
                    labels.update(read_labels(table, wanted.target))
                    if copy is not None:
                        used = (
                            table if table.X is not None else replace(table, data=table.data.select(wanted.used(table)))
                        )
                        copy.add(used.compact(text | wanted.as_written))
            if learner is None or first is None or not labels:
                raise Refusal("there are no rows to learn from: each of them lacks a value")
            classes = find_classes(labels, wanted.target or "label")
            encoding = learner.finish()
            for name in () if first.X is not None else wanted.nameless(first):
                which = f"column {name!r}" if name else "a column without a name"
                values = first.parsed(name) if first.usable(name) and not first.is_text(name) else 0
                counts = isinstance(values, np.ndarray) and bool((np.diff(values) == 1).all()) and values[0] in (0, 1)
                why = "counts the rows, as an index that pandas wrote does, and" if counts else "is no feature: it"
                remedy = "give it another name in the file to use it"
                warnings.warn(f"{which} in {first.origin} {why} is left out; {remedy}", stacklevel=2)
            return cls(encoding, wanted.target, wanted.weight, wanted.missing), classes

        return settle_types(one_pass, frozenset())


def read_labels(table: Table, target: str | None) -> list[str]:
    """Return the labels as text, refusing a row that has none."""
    name = LABELS if table.X is not None else target
    if name is None:
        refuse_no_target(table.columns, table.origin)
    labels = table.text(name)
    if None in labels:
        where = f"row {table.row(labels.index(None))} of {table.origin}"
        raise Refusal(f"{where} has no label", "say --missing drop to leave such rows out")
    return labels  # type: ignore[return-value]


def refuse_negative(weights: Array, name: str, table: Table) -> None:
    """Refuse weights below zero."""
    if (weights < 0).any():
        place = int(np.argmax(weights < 0))
        where = f"the weight {weights[place]:g} in row {table.row(place)}, below zero"
        raise Refusal(f"column {name!r} of {table.origin} holds {where}")


def refuse_no_target(columns: Iterable[str], origin: str) -> NoReturn:
    """Ask for the column of the labels."""
    names = ", ".join(filter(None, columns))
    raise Refusal(f"choose the column of {origin} to predict with --target; it has {names}")


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
    table_read = source.read(wanted.as_written)
    table = wanted.complete(table_read)
    if not len(table):
        for column in () if table_read.X is not None else wanted.columns(table_read):
            if table_read.missing(column).all():
                raise empty_column(column, table_read.origin, len(table_read))
        raise Refusal(f"{source.name} has no rows to learn from: each of them lacks a value")
    if share is None:
        return Split(table, None, *Schema.learn(source, wanted, lambda: [table]))
    codes = np.unique(read_labels(table, wanted.target), return_inverse=True)[1]
    train, test = split(codes, share, seed)
    part = table.take(train)
    return Split(part, table.take(test), *Schema.learn(source, wanted, lambda: [part]))


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


class TableCopy:
    """Tables in a temporary file as they were first read, so that no file is read and parsed twice.

    Where the disk has no room the copy is closed, and they have to be read from where they came.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Discard all tables."""
        self._cache, self._tables = ChunkCache(), list[tuple[Table, tuple[int, int]]]()

    @property
    def is_open(self) -> bool:
        """Whether all tables that were added are in the file."""
        return self._cache.is_open

    def add(self, table: Table) -> None:
        """Write a table."""
        sink, X = pa.BufferOutputStream(), table.X
        with pa.ipc.new_stream(sink, table.data.schema) as stream:
            stream.write_table(table.data)
        matrix = (X.data, X.indices, X.indptr) if sp.issparse(X) else (X, None, None)
        self._cache.add((np.frombuffer(sink.getvalue(), np.uint8), table.taken, *matrix))
        rest = replace(table, data=table.data.schema.empty_table(), X=None, taken=None, _parsed={})
        self._tables.append((rest, (0, 0) if X is None else X.shape))

    def chunks(self, rows: int | None = None) -> Iterator[Table]:
        """Yield the tables."""
        for number, (table, shape) in enumerate(self._tables):
            data, taken, *matrix = self._cache[number]
            X = matrix[0] if matrix[1] is None else sp.csr_matrix(tuple(matrix), shape=shape)
            cells = pa.ipc.open_stream(pa.py_buffer(data)).read_all()
            yield replace(table, data=cells, X=X, taken=taken, _parsed={})


@dataclass(frozen=True, eq=False)
class EncodedPiece:
    """A file, some row groups of one, or a copy, whose tables become rows as a schema says."""

    source: Source | TableCopy
    wanted: Wanted
    schema: Schema
    classes: Array
    rows: int | None = None  # of a chunk

    def read(self) -> Iterator[Chunk]:
        """Yield the rows."""
        classes = self.classes
        with suppress(NoRows):
            for part in self.source.chunks(self.rows):
                # A copy holds complete rows alone, and no column that is not used.
                table = part if isinstance(self.source, TableCopy) else self.wanted.complete(part)
                if len(table):
                    labels = Labels(classes, np.searchsorted(classes, self.schema.labels(table, classes)))
                    X = as_rows(self.schema.features(table))
                    yield Chunk(X, labels, self.schema.weights(table), part.origin, part.first_row)


@dataclass(frozen=True, eq=False)
class EncodedRows(Rows):
    """The rows of a table that is read again and again: a copy, if there is one, or a piece for each file or part."""

    tables: Tables
    piece: Callable[[Source | TableCopy], Piece]
    watcher: Callable[[int], None] | None = None  # told how many rows were read
    copy: TableCopy | None = None

    def pieces(self) -> Sequence[Piece]:
        """Return the copy, or a piece for each file or part of a file."""
        if self.copy is not None and self.copy.is_open:
            return [self.piece(self.copy)]
        return [self.piece(source) for source in self.tables.pieces()]
