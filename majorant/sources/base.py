"""Sources: rows that can be read again and again, chunk by chunk, and need not fit in memory.

A :class:`Source` is made of pieces, which workers can read apart from each other; a piece is a stream of
:class:`Chunk`: rows, labels and weights with the place that they come from, which errors name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from glob import glob, has_magic
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp

from majorant.core.checks import Array, refuse_null_ending

# Numbers of a chunk: 8 MB, enough to be worth a read, few enough for several to be in memory.
CHUNK_NUMBERS = 2**20
# Chunks of fewer numbers are put together up to that many: what is done once for each is then done seldom.
SMALL = 2**17
# Rows of a sample that shows their type, width and labels.
SHOWN = 1_000
# A function that is told how many rows have been read.
Watcher: TypeAlias = Callable[[int], None]


class RowError(ValueError):
    """A fault of a row, whose number within its chunk is known."""

    def __init__(self, fault: str, row: int) -> None:
        super().__init__(fault)
        self.row = row


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of rows: names, each once, in any order, and for each row the number of its name."""

    names: Array
    codes: Array

    @classmethod
    def of(cls, y: Any) -> Labels:
        """Return the labels of an array, or of a list."""
        refuse_null_ending("labels", y)
        y = np.asarray(y)
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if y.ndim != 1:
            raise ValueError(f"labels must be one for each row, got an array of shape {y.shape}")
        missing = np.zeros(len(y), dtype=bool)
        if y.dtype.kind in "fO":
            missing = np.array([label is None or label != label for label in y]) if y.dtype.kind == "O" else np.isnan(y)
        if missing.any():
            raise RowError("the label is missing", int(np.argmax(missing)))
        if y.dtype.kind == "O" and len({isinstance(label, str) for label in y}) < 2:
            y = np.array(y.tolist())
        if y.dtype.kind == "f":
            measured = ~np.isfinite(y) | (y != np.round(y))
            if measured.any():
                row = int(np.argmax(measured))
                raise RowError(f"labels name classes, but {y[row]} is a measurement; bin it first", row)
        try:
            return cls(*np.unique(y, return_inverse=True))
        except TypeError:
            kinds = sorted({type(label).__name__ for label in y})
            raise ValueError(f"labels must be of one type, got {' and '.join(kinds)}") from None


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows as they were read: an array or a CSR matrix, labels and weights if there are any, and their place.

    A chunk is also a piece of a source: the one that holds these rows alone.
    """

    X: Any
    labels: Labels | None = None
    weight: Array | None = None
    where: str = ""  # the file or the piece
    first: int = 0  # number of the first row in it
    open_ended: bool = False  # whether further columns, all zero, are not written down
    columns: tuple[str, ...] | None = None  # their names, if they have any

    @classmethod
    def of(
        cls, X: Any, y: Any = None, weight: Any = None, where: str = "", first: int = 0, open_ended: bool = False
    ) -> Chunk:
        """Return rows, labels and weights of any type as a chunk, or raise an error that names their place."""
        try:
            rows, labels = as_rows(X), None if y is None else Labels.of(y)
            numbers = None if weight is None else np.asarray(weight, dtype=np.float64).reshape(-1)
            names: Any = getattr(X, "columns", None)  # of a data frame
            columns = tuple(names) if names is not None and all(isinstance(name, str) for name in names) else None
            return cls(rows, labels, numbers, where, first, open_ended, columns)
        except RowError as problem:
            raise ValueError(f"{where}, row {first + problem.row}: {problem}") from None
        except (TypeError, ValueError) as problem:
            raise ValueError(f"{where}: {problem}") from None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def read(self) -> Iterator[Chunk]:
        """Yield the chunk itself."""
        yield self

    def take(self, rows: Array | slice) -> Chunk:
        """Return a chunk of the given rows."""
        labels = None if self.labels is None else replace(self.labels, codes=self.labels.codes[rows])
        return replace(self, X=self.X[rows], labels=labels, weight=None if self.weight is None else self.weight[rows])

    def refuse(self, fault: str, row: int | None = None) -> ValueError:
        """Return an error that names the place of these rows, or of one of them."""
        return ValueError(f"{self.where}{'' if row is None else f', row {self.first + row}'}: {fault}")

    def refuse_non_finite(self) -> None:
        """Raise if a number is missing or infinite."""
        sparse = sp.issparse(self.X)
        values = self.X.data if sparse else self.X
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(values.sum()) or np.isfinite(values).all():
                return
        bad = ~np.isfinite(self.X.toarray() if sparse else self.X)
        row, column = (int(place) for place in np.argwhere(bad)[0])
        name = column if self.columns is None else repr(self.columns[column])
        raise self.refuse(f"column {name} holds {self.X[row, column]}; fill in or drop what is missing", row)


class Piece(Protocol):
    """A part of a source that can be read apart from the others; pickled, it is read in another process."""

    def read(self) -> Iterator[Chunk]:
        """Yield the rows, chunk by chunk: the same chunks every time."""


class Source(ABC):
    """Rows that can be read again and again, in pieces. What an estimator's ``fit`` takes in place of ``X`` and ``y``.

    :class:`Parquet`, :class:`Svmlight`, :class:`Npy` and :class:`Chunks` are sources. Every piece is read as a stream
    of chunks, of which a few are in memory at a time. A ``watcher``, if there is one, is told how many rows this
    process has read: in the first pass, and in every other one.

    Examples
    --------
    >>> import majorant
    >>> issubclass(majorant.Parquet, majorant.Source)
    True
    """

    watcher: Watcher | None = None

    @property
    def feature_names(self) -> Sequence[str] | None:
        """Names of the columns, where they have any."""
        return None

    @abstractmethod
    def pieces(self) -> Sequence[Piece]:
        """Return the pieces, which together are all rows."""

    def chunks(self) -> Iterator[Chunk]:
        """Yield all rows, one piece after the other."""
        for piece in self.pieces():
            yield from piece.read()


def as_rows(X: Any) -> Array | sp.csr_array:
    """Return rows as an array or a CSR matrix of floating-point numbers."""
    if sp.issparse(X):
        csr = sp.csr_array(X)
        csr = csr if csr.dtype == np.float32 else csr.astype(np.float64, copy=False)
        if not csr.has_canonical_format:
            csr = csr.copy()
            csr.sum_duplicates()
        return csr
    array = np.asarray(X)
    if array.ndim != 2:
        raise ValueError(f"X must have two dimensions, got shape {array.shape}")
    if array.dtype.kind not in "fiubO":
        raise ValueError(f"X must hold numbers, got {array.dtype}")
    return array if array.dtype == np.float32 else array.astype(np.float64, copy=False)


def rows_per_chunk(columns: int) -> int:
    """Return the number of rows of a chunk with so many columns."""
    return max(CHUNK_NUMBERS // max(columns, 1), 1)


def found_files(path: Any, ending: str = "") -> list[Path]:
    """Return the files of a path, a folder, a pattern, or a list of those, in the order of their names."""
    if not isinstance(path, str | Path):
        if not isinstance(path, Iterable):
            raise TypeError(f"path must be a path, a pattern or a list of paths, got {path!r:.80}")
        found = [file for part in path for file in found_files(part, ending)]
        if not found:
            raise FileNotFoundError("path must name at least one file, got an empty list")
        return found
    target = Path(path)
    if target.is_dir():
        # Other writers leave hidden files and marks such as _SUCCESS beside theirs.
        files = [file for file in target.rglob(f"*{ending}") if file.is_file() and not file.name.startswith(("_", "."))]
        if not files:
            raise FileNotFoundError(f"{path} holds no {ending or 'readable'} files")
        return sorted(files)
    if target.exists():
        return [target]
    matching = sorted(Path(name) for name in glob(str(path), recursive=True)) if has_magic(str(path)) else []
    if not matching:
        raise FileNotFoundError(f"no file is called, or matches, {path}")
    return matching


def merged(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yield the same rows in the same order, neighbouring small chunks as one.

    Chunks that cannot be rows of one matrix stay apart: the survey refuses them, and names their place.
    """
    waiting: list[Chunk] = []
    held, kind = 0, None
    for chunk in chunks:
        X, sparse = chunk.X, sp.issparse(chunk.X)
        numbers = int(X.nnz + len(chunk) if sparse else X.size)
        before, labels = kind, None if chunk.labels is None else chunk.labels.names.dtype.kind
        kind = (X.shape[1], X.dtype, sparse, chunk.open_ended, chunk.columns, labels)
        if waiting and (held + numbers > SMALL or kind != before):
            yield concatenated(waiting)
            waiting, held = [], 0
        if numbers >= SMALL:
            yield chunk
        else:
            waiting.append(chunk)
            held += numbers
        del chunk, X  # their memory is free while the next one is read
    if waiting:
        yield concatenated(waiting)


def concatenated(chunks: Sequence[Chunk]) -> Chunk:
    """Return the rows of several chunks as one, which has the place of the first."""
    first = chunks[0]
    if len(chunks) == 1:
        return first
    parts = [chunk.X for chunk in chunks]
    X = sp.csr_array(sp.vstack(parts, format="csr")) if sp.issparse(first.X) else np.concatenate(parts)
    labels, weight = None, None
    labelled = [chunk.labels for chunk in chunks if chunk.labels is not None]
    if labelled:
        names = np.unique(np.concatenate([part.names for part in labelled]))
        labels = Labels(names, np.concatenate([np.searchsorted(names, part.names)[part.codes] for part in labelled]))
    if any(chunk.weight is not None for chunk in chunks):
        weight = np.concatenate([np.ones(len(chunk)) if chunk.weight is None else chunk.weight for chunk in chunks])
    return replace(first, X=X, labels=labels, weight=weight)


@dataclass(frozen=True)
class Chunks(Source):
    """Rows from a function without arguments that yields ``(X, y)`` or ``(X, y, weight)``, the same every time.

    :class:`~majorant.ChainCRF` takes those whose ``X`` and ``y`` are lists of sequences.

    Parameters
    ----------
    factory : callable, or a list of them
        Called once for every pass over the data. Several are several pieces, which workers can share. ``X`` is an
        array, a data frame or a sparse matrix, of as many rows as memory holds several times. Where nothing is to be
        learnt (``predict``), ``X`` alone will do.

    Examples
    --------
    >>> import numpy as np
    >>> import majorant
    >>> def rows():
    ...     for seed in range(10):
    ...         X = np.random.default_rng(seed).normal(size=(100, 3))
    ...         yield X, X @ [1.0, -1.0, 0.0] > 0
    >>> model = majorant.LogisticRegression().fit(majorant.Chunks(rows))
    >>> model.result_.converged, model.score(majorant.Chunks(rows)) > 0.95
    (True, True)

    Sequences, whose tokens are dicts, lists of strings or rows of numbers:

    >>> def sentences():
    ...     yield [[["word=the"], ["word=cat"]], [["word=a"], ["word=dog"]]], [["DET", "NOUN"], ["DET", "NOUN"]]
    ...     yield [[["word=cat"], ["word=sat"]]], [["NOUN", "VERB"]]
    >>> majorant.ChainCRF(c2=0.1).fit(majorant.Chunks(sentences)).predict([[["word=a"], ["word=cat"]]])
    [['DET', 'NOUN']]
    """

    factory: Callable[[], Any] | Sequence[Callable[[], Any]]

    def __post_init__(self) -> None:
        for function in self._functions():
            if not callable(function):
                raise TypeError(
                    f"Chunks needs a function that yields (X, y) whenever it is called, got {type(function).__name__}: "
                    "a fit reads the rows again and again, and a generator ends after the first time; "
                    "pass the function that makes it"
                )

    def pieces(self) -> Sequence[CallPiece]:
        """Return one piece for each function."""
        functions = self._functions()
        if len(functions) == 1:
            return [CallPiece(functions[0], "chunk")]
        return [CallPiece(function, f"function {number}, chunk") for number, function in enumerate(functions)]

    def _functions(self) -> Sequence[Callable[[], Any]]:
        return self.factory if isinstance(self.factory, list | tuple) else [self.factory]  # type: ignore[list-item]


@dataclass(frozen=True)
class CallPiece:
    """The items that one function yields."""

    factory: Callable[[], Any]
    name: str

    def read(self) -> Iterator[Chunk]:
        """Call the function, and yield its items as chunks."""
        for where, (X, y, weight) in self.items():
            yield Chunk.of(X, y, weight, where)

    def items(self) -> Iterator[tuple[str, tuple[Any, Any, Any]]]:
        """Call the function, and yield X, y and weight as they are, None where there is none, each with its place."""
        items = self.factory()
        if not isinstance(items, Iterable):
            raise TypeError(f"the function of Chunks must yield (X, y), got {type(items).__name__} from a call")
        for number, item in enumerate(items):
            where, parts = f"{self.name} {number}", item if isinstance(item, tuple) else (item,)
            if not 1 <= len(parts) <= 3:
                raise ValueError(f"{where}: expected (X, y) or (X, y, weight), got {len(parts)} things")
            yield where, (*parts, None, None)[:3]


def is_dask(X: Any) -> bool:
    """Return whether something is a Dask collection, without importing Dask."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(X, "__dask_graph__")


@dataclass(frozen=True, eq=False)
class DaskCollections(Source):
    """Rows of a Dask array or data frame with labels, and perhaps weights, that are partitioned alike.

    Sizes of partitions need not be known. Without a cluster they are computed one after the other at every pass.
    """

    X: Any
    y: Any = None
    weight: Any = None

    @property
    def feature_names(self) -> Sequence[str] | None:
        """Names of a data frame's columns."""
        columns = getattr(self.X, "columns", None)
        return None if columns is None else [str(name) for name in columns]

    def pieces(self) -> Sequence[Piece]:
        """Return one piece for each partition, which is computed when it is read."""
        return [Partition(chunk) for chunk in self.delayed_pieces()]

    def delayed_pieces(self) -> list[Any]:
        """Return the partitions as chunks that Dask has yet to compute."""
        from dask import delayed

        parts: dict[str, list[Any]] = {}
        for name, values in (("X", self.X), ("y", self.y), ("sample_weight", self.weight)):
            if values is None:
                continue
            if not is_dask(values):
                raise TypeError(f"X, y and sample_weight must all be Dask collections, got {type(values).__name__}")
            if hasattr(values, "chunks"):  # an array: partitions have all columns
                if values.ndim == 2 and len(values.chunks[1]) > 1:
                    values = values.rechunk({1: -1})
                own = values.chunks[0]
                of_rows = getattr(self.X, "chunks", (own,))[0]
                known = not any(size != size for size in (*own, *of_rows))  # NaN is not known
                if known and own != of_rows and sum(own) == sum(of_rows):
                    values = values.rechunk({0: of_rows})
                parts[name] = list(values.to_delayed().reshape(-1))
            else:
                parts[name] = list(values.to_delayed())  # of a data frame, or a series
            if len(parts[name]) != len(parts["X"]):
                raise ValueError(
                    f"{name} must be partitioned as X is, into {len(parts['X'])} parts, got {len(parts[name])}; "
                    "rechunk it, or make both from one collection"
                )
        make = delayed(Chunk.of, pure=True)
        arrays = (parts.get(name, [None] * len(parts["X"])) for name in ("X", "y", "sample_weight"))
        return [make(*part, f"partition {number}") for number, part in enumerate(zip(*arrays, strict=True))]


@dataclass(frozen=True, eq=False)
class Partition:
    """A partition that is computed whenever it is read."""

    chunk: Any

    def read(self) -> Iterator[Chunk]:
        """Compute it."""
        yield self.chunk.compute()
