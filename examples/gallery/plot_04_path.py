"""
A path of penalties, each point certified
=========================================

From the strongest penalty to the weakest, every fit starts from an extrapolation of the last two. The lower panel shows
the certificate of each: its objective is at most this much above the optimum, relatively.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from majorant import logistic_regression_path
from majorant.plotting import BLUE, GREY, VERMILION

cancer = load_breast_cancer()
path = logistic_regression_path(scale(cancer.data), cancer.target, Cs=np.logspace(-5, 3, 40))
print(f"{path.n_iter.sum()} steps for {len(path.Cs)} fits")

fig, (top, bottom) = plt.subplots(2, 1, figsize=(7.5, 5.5), sharex=True, height_ratios=[3, 1], layout="constrained")
largest = np.argsort(-np.abs(path.coefs[20, 0]))[:3]
top.plot(path.Cs, path.coefs[:, 0], color=GREY, lw=0.8)
for column, colour in zip(largest, (BLUE, VERMILION, "black"), strict=True):
    top.plot(path.Cs, path.coefs[:, 0, column], color=colour, lw=2, label=cancer.feature_names[column])
top.set(ylabel="coefficient", ylim=(-8, 8))
top.legend(frameon=False, loc="lower left")
bottom.plot(path.Cs, np.maximum(path.gaps, 1e-15), "o", color=BLUE, ms=3)
bottom.axhline(1e-8, color="black", lw=0.8)
bottom.set(xscale="log", yscale="log", xlabel="C (weaker penalties to the right)", ylabel="certified gap")
bottom.text(path.Cs[0], 2e-8, "tolerance")
bottom.set_ylim(1e-16, 1e-5)
