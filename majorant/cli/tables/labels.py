"""Labels as files write them: whole numbers become numbers, everything else stays text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from majorant._checks import Array, refuse_null_ending
from majorant.cli.tables.numbers import TRUTH

# 7, -1, +1 and 2.0 are numbers; 007 is a name.
WHOLE = re.compile(r"[+-]?(0|[1-9]\d*)(\.0*)?")
FRACTION = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
# More different fractions than that are a quantity, not classes.
MOST_FRACTIONS = 20


def find_classes(labels: Iterable[str], target: str) -> Array:
    """Return the sorted classes among some labels: integers if all of them are, strings otherwise.

    Examples
    --------
    >>> find_classes(["2", "-1", "2"], "y"), find_classes(["b", "1"], "y")
    (array([-1,  2]), array(['1', 'b'], dtype='<U1'))
    """
    different = sorted(set(labels))
    if different and all(WHOLE.fullmatch(label) for label in different):
        return np.unique([int(float(label)) for label in different])
    fractions = [label for label in different if FRACTION.fullmatch(label)]
    if len(fractions) > MOST_FRACTIONS:
        raise ValueError(
            f"target {target!r} holds {len(different)} different numbers such as {fractions[0]}: "
            "a quantity, not the names of classes"
        )
    refuse_null_ending(f"target {target!r}", different)
    return np.array(different, dtype=str)


def match_classes(labels: Sequence[str], classes: Array, origin: str, row: Callable[[int], int]) -> Array:
    """Return the labels as entries of ``classes``; one that is not among them is refused, by its row's number.

    Whole numbers may be written as 1.0, and truth as True or 1.
    """
    numbers = classes.dtype.kind in "iu"
    known = {str(each): i for i, each in enumerate(classes)}
    otherwise = {each.lower(): i for each, i in known.items() if each.lower() in TRUTH}
    each = {label: _place(_whole(label) if numbers else label, known, otherwise) for label in set(labels)}
    places = [each[label] for label in labels]
    if -1 in places:
        place = places.index(-1)
        raise ValueError(
            f"label {labels[place]!r} in row {row(place)} of {origin} is none of the classes "
            f"{', '.join(list(known)[:20])}"
        )
    return classes[np.array(places, dtype=int)]


def _place(label: str, known: dict[str, int], otherwise: dict[str, int]) -> int:
    return known[label] if label in known else otherwise.get(label.lower(), -1)


def _whole(label: str) -> str:
    """Return a label as a whole number is written, if it stands for one."""
    if WHOLE.fullmatch(label):
        return str(int(float(label)))
    return str(int(TRUTH[label.lower()])) if label.lower() in TRUTH else label
