"""Terms of a utility, and the columns they become.

A *generic* term has one coefficient for all alternatives. One whose effect differs *by alternative* has a coefficient
for each, named ``term:alternative``; if it is constant within every situation (an income, say) the base alternative has
none, since only differences between alternatives count. The constants, ``(Intercept):alternative``, are such a term
with the value one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from majorant._checks import Array

INTERCEPT = "(Intercept)"
# More columns than this are kept by their non-zeros if most belong to one alternative only.
MANY_COLUMNS = 64


@dataclass(frozen=True)
class Term:
    """A name, and the numbers of the alternatives that it has a coefficient for; None for one that they share."""

    name: str
    alternatives: tuple[int, ...] | None = None

    @property
    def columns(self) -> int:
        """How many coefficients it has."""
        return 1 if self.alternatives is None else len(self.alternatives)


def names_of(terms: Sequence[Term], alternatives: Sequence[str]) -> list[str]:
    """Return the names of all coefficients."""
    names = []
    for term in terms:
        names += (
            [term.name] if term.alternatives is None else [f"{term.name}:{alternatives[a]}" for a in term.alternatives]
        )
    return names


def are_of(terms: Sequence[Term], count: int) -> bool:
    """Return whether terms have a name, and are of some of so many alternatives, each once."""
    for term in terms:
        which = term.alternatives or ()
        numbers = all(type(a) is int and 0 <= a < count for a in which)
        if not isinstance(term.name, str | int) or not numbers or len(set(which)) < len(which):
            return False
    return True


def refuse_none(terms: Sequence[Term]) -> None:
    """Refuse a utility without any term."""
    if not terms:
        raise ValueError("there is no coefficient to fit: name features, or ask for constants")


def matrix_of(terms: Sequence[Term], values: Sequence[Array], which: Array) -> Any:
    """Return X: for each term its value at every row, in the column of the row's alternative."""
    width = sum(term.columns for term in terms)
    shared = sum(term.alternatives is None for term in terms)
    if width > MANY_COLUMNS and shared < width // 4:
        return _sparse(terms, values, which, width)
    X, first = np.zeros((len(which), width)), 0
    for term, value in zip(terms, values, strict=True):
        rows, columns, numbers = _entries(term, value, which)
        X[rows, first + columns] = numbers
        first += term.columns
    return X


def _sparse(terms: Sequence[Term], values: Sequence[Array], which: Array, width: int) -> Any:
    rows, columns, numbers, first = [], [], [], 0
    for term, value in zip(terms, values, strict=True):
        r, c, v = _entries(term, value, which)
        rows.append(r)
        columns.append(first + c)
        numbers.append(v)
        first += term.columns
    entries = (np.concatenate(numbers), (np.concatenate(rows), np.concatenate(columns)))
    return sparse.csr_array(sparse.coo_array(entries, shape=(len(which), width)))


def _entries(term: Term, value: Array, which: Array) -> tuple[Array, Array, Array]:
    """Return rows, columns within the term, and values."""
    if term.alternatives is None:
        return np.arange(len(which)), np.zeros(len(which), dtype=int), value
    column = np.full(int(which.max(initial=0)) + 1 + max(term.alternatives, default=0), -1)
    column[list(term.alternatives)] = np.arange(len(term.alternatives))
    rows = np.flatnonzero(column[which] >= 0)
    return rows, column[which[rows]], value[rows]


def by_alternative(name: str, count: int, base: int, *, varies: bool) -> Term:
    """Return a term whose effect differs by alternative."""
    return Term(name, tuple(a for a in range(count) if varies or a != base))


def column_of(frame: Any, name: Any, argument: str) -> Array:
    """Return a column of a pandas or polars data frame."""
    if not hasattr(frame, "columns"):
        raise TypeError(f"df must be a pandas or polars data frame, got {type(frame).__name__}")
    if name not in list(frame.columns):
        raise ValueError(f"{argument} names the column {name!r}, which the data frame does not have")
    return np.asarray(frame[name])


def numbers_of(frame: Any, name: Any, argument: str) -> Array:
    """Return a column of numbers; what is missing is NaN."""
    values = column_of(frame, name, argument)
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"column {name!r} must hold numbers, got {values[:3].tolist()!r:.80}") from None


def availability_of(frame: Any, name: Any) -> Array:
    """Return whether an alternative was available: not 0 there."""
    values = numbers_of(frame, name, "availability")
    if np.isnan(values).any():
        row = int(np.isnan(values).argmax())
        raise ValueError(
            f"availability: column {name!r} is missing at row {row}; it has to be 1, or 0 for not available"
        )
    return values != 0


def read_base(base: Any, alternatives: Sequence[Any]) -> int:
    """Return the number of the base alternative, the first if none is given."""
    if base is None:
        return 0
    if base not in alternatives:
        raise ValueError(f"base must be one of the alternatives {list(alternatives)}, got {base!r}")
    return list(alternatives).index(base)
