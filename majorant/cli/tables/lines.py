"""What the two readers of CSV share: lines that may be put back, and what is known of their cells."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


class Lines:
    """The lines of a file, one by one; ``taken`` counts those that were taken and not put back."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self.taken = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.taken += 1
        return line

    def take(self, count: int) -> list[str]:
        """Return the next lines, so many if there are."""
        lines = list(itertools.islice(self._lines, count))
        self.taken += len(lines)
        return lines

    def put_back(self, lines: Sequence[str]) -> None:
        """Let these, which were the last, come next."""
        self._lines = itertools.chain(lines, self._lines)
        self.taken -= len(lines)


@dataclass(frozen=True)
class Layout:
    """How the lines of a file become columns.

    Parameters
    ----------
    origin : str
        The file, as a message calls it.
    names : sequence of str
        Those of the columns.
    delimiter : str
        A character between cells.
    decimal : {".", ","}
        The mark before a fraction.
    """

    origin: str
    names: Sequence[str]
    delimiter: str
    decimal: str
