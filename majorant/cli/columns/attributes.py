"""Attributes of the tokens of many sentences at once.

Fields become numbers, columns become arrays: a template is then arithmetic on whole columns, and each different
attribute is written as a string only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from majorant._checks import Array
from majorant.cli.conll import Sentence

Texts: TypeAlias = tuple[str, ...]
Places: TypeAlias = tuple[tuple[int, int], ...]


class Corpus:
    """The columns of some sentences, end to end.

    Parameters
    ----------
    sentences : sequence of Sentence
        At least one.
    columns : sequence of int
        Those that templates look at.
    mark : bool
        Whether a place beyond the sentence is a mark such as ``_B-1``; if not, it leaves the attribute out.
    """

    def __init__(self, sentences: Sequence[Sentence], columns: Sequence[int], *, mark: bool) -> None:
        lengths = np.array([len(sentence) for sentence in sentences])
        ends = np.cumsum(lengths)
        self.bounds: list[tuple[int, int]] = list(zip((ends - lengths).tolist(), ends.tolist(), strict=True))
        self.mark = mark
        self._position = np.arange(ends[-1])
        self._first, self._end = np.repeat(ends - lengths, lengths), np.repeat(ends, lengths)
        self._columns = {number: _numbered(sentences, number) for number in columns}

    def rows(self, templates: Sequence[tuple[Texts, Places]]) -> list[list[str]]:
        """Return the attributes of each token, in the order of the templates."""
        table = np.empty((len(self._position), len(templates)), dtype=object)
        whole = np.ones(len(table), dtype=bool)
        for k, (texts, places) in enumerate(templates):
            inside = self._inside(places)
            whole &= inside
            table[:, k] = self._attributes(texts, places)
            table[~inside, k] = None
        rows: list[list[str]] = table.tolist()
        for token in np.flatnonzero(~whole).tolist():
            rows[token] = [attribute for attribute in rows[token] if attribute is not None]
        return rows

    def _inside(self, places: Places) -> Array:
        """Return where all places lie in the sentence; everywhere if those beyond it have a mark."""
        offsets = [0, *(offset for offset, _ in places)]
        if self.mark:
            return np.ones(len(self._position), dtype=bool)
        return (self._position + min(offsets) >= self._first) & (self._position + max(offsets) < self._end)

    def _attributes(self, texts: Texts, places: Places) -> Array:
        """Return a string for each token: equal ones are one object."""
        numbers = np.zeros(len(self._position), dtype=np.int64)
        values = np.array([texts[0]], dtype=object)
        for (offset, column), text in zip(places, texts[1:], strict=True):
            codes, fields = self._shifted(offset, column)
            pairs, numbers = _renumbered(numbers, len(values), codes, len(fields))
            values = values[pairs // len(fields)] + fields[pairs % len(fields)] + text
        return values[numbers]

    def _shifted(self, offset: int, column: int) -> tuple[Array, Array]:
        """Return the fields so many tokens away, as numbers and what these mean."""
        codes, fields = self._columns[column]
        place = self._position + offset
        shifted = codes[np.clip(place, 0, len(codes) - 1)]
        if not self.mark or not offset:
            return shifted, fields
        # How far beyond the sentence: at most the offset.
        beyond = self._first - place if offset < 0 else place - self._end + 1
        marks = np.array([f"_B{'-' if offset < 0 else '+'}{far + 1}" for far in range(abs(offset))], dtype=object)
        return np.where(beyond > 0, len(fields) + beyond - 1, shifted), np.concatenate([fields, marks])


def _renumbered(left: Array, n_left: int, right: Array, n_right: int) -> tuple[Array, Array]:
    """Return the different pairs of numbers and which of them stands where.

    Done after each place, so that the products of long templates do not overflow.
    """
    if n_left == 1:
        return np.arange(n_right), right
    return np.unique(left * n_right + right, return_inverse=True)


def _numbered(sentences: Sequence[Sentence], number: int) -> tuple[Array, Array]:
    """Return a column as numbers, and the fields that they stand for."""
    known: dict[str, int] = {}
    codes = [known.setdefault(field, len(known)) for sentence in sentences for field in sentence.column(number)]
    return np.array(codes, dtype=np.int64), np.array(list(known), dtype=object)
