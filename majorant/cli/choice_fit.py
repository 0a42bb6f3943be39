"""Choice models on files: the columns that say who chose what, and the fit to them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from majorant import ConditionalLogit, LatentClassLogit, __version__
from majorant.choice.frames import INTERCEPT, LongLayout, layout_from
from majorant.choice.sets import flagged_largest
from majorant.cli.readers import Source
from majorant.cli.refusals import Refusal
from majorant.cli.schema import not_negative
from majorant.cli.tables import Table, distinct, whole_number
from majorant.core.checks import Array
from majorant.estimators.saving import kind_of
from majorant.inference import FRAME_COLUMNS, Summary

if TYPE_CHECKING:
    from majorant.cli.choice import LatentClasses, Utility

# Words for 1 and 0.
YES_OR_NO = {"yes": 1.0, "no": 0.0, "y": 1.0, "n": 0.0, "true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}
COMPLETE_IT = (
    "complete it, or leave out its situation; where an alternative was not available, it may lack anything but "
    "names: --availability is for the column that is 0 there"
)


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

    choice: str | None  # None where nothing is known to be chosen
    group: str
    alternative: str | None
    features: Sequence[str]
    by_alternative: Sequence[str]
    availability: str | None = None
    weight: str | None = None
    cluster: str | None = None
    offset: str | None = None
    person: str | None = None
    membership: Sequence[str] = ()
    alternatives: Sequence[Any] = ()  # those of the fit, where one was made

    def read(self, source: Source, kept: Sequence[str] = ()) -> tuple[Table, LongFrame]:
        """Return a file, and its columns, checked: names as labels, everything else as numbers."""
        if not source.named:
            raise Refusal(f"the columns of {source.name} have no names: choices are read from CSV, TSV and Parquet")
        names = {name for name in (self.group, self.alternative, self.cluster, self.person) if name is not None}
        table = source.read(frozenset({*names, *kept}))
        used = [self.choice, self.availability, self.weight, self.offset, *self.features, *self.by_alternative]
        for name in (*names, *used, *self.membership):
            if name is not None:
                table.column(name, remedy="")
        columns = {name: labels_of(table, name) for name in sorted(names)}
        if self.alternative is not None and self.alternatives and self.alternative not in self.features:
            columns[self.alternative] = labels_of(table, self.alternative, self.alternatives)
        if self.choice is not None:
            columns[self.choice] = flags = truths_of(table, self.choice)
            wrong = (flags < 0) | (flags > 1)
            if wrong.any():
                place = int(wrong.argmax())
                raise Refusal(
                    f"column {self.choice!r} of {table.origin} holds {flags[place]:g} in row {table.row(place)}, but a "
                    "row is chosen (1), is not (0), or has a share between"
                )
        available = np.ones(len(table), dtype=bool)
        if self.availability is not None:
            columns[self.availability] = truths_of(table, self.availability)
            available = columns[self.availability] != 0
        if self.weight is not None:
            table.refuse_missing(self.weight, table.missing(self.weight), COMPLETE_IT)
            columns[self.weight] = not_negative(table, self.weight)
        # A column may be read both as a name and as a number, such as the size of a party; numbers are what is fitted.
        fitted = [*self.features, *self.by_alternative, *([] if self.offset is None else [self.offset])]
        columns |= {name: numbers_of(table, name, available) for name in fitted}
        everywhere = np.ones(len(table), dtype=bool)
        return table, LongFrame(columns | {name: numbers_of(table, name, everywhere) for name in self.membership})


def labels_of(table: Table, name: str, known: Sequence[Any] = ()) -> Array:
    """Return a column of names: integers if all of them are, strings otherwise; or as the known ones are."""
    words, codes = distinct(table.column(name))
    table.refuse_missing(name, codes < 0, COMPLETE_IT)
    as_text = bool(known) and isinstance(known[0], str)
    numbers = [None if as_text else whole_number(word) for word in words]
    labels = np.array(words, dtype=str) if None in numbers else np.array(numbers, dtype=np.int64)
    unknown = ~np.isin(labels.astype(str), [str(label) for label in known]) if known else np.zeros(len(labels), bool)
    if unknown[codes].any():
        place = int(unknown[codes].argmax())
        where = f"row {table.row(place)} of {table.origin}"
        raise Refusal(
            f"alternative {str(labels[codes[place]])!r} in {where} is none of the fit, which has "
            f"{', '.join(map(str, known))}"
        )
    return labels[codes]


def numbers_of(table: Table, name: str, needed: Array) -> Array:
    """Return a column of numbers, which have to be there, and finite, in the rows where they are needed."""
    values = table.numbers(name, needed)
    table.refuse_missing(name, np.isnan(values) & needed, COMPLETE_IT)
    return values


def truths_of(table: Table, name: str) -> Array:
    """Return a column of numbers, or of yes and no."""
    words, codes = distinct(table.column(name))
    truths = [YES_OR_NO.get(word.lower()) for word in words]
    if not table.is_text(name) or all(truth is None for truth in truths):
        return numbers_of(table, name, np.ones(len(table), dtype=bool))
    table.refuse_missing(name, codes < 0, COMPLETE_IT)
    if None in truths:
        place = int(np.argmax(codes == truths.index(None)))
        where = f"row {table.row(place)} of {table.origin}"
        raise Refusal(f"column {name!r} holds {words[codes[place]]!r} in {where}, which is neither yes (1) nor no (0)")
    return np.array(truths, dtype=np.float64)[codes]


@dataclass(frozen=True)
class Chosen:
    """A choice model that was fitted, and what to say about it."""

    model: Any
    summary: Summary
    covariance: str
    rows: int | None
    seconds: float | None = None
    layout: LongLayout | None = None  # where the model does not keep it itself

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
        notes: dict[str, Any] = {"trained_on": Path(origin).name, "rows": self.rows, "version": __version__}
        if self.layout is not None:
            notes["layout"] = self.layout.as_json()
        self.model.save(path, notes=notes | {"result": str(self.model.result_)})


def saved_choices(path: str) -> Chosen:
    """Return a choice model from a file."""
    model = load_choices(path)
    rows = model.notes_.get("rows") if isinstance(model.notes_, dict) else None
    return Chosen(model, model.summary(), "hessian", rows)


def load_choices(path: str) -> Any:
    """Return the estimator of a choice model in a file."""
    kinds = {kind.__name__: kind for kind in (ConditionalLogit, LatentClassLogit)}
    return kinds[kind_of(path)].load(path)


@dataclass(frozen=True)
class PredictedChoices:
    """What a choice model says of a file, row by row: probabilities, and 1 for the likeliest of each situation."""

    table: Table
    layout: LongLayout
    flags: Array | None  # what was chosen, if that is known
    probability: Array
    prediction: Array
    situations: int

    def measures(self) -> dict[str, Any]:
        """Return how good it is: accuracy and mean log-loss of a situation."""
        assert self.flags is not None
        chosen = self.flags > 0
        with np.errstate(divide="ignore"):
            loss = -float((self.flags[chosen] * np.log(self.probability[chosen])).sum())
        accuracy = float((self.flags * self.prediction).sum()) / self.situations
        return {"situations": self.situations, "accuracy": accuracy, "log_loss": loss / self.situations}


def predict_choices(
    path: str, source: Source, keep: Sequence[str] = (), *, chosen: bool, choice: str | None = None
) -> PredictedChoices:
    """Return what a saved choice model says of a file, which is read whole: a situation may stand anywhere in it.

    Where it is to be compared with what was ``chosen``, that is in the column of the fit, or in another.
    """
    model = load_choices(path)
    layout, notes = getattr(model, "_layout", None), model.notes_ if isinstance(model.notes_, dict) else {}
    if "layout" in notes:  # of hidden classes
        try:
            layout = layout_from(notes["layout"], model._features)
        except ValueError as error:
            raise Refusal(f"{path} cannot be read: {error}") from None
    if not isinstance(layout, LongLayout):
        raise Refusal(f"{path} holds a model without the columns it reads: fit it with majorant choice")
    layout = replace(layout, choice=choice or layout.choice)
    columns = LongColumns(
        layout.choice if chosen else None,
        layout.group,
        layout.alternative,
        [term.name for term in layout.terms if term.name != INTERCEPT],
        (),
        layout.availability,
        offset=layout.offset,
        membership=getattr(model, "_covariates", []),
        alternatives=layout.alternatives,
    )
    table, frame = columns.read(source, keep)
    rows, measure = layout.situations(frame), layout.measure(frame)
    if chosen:
        rows.choices(layout.chosen(frame), measure, None)  # refuses situations where not one was chosen
    of_rows: dict[str, Any] = {"offset": None if measure is None else rows.sorted(measure)}
    if columns.membership:
        of_rows["membership"] = rows.sorted(np.column_stack([frame[name] for name in columns.membership]))
    p = model.predict_proba(rows.X, rows.sorted_ids, **of_rows)
    likeliest = flagged_largest(p, rows.starts, rows.sizes)
    flags = frame[layout.choice] if chosen else None
    return PredictedChoices(table, layout, flags, rows.as_given(p), rows.as_given(likeliest), len(rows.sizes))


def fit_choices(
    source: Source,
    columns: LongColumns,
    utility: Utility,
    covariance: str,
    latent: LatentClasses,
    settings: dict[str, Any],
) -> Chosen:
    """Fit a conditional logit to a file, or hidden classes of people."""
    _, frame = columns.read(source)
    base: Any = utility.base
    alternative = columns.alternative
    # A number if the alternatives are numbers.
    if base is not None and alternative is not None and frame[alternative].dtype.kind == "i":
        base = base if whole_number(base) is None else whole_number(base)
    how = dict(
        choice=columns.choice,
        group=columns.group,
        alternative=columns.alternative,
        features=columns.features,
        by_alternative=columns.by_alternative,
        base=base,
        constants=utility.constants and columns.alternative is not None,
        availability=columns.availability,
        sample_weight=columns.weight,
        offset=columns.offset,
        C=utility.C,
        **settings,
    )
    started = time.perf_counter()
    model: Any
    layout = None
    if latent.classes is None:
        model = ConditionalLogit.from_long(frame, **how)
        cluster = None if columns.cluster is None else frame[columns.cluster]
        summary = model.summary(covariance, cluster)
    else:
        people = {"person": columns.person, "membership": columns.membership, **latent.settings}
        model = LatentClassLogit.from_long(frame, **people, **how)
        summary = model.summary(covariance)
        layout = LongLayout.learn(  # which the estimator does not keep
            frame,
            choice=columns.choice or "",
            group=columns.group,
            alternative=columns.alternative,
            features=columns.features,
            by=columns.by_alternative,
            base=how["base"],
            constants=bool(how["constants"]),
            availability=columns.availability,
            offset=columns.offset,
        )
    return Chosen(model, summary, covariance, len(frame), time.perf_counter() - started, layout)
