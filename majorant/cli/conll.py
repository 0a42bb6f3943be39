"""CoNLL column files: a token a line, its fields side by side, a blank line between sentences."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import BinaryIO

from majorant._checks import one_of
from majorant.cli.packing import (
    OTHER_ENCODING,
    known_encoding,
    named_failures,
    open_unpacked,
    refuse_packed,
    standard_input,
)
from majorant.cli.refusals import Refusal

SEPARATORS = ("auto", "space", "tab")
# Stands between the documents of CoNLL-2003 and its kin; it is no token.
DOCUMENT_START = "-DOCSTART-"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Sentence:
    """A sentence by columns.

    Parameters
    ----------
    columns : tuple of tuples of str
        One tuple for each column of the file, with one entry for each token.
    first_line : int
        Line of the first token, counted from 1.
    origin : str
        The file, as a message calls it.
    separator : str
        What stood between the fields: a tab or a space.
    skipped : tuple of str
        The lines before it that are no tokens, as they stood.
    """

    columns: tuple[tuple[str, ...], ...]
    first_line: int = 1
    origin: str = "the text"
    separator: str = " "
    skipped: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.columns[0])

    def column(self, number: int) -> tuple[str, ...]:
        """Return a column; -1 is the last one. A column that is not there is refused by file and line."""
        if not -len(self.columns) <= number < len(self.columns):
            raise ValueError(
                f"{self.place} has {len(self.columns)} columns, but column {number} is needed "
                "(the first is 0, the last is -1)"
            )
        return self.columns[number]

    def labels(self, number: int) -> list[str]:
        """Return a column of labels, none of which may be empty."""
        labels = list(self.column(number))
        if "" in labels:
            line = self.first_line + labels.index("")
            raise ValueError(f"line {line} of {self.origin} has an empty label in column {number}")
        return labels

    @property
    def place(self) -> str:
        """Return where it is, for a message."""
        return f"the sentence at line {self.first_line} of {self.origin}"


@dataclass(frozen=True)
class ColumnFile:
    r"""A CoNLL column file.

    Parameters
    ----------
    path : str
        The file, which may be packed by gzip, bzip2 or xz; ``-`` is standard input, which can be read once.
    separator : {"auto", "space", "tab"}
        Between fields: any run of spaces and tabs, or a single tab, so that a field may hold spaces or be empty. By
        default tabs if the first token's line holds one.
    skip : tuple of str
        Lines that begin with one of these are no tokens: ``"# "`` skips the comments of CoNLL-U. Nothing else is taken
        for a comment, as ``#`` is a token of newspapers.
    encoding : str
        Of the text.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.txt"
    >>> _ = path.write_text("He PRP B-NP\nslept VBD B-VP\n\nGood JJ O\n")
    >>> [sentence.column(0) for sentence in ColumnFile(str(path))]
    [('He', 'slept'), ('Good',)]
    """

    path: str
    separator: str = "auto"
    skip: tuple[str, ...] = (DOCUMENT_START,)
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        one_of("separator", self.separator, SEPARATORS)
        known_encoding(self.encoding)

    @property
    def name(self) -> str:
        """Return what to call it in a sentence."""
        return "standard input" if self.path == "-" else self.path

    def __iter__(self) -> Iterator[Sentence]:
        """Yield the sentences one by one; the file is never held whole. One without any is refused."""
        found = False
        for sentence in self.sentences():
            found = True
            yield sentence
        if not found:
            raise ValueError(f"{self.name} holds no sentence")

    def sentences(self) -> Iterator[Sentence]:
        """Yield the sentences, if there are any."""
        with named_failures(self.name), self._open() as file:
            yield from _Reader(self).sentences(self._in_utf8(file))

    def _open(self) -> BinaryIO | nullcontext[BinaryIO]:
        return nullcontext(standard_input()) if self.path == "-" else open_unpacked(self.path)

    def _in_utf8(self, file: BinaryIO) -> Iterator[bytes]:
        encoding = known_encoding(self.encoding)
        if encoding == "utf-8-sig":
            yield from file
            return
        with io.TextIOWrapper(file, encoding=encoding, newline="\n") as text:
            yield from (line.encode() for line in text)


class _Reader:
    """What is known of a file while it is read: how it is split, its width, the sentence that is under way."""

    def __init__(self, source: ColumnFile) -> None:
        self.origin = source.name
        self.skip = tuple(prefix.encode() for prefix in source.skip)
        self.separator = source.separator
        self.width = 0
        self.begins_with_mark = False
        self._begin()

    def _begin(self) -> None:
        self.rows: list[list[str]] = []
        self.skipped: list[str] = []
        self.first_line = 0

    def sentences(self, file: Iterable[bytes]) -> Iterator[Sentence]:
        for number, line in enumerate(file, start=1):
            if number == 1:
                line = line.removeprefix(BYTE_ORDER_MARK)
            if not line.strip():
                if self.rows:
                    yield self._finished()
                elif self.skipped:
                    self.skipped.append("")
            elif self.skip and line.startswith(self.skip):
                self.skipped.append(line.decode(errors="replace").rstrip("\r\n"))
            else:
                self._add(line, number)
        if self.rows:
            yield self._finished()

    def _add(self, line: bytes, number: int) -> None:
        if not self.width:
            self._settle(line)
        # Bytes are split at ASCII blanks only: a no-break space may be part of a token.
        fields = line.rstrip(b"\r\n").split(b"\t") if self.separator == "tab" else line.split()
        self.width = self.width or len(fields)
        if len(fields) != self.width:
            comment = self.begins_with_mark or line.startswith(b"#")
            raise Refusal(
                f"line {number} of {self.origin} has {len(fields)} columns, but the lines before have {self.width}",
                "say --skip '#' if lines that begin so are comments, as in CoNLL-U" if comment else "",
            )
        if not self.rows:
            self.first_line = number
        try:
            self.rows.append([field.decode() for field in fields])
        except UnicodeDecodeError:
            if number == 1:
                refuse_packed(line, self.origin)
            raise Refusal(f"line {number} of {self.origin} is not UTF-8 text", OTHER_ENCODING) from None

    def _settle(self, line: bytes) -> None:
        self.begins_with_mark = line.startswith(b"#")
        if self.separator == "auto":
            self.separator = "tab" if b"\t" in line.strip() else "space"

    def _finished(self) -> Sentence:
        columns = tuple(zip(*self.rows, strict=True))
        mark = "\t" if self.separator == "tab" else " "
        sentence = Sentence(columns, self.first_line, self.origin, mark, tuple(self.skipped))
        self._begin()
        return sentence


def batches(sentences: Iterable[Sentence], size: int) -> Iterator[list[Sentence]]:
    """Yield the sentences in lists of at most so many."""
    batch: list[Sentence] = []
    for sentence in sentences:
        batch.append(sentence)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def write_sentence(write: Callable[[str], object], sentence: Sentence, *extra: Sequence[str]) -> None:
    """Write a sentence and the blank line after it, with more columns at the end.

    Examples
    --------
    >>> import sys
    >>> write_sentence(sys.stdout.write, Sentence((("He", "slept"), ("PRP", "VBD"))), ["B-NP", "B-VP"])
    He PRP B-NP
    slept VBD B-VP
    <BLANKLINE>
    """
    for line in sentence.skipped:
        write(f"{line}\n")
    for fields in zip(*sentence.columns, *extra, strict=True):
        write(sentence.separator.join(fields) + "\n")
    write("\n")
