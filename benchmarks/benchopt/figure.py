"""Curves of benchopt's ℓ2-regularised logistic regression on its simulated data, as a figure.

``python benchmarks/benchopt/figure.py BENCHMARK docs/figures/benchopt.png``, where BENCHMARK is a checkout of
github.com/benchopt/benchmark_logreg_l2. It is copied, and left as it is. Needs benchopt, matplotlib and pyarrow.
"""

import argparse
import ast
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import NullFormatter

LARGE = 10_000
FLAGS = ("-n", "60", "--timeout", "15", "--no-plot", "--no-html", "--no-display", "--no-cache")
HERE = Path(__file__).parent
SHAPES = ((1_000, 10), (200, 500), (100_000, 400))
COLOURS = {
    "majorant[auto]": "#0072B2",
    "majorant[newton]": "#56B4E9",
    "majorant[bbm]": "#009E73",
    "scikit-learn[lbfgs]": "#222222",
    "scikit-learn[newton-cholesky]": "#D55E00",
    "scikit-learn[newton-cg]": "#CC79A7",
    "scikit-learn[saga]": "#E69F00",
}
# A relative distance that double precision cannot tell from none.
NOTHING = 1e-16
# benchopt, by a clock that only counts what this process does: others may work on the machine as well.
CLOCK = "import time; time.time = time.perf_counter = time.process_time"
BENCHOPT = f"{CLOCK}; from benchopt.cli import benchopt; benchopt()"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("benchmark", type=Path, help="a checkout of benchmark_logreg_l2")
    parser.add_argument("out", type=Path, help="the figure")
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        benchmark = prepared(arguments.benchmark, Path(folder) / "benchmark_logreg_l2")
        run(benchmark, arguments.repetitions)
        found = pd.concat(map(pd.read_parquet, sorted((benchmark / "outputs").glob("*.parquet"))))
    print(seconds_to(found).to_string(float_format="{:.4f}".format))
    draw(found).savefig(arguments.out, dpi=110)


def prepared(benchmark, copy):
    """Return a copy of what is needed of the benchmark, as benchopt 1.10 takes it."""
    for name in ("objective.py", "datasets/simulated.py"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text(without_constructors((benchmark / name).read_text()))
    shutil.copytree(HERE / "solvers", copy / "solvers")
    return copy


def without_constructors(source):
    """Return classes without ``__init__``, which benchopt no longer accepts; what is no parameter is an attribute."""
    tree = ast.parse(source)
    for kind in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        given = ast.unparse([node for node in kind.body if isinstance(node, ast.Assign)])
        for method in [node for node in kind.body if getattr(node, "name", "") == "__init__"]:
            kind.body.remove(method)
            defaults = zip(method.args.args[1:], method.args.defaults, strict=True)
            kind.body += [
                ast.parse(f"{name.arg} = {ast.unparse(value)}").body[0]
                for name, value in defaults
                if not re.search(rf"\b{name.arg}\b", given)
            ]
    return ast.unparse(tree)


def run(benchmark, repetitions):
    """Run every solver on every shape, on large ones once: seconds repeat there."""
    for rows, columns in SHAPES:
        data = f"simulated[n_samples={rows},n_features={columns}]"
        often = str(repetitions if rows <= LARGE else 1)
        command = [sys.executable, "-c", BENCHOPT, "run", str(benchmark), "-o", "*[lmbd=1.0]", "-d", data, "-r", often]
        subprocess.run([*command, *FLAGS], check=True)


def curves(found, shape):
    """Yield the name of each solver with CPU seconds, the least of its runs, and (F − F*)/F*, step by step."""
    rows, columns = shape
    name = f"n_features={columns},n_samples={rows}]"
    there = found[found.dataset_name.str.endswith(name)]
    best = there.objective_value.min()
    for solver in COLOURS:
        steps = there[there.solver_name == solver].groupby("stop_val")
        if len(steps):
            yield solver, steps.time.min(), np.maximum((steps.objective_value.median() - best) / best, NOTHING)


def seconds_to(found, distances=(1e-4, 1e-8, 1e-12)):
    """Return when each solver came so near."""
    table = {}
    for shape in SHAPES:
        for solver, seconds, distance in curves(found, shape):
            column = [seconds[distance <= near].min() for near in distances]
            table[f"{shape[0]:,} × {shape[1]}", solver] = dict(zip(distances, column, strict=True))
    return pd.DataFrame(table).T


def draw(found):
    figure, panels = plt.subplots(1, len(SHAPES), figsize=(12, 4.4), layout="constrained")
    for axes, shape in zip(panels, SHAPES, strict=True):
        for solver, seconds, distance in curves(found, shape):
            style = "-" if solver.startswith("majorant") else "--"
            axes.loglog(seconds, distance, style, marker="o", ms=3, label=solver, color=COLOURS[solver])
        axes.set(title=f"simulated, {shape[0]:,} × {shape[1]}", xlabel="CPU seconds", ylim=(NOTHING / 3, 1e3))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("(F − F*)/F*")
    handles = dict(zip(*reversed(panels[0].get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False)
    return figure


if __name__ == "__main__":
    main()
