"""The schema of a model: how tables become features, labels and weights. Learnt from a table, kept with the model."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self, TypeAlias

import numpy as np
import scipy.sparse as sp

from majorant.cli.readers import Source
from majorant.cli.refusals import NoRows, Refusal
from majorant.cli.tables import (
    LABELS,
    OTHER_DECIMAL,
    Matrix,
    Table,
    distinct,
    find_classes,
    is_string,
    is_usable,
    looks_numeric,
    match_classes,
    number_in,
    widened,
)
from majorant.core.checks import Array, one_of
from majorant.sources.base import Chunk, Labels, as_rows
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
FILL_OR_DROP = "say --missing mean to fill it in, or --missing drop to leave such rows out"


# A function that goes through the tables of a file from the beginning.
Tables: TypeAlias = Callable[[], Iterable[Table]]


# --- features of named columns ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Numeric:
    """A column of numbers: the feature (x − center) / scale, with ``mean`` in place of a missing x."""

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
        """Return the names of the features."""
        names = (
            [p.name] if isinstance(p, Numeric) else [f"{p.name}={level}" for level in p.levels] for p in self.parts
        )
        return [name for of_column in names for name in of_column]

    @property
    def levels(self) -> dict[str, int]:
        """Return how many different values each column of text has."""
        return {part.name: len(part.levels) for part in self.parts if isinstance(part, Category)}

    def check(self, table: Table) -> None:
        """Refuse a table that lacks a column."""
        if isinstance(table, Matrix):
            raise Refusal(f"the model was trained on named columns, which {table.origin} does not have")
        absent = [part.name for part in self.parts if part.name not in table.columns]
        if absent:
            more = f" (and {len(absent) - 1} more)" if len(absent) > 1 else ""
            raise Refusal(f"{table.origin} lacks the column {absent[0]!r} that the model was trained on{more}")

    def encode(self, table: Table, missing: str) -> Any:
        """Return the features, dense or, where most of them are zero, sparse. Other columns are left out."""
        self.check(table)
        width = len(self.names)
        blocks: list[Any] = []
        for part in self.parts:
            if missing != "mean":
                table.refuse_missing(part.name, table.missing(part.name), FILL_OR_DROP)
            if isinstance(part, Numeric):
                values = table.numbers(part.name)
                filled = np.where(np.isnan(values), part.mean, values)
                blocks.append(((filled - part.center) / part.scale)[:, None])
                continue
            number = {level: i for i, level in enumerate(part.levels)}
            words, codes = distinct(table.column(part.name))
            found = np.array([*(number.get(word, -1) for word in words), -1])[codes]
            rows = np.flatnonzero(found >= 0)
            shape = len(table), len(part.levels)
            blocks.append(sp.csr_matrix((np.ones(len(rows)), (rows, found[rows])), shape=shape))
        if len(self.parts) < DENSE * width:
            return sp.hstack(blocks, format="csr")
        return np.hstack([block.toarray() if sp.issparse(block) else block for block in blocks])

    def unseen(self, table: Table) -> dict[str, Counter[str]]:
        """Return for each column of text which values are none of its levels, and how often they occur."""
        self.check(table)
        unseen = {}
        for part in self.parts:
            if isinstance(part, Category):
                unseen[part.name] = counts_of(table, part.name)
                for level in part.levels:
                    unseen[part.name].pop(level, None)
        return unseen

    def complete(self, table: Table) -> Array:
        """Return which rows lack nothing."""
        self.check(table)
        return table.complete(part.name for part in self.parts)


def counts_of(table: Table, name: str) -> Counter[str]:
    """Return how often each value of a column occurs, in the order of their first rows."""
    words, codes = distinct(table.column(name))
    return Counter(dict(zip(words, np.bincount(codes[codes >= 0], minlength=len(words)).tolist(), strict=True)))


@dataclass
class ColumnFacts:
    """What is known of a column after some tables: moments of numbers, or how often each value of text occurs.

    Moments are those of Chan, Golub & LeVeque (1983).
    """

    name: str
    is_text: bool
    decimal: str | None  # the mark of fractions, had the column been numbers; None where the file says that it is text
    empty: bool = True
    count: int = 0
    mean: float = 0.0
    squares: float = 0.0  # about the mean
    counts: Counter[str] = field(default_factory=Counter)
    first_word: tuple[str, str] | None = None  # the first cell that is no number, and its file

    def add(self, table: Table) -> None:
        """Take note of the rows of one more table."""
        if self.is_text:
            self.counts.update(counts_of(table, self.name))
            self.empty = not self.counts
            if self.first_word is None and self.decimal is not None and isinstance(at := table.floats(self.name), int):
                cell = f"{table.columns[self.name][at].as_py()!r:.80}"
                self.first_word = f"{cell} in row {table.row(at)}", table.origin
            return
        values = table.numbers(self.name)
        values = values[~np.isnan(values)]
        if len(values):
            total, mean = self.count + len(values), float(values.mean())
            apart = mean - self.mean
            self.squares += float(((values - mean) ** 2).sum()) + apart**2 * self.count * len(values) / total
            self.mean += apart * len(values) / total
            self.count, self.empty = total, False

    def encoding(self, standardize: bool) -> Numeric | Category:
        """Return how the column becomes features."""
        if self.is_text:
            return Category(self.name, tuple(sorted(self.counts)))
        if not standardize:
            return Numeric(self.name, self.mean)
        deviation = float(np.sqrt(self.squares / max(self.count, 1)))
        return Numeric(self.name, self.mean, self.mean, deviation if deviation > 0 else 1.0)

    def question(self, chosen: bool, rows: int) -> None:
        """Refuse text that is no category: numbers in another notation or but for a few cells, or names of rows.

        Columns that were chosen by name may hold names of rows, and of another notation is only warned.
        """
        name = self.name
        if self.decimal is not None and all(map(looks_numeric, self.counts)):
            misread = sorted(level for level in self.counts if number_in(level, self.decimal) is None)
            if misread:
                sentence = f"column {name!r} holds numbers such as {misread[0]!r} that are taken for text"
                if not chosen:
                    more = f"; or leave it out with --drop {name}, or choose it as text with --features"
                    raise Refusal(sentence, OTHER_DECIMAL + more)
                warnings.warn(f"{sentence}; {OTHER_DECIMAL}", stacklevel=2)
        if self.decimal is not None and self.first_word is not None:
            filled = self.counts.total()
            other = [count for level, count in self.counts.items() if number_in(level, self.decimal) is None]
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


def learn_columns(tables: Tables, wanted: Wanted) -> tuple[Columns, Array]:
    """Return the features of tables with named columns, and the classes; the tables may be gone through twice.

    A column that turns out to hold text after a while is one of text from the start: hence the second time.
    """
    text = frozenset(wanted.categorical)
    while True:
        facts: dict[str, ColumnFacts] = {}
        labels: set[str] = set()
        mixed: set[str] = set()
        names: list[str] | None = None
        rows = 0
        for part in tables():
            table = wanted.complete(part)
            if names is None:
                first, names = part, wanted.columns(table)
            if not len(table):
                continue
            rows, origin = rows + len(table), table.origin
            for name in names:
                is_text = table.is_text(name) or name in text
                if wanted.missing != "mean":
                    lacking = table.missing(name)
                    if lacking.all() and len(table) > 1:
                        raise empty_column(name, origin, len(table))
                    table.refuse_missing(name, lacking, FILL_OR_DROP)
                if name not in facts:
                    cells = is_string(table.columns[name].type)
                    facts[name] = ColumnFacts(name, is_text, table.decimal if cells else None)
                if is_text and not facts[name].is_text:
                    mixed.add(name)
                elif name not in mixed:
                    facts[name].add(table)
            labels.update(read_labels(table, wanted.target)[0])
        if not mixed:
            break
        text |= mixed
    if not labels:
        raise Refusal("there are no rows to learn from: each of them lacks a value")
    classes = find_classes(labels, wanted.target or "label")
    empty = [empty_column(name, origin, rows) for name, fact in facts.items() if fact.empty]
    if len(empty) == len(facts):
        raise empty[0]
    for problem in empty:
        warnings.warn(f"{problem.args[0]}: it is left out", stacklevel=2)
    filled = [fact for fact in facts.values() if not fact.empty]
    for fact in filled:
        if fact.is_text and fact.name not in wanted.categorical:
            fact.question(bool(wanted.features), rows)
    for name in wanted.nameless(first):
        floats = first.floats(name) if is_usable(first.columns[name].type) and not first.is_text(name) else 0
        counts = isinstance(floats, np.ndarray) and bool((np.diff(floats) == 1).all()) and floats[0] in (0, 1)
        which = f"column {name!r}" if name else "a column without a name"
        why = "counts the rows, as an index that pandas wrote does, and" if counts else "is no feature: it"
        remedy = "give it another name in the file to use it"
        warnings.warn(f"{which} in {first.origin} {why} is left out; {remedy}", stacklevel=2)
    return Columns(tuple(fact.encoding(wanted.standardize) for fact in filled)), classes


def empty_column(name: str, origin: str, rows: int) -> Refusal:
    """Return the refusal of a column that lacks a value in every row."""
    return Refusal(f"column {name!r} of {origin} is empty in all {rows} rows", f"leave it out with --drop {name!r}")


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
            values = sp.coo_array(X)
            bad = np.flatnonzero(~np.isfinite(values.data))
            if len(bad):
                row, feature = (int(place[bad[0]]) for place in values.coords)
                where = f"{values.data[bad[0]]} in row {table.row(row)}"
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


def learn_indices(tables: Iterable[Table], standardize: bool) -> tuple[Indices, Array]:
    """Return the features of matrices, with their standard deviations if asked, and the classes."""
    least, rows, labels = 1, 0, set()
    sums = np.zeros((2, 0))
    for table in tables:
        assert isinstance(table, Matrix)
        X = table.X
        rows += len(table)
        # svmlight counts from 1; a file that has a feature 0, and any array, counts from 0.
        if not sp.issparse(X) or (X.indices == 0).any():
            least = 0
        if X.shape[1] > sums.shape[1]:
            sums = np.pad(sums, ((0, 0), (0, X.shape[1] - sums.shape[1])))
        squares = X.multiply(X) if sp.issparse(X) else X * X
        for total, part in zip(sums, (X, squares), strict=True):
            total[: X.shape[1]] += np.asarray(part.sum(axis=0)).ravel()
        labels.update(read_labels(table, None)[0])
    classes, width = find_classes(labels, "label"), sums.shape[1] - least
    if width < 1:
        raise Refusal("there are no features: every row is empty")
    if not standardize:
        return Indices(least, width), classes
    mean, square = sums / rows
    deviation = np.sqrt(np.maximum(square - mean**2, 0.0))[least:]
    return Indices(least, width, tuple(np.where(deviation > 0, deviation, 1.0).tolist())), classes


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

    def check(self, source: Source) -> None:
        """Refuse what does not go with the format."""
        if source.named and self.target is None:
            raise no_target(next(source.chunks(1)))
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
                table.require(name)
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
        kept = table.complete(name for name in (*self.columns(table), self.target, self.weight) if name is not None)
        return table if kept.all() else table.take(np.flatnonzero(kept))


@dataclass(frozen=True)
class Schema:
    """How a model reads a table."""

    encoding: Columns | Indices
    target: str | None
    weight: str | None
    missing: str

    @classmethod
    def learn(cls, source: Source, wanted: Wanted, tables: Tables | None = None) -> tuple[Self, Array]:
        """Return the schema and the classes, from a pass over a source, or over other tables; there may be a second."""
        wanted.check(source)
        tables = source.chunks if tables is None else tables
        encoding: Columns | Indices
        if source.named:
            encoding, classes = learn_columns(tables, wanted)
        else:
            encoding, classes = learn_indices(tables(), wanted.standardize)
        return cls(encoding, wanted.target, wanted.weight, wanted.missing), classes

    def features(self, table: Table) -> Any:
        """Return X."""
        return self.encoding.encode(table, self.missing)

    def labels(self, table: Table, classes: Array) -> Array:
        """Return the labels as entries of ``classes``."""
        return match_classes(*read_labels(table, self.target), classes, table.origin, table.row)

    def weights(self, table: Table) -> Array | None:
        """Return the weights of the rows, if there are any."""
        if self.weight is None or isinstance(table, Matrix):
            return None
        table.refuse_missing(self.weight, table.missing(self.weight), FILL_OR_DROP)
        return not_negative(table, self.weight)

    def to_json(self) -> dict[str, Any]:
        """Return it as data."""
        return {**asdict(self), "kind": "columns" if isinstance(self.encoding, Columns) else "indices"}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Return what :meth:`to_json` wrote."""
        saved = data["encoding"]
        encoding: Columns | Indices
        if data["kind"] == "columns":
            encoding = Columns(
                tuple(
                    Category(part["name"], tuple(part["levels"])) if "levels" in part else Numeric(**part)
                    for part in saved["parts"]
                )
            )
        else:
            scale = None if saved["scale"] is None else tuple(saved["scale"])
            encoding = Indices(saved["first"], saved["width"], scale)
        return cls(encoding, data["target"], data["weight"], data["missing"])


def read_labels(table: Table, target: str | None) -> tuple[list[str], Array]:
    """Return the different labels as text, and which of them each row has; a row that has none is refused."""
    name = LABELS if isinstance(table, Matrix) else target
    if name is None:
        raise no_target(table)
    words, codes = distinct(table.column(name))
    if (codes < 0).any():
        where = f"row {table.row(int(np.argmax(codes < 0)))} of {table.origin}"
        raise Refusal(f"{where} has no label", "say --missing drop to leave such rows out")
    return words, codes


def no_target(table: Table) -> Refusal:
    """Return the refusal of a table for which nobody says what to predict."""
    names = ", ".join(filter(None, table.columns))
    return Refusal(f"choose the column of {table.origin} to predict with --target; it has {names}")


def not_negative(table: Table, name: str) -> Array:
    """Return a column of weights, none of which is below zero."""
    weights = table.numbers(name)
    if (weights < 0).any():
        place = int(np.argmax(weights < 0))
        where = f"the weight {weights[place]:g} in row {table.row(place)}, below zero"
        raise Refusal(f"column {name!r} of {table.origin} holds {where}")
    return weights


# --- rows to train on -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """The rows of a source to train on, those to test on (if any), and how to read them; learnt from the former."""

    train: Table
    test: Table | None
    schema: Schema
    classes: Array


def read_split(source: Source, wanted: Wanted, share: float | None, seed: int) -> Split:
    """Read a source whole and keep a share of each class for a test, if one is given."""
    wanted.check(source)
    whole = source.read(wanted.as_written)
    table = wanted.complete(whole)
    if not len(table):
        for column in () if isinstance(whole, Matrix) else wanted.columns(whole):
            if whole.missing(column).all():
                raise empty_column(column, whole.origin, len(whole))
        raise Refusal(f"{source.name} has no rows to learn from: each of them lacks a value")
    if share is None:
        return Split(table, None, *Schema.learn(source, wanted, lambda: [table]))
    words, codes = read_labels(table, wanted.target)
    train, test = split(np.unique(words, return_inverse=True)[1][codes], share, seed)
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


@dataclass(frozen=True, eq=False)
class EncodedRows(Rows):
    """The complete rows of tables, encoded by a schema; they are read again and again, file by file.

    A part of them (a file, or some row groups of Parquet) is of the same class, and can be read by a worker.
    """

    source: Source
    wanted: Wanted
    schema: Schema
    classes: Array
    rows: int | None = None  # of a chunk
    watcher: Callable[[int], None] | None = None  # told how many rows were read

    def pieces(self) -> Sequence[EncodedRows]:
        """Return the parts."""
        return [replace(self, source=piece, watcher=None) for piece in self.source.pieces()]

    def read(self) -> Iterator[Chunk]:
        """Yield the rows."""
        with suppress(NoRows):
            for part in self.source.chunks(self.rows):
                table = self.wanted.complete(part)
                if len(table):
                    names = self.schema.labels(table, self.classes)
                    labels = Labels(self.classes, np.searchsorted(self.classes, names))
                    X, weights = as_rows(self.schema.features(table)), self.schema.weights(table)
                    yield Chunk(X, labels, weights, part.origin, part.first_row)
