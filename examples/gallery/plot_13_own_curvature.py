"""
Your own curvature
==================

A form is a function that turns the factors of the bound into a curvature. A cheaper form lies higher above the
objective, so the fit takes more steps. This example compares the forms of the package with a doubled diagonal.
"""

import matplotlib.pyplot as plt

from majorant import BatchMajorization, Labelled, Multinomial, Objective, datasets, minimize
from majorant.curvature import Diagonal
from majorant.plotting import BLUE, GREEN, GREY, ORANGE, VERMILION


def twice_the_diagonal(factors):
    """Return twice the diagonal form, which is a bound because the diagonal is one."""
    return Diagonal(2 * factors.diagonal(), factors.majorizes)


X, y = datasets.load("ecoli")
F = Objective(Multinomial(8), Labelled(X, y), ridge=1.0)
optimum = minimize(F, tol=1e-12).trace["objective"][-1]
NAMES = {"dense": "full matrix", "kronecker": "Kronecker", "boehning": "Böhning", "diagonal": "diagonal"}
forms = {"dense": BLUE, "kronecker": GREEN, "boehning": ORANGE, "diagonal": GREY, twice_the_diagonal: VERMILION}
fig, axis = plt.subplots(figsize=(7.5, 4), layout="constrained")
for curvature, colour in forms.items():
    trace = minimize(F, BatchMajorization(curvature=curvature, memory=0), max_steps=300).trace
    name = NAMES.get(curvature, "twice the diagonal")
    axis.plot(trace["step"] + 1, trace["objective"] / optimum - 1, color=colour, lw=2, label=name)
axis.set(xscale="log", yscale="log", ylim=(1e-8, 5), xlim=(1, 300), xlabel="step (log scale)")
axis.set_ylabel("relative excess of the objective")
axis.legend(frameon=False)
