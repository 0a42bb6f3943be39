"""``majorant reproduce``: the figures of the paper, the table of its predecessor, and a report of what holds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from majorant.cli.options import AsJson
from majorant.cli.output import on_terminal, progress, show, show_json, show_table

if TYPE_CHECKING:
    from majorant.experiments.study import Study

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
        "reproduction"
    ),
    cv: Annotated[bool, typer.Option("--cv", help="Choose the ridge by cross-validation.")] = False,
    tune: Annotated[bool, typer.Option("--tune", help="Add SGD and ASGD with tuned gains to the paper's.")] = False,
    as_json: AsJson = False,
) -> None:
    """Reproduce a figure of the paper, or all of them.

    Runs the solvers of "Stochastic Bound Majorization" (Choromanska and Jebara, 2013) as the paper did, draws the
    curves, and writes a report of which claims hold. A finished run is kept and never computed again, so an
    interrupted command goes on where it stopped.

    \b
    majorant reproduce ecoli
    majorant reproduce all --tune --out reproduction
    majorant reproduce latent
    """
    if what not in WHAT:
        raise typer.BadParameter(f"{what!r} is none of {', '.join(WHAT)}", param_hint="WHAT")
    if what == "latent":
        _latent(out, runs, as_json)
        return
    from majorant.experiments import FIGURES, Options
    from majorant.experiments.study import read_studies

    began = time.perf_counter()
    figures = list(FIGURES) if what == "all" else [what]
    names = [name for figure in figures for name in FIGURES[figure]]
    _run(figures, names, out, Options(runs=runs, passes=passes, cv=cv, tune=tune))
    every = read_studies(out)
    studies = {name: every[name] for name in names}
    _check_any(studies)
    _tell(studies, _written(out, "bound" in figures, names), time.perf_counter() - began, as_json)


def _latent(out: Path, splits: int, as_json: bool) -> None:
    """Reproduce the table of the predecessor, which has solvers of its own and no figure."""
    from majorant.experiments import latent, latent_report, store

    with progress("latent likelihoods", stays=True) as move:
        entries = latent.run(out, splits, move)
    if not entries:
        raise ValueError(f"nothing could be run: MAJORANT_DATA holds none of {', '.join(latent.RIDGES)}")
    results = latent_report.Results(entries)
    report = latent_report.write_report(results, out)
    if as_json:
        show_json(
            {
                "findings": latent_report.findings(results),
                "files": [str(path) for path in (report, store.file_of(out, "latent"))],
            }
        )
        return
    for name in results.names:
        show_table(f"{name}: sum of test log-likelihoods", *latent_report.table(results, name))
    for sentence in latent_report.findings(results):
        show(sentence)
    show(f"\nWritten: {report}")


def _run(figures: list[str], names: list[str], out: Path, options: Any) -> None:
    from majorant.experiments import EXPERIMENTS, bound, run

    if "bound" in figures:
        bound.run(out)
    for name in names:
        with _progress(EXPERIMENTS[name].title) as tell:
            run(EXPERIMENTS[name], out, options, tell)


def _written(out: Path, bound: bool, names: list[str]) -> list[Path]:
    """Write the report of everything in the folder; return it and the figures that were asked for."""
    from majorant.experiments.report import write_report

    prefixes = tuple(f"{name}-" for name in names)
    paths = write_report(out)
    return [p for p in paths if p.stem == "report" or (bound and p.stem == "bound") or p.name.startswith(prefixes)]


def _tell(studies: dict[str, Study], paths: list[Path], seconds: float, as_json: bool) -> None:
    from majorant.experiments.claims import findings
    from majorant.experiments.report import result_table

    found = findings(studies)
    if as_json:
        missing = {name: study.missing for name, study in studies.items() if study.missing}
        claims = [vars(finding) for finding in found]
        show_json({"seconds": seconds, "claims": claims, "missing": missing, "files": [str(path) for path in paths]})
        return
    for study in studies.values():
        if study.missing:
            show(f"\n{study.title}: {study.missing}")
        else:
            show_table(
                f"{study.title}, {study.plan['runs']} runs of {study.plan['passes']:g} passes", *result_table(study)
            )
    if found:
        show_table(
            "Claims of the paper", ("claim", "data", "verdict"), [(f.claim, f.where, f.verdict) for f in found], 3
        )
    show(f"\nDone in {seconds:.0f} s. Written:")
    for path in paths:
        show(f"  {path}")


def _check_any(studies: dict[str, Study]) -> None:
    """Fail if data are missing for everything that was asked for."""
    missing = [study.missing for study in studies.values()]
    if missing and all(missing):
        raise ValueError(f"nothing could be run: {missing[0]}")


@contextmanager
def _progress(title: str) -> Iterator[Any]:
    """Yield what shows an event: a bar on a terminal, else a line on standard error when the experiment is done."""
    began, reused = time.perf_counter(), 0
    with progress(title, stays=True) as move:

        def tell(event: Any) -> None:
            nonlocal reused
            reused += event.reused
            running = f" ({event.share:.0%})" if 0 < event.share < 1 else ""
            move(event.done, event.total, f"{title}: {event.method}, run {event.seed + 1}{running}")

        yield tell
    if not on_terminal(sys.stderr):
        kept = f", {reused} runs were there already" if reused else ""
        typer.echo(f"{title}: {time.perf_counter() - began:.1f} s{kept}", err=True)
