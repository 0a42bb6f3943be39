"""Feature templates: which fields around a token, written side by side, are its attributes.

A set of templates turns sentences into what :class:`majorant.ChainCRF` reads: for each token a list of strings. It is
plain data, so it travels with the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from majorant._checks import one_of, whole
from majorant.cli.columns.attributes import Corpus
from majorant.cli.conll import Sentence

BEYOND = ("drop", "mark")
FIRST, LAST = "__BOS__", "__EOS__"


@dataclass(frozen=True)
class Template:
    """Fields of tokens nearby, with text before, between and after them.

    Parameters
    ----------
    texts : tuple of str
        One more than there are places.
    places : tuple of (int, int)
        Offset of the token and number of the column.

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
    """Templates, and what they do at the ends of a sentence.

    Parameters
    ----------
    templates : tuple of Template
        Each gives a token one attribute.
    beyond : {"drop", "mark"}
        Where a template reaches beyond the sentence: no attribute, as in CRFsuite's examples, or a mark such as
        ``_B-1`` or ``_B+2`` in the place of the field, as in CRF++.
    ends : bool
        Whether the first token has the attribute ``__BOS__`` and the last one ``__EOS__``.

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

        Equal attributes are one object. A call costs the same for one sentence or a hundred: hand over many at a time.
        """
        if not sentences:
            return []
        corpus = Corpus(sentences, sorted(self.columns), mark=self.beyond == "mark")
        rows = corpus.rows([(template.texts, template.places) for template in self.templates])
        bounds = corpus.bounds
        if self.ends:
            for first, end in bounds:
                rows[first].append(FIRST)
                rows[end - 1].append(LAST)
        return [rows[first:end] for first, end in bounds]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> TemplateSet:
        """Return the set that :meth:`to_json` wrote."""
        templates = tuple(
            Template(tuple(each["texts"]), tuple((offset, column) for offset, column in each["places"]))
            for each in values["templates"]
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
