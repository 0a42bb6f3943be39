"""CoNLL column files, and the templates that turn their sentences into attributes.

A file has a token a line, its fields side by side, and a blank line between sentences. A set of templates says which
fields around a token, written side by side, are its attributes: for each token a list of strings, which is what
:class:`majorant.ChainCRF` reads. It is plain data, so it travels with the model. Templates are those of CRFsuite's
examples, of a window, or of a file in the format of CRF++ (T. Kudo, "CRF++: Yet Another CRF toolkit", section on
feature templates).
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from majorant.cli.files import (
    OTHER_ENCODING,
    Refusal,
    known_encoding,
    named_failures,
    open_unpacked,
    refuse_packed,
    standard_input,
)
from majorant.core.checks import Array, one_of, whole

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
        """Return the name of the file in messages."""
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
        encoding = known_encoding(self.encoding)
        opened = nullcontext(standard_input()) if self.path == "-" else open_unpacked(self.path)
        with named_failures(self.name), opened as file:
            if encoding == "utf-8-sig":  # lines are decoded field by field
                yield from self._parse(file)
                return
            with io.TextIOWrapper(file, encoding=encoding, newline="\n") as text:
                yield from self._parse(line.encode() for line in text)

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


# --- templates --------------------------------------------------------------------------------------------

BEYOND = ("drop", "mark")
FIRST, LAST = "__BOS__", "__EOS__"
PLACE = re.compile(r"%x\[\s*([+-]?\d+)\s*,\s*(\d+)\s*\]")


@dataclass(frozen=True)
class Template:
    """Fields of tokens nearby, with text before, between and after them.

    A place is the offset of the token and the number of the column; there is one text more than places.

    Examples
    --------
    >>> Template.joined("w", 0, (-1, 0))
    Template(texts=('w[-1]|w[0]=', '|', ''), places=((-1, 0), (0, 0)))
    """

    texts: tuple[str, ...]
    places: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if len(self.texts) != len(self.places) + 1:
            raise ValueError(f"a template of {len(self.places)} places needs one text more, got {self.texts!r}")
        for _, column in self.places:
            whole("column of a template", column, least=0)

    @classmethod
    def joined(cls, name: str, column: int, offsets: Sequence[int]) -> Template:
        """Return the template of one column at some offsets, written as CRFsuite's examples do."""
        head = "|".join(f"{name}[{offset}]" for offset in offsets) + "="
        return cls((head, *["|"] * (len(offsets) - 1), ""), tuple((offset, column) for offset in offsets))


@dataclass(frozen=True)
class TemplateSet:
    """Templates, each of which gives a token one attribute, and what they do at the ends of a sentence.

    Where one reaches beyond the sentence there is no attribute ("drop"), as in CRFsuite's examples, or a mark such as
    ``_B-1`` or ``_B+2`` in the place of the field ("mark"), as in CRF++. With ``ends``, the first token has the
    attribute ``__BOS__`` and the last one ``__EOS__``.

    Examples
    --------
    >>> sentence = Sentence((("The", "cat"), ("DT", "NN")))
    >>> window(columns=2, reach=1).extract([sentence])
    [[['c0[0]=The', 'c0[1]=cat', 'c1[0]=DT', 'c1[1]=NN', '__BOS__'], \
['c0[-1]=The', 'c0[0]=cat', 'c1[-1]=DT', 'c1[0]=NN', '__EOS__']]]
    """

    templates: tuple[Template, ...]
    beyond: str = "drop"
    ends: bool = False

    def __post_init__(self) -> None:
        one_of("beyond", self.beyond, BEYOND)
        if not self.templates:
            raise ValueError("a set of templates needs at least one")

    @property
    def columns(self) -> frozenset[int]:
        """Return the columns that are looked at."""
        return frozenset(column for template in self.templates for _, column in template.places)

    def extract(self, sentences: Sequence[Sentence]) -> list[list[list[str]]]:
        """Return the attributes of each token of each sentence.

        Fields become numbers and columns arrays, on which a template is arithmetic; each different attribute is written
        as a string once, and equal ones are one object. A call costs the same for one sentence or a hundred.
        """
        if not sentences:
            return []
        lengths = np.array([len(sentence) for sentence in sentences])
        ends = np.cumsum(lengths)
        begins, position = ends - lengths, np.arange(ends[-1])
        first, end = np.repeat(begins, lengths), np.repeat(ends, lengths)
        columns = {number: _numbered(sentences, number) for number in self.columns}
        table = np.empty((len(position), len(self.templates)), dtype=object)
        inside = np.ones(len(position), dtype=bool)  # tokens for which no template reaches beyond the sentence
        for k, template in enumerate(self.templates):
            numbers, values = np.zeros(len(position), dtype=np.int64), np.array([template.texts[0]], dtype=object)
            for (offset, column), text in zip(template.places, template.texts[1:], strict=True):
                codes, fields = columns[column]
                place = position + offset
                codes = codes[np.clip(place, 0, len(codes) - 1)]
                if self.beyond == "mark" and offset:
                    sign, distance = ("-", first - place) if offset < 0 else ("+", place - end + 1)
                    marks = [f"_B{sign}{steps}" for steps in range(1, abs(offset) + 1)]
                    codes = np.where(distance > 0, len(fields) + distance - 1, codes)
                    fields = np.concatenate([fields, np.array(marks, dtype=object)])
                if len(values) == 1:
                    pairs, numbers = np.arange(len(fields)), codes
                else:  # numbered anew after each place, so that the products of long templates do not overflow
                    pairs, numbers = np.unique(numbers * len(fields) + codes, return_inverse=True)
                values = values[pairs // len(fields)] + fields[pairs % len(fields)] + text
            table[:, k] = values[numbers]
            if self.beyond == "drop":
                offsets = [0, *(offset for offset, _ in template.places)]
                outside = (position + min(offsets) < first) | (position + max(offsets) >= end)
                table[outside, k] = None
                inside &= ~outside
        rows: list[list[str]] = table.tolist()
        for token in np.flatnonzero(~inside).tolist():
            rows[token] = [attribute for attribute in rows[token] if attribute is not None]
        if self.ends:
            for begin, stop in zip(begins.tolist(), ends.tolist(), strict=True):
                rows[begin].append(FIRST)
                rows[stop - 1].append(LAST)
        return [rows[begin:stop] for begin, stop in zip(begins.tolist(), ends.tolist(), strict=True)]

    def to_json(self) -> dict[str, Any]:
        """Return the templates as data that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> TemplateSet:
        """Return the set that :meth:`to_json` wrote."""
        templates = tuple(
            Template(tuple(template["texts"]), tuple((offset, column) for offset, column in template["places"]))
            for template in values["templates"]
        )
        return cls(templates, values["beyond"], values["ends"])


def window(columns: int | Sequence[int], reach: int = 2) -> TemplateSet:
    """Return each field of the tokens at most ``reach`` away, alone: a start for any column file."""
    numbers = range(columns) if isinstance(columns, int) else columns
    offsets = range(-reach, reach + 1)
    return TemplateSet(tuple(Template.joined(f"c{n}", n, (offset,)) for n in numbers for offset in offsets), ends=True)


def _runs(name: str, column: int, reach: int, length: int) -> tuple[Template, ...]:
    """Return the templates of so many neighbours in a row, everywhere within the reach."""
    starts = range(-reach, reach + 2 - length)
    return tuple(Template.joined(name, column, range(start, start + length)) for start in starts)


# The 19 templates of the chunking example of CRFsuite (N. Okazaki, tutorial of CRFsuite, 2007).
CHUNKING = TemplateSet(
    (
        *_runs("w", 0, reach=2, length=1),
        *_runs("w", 0, reach=1, length=2),
        *_runs("pos", 1, reach=2, length=1),
        *_runs("pos", 1, reach=2, length=2),
        *_runs("pos", 1, reach=2, length=3),
    ),
    ends=True,
)


# --- files of CRF++ ---------------------------------------------------------------------------------------


def read_templates(path: str) -> TemplateSet:
    """Return the templates of a file.

    ``U`` lines give attributes; ``%x[row,col]`` is the field of a column, so many tokens away. ``B`` says that
    transitions between labels are learnt, as they always are here, so it must be there. Blank lines and those that
    begin with ``#`` are skipped.
    """
    with named_failures(path), open(path, encoding="utf-8-sig") as file:
        return parse_templates(file, path)


def parse_templates(lines: Iterable[str], origin: str = "the templates") -> TemplateSet:
    """Return the templates of some lines of CRF++'s format.

    Examples
    --------
    >>> parse_templates(["U05:%x[-1,0]/%x[0,0]", "B"]).templates
    (Template(texts=('U05:', '/', ''), places=((-1, 0), (0, 0))),)
    """
    templates: list[Template] = []
    transitions = False
    for number, line in enumerate(lines, start=1):
        text, place = line.strip(), f"line {number} of {origin}"
        if not text or text.startswith("#"):
            continue
        if text.startswith("B"):
            if "%" in text:
                raise Refusal(
                    f"{place} asks for transitions that depend on the tokens ({text!r}), which are not supported: "
                    "write B alone, and U lines for the tokens"
                )
            transitions = True
            continue
        if not text.startswith("U"):
            raise Refusal(f"{place} begins with neither U, B nor #: {text!r}")
        texts = PLACE.split(text)[::3]
        if any("%" in part for part in texts):
            raise Refusal(f"{place} has a % that begins no %x[row,column]: {text!r}")
        places = tuple((int(row), int(column)) for row, column in PLACE.findall(text))
        templates.append(Template(tuple(texts), places))
    if not templates:
        raise Refusal(f"{origin} has no U line, so no token would have an attribute")
    if not transitions:
        raise Refusal(
            f"{origin} has no B line: transitions between labels are always learnt here, so add the line B "
            "(without them, each token stands alone: that is a logistic regression)"
        )
    return TemplateSet(tuple(templates), beyond="mark")


def _numbered(sentences: Sequence[Sentence], number: int) -> tuple[Array, Array]:
    """Return a column as numbers, and the fields that they stand for."""
    known: dict[str, int] = {}
    codes = [known.setdefault(field, len(known)) for sentence in sentences for field in sentence.column(number)]
    return np.array(codes, dtype=np.int64), np.array(list(known), dtype=object)
