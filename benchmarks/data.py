"""Data for the benchmarks, read from the folder that MAJORANT_DATA names."""

from __future__ import annotations

import gzip
import os
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file


def root() -> Path:
    path = os.environ.get("MAJORANT_DATA")
    if not path:
        sys.exit("set MAJORANT_DATA to the folder that holds mnist/, libsvm/, … (see benchmarks/README.md)")
    return Path(path)


def mnist_pca(components: int = 50):
    """The 10,000 official test images, pixels/255, principal components fitted on all rows, a constant column."""
    images = _idx(root() / "mnist/t10k-images-idx3-ubyte.gz").reshape(10_000, -1) / 255.0
    labels = _idx(root() / "mnist/t10k-labels-idx1-ubyte.gz").astype(int)
    centred = images - images.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    return np.column_stack([centred @ axes[:, -components:], np.ones(10_000)]), labels


def a9a():
    """Adult, 32,561×124 with a constant column, CSR."""
    X, y = load_svmlight_file(str(root() / "libsvm/a9a.gz"), n_features=123)
    return sp.hstack([X, np.ones((X.shape[0], 1))], format="csr"), (y > 0).astype(int)


def near_separable(seed: int, t: int = 2000, d: int = 20, noise: float = 0.05):
    """Gaussian rows, labels by a hyperplane with a little noise."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(t, d)), rng.normal(size=d)
    return X, (X @ w + noise * np.linalg.norm(w) * rng.normal(size=t) > 0).astype(int)


def _idx(path: Path):
    raw = gzip.decompress(path.read_bytes())
    shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)
