"""Draw the tables of the documentation: python -m examples.benchmark_figures docs/figures

Every figure has its numbers from the table beside it, and keeps them in the metadata of its file, so that a test sees
whether the committed file is that of the table.
"""

import json
import re
import sys
from pathlib import Path
from textwrap import wrap

import numpy as np

from majorant.plotting import BLUE, GREY, ORANGE, VERMILION, pyplot

DOCS = Path(__file__).parent.parent / "docs"
# Columns of ratios of docs/benchmarks.md, and what the figure calls them.
SETTINGS = {
    "ratio": "columns as they are",
    "standardised": "standardised",
    "free intercept": "free intercept",
    "both": "both",
}
# majorant is blue in every figure, the main alternative vermilion, a third one orange.
COLOURS = {"majorant": BLUE, "CRFsuite": VERMILION, "SGD": VERMILION, "xlogit": VERMILION, "statsmodels": ORANGE}


def table(page: str, first_header: str) -> list[dict[str, str]]:
    """Return the rows of the table whose header begins so, by column."""
    text = (DOCS / page).read_text(encoding="utf-8").split(first_header, 1)[1]
    lines = (first_header + text).split("\n\n", 1)[0].splitlines()
    header, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in (lines[0], *lines[2:]))
    return [dict(zip(header, row, strict=True)) for row in rows]


def number(cell: str) -> float:
    """Return the number that a cell begins with, or NaN."""
    found = re.match(r"[\d.]+", cell)
    return float(found.group()) if found else float("nan")


def of_logistic() -> dict[str, dict[str, float]]:
    """Return by data set majorant's seconds over those of the fastest peer, for four settings."""
    rows = (row for row in table("benchmarks.md", "| data | majorant, s |") if row["majorant, s"])
    return {row["data"]: {setting: number(row[setting]) for setting in SETTINGS} for row in rows}


def of_chain() -> dict[str, dict[str, float]]:
    """Return seconds of CRFsuite and majorant by task."""
    rows = {row["method"]: row for row in table("benchmarks.md", "| method | set-up, s |")}
    columns = {
        "set-up": "set-up, s",
        "training to 1.001 × the optimum": "s to 1.001 × the optimum",
        "tagging the test part": "tagging, s",
    }
    methods = {"CRFsuite": "CRFsuite, lbfgs", "majorant": "majorant, one thread"}
    return {
        task: {tool: number(rows[method][column]) for tool, method in methods.items()}
        for task, column in columns.items()
    }


def of_one_pass() -> dict[str, dict[str, float]]:
    """Return percents above the optimum after one pass, by data set."""
    rows = table("benchmarks.md", "| data | proximal, one pass |")
    return {
        row["data"]: {"majorant": number(row["proximal, one pass"]), "SGD": number(row["best SGD/ASGD of the grid"])}
        for row in rows
    }


def of_choice() -> dict[str, dict[str, float]]:
    """Return seconds of a fit by data set and package."""
    rows = table("choice.md", "| data | majorant | xlogit |")
    return {row["data"]: {tool: number(row[tool]) for tool in ("majorant", "xlogit", "statsmodels")} for row in rows}


def draw_dots(path: Path, numbers: dict[str, dict[str, float]], xlabel: str, title: str) -> None:
    """Draw a row of dots for each task, a colour for each tool, named above the first row."""
    plt = pyplot()
    with plt.rc_context({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False}):
        figure, axis = plt.subplots(figsize=(8, 1.1 + 0.55 * len(numbers)), layout="constrained")
        for place, (_, row) in enumerate(numbers.items()):
            axis.plot([min(row.values()), max(row.values())], [place, place], color="0.85", lw=3, zorder=0)
            for tool, value in row.items():
                axis.plot(value, place, "o", color=COLOURS[tool], ms=9)
                side = "right" if value == min(row.values()) else "left"
                where = {"textcoords": "offset points", "color": COLOURS[tool]}
                axis.annotate(f"{value:g}", (value, place), (0, -16), fontsize=9, ha=side, **where)
                if place == 0:
                    axis.annotate(tool, (value, place), (0, 9), weight="bold", ha="center", **where)
        axis.set(xscale="log", xlabel=xlabel, yticks=range(len(numbers)), yticklabels=map(wrapped, numbers))
        axis.set_ylim(len(numbers) - 0.4, -0.7)
        axis.set_title(title, loc="left", fontsize=12)
        axis.xaxis.set_major_formatter("{x:g}")
        axis.margins(x=0.12)
        axis.tick_params(axis="y", length=0)
        axis.spines["left"].set_visible(False)
        keep(figure, path, numbers)


def wrapped(task: str) -> str:
    """Return the name of a task in lines that leave room for the picture."""
    return "\n".join(wrap(task, 26))


def short(data: str) -> str:
    """Return the name of a data set without its shape."""
    name, *more = data.split(", ")
    return ", ".join([name, *(part for part in more if part.startswith("λ"))])


def draw_logistic(path: Path, numbers: dict[str, dict[str, float]]) -> None:
    """Draw majorant's seconds over the fastest peer's by data set, a marker for each setting."""
    plt = pyplot()
    markers = dict(zip(next(iter(numbers.values())), "os^D", strict=True))
    with plt.rc_context({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False}):
        figure, axis = plt.subplots(figsize=(8, 4.6), layout="constrained")
        for place, row in enumerate(numbers.values()):
            values = [value for value in row.values() if value == value]
            axis.plot([min(values), max(values)], [place, place], color="0.85", lw=3, zorder=0)
            for setting, value in row.items():
                label = setting if place == 0 else None
                axis.plot(
                    value,
                    place,
                    markers[setting],
                    color=BLUE,
                    mfc="white",
                    mew=1.8,
                    ms=7,
                    label=label and SETTINGS[label],
                )
        axis.axvline(1.0, color=GREY, lw=1.2)
        axis.text(1.03, -0.75, "slower", color=GREY, va="bottom")
        axis.text(0.97, -0.75, "majorant is faster", color=BLUE, ha="right", va="bottom")
        ticks = [0.1, 0.2, 0.5, 1, 2]
        axis.set(xscale="log", xlim=(0.085, 2.0), yticks=range(len(numbers)), yticklabels=map(short, numbers))
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.minorticks_off()
        axis.set_ylim(len(numbers) - 0.5, -0.9)
        axis.set_xlabel("seconds of majorant / seconds of the fastest peer")
        figure.legend(frameon=False, loc="outside lower center", ncols=4)
        axis.tick_params(axis="y", length=0)
        keep(figure, path, numbers)


def keep(figure, path: Path, numbers: dict[str, dict[str, float]]) -> None:
    """Write the figure, with its numbers."""
    figure.savefig(path, dpi=150, metadata={"Description": described(numbers)})


def described(numbers: dict[str, dict[str, float]]) -> str:
    """Return the numbers of a figure as its file keeps them."""
    rows = {" ".join(task.split()): {k: v for k, v in row.items() if np.isfinite(v)} for task, row in numbers.items()}
    return json.dumps(rows, sort_keys=True)


# Each figure with its numbers and how they are drawn.
FIGURES = {
    "logistic": (of_logistic, draw_logistic),
    "chain": (
        of_chain,
        lambda path, numbers: draw_dots(path, numbers, "CPU seconds", "Chunking of CoNLL-2000, one thread"),
    ),
    "one_pass": (
        of_one_pass,
        lambda path, numbers: draw_dots(
            path, numbers, "% above the optimum", "One pass; SGD: the best of about 600 settings"
        ),
    ),
    "choice": (
        of_choice,
        lambda path, numbers: draw_dots(path, numbers, "CPU seconds", "Conditional logit with standard errors"),
    ),
}


def main(folder: str = "docs/figures") -> None:
    for name, (numbers, draw) in FIGURES.items():
        draw(Path(folder) / f"{name}.png", numbers())


if __name__ == "__main__":
    main(*sys.argv[1:])
