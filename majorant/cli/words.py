"""Options that take several words: ``--features price hours`` beside ``--features price,hours``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from typer.core import TyperCommand


class WordLists(TyperCommand):
    """A command whose options that may be repeated take all words up to the next option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        several = {name for each in self.params if getattr(each, "multiple", False) for name in each.opts}
        return super().parse_args(ctx, list(repeated(args, several)))


def repeated(arguments: Iterable[str], several: Iterable[str]) -> Iterator[str]:
    """Yield the arguments with such an option before each of its words.

    A list with commas is complete, so that something else may follow it.

    Examples
    --------
    >>> list(repeated(["t.csv", "--features", "a", "b", "--group", "g"], {"--features"}))
    ['t.csv', '--features', 'a', '--features', 'b', '--group', 'g']
    >>> list(repeated(["--features", "a,b", "t.csv"], {"--features"}))
    ['--features', 'a,b', 't.csv']
    """
    known, option, taken = frozenset(several), "", 0
    for word in arguments:
        if word.startswith("-"):
            option, taken = (word if word in known else ""), 0
        elif option:
            if taken:
                yield option
            taken += 1
        yield word
        if "," in word:
            option = ""
