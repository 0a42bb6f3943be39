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
    return with_constant(X), (y > 0).astype(int)


def mushrooms():
    """8,124×113 with a constant column, CSR."""
    X, y = load_svmlight_file(str(root() / "libsvm/mushrooms.gz"), n_features=112)
    return with_constant(X), (y == 2).astype(int)


def secstr():
    """Protein secondary structure, 83,679×316: fifteen symbols one-hot and a constant column, CSR."""
    stored = np.load(root() / "ssl_benchmark/secstr.npz")
    T = stored["T"]
    columns = T.astype(np.int32) + 21 * np.arange(15)
    rows = np.repeat(np.arange(len(T)), 15)
    X = sp.csr_matrix((np.ones(15 * len(T)), (rows, columns.ravel())), shape=(len(T), 315))
    return with_constant(X), stored["y"].ravel().astype(int)


def digit1():
    """1,500×242 with a constant column."""
    stored = np.load(root() / "ssl_benchmark/digit1.npz")
    return np.column_stack([stored["X"], np.ones(1500)]), (stored["y"].ravel() > 0).astype(int)


def text():
    """Newsgroups, 1,500×11,961 with a constant column, CSR."""
    stored = np.load(root() / "ssl_benchmark/text.npz")
    parts = (stored["data"], stored["indices"].astype(np.int32), stored["indptr"])
    X = sp.csr_matrix(parts, shape=tuple(stored["shape"]))
    return with_constant(X), (stored["y"].ravel() > 0).astype(int)


def letter():
    """Letter recognition, 20,000×17 with a constant column, 26 classes."""
    stored = np.load(root() / "uci/letter.npz")
    return np.column_stack([stored["X"].astype(float), np.ones(20_000)]), stored["y"].astype(int)


def with_constant(X):
    return sp.hstack([X, np.ones((X.shape[0], 1))], format="csr")


def near_separable(seed: int, t: int = 2000, d: int = 20, noise: float = 0.05):
    """Gaussian rows, labels by a hyperplane with a little noise."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(t, d)), rng.normal(size=d)
    return X, (X @ w + noise * np.linalg.norm(w) * rng.normal(size=t) > 0).astype(int)


def _idx(path: Path):
    raw = gzip.decompress(path.read_bytes())
    shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def mnist_raw():
    """The 60,000 training images, pixels/255, 785 columns with a constant one."""
    images = _idx(root() / "mnist/train-images-idx3-ubyte.gz").reshape(60_000, -1) / 255.0
    return np.column_stack([images, np.ones(60_000)]), _idx(root() / "mnist/train-labels-idx1-ubyte.gz").astype(int)


def rcv1_small():
    """RCV1 sample, 1,000×47,237 with a constant column, CSR."""
    X, y = load_svmlight_file(str(root() / "libsvm/rcv1_small.gz"), n_features=47_236)
    return with_constant(X), (y > 0).astype(int)


def news20():
    """20 newsgroups, word counts, 15,935×62,062 with a constant column, CSR, 20 classes."""
    X, y = load_svmlight_file(str(root() / "libsvm/news20.bz2"), n_features=62_061)
    return with_constant(X), (y - 1).astype(int)
