"""Files as bytes, packed or not, and the refusals of what cannot be read."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from majorant.cli.refusals import Refusal


def _open_zstd(path: str | Path, mode: str, **text: Any) -> Any:
    import pyarrow as pa

    if mode == "rb":
        return io.BufferedReader(pa.CompressedInputStream(open(path, "rb"), "zstd"))
    return io.TextIOWrapper(pa.CompressedOutputStream(open(path, "wb"), "zstd"), **text)


PACKED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open, ".zst": _open_zstd}
BADLY_PACKED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
# What files that are no text begin with, and how to get at the text.
BEGINNINGS = {
    b"\x1f\x8b": ("packed by gzip", "unpack it with gunzip"),
    b"BZh": ("packed by bzip2", "unpack it with bunzip2"),
    b"\xfd7zXZ": ("packed by xz", "unpack it with unxz"),
    b"\x28\xb5\x2f\xfd": ("packed by zstd", "unpack it with unzstd"),
    b"PK\x03\x04": ("a zip archive or an Excel file", "unpack it, or save the sheet as CSV"),
    b"\x93NUMPY": ("a NumPy array", "such features are for majorant probe and its models; tables are CSV or Parquet"),
    b"PAR1": ("a Parquet file", "say --format parquet"),
}
OTHER_ENCODING = "say --encoding if it is text of another kind, such as latin-1 or utf-16"


def open_unpacked(path: str | Path) -> BinaryIO:
    """Open a file for reading; one packed by gzip, bzip2, xz or zstd is known by its name."""
    return PACKED.get(Path(path).suffix, open)(path, "rb")


def standard_input() -> BinaryIO:
    """Return standard input, or say that there is none."""
    if sys.stdin is None:
        raise Refusal("standard input is closed: pipe a file into it, or name one instead of -")
    return sys.stdin.buffer


def open_packing(path: str | Path) -> TextIO:
    """Open a text file for writing, packed as its name says."""
    return PACKED.get(Path(path).suffix, open)(path, "wt", encoding="utf-8", newline="\n")


def known_encoding(name: str) -> str:
    """Return the name of an encoding; UTF-8 may begin with a mark of the order of bytes."""
    try:
        found = codecs.lookup(name).name
    except LookupError:
        raise Refusal(f"encoding must be one that Python knows, such as utf-8 or latin-1, got {name!r}") from None
    return "utf-8-sig" if found == "utf-8" else found


def refuse_packed(data: bytes, name: str) -> None:
    """Refuse what is no text, and begins as a packed file does."""
    for beginning, (what, remedy) in BEGINNINGS.items():
        if data.startswith(beginning):
            raise Refusal(f"{name} is {what}", remedy) from None


@contextmanager
def named_failures(name: str) -> Iterator[None]:
    """Let a file that is not text, or not packed as its name says, be refused by its name."""
    try:
        yield
    except UnicodeDecodeError as problem:
        refuse_packed(problem.object, name)
        encoding = "UTF-8" if problem.encoding.startswith("utf-8") else problem.encoding
        sentence = f"{name} is not {encoding} text ({problem.reason} at byte {problem.start})"
        raise Refusal(sentence, OTHER_ENCODING) from None
    except UnicodeError as problem:  # of UTF-16 without a mark
        raise Refusal(f"{name} cannot be decoded: {problem}", OTHER_ENCODING) from None
    except BADLY_PACKED as problem:
        raise Refusal(f"{name} cannot be unpacked: {problem}") from None
    except OSError as problem:
        if problem.errno is not None:
            raise
        raise Refusal(f"{name} cannot be unpacked: {problem}") from None  # so says pyarrow
