"""CoNLL column files: a token a line, its fields side by side, a blank line between sentences."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import BinaryIO

from majorant.cli.packing import (
    OTHER_ENCODING,
    known_encoding,
    named_failures,
    open_unpacked,
    refuse_packed,
    standard_input,
)
from majorant.cli.refusals import Refusal
from majorant.core.checks import one_of

SEPARATORS = ("auto", "space", "tab")
# Stands between the documents of CoNLL-2003 and its kin; it is no token.
DOCUMENT_START = "-DOCSTART-"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Sentence:
    """A sentence by columns, each with one entry for each token."""

    columns: tuple[tuple[str, ...], ...]
    first_line: int = 1  # of its file, counted from 1
    origin: str = "the text"
    separator: str = " "  # between fields: a tab or a space
    skipped: tuple[str, ...] = ()  # the lines before it that are no tokens

    def __len__(self) -> int:
        return len(self.columns[0])

    def column(self, number: int) -> tuple[str, ...]:
        """Return a column; -1 is the last one. A column that is not there is refused by file and line."""
        if not -len(self.columns) <= number < len(self.columns):
            raise Refusal(
                f"the sentence at line {self.first_line} of {self.origin} has {len(self.columns)} columns, but column "
                f"{number} is needed "
                "(the first is 0, the last is -1)"
            )
        return self.columns[number]

    def labels(self, number: int) -> list[str]:
        """Return a column of labels, none of which may be empty."""
        labels = list(self.column(number))
        if "" in labels:
            line = self.first_line + labels.index("")
            raise Refusal(f"line {line} of {self.origin} has an empty label in column {number}")
        return labels


@dataclass(frozen=True)
class ColumnFile:
    r"""A CoNLL column file, which may be packed; ``-`` is standard input, which can be read once.

    Between fields stands any run of spaces and tabs ("space"), or a single tab ("tab"), so that a field may hold spaces
    or be empty; by default ("auto") tabs if the first token's line holds one. Lines that begin as ``skip`` says are no
    tokens: ``"# "`` skips the comments of CoNLL-U. Nothing else is taken for a comment: ``#`` is a token of newspapers.

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
            raise Refusal(f"{self.name} holds no sentence")

    def sentences(self) -> Iterator[Sentence]:
        """Yield the sentences, if there are any."""
        file = nullcontext(standard_input()) if self.path == "-" else open_unpacked(self.path)
        with named_failures(self.name), file as lines:
            yield from self._parse(self._in_utf8(lines))

    def _in_utf8(self, file: BinaryIO) -> Iterator[bytes]:
        encoding = known_encoding(self.encoding)
        if encoding == "utf-8-sig":
            yield from file
            return
        with io.TextIOWrapper(file, encoding=encoding, newline="\n") as text:
            yield from (line.encode() for line in text)

    def _parse(self, lines: Iterable[bytes]) -> Iterator[Sentence]:
        skip = tuple(prefix.encode() for prefix in self.skip)
        width, tabs, commented = 0, self.separator == "tab", False
        rows: list[list[str]] = []
        skipped: list[str] = []
        first_line = 0

        def sentence() -> Sentence:
            columns = tuple(zip(*rows, strict=True))
            return Sentence(columns, first_line, self.name, "\t" if tabs else " ", tuple(skipped))

        for number, line in enumerate(lines, start=1):
            if number == 1:
                line = line.removeprefix(BYTE_ORDER_MARK)
            if not line.strip():
                if rows:
                    yield sentence()
                    rows, skipped = [], []
                elif skipped:
                    skipped.append("")
                continue
            if skip and line.startswith(skip):
                skipped.append(line.decode(errors="replace").rstrip("\r\n"))
                continue
            if not width:  # the first token
                commented = line.startswith(b"#")
                tabs = tabs or (self.separator == "auto" and b"\t" in line.strip())
            # Bytes are split at ASCII blanks only: a no-break space may be part of a token.
            fields = line.rstrip(b"\r\n").split(b"\t") if tabs else line.split()
            width = width or len(fields)
            if len(fields) != width:
                comment = commented or line.startswith(b"#")
                raise Refusal(
                    f"line {number} of {self.name} has {len(fields)} columns, but the lines before have {width}",
                    "say --skip '#' if lines that begin so are comments, as in CoNLL-U" if comment else "",
                )
            first_line = first_line if rows else number
            try:
                rows.append([field.decode() for field in fields])
            except UnicodeDecodeError:
                if number == 1:
                    refuse_packed(line, self.name)
                raise Refusal(f"line {number} of {self.name} is not UTF-8 text", OTHER_ENCODING) from None
        if rows:
            yield sentence()


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
