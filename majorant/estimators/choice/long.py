"""Long data frames: one row for each alternative of each choice situation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from majorant._checks import Array
from majorant.data import Choices
from majorant.data.collapsing import Sample
from majorant.estimators.choice.sets import Situations, flagged_largest, is_missing, named
from majorant.estimators.choice.terms import (
    INTERCEPT,
    Term,
    are_of,
    availability_of,
    by_alternative,
    column_of,
    matrix_of,
    names_of,
    numbers_of,
    read_base,
)


@dataclass(frozen=True)
class LongLayout:
    """Which columns of a long data frame say what."""

    choice: str
    group: str
    alternative: str | None
    availability: str | None
    alternatives: tuple[Any, ...]
    terms: tuple[Term, ...]
    offset: str | None = None

    @classmethod
    def learn(
        cls,
        frame: Any,
        *,
        choice: str,
        group: str,
        alternative: str | None,
        features: Sequence[str],
        by: Sequence[str],
        base: Any,
        constants: bool | None,
        availability: str | None,
        offset: str | None,
    ) -> LongLayout:
        """Return the layout of a data frame: its alternatives, and which columns are constant in every group."""
        if alternative is None:
            if by or base is not None:
                raise ValueError("by_alternative and base need alternative=…, the column that names alternatives")
            return cls(choice, group, None, availability, (), tuple(Term(name) for name in features), offset)
        labels = _labels_of(frame, alternative)
        number = read_base(base, labels)
        with_constants = constants is None or constants
        terms = [by_alternative(INTERCEPT, len(labels), number, varies=False)] if with_constants else []
        terms += [Term(name) for name in features]
        # What stands where an alternative was not available does not matter.
        open_ = np.ones(len(frame), dtype=bool) if availability is None else availability_of(frame, availability)
        groups = column_of(frame, group, "group")[open_]
        for name in by:
            varies = _varies(numbers_of(frame, name, "by_alternative")[open_], groups)
            terms.append(by_alternative(name, len(labels), number, varies=varies))
        return cls(choice, group, alternative, availability, tuple(labels), tuple(terms), offset)

    @property
    def names(self) -> list[str]:
        """What coefficients are called."""
        return names_of(self.terms, [str(label) for label in self.alternatives])

    def sample(self, frame: Any, weight: str | None) -> tuple[Sample, Situations]:
        """Return what was chosen."""
        table = self.situations(frame)
        measure = self.measure(frame)
        weights = None if weight is None else numbers_of(frame, weight, "sample_weight")
        return Sample.of(table.choices(self.chosen(frame), measure, weights)), table

    def chosen(self, frame: Any) -> Array:
        """Return what was chosen, row by row; no alternative that is not available."""
        flags, closed = numbers_of(frame, self.choice, "choice"), self._closed(frame)
        if closed is not None and (closed & (flags > 0)).any():
            group = column_of(frame, self.group, "group")[np.argmax(closed & (flags > 0))]
            raise ValueError(
                f"group {named(group)} chose an alternative that is not available: column {self.availability!r} is 0 "
                f"where {self.choice!r} is not"
            )
        return flags

    def situations(self, frame: Any) -> Situations:
        """Return the rows, with a column for each coefficient."""
        which = self._which(frame)
        values = [
            np.ones(len(which)) if term.name == INTERCEPT else numbers_of(frame, term.name, "features")
            for term in self.terms
        ]
        closed = self._closed(frame)
        if closed is not None:  # whatever stands there does not matter
            values = [np.where(closed, 0.0, value) for value in values]
        groups = column_of(frame, self.group, "group")
        if self.alternative is not None:
            _refuse_duplicates(groups, which, self.alternatives, self.alternative)
        return Situations.arranged(matrix_of(self.terms, values, which), groups, self.names)

    def measure(self, frame: Any) -> Array | None:
        """Return what is added to θᵀx: the offset, and -inf where an alternative is not available."""
        values = None if self.offset is None else numbers_of(frame, self.offset, "offset")
        closed = self._closed(frame)
        if closed is None:
            return values
        return np.where(closed, -np.inf, 0.0 if values is None else values)

    def rows(self, frame: Any) -> tuple[Choices, Array, Array]:
        """Return the situations with nothing chosen, and for each row its situation and its alternative."""
        table = self.situations(frame)
        if self.alternative is None:
            raise ValueError("this needs the names of alternatives: the model was made without alternative=…")
        labels = table.sorted(column_of(frame, self.alternative, "alternative"))
        return table.unobserved(self.measure(frame)), table.sorted_ids, labels

    def arranged(self, frame: Any, probabilities: Callable[[Choices], Array]) -> Array:
        """Return the probability of each row."""
        table = self.situations(frame)
        return table.as_given(probabilities(table.unobserved(self.measure(frame))))

    def likeliest(self, frame: Any, probabilities: Callable[[Choices], Array]) -> Array:
        """Return 1 for the likeliest row of each group."""
        table = self.situations(frame)
        p = probabilities(table.unobserved(self.measure(frame)))
        return table.as_given(flagged_largest(p, table.starts, table.sizes))

    def as_json(self) -> dict[str, Any]:
        """Return what JSON can hold of it."""
        return {"kind": "long", **asdict(self)}

    def is_whole(self) -> bool:
        """Return whether columns have names, and terms are of the alternatives that there are."""
        columns = self.choice, self.group, *(self.alternative, self.availability, self.offset)
        named = all(isinstance(each, str | int | None) for each in columns) and None not in columns[:2]
        scalars = all(isinstance(each, str | int | float) for each in self.alternatives)
        return named and scalars and are_of(self.terms, len(self.alternatives))

    def _which(self, frame: Any) -> Array:
        if self.alternative is None:
            return np.zeros(len(frame), dtype=int)
        labels = column_of(frame, self.alternative, "alternative")
        known = np.array(self.alternatives, dtype=labels.dtype if labels.dtype != object else object)
        which = np.minimum(np.searchsorted(known, labels), len(known) - 1)
        unknown = known[which] != labels
        if unknown.any():
            raise ValueError(f"alternative {named(labels[unknown.argmax()])} was not among those of the fit")
        return which

    def _closed(self, frame: Any) -> Array | None:
        if self.availability is None:
            return None
        return ~availability_of(frame, self.availability)


def _labels_of(frame: Any, alternative: str) -> list[Any]:
    values = column_of(frame, alternative, "alternative")
    absent = is_missing(values)
    if absent.any():
        raise ValueError(f"alternative: column {alternative!r} has a missing value at row {absent.argmax()}")
    labels: list[Any] = np.unique(values).tolist()
    return labels


def _varies(values: Array, groups: Array) -> bool:
    """Return whether a column varies within any group."""
    _, first, numbers = np.unique(groups, return_index=True, return_inverse=True)
    return bool((values != values[first][numbers]).any())


def _refuse_duplicates(groups: Array, which: Array, alternatives: tuple[Any, ...], column: str) -> None:
    ids, numbers = np.unique(groups, return_inverse=True)
    pairs = numbers * len(alternatives) + which
    _, first, counts = np.unique(pairs, return_index=True, return_counts=True)
    if (counts > 1).any():
        pair = np.argmax(counts > 1)
        label, group = named(alternatives[which[first[pair]]]), named(ids[numbers[first[pair]]])
        raise ValueError(
            f"alternative {label} stands {counts[pair]} times in group {group} (column {column!r}): keep one row of it"
        )
