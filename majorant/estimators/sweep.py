"""What the fits of a grid of C share: the data, read once, and what the fit before has learnt of their curvature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, log
from typing import Any, TypeVar

from majorant._checks import Array
from majorant._solution import Solution
from majorant._vectors import all_finite
from majorant.objective import Objective

T = TypeVar("T")


class Sweep:
    """Fits of the same rows under one ridge after another."""

    def __init__(self) -> None:
        self._objective: Objective | None = None
        self._seen: Any = None
        self._found: list[tuple[float, Solution]] = []  # the last two, with log λ of each

    def seen(self, look: Callable[[], T]) -> T:
        """Return what a first look at the rows has found: only one is needed."""
        self._seen = look() if self._seen is None else self._seen
        return self._seen

    def under(self, ridge: Callable[[], Array], make: Callable[[], Objective]) -> Objective:
        """Return the objective of the rows under a ridge; what it takes to read them is done once."""
        self._objective = make() if self._objective is None else self._objective.with_ridge(ridge())
        return self._objective

    def start(self) -> Solution | None:
        """Return the solution before, with the parameters that are likely now."""
        if not self._found:
            return None
        return replace(self._found[-1][1], params=self._foretold(self._size()))

    def add(self, solution: Solution | None) -> None:
        """Remember a solution, if it is one to go on from."""
        if solution is not None and all_finite(solution.params):
            self._found = [*self._found[-1:], (self._size(), solution)]

    def _foretold(self, size: float) -> Array:
        """Return θ on the line in log λ through the last two: more of them foretell no better."""
        (before, earlier), (at, latest) = self._found[0], self._found[-1]
        if not (abs(before) < inf and abs(at) < inf and abs(size) < inf) or at == before:
            return latest.params
        return latest.params + (size - at) / (at - before) * (latest.params - earlier.params)

    def _size(self) -> float:
        """Return log λ, up to a constant."""
        assert self._objective is not None
        largest = float(self._objective.ridge.max())
        return log(largest) if largest > 0 else -inf
