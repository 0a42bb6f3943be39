"""A lower bound on the least F from what was seen at several points: tighter than the last gradient alone.

The loss L is convex, so it lies above each of its tangents and above every mean of them. With a ridge, for weights
a_k ≥ 0 that sum to one,

    F*  ≥  min_θ Σ_k a_k (L_k + g_kᵀ(θ − θ_k)) + ½‖θ‖²_λ  =  Σ_k a_k c_k − ½‖Σ_k a_k g_k‖²_{1/λ},   c_k = L_k − g_kᵀθ_k.

Of one tangent this is F − ½‖∇F‖²_{1/λ}, the gradient gap. Steps that go too far one time and not far enough the next
have gradients that cancel where F is stiff, which is most of them: a mean of few tangents is many times tighter.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from majorant._checks import Array
from majorant.objective.objective import Objective
from majorant.objective.ray import Point

# Tangents that are kept: the best mean of those before, and the last ones.
KEPT = 4
# More parameters are kept in single precision; what that loses is counted.
MANY_PARAMETERS = 100_000
# Rounding errors of F and of sums over parameters, relative to them: far more than there are.
ROUNDING = 1e-13
# Squares of larger slopes may overflow, in single precision slopes themselves.
STEEPEST = 1e30


@dataclass(frozen=True, eq=False)
class Cut:
    """A tangent, or a mean of tangents: c, g/√λ as it is kept, and how far that may be off."""

    constant: float
    slope: Array
    off: float

    @classmethod
    def of(cls, constant: float, slope: Array, off: float = 0.0) -> Cut:
        """Return the cut with its slope as it is kept."""
        kept = slope.astype(np.float32) if len(slope) > MANY_PARAMETERS else slope
        rounded = max(float(np.finfo(kept.dtype).eps), ROUNDING)
        return cls(constant, kept, off + rounded * float(np.linalg.norm(slope)))

    def same_as(self, other: Cut) -> bool:
        """Return whether this is the other one, to the last bit."""
        return self.constant == other.constant and np.array_equal(self.slope, other.slope)


class Cuts:
    """What the points that were seen say of the least F."""

    def __init__(self, ridge: Array) -> None:
        same = bool((ridge == ridge[0]).all())
        self._root = np.broadcast_to(np.sqrt(ridge[0]), ridge.shape) if same else np.sqrt(ridge)
        self._cuts: list[Cut] = []
        self.lowest = 0.0  # losses are not negative

    @staticmethod
    def suit(objective: Objective) -> bool:
        """Return whether there are such bounds, and a step costs so much more that they are worth it."""
        ridged = objective.penalty.prior is not None and objective.penalty.everywhere
        return ridged and objective.convex and not objective.keeps_scores

    def copy(self) -> Cuts:
        """Return the same, to learn on its own."""
        other = copy(self)
        other._cuts = list(self._cuts)
        return other

    def holds_under(self, other: Cuts) -> bool:
        """Return whether the ridge is that of the other."""
        return np.array_equal(self._root, other._root)

    def add(self, point: Point) -> None:
        """Learn from F and ∇F at a point."""
        at = self._root * point.theta
        slope = point.gradient / self._root - at
        size, steep = float(np.linalg.norm(at)), float(np.linalg.norm(slope))
        rounded = ROUNDING * (abs(point.value) + size * size + size * steep)
        constant = point.value - 0.5 * size * size - float(slope @ at) - rounded
        if not (np.isfinite(constant) and steep < STEEPEST):  # then it says nothing
            return
        cut = Cut.of(constant, slope)
        if self._cuts and cut.same_as(self._cuts[-1]):  # where one run ends, the next begins
            return
        self._cuts.append(cut)
        value, mean = self._best_mean()
        self.lowest = max(self.lowest, value)
        if len(self._cuts) == KEPT:
            self._cuts = [mean, *self._cuts[2:]]

    def _best_mean(self) -> tuple[float, Cut]:
        """Return the best bound that a mean of the cuts gives, and that mean."""
        constants, offs = (np.array([getattr(cut, name) for cut in self._cuts]) for name in ("constant", "off"))
        products = self._products()
        best, weights = -np.inf, np.zeros(0)
        for a in _candidates(constants, products):
            norm = np.sqrt(max(float(a @ products @ a), 0.0)) + float(a @ offs)
            value = float(a @ constants) - 0.5 * norm**2
            if value > best:
                best, weights = value, a
        mean = sum(a * cut.slope.astype(np.float64) for a, cut in zip(weights, self._cuts, strict=True) if a > 0)
        return best, Cut.of(float(weights @ constants), np.asarray(mean), float(weights @ offs))

    def _products(self) -> Array:
        """Return the products of all slopes, in double precision."""
        many = len(self._cuts)
        products = np.empty((many, many))
        for i, cut in enumerate(self._cuts):
            slope = cut.slope.astype(np.float64, copy=False)
            for k in range(i + 1):
                products[i, k] = products[k, i] = slope @ self._cuts[k].slope.astype(np.float64, copy=False)
        return products


def _candidates(constants: Array, products: Array) -> Iterator[Array]:
    """Yield weights, one of which maximises aᵀc − ½aᵀPa: for some of them positive, that is a linear system."""
    many = len(constants)
    for count in range(1, many + 1):
        for some in map(list, combinations(range(many), count)):
            system = np.ones((count + 1, count + 1))
            system[:count, :count], system[count, count] = products[np.ix_(some, some)], 0.0
            a = np.zeros(many)
            a[some] = np.linalg.lstsq(system, np.append(constants[some], 1.0))[0][:count]
            if (a >= 0).all() and a.sum() > 0:
                yield a / a.sum()
