"""
A linear probe's curve over C
=============================

How good are frozen features? One call fits the whole grid of penalties, scores each on held-out rows, stops when
scores have clearly turned, and fits all rows with the best one.
"""

import matplotlib.pyplot as plt

from examples.linear_probe import frozen_features
from majorant import LinearProbe

X, y = frozen_features()  # what a random layer makes of 1,797 digits
probe = LinearProbe().fit(X[:1200], y[:1200])
print(probe.result_)
print(f"accuracy on 597 rows that were never seen: {probe.score(X[1200:], y[1200:]):.3f}")

fig, axis = plt.subplots(figsize=(7.5, 4), layout="constrained")
probe.plot(axis)
