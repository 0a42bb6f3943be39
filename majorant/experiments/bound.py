"""The picture beside Algorithm 1: log Z, the bound at two anchors, and the parabola of the Hessian there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp

from majorant._bound import log_partition_bound
from majorant.data import Choices
from majorant.experiments import store
from majorant.models import Enumerated
from majorant.objective import Objective
from majorant.plotting import BLACK, BLUE, ORANGE, legend, pyplot, save

FEATURES = np.array([[-2.0], [-1.3], [0.4], [1.0], [2.6]])
ANCHORS = (-1.6, 0.9)


def curves() -> dict[str, Any]:
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


def run(out: Path) -> Path:
    """Write the curves to a file and return its path."""
    file = store.file_of(out, "bound")
    settings = {"features": FEATURES.tolist(), "anchors": ANCHORS}
    store.remember(file, "curves", settings, curves)
    return file


def draw(data: Mapping[str, Any], path: str | Path) -> Path:
    """Draw the curves."""
    plt = pyplot()
    with plt.rc_context({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False}):
        figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
        for axis, at in zip(axes, data["anchors"], strict=True):
            axis.plot(data["theta"], at["bound"], color=BLUE, lw=2, label="quadratic bound")
            axis.plot(data["theta"], at["taylor"], color=ORANGE, lw=2, ls="--", label="second-order Taylor (Newton)")
            axis.plot(data["theta"], data["log_z"], color=BLACK, lw=2.5, label="log Z(θ)")
            axis.plot([at["anchor"]], [at["value"]], "o", color=BLACK, ms=8)
            offset, side = ((-10, -14), "right") if at["anchor"] < 0 else ((10, -14), "left")
            axis.annotate("anchor", (at["anchor"], at["value"]), offset, textcoords="offset points", ha=side)
            axis.set(xlabel="θ", ylim=(-0.5, 13), xlim=(-4, 4))
        axes[0].set_ylabel("log partition function")
        legend(figure, axes[0], columns=3)
        save(figure, path)
    return Path(path)
