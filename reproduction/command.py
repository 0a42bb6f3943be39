"""``majorant reproduce``: what the command does after its options are read."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from majorant.cli.output import on_terminal, progress, show, show_json, show_table
from reproduction import latent, store
from reproduction.claims import findings
from reproduction.experiments import EXPERIMENTS, FIGURES
from reproduction.figures import compute_bound
from reproduction.report import result_table, write_report
from reproduction.runner import Event, Options, Progress, run
from reproduction.study import read_studies


def figures_of_paper(what: str, out: Path, as_json: bool, **options: Any) -> None:
    """Run the experiments of a figure, or of all; write the report, and print tables and verdicts, or JSON."""
    began = time.perf_counter()
    figures = list(FIGURES) if what == "all" else [what]
    names = [name for figure in figures for name in FIGURES[figure]]
    if "bound" in figures:
        compute_bound(out)
    for name in names:
        with _progress(EXPERIMENTS[name].title) as tell:
            run(EXPERIMENTS[name], out, Options(**options), tell)
    found = read_studies(out)
    studies = {name: found[name] for name in names}
    missing = {name: study.missing for name, study in studies.items() if study.missing}
    if missing and len(missing) == len(studies):
        raise ValueError(f"nothing could be run: {next(iter(missing.values()))}")
    # The report is of everything in the folder; of its files those that were asked for are named.
    prefixes = tuple(f"{name}-" for name in names)
    paths = [
        path
        for path in write_report(out)
        if path.stem == "report" or ("bound" in figures and path.stem == "bound") or path.name.startswith(prefixes)
    ]
    claims, seconds = findings(studies), time.perf_counter() - began
    if as_json:
        verdicts, files = [vars(claim) for claim in claims], [str(path) for path in paths]
        show_json({"seconds": seconds, "claims": verdicts, "missing": missing, "files": files})
        return
    for study in studies.values():
        if study.missing:
            show(f"\n{study.title}: {study.missing}")
        else:
            title = f"{study.title}, {study.plan['runs']} runs of {study.plan['passes']:g} passes"
            show_table(title, *result_table(study))
    if claims:
        rows = [(claim.claim, claim.where, claim.verdict) for claim in claims]
        show_table("Claims of the paper", ("claim", "data", "verdict"), rows, 3)
    show(f"\nDone in {seconds:.0f} s. Written:")
    for path in paths:
        show(f"  {path}")


def latent_table(out: Path, splits: int, as_json: bool) -> None:
    """Run the table of the predecessor; write its report, and print tables and findings, or JSON."""
    with progress("latent likelihoods", stays=True) as move:
        entries = latent.run(out, splits, move)
    if not entries:
        raise ValueError(f"nothing could be run: MAJORANT_DATA holds none of {', '.join(latent.RIDGES)}")
    results = latent.Results(entries)
    report = latent.write_report(results, out)
    if as_json:
        files = [str(path) for path in (report, store.file_of(out, "latent"))]
        show_json({"findings": latent.findings(results), "files": files})
        return
    for name in results.names:
        show_table(f"{name}: sum of test log-likelihoods", *latent.table(results, name))
    for sentence in latent.findings(results):
        show(sentence)
    show(f"\nWritten: {report}")


@contextmanager
def _progress(title: str) -> Iterator[Progress]:
    """Yield a callback that shows events: a bar on a terminal, else a line on standard error at the end."""
    began, reused = time.perf_counter(), 0
    with progress(title, stays=True) as move:

        def tell(event: Event) -> None:
            nonlocal reused
            reused += event.reused
            running = f" ({event.share:.0%})" if 0 < event.share < 1 else ""
            move(event.done, event.total, f"{title}: {event.method}, run {event.seed + 1}{running}")

        yield tell
    if not on_terminal(sys.stderr):
        kept = f", {reused} runs were there already" if reused else ""
        typer.echo(f"{title}: {time.perf_counter() - began:.1f} s{kept}", err=True)
