"""
Hidden states
=============

No line separates these two classes, because each is in two places. With two hidden states for each class the model
finds the places.
"""

import matplotlib.pyplot as plt
import numpy as np

from majorant import LatentLogisticRegression, LogisticRegression
from majorant.plotting import BLUE, ORANGE

rng = np.random.default_rng(1)
X = rng.normal(size=(600, 2))
y = (X[:, 0] * X[:, 1] > 0).astype(int)
linear = LogisticRegression().fit(X, y)
latent = LatentLogisticRegression(n_latent=2, C=10.0).fit(X, y)
print(latent.result_)

# %%
# Markers show the likeliest state of each row. The loss is not convex, so the fit compares several starts and has no
# certificate.

x = np.linspace(-3.2, 3.2, 300)
grid = np.column_stack([each.ravel() for each in np.meshgrid(x, x)])
state = latent.predict_latent(X, y)
fig, axes = plt.subplots(1, 2, figsize=(9, 4.2), sharey=True, layout="constrained")
for axis, model, title in zip(axes, (linear, latent), ("linear", "two hidden states per class"), strict=True):
    axis.contourf(x, x, model.predict(grid).reshape(300, 300), [-0.5, 0.5, 1.5], colors=[BLUE, ORANGE], alpha=0.18)
    for label, colour in enumerate((BLUE, ORANGE)):
        for m, marker in enumerate("o^"):
            rows = (y == label) & ((state == m) if model is latent else (m == 0))
            axis.plot(*X[rows].T, marker, color=colour, ms=4.5, mew=0.3, mec="white")
    axis.set(title=f"{title}: {model.score(X, y):.0%} accuracy", xlim=(-3.2, 3.2), ylim=(-3.2, 3.2), aspect="equal")
