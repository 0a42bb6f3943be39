"""
Bound majorization never raises the objective
=============================================

Batch bound majorization on ecoli, the data of the paper's first figure. Every step minimises a quadratic that lies
above the objective, so the objective cannot rise, with or without acceleration. SGD depends on its gain: it falls fast
and then fluctuates.
"""

import matplotlib.pyplot as plt
import numpy as np

from majorant import SGD, BatchMajorization, Labelled, Multinomial, Objective, ProximalMajorization, datasets, minimize
from majorant.plotting import BLUE, GREEN, ORANGE, SKY, VERMILION

X, y = datasets.load("ecoli")
F = Objective(Multinomial(8), Labelled(X, y), ridge=1.0)
optimum = minimize(F, tol=1e-12).trace["objective"][-1]
solvers = {
    "SGD, gain 0.01": (SGD(gain=0.01), VERMILION, "--"),
    "SGD, gain 1": (SGD(gain=1.0), ORANGE, "--"),
    "bound, plain": (BatchMajorization(memory=0), SKY, "-"),
    "bound, accelerated": (BatchMajorization(), BLUE, "-"),
    "proximal passes": (ProximalMajorization(), GREEN, "-"),
}
fig, axis = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
for name, (solver, colour, style) in solvers.items():
    trace = minimize(F, solver, max_passes=30, tol=1e-9).trace
    excess = trace["objective"] / optimum - 1
    axis.plot(trace["passes"], excess, style, color=colour, lw=1.8, label=name)
    if isinstance(solver, BatchMajorization):
        assert (np.diff(trace["objective"]) <= 0).all()  # monotone, without a line search
axis.set(
    yscale="log",
    ylim=(1e-9, 10),
    xlim=(0, 30),
    xlabel="passes over the data",
    ylabel="relative excess of the objective",
)
axis.legend(frameon=False)
