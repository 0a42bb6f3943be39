"""
Decision regions, and coefficients that are proved
==================================================

Three kinds of iris by the size of their petals, by maximum likelihood. Solvers usually stop when steps get small, and nobody knows how
far away the optimum is. Here every coefficient comes with a bound on its distance from the exact one.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

from majorant import LogisticRegression

iris = load_iris()
X, y = iris.data[:, 2:], iris.target
model = LogisticRegression(C=np.inf).fit(X, y)
print(model.result_)

# %%
# On the left the regions, paler where the model is less sure. On the right each coefficient, and how far it can be from that of the
# exact optimum: many orders of magnitude less than itself.

x0, x1 = np.meshgrid(np.linspace(0.5, 7.5, 300), np.linspace(-0.2, 2.8, 300))
p = model.predict_proba(np.column_stack([x0.ravel(), x1.ravel()]))
colours = np.array([[0.0, 0.45, 0.7], [0.9, 0.62, 0.0], [0.0, 0.62, 0.45]])
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
left.imshow(
    (0.35 * p @ colours + 0.65).reshape(300, 300, 3), origin="lower", extent=(0.5, 7.5, -0.2, 2.8), aspect="auto"
)
for label, name in enumerate(iris.target_names):
    left.plot(*X[y == label].T, "o", color=colours[label], mec="white", mew=0.5, ms=6, label=name)
left.set(xlabel="petal length, cm", ylabel="petal width, cm")
left.legend(frameon=False)

names = [f"{name}: {of}" for name in iris.target_names for of in ("length", "width")]
rows = np.arange(len(names))
right.barh(rows - 0.2, np.abs(model.coef_).ravel(), height=0.4, color="#0072B2", label="|coefficient|")
right.barh(
    rows + 0.2, model.coef_error_.ravel(), height=0.4, color="#D55E00", label="distance from the exact one, at most"
)
right.set(xscale="log", yticks=rows, yticklabels=names)
right.invert_yaxis()
right.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.4, 1.16), ncols=2)
