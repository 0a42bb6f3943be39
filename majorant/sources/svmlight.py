"""Rows in svmlight files, plain or compressed, a block of lines at a time."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from majorant.sources.base import Chunk, Piece, Source, found_files

# Bytes of the lines of a chunk.
BLOCK = 2**24
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
        return [SvmlightPiece(path, self) for path in found_files(self.path)]


@dataclass(frozen=True)
class SvmlightPiece:
    """One file of a source."""

    path: Path
    source: Svmlight

    def read(self) -> Iterator[Chunk]:
        """Yield the rows, those of a few megabytes of lines at a time."""
        first = 0
        try:
            with OPEN.get(self.path.suffix, open)(self.path, "rb") as file:
                for lines in _blocks_of_lines(file):
                    X, y = self._parse(lines, first)
                    if np.isfinite(y).all() and (y == np.round(y)).all() and np.abs(y).max(initial=0) < 2.0**53:
                        y = y.astype(np.int64)  # whole numbers, which scikit-learn's reader returns as floats
                    if len(y):
                        yield Chunk.of(X, y, None, str(self.path), first, self.source.n_features is None)
                    first += len(y)
        except FileNotFoundError:
            raise
        except (OSError, EOFError) as problem:
            raise ValueError(f"{self.path} cannot be read ({problem})") from None

    def _parse(self, lines: bytes, first: int) -> tuple[Any, Any]:
        """Return rows and labels, or raise an error that names the row."""
        from sklearn.datasets import load_svmlight_file

        n_features, dtype, zero_based = self.source.n_features, self.source.dtype, self.source.zero_based

        def parse(text: bytes) -> tuple[Any, Any]:
            return load_svmlight_file(BytesIO(text), n_features=n_features, dtype=dtype, zero_based=zero_based)

        try:
            return parse(lines)
        except (ValueError, IndexError, OverflowError) as problem:
            rows = [line for line in lines.splitlines() if line.split(b"#")[0].strip()]
            for number, line in enumerate(rows):
                try:
                    parse(line + b"\n")
                except (ValueError, IndexError, OverflowError) as of_line:
                    text = line[:60].decode(errors="replace")
                    from_zero = not zero_based and "index 0" in str(of_line)
                    hint = "; pass zero_based=True if columns are counted from 0" if from_zero else ""
                    raise ValueError(f"{self.path}, row {first + number}: {of_line} in {text!r}{hint}") from None
            raise ValueError(f"{self.path}: {problem}") from None


def _blocks_of_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield whole lines, a block at a time."""
    rest = b""
    while block := file.read(BLOCK):
        end = block.rfind(b"\n") + 1
        if end:
            yield rest + block[:end]
            rest = block[end:]
        else:
            rest += block
    if rest.strip():
        yield rest
