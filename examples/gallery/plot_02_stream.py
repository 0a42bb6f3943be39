"""
A stream against SGD
====================

Rows arrive in chunks, and each chunk is used once. ``SGDClassifier`` needs a learning rate, and the best one depends on
the data; columns in different units, as in this example, are its worst case. ``LogisticRegression.partial_fit`` has no
learning rate: every chunk adds a quadratic to the ones before.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import SGDClassifier

from majorant import LogisticRegression
from majorant.plotting import BLUE, GREY, ORANGE, PURPLE, VERMILION

rng = np.random.default_rng(0)
scales = 10.0 ** rng.uniform(-1.5, 1.5, size=20)  # columns in different units
X = rng.normal(size=(12_000, 20)) * scales
y = (X @ (rng.normal(size=20) / scales) + rng.logistic(size=len(X)) > 0).astype(int)
chunks = np.split(np.arange(10_000), 50)
X_test, y_test = X[10_000:], y[10_000:]


def losses(model):
    """Return the held-out loss of a row after each chunk."""
    found = []
    for rows in chunks:
        model.partial_fit(X[rows], y[rows], classes=[0, 1])
        score = np.clip(model.decision_function(X_test) * (2 * y_test - 1), -50, 50)
        found.append(np.logaddexp(0, -score).mean())
    return found


fig, axis = plt.subplots(figsize=(9, 4), layout="constrained")
seen = 200 * np.arange(1, 51)
for rate, colour in zip((1e-2, 1e-3, 1e-4), (VERMILION, ORANGE, GREY), strict=True):
    sgd = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=rate, random_state=0)
    axis.plot(seen, losses(sgd), color=colour, ls="--", lw=1.2, label=f"SGD, rate {rate:g}")
default = SGDClassifier(loss="log_loss", random_state=0)
axis.plot(seen, losses(default), color=PURPLE, ls=":", lw=1.2, label="SGD, default schedule")
axis.plot(seen, losses(LogisticRegression()), color=BLUE, lw=2.5, label="majorant")
best = LogisticRegression().fit(X[:10_000], y[:10_000])
floor = -best.predict_log_proba(X_test)[np.arange(2000), y_test].mean()
axis.axhline(floor, color="black", lw=0.8, label="all rows at once")
axis.set(xlabel="rows seen, each once", ylabel="held-out loss per row (log scale)", yscale="log")
fig.legend(loc="outside right center", frameon=False)
