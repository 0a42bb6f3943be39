"""Which solver for what, with what was measured of each: python -m examples.solver_figure docs/figures/solvers.png

The numbers are read from the tables of the README, which the benchmarks print.
"""

import re
import sys
from pathlib import Path

from majorant.plotting import BLUE, GREEN, ORANGE, PURPLE, pyplot, save

README = Path(__file__).parent.parent / "README.md"
PALE = {BLUE: "#d9e9f5", GREEN: "#d9f0e8", ORANGE: "#faecd2", PURPLE: "#f7e6ef"}


def table(first_header: str) -> list[list[str]]:
    """Return the rows of the table of the README whose header begins so."""
    text = README.read_text().split(first_header, 1)[1]
    lines = text.split("\n\n", 1)[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def span(cells: list[str]) -> str:
    """Return the smallest and the largest number."""
    numbers = [found.group() for cell in cells if (found := re.match(r"[\d.]+", cell))]
    return f"{min(numbers, key=float)} to {max(numbers, key=float)}"


def measured() -> dict[str, str]:
    """Return what the README says of each solver."""
    one_pass, seconds = table("| data | proximal, one pass | "), table("| data | majorant, s | ratio ")
    mean = next(row for row in seconds if row[0] == "geometric mean")
    against = [row[2] for row in seconds if row is not mean]
    chain = next(row for row in table("| | set-up, s | ") if row[0] == "majorant, one thread")
    bound = next(row for row in table("| what | measured ") if row[0].startswith("one bound iteration"))
    faster = next(row for row in table("| what | measured ") if row[0] == "the same, accelerated")
    return {
        "auto": f"{span(against)} × the seconds\nof the fastest peer, by data set\n(geometric mean {mean[2]})",
        "proximal": f"after one pass {span([row[1] for row in one_pass])} %\nabove the optimum; best of 600\n"
        f"settings of SGD: {span([row[2] for row in one_pass])} %",
        "chain": f"{chain[2].split('(')[1].strip(')')} faster than CRFsuite's lbfgs\nto 1.001 × the optimum",
        "bbm": f"a step takes {bound[1]} of one of\nnewton-cholesky's;\naccelerated {faster[1]}",
    }


def box(axis, x, y, title, text, colour):
    """An answer, and what was measured of it."""
    from matplotlib.patches import FancyBboxPatch

    shape = FancyBboxPatch((x - 1.75, y - 0.8), 3.5, 1.6, boxstyle="round,pad=0.08", fc=PALE[colour], ec=colour, lw=1.5)
    axis.add_patch(shape)
    axis.text(x, y + 0.65, title, ha="center", va="top", color="#222222", fontsize=10.5, weight="bold")
    axis.text(x, y + 0.22, text, ha="center", va="top", color="#222222", fontsize=10)


def ask(axis, x, y, text):
    style = {"boxstyle": "round,pad=0.5", "fc": "white", "ec": "#555555", "lw": 1.5}
    axis.text(x, y, text, ha="center", va="center", color="#222222", fontsize=12, bbox=style)


def arrow(axis, start, end, text, beside=(0.0, 0.0)):
    axis.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": "#555555", "lw": 1.3})
    x, y = (start[0] + end[0]) / 2 + beside[0], (start[1] + end[1]) / 2 + beside[1]
    axis.text(x, y, text, ha="center", va="center", fontsize=10, style="italic", color="#444444")


def draw(path: str) -> None:
    said, plt = measured(), pyplot()
    figure, axis = plt.subplots(figsize=(10, 6.6), layout="constrained")
    axis.set(xlim=(0, 12), ylim=(0.2, 8.2))
    axis.axis("off")
    _questions(axis)
    box(axis, 1.9, 5.3, "ChainCRF", said["chain"], ORANGE)
    box(axis, 10.1, 5.3, "ConditionalLogit", "Newton's steps up to\n300 parameters, quasi-Newton above", PURPLE)
    box(axis, 1.9, 1.3, 'partial_fit or solver="proximal"', said["proximal"], GREEN)
    box(axis, 6.0, 1.3, 'solver="auto": quasi-Newton', said["auto"], BLUE)
    box(axis, 10.1, 1.3, 'solver="bbm": majorization', said["bbm"], BLUE)
    save(figure, path)


def _questions(axis):
    ask(axis, 6.0, 7.7, "What is one observation?")
    arrow(axis, (4.6, 7.4), (2.6, 6.3), "a sequence", (-0.9, 0.15))
    arrow(axis, (7.4, 7.4), (9.4, 6.3), "a choice among\nalternatives", (1.2, 0.2))
    arrow(axis, (6.0, 7.2), (6.0, 6.0), "a row with\na label", (0.85, 0.0))
    ask(axis, 6.0, 5.5, "Can rows be read again?")
    arrow(axis, (5.0, 5.05), (2.6, 2.35), "no: a stream", (-0.95, 0.1))
    arrow(axis, (6.6, 5.05), (7.2, 4.25), "yes", (0.4, 0.1))
    ask(axis, 7.4, 3.75, "Must steps come from a bound?")
    arrow(axis, (7.0, 3.25), (6.4, 2.35), "no", (-0.4, 0.0))
    arrow(axis, (8.4, 3.25), (9.4, 2.35), "yes", (0.5, 0.1))


if __name__ == "__main__":
    draw(sys.argv[1] if len(sys.argv) > 1 else "solvers.png")
