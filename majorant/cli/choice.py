"""``majorant choice``: a model of what people choose, from a file with one row for each alternative."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from majorant.cli.files import Refusal
from majorant.cli.model_file import check_model_path
from majorant.cli.options import (
    SEVERAL,
    AsJson,
    Names,
    TableReading,
    argument,
    either,
    expanded,
    listed,
    option,
    reading,
)
from majorant.cli.output import show, show_json, spoken_warnings
from majorant.core.checks import Array

if TYPE_CHECKING:
    from majorant.choice.frames import LongLayout
    from majorant.cli.readers import Tables
    from majorant.cli.tables import Table
    from majorant.inference import Summary

# As the help lists them: to ask the estimators would load everything. A test holds them together.
KINDS = ("hessian", "robust", "cluster")

of_utility = functools.partial(option, panel="What alternatives are worth")
fitting = functools.partial(option, panel="Fitting")
of_errors = functools.partial(option, panel="Standard errors")
latent = functools.partial(option, panel="Hidden classes of people")


@dataclass(frozen=True)
class Utility:
    """The utility of an alternative: options of the command, in a parameter of this type."""

    features: Annotated[Names, of_utility("Columns with one coefficient for all, as a b c or a,b,c.", "COLS")] = None
    by_alternative: Annotated[
        Names,
        of_utility(
            "Columns with a coefficient for each alternative; of those that are constant within every situation, such "
            "as an income, for each but the base.",
            "COLS",
        ),
    ] = None
    base: Annotated[str | None, of_utility("The alternative to compare with; the first by default.", "NAME")] = None
    constants: Annotated[bool, of_utility("Whether there are constants.", None, "--constants/--no-constants")] = True
    C: Annotated[float, of_utility("Inverse of a penalty; inf is maximum likelihood.", "X", "--C")] = float("inf")

    def check(self, choice: str, group: str, alternative: str | None) -> None:
        """Refuse options that do not go together."""
        if alternative is None and (self.by_alternative or self.base is not None):
            flag = "--by-alternative" if self.by_alternative else "--base"
            raise typer.BadParameter(f"{flag} needs --alternative, the column that names the alternatives")
        used = [*listed(self.features), *listed(self.by_alternative)]
        if not used and (alternative is None or not self.constants):
            raise typer.BadParameter("there is no coefficient to fit: name columns with --features")
        for flag, column in (("--choice", choice), ("--group", group), ("--alternative", alternative)):
            if column in used:
                raise typer.BadParameter(f"column {column} is that of {flag}, and cannot be a feature as well")


@dataclass(frozen=True)
class Errors:
    """Which standard errors: options of the command, in a parameter of this type."""

    covariance: Annotated[str | None, of_errors(f"{either(KINDS)}; cluster with --cluster, else hessian.", "KIND")] = (
        None
    )
    cluster: Annotated[str | None, of_errors("Column of what may depend on each other, such as a person.", "COL")] = (
        None
    )

    @property
    def kind(self) -> str:
        """Of covariance."""
        return self.covariance or ("hessian" if self.cluster is None else "cluster")

    def check(self, classes: int | None) -> None:
        """Refuse options that do not go together."""
        from majorant.core.checks import one_of

        one_of("covariance", self.kind, KINDS)
        if self.kind == "cluster" and classes is not None:
            raise typer.BadParameter(
                "--classes has no clusters: people are independent there; say --person and --covariance robust"
            )
        if self.kind == "cluster" and self.cluster is None:
            raise typer.BadParameter("--covariance cluster needs --cluster, the column of what belongs together")
        if self.kind != "cluster" and self.cluster is not None:
            raise typer.BadParameter(f"--cluster goes with --covariance cluster, got {self.kind}")


@dataclass(frozen=True)
class LatentClasses:
    """The hidden classes of people: options of the command, in a parameter of this type."""

    classes: Annotated[
        int | None,
        latent("Fit that many hidden classes of people, each with coefficients of its own.", "N", min=1),
    ] = None
    person: Annotated[str | None, latent("Who chose; by default every situation is another person's.", "COL")] = None
    membership: Annotated[Names, latent("What is known of people and may tell classes, as a,b.", "COLS")] = None
    membership_C: Annotated[
        float | None,
        latent("Inverse of a penalty on what --membership does; inf, the default, is none.", "X", "--membership-C"),
    ] = None
    starts: Annotated[int | None, latent("Starts, of which the best is kept; 10 by default.", "N", min=1)] = None
    seed: Annotated[int | None, latent("Of the starts; 0 by default.", "N", min=0)] = None

    @property
    def settings(self) -> dict[str, Any]:
        """Of the estimator, as far as they were given."""
        given: dict[str, Any] = {"n_classes": self.classes, "n_init": self.starts, "random_state": self.seed}
        given["membership_C"] = self.membership_C
        return {name: value for name, value in given.items() if value is not None}

    def check(self) -> None:
        """Refuse options of hidden classes where there are none."""
        if self.classes is not None:
            return
        if self.person is not None:
            raise typer.BadParameter(
                "--person goes with --classes; for standard errors that know of people, say --cluster instead"
            )
        for name in ("membership", "membership_C", "starts", "seed"):
            if getattr(self, name) not in (None, []):
                flag = name.replace("_", "-")
                raise typer.BadParameter(f"--{flag} goes with --classes, the number of hidden classes")


@expanded
def choice(
    data: Annotated[
        list[str],
        argument(
            "CSV, TSV or Parquet, also packed, with a row for each alternative of each choice situation; - is "
            f"standard input. {SEVERAL}",
            "DATA",
        ),
    ],
    group: Annotated[str, option("Column of the choice situation.", "COL")],
    choice: Annotated[str, option("Column that is 1 (true, yes) where a row was chosen, or holds shares.", "COL")],
    alternative: Annotated[str | None, option("Column of the alternatives; they then have constants.", "COL")] = None,
    model: Annotated[str | None, option("The model to write; none by default.", "FILE", "--model", "-m")] = None,
    as_json: AsJson = False,
    *,
    utility: Utility,
    tol: Annotated[
        float | None,
        fitting(
            "Where to stop: the share of the objective that is certified to be left, or of the gradient at zero; "
            "1e-8 by default.",
            "X",
        ),
    ] = None,
    max_iter: Annotated[int | None, fitting("Most steps; 1000 by default, 500 with --classes.", "N", min=0)] = None,
    errors: Errors,
    latent: LatentClasses,
    availability: Annotated[str | None, reading("Column that is 0 where one was not available.", "COL")] = None,
    weight: Annotated[
        str | None,
        reading("Column of weights, the same in all rows of a situation (with --classes, of a person).", "COL"),
    ] = None,
    offset: Annotated[str | None, reading("Column of numbers added to what alternatives are worth.", "COL")] = None,
    reading: TableReading,
) -> None:
    """Fit a model of what people choose.

    Prints its coefficients with their standard errors. The model is a conditional logit, by maximum likelihood: in each
    situation an alternative is chosen with a probability proportional to exp(θᵀx). The file has a row for each
    alternative of each situation, in any order; situations may have different alternatives.

    With --classes, people are of hidden classes, each with coefficients of its own, the same in all their choices.

    \b
    majorant choice trips.csv --group trip --choice chosen --features price hours
    majorant choice trips.csv --group trip --alternative mode --choice chosen \\
        --features price hours --by-alternative income --base car \\
        --cluster person --model trips.npz
    majorant choice trips.csv --group trip --choice chosen \\
        --features price hours --classes 2 --person person
    """
    utility.check(choice, group, alternative)
    errors.check(latent.classes)
    latent.check()
    source = reading.source(*data)
    check_model_path(model, *source.paths)
    features, by_alternative = listed(utility.features), listed(utility.by_alternative)
    columns = LongColumns(
        choice, group, alternative, features, by_alternative, availability, weight, errors.cluster, offset
    )
    stopping = {name: value for name, value in (("tol", tol), ("max_iter", max_iter)) if value is not None}
    with spoken_warnings():
        done = fit_choices(source, columns, utility, errors.kind, latent, stopping)
    if model is not None:
        done.save(model, source.name)
    if as_json:
        show_json({"model": model, **done.facts()})
        return
    show(str(done.summary))
    if model is not None:
        show(f"model written to {model}")


# --- files with one row for each alternative --------------------------------------------------------------

# Words for 1 and 0.
YES, NO = ("yes", "y", "true", "1"), ("no", "n", "false", "0")


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
    alternatives: Sequence[Any] = ()  # those of the fit, where one was made

    def table(self, source: Tables, person: str | None = None, kept: Sequence[str] = ()) -> Table:
        """Return the file; names, and columns that are to be kept, are as they are written."""
        if not source.named:
            raise Refusal(f"the columns of {source.name} have no names: choices are read from CSV, TSV and Parquet")
        return source.read(frozenset({*self.names(person), *kept}))

    def frame(self, table: Table, person: str | None, membership: Sequence[str]) -> LongFrame:
        """Return the columns of a file, checked: names as labels, everything else as numbers."""
        used = [self.choice, self.availability, self.weight, self.offset, *self.features, *self.by_alternative]
        for name in (*self.names(person), *used, *membership):
            if name is not None:
                table.column(name, remedy="")
        found = {name: _labels(table, name) for name in sorted(self.names(person))}
        if self.alternative is not None and self.alternatives and self.alternative not in self.features:
            labels = _labels(table, self.alternative, as_text=isinstance(self.alternatives[0], str))
            unknown = ~np.isin(labels.astype(str), [str(name) for name in self.alternatives])
            if unknown.any():
                place = int(unknown.argmax())
                raise Refusal(
                    f"alternative {str(labels[place])!r} in row {table.row(place)} of {table.origin} is none of the "
                    f"fit, which has {', '.join(map(str, self.alternatives))}"
                )
            found[self.alternative] = labels
        if self.choice is not None:
            found[self.choice] = flags = _truths(table, self.choice)
            wrong = (flags < 0) | (flags > 1)
            if wrong.any():
                place = int(wrong.argmax())
                raise Refusal(
                    f"column {self.choice!r} of {table.origin} holds {flags[place]:g} in row {table.row(place)}, but a "
                    "row is chosen (1), is not (0), or has a share between"
                )
        available = np.ones(len(table), dtype=bool)
        if self.availability is not None:
            found[self.availability] = _truths(table, self.availability)
            available = found[self.availability] != 0
        if self.weight is not None:
            found[self.weight] = _numbers(table, self.weight)
            from majorant.cli.schema import refuse_negative

            refuse_negative(found[self.weight], self.weight, table)
        # A column may be read both as a name and as a number, such as the size of a party; numbers are what is fitted.
        added = () if self.offset is None else (self.offset,)
        found |= {name: _numbers(table, name, available) for name in (*self.features, *self.by_alternative, *added)}
        return LongFrame(found | {name: _numbers(table, name) for name in membership})

    def names(self, person: str | None) -> set[str]:
        """Return the columns whose values are names."""
        return {name for name in (self.group, self.alternative, self.cluster, person) if name is not None}


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
        """Return the statistics and estimates of the fit, for JSON."""
        from majorant.inference import FRAME_COLUMNS

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
        from majorant import __version__

        notes: dict[str, Any] = {"trained_on": Path(origin).name, "rows": self.rows, "version": __version__}
        if self.layout is not None:
            from majorant.choice.frames import as_json

            notes["layout"] = as_json(self.layout)
        self.model.save(path, notes=notes | {"result": str(self.model.result_)})


def load_choices(path: str) -> Any:
    """Return the estimator of a choice model in a file."""
    import majorant
    from majorant.estimators.saving import kind_of

    return getattr(majorant, kind_of(path)).load(path)


@dataclass(frozen=True)
class PredictedChoices:
    """Predictions of a choice model, row by row: probabilities, and 1 for the likeliest of each situation."""

    table: Table
    layout: LongLayout
    flags: Array | None  # what was chosen, if that is known
    probability: Array
    prediction: Array
    situations: int

    def measures(self) -> dict[str, Any]:
        """Return accuracy and mean log-loss of the situations."""
        assert self.flags is not None
        chosen = self.flags > 0
        with np.errstate(divide="ignore"):
            loss = -float((self.flags[chosen] * np.log(self.probability[chosen])).sum())
        accuracy = float((self.flags * self.prediction).sum()) / self.situations
        return {"situations": self.situations, "accuracy": accuracy, "log_loss": loss / self.situations}


def predict_choices(
    path: str, source: Tables, keep: Sequence[str] = (), *, chosen: bool, choice: str | None = None
) -> PredictedChoices:
    """Return the predictions of a saved choice model for a file, which is read whole: situations may be scattered.

    Where it is to be compared with what was ``chosen``, that is in the column of the fit, or in another.
    """
    from majorant.choice.frames import INTERCEPT, LongLayout, layout_from
    from majorant.choice.sets import flagged_largest

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
        alternatives=layout.alternatives,
    )
    membership = getattr(model, "_covariates", [])
    table = columns.table(source, None, keep)
    frame = columns.frame(table, None, membership)
    rows, measure = layout.situations(frame), layout.measure(frame)
    if chosen:
        rows.choices(layout.chosen(frame), measure, None)  # refuses situations where not one was chosen
    of_rows: dict[str, Any] = {"offset": None if measure is None else rows.sorted(measure)}
    if membership:
        of_rows["membership"] = rows.sorted(np.column_stack([frame[name] for name in membership]))
    p = model.predict_proba(rows.X, rows.sorted_ids, **of_rows)
    likeliest = flagged_largest(p, rows.starts, rows.sizes)
    flags = frame[layout.choice] if chosen else None
    return PredictedChoices(table, layout, flags, rows.as_given(p), rows.as_given(likeliest), len(rows.sizes))


def fit_choices(
    source: Tables,
    columns: LongColumns,
    utility: Utility,
    covariance: str,
    latent: LatentClasses,
    settings: dict[str, Any],
) -> Chosen:
    """Fit a conditional logit to a file, or hidden classes of people."""
    from majorant import ConditionalLogit, LatentClassLogit
    from majorant.choice.frames import LongLayout

    known = listed(latent.membership)
    frame = columns.frame(columns.table(source, latent.person), latent.person, known)
    base: Any = utility.base
    alternative = columns.alternative
    # A number if the alternatives are numbers.
    if base is not None and alternative is not None and frame[alternative].dtype.kind == "i" and _is_number(base):
        base = int(float(base))
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
        model = LatentClassLogit.from_long(frame, person=latent.person, membership=known, **how, **latent.settings)
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


def _labels(table: Table, name: str, as_text: bool = False) -> Array:
    """Return a column of names: integers if all of them are, unless they are to be text, strings otherwise."""
    values = table.text(name)
    _refuse_missing(table, name, np.array([value is None for value in values]))
    words = [str(value) for value in values]
    numbers = {word: int(float(word)) for word in set(words) if _is_number(word)}
    if len(numbers) == len(set(words)) and not as_text:
        return np.array([numbers[word] for word in words], dtype=np.int64)
    return np.array(words, dtype=str)


def _is_number(word: str) -> bool:
    from majorant.cli.tables import WHOLE

    # Longer whole numbers are names: as floats they would lose their last digits.
    return len(word) <= np.finfo(float).precision and WHOLE.fullmatch(word) is not None


def _numbers(table: Table, name: str, needed: Array | None = None) -> Array:
    """Return a column of numbers, which have to be there where they are needed: everywhere, if not said."""
    values = table.numbers(name)
    needed = np.ones(len(values), dtype=bool) if needed is None else needed
    _refuse_missing(table, name, np.isnan(values) & needed)
    infinite = np.isinf(values) & needed
    if infinite.any():
        raise Refusal(f"column {name!r} of {table.origin} is infinite in row {table.row(int(infinite.argmax()))}")
    return values


def _truths(table: Table, name: str) -> Array:
    """Return a column of numbers, or of yes and no."""
    words = table.text(name) if table.is_text(name) else []
    known = np.array([word is not None and word.lower() in (*YES, *NO) for word in words], dtype=bool)
    if not known.any():
        return _numbers(table, name)
    _refuse_missing(table, name, np.array([word is None for word in words]))
    if not known.all():
        place = int(known.argmin())
        where = f"row {table.row(place)} of {table.origin}"
        raise Refusal(f"column {name!r} holds {words[place]!r} in {where}, which is neither yes (1) nor no (0)")
    return np.array([word is not None and word.lower() in YES for word in words], dtype=np.float64)


def _refuse_missing(table: Table, name: str, missing: Array) -> None:
    if missing.any():
        where = f"lacks a value in row {table.row(int(missing.argmax()))} ({int(missing.sum())} in all)"
        raise Refusal(
            f"column {name!r} of {table.origin} {where}",
            "complete it, or leave out its situation; where an alternative was not available, it may lack anything but "
            "names: --availability is for the column that is 0 there",
        )
