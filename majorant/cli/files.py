"""Files as bytes, packed or not, and refusals: what is wrong with a file or an option, and what to do about it."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO

# Names that a message lists, at most, and classes of a confusion table that is printed.
LISTED = 20
# Rows of a chunk of a table if no option sets them.
CHUNK_ROWS = 20_000


class Refusal(ValueError):
    """A file or an option that cannot be used; ``hint`` says what to do about it.

    Examples
    --------
    >>> str(Refusal("row 7 of t.csv has no label", "say --missing drop to leave such rows out"))
    'row 7 of t.csv has no label; say --missing drop to leave such rows out'
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        return "; ".join(filter(None, (self.args[0], self.hint)))


class NoRows(Refusal):
    """A file without rows, which is no fault where other files have some."""


# What sentences of the library call their arguments, and the options that set these.
OPTIONS = {
    "C": "--C",
    "base": "--base",
    "c2": "--c2",
    "class_weight": "--class-weight",
    "cluster": "--cluster",
    "covariance": "--covariance",
    "decimal": "--decimal",
    "delimiter": "--delimiter",
    "encoding": "--encoding",
    "format": "--format",
    "max_iter": "--max-iter",
    "membership": "--membership",
    "membership_C": "--membership-C",
    "metric": "--metric",
    "min_freq": "--min-freq",
    "missing": "--missing",
    "patience": "--patience",
    "separator": "--separator",
    "solver": "--solver",
    "tol": "--tol",
    "Cs": "--cs",
    "n_classes": "--classes",
    "persons": "--person",
    "random_state": "--seed",
    "resume_from": "--resume:",
    "sample_weight": "--weight",
}
# Phrases that name arguments in other ways.
PHRASES = {
    "pass a dict of weights to partial_fit": "say --class-weight with a weight for each class",
    "pass X_val and y_val": "say --validation with files",
    "a solver without curvature such as LBFGS": "--solver scipy-lbfgs",
    "C was": "--C was",
    "classes need as many people": "need as many people",
    "choose curvature='low-rank' or 'diagonal', or": "choose",
    "less than min_freq": "less than --min-freq",
    "membership columns are": "columns of --membership are",
    "membership column": "--membership",
    "membership columns": "--membership",
    "needs ridge > 0": "say --ridge with a number above 0",
    "np.inf": "inf",
    "only tol, max_iter, verbose, n_jobs and callbacks may change": "only --tol and --max-iter may change",
    "partial_fit": "--stream",
    "set penalize_intercept=True": "say --penalize-intercept",
    "set ridge > 0": "say --ridge with a number above 0",
    "that were not named at the first call": "that --classes does not name",
    "use BatchMajorization without a penalty": "bbm does without a penalty",
    "use a finite C": "say --C with a number",
    "use a finite membership_C": "say --membership-C with a number",
    "use a large C": "use a large --C",
    "validation must be a share between 0 and 1, rows, or (X, y)": "--test-size must lie between 0 and 1",
    "y has to be 1": "--choice has to be 1",
    "y holds": "the file holds",
    "y sums to": "they sum to",
    "y_val holds": "the labels of --validation hold",
}
_PHRASE = re.compile(r"(?<![\w-])(" + "|".join(map(re.escape, sorted(PHRASES, key=len, reverse=True))) + r")(?!\w)")
_OPTION = re.compile(rf"(?<![\w-])({'|'.join(OPTIONS)})(?: (?=must be)|=(?:'([^']*)'|(?=\w)))")


def in_options(text: str) -> str:
    """Return a sentence of the library as a user of the command line would say it.

    Examples
    --------
    >>> in_options("solver='sbm' penalises every parameter: set penalize_intercept=True")
    '--solver sbm penalises every parameter: say --penalize-intercept'
    >>> in_options("max_iter must be a whole number")
    '--max-iter must be a whole number'
    """
    text = _PHRASE.sub(lambda found: PHRASES[found[1]], text)
    return _OPTION.sub(lambda found: f"{OPTIONS[found[1]]} {found[2] or ''}", text)


# --- files as bytes ---------------------------------------------------------------------------------------


def _open_zstd(path: str | Path, mode: str, **text: Any) -> Any:
    """Open a file that is packed by zstd, which Python reads only from 3.14 on."""
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
