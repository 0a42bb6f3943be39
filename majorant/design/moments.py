"""Where columns are, and how far they spread: found of some rows at a time, and added up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from majorant._checks import Array
from majorant.design.reading import read_design


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and variance of the columns of all rows seen so far."""

    rows: int
    weight: float
    mean: Array
    variance: Array

    @classmethod
    def of(cls, X: Any, weight: Array | None) -> Moments:
        """Return those of a chunk."""
        each = np.ones(X.shape[0]) if weight is None else weight
        return cls(len(each), float(each.sum()), *read_design("X", X).moments(each))

    def __add__(self, other: Moments) -> Moments:
        total = self.weight + other.weight
        share, apart = other.weight / total, other.mean - self.mean
        variance = (1 - share) * self.variance + share * other.variance + share * (1 - share) * apart**2
        return Moments(self.rows + other.rows, total, self.mean + share * apart, variance)

    def widened(self, columns: int) -> Moments:
        """Return those of rows that have zeros in further columns."""
        more = np.zeros(columns - len(self.mean))
        return Moments(self.rows, self.weight, np.append(self.mean, more), np.append(self.variance, more))
