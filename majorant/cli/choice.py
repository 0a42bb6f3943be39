"""``majorant choice``: a model of what people choose, from a file with one row for each alternative."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import typer

from majorant.cli.model_file import check_model_path
from majorant.cli.options import SEVERAL, AsJson, TableReading, argument, either, expanded, listed, option, reading
from majorant.cli.output import show, show_json, spoken_warnings

# As the help lists them: to ask the estimators would load everything. A test holds them together.
KINDS = ("hessian", "robust", "cluster")

of_utility = functools.partial(option, panel="What alternatives are worth")
fitting = functools.partial(option, panel="Fitting")
of_errors = functools.partial(option, panel="Standard errors")
latent = functools.partial(option, panel="Hidden classes of people")

Names: TypeAlias = list[str] | None


@dataclass(frozen=True)
class Utility:
    """What an alternative is worth: options of the command, in a parameter of this type."""

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
    """How many hidden classes there are, and of whom: options of the command, in a parameter of this type."""

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
    out: Annotated[str | None, option("Where to write the model; nowhere by default.", "FILE", "--out", "-o")] = None,
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
    majorant choice trips.csv --group trip --alternative mode --choice chosen --features price hours
    majorant choice trips.csv --group trip --alternative mode --choice chosen \\
        --features price hours --by-alternative income --base car --cluster person --out trips.npz
    majorant choice trips.csv --group trip --choice chosen --features price hours --classes 2 --person person
    """
    utility.check(choice, group, alternative)
    errors.check(latent.classes)
    latent.check()
    source = reading.source(*data)
    check_model_path(out, *source.paths)
    from majorant.cli.choice_fit import LongColumns, fit_choices

    columns = LongColumns(
        choice,
        group,
        alternative,
        listed(utility.features),
        listed(utility.by_alternative),
        availability,
        weight,
        errors.cluster,
        offset,
    )
    stopping = {name: value for name, value in (("tol", tol), ("max_iter", max_iter)) if value is not None}
    with spoken_warnings():
        done = fit_choices(source, columns, utility, errors.kind, latent, stopping)
    if out is not None:
        done.save(out, source.name)
    if as_json:
        show_json({"model": out, **done.facts()})
        return
    show(str(done.summary))
    if out is not None:
        show(f"model written to {out}")
