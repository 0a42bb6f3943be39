"""Which solver for what, with what was measured of each: python -m examples.solver_figure docs/figures/solvers.png

The numbers are read from the tables of docs/benchmarks.md, which the benchmarks print.
"""

import re
import sys
from pathlib import Path

import numpy as np

from majorant.plotting import BLUE, GREEN, ORANGE, PURPLE, pyplot, save

BENCHMARKS = Path(__file__).parent.parent / "docs" / "benchmarks.md"
PALE = {BLUE: "#d9e9f5", GREEN: "#d9f0e8", ORANGE: "#faecd2", PURPLE: "#f7e6ef"}


def table(first_header: str) -> list[list[str]]:
    """Return the rows of the table of docs/benchmarks.md whose header begins so."""
    text = BENCHMARKS.read_text().split(first_header, 1)[1]
    lines = text.split("\n\n", 1)[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def span(cells: list[str]) -> str:
    """Return the smallest and the largest number."""
    numbers = [found.group() for cell in cells if (found := re.match(r"[\d.]+", cell))]
    return f"{min(numbers, key=float)} to {max(numbers, key=float)}"


def measured() -> dict[str, str]:
    """Return what docs/benchmarks.md says of each solver."""
    one_pass, seconds = table("| data | proximal, one pass | "), table("| data | majorant, s | ratio ")
    mean = next(row for row in seconds if row[0].startswith("geometric mean"))
    against = [row[4] for row in seconds[: seconds.index(mean)]]
    chain = next(row for row in table("| method | set-up, s | ") if row[0] == "majorant, one thread")
    bound = next(row for row in table("| what | measured ") if row[0].startswith("one bound iteration"))
    faster = next(row for row in table("| what | measured ") if row[0] == "the same, accelerated")
    return {
        "auto": f"{span(against)} × the seconds\nof the fastest peer, by data set\n(geometric mean {mean[4]})",
        "proximal": f"after one pass {span([row[1] for row in one_pass])} %\nabove the optimum; best of 600\n"
        f"settings of SGD: {span([row[2] for row in one_pass])} %",
        "chain": f"{chain[2].split('(')[1].strip(')')} faster than CRFsuite's lbfgs\nto 1.001 × the optimum",
        "bbm": f"a step takes {bound[1]} of one of\nnewton-cholesky's;\naccelerated {faster[1]}",
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
    save(figure, path)


if __name__ == "__main__":
    draw(sys.argv[1] if len(sys.argv) > 1 else "solvers.png")
