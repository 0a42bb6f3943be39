"""
Certificates and the true distance
==================================

Two certificates bound the distance from the optimum at every step: strong convexity uses the gradient and the penalty,
self-concordance also uses the Hessian. The true distance is known from a second, more accurate fit. Self-concordance
says nothing far from the optimum, and is nearly exact close to it. A fit reports the smaller bound.
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
axis.plot((values - optimum) / values, color=BLACK, lw=2, ls="--", label="true distance")
axis.set(yscale="log", ylim=(1e-11, 1e4), xlabel="step", ylabel="(F − F*) / F")
axis.legend(frameon=False)
