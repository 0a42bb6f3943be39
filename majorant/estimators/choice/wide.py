"""Wide data frames: one row for each choice situation, and columns of their own for what alternatives are like."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

import numpy as np

from majorant._checks import Array
from majorant.data import Choices
from majorant.data.collapsing import Sample
from majorant.estimators.choice.sets import Situations, named
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

Sources = tuple[tuple[int, Any], ...]  # for alternatives by number: the name of a column, or a number


@dataclass(frozen=True)
class WideLayout:
    """Which columns of a wide data frame say what; ``values`` and ``names`` are what the choice is, and its name."""

    choice: str
    values: tuple[Any, ...]
    labels: tuple[str, ...]
    availability: Sources
    terms: tuple[Term, ...]
    sources: tuple[Sources | str | None, ...]  # of each term: by alternative, a column, or ones

    @classmethod
    def learn(
        cls,
        *,
        choice: str,
        alternatives: Any,
        varying: Mapping[str, Mapping[Any, Any]],
        by: Sequence[str],
        fixed: Sequence[str],
        availability: Mapping[Any, str],
        base: Any,
        constants: bool,
    ) -> WideLayout:
        """Return the layout that the arguments of ``from_wide`` describe."""
        pairs = alternatives.items() if isinstance(alternatives, Mapping) else ((each, each) for each in alternatives)
        values, labels = zip(*pairs, strict=True) if alternatives else ((), ())
        labels = tuple(str(label) for label in labels)
        number = read_base(None if base is None else str(base), labels)
        terms: list[Term] = []
        sources: list[Sources | str | None] = []
        if constants:
            terms.append(by_alternative(INTERCEPT, len(labels), number, varies=False))
            sources.append(None)
        for name, of in varying.items():
            terms.append(by_alternative(name, len(labels), number, varies=True) if name in by else Term(name))
            sources.append(_sources(f"varying[{name!r}]", of, labels))
        for name in fixed:
            terms.append(by_alternative(name, len(labels), number, varies=False))
            sources.append(name)
        _refuse_unknown(by, varying)
        if len(set(labels)) < max(len(labels), 2):
            raise ValueError(f"alternatives must have at least two names, all different, got {list(labels)!r:.80}")
        return cls(choice, values, labels, _sources("availability", availability, labels), tuple(terms), tuple(sources))

    @property
    def names(self) -> list[str]:
        """What coefficients are called."""
        return names_of(self.terms, self.labels)

    def sample(self, frame: Any, weight: str | None) -> tuple[Sample, None]:
        """Return what was chosen; situations that look alike are written out once."""
        first, numbers = self._distinct(frame)
        sets = self._sets(frame, first)
        picks, weights = self._picks(frame), None
        if weight is not None:
            weights = numbers_of(frame, weight, "sample_weight")
            if not ((weights >= 0).all() and weights.any()):
                raise ValueError("sample_weight must be non-negative and not zero everywhere")
        self._refuse_impossible(sets, numbers, picks)
        return Sample.counted(sets, numbers, picks, weights), None

    def rows(self, frame: Any) -> tuple[Choices, Array, Array]:
        """Return the situations with nothing chosen, and for each row its situation and its alternative."""
        count = len(frame)
        labels = np.tile(np.array(self.labels), count)
        return self._sets(frame, np.arange(count)), np.repeat(np.arange(count), len(self.labels)), labels

    def arranged(self, frame: Any, probabilities: Callable[[Choices], Array]) -> Array:
        """Return the probabilities of the alternatives, one column for each."""
        first, numbers = self._distinct(frame)
        return probabilities(self._sets(frame, first)).reshape(len(first), -1)[numbers]

    def likeliest(self, frame: Any, probabilities: Callable[[Choices], Array]) -> Array:
        """Return the likeliest alternative of each row, as the column of choices has it."""
        return np.array(self.values)[self.arranged(frame, probabilities).argmax(axis=1)]

    def as_json(self) -> dict[str, Any]:
        """Return what JSON can hold of it."""
        return {"kind": "wide", **asdict(self)}

    def is_whole(self) -> bool:
        """Return whether columns have names, and terms and their sources are of the alternatives that there are."""
        count = len(self.labels)
        if len(self.values) != count or len(self.sources) != len(self.terms) or not are_of(self.terms, count):
            return False
        each = [self.availability, *(source for source in self.sources if isinstance(source, tuple))]
        pairs = [pair for source in each for pair in source]
        known = all(type(a) is int and 0 <= a < count and (isinstance(of, str) or isfinite(of)) for a, of in pairs)
        return known and all(isinstance(source, str | tuple | None) for source in self.sources)

    def _distinct(self, frame: Any) -> tuple[Array, Array]:
        """Return one row of each kind, and for every row which kind it is."""
        of_alternatives = {of for source in self.sources if isinstance(source, tuple) for _, of in source}
        used = {name for name in of_alternatives if isinstance(name, str)}  # others are numbers
        used |= {source for source in self.sources if isinstance(source, str)}
        used |= {name for _, name in self.availability}
        columns = [numbers_of(frame, name, "varying") for name in sorted(used, key=str)]
        if not columns:
            return np.zeros(min(1, len(frame)), dtype=int), np.zeros(len(frame), dtype=int)
        kinds = np.zeros(len(frame), dtype=np.int64)
        for column in columns:  # a column at a time: rows need not be compared whole
            each = np.unique(column, return_inverse=True)[1]
            kinds = np.unique(kinds * (int(each.max()) + 1) + each, return_inverse=True)[1]
        _, first, numbers = np.unique(kinds, return_index=True, return_inverse=True)
        return first, numbers

    def _sets(self, frame: Any, rows: Array) -> Choices:
        """Return the choice sets of some rows, unavailable alternatives among them."""
        count = len(self.labels)
        which = np.tile(np.arange(count), len(rows))
        open_ = np.ones((len(rows), count), dtype=bool)
        for a, name in self.availability:
            open_[:, a] = availability_of(frame, name)[rows]
        values = [np.where(open_.ravel(), self._value(frame, source, rows), 0.0) for source in self.sources]
        for term, value in zip(self.terms, values, strict=True):
            _refuse_non_finite(term.name, value.reshape(len(rows), count), rows)
        groups = np.repeat(np.arange(len(rows)), count)
        table = Situations.arranged(matrix_of(self.terms, values, which), groups, self.names)
        return table.unobserved(None if open_.all() else np.where(open_.ravel(), 0.0, -np.inf))

    def _value(self, frame: Any, source: Sources | str | None, rows: Array) -> Array:
        count = len(self.labels)
        if source is None:
            return np.ones(len(rows) * count)
        if isinstance(source, str):
            return np.repeat(numbers_of(frame, source, "fixed")[rows], count)
        table = np.zeros((len(rows), count))
        for a, of in source:
            table[:, a] = numbers_of(frame, of, "varying")[rows] if isinstance(of, str) else float(of)
        return table.ravel()

    def _picks(self, frame: Any) -> Array:
        chosen = column_of(frame, self.choice, "choice")
        place = {value: number for number, value in enumerate(self.values)}
        picks = np.array([place.get(value, -1) for value in chosen.tolist()])
        if (picks < 0).any():
            row = int(np.argmax(picks < 0))
            known = ", ".join(map(repr, self.values))
            raise ValueError(f"choice must be one of {known}, got {named(chosen[row])} at row {row}")
        return picks

    def _refuse_impossible(self, sets: Choices, numbers: Array, picks: Array) -> None:
        if sets.log_measure is None:
            return
        open_ = (sets.log_measure > -np.inf).reshape(len(sets), -1)
        closed = ~open_[numbers, picks]
        if closed.any():
            row = int(closed.argmax())
            raise ValueError(f"row {row} chose {self.labels[picks[row]]!r}, which is not available there")


def _sources(argument: str, of: Mapping[Any, Any], labels: tuple[str, ...]) -> Sources:
    if not isinstance(of, Mapping):
        raise ValueError(f"{argument} must say for each alternative which column it is, got {of!r:.80}")
    unknown = [each for each in of if str(each) not in labels]
    if unknown:
        raise ValueError(f"{argument} names {unknown[0]!r}, which is none of the alternatives {list(labels)}")
    return tuple((labels.index(str(label)), source) for label, source in of.items())


def _refuse_non_finite(name: str, values: Array, rows: Array) -> None:
    bad = ~np.isfinite(values).all(axis=1)
    if bad.any():
        raise ValueError(
            f"{name} must be finite where an alternative is available, but is not at row {rows[bad].min()}"
        )


def _refuse_unknown(by: Sequence[str], varying: Mapping[str, Any]) -> None:
    for name in by:
        if name not in varying:
            raise ValueError(f"by_alternative names {name!r}, which is none of varying: {', '.join(varying)}")
