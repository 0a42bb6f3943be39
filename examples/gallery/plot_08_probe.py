"""
A linear probe's curve over C
=============================

One call fits a grid of penalties on frozen features, scores each on held-out rows, stops when the scores fall, and fits
all rows with the best penalty.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from majorant import LinearProbe

images, y = load_digits(return_X_y=True)
layer = np.random.default_rng(0).normal(size=(64, 256)) / 64  # a random layer instead of a network
X = np.maximum(images @ layer, 0.0).astype(np.float32)
probe = LinearProbe().fit(X[:1200], y[:1200])
print(probe.result_)
print(f"accuracy on 597 other rows: {probe.score(X[1200:], y[1200:]):.3f}")

fig, axis = plt.subplots(figsize=(7.5, 4), layout="constrained")
probe.plot(axis)
