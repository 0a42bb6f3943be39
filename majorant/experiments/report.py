"""The report: every claim with its number and verdict, every data set with its table and curves, from files alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from majorant.experiments import document, store, texts
from majorant.experiments.claims import NEAR, Finding, findings
from majorant.experiments.document import Block, Heading, Paragraph, Table
from majorant.experiments.figures import draw_bound, draw_study
from majorant.experiments.study import Study, mean_and_spread, read_studies
from majorant.experiments.table import ECOLI_RIDGE, EXPERIMENTS

TITLE = "Stochastic Bound Majorization, reproduced"
INTRODUCTION = (
    "What the experiments of A. Choromanska and T. Jebara, [Stochastic Bound Majorization]"
    "(https://arxiv.org/abs/1309.5605), 2013, give when they are run again. Every number and every verdict below was "
    "computed from the files in `results/` by `majorant reproduce`; none was typed in."
)
PROTOCOL = (
    "Protocol: the rows are split 90/10; each solver runs from random starts close to the origin; λ, gains, "
    "mini-batches and ranks are the paper's. SBM is the paper's algorithm with its sign and counting errors corrected "
    "and otherwise as printed: one row at a time, never restarted, η = 1/t (low rank: k = 1 and the η of the paper), "
    "all classes kept, visited in label order. “SGD tuned” and “ASGD tuned” have the best gain, τ and mini-batch of a "
    "grid, by the training objective after five passes. “proximal” is this package's own solver, with nothing set. "
    "CPU seconds are those of the process, on one thread."
)


def write_report(out: Path) -> list[Path]:
    """Draw every figure and write ``report.md`` and ``report.html``; return what was written."""
    studies = read_studies(out)
    figures = {name: draw_study(studies[name], out) for name in EXPERIMENTS if name in studies}
    bound = draw_bound(out)
    blocks = compose(studies, figures, bound)
    paths = out / "report.md", out / "report.html"
    store.write_text(paths[0], document.to_markdown(blocks))
    store.write_text(paths[1], document.to_html(TITLE, blocks))
    drawn = [path for group in (bound, *figures.values()) for path in group]
    return [*paths, *drawn]


def compose(
    studies: Mapping[str, Study], figures: Mapping[str, Mapping[Path, str]], bound: Mapping[Path, str]
) -> list[Block]:
    """Return the blocks of the report."""
    found = findings(studies)
    blocks: list[Block] = [Heading(TITLE, 1), Paragraph(INTRODUCTION), Paragraph(PROTOCOL), Paragraph(_made(studies))]
    blocks += [Heading("The claims of the paper"), *_claims(found)]
    blocks += [document.Figure(path, caption) for path, caption in bound.items()]
    for name in figures:
        blocks += _section(studies[name], figures[name])
    blocks += errata(level=2)
    choices = [(left, right.format(ecoli_ridge=ECOLI_RIDGE)) for left, right in texts.OPEN]
    blocks += [Heading("What the paper leaves open"), Table(texts.OPEN_HEADER, choices)]
    return blocks


def errata(level: int) -> list[Block]:
    """Return the errata under a title of that level."""
    table = Table(texts.ERRATA_HEADER, texts.ERRATA)
    return [Heading("Errata", level), Paragraph(texts.ERRATA_INTRODUCTION), table]


def errata_page() -> str:
    """Return the errata as a page of their own, in Markdown."""
    return document.to_markdown(errata(level=1))


def _made(studies: Mapping[str, Study]) -> str:
    made = sorted(
        {", ".join(f"{k} {v}" for k, v in run["versions"].items()) for s in studies.values() for run in s.runs}
    )
    counts = {study.title: study.plan["runs"] for study in studies.values() if not study.missing}
    same = len(set(counts.values())) == 1
    runs = str(next(iter(counts.values()))) if same else ", ".join(f"{title} {n}" for title, n in counts.items())
    return f"Made with {'; '.join(made)}. Runs of each solver: {runs}." if made else "No experiment has been run yet."


def _claims(found: list[Finding]) -> list[Block]:
    if not found:
        return [Paragraph("No claim can be judged yet: run the experiments first.")]
    glance = [(f.claim, f.where, f"**{f.verdict}**") for f in found]
    details = [(f.claim, f.where, f.measured, f"**{f.verdict}**", f.why) for f in found]
    return [
        Table(("claim", "data", "verdict"), glance),
        Paragraph(texts.RULES),
        Heading("What was measured, and why", 3),
        Table(("claim", "data", "measured", "verdict", "why"), details),
    ]


def _section(study: Study, figures: Mapping[Path, str]) -> list[Block]:
    blocks: list[Block] = [Heading(study.title)]
    if study.name == "mnist4v9":
        blocks.append(Paragraph(texts.STAND_IN))
    if study.missing:
        return [*blocks, Paragraph(f"**Missing.** {study.missing}.")]
    plan = study.plan
    blocks.append(
        Paragraph(
            f"{plan['rows']:,} training rows, d = {plan['size']:,}, λ = {plan['ridge']:g}; {plan['runs']} runs of "
            f"{plan['passes']:g} passes. {_cross_validation(study)}"
        )
    )
    blocks.append(Table(*result_table(study)))
    blocks += [document.Figure(path, caption) for path, caption in figures.items()]
    return blocks


def result_table(study: Study) -> tuple[list[str], list[list[str]]]:
    """Return header and rows: how each solver ended, and when it got near the optimum."""
    error = "train_error" if "train_error" in study.plan["panels"] else "test_error"
    likelihood = error.replace("error", "log_likelihood")
    names = {"train": "training", "test": "test"}[error.split("_")[0]]
    header = ["solver", f"passes to {NEAR:.0%}", "CPU s to it", "gap left", f"{names} log-likelihood", f"{names} error"]
    rows = [[label, *_row(study, label, likelihood, error)] for label in study.labels]
    best = f"{study.at_optimum(likelihood):.4f}", f"{study.at_optimum(error):.4f}"
    return header, [*rows, ["optimum", "", "", "0", *best]]


def _row(study: Study, label: str, likelihood: str, error: str) -> list[str]:
    reach = study.reach(label, NEAR), study.reach(label, NEAR, "cpu_seconds")
    cells = [f"{value:.3g}" if np.isfinite(value) else "never" for value in reach]
    ends = [study.final(label, column) for column in (likelihood, error)]
    return [*cells, f"{study.final_distance(label).mean():.2%}", *map(mean_and_spread, ends)]


def _cross_validation(study: Study) -> str:
    choice = study.plan.get("cross_validation")
    if not choice:
        return ""
    scores = ", ".join(
        f"{ridge:g}: {score:.4f}" for ridge, score in zip(choice["ridges"], choice["scores"], strict=True)
    )
    return f"λ was cross-validated (mean held-out log-likelihood {scores})."
