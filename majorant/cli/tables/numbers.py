"""Cells that are numbers, as text files write them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from majorant._checks import Array

# What a text file may write where a value is missing; the question mark is that of the UCI repository.
MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"})
TRUTH = {"true": 1.0, "false": 0.0}
# 1,5 and 1,000: one cannot tell whether that is a fraction or thousands.
WITH_COMMA = re.compile(r"\s*[+-]?(\d+(,\d+)+(\.\d*)?|\d+(\.\d{3})+,\d+)([eE][+-]?\d+)?\s*")


class Numbers(NamedTuple):
    """Some cells as floats, NaN where one is missing; or, if they are not numbers, where the first word stands."""

    values: Array | None
    word: int | None = None


def read_numbers(cells: Sequence[str], missing: frozenset[str], decimal: str) -> Numbers:
    """Return the cells as numbers, if all of them are, or all are true and false."""
    try:
        return Numbers(_floats(cells, decimal))
    except ValueError:
        filled = ["nan" if cell in missing else cell for cell in cells]
    try:
        return Numbers(_truths(filled) if _starts_true_or_false(filled) else _floats(filled, decimal))
    except ValueError:
        return Numbers(None, next(i for i, cell in enumerate(filled) if not is_number(cell, decimal)))


def is_number(cell: str, decimal: str = ".") -> bool:
    """Return whether a cell reads as a number; Python's 1_000 does not."""
    try:
        _floats([cell], decimal)
    except ValueError:
        return False
    return True


def looks_numeric(cell: str) -> bool:
    """Return whether a cell is a number by one notation or another."""
    return is_number(cell) or WITH_COMMA.fullmatch(cell) is not None


def _floats(cells: Sequence[str], decimal: str) -> Array:
    every = "".join(cells)
    if "_" in every or (decimal != "." and "." in every):
        raise ValueError
    plain = cells if decimal == "." else [cell.replace(decimal, ".") for cell in cells]
    return np.fromiter(map(float, plain), np.float64, len(cells))


def _starts_true_or_false(cells: Sequence[str]) -> bool:
    first = next((cell for cell in cells if cell != "nan"), "")
    return first.lower() in TRUTH


def _truths(cells: Sequence[str]) -> Array:
    values = [np.nan if cell == "nan" else TRUTH.get(cell.lower()) for cell in cells]
    if None in values:
        raise ValueError
    return np.array(values, dtype=np.float64)
