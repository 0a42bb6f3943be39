"""Draw which solver suits which data: python -m examples.solver_figure docs/figures/solvers.png

The numbers are read from the tables of docs/benchmarks.md, which the benchmarks print.
"""

import json
import re
import sys

import numpy as np

from examples.benchmark_figures import table
from majorant.plotting import BLUE, GREEN, ORANGE, PURPLE, pyplot

PALE = {BLUE: "#d9e9f5", GREEN: "#d9f0e8", ORANGE: "#faecd2", PURPLE: "#f7e6ef"}


def span(cells: list[str]) -> str:
    """Return the smallest and the largest number."""
    numbers = [found.group() for cell in cells if (found := re.match(r"[\d.]+", cell))]
    return f"{min(numbers, key=float)} to {max(numbers, key=float)}"


def measured() -> dict[str, str]:
    """Return what docs/benchmarks.md says of each solver."""
    passes = table("benchmarks.md", "| data | proximal, one pass |")
    ours, sgd = (
        span([row[column] for row in passes]) for column in ("proximal, one pass", "best SGD/ASGD of the grid")
    )
    seconds = table("benchmarks.md", "| data | majorant, s |")
    mean = next(row for row in seconds if row["data"].startswith("geometric mean"))
    free = span([row["free intercept"] for row in seconds[: seconds.index(mean)]])
    chains = {row["method"]: row for row in table("benchmarks.md", "| method | set-up, s |")}
    ratio = chains["majorant, one thread"]["s to 1.001 × the optimum"].split("(")[1].strip(")")
    others = table("benchmarks.md", "| other measurements | result |")
    bound, faster = (
        next(row["result"] for row in others if row["other measurements"].startswith(what))
        for what in ("one bound iteration", "the same, accelerated")
    )
    return {
        "auto": f"{free} × the seconds\nof the fastest peer, by data set\n(geometric mean {mean['free intercept']})",
        "proximal": f"after one pass {ours} %\nabove the optimum; best of 600\nsettings of SGD: {sgd} %",
        "chain": f"{ratio} as fast as CRFsuite's lbfgs\nto 1.001 × the optimum",
        "bbm": f"a step takes {bound} of one of\nnewton-cholesky's;\naccelerated {faster}",
    }


def draw(path: str) -> None:
    said, plt = measured(), pyplot()
    figure, axis = plt.subplots(figsize=(10, 5.6), layout="constrained")
    axis.set(xlim=(0, 12), ylim=(0, 7.4))
    axis.axis("off")
    answers = {
        "chain": (1.9, 4.7, "ChainCRF", said["chain"], ORANGE),
        "choice": (10.1, 4.7, "ConditionalLogit", "Newton's steps up to 300\nparameters, quasi-Newton above", PURPLE),
        "stream": (1.9, 0.9, 'partial_fit, "proximal"', said["proximal"], GREEN),
        "auto": (6.0, 0.9, 'solver="auto"', said["auto"], BLUE),
        "bound": (10.1, 0.9, 'solver="bbm"', said["bbm"], BLUE),
    }
    questions = {
        "observation": (6.0, 6.9, "What is one observation?"),
        "again": (6.0, 4.7, "Can rows be read again?"),
        "safe": (8.0, 2.9, "Must steps come from a bound?"),
    }
    arrows = [
        ("observation", "chain", "a sequence", (-0.9, 0.25)),
        ("observation", "choice", "a choice among\nalternatives", (1.25, 0.3)),
        ("observation", "again", "a row with\na label", (0.75, 0.0)),
        ("again", "stream", "no: a stream", (-0.9, 0.2)),
        ("again", "safe", "yes", (0.35, 0.1)),
        ("safe", "auto", "no", (-0.3, 0.1)),
        ("safe", "bound", "yes", (0.35, 0.1)),
    ]
    places = {name: node[:2] for name, node in (answers | questions).items()}
    patches = {}
    for name, (x, y, text) in questions.items():
        style = {"boxstyle": "round,pad=0.5", "fc": "white", "ec": "#555555", "lw": 1.5}
        patches[name] = axis.text(x, y, text, ha="center", va="center", color="#222222", fontsize=12, bbox=style)
    for name, (x, y, title, text, colour) in answers.items():
        # What was measured, and the name of the answer in the room of a first line.
        style = {"boxstyle": "round,pad=0.8", "fc": PALE[colour], "ec": colour, "lw": 1.5}
        words = {"ha": "center", "color": "#222222", "fontsize": 10.5}
        patches[name] = axis.text(x, y, f"\n{text}", va="center", linespacing=1.5, bbox=style, **words)
        at_top = {"xycoords": patches[name], "xytext": (0, 1), "textcoords": "offset points", "va": "top"}
        axis.annotate(title, (0.5, 1.0), weight="bold", **at_top, **words)
    figure.canvas.draw()  # boxes have their sizes only then
    for start, end, text, (dx, dy) in arrows:
        style = {"arrowstyle": "-|>", "color": "#555555", "lw": 1.3, "shrinkA": 0, "shrinkB": 0}
        style |= {"patchA": patches[start].get_bbox_patch(), "patchB": patches[end].get_bbox_patch()}
        axis.annotate("", places[end], places[start], arrowprops=style)
        x, y = (np.add(places[start], places[end]) / 2) + (dx, dy)
        axis.text(x, y, text, ha="center", va="center", fontsize=10, style="italic", color="#444444")
    figure.savefig(path, dpi=120, metadata={"Description": json.dumps(said, sort_keys=True)})


if __name__ == "__main__":
    draw(sys.argv[1] if len(sys.argv) > 1 else "solvers.png")
