"""Newton's method on small dense data of many classes: a start of ``majorant.core.policy`` that is the whole fit.

Of many classes the Hessian costs more than hundreds of products with it, and where a step takes a millisecond the
general rules cost as much as what they choose between. So here is one way for all: each step is Newton's direction, by
conjugate gradients in a metric, and a line search.

1. Products with the Hessian are those of X in single precision, of the rows that carry 99.9 % of the curvature: where
   most rows are sure of their labels, which is what weak penalties lead to, few are left.
2. The metric is C ⊗ G + λ with C between classes and G the Gram matrix of the columns, weighted by what the rows carry.
   It is found at every third step.
3. F, its gradient and the line search are in double precision, of all rows.

Rounding and left-out rows only turn a direction, which is checked to descend. Where a step finds nothing better the
general rules go on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from majorant.core.certificates import LEAST_NORMAL
from majorant.core.checks import Array
from majorant.core.line_search import Point, best_step
from majorant.core.matrix import DenseDesign
from majorant.core.model import Model, weigh, weights_of
from majorant.core.objective import Objective
from majorant.core.preconditioners import StartResult
from majorant.core.quasi_newton import MOST_STEPS, conjugate_gradients
from majorant.core.rows import LocalBlocks, OneBlock
from majorant.core.solver import improves
from majorant.core.threads import empty, norm

# Rows, and rows × columns × classes, up to which this is faster than the general rules.
MOST_ROWS, MOST_NUMBERS = 2**13, 2**21
# Parameters from which products cost less than the Hessian; columns for each class up to which they cost more than G.
LEAST_PARAMETERS, COLUMNS_PER_CLASS = 200, 16
# The share of the curvature that the rows of a product carry, and the steps that a metric serves.
SHARE, STEPS = 0.999, 3
# What is added to the diagonal of a metric, beside curvatures of about one: single precision tells no less.
SMALL = np.float32(1e-6)
# Products of a step stop once the last has gained less than this share of what they gained on average.
WORTH = 0.1
# The share of its first slope that F may have left along a direction.
FLAT = 0.25


def suits(F: Objective) -> bool:
    """Return whether F is a small problem of dense rows in double precision that strong convexity certifies."""
    model, like = F.model, F.like
    if F.whole is None or F.rows > MOST_ROWS or F.rows * F.size > MOST_NUMBERS or F.penalty.prior is None:
        return False
    if not (isinstance(F.blocks, OneBlock | LocalBlocks) and model.has_rows and F.size >= LEAST_PARAMETERS):
        return False
    classes = model.classes(like)
    if classes < 3 or F.size > COLUMNS_PER_CLASS * classes**2:
        return False
    design = model.as_rows().design(like)
    is_dense = isinstance(design, DenseDesign) and design.dtype == np.float64
    return bool(is_dense and model.has_products(like) and F.certifiable)


class Line:
    """F along a direction, of one block of rows whose scores and their slopes are known."""

    def __init__(self, model: Model[Any], batch: Any, scores: Array, slopes: Array, penalty: Any) -> None:
        self._model, self._batch, self._scores, self._slopes, self._penalty = model, batch, scores, slopes, penalty
        self._last: tuple[float, float, Array, Array] | None = None

    def value_and_slope(self, a: float) -> tuple[float, float]:
        """Return F(θ + aδ) and its derivative with respect to a."""
        there = self._scores + a * self._slopes
        loss, residual = self._model.loss_and_residual(there, self._batch)
        of_penalty = self._penalty(a)
        self._last = a, loss + of_penalty[0], residual, there
        return self._last[1], float(np.vdot(residual, self._slopes)) + of_penalty[1]

    def at(self, a: float) -> tuple[float, Array, Array]:
        """Return F, residuals and scores there."""
        if self._last is None or self._last[0] != a:
            self.value_and_slope(a)
        return self._last[1:]  # type: ignore[index]


@dataclass(frozen=True, eq=False)
class SmallNewton:
    """What steps know: the rows in single precision, each column in a unit of its own, and a metric.

    ``inverses`` are those of the metric for some eigenvalues of C, ``which`` says which of them is for which, and
    ``rotation`` has the eigenvectors.
    """

    LEFT_OUT: ClassVar[frozenset[str]] = frozenset({"narrow", "unit", "residual"})

    narrow: Array  # X (t×p) in single precision and in units
    unit: Array  # (p,)
    residual: Array | None = None  # at the latest point
    inverses: Array | None = None
    which: Array | None = None
    rotation: Array | None = None
    age: int = 0  # of the metric, in steps

    name: ClassVar[str] = "products with the Hessian in single precision"

    @classmethod
    def of(cls, F: Objective) -> SmallNewton:
        """Return what the data say. Units make the curvature at zero, with the penalty, about one for each column."""
        design, p, shift = F.whole.design, F.whole.n_features, F.whole.design.shift
        curvature = design.pull_back_squares(0.25 * weights_of(F.whole)[None])[0] + F.ridge.reshape(-1, p).mean(axis=0)
        unit = 1.0 / np.sqrt(np.where(curvature > 0, curvature, 1.0))
        narrow, X, columns = empty(design.shape, np.float32), design.numbers, design.numbers.shape[1]
        narrow[:, columns:] = unit[columns:]
        if shift is not None:
            X = np.subtract(X, shift, out=narrow[:, :columns], casting="same_kind")
        np.multiply(X, unit[:columns], out=narrow[:, :columns], casting="same_kind")
        return cls(narrow, unit)

    def revived(self, objective: Objective) -> SmallNewton:
        """Return the same with what the data have of it."""
        found = SmallNewton.of(objective)
        return replace(self, **{name: getattr(found, name) for name in self.LEFT_OUT})

    def carried(self) -> SmallNewton:
        """Return the same for another penalty and another point."""
        return replace(self, residual=None, inverses=None)

    def go_on(self, F: Objective, here: Point | None, seed: int) -> StartResult:
        """Return the point after a Newton step; where there is none that is better, the general rules go on."""
        assert here is not None
        model: Any = F.model  # of classes
        batch, (t, p) = F.whole, self.narrow.shape
        n, scores = F.size // p, here.scores[0] if len(here.scores) == 1 else np.concatenate(here.scores, axis=1)

        # The rows that carry the curvature, which is B ⊗ xxᵀ of each, B = w (diag(q) − qqᵀ).
        residual = model.loss_and_residual(scores, batch)[1] if self.residual is None else self.residual
        q, w = model._hessian_weights_of(residual, batch), batch.weight
        carried = weigh((q * (1.0 - q)).sum(axis=0), w)
        sizes = np.sort(carried)[::-1]
        sums = np.cumsum(sizes)
        some = np.flatnonzero(carried >= sizes[min(int(np.searchsorted(sums, SHARE * sums[-1])), t - 1)])
        x, carried = self.narrow, carried.astype(np.float32)
        if 4 * len(some) < 3 * t:
            x = np.take(x, some, axis=0, out=empty((len(some), p), np.float32), mode="clip")
            q, carried, w = q[:, some], carried[some], None if w is None else w[some]
        q, w = q.astype(np.float32), None if w is None else w.astype(np.float32)
        unit = np.tile(self.unit, n)
        λ = (F.ridge * unit * unit).astype(np.float32).reshape(n, p)

        # The metric, found anew every few steps. Eigenvalues of C within a factor of two share an inverse.
        inverses, which, rotation, age = self.inverses, self.which, self.rotation, self.age
        if inverses is None or age >= STEPS:
            root = x * np.sqrt(carried)[:, None]
            G, C = np.dot(root.T, root), -np.dot(weigh(q, w), q.T).astype(np.float64)
            np.fill_diagonal(C, 0.0)
            np.fill_diagonal(C, -C.sum(axis=1))
            of_classes, rotation = np.linalg.eigh(C / max(float(np.trace(C)), LEAST_NORMAL))  # the trace of B is in G
            levels, which = np.unique(np.round(np.log2(np.maximum(of_classes, SMALL))), return_inverse=True)
            systems = np.float32(2.0) ** levels.astype(np.float32)[:, None, None] * G + np.diag(λ.mean(axis=0) + SMALL)
            try:
                inverses, rotation, age = np.linalg.inv(systems), rotation.astype(np.float32), 0
            except np.linalg.LinAlgError:  # columns on wild scales
                return StartResult(here)
        assert which is not None
        assert rotation is not None

        # Newton's direction.
        def times(d: Array, _: Array) -> Array:
            """Return the product of the Hessian of these rows and a vector."""
            D = d.reshape(n, p)
            V = D @ x.T
            V *= q
            V -= q * V.sum(axis=0)
            return np.asarray((V if w is None else V * w) @ x + λ * D).ravel()

        def solve(r: Array) -> Array:
            """Return the inverse of the metric times a vector."""
            rotated = (rotation.T @ r.reshape(n, p))[:, :, None]
            return np.asarray(rotation @ np.matmul(inverses[which], rotated)[:, :, 0]).ravel()

        by = conjugate_gradients((here.gradient * unit).astype(np.float32), times, solve, worth=WORTH)
        step = by.x * unit
        F.spend(passes=by.products * len(x) / t + 1)
        if by.products >= MOST_STEPS:  # single precision tells no better
            return StartResult(here)

        # The step along it.
        line = Line(model, batch, scores, batch.design.project(step.reshape(n, p)), F.penalty.along(here.theta, step))
        length = best_step(line, (here.value, float(here.gradient @ step)), FLAT)
        if not length > 0:
            return StartResult(here)
        value, residual, there = line.at(length)
        θ, ends = here.theta + length * step, np.cumsum([part.shape[1] for part in here.scores])
        reach, known = max(here.reach, norm(here.theta), norm(θ)), True
        gradient, parts = (
            F.penalty.slope(θ, batch.design.pull_back(residual).ravel()),
            np.split(there, ends[:-1], axis=1),
        )
        new = Point(θ, value, gradient, parts, reach)
        if reach > 10 * norm(θ):  # scores that were added up from so far away have lost a digit
            new, known = F.point(θ), False
        if not improves(F, new, here):
            return StartResult(here)
        at = residual if known else None
        following = replace(self, residual=at, inverses=inverses, which=which, rotation=rotation, age=age + 1)
        return StartResult(new, continuation=following)
