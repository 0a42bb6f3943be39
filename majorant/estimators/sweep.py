"""What the fits of a grid of C share: the data, read once, and what the fit before has learnt of their curvature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from majorant._checks import Array
from majorant._solution import Solution
from majorant.objective import Objective

# Solutions that say where the next one is.
REMEMBERED = 3


class Sweep:
    """Fits of the same rows under one ridge after another, in ascending or descending order."""

    def __init__(self) -> None:
        self._objective: Objective | None = None
        self._found: list[tuple[float, Solution]] = []

    def under(self, ridge: Array, make: Callable[[], Objective]) -> Objective:
        """Return the objective of the rows under a ridge; it is made once."""
        self._objective = make() if self._objective is None else self._objective.with_ridge(ridge)
        return self._objective

    def start(self) -> Solution | None:
        """Return the solution before, with the parameters that it and those before it foretell."""
        if not self._found or self._objective is None:
            return None
        return replace(self._found[-1][1], params=self._foretold(_size(self._objective)))

    def add(self, solution: Solution | None) -> None:
        """Remember a solution, if it is one to go on from."""
        if solution is not None and self._objective is not None and np.isfinite(solution.params).all():
            self._found = [*self._found, (_size(self._objective), solution)][-REMEMBERED:]

    def _foretold(self, size: float) -> Array:
        """Return θ on the polynomial in log λ through the solutions before."""
        sizes = [at for at, _ in self._found]
        if not np.isfinite([*sizes, size]).all() or len(set(sizes)) < len(sizes):
            return self._found[-1][1].params
        θ = np.zeros(len(self._found[-1][1].params))
        for k, (at, solution) in enumerate(self._found):
            others = [other for j, other in enumerate(sizes) if j != k]
            θ += np.prod([(size - other) / (at - other) for other in others]) * solution.params
        return θ


def _size(objective: Objective) -> float:
    """Return log λ, up to a constant."""
    with np.errstate(divide="ignore"):
        return float(np.log(objective.ridge.max()))
