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

import numpy as np

from majorant._checks import Array
from majorant.objective.objective import Objective
from majorant.objective.ray import Point

# Tangents that are kept: the best mean of those before, and the last ones.
KEPT = 4
# More parameters are kept in single precision; what that loses is counted.
MANY_PARAMETERS = 100_000
# Rounding errors of sums over parameters, relative to them: far more than there are.
ROUNDING = 1e-13
# What is added to the products of slopes, relative to the largest: those of slopes that are the same have no inverse.
SINGULAR = 1e-15
# Squares of larger slopes may overflow, in single precision slopes themselves.
STEEPEST = 1e30
# Parameters that are worked on at a time: a fit holds most when it looks, and vectors would add up.
SOME = 2**16


@dataclass(frozen=True, eq=False)
class Cut:
    """A tangent, or a mean of tangents: c, g/√λ as it is kept, and how far that may be off."""

    constant: float
    slope: Array
    off: float

    @classmethod
    def of(cls, constant: float, slope: Array, steep: float, off: float = 0.0) -> Cut:
        """Return the cut with its slope as it is kept (:func:`_room_for`), and what its norm was before."""
        rounded = max(float(np.finfo(slope.dtype).eps), ROUNDING)
        return cls(constant, slope, off + rounded * steep)

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

    def add(self, point: Point, doubt: float = 0.0) -> None:
        """Learn from F and ∇F at a point, whose rounding may hide that F* is lower than they say by ``doubt``."""
        kept, size, steep, product = self._slope_at(point)
        rounded = doubt + ROUNDING * (abs(point.value) + size * size + size * steep)
        constant = point.value - 0.5 * size * size - product - rounded
        if not (np.isfinite(constant) and steep < STEEPEST):  # then it says nothing
            return
        cut = Cut.of(constant, kept, steep)
        if self._cuts and cut.same_as(self._cuts[-1]):  # where one run ends, the next begins
            return
        self._cuts.append(cut)
        value, weights = self._best_weights()
        self.lowest = max(self.lowest, value)
        if len(self._cuts) == KEPT:
            self._cuts = [self._mean(weights), *self._cuts[2:]]

    @np.errstate(over="ignore", invalid="ignore")  # what is out of bounds is found at the end
    def _slope_at(self, point: Point) -> tuple[Array, float, float, float]:
        """Return the slope of the loss as it is kept, ‖θ‖ and its norm where λ is one, and the product of both."""
        kept, sums = _room_for(len(point.theta)), np.zeros(3)
        for some in _stretches(len(kept)):
            at = self._root[some] * point.theta[some]
            slope = point.gradient[some] / self._root[some] - at
            sums += at @ at, slope @ slope, slope @ at
            kept[some] = slope
        return kept, *np.sqrt(sums[:2]).tolist(), float(sums[2])

    def _best_weights(self) -> tuple[float, Array]:
        """Return the best bound that a mean of the cuts gives, and the weights of that mean."""
        constants, offs, products = *self._numbers(), self._products()
        each = _candidates(constants, products)
        norms = np.sqrt(np.maximum(((each @ products) * each).sum(axis=1), 0.0)) + each @ offs
        values = each @ constants - 0.5 * norms**2
        best = int(values.argmax())
        return float(values[best]), each[best]

    def _numbers(self) -> tuple[Array, Array]:
        return np.array([cut.constant for cut in self._cuts]), np.array([cut.off for cut in self._cuts])

    def _mean(self, weights: Array) -> Cut:
        """Return the mean of the cuts."""
        kept, squares, (constants, offs) = _room_for(len(self._root)), 0.0, self._numbers()
        for some in _stretches(len(kept)):
            pairs = zip(weights, self._cuts, strict=True)
            slope = np.asarray(sum(a * cut.slope[some].astype(np.float64) for a, cut in pairs if a > 0))
            squares += float(slope @ slope)
            kept[some] = slope
        return Cut.of(float(weights @ constants), kept, float(np.sqrt(squares)), float(weights @ offs))

    def _products(self) -> Array:
        """Return the products of all slopes, in double precision."""
        products = np.zeros((len(self._cuts), len(self._cuts)))
        for some in _stretches(len(self._root)):
            slopes = np.array([cut.slope[some] for cut in self._cuts], dtype=np.float64)
            products += slopes @ slopes.T
        return products


def _room_for(size: int) -> Array:
    """Return room for a slope as it is kept."""
    return np.empty(size, dtype=np.float32 if size > MANY_PARAMETERS else np.float64)


def _stretches(size: int) -> Iterator[slice]:
    return (slice(begin, begin + SOME) for begin in range(0, size, SOME))


def _candidates(constants: Array, products: Array) -> Array:
    """Return weights, a row each, one of which maximises aᵀc − ½aᵀPa: for some of them positive, a linear system.

    All systems are solved at once, with ones on the diagonal of what is not among those some. Any weights give a bound,
    so what rounding does to them does no harm.
    """
    many = len(constants)
    scale = float(products.diagonal().max()) or 1.0
    some = (np.arange(1, 2**many)[:, None] >> np.arange(many)) % 2 == 1
    systems = np.zeros((len(some), many + 1, many + 1))
    among = some[:, :, None] & some[:, None, :]
    systems[:, :many, :many] = np.where(among, products / scale + SINGULAR * np.eye(many), np.eye(many))
    systems[:, :many, many] = systems[:, many, :many] = some
    sides = np.column_stack([some * constants / scale, np.ones(len(some))])
    a = np.linalg.solve(systems, sides[:, :, None])[:, :many, 0]
    a = a[(a >= 0).all(axis=1) & (a.sum(axis=1) > 0.5)]  # of constants that are far apart rounding leaves no sum of one
    return np.asarray(a / a.sum(axis=1, keepdims=True))
