"""Feature templates: which fields around a token, written side by side, are its attributes.

A set of templates turns sentences into what :class:`majorant.ChainCRF` reads: for each token a list of strings. It is
plain data, so it travels with the model. Templates are those of CRFsuite's examples, of a window, or of a file in the
format of CRF++ (T. Kudo, "CRF++: Yet Another CRF toolkit", section on feature templates).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np

from majorant.cli.conll import Sentence
from majorant.cli.packing import named_failures
from majorant.cli.refusals import Refusal
from majorant.core.checks import Array, one_of, whole

BEYOND = ("drop", "mark")
FIRST, LAST = "__BOS__", "__EOS__"
PLACE = re.compile(r"%x\[\s*([+-]?\d+)\s*,\s*(\d+)\s*\]")

Places: TypeAlias = tuple[tuple[int, int], ...]


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
        whole = np.ones(len(position), dtype=bool)  # tokens for which no template reaches beyond the sentence
        for k, template in enumerate(self.templates):
            numbers, values = np.zeros(len(position), dtype=np.int64), np.array([template.texts[0]], dtype=object)
            for (offset, column), text in zip(template.places, template.texts[1:], strict=True):
                codes, fields = columns[column]
                place = position + offset
                codes = codes[np.clip(place, 0, len(codes) - 1)]
                if self.beyond == "mark" and offset:
                    sign, far = ("-", first - place) if offset < 0 else ("+", place - end + 1)
                    marks = [f"_B{sign}{steps}" for steps in range(1, abs(offset) + 1)]
                    codes = np.where(far > 0, len(fields) + far - 1, codes)
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
                whole &= ~outside
        rows: list[list[str]] = table.tolist()
        for token in np.flatnonzero(~whole).tolist():
            rows[token] = [attribute for attribute in rows[token] if attribute is not None]
        if self.ends:
            for begin, stop in zip(begins.tolist(), ends.tolist(), strict=True):
                rows[begin].append(FIRST)
                rows[stop - 1].append(LAST)
        return [rows[begin:stop] for begin, stop in zip(begins.tolist(), ends.tolist(), strict=True)]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
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
