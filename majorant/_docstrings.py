"""Docstrings of classes that say what their bases take as well: it is worded once, and read where people look."""

from __future__ import annotations

import re
from inspect import cleandoc

SECTION = re.compile(r"^(Parameters\n-+\n)(.*?)(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
ENTRY = re.compile(r"^(?=\S)", re.MULTILINE)


def with_parameters_of(base: str | None, text: str | None) -> str | None:
    r"""Return a docstring whose Parameters are followed by those of another one that it does not list itself.

    Examples
    --------
    >>> base = "Base.\n\nParameters\n----------\na : int\n    Old.\nb : int\n    Another."
    >>> with_parameters_of(base, "Class.\n\nParameters\n----------\na : int\n    New.").splitlines()[4:]
    ['a : int', '    New.', 'b : int', '    Another.']
    """
    if base is None or text is None:  # as under python -OO
        return text
    text, theirs = cleandoc(text), SECTION.search(cleandoc(base))
    ours = SECTION.search(text)
    if ours is None or theirs is None:
        return text
    listed = {name for entry in _entries(ours[2]) for name in _names(entry)}
    more = [entry for entry in _entries(theirs[2]) if not listed & set(_names(entry))]
    return text[: ours.end()] + "".join(f"\n{entry}" for entry in more) + text[ours.end() :]


def _entries(section: str) -> list[str]:
    return [entry.rstrip() for entry in ENTRY.split(section) if entry]


def _names(entry: str) -> list[str]:
    return [name.strip() for name in entry.split("\n")[0].split(" : ")[0].split(",")]
