"""
Decision regions, and bounds of the coefficients
================================================

Three species of iris by the size of their petals. Most solvers stop when their steps are small, and do not know the
distance from the optimum. A majorant fit has a bound on the distance of every coefficient from the exact one.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

from majorant import LogisticRegression
from majorant.plotting import BLUE, GREEN, ORANGE, SKY

iris = load_iris()
X, y = iris.data[:, 2:], iris.target
model = LogisticRegression(C=10.0).fit(X, y)
print(model.result_)

# %%
# Left: the regions, paler if the model is less sure. Right: each coefficient, and the bound on its distance from the
# coefficient at the exact optimum.

x0, x1 = np.meshgrid(np.linspace(0.5, 7.5, 300), np.linspace(-0.2, 2.8, 300))
p = model.predict_proba(np.column_stack([x0.ravel(), x1.ravel()]))
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
for label, colour in enumerate((SKY, ORANGE, GREEN)):
    sure = p[:, label].reshape(300, 300)
    most = np.where(sure >= p.max(axis=1).reshape(300, 300), sure, np.nan)
    left.contourf(x0, x1, most, [1 / 3, 2 / 3, 0.95, 1.0], colors=[colour], alpha=[0.08, 0.2, 0.35])
    left.plot(*X[y == label].T, "o", color=colour, mec="white", mew=0.5, ms=6)
    length, width = X[y == label].mean(axis=0)
    left.text(length + 0.9, width - 0.5, iris.target_names[label], ha="center", weight="bold")
left.set(xlabel="petal length, cm", ylabel="petal width, cm")

names = [f"{name}: {of}" for name in iris.target_names for of in ("length", "width")]
rows = np.arange(len(names))
right.hlines(rows, model.coef_error_.ravel(), np.abs(model.coef_).ravel(), color="0.85", lw=2)
right.plot(np.abs(model.coef_).ravel(), rows, "o", color=BLUE)
right.plot(model.coef_error_.ravel(), rows, "o", color=BLUE, mfc="white")
right.set(xscale="log", xlabel="size (log scale)", yticks=rows, yticklabels=names, ylim=(5.5, -1))
right.text(np.abs(model.coef_).ravel()[0], -0.5, "coefficient", ha="center", color=BLUE)
right.text(model.coef_error_.ravel()[0], -0.5, "bound of its error", ha="center", color=BLUE)
