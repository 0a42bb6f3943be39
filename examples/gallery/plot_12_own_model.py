"""
Your own model: Poisson regression
==================================

A model defines the scores, the loss of the scores, and the gradient. Solvers, penalties and threads then work with it.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import gammaln

import majorant
from majorant.plotting import BLUE, GREY


class Poisson(majorant.models.Model):
    """p(y|x) ∝ exp(y θᵀx) / y!"""

    def n_parameters(self, like):
        return like.n_features

    def potentials(self, theta, batch):
        return batch.design.project(theta[None])

    def loss_and_residual(self, scores, batch):
        rate, weight = np.exp(scores), 1.0 if batch.weight is None else batch.weight
        loss = np.sum(weight * (rate - batch.y * scores + gammaln(batch.y + 1)))
        return float(loss), weight * (rate - batch.y)

    def lift(self, residual, batch):
        return batch.design.pull_back(residual)[0]

    def hessian_diagonal(self, scores, batch):
        return batch.design.pull_back_squares(np.exp(scores))[0]


rng = np.random.default_rng(0)
x = np.sort(rng.uniform(-2, 2, size=300))
X = np.column_stack([x, x**2, np.ones(300)])
y = rng.poisson(np.exp(0.9 * x - 0.5 * x**2 + 1.0))
solution = majorant.minimize(majorant.Objective(Poisson(), majorant.Labelled(X, y), ridge=0.1), majorant.QuasiNewton())
print(solution.result)

fig, axis = plt.subplots(figsize=(7.5, 3.8), layout="constrained")
axis.plot(x, y + rng.uniform(-0.15, 0.15, size=300), "o", color=GREY, ms=4, alpha=0.6, mew=0, label="counts")
axis.plot(x, np.exp(X @ solution.params), color=BLUE, lw=2.5, label="fitted rate")
axis.set(xlabel="x", ylabel="count")
axis.legend(frameon=False)
