"""Rows that are somewhere else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from majorant._checks import Array
from majorant.design.base import Design


@dataclass(frozen=True, eq=False)
class Absent(Design):
    """What is known of rows that have not been read: a task that looks at labels and scores alone needs no more."""

    rows: int
    like: Design

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows, self.like.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision that they would be multiplied in."""
        return self.like.dtype

    @property
    def centre(self) -> Array | None:
        """Where their columns are measured from."""
        return self.like.centre

    @property
    def density(self) -> float:
        """The share of them that is stored."""
        return self.like.density

    @property
    def is_sparse(self) -> bool:
        """Whether what is stored are non-zeros."""
        return self.like.is_sparse

    def project(self, W: Array) -> Array:
        """Raise: nobody should ask."""
        self._are_absent()

    def pull_back(self, R: Array) -> Array:
        """Raise."""
        self._are_absent()

    def part(self, rows: slice | Array) -> Design:
        """Raise."""
        self._are_absent()

    def toarray(self) -> Array:
        """Raise."""
        self._are_absent()

    def _are_absent(self) -> NoReturn:
        raise TypeError("these rows were not read: a task that looks at rows must not say that it does not")
