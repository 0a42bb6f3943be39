"""Layouts of data frames, pandas or polars, and the terms of a utility with the columns that they become.

A *generic* term has one coefficient for all alternatives. One whose effect differs *by alternative* has a coefficient
for each, named ``term:alternative``; if it is constant within every situation (an income, say) the base alternative has
none, since only differences between alternatives count. The constants, ``(Intercept):alternative``, are such a term
with the value one. A long data frame has one row for each alternative of each choice situation, a wide one a row for
each situation, and columns for what alternatives are like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from majorant.choice.sets import Situations, is_missing, named
from majorant.core.checks import Array
from majorant.core.choices import Choices, Sample

INTERCEPT = "(Intercept)"


@dataclass(frozen=True)
class Term:
    """A name, and the numbers of the alternatives that it has a coefficient for; None for one that they share."""

    name: str
    alternatives: tuple[int, ...] | None = None


def names_of(terms: Sequence[Term], alternatives: Sequence[str]) -> list[str]:
    """Return the names of all coefficients."""
    names = []
    for term in terms:
        names += (
            [term.name] if term.alternatives is None else [f"{term.name}:{alternatives[a]}" for a in term.alternatives]
        )
    return names


def are_of(terms: Sequence[Term], count: int) -> bool:
    """Return whether terms have names, and alternatives below ``count``, each once."""
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
    rows, columns, numbers, width = [], [], [], 0
    for term, value in zip(terms, values, strict=True):
        column = np.zeros(len(which), dtype=int)
        if term.alternatives is not None:
            of_alternative = np.full(int(which.max(initial=0)) + 1 + max(term.alternatives, default=0), -1)
            of_alternative[list(term.alternatives)] = np.arange(len(term.alternatives))
            column = of_alternative[which]
        filled = np.flatnonzero(column >= 0)
        rows.append(filled)
        columns.append(width + column[filled])
        numbers.append(value[filled])
        width += 1 if term.alternatives is None else len(term.alternatives)
    place = np.concatenate(rows), np.concatenate(columns)
    # Many columns are kept by their non-zeros if most belong to one alternative only.
    if width > 64 and sum(term.alternatives is None for term in terms) < width // 4:
        return sparse.csr_array(sparse.coo_array((np.concatenate(numbers), place), shape=(len(which), width)))
    X = np.zeros((len(which), width))
    X[place] = np.concatenate(numbers)
    return X


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


@dataclass(frozen=True)
class LongLayout:
    """Which columns of a long data frame say what."""

    kind: ClassVar[str] = "long"
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
        values = column_of(frame, alternative, "alternative")
        absent = is_missing(values)
        if absent.any():
            raise ValueError(f"alternative: column {alternative!r} has a missing value at row {absent.argmax()}")
        labels = np.unique(values).tolist()
        number = read_base(base, labels)
        with_constants = constants is None or constants
        terms = [by_alternative(INTERCEPT, len(labels), number, varies=False)] if with_constants else []
        terms += [Term(name) for name in features]
        # What stands where an alternative was not available does not matter.
        open_ = np.ones(len(frame), dtype=bool) if availability is None else availability_of(frame, availability)
        groups = column_of(frame, group, "group")[open_]
        _, first, numbers = np.unique(groups, return_index=True, return_inverse=True)
        for name in by:  # what is constant in every group has no coefficient for the base
            numeric = numbers_of(frame, name, "by_alternative")[open_]
            varies = bool((numeric != numeric[first][numbers]).any())
            terms.append(by_alternative(name, len(labels), number, varies=varies))
        return cls(choice, group, alternative, availability, tuple(labels), tuple(terms), offset)

    @property
    def names(self) -> list[str]:
        """Names of the coefficients."""
        return names_of(self.terms, [str(label) for label in self.alternatives])

    def sample(self, frame: Any, weight: str | None) -> tuple[Sample, Situations]:
        """Return the choices, and the situations they were made in."""
        table = self.situations(frame)
        measure = self.measure(frame)
        weights = None if weight is None else numbers_of(frame, weight, "sample_weight")
        return Sample.of(table.choices(self.chosen(frame), measure, weights)), table

    def chosen(self, frame: Any) -> Array:
        """Return the choices, row by row; a choice of an unavailable alternative is refused."""
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
        which = np.zeros(len(frame), dtype=int)
        if self.alternative is not None:
            labels = self.labels(frame)
            known = np.array(self.alternatives, dtype=labels.dtype if labels.dtype != object else object)
            which = np.minimum(np.searchsorted(known, labels), len(known) - 1)
            unknown = known[which] != labels
            if unknown.any():
                raise ValueError(f"alternative {named(labels[unknown.argmax()])} was not among those of the fit")
        values = [
            np.ones(len(which)) if term.name == INTERCEPT else numbers_of(frame, term.name, "features")
            for term in self.terms
        ]
        closed = self._closed(frame)
        if closed is not None:  # whatever stands there does not matter
            values = [np.where(closed, 0.0, value) for value in values]
        groups = column_of(frame, self.group, "group")
        if self.alternative is not None:
            ids, numbers = np.unique(groups, return_inverse=True)
            pairs = numbers * len(self.alternatives) + which
            _, first, counts = np.unique(pairs, return_index=True, return_counts=True)
            if (counts > 1).any():
                row = first[np.argmax(counts > 1)]
                raise ValueError(
                    f"alternative {named(self.alternatives[which[row]])} stands {counts.max()} times in group "
                    f"{named(ids[numbers[row]])} (column {self.alternative!r}): keep one row of it"
                )
        return Situations.arranged(matrix_of(self.terms, values, which), groups, self.names)

    def measure(self, frame: Any) -> Array | None:
        """Return the offsets of θᵀx, -inf where an alternative is not available."""
        values = None if self.offset is None else numbers_of(frame, self.offset, "offset")
        closed = self._closed(frame)
        if closed is None:
            return values
        return np.where(closed, -np.inf, 0.0 if values is None else values)

    def labels(self, frame: Any) -> Array:
        """Return the alternative of each row."""
        if self.alternative is None:
            raise ValueError("this needs the names of alternatives: the model was made without alternative=…")
        return column_of(frame, self.alternative, "alternative")

    def is_whole(self) -> bool:
        """Return whether columns have names, and terms are of the alternatives that there are."""
        columns = self.choice, self.group, *(self.alternative, self.availability, self.offset)
        named = all(isinstance(name, str | int | None) for name in columns) and None not in columns[:2]
        scalars = all(isinstance(name, str | int | float) for name in self.alternatives)
        return named and scalars and are_of(self.terms, len(self.alternatives))

    def _closed(self, frame: Any) -> Array | None:
        if self.availability is None:
            return None
        return ~availability_of(frame, self.availability)


Sources = tuple[tuple[int, Any], ...]  # for alternatives by number: the name of a column, or a number


@dataclass(frozen=True)
class WideLayout:
    """Which columns of a wide data frame say what; ``values`` and ``names`` are what the choice is, and its name."""

    kind: ClassVar[str] = "wide"
    choice: str
    values: tuple[Any, ...]
    labels: tuple[str, ...]
    availability: Sources
    terms: tuple[Term, ...]
    sources: tuple[Sources | str | None, ...]  # of each term: by alternative, a column, or ones

    @classmethod
    def learn(
        cls,
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
        pairs = (
            alternatives.items() if isinstance(alternatives, Mapping) else ((value, value) for value in alternatives)
        )
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
        for name in by:
            if name not in varying:
                raise ValueError(f"by_alternative names {name!r}, which is none of varying: {', '.join(varying)}")
        if len(set(labels)) < max(len(labels), 2):
            raise ValueError(f"alternatives must have at least two names, all different, got {list(labels)!r:.80}")
        return cls(choice, values, labels, _sources("availability", availability, labels), tuple(terms), tuple(sources))

    @property
    def names(self) -> list[str]:
        """Names of the coefficients."""
        return names_of(self.terms, self.labels)

    def sample(self, frame: Any, weight: str | None) -> tuple[Sample, None]:
        """Return the choices; situations that look alike are written out once."""
        first, numbers = self.distinct(frame)
        sets = self.sets(frame, first)
        chosen, weights = column_of(frame, self.choice, "choice"), None
        place = {value: number for number, value in enumerate(self.values)}
        picks = np.array([place.get(value, -1) for value in chosen.tolist()])
        if (picks < 0).any():
            row = int(np.argmax(picks < 0))
            known = ", ".join(map(repr, self.values))
            raise ValueError(f"choice must be one of {known}, got {named(chosen[row])} at row {row}")
        if weight is not None:
            weights = numbers_of(frame, weight, "sample_weight")
            if not ((weights >= 0).all() and weights.any()):
                raise ValueError("sample_weight must be non-negative and not zero everywhere")
        if sets.log_measure is not None:
            closed = ~(sets.log_measure > -np.inf).reshape(len(sets), -1)[numbers, picks]
            if closed.any():
                row = int(closed.argmax())
                raise ValueError(f"row {row} chose {self.labels[picks[row]]!r}, which is not available there")
        return Sample.counted(sets, numbers, picks, weights), None

    def rows(self, frame: Any) -> tuple[Choices, Array, Array]:
        """Return the situations with nothing chosen, and for each row its situation and its alternative."""
        count = len(frame)
        labels = np.tile(np.array(self.labels), count)
        return self.sets(frame, np.arange(count)), np.repeat(np.arange(count), len(self.labels)), labels

    def is_whole(self) -> bool:
        """Return whether columns have names, and terms and their sources are of the alternatives that there are."""
        count = len(self.labels)
        if len(self.values) != count or len(self.sources) != len(self.terms) or not are_of(self.terms, count):
            return False
        by_alternative = [self.availability, *(source for source in self.sources if isinstance(source, tuple))]
        pairs = [pair for source in by_alternative for pair in source]
        known = all(type(a) is int and 0 <= a < count and (isinstance(of, str) or isfinite(of)) for a, of in pairs)
        return known and all(isinstance(source, str | tuple | None) for source in self.sources)

    def distinct(self, frame: Any) -> tuple[Array, Array]:
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
            codes = np.unique(column, return_inverse=True)[1]
            kinds = np.unique(kinds * (int(codes.max()) + 1) + codes, return_inverse=True)[1]
        _, first, numbers = np.unique(kinds, return_index=True, return_inverse=True)
        return first, numbers

    def sets(self, frame: Any, rows: Array) -> Choices:
        """Return the choice sets of some rows, unavailable alternatives among them."""
        count = len(self.labels)
        which = np.tile(np.arange(count), len(rows))
        open_ = np.ones((len(rows), count), dtype=bool)
        for a, name in self.availability:
            open_[:, a] = availability_of(frame, name)[rows]
        values = []
        for source in self.sources:
            value: Array = np.ones((len(rows), count))
            if isinstance(source, str):
                value *= numbers_of(frame, source, "fixed")[rows, None]
            elif source is not None:
                value = np.zeros((len(rows), count))
                for a, of in source:
                    value[:, a] = numbers_of(frame, of, "varying")[rows] if isinstance(of, str) else float(of)
            values.append(np.where(open_, value, 0.0).ravel())
        for term, value in zip(self.terms, values, strict=True):
            bad = ~np.isfinite(value.reshape(len(rows), count)).all(axis=1)
            if bad.any():
                raise ValueError(
                    f"{term.name} must be finite where an alternative is available, but is not at row {rows[bad].min()}"
                )
        groups = np.repeat(np.arange(len(rows)), count)
        table = Situations.arranged(matrix_of(self.terms, values, which), groups, self.names)
        return table.unobserved(None if open_.all() else np.where(open_.ravel(), 0.0, -np.inf))


def _sources(argument: str, of: Mapping[Any, Any], labels: tuple[str, ...]) -> Sources:
    if not isinstance(of, Mapping):
        raise ValueError(f"{argument} must say for each alternative which column it is, got {of!r:.80}")
    unknown = [each for each in of if str(each) not in labels]
    if unknown:
        raise ValueError(f"{argument} names {unknown[0]!r}, which is none of the alternatives {list(labels)}")
    return tuple((labels.index(str(label)), source) for label, source in of.items())


FrameLayout = LongLayout | WideLayout


def as_json(layout: FrameLayout) -> dict[str, Any]:
    """Return a layout as data that JSON can hold."""
    return {"kind": layout.kind, **asdict(layout)}


def layout_from(saved: dict[str, Any], names: list[str]) -> FrameLayout:
    """Return a layout that was saved, if its coefficients have these names."""
    try:
        kind, fields = saved["kind"], {name: _tuple(value) for name, value in saved.items() if name != "kind"}
        fields["terms"] = tuple(Term(term["name"], _tuple(term["alternatives"])) for term in saved["terms"])
        layout: FrameLayout = {"long": LongLayout, "wide": WideLayout}[kind](**fields)
        consistent = layout.names == names and layout.is_whole()
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError):
        consistent = False
    if not consistent:
        raise ValueError(f"it says of data frames {saved!r:.80}, which does not go with its coefficients")
    return layout


def _tuple(value: Any) -> Any:
    return tuple(_tuple(entry) for entry in value) if isinstance(value, list | tuple) else value
