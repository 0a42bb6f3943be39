"""Draw log Z, the bound of Algorithm 1 and the Hessian's parabola: python -m examples.bound_figure OUT.png"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from majorant import Choices, Enumerated, Objective, log_partition_bound

FEATURES = np.array([[-2.0], [-1.3], [0.4], [1.0], [2.6]])
ANCHORS = (-1.6, 0.9)
BLACK, BLUE, ORANGE = "#222222", "#0072B2", "#E69F00"  # Okabe & Ito's colour-blind safe palette


def main(path: str) -> None:
    theta = np.linspace(-4, 4, 400)
    log_z = np.array([np.logaddexp.reduce(FEATURES[:, 0] * x) for x in theta])
    F = Objective(Enumerated(), Choices(FEATURES, [5], target=np.full(5, 0.2)), ridge=0.0)
    plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for axis, anchor in zip(axes, ANCHORS, strict=True):
        bound = log_partition_bound([anchor], FEATURES)
        H = F.hessian([anchor])[2].as_matrix()[0, 0]
        step = theta - anchor
        axis.plot(theta, [bound([x]) for x in theta], color=BLUE, lw=2, label="quadratic bound")
        second_order = bound.value + bound.gradient[0] * step + 0.5 * H * step**2
        axis.plot(theta, second_order, color=ORANGE, lw=2, ls="--", label="second-order Taylor (Newton)")
        axis.plot(theta, log_z, color=BLACK, lw=2.5, label="log Z(θ)")
        axis.plot([anchor], [bound.value], "o", color=BLACK, ms=8)
        offset, side = ((-10, -14), "right") if anchor < 0 else ((10, -14), "left")
        axis.annotate("anchor", (anchor, bound.value), offset, textcoords="offset points", ha=side)
        axis.set(xlabel="θ", ylim=(-0.5, 13), xlim=(-4, 4))
    axes[0].set_ylabel("log partition function")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "bound.png")
