"""``majorant reproduce``: the experiments of the papers, which a source checkout has and a wheel does not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import majorant
from majorant.cli.options import AsJson

WHAT = ("bound", "toy", "ecoli", "secstr", "mnist", "digit1", "text", "gisette", "mnist4v9", "latent", "all")


def reproduce(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help=f"{', '.join(WHAT)}. gisette's stand-in is mnist4v9.")
    ] = "ecoli",
    runs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Random starts of each solver; splits, of latent.")
    ] = 10,
    passes: Annotated[
        float | None, typer.Option(min=1, metavar="N", help="Passes of a run, instead of as many as suit the figure.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where results, figures and report go.")] = Path(
        "out/reproduction"
    ),
    cv: Annotated[bool, typer.Option("--cv", help="Choose the ridge by cross-validation.")] = False,
    tune: Annotated[bool, typer.Option("--tune", help="Add SGD and ASGD with tuned gains to the paper's.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the experiments of the papers again.

    It takes a source checkout of majorant. Runs the solvers of "Stochastic Bound Majorization" (Choromanska and Jebara,
    2013) as the paper did, draws the curves, and writes a report of which claims hold. A finished run is kept and never
    computed again, so an interrupted command goes on where it stopped.

    \b
    majorant reproduce ecoli
    majorant reproduce all --tune --out out/all
    majorant reproduce latent
    """
    if what not in WHAT:
        raise typer.BadParameter(f"{what!r} is none of {', '.join(WHAT)}", param_hint="WHAT")
    if not (Path(majorant.__file__).parents[1] / "reproduction" / "__init__.py").is_file():
        raise ValueError(
            "the experiments are not part of the installed package: run this command in a source checkout of majorant, "
            "where make demo installs what it takes"
        )
    from reproduction import command

    if what == "latent":
        command.latent_table(out, runs, as_json)
    else:
        command.figures_of_paper(what, out, as_json, runs=runs, passes=passes, cv=cv, tune=tune)
