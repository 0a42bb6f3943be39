"""Readers of the data sets: functions from the paths of files to X and labels, as the publishers have them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from majorant.core.checks import Array


def toy(seed: int = 0) -> tuple[Array, Array]:
    """Return the toy set: 1,000 rows in two dimensions, highly symmetric, not linearly separable, badly scaled for SGD.

    The paper shows its set only in a picture that is not in its source. It says that the set is "highly symmetric",
    "non-linearly separable", that gradients point "in almost random directions", that SGD is unstable until its gain is
    as small as 10⁻⁸, and that SGD and ASGD then end little better than a coin while LBFGS does not. This set was
    designed to do all of that, so that it is no evidence for what the paper says of SGD: four clusters on the corners
    of a square, some of the labels exchanged, its own mirror image in both directions, and away from the origin, so
    that all rows point nearly the same way and only their labels differ. What tells the classes apart is the distance
    from the origin: it takes the constant column, whose curvature is millions of times smaller.
    """
    rng, quarter = np.random.default_rng(seed), 250
    corner = 700.0 + 315.0 * rng.normal(size=(quarter, 2))
    outside = (rng.random(quarter) >= 0.15).astype(int)  # the other labels are exchanged
    X = np.concatenate([corner * signs for signs in ([1, 1], [-1, 1], [1, -1], [-1, -1])]) + np.array([0.0, 2100.0])
    y = np.concatenate([outside, outside, 1 - outside, 1 - outside])
    order = rng.permutation(4 * quarter)
    return X[order], y[order]


def table(
    path: Path, label: int, features: slice, separator: str | None = ",", header: bool = False
) -> tuple[Array, Any]:
    """Return X and y of a text file, plain or gzipped; missing values (``?``) are the mean of their column.

    ``label`` and ``features`` say which columns are which. A feature that is always zero is left out.
    """
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as file:
        rows = [[cell.strip() for cell in line.split(separator)] for line in file if line.strip()][int(header) :]
    X = np.array([[np.nan if cell == "?" else float(cell) for cell in row[features]] for row in rows])
    X = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    return X[:, X.any(axis=0)], [row[label] for row in rows]


def idx(path: Path) -> Array:
    """Return the array of a gzipped IDX file, the format of Mnist."""
    raw = gzip.decompress(path.read_bytes())
    shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def mnist(
    images: Path, labels: Path, components: int | None = None, digits: tuple[int, ...] | None = None
) -> tuple[Array, Array]:
    """Return pixels between 0 and 1, or their principal components, and digits: all of them, or those given."""
    stack, y = idx(images), idx(labels)
    X = stack.reshape(len(stack), -1) / 255.0
    if components is not None:
        X = principal_components(X, components)
    chosen = slice(None) if digits is None else np.isin(y, digits)
    return X[chosen], y[chosen]


def principal_components(X: Array, components: int) -> Array:
    """Return the rows in the directions of largest variance of all of them."""
    centred = X - X.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    return centred @ axes[:, -components:]


def npz(path: Path) -> tuple[Any, Array]:
    """Return X and y of an archive, which holds X, or data, indices, indptr and shape of it as a CSR matrix.

    Symbols T, one of 21 at each position, become a column for each symbol and position.
    """
    stored = np.load(path)
    if "X" in stored:
        return stored["X"].astype(float), stored["y"]
    if "T" in stored:
        rows, positions = stored["T"].shape
        columns = stored["T"].astype(np.int32) + 21 * np.arange(positions)
        coordinates = np.repeat(np.arange(rows), positions), columns.ravel()
        return sp.csr_matrix((np.ones(columns.size), coordinates), shape=(rows, 21 * positions)), stored["y"]
    parts = stored["data"], stored["indices"].astype(np.int32), stored["indptr"]
    return sp.csr_matrix(parts, shape=tuple(stored["shape"])), stored["y"]


def svmlight(path: Path, n_features: int) -> tuple[Any, Array]:
    """Return X (CSR) and labels of a svmlight file, plain, gzipped or bzip2."""
    from sklearn.datasets import load_svmlight_file

    return load_svmlight_file(str(path), n_features=n_features)


def gisette(*paths: Path) -> tuple[Array, Array]:
    """Return X and labels in the text format of the NIPS 2003 challenge: pairs of files of integers and of labels."""
    parts, labels = [], []
    for data, signs in zip(paths[::2], paths[1::2], strict=True):
        values, y = (np.fromstring(path.read_text(), dtype=np.float64, sep=" ") for path in (data, signs))
        if values.size != len(y) * 5000:
            raise ValueError(
                f"{data} must hold 5000 numbers for each of the {len(y)} labels of {signs.name}, "
                f"got {values.size} numbers"
            )
        parts.append(values.reshape(-1, 5000))
        labels.append(y)
    return np.vstack(parts), np.concatenate(labels)
