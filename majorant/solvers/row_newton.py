"""Newton's steps among combinations of rows, by conjugate gradients: no step takes the columns, and few are made.

Products with K are the rent, and a factor of a matrix of its size is bought once they have cost as much, again and
again: where columns are on wild scales conjugate gradients would take thousands. Products in single precision are
enough, if what they have led to is corrected once by scores in double precision: only the correction is off then, by
as many digits as the first solution was.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from majorant._checks import Array
from majorant.objective.row_space import RowSpace
from majorant.solvers.line_search import LOOSE, best_step
from majorant.solvers.prices import CALL, FACTORISE
from majorant.solvers.row_metric import Even, Factored

# Steps end where one promises to gain less than this, relative to F: before and after scores were found afresh.
ROUGHLY, ENOUGH = 1e-4, 1e-10
# Products stop once the last has gained less than this share of what they gained on average, and there are no more.
WORTH_ANOTHER, PRODUCTS = 0.2, 200
# Where a step takes fewer, of one score and of several, solves with factors cost as much as these save; and no more
# numbers are kept in them.
MANY, MANY_OF_CLASSES, LARGEST_FACTORS = 20, 40, 2**25
# Of a product: what Python adds, what each score costs, and each number of K, for one score and for several.
OF_PYTHON, EACH, ALONE, AMONG = 5e4, 6.0, 0.07, 0.035


@dataclass(frozen=True, eq=False)
class Place:
    """Z, with the scores, what the loss says of them, and the penalty."""

    Z: Array
    scores: Array
    loss: float
    residual: Array
    of_penalty: float

    @classmethod
    def at_zero(cls, space: RowSpace, intercepts: Array) -> Place:
        """Return the place of no coefficients."""
        Z = np.zeros_like(space.ridge)
        Z[:, space.rows :] = intercepts[:, None]
        return cls.of(space, Z, space.scores(Z), 0.5 * float(np.vdot(Z, space.ridge * Z)))

    @classmethod
    def of(cls, space: RowSpace, Z: Array, scores: Array, of_penalty: float) -> Place:
        """Return the place with what the loss says of its scores."""
        return cls(Z, scores, *space.loss_and_residual(scores), of_penalty)

    def afresh(self, space: RowSpace) -> Place:
        """Return the same with scores by X."""
        return Place.of(space, self.Z, space.scores(self.Z), self.of_penalty)

    @property
    def value(self) -> float:
        """F."""
        return self.loss + self.of_penalty


@dataclass(eq=False)
class Work:
    """What steps have taken so far, and may take, and what scales them."""

    metric: Even | Factored
    most: int  # steps
    price: float  # of factors, in products
    many: float  # of these, in a step, for factors to save any
    steps: int = 0
    products: int = 0
    rent: int = 0  # products since factors were bought
    latest: int = 0  # products of the latest step
    factors: int = 0


def newton(space: RowSpace, intercepts: Array, most: int) -> tuple[Place, Work]:
    """Return where no more than so many steps from zero lead, which is the optimum but for rounding."""
    place = Place.at_zero(space, intercepts)
    work = Work(Even.of(space, place.residual), most, in_products(space), _many(space))
    place = _descended(space, place, work, ROUGHLY)
    return _descended(space, place.afresh(space), work, ENOUGH), work


def in_products(space: RowSpace) -> float:
    """Return the price of factors, in products with K."""
    n, t = len(space.ridge), space.rows
    return n * (CALL + 0.5 * t**3 * FACTORISE) / price_of_a_product(n, t)


def price_of_a_product(n: int, t: int) -> float:
    """Return what a product costs, and what comes with it, in nanoseconds."""
    return OF_PYTHON + n * t * (EACH + (ALONE if n == 1 else AMONG) * t)


def _many(space: RowSpace) -> float:
    """Return how many products a step has to take for factors to save any."""
    n, t = len(space.ridge), space.rows
    if space.is_singular or n * t * t > LARGEST_FACTORS:
        return inf
    return MANY if n == 1 else MANY_OF_CLASSES


def _descended(space: RowSpace, place: Place, work: Work, aim: float) -> Place:
    """Return where steps lead that promise to gain more than the aim, relative to F; one is always made."""
    while work.steps < work.most:
        if work.rent >= work.price and work.latest >= work.many:
            factored = Factored.of(space, place.residual)
            work.metric, work.rent, work.factors = factored or work.metric, 0, work.factors + 1
        D, DK, gain = _direction(space, place, work)
        if gain == 0 and isinstance(work.metric, Factored):  # in single precision it can be too far from symmetric
            work.metric, work.many = Even.of(space, place.residual), inf
            continue
        work.steps += 1
        before, place = place, _along(space, place, D, DK, gain)
        if place is before or gain <= aim * place.value:
            break
    return place


def _direction(space: RowSpace, place: Place, work: Work) -> tuple[Array, Array, float]:
    """Return about −H⁻¹∇F, its product with K, and what it promises to gain, by conjugate gradients."""
    times, r = space.curve(place.scores), -space.gradient(place.Z, place.residual)
    D, DK, gained, before = np.zeros_like(r), np.zeros_like(r), 0.0, np.inf
    d, dK = D, DK
    for k in range(1, PRODUCTS + 1):
        z = work.metric(r)
        zK = space.times(z)
        work.products, work.rent, work.latest = work.products + 1, work.rent + 1, k
        size = float(np.vdot(r, zK))
        d, dK = z + size / before * d, zK + size / before * dK
        Hd = times(d, dK)
        curvature = float(np.vdot(Hd, dK))
        if not (curvature > 0 and size > 0):  # to rounding there is none, or the gradient is zero
            break
        a = size / curvature
        D, DK, gained = D + a * d, DK + a * dK, gained + a * size
        if k * a * size <= WORTH_ANOTHER * gained:
            break
        r, before = r - a * Hd, size
    return D, DK, 0.5 * gained


def _along(space: RowSpace, place: Place, D: Array, DK: Array, gain: float) -> Place:
    """Return the best place along a step, or the same if there is none."""
    ray = _Ray(space, place, D, DK)
    length = best_step(ray, (place.value, -2.0 * gain), LOOSE)
    return ray.at(length) if length > 0 else place


class _Ray:
    """F along a step."""

    def __init__(self, space: RowSpace, place: Place, D: Array, DK: Array) -> None:
        self._space, self._place, self._D = space, place, D
        self._slopes = space.potentials(DK)
        weighted = space.ridge * DK
        self._linear, self._square = float(np.vdot(place.Z, weighted)), float(np.vdot(D, weighted))
        self._last: tuple[float, Place] = 0.0, place

    def at(self, a: float) -> Place:
        """Return the place so far along it."""
        if self._last[0] != a:
            of_penalty = self._place.of_penalty + a * self._linear + 0.5 * a * a * self._square
            Z, scores = self._place.Z + a * self._D, self._place.scores + a * self._slopes
            self._last = a, Place.of(self._space, Z, scores, of_penalty)
        return self._last[1]

    def value_and_slope(self, a: float) -> tuple[float, float]:
        """Return F there and its derivative."""
        there = self.at(a)
        return there.value, float(np.vdot(there.residual, self._slopes)) + self._linear + a * self._square
