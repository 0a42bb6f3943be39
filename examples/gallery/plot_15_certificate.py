"""
What a certificate says, and the truth
======================================

At every step the distance from the optimum is bounded by what is known there: the gradient and the penalty
(strong convexity), or the Hessian as well (self-concordance). The truth, which only a second fit to the last digit
knows, is below both. The better of the two is what a fit reports: self-concordance says nothing far away, and is next
to exact from where it does.
"""

import matplotlib.pyplot as plt
import numpy as np

from majorant import BatchMajorization, Labelled, Multinomial, Objective, datasets, minimize
from majorant.plotting import BLACK, BLUE, ORANGE

X, y = datasets.load("ecoli")
F = Objective(Multinomial(8), Labelled(X, y), ridge=1.0)
path = []
minimize(F, BatchMajorization(memory=0), tol=1e-11, callback=lambda row, theta: path.append(theta.copy()))
optimum = minimize(F, tol=1e-13, start=path[-1]).trace["objective"][-1]

values = np.array([F.value(theta) for theta in path])
gradients = np.array([np.linalg.norm(F.value_and_gradient(theta)[1]) for theta in path])
tight = np.array([F.certify(F.point(theta), largest=2_000).gap for theta in path])

fig, axis = plt.subplots(figsize=(7.5, 4), layout="constrained")
axis.plot(gradients**2 / 2 / values, color=ORANGE, lw=2, label="by strong convexity, ‖∇F‖² / 2λF")
axis.plot(tight, color=BLUE, lw=2, label="by self-concordance")
axis.plot((values - optimum) / values, color=BLACK, lw=2, ls="--", label="the truth")
axis.set(yscale="log", ylim=(1e-11, 1e4), xlabel="step", ylabel="(F − F*) / F")
axis.legend(frameon=False)
