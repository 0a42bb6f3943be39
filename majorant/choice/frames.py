"""Terms of a utility, and the columns they become.

A *generic* term has one coefficient for all alternatives. One whose effect differs *by alternative* has a coefficient
for each, named ``term:alternative``; if it is constant within every situation (an income, say) the base alternative has
none, since only differences between alternatives count. The constants, ``(Intercept):alternative``, are such a term
with the value one.

Long data frames: one row for each alternative of each choice situation.

Wide data frames: one row for each choice situation, and columns of their own for what alternatives are like.

Choice models from data frames, pandas or polars, long or wide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from majorant.choice.sets import Situations, flagged_largest, is_missing, named
from majorant.core.checks import Array
from majorant.core.choices import Choices, Sample
from majorant.estimators.saving import all_or_nothing

INTERCEPT = "(Intercept)"
# More columns than this are kept by their non-zeros if most belong to one alternative only.
MANY_COLUMNS = 64


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
    if width > MANY_COLUMNS and sum(term.alternatives is None for term in terms) < width // 4:
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
        for name in by:
            if name not in varying:
                raise ValueError(f"by_alternative names {name!r}, which is none of varying: {', '.join(varying)}")
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
            bad = ~np.isfinite(value.reshape(len(rows), count)).all(axis=1)
            if bad.any():
                raise ValueError(
                    f"{term.name} must be finite where an alternative is available, but is not at row {rows[bad].min()}"
                )
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


FrameLayout = LongLayout | WideLayout


class ChoiceFrames:
    """``from_long`` and ``from_wide``, for a conditional logit."""

    _layout: FrameLayout | None = None

    @classmethod
    def from_long(
        cls,
        df: Any,
        *,
        choice: str,
        group: str,
        alternative: str | None = None,
        features: Sequence[str] = (),
        by_alternative: Sequence[str] = (),
        base: Any = None,
        constants: bool | None = None,
        availability: str | None = None,
        sample_weight: str | None = None,
        offset: str | None = None,
        **settings: Any,
    ) -> Self:
        """Return a model fitted to a data frame with one row for each alternative of each choice situation.

        Parameters
        ----------
        df : data frame
            Of pandas or polars.
        choice, group, alternative : str
            Columns: 1 (or True) where a row was chosen, the choice situation, and which alternative a row is.
        features : list of str
            Columns with one coefficient for all alternatives.
        by_alternative : list of str
            Columns with a coefficient for each alternative; of one that is constant within every group (an income,
            say) for each but the base.
        base : label, optional
            The alternative that others are compared with; the first if not given.
        constants : bool, optional
            Whether alternatives but the base have a constant; if not given, they do where ``alternative`` is.
        availability, sample_weight, offset : str, optional
            Columns: 0 where an alternative was not available, weights of situations, numbers added to θᵀx.
        **settings
            Of the estimator, such as ``C=``.

        Returns
        -------
        estimator
            Fitted; from now on it takes data frames like this one.

        Examples
        --------
        >>> import pandas as pd
        >>> from majorant import ConditionalLogit
        >>> trips = pd.DataFrame(
        ...     {
        ...         "trip": [1, 1, 2, 2, 3, 3, 4, 4],
        ...         "mode": ["car", "bus"] * 4,
        ...         "price": [9, 4, 8, 2, 7, 6, 5, 4],
        ...         "chosen": [1, 0, 0, 1, 1, 0, 0, 1],
        ...     }
        ... )
        >>> columns = dict(choice="chosen", group="trip", alternative="mode", features=["price"])
        >>> model = ConditionalLogit.from_long(trips, **columns)
        >>> model.param_names_, model.predict(trips)
        (['(Intercept):car', 'price'], array([0, 1, 0, 1, 1, 0, 1, 0]))
        """
        layout = LongLayout.learn(
            df, choice, group, alternative, features, by_alternative, base, constants, availability, offset
        )
        return cls(**settings)._fit_frame(layout, df, sample_weight)

    @classmethod
    def from_wide(
        cls,
        df: Any,
        *,
        choice: str,
        alternatives: Any,
        varying: Mapping[str, Mapping[Any, Any]] | None = None,
        by_alternative: Sequence[str] = (),
        fixed: Sequence[str] = (),
        availability: Mapping[Any, str] | None = None,
        base: Any = None,
        constants: bool = True,
        sample_weight: str | None = None,
        **settings: Any,
    ) -> Self:
        """Return a model fitted to a data frame with one row for each choice situation.

        Situations that look alike are written out once, however many there are.

        Parameters
        ----------
        df : data frame
            Of pandas or polars.
        choice : str
            The column that says what was chosen.
        alternatives : list, or dict
            What may be chosen, as that column has it; a dict gives names to the alternatives.
        varying : dict of dicts, optional
            For the name of each coefficient, and each alternative that it is for, a column, or a number where all
            situations are alike: ``{"time": {"car": "CAR_TT", "train": "TRAIN_TT"}}``.
        by_alternative : list of str
            Names in ``varying`` with a coefficient for each alternative instead of one for all.
        fixed : list of str
            Columns that describe the situation or the person: a coefficient for each alternative but the base.
        availability : dict, optional
            For alternatives that are not always available, the column that is 0 where they are not.
        base : label, optional
            The alternative that others are compared with; the first if not given.
        constants : bool
            Whether alternatives but the base have a constant.
        sample_weight : str, optional
            The column of weights.
        **settings
            Of the estimator, such as ``C=``.

        Returns
        -------
        estimator
            Fitted; from now on it takes data frames like this one.

        Examples
        --------
        >>> import pandas as pd
        >>> from majorant import ConditionalLogit
        >>> trips = pd.DataFrame({"went": ["car", "bus"] * 2, "car_price": [9, 8, 7, 5], "bus_price": [4, 2, 6, 4]})
        >>> price = {"car": "car_price", "bus": "bus_price"}
        >>> model = ConditionalLogit.from_wide(trips, choice="went", alternatives=list(price), varying={"price": price})
        >>> model.param_names_, model.predict_proba(trips).shape
        (['(Intercept):bus', 'price'], (4, 2))
        """
        layout = WideLayout.learn(
            choice, alternatives, varying or {}, by_alternative, fixed, availability or {}, base, constants
        )
        return cls(**settings)._fit_frame(layout, df, sample_weight)

    def _refuse_offset(self, offset: Any) -> None:
        if offset is not None:
            raise ValueError(
                "offset is for arrays: a model of data frames takes it from the column that from_long(…, offset=) named"
            )

    def _fit_frame(self: Any, layout: FrameLayout, df: Any, weight: str | None) -> Any:
        with all_or_nothing(self):
            self._check_settings()
            refuse_none(layout.terms)
            sample, table = layout.sample(df, weight)
            self.n_features_in_ = len(layout.names)
            self._fit_sample(sample, layout.names)
            self._layout, self._table = layout, None if table is None else replace(table, X=None)
        return self


def as_json(layout: FrameLayout) -> dict[str, Any]:
    """Return what JSON can hold of a layout."""
    return {"kind": layout.kind, **asdict(layout)}


def layout_from(saved: dict[str, Any], names: list[str]) -> FrameLayout:
    """Return a layout that was saved, if its coefficients have these names."""
    try:
        kind, fields = saved["kind"], {name: _tuple(value) for name, value in saved.items() if name != "kind"}
        fields["terms"] = tuple(Term(term["name"], _tuple(term["alternatives"])) for term in saved["terms"])
        layout: FrameLayout = {"long": LongLayout, "wide": WideLayout}[kind](**fields)
        whole = layout.names == names and layout.is_whole()
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError):
        whole = False
    if not whole:
        raise ValueError(f"it says of data frames {saved!r:.80}, which does not go with its coefficients")
    return layout


def _tuple(value: Any) -> Any:
    return tuple(_tuple(each) for each in value) if isinstance(value, list | tuple) else value
