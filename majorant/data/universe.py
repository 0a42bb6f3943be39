"""Which parameters a chain has: one for each attribute with each label, one for each label after each label.

By default only pairs that occur in the training data have a parameter, as in CRFsuite. They are stored one after the
other; a pair that has none scores zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from majorant._checks import Array

# Compiled loops take so many labels at a time.
LANES = 8
# An attribute with at least this share of all labels is worth a whole row of a table.
TABLED = 0.25


@dataclass(frozen=True, eq=False)
class Universe:
    """The parameters of a chain over n labels.

    Parameters
    ----------
    n : int
        Number of labels.
    first : array of shape (attributes + 1,)
        The parameters of attribute a are first[a] … first[a + 1] − 1. Attributes with most labels come first.
    label : array
        The label of each of these parameters.
    transitions : array of shape (k, 2)
        The pairs of labels (from, to) that have a parameter; these come last.
    tabled : int
        How many of the first attributes have so many labels that a whole row pays.
    """

    n: int
    first: Array
    label: Array
    transitions: Array
    tabled: int

    @property
    def width(self) -> int:
        """Labels, and columns that never happen, up to a multiple of what a processor adds at a time."""
        return -(-self.n // LANES) * LANES

    @property
    def n_attributes(self) -> int:
        """Number of attributes."""
        return len(self.first) - 1

    @property
    def size(self) -> int:
        """Number of parameters."""
        return len(self.label) + len(self.transitions)

    @property
    def attribute(self) -> Array:
        """The attribute of each parameter that is not a transition."""
        return np.repeat(np.arange(self.n_attributes), np.diff(self.first))

    def table(self, theta: Array | None = None) -> Array:
        """Return the parameters of the tabled attributes, a row for each; zeros if none are given."""
        rows = np.zeros((self.tabled, self.width))
        if theta is not None:
            rows[self._tabled_places()] = theta[: self.first[self.tabled]]
        return rows

    def from_table(self, rows: Array) -> Array:
        """Return the parameters that stand in a table."""
        return rows[self._tabled_places()]

    def transition_matrix(self, theta: Array) -> Array:
        """Return the transition scores, a row for the label one comes from."""
        A = np.zeros((self.width, self.width))
        A[self.transitions[:, 0], self.transitions[:, 1]] = theta[len(self.label) :]
        return A

    def from_matrix(self, A: Array) -> Array:
        """Return the transition parameters that stand in a matrix."""
        return A[self.transitions[:, 0], self.transitions[:, 1]]

    def parameter_of(self, attributes: Array, labels: Array) -> Array:
        """Return which parameter each attribute has with a label; −1 where it has none."""
        keys = self.attribute * self.n + self.label  # in rising order
        wanted = attributes.astype(np.int64) * self.n + labels
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[place] == wanted, place, -1)

    def _tabled_places(self) -> tuple[Array, Array]:
        end = self.first[self.tabled]
        return np.repeat(np.arange(self.tabled), np.diff(self.first[: self.tabled + 1])), self.label[:end]


def observed_universe(
    attributes: Array, token: Array, y: Array, starts: Array, n: int, n_attributes: int, **options: Any
) -> tuple[Universe, Array]:
    """Return the universe of what occurs, and the new number of each attribute.

    ``attributes`` and ``token`` list every occurrence; see :func:`select` for the options.
    """
    pairs = attributes.astype(np.int64) * n + y[token]
    counts = np.bincount(pairs, minlength=n_attributes * n).reshape(n_attributes, n)
    inner = np.ones(len(y), dtype=bool)
    inner[starts[:-1][starts[:-1] < len(y)]] = False
    after = np.flatnonzero(inner)
    steps = np.bincount(y[after - 1].astype(np.int64) * n + y[after], minlength=n * n).reshape(n, n)
    return select(counts, steps, **options)


def select(
    counts: Array, steps: Array, *, min_freq: float = 0, all_states: bool = False, all_transitions: bool = False
) -> tuple[Universe, Array]:
    """Return the universe of pairs counted often enough, or of all of them, and the new number of each attribute."""
    least = max(min_freq, 1)
    seen = np.ones_like(counts, dtype=bool) if all_states else counts >= least
    steps = np.ones_like(steps, dtype=bool) if all_transitions else steps >= least
    labels_of = seen.sum(axis=1)
    ranked = np.argsort(-labels_of, kind="stable")
    number = np.empty(len(ranked), dtype=np.uint32)
    number[ranked] = np.arange(len(ranked), dtype=np.uint32)
    seen, labels_of = seen[ranked], labels_of[ranked]
    first = np.concatenate([[0], np.cumsum(labels_of)]).astype(np.uint32)
    n = counts.shape[1]
    return (
        Universe(
            n,
            first,
            np.nonzero(seen)[1].astype(np.uint16),
            np.argwhere(steps),
            int(np.count_nonzero(labels_of >= max(TABLED * n, 2))),
        ),
        number,
    )
