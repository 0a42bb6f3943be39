"""Files as bytes, whether packed or not, and one sentence for what cannot be read."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO

PACKED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
BADLY_PACKED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)


def open_unpacked(path: str | Path) -> BinaryIO:
    """Open a file for reading; one packed by gzip, bzip2 or xz is known by its name."""
    return PACKED.get(Path(path).suffix, open)(path, "rb")


def open_packing(path: str | Path) -> TextIO:
    """Open a text file for writing, packed as its name says."""
    return PACKED.get(Path(path).suffix, open)(path, "wt", encoding="utf-8", newline="\n")


@contextmanager
def named_failures(name: str) -> Iterator[None]:
    """Let a file that is not text, or not what its name promises, be refused by its name."""
    try:
        yield
    except UnicodeDecodeError as problem:
        raise ValueError(f"{name} is not UTF-8 text ({problem.reason} at byte {problem.start})") from None
    except BADLY_PACKED as problem:
        raise ValueError(f"{name} cannot be unpacked: {problem}") from None
