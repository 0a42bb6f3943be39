"""Choice models on files: the columns that say who chose what, and the fit to them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from majorant import ConditionalLogit, LatentClassLogit, __version__
from majorant._checks import Array
from majorant.cli.hidden import HiddenClasses
from majorant.cli.refusals import MissingInChoice, UnusableFlag, UnusableType, UnusableWeight
from majorant.cli.tables import Table, Tables
from majorant.cli.tables.labels import WHOLE
from majorant.estimators.storage import kind_of
from majorant.inference.summary import FRAME_COLUMNS, Summary

if TYPE_CHECKING:
    from majorant.cli.choice import Utility

# Longer whole numbers are names: as floats they would lose their last digits.
MOST_DIGITS = 15


@dataclass(frozen=True)
class LongFrame:
    """Columns by their names, as much of a data frame as choice models look at."""

    columns: dict[str, Array]

    def __getitem__(self, name: str) -> Array:
        return self.columns[name]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


@dataclass(frozen=True)
class LongColumns:
    """Which columns of a file with one row for each alternative say what."""

    choice: str
    group: str
    alternative: str | None
    features: Sequence[str]
    by_alternative: Sequence[str]
    availability: str | None = None
    weight: str | None = None
    cluster: str | None = None
    offset: str | None = None

    def read(self, source: Tables, person: str | None, membership: Sequence[str]) -> LongFrame:
        """Return the columns, checked: names as labels, everything else as numbers."""
        if not source.named:
            raise ValueError(f"the columns of {source.name} have no names: choices are read from CSV, TSV and Parquet")
        names = {name for name in (self.group, self.alternative, self.cluster, person) if name is not None}
        table = source.read(frozenset(names))
        assert isinstance(table, Table)
        found = {name: _labels(table, name) for name in sorted(names)}
        found[self.choice] = _flags(table, self.choice)
        here = np.ones(len(table), dtype=bool)
        if self.availability is not None:
            found[self.availability] = _numbers(table, self.availability)
            here = found[self.availability] != 0
        if self.weight is not None:
            found[self.weight] = _weights(table, self.weight)
        # A column may be read both as a name and as a number, such as the size of a party; numbers are what is fitted.
        added = () if self.offset is None else (self.offset,)
        found |= {name: _numbers(table, name, here) for name in (*self.features, *self.by_alternative, *added)}
        return LongFrame(found | {name: _numbers(table, name) for name in membership})


@dataclass(frozen=True)
class Chosen:
    """A choice model that was fitted, and what to say about it."""

    model: Any
    summary: Summary
    covariance: str
    rows: int | None
    seconds: float | None = None

    def facts(self) -> dict[str, Any]:
        """Return what there is to say, for JSON."""
        facts, table = self.summary.facts, zip(self.summary.names, self.summary.rows(), strict=True)
        return {
            "kind": type(self.model).__name__,
            "rows": self.rows,
            **asdict(facts),
            "rho_squared": facts.rho_squared,
            "adjusted_rho_squared": facts.adjusted_rho_squared,
            "aic": facts.aic,
            "bic": facts.bic,
            "covariance": self.covariance,
            "level": self.summary.level,
            "coefficients": [{"name": name, **dict(zip(FRAME_COLUMNS, row, strict=True))} for name, row in table],
            "shares": getattr(self.model, "shares_", None),
            "result": str(self.model.result_),
            "gap": self.model.result_.gap,
            "steps": int(self.model.n_iter_),
            "seconds": self.seconds,
        }

    def save(self, path: str, origin: str) -> None:
        """Write the model, and where it comes from."""
        notes = {"trained_on": Path(origin).name, "rows": self.rows, "version": __version__}
        self.model.save(path, notes=notes | {"result": str(self.model.result_)})


def saved_choices(path: str) -> Chosen:
    """Return a choice model from a file."""
    kinds = {each.__name__: each for each in (ConditionalLogit, LatentClassLogit)}
    model: Any = kinds[kind_of(path)].load(path)
    rows = model.notes_.get("rows") if isinstance(model.notes_, dict) else None
    return Chosen(model, model.summary(), "hessian", rows)


def fit_choices(
    source: Tables,
    columns: LongColumns,
    utility: Utility,
    covariance: str,
    hidden: HiddenClasses,
    settings: dict[str, Any],
) -> Chosen:
    """Fit a conditional logit to a file, or hidden classes of people."""
    frame = columns.read(source, hidden.person, hidden.known)
    how = dict(
        choice=columns.choice,
        group=columns.group,
        alternative=columns.alternative,
        features=columns.features,
        by_alternative=columns.by_alternative,
        base=_base(utility.base, frame, columns.alternative),
        constants=utility.constants and columns.alternative is not None,
        availability=columns.availability,
        sample_weight=columns.weight,
        offset=columns.offset,
        C=utility.C,
        **settings,
    )
    started = time.perf_counter()
    model: Any
    if hidden.classes is None:
        model = ConditionalLogit.from_long(frame, **how)
        cluster = None if columns.cluster is None else frame[columns.cluster]
        summary = model.summary(covariance, cluster)
    else:
        model = LatentClassLogit.from_long(
            frame, person=hidden.person, membership=hidden.known, **how, **hidden.settings
        )
        summary = model.summary(covariance)
    return Chosen(model, summary, covariance, len(frame), time.perf_counter() - started)


def _base(base: str | None, frame: LongFrame, alternative: str | None) -> Any:
    """Return the base as the alternatives are: a number if they are numbers."""
    if base is None or alternative is None or frame[alternative].dtype.kind != "i" or not _is_number(base):
        return base
    return int(float(base))


def _labels(table: Table, name: str) -> Array:
    """Return a column of names: integers if all of them are, strings otherwise."""
    values = table.text(name) if _usable(table, name) else []
    _refuse_missing(table, name, np.array([value is None for value in values]))
    words = [str(value) for value in values]
    numbers = {word: int(float(word)) for word in set(words) if _is_number(word)}
    if len(numbers) == len(set(words)):
        return np.array([numbers[word] for word in words], dtype=np.int64)
    return np.array(words, dtype=str)


def _is_number(word: str) -> bool:
    return len(word) <= MOST_DIGITS and WHOLE.fullmatch(word) is not None


def _numbers(table: Table, name: str, needed: Array | None = None) -> Array:
    """Return a column of numbers, which have to be there where they are needed: everywhere, if not said."""
    _usable(table, name)
    values = table.numbers(name)
    needed = np.ones(len(values), dtype=bool) if needed is None else needed
    _refuse_missing(table, name, np.isnan(values) & needed)
    infinite = np.isinf(values) & needed
    if infinite.any():
        raise ValueError(f"column {name!r} of {table.origin} is infinite in row {table.row(int(infinite.argmax()))}")
    return values


def _flags(table: Table, name: str) -> Array:
    flags = _numbers(table, name)
    wrong = (flags < 0) | (flags > 1)
    if wrong.any():
        place = int(wrong.argmax())
        raise UnusableFlag(name, table.origin, float(flags[place]), table.row(place))
    return flags


def _weights(table: Table, name: str) -> Array:
    weights = _numbers(table, name)
    if (weights < 0).any():
        place = int(np.argmax(weights < 0))
        raise UnusableWeight(name, table.origin, float(weights[place]), table.row(place))
    return weights


def _usable(table: Table, name: str) -> bool:
    """Refuse a column of dates and the like; the advice to leave it out is of no use to who asked for it."""
    try:
        table.is_text(name)
    except UnusableType as problem:
        raise ValueError(str(problem)) from None
    return True


def _refuse_missing(table: Table, name: str, missing: Array) -> None:
    if missing.any():
        raise MissingInChoice(name, table.origin, table.row(int(missing.argmax())), int(missing.sum()))
