"""
Decision regions, and coefficients that are proved
==================================================

Three kinds of iris by the size of their petals. Solvers usually stop when steps get small, and nobody knows how far
away the optimum is. Here every coefficient comes with a bound on its distance from the exact one.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

from majorant import LogisticRegression
from majorant.plotting import BLUE, GREEN, ORANGE, VERMILION

iris = load_iris()
X, y = iris.data[:, 2:], iris.target
model = LogisticRegression(C=10.0).fit(X, y)
print(model.result_)

# %%
# On the left the regions, paler where the model is less sure. On the right each coefficient, and how far it can be from
# that of the exact optimum.

x0, x1 = np.meshgrid(np.linspace(0.5, 7.5, 300), np.linspace(-0.2, 2.8, 300))
p = model.predict_proba(np.column_stack([x0.ravel(), x1.ravel()]))
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
for label, colour in enumerate((BLUE, ORANGE, GREEN)):
    sure = p[:, label].reshape(300, 300)
    left.contourf(x0, x1, np.where(sure >= p.max(axis=1).reshape(300, 300), sure, np.nan), [1 / 3, 2 / 3, 0.95, 1.0],
                  colors=[colour], alpha=[0.08, 0.2, 0.35])  # fmt: skip
    left.plot(*X[y == label].T, "o", color=colour, mec="white", mew=0.5, ms=6, label=iris.target_names[label])
left.set(xlabel="petal length, cm", ylabel="petal width, cm")
left.legend(frameon=False)

names = [f"{name}: {of}" for name in iris.target_names for of in ("length", "width")]
rows = np.arange(len(names))
right.barh(rows - 0.2, np.abs(model.coef_).ravel(), height=0.4, color=BLUE, label="size of the coefficient")
right.barh(
    rows + 0.2, model.coef_error_.ravel(), height=0.4, color=VERMILION, label="distance from the exact one, at most"
)
right.set(xscale="log", yticks=rows, yticklabels=names)
right.invert_yaxis()
fig.legend(*right.get_legend_handles_labels(), frameon=False, loc="outside upper right", ncols=2)
