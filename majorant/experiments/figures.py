"""The figures of the experiments, drawn from the files of their results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from majorant import datasets
from majorant.experiments import bound, store
from majorant.experiments.study import Study
from majorant.plotting import BLUE, ORANGE, draw_curves, pyplot, save

CAPTIONS = {
    "passes": "against passes through the data",
    "cpu_seconds": "against CPU seconds of the process, the evaluation of curves not counted",
}


def draw_study(study: Study, out: Path) -> dict[Path, str]:
    """Draw the curves of a study; return the files with their captions."""
    if study.missing:
        return {}
    drawn = {}
    for x in study.plan["x"]:
        path = out / f"{study.name}-{x.replace('_', '-')}.png"
        runs = (
            [_first_passes(run, study.passes_run()) for run in study.compared()] if x == "passes" else study.compared()
        )
        draw_curves(runs, path, x=x, panels=study.plan["panels"], zoom=study.plan.get("zoom", True))
        drawn[path] = f"{study.title}, {CAPTIONS[x]}: mean and one standard deviation over {study.plan['runs']} runs"
    if study.name == "toy":
        drawn[draw_toy(out / "toy-data.png")] = "The toy set"
    return drawn


def _first_passes(run: dict[str, Any], passes: float) -> dict[str, Any]:
    """Return a run without what comes after the comparison."""
    kept = sum(at <= passes + 1e-6 for at in run["trace"]["passes"])
    return {**run, "trace": {name: column[:kept] for name, column in run["trace"].items()}}


def draw_bound(out: Path) -> dict[Path, str]:
    """Draw the bound, if its curves were computed."""
    found = list(store.read(store.file_of(out, "bound")).values())
    if not found:
        return {}
    caption = "log Z, the bound of Algorithm 1 and the parabola of the Hessian at two anchors"
    return {bound.draw(found[-1], out / "bound.png"): caption}


def draw_toy(path: Path) -> Path:
    """Draw the rows of the toy set."""
    X, y = datasets.load("toy")
    plt = pyplot()
    with plt.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        figure, axis = plt.subplots(figsize=(4.6, 4.2), layout="constrained")
        for label, color, marker in ((0, BLUE, "o"), (1, ORANGE, "^")):
            rows = X[np.flatnonzero(y == label)]
            axis.scatter(rows[:, 0], rows[:, 1], s=12, color=color, marker=marker, alpha=0.6, label=f"class {label}")
        axis.plot([0], [0], "k+", ms=9, label="origin")
        axis.set(xlabel="x₁", ylabel="x₂", aspect="equal")
        figure.legend(loc="outside lower center", ncols=3, frameon=False)
        save(figure, path)
    return path
