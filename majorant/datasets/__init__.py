"""Data sets by name."""

from __future__ import annotations

from importlib.resources import files

import numpy as np

from majorant._checks import Array, one_of

NAMES = ("ecoli",)


def load(name: str) -> tuple[Array, Array]:
    """Return X (with a constant last column) and integer labels of a data set.

    ``ecoli`` is bundled: protein localisation sites, 336 rows, 7 features, 8 classes (Nakai & Horton,
    UCI Machine Learning Repository, CC BY 4.0).

    Examples
    --------
    >>> X, y = load("ecoli")
    >>> X.shape, int(y.max()) + 1
    ((336, 8), 8)
    """
    one_of("name", name, NAMES)
    lines = files("majorant.datasets").joinpath("ecoli.data").read_text().splitlines()
    fields = [line.split() for line in lines]
    X = np.array([[float(x) for x in row[1:-1]] + [1.0] for row in fields])
    y = np.unique([row[-1] for row in fields], return_inverse=True)[1]
    return X, y
