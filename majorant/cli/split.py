"""Rows for training and rows for testing."""

from __future__ import annotations

import numpy as np

from majorant._checks import Array


def split(labels: Array, share: float, seed: int) -> tuple[Array, Array]:
    """Return the rows to train on and those to test on: that share of each class, rounded down.

    So every class keeps a row to learn from.

    Examples
    --------
    >>> train, test = split(np.array([0, 0, 0, 0, 1]), 0.5, seed=0)
    >>> len(train), len(test), 4 in train
    (3, 2, True)
    """
    if not 0 < share < 1:
        raise ValueError(f"the share of rows for testing must be between 0 and 1, got {share}")
    order = np.random.default_rng(seed)
    testing = np.zeros(len(labels), dtype=bool)
    for each in np.unique(labels):
        rows = order.permutation(np.flatnonzero(labels == each))
        testing[rows[: int(share * len(rows))]] = True
    if not testing.any():
        raise ValueError(f"a share of {share} for testing leaves no row: every class is too small")
    return np.flatnonzero(~testing), np.flatnonzero(testing)
