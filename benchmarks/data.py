"""Data for the benchmarks: the sets of ``majorant.datasets`` under the names used here, and one that is made up."""

from __future__ import annotations

from functools import partial

import numpy as np

from majorant.datasets.registry import load

mnist_pca = partial(load, "mnist")
mnist_raw = partial(load, "mnist60k")
a9a = partial(load, "a9a")
mushrooms = partial(load, "mushrooms")
secstr = partial(load, "secstr")
digit1 = partial(load, "digit1")
text = partial(load, "text")
letter = partial(load, "letter")
rcv1_small = partial(load, "rcv1_small")
news20 = partial(load, "news20")


def near_separable(seed: int, t: int = 2000, d: int = 20, noise: float = 0.05):
    """Gaussian rows, labels by a hyperplane with a little noise."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(t, d)), rng.normal(size=d)
    return X, (X @ w + noise * np.linalg.norm(w) * rng.normal(size=t) > 0).astype(int)
