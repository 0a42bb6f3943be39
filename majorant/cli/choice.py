"""``majorant choice``: a model of what people choose, from a file with one row for each alternative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from majorant.cli.hidden import HiddenClasses
from majorant.cli.options import READING, AsJson, TableReading, all_listed, either, expanded
from majorant.cli.output import show, show_json, spoken_warnings
from majorant.cli.saved import check_model_path

if TYPE_CHECKING:
    from majorant.cli.choosing import Chosen

UTILITY = "What alternatives are worth"
FITTING = "Fitting"
ERRORS = "Standard errors"
# As the help lists them: to ask the estimators would load everything. A test holds them together.
KINDS = ("hessian", "robust", "cluster")

LongData: TypeAlias = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA",
        help="CSV, TSV or Parquet, also packed, with a row for each alternative of each choice situation; - is "
        "standard input. Several are one table; so are the files that match a pattern, or the .parquet files in and "
        "below a folder.",
    ),
]
Group: TypeAlias = Annotated[str, typer.Option(metavar="COL", help="Column of the choice situation.")]
Choice: TypeAlias = Annotated[
    str, typer.Option(metavar="COL", help="Column that is 1 (true, yes) where a row was chosen, or holds shares.")
]
Alternative: TypeAlias = Annotated[
    str | None, typer.Option(metavar="COL", help="Column that names the alternatives; they then have constants.")
]
Out: TypeAlias = Annotated[
    str | None, typer.Option("--out", "-o", metavar="FILE", help="Where to write the model (.npz); nowhere by default.")
]
Features: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLS",
        help="Columns with one coefficient for all alternatives, as a b c or a,b,c.",
        rich_help_panel=UTILITY,
    ),
]
ByAlternative: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLS",
        help="Columns with a coefficient for each alternative; of those that are constant within every situation, such "
        "as an income, for each but the base.",
        rich_help_panel=UTILITY,
    ),
]
Base: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The alternative that others are compared with; the first by default.",
        rich_help_panel=UTILITY,
    ),
]
Constants: TypeAlias = Annotated[
    bool,
    typer.Option("--constants/--no-constants", help="Whether alternatives have constants.", rich_help_panel=UTILITY),
]
Penalty: TypeAlias = Annotated[
    float,
    typer.Option(
        "--C",
        help="Inverse of a penalty on the coefficients; inf is maximum likelihood.",
        rich_help_panel=UTILITY,
    ),
]
Tolerance: TypeAlias = Annotated[
    float | None,
    typer.Option(
        help="Where to stop: the share of the objective that is certified to be left, or of the gradient at zero; "
        "1e-8 by default.",
        rich_help_panel=FITTING,
    ),
]
Steps: TypeAlias = Annotated[
    int | None,
    typer.Option(min=0, help="Most steps; 1000 by default, 500 with --classes.", rich_help_panel=FITTING),
]
Offset: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="COL", help="Column of numbers that are added to what alternatives are worth.", rich_help_panel=READING
    ),
]
Availability: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="COL", help="Column that is 0 where an alternative was not available.", rich_help_panel=READING
    ),
]
Weight: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="COL",
        help="Column of weights, the same in all rows of a situation (with --classes, of a person).",
        rich_help_panel=READING,
    ),
]
Covariance: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help=f"{either(KINDS)}; hessian by default, and cluster with --cluster.",
        rich_help_panel=ERRORS,
    ),
]
Cluster: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="COL", help="Column of what may depend on each other, such as a person.", rich_help_panel=ERRORS
    ),
]


@dataclass(frozen=True)
class Utility:
    """What an alternative is worth: options of the command, in a parameter of this type."""

    features: Features = None
    by_alternative: ByAlternative = None
    base: Base = None
    constants: Constants = True
    C: Penalty = float("inf")

    @property
    def shared(self) -> list[str]:
        """Columns with one coefficient."""
        return all_listed(self.features)

    @property
    def differing(self) -> list[str]:
        """Columns with a coefficient for each alternative."""
        return all_listed(self.by_alternative)

    def check(self, choice: str, group: str, alternative: str | None) -> None:
        """Refuse what does not go together."""
        if alternative is None and (self.by_alternative or self.base is not None):
            flag = "--by-alternative" if self.by_alternative else "--base"
            raise typer.BadParameter(f"{flag} needs --alternative, the column that names the alternatives")
        used = [*self.shared, *self.differing]
        if not used and (alternative is None or not self.constants):
            raise typer.BadParameter("there is no coefficient to fit: name columns with --features")
        for flag, column in (("--choice", choice), ("--group", group), ("--alternative", alternative)):
            if column in used:
                raise typer.BadParameter(f"column {column} is that of {flag}, and cannot be a feature as well")


@dataclass(frozen=True)
class Stopping:
    """When to stop: options of the command, in a parameter of this type."""

    tol: Tolerance = None
    max_iter: Steps = None

    @property
    def settings(self) -> dict[str, Any]:
        """Of the estimator, as far as they were given."""
        return {name: value for name, value in (("tol", self.tol), ("max_iter", self.max_iter)) if value is not None}


@dataclass(frozen=True)
class Errors:
    """Which standard errors: options of the command, in a parameter of this type."""

    covariance: Covariance = None
    cluster: Cluster = None

    @property
    def kind(self) -> str:
        """Of covariance."""
        return self.covariance or ("hessian" if self.cluster is None else "cluster")

    def check(self, classes: int | None) -> None:
        """Refuse what does not go together."""
        from majorant._checks import one_of

        one_of("covariance", self.kind, KINDS)
        if self.kind == "cluster" and classes is not None:
            raise typer.BadParameter(
                "--classes has no clusters: people are independent there; say --person and --covariance robust"
            )
        if self.kind == "cluster" and self.cluster is None:
            raise typer.BadParameter("--covariance cluster needs --cluster, the column of what belongs together")
        if self.kind != "cluster" and self.cluster is not None:
            raise typer.BadParameter(f"--cluster goes with --covariance cluster, got {self.kind}")


@expanded
def choice(
    data: LongData,
    group: Group,
    choice: Choice,
    alternative: Alternative = None,
    out: Out = None,
    as_json: AsJson = False,
    *,
    utility: Utility,
    stopping: Stopping,
    errors: Errors,
    hidden: HiddenClasses,
    availability: Availability = None,
    weight: Weight = None,
    offset: Offset = None,
    reading: TableReading,
) -> None:
    """Fit a model of what people choose, and print its coefficients with their standard errors.

    A conditional logit, by maximum likelihood: in each situation an alternative is chosen with a probability
    proportional to exp(θᵀx). The file has a row for each alternative of each situation, in any order; situations may
    have different alternatives.

    With --classes, people are of hidden classes, each with coefficients of its own, the same in all their choices.

    \b
    majorant choice trips.csv --group trip --alternative mode --choice chosen --features price hours
    majorant choice trips.csv --group trip --alternative mode --choice chosen \\
        --features price hours --by-alternative income --base car --cluster person --out trips.npz
    majorant choice trips.csv --group trip --choice chosen --features price hours --classes 2 --person person
    """
    utility.check(choice, group, alternative)
    errors.check(hidden.classes)
    hidden.check()
    source = reading.source(*data)
    check_model_path(out, *source.paths)
    from majorant.cli.choosing import LongColumns, fit_choices

    columns = LongColumns(
        choice, group, alternative, utility.shared, utility.differing, availability, weight, errors.cluster, offset
    )
    with spoken_warnings():
        done = fit_choices(source, columns, utility, errors.kind, hidden, stopping.settings)
    _save_and_report(done, out, source.name, as_json)


def _save_and_report(done: Chosen, out: str | None, origin: str, as_json: bool) -> None:
    if out is not None:
        done.save(out, origin)
    if as_json:
        show_json({"model": out, **done.facts()})
        return
    show(str(done.summary))
    if out is not None:
        show(f"model written to {out}")
