"""
A curvature of one's own
========================

A form turns the factors of the bound into a curvature; any function will do. The cheaper the form, the higher it
lies above the objective, and the more steps it takes. Here the diagonal, doubled, beside those that come along.
"""

import matplotlib.pyplot as plt

from majorant import BatchMajorization, Labelled, Multinomial, Objective, datasets, minimize
from majorant.curvature import Diagonal
from majorant.plotting import BLUE, GREEN, GREY, ORANGE, VERMILION


def twice_the_diagonal(factors):
    """A bound, since the diagonal is one; and a poor one."""
    return Diagonal(2 * factors.diagonal(), factors.majorizes)


X, y = datasets.load("ecoli")
F = Objective(Multinomial(8), Labelled(X, y), ridge=1.0)
optimum = minimize(F, tol=1e-12).trace["objective"][-1]
forms = {"dense": BLUE, "kronecker": GREEN, "boehning": ORANGE, "diagonal": GREY, twice_the_diagonal: VERMILION}
fig, axis = plt.subplots(figsize=(7.5, 4), layout="constrained")
for curvature, colour in forms.items():
    trace = minimize(F, BatchMajorization(curvature=curvature, memory=0), max_steps=300).trace
    name = curvature if isinstance(curvature, str) else "twice the diagonal, our own"
    axis.plot(trace["objective"] / optimum - 1, color=colour, lw=2, label=name)
axis.set(xscale="symlog", yscale="log", ylim=(1e-8, 5), xlim=(0, 300), xlabel="step")
axis.set_ylabel("relative excess of the objective")
axis.legend(frameon=False)
