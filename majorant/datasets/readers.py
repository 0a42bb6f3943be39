"""Readers of the formats that data sets are published in; all append a constant last column."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from majorant.core.checks import Array


def idx(path: Path) -> Array:
    """Return the array of a gzipped IDX file, the format of Mnist."""
    raw = gzip.decompress(path.read_bytes())
    shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def svmlight(path: Path, n_features: int) -> tuple[Any, Array]:
    """Return X (CSR) and labels 0 … n−1 of a svmlight file, plain, gzipped or bzip2."""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(path), n_features=n_features)
    return with_constant(X), class_numbers(y)


def dense_table(data: Path, labels: Path, n_features: int) -> tuple[Array, Array]:
    """Return X and labels of the dense text format of the NIPS 2003 challenge: integers, a row a line."""
    values = np.fromstring(data.read_text(), dtype=np.float64, sep=" ")
    y = class_numbers(np.fromstring(labels.read_text(), dtype=np.float64, sep=" "))
    if values.size != len(y) * n_features:
        raise ValueError(
            f"{data} must hold {n_features} numbers for each of the {len(y)} labels of {labels.name}, "
            f"got {values.size} numbers"
        )
    return with_constant(values.reshape(len(y), n_features)), y


def with_constant(X: Any) -> Any:
    """Return X with a last column of ones; sparse stays sparse."""
    ones = np.ones((X.shape[0], 1))
    return sp.hstack([X, ones], format="csr") if sp.issparse(X) else np.hstack([X, ones])


def class_numbers(labels: Any) -> Array:
    """Return labels as 0 … n−1, in the order of the values."""
    return np.unique(np.asarray(labels).ravel(), return_inverse=True)[1].ravel()


def principal_components(images: Array, components: int) -> Array:
    """Return the rows in the directions of largest variance, which all rows together choose."""
    centred = images - images.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    return centred @ axes[:, -components:]
