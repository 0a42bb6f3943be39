"""Figures of the experiments, drawn from result files, and of the quadratic bound."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp

from majorant import datasets
from majorant.core.bound import log_partition_bound
from majorant.data import Choices
from majorant.models import Enumerated
from majorant.objective import Objective
from majorant.plotting import BLACK, BLUE, ORANGE, draw_curves, legend, pyplot, save
from reproduction import store
from reproduction.study import Study

CAPTIONS = {
    "passes": "against passes through the data",
    "cpu_seconds": "against CPU seconds of the process, the evaluation of curves not counted",
}
# Of the picture beside Algorithm 1.
FEATURES = np.array([[-2.0], [-1.3], [0.4], [1.0], [2.6]])
ANCHORS = (-1.6, 0.9)


def draw_study(study: Study, out: Path) -> dict[Path, str]:
    """Draw the curves of a study; return the files with their captions."""
    if study.missing:
        return {}
    drawn = {}
    for x in study.plan["x"]:
        path = out / f"{study.name}-{x.replace('_', '-')}.png"
        runs = study.compared()
        if x == "passes":
            runs = [_until(run, study.passes_run()) for run in runs]
        draw_curves(runs, path, x=x, panels=study.plan["panels"], zoom=study.plan.get("zoom", True))
        drawn[path] = f"{study.title}, {CAPTIONS[x]}: mean and one standard deviation over {study.plan['runs']} runs"
    if study.name == "toy":
        drawn[draw_toy(out / "toy-data.png")] = "The toy set"
    return drawn


def _until(run: dict[str, Any], passes: float) -> dict[str, Any]:
    """Return a run with the entries of its trace up to a number of passes."""
    kept = sum(at <= passes + 1e-6 for at in run["trace"]["passes"])
    return {**run, "trace": {name: column[:kept] for name, column in run["trace"].items()}}


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


def bound_curves() -> dict[str, Any]:
    """Return log Z on a grid and, for each anchor, the bound and the second-order Taylor expansion."""
    theta = np.linspace(-4, 4, 201)
    F = Objective(Enumerated(), Choices(FEATURES, [5], target=np.full(5, 0.2)), ridge=0.0)
    anchored = []
    for anchor in ANCHORS:
        bound = log_partition_bound([anchor], FEATURES)
        H, step = F.hessian([anchor])[2].as_matrix()[0, 0], theta - anchor
        taylor = bound.value + bound.gradient[0] * step + 0.5 * H * step**2
        touching = {"anchor": anchor, "value": bound.value}
        anchored.append({**touching, "bound": [bound([x]) for x in theta], "taylor": taylor.tolist()})
    log_z = logsumexp(FEATURES * theta, axis=0)
    return {"theta": theta.tolist(), "log_z": log_z.tolist(), "anchors": anchored}


def compute_bound(out: Path) -> Path:
    """Write the curves of the bound to a file and return its path."""
    file = store.file_of(out, "bound")
    store.remember(file, "curves", {"features": FEATURES.tolist(), "anchors": ANCHORS}, bound_curves)
    return file


def draw_bound(curves: Mapping[str, Any], path: str | Path) -> Path:
    """Draw log Z, the bound and the Taylor expansion, a panel for each anchor."""
    plt = pyplot()
    with plt.rc_context({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False}):
        figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
        for axis, at in zip(axes, curves["anchors"], strict=True):
            axis.plot(curves["theta"], at["bound"], color=BLUE, lw=2, label="quadratic bound")
            axis.plot(curves["theta"], at["taylor"], color=ORANGE, lw=2, ls="--", label="second-order Taylor (Newton)")
            axis.plot(curves["theta"], curves["log_z"], color=BLACK, lw=2.5, label="log Z(θ)")
            axis.plot([at["anchor"]], [at["value"]], "o", color=BLACK, ms=8)
            offset, side = ((-10, -14), "right") if at["anchor"] < 0 else ((10, -14), "left")
            axis.annotate("anchor", (at["anchor"], at["value"]), offset, textcoords="offset points", ha=side)
            axis.set(xlabel="θ", ylim=(-0.5, 13), xlim=(-4, 4))
        axes[0].set_ylabel("log partition function")
        legend(figure, axes[0], columns=3)
        save(figure, path)
    return Path(path)
