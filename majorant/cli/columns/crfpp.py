"""Template files of CRF++ (T. Kudo, "CRF++: Yet Another CRF toolkit", section on feature templates)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from majorant.cli.columns.templates import Template, TemplateSet
from majorant.cli.packing import named_failures

PLACE = re.compile(r"%x\[\s*([+-]?\d+)\s*,\s*(\d+)\s*\]")


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
            _check_transition(text, place)
            transitions = True
        else:
            templates.append(_template(text, place))
    _check_whole(templates, transitions, origin)
    return TemplateSet(tuple(templates), beyond="mark")


def _template(text: str, place: str) -> Template:
    if not text.startswith("U"):
        raise ValueError(f"{place} begins with neither U, B nor #: {text!r}")
    texts = PLACE.split(text)[::3]
    if any("%" in part for part in texts):
        raise ValueError(f"{place} has a % that begins no %x[row,column]: {text!r}")
    places = tuple((int(row), int(column)) for row, column in PLACE.findall(text))
    return Template(tuple(texts), places)


def _check_transition(text: str, place: str) -> None:
    if "%" in text:
        raise ValueError(
            f"{place} asks for transitions that depend on the tokens ({text!r}), which are not done here: "
            "write B alone, and U lines for the tokens"
        )


def _check_whole(templates: list[Template], transitions: bool, origin: str) -> None:
    if not templates:
        raise ValueError(f"{origin} has no U line, so no token would have an attribute")
    if not transitions:
        raise ValueError(
            f"{origin} has no B line: transitions between labels are always learnt here, so add the line B "
            "(without them, each token stands alone: that is a logistic regression)"
        )
