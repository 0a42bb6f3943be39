"""
Posterior uncertainty
=====================

With few rows the coefficients are uncertain. A Gaussian around them (Laplace's approximation) describes how much.
Probabilities that are averaged over this Gaussian are less extreme far from the rows.
"""

import matplotlib.pyplot as plt
import numpy as np

from majorant import LogisticRegression
from majorant.plotting import BLUE, ORANGE

rng = np.random.default_rng(3)
X = np.vstack([rng.normal([-1.0, -0.6], 0.6, size=(12, 2)), rng.normal([1.0, 0.6], 0.6, size=(12, 2))])
y = np.repeat([0, 1], 12)
model = LogisticRegression(C=5.0).fit(X, y)
covariance = model.posterior_covariance(X)
print(np.sqrt(np.diag(covariance)).round(2), "standard deviations of both coefficients and the intercept")

# %%
# Left: the probabilities at the optimum, whose contours are parallel lines. Right: averaged over the posterior, the
# contours fan out where there are no rows.

x = np.linspace(-6, 6, 200)
grid = np.column_stack([each.ravel() for each in np.meshgrid(x, x)])
fig, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
for axis, posterior, title in zip(axes, (False, True), ("at the optimum", "averaged over the posterior"), strict=True):
    p = model.predict_proba(grid, posterior=posterior)[:, 1].reshape(200, 200)
    shades = axis.contourf(x, x, p, np.linspace(0, 1, 11), cmap="PuOr_r", alpha=0.7)
    axis.contour(x, x, p, [0.1, 0.5, 0.9], colors="black", linewidths=[0.8, 1.6, 0.8])
    axis.plot(*X[y == 0].T, "o", color=BLUE, mec="white")
    axis.plot(*X[y == 1].T, "s", color=ORANGE, mec="white")
    axis.set(title=title, aspect="equal", xlabel="x₁")
axes[0].set_ylabel("x₂")
fig.colorbar(shades, ax=axes, label="p(orange)", ticks=[0, 0.5, 1])
