"""
Your own solver
===============

A solver has settings, a state and a step. ``minimize`` does the timing, tracing, stopping and certifying. This example
is gradient descent whose step size is one over Böhning's bound on the curvature, without and with Nesterov's momentum.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np

from majorant import BatchMajorization, Labelled, Multinomial, Objective, datasets, minimize
from majorant.plotting import BLUE, ORANGE, VERMILION
from majorant.solvers import State, SteppingSolver


@dataclass(frozen=True, eq=False, kw_only=True)
class Moving(State):
    """A state with its previous parameters and the number of steps."""

    before: np.ndarray
    step: int = 0


@dataclass(frozen=True)
class SafeGradient(SteppingSolver[Moving]):
    """θ ← v − ∇F(v)/L, with v = θ + momentum (θ − before)."""

    lipschitz: float
    momentum: bool = False

    def start(self, objective, theta):
        return Moving(theta=theta, before=theta)

    def step(self, objective, state):
        weight = state.step / (state.step + 3) if self.momentum else 0.0
        v = state.theta + weight * (state.theta - state.before)
        new = v - objective.value_and_gradient(v)[1] / self.lipschitz
        return Moving(theta=new, before=state.theta, step=state.step + 1)


X, y = datasets.load("ecoli")
F = Objective(Multinomial(8), Labelled(X, y), ridge=1.0)
L = 0.5 * np.linalg.eigvalsh(X.T @ X)[-1] + 1.0
optimum = minimize(F, tol=1e-12).trace["objective"][-1]
fig, axis = plt.subplots(figsize=(7.5, 4), layout="constrained")
for name, solver, colour in (
    ("safe gradient steps", SafeGradient(L), ORANGE),
    ("with momentum", SafeGradient(L, momentum=True), VERMILION),
    ("bound majorization", BatchMajorization(), BLUE),
):
    solution = minimize(F, solver, max_steps=200)
    print(f"{name}: {solution.result}")
    axis.plot(solution.trace["objective"] / optimum - 1, color=colour, lw=2, label=name)
axis.set(yscale="log", ylim=(1e-9, 5), xlabel="step", ylabel="relative excess of the objective")
axis.legend(frameon=False)
