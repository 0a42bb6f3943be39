"""Rows in svmlight files, plain or compressed, some lines at a time."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from majorant.sources.base import Chunk, Labels, Piece, RowError, Source, found_files

# Bytes of the lines of a chunk.
STRETCH = 2**24
# Of the numbers that floats tell from their neighbours.
LARGEST = 2.0**53
OPEN: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}


@dataclass(frozen=True)
class Svmlight(Source):
    """Rows of svmlight files, ``label index:value …``, also gzipped (``.gz``) or compressed by bzip2 (``.bz2``).

    Parameters
    ----------
    path : path, pattern, or list of paths
        A folder stands for the files in it, in the order of their names.
    n_features : int, optional
        Columns; as many as occur if not given.
    zero_based : bool
        Whether the first column has the index 0. LIBSVM's files begin with 1.
    dtype : dtype
        float64 or float32.

    Examples
    --------
    >>> import tempfile
    >>> import majorant
    >>> path = Path(tempfile.mkdtemp()) / "rows.svm"
    >>> _ = path.write_text(chr(10).join(["1 1:0.5 3:1", "0 2:1", "1 1:2", "0 3:1"]))
    >>> majorant.LogisticRegression().fit(majorant.Svmlight(path)).coef_.shape
    (1, 3)
    """

    path: Any
    n_features: int | None = None
    zero_based: bool = False
    dtype: Any = np.float64

    def __post_init__(self) -> None:
        if np.dtype(self.dtype) not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float64 or float32, got {self.dtype!r}")

    def pieces(self) -> Sequence[Piece]:
        """Return one piece for each file."""
        return [SvmlightPiece(path, self.n_features, self.zero_based, self.dtype) for path in found_files(self.path)]


@dataclass(frozen=True)
class SvmlightPiece:
    """One file."""

    path: Path
    n_features: int | None
    zero_based: bool
    dtype: Any

    def read(self) -> Iterator[Chunk]:
        """Yield the rows of some lines after the other."""
        first = 0
        for lines in self._lines():
            X, y = self._parse(lines, first)
            if len(y):
                yield self._chunk(X, y, first)
            first += len(y)

    def _lines(self) -> Iterator[bytes]:
        try:
            with OPEN.get(self.path.suffix, open)(self.path, "rb") as file:
                yield from _stretches(file)
        except FileNotFoundError:
            raise
        except (OSError, EOFError) as problem:
            raise ValueError(f"{self.path} cannot be read ({problem})") from None

    def _chunk(self, X: sp.csr_matrix, y: Any, first: int) -> Chunk:
        try:
            labels = Labels.of(_whole_numbers(y))
        except RowError as problem:
            raise ValueError(f"{self.path}, row {first + problem.row}: {problem.what}") from None
        return Chunk(sp.csr_array(X), labels, None, str(self.path), first, open_ended=self.n_features is None)

    def _parse(self, lines: bytes, first: int) -> tuple[Any, Any]:
        """Return rows and labels, or an error that names the row."""
        try:
            return self._parsed(lines)
        except (ValueError, IndexError, OverflowError) as problem:
            rows = [line for line in lines.splitlines() if line.split(b"#")[0].strip()]
            for number, line in enumerate(rows):
                try:
                    self._parsed(line + b"\n")
                except (ValueError, IndexError, OverflowError) as of_line:
                    text = line[:60].decode(errors="replace")
                    from_zero = not self.zero_based and "index 0" in str(of_line)
                    hint = "; pass zero_based=True if columns are counted from 0" if from_zero else ""
                    raise ValueError(f"{self.path}, row {first + number}: {of_line} in {text!r}{hint}") from None
            raise ValueError(f"{self.path}: {problem}") from None

    def _parsed(self, lines: bytes) -> tuple[Any, Any]:
        from sklearn.datasets import load_svmlight_file

        if self.n_features is None:
            return load_svmlight_file(BytesIO(lines), dtype=self.dtype, zero_based=self.zero_based)
        return load_svmlight_file(
            BytesIO(lines), n_features=self.n_features, dtype=self.dtype, zero_based=self.zero_based
        )


def _stretches(file: BinaryIO) -> Iterator[bytes]:
    """Yield whole lines, some megabytes at a time."""
    rest = b""
    while stretch := file.read(STRETCH):
        end = stretch.rfind(b"\n") + 1
        if end:
            yield rest + stretch[:end]
            rest = stretch[end:]
        else:
            rest += stretch
    if rest.strip():
        yield rest


def _whole_numbers(y: Any) -> Any:
    """Return labels as integers where all are whole, as scikit-learn's reader does not."""
    whole = np.isfinite(y).all() and (y == np.round(y)).all() and np.abs(y).max(initial=0) < LARGEST
    return y.astype(np.int64) if whole else y
