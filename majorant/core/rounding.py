"""How far rounding may have moved scores, losses and gradients: what a certificate has to allow for.

Scores are sums over p columns, gradients sums over t rows. Rounding errors are taken to be independent, so that those
of a sum of k terms grow like √k, and twice that is allowed for; if all k conspired it would not be enough. With column
norms ‖x_i‖ and Cauchy's inequality the errors of all scores, as a vector over rows, are then at most

    δ_c = ε (2√p Σ_i |W_ci| ‖x_i‖ + ‖offset‖),

they move residuals by at most ½ max_j w_j ‖δ‖, and coefficient i of the gradient by that times ‖x_i‖.

Of a chain j is a sequence, x_ji bounds feature i of its paths, and a score is a sum over all features of its tokens: by
a covariance under p(path) errors of at most δ_j move the mean of a feature by ½ x_ji δ_j at most.

How far apart the outcomes of a row are: max over j, y, y' of ‖Rᵀ(f_j(y) − f_j(y'))‖, which self-concordance needs.

Of several outcomes distances from their mean are found, and the two largest are added up: at most twice the truth, and
the truth of two outcomes. What is coarse takes every column for itself, Σ_i |f_i| ‖R_i‖, and a product with a vector
instead of a matrix.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import hypot, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from majorant.core.checks import Array
from majorant.core.threads import norm

if TYPE_CHECKING:
    from majorant.core.choices import Choices
    from majorant.core.labelled import Labelled
    from majorant.core.matrix import Design

EPSILON = float(np.finfo(np.float64).eps)
# Errors of a sum of k terms, in units of ε√k.
SAFETY = 2.0
# A larger share of something, such as a part of a direction, is no rounding.
CLEAR = 1e-6
# Numbers that are written out at a time: they stay in cache.
CHUNK = 2**16


class Unrest(NamedTuple):
    """How far residuals (as one vector) are off, and how many times more an error of scores moves them."""

    stirred: float = 0.0
    passed_on: float = 0.0


CALM = Unrest()


@dataclass(frozen=True)
class Magnitudes:
    """How large the numbers are that a gradient is summed from, before anything cancels. Those of blocks add."""

    rows: int
    n_columns: int
    norm: float  # of the whole matrix
    weights: float  # the norm of those of the rows
    heaviest: float  # of them
    measure: float  # the norm of what is added to the scores
    columns: Array | None = None  # norms, once they are known: they may take longer to find
    terms: int = 0  # that a score is a sum of, where these are not columns
    groups: Array | None = None  # where groups of parameters begin, of which a score has one at a time

    @classmethod
    def of(cls, design: Design, weight: Array | None, measure: float) -> Magnitudes:
        """Return those of a block."""
        t, p = design.shape
        weights, heaviest = (sqrt(t), 1.0) if weight is None else (norm(weight), float(weight.max()))
        return cls(t, p, design.frobenius_norm(), weights, heaviest, measure)

    def __add__(self, other: Magnitudes) -> Magnitudes:
        return Magnitudes(
            self.rows + other.rows,
            self.n_columns,
            hypot(self.norm, other.norm),
            hypot(self.weights, other.weights),
            max(self.heaviest, other.heaviest),
            hypot(self.measure, other.measure),
            None if self.columns is None or other.columns is None else np.hypot(self.columns, other.columns),
            max(self.terms, other.terms),
            self.groups,
        )

    def of_scores(self, theta: Array, epsilon: float) -> Array:
        """Return how far the scores of each class may be off, as the norm over rows."""
        assert self.columns is not None
        W = np.abs(theta).reshape(-1, self.n_columns)
        if self.groups is None:
            return epsilon * (self._of_terms * (W @ self.columns) + self.measure)
        largest = np.maximum.reduceat(W * self.columns, self.groups, axis=1).sum(axis=1)
        return epsilon * (self._of_terms * largest + self.measure)

    def of_loss(self, theta: Array, epsilon: float) -> float:
        """Return how far the loss may be off."""
        return self.weights * float(self.of_scores(theta, epsilon).sum())

    def of_gradient(self, theta: Array, epsilon: float, unrest: Unrest = CALM) -> Array:
        """Return how far each coefficient of the gradient may be off, also if residuals are."""
        assert self.columns is not None
        of_residuals = self._of_residuals(norm(self.of_scores(theta, epsilon)), epsilon, unrest)
        return np.tile(of_residuals * self.columns, len(theta) // self.n_columns)

    def at_most(self, theta: Array, epsilon: float, unrest: Unrest = CALM) -> tuple[float, float]:
        """Return how far loss and gradient (its norm) may be off at any θ of this norm: coarser, but at no cost."""
        classes = len(theta) // self.n_columns
        of_scores = epsilon * (self._of_terms * norm(theta) * self.norm + sqrt(classes) * self.measure)
        of_gradient = self._of_residuals(of_scores, epsilon, unrest) * self.norm * sqrt(classes)
        return self.weights * sqrt(classes) * of_scores, of_gradient

    @property
    def _of_terms(self) -> float:
        """Errors of a sum as long as scores are, in units of ε."""
        return SAFETY * sqrt(self.terms or self.n_columns)

    def _of_residuals(self, of_scores: float, epsilon: float, unrest: Unrest) -> float:
        of_sums = epsilon * SAFETY * sqrt(2.0 * self.rows) * self.weights
        return (1 + unrest.passed_on) * 0.5 * self.heaviest * of_scores + unrest.stirred + of_sums


class Spreads(ABC):
    """The largest distance between outcomes of a row that counts, in the metric of a root R (d×k)."""

    @abstractmethod
    def exact(self, batch: Labelled | Choices) -> float:
        """Return it, or the two largest distances from the mean of more than two outcomes."""

    @abstractmethod
    def coarse(self, batch: Labelled | Choices) -> float:
        """Return an upper bound that takes about a pass over the rows."""


@dataclass(frozen=True, eq=False)
class ClassSpreads(Spreads):
    """Those of f(x, y) = e_y ⊗ x: one root for each class, less the mean of all, or one alone against zero."""

    roots: tuple[Array, ...]  # each p×k

    @classmethod
    def of(cls, root: Array, classes: int) -> ClassSpreads:
        """Return those of a root (np×k)."""
        if classes == 1:
            return cls((root,))
        by_class = root.reshape(classes, len(root) // classes, root.shape[1])
        return cls(tuple(by_class - by_class.mean(axis=0)))

    def exact(self, batch: Labelled) -> float:  # type: ignore[override]
        """Return the sum of the two largest ‖R_cᵀx‖ of a row, or the largest where there is one."""
        stored, roots = int(batch.design.density * batch.n_features), self.triangles
        width = max(max(root.shape[1] for root in roots), stored, 1)
        largest, step = 0.0, max(CHUNK // width, 128)
        for some in (slice(start, start + step) for start in range(0, len(batch), step)):
            design = batch.design.part(some)
            projected = (design.project(root.T) for root in roots)
            squares = np.stack([np.einsum("ij,ij->j", each, each) for each in projected])
            largest = max(largest, _largest(np.sqrt(squares), None if batch.weight is None else batch.weight[some]))
        return largest

    @cached_property
    def triangles(self) -> tuple[Array, ...]:
        """T_c of R_cᵀ = QT_c, with ‖R_cᵀx‖ = ‖T_c x‖: no more than p columns, and not np."""
        if len(self.roots) == 1 or not self.roots[0].shape[1]:
            return self.roots
        factors: list[Any] = [np.linalg.qr(root.T, mode="r") for root in self.roots]
        return tuple(factor.T for factor in factors)

    def coarse(self, batch: Labelled) -> float:  # type: ignore[override]
        """Return the same of Σ_i |x_i| ‖R_ci‖."""
        sizes = np.stack([np.linalg.norm(root, axis=1) for root in self.roots])
        return _largest(batch.design.absolute()[0].project(sizes), batch.weight)


@dataclass(frozen=True, eq=False)
class ChoiceSpreads(Spreads):
    """Those of outcomes that are written out."""

    root: Array  # d×k

    def exact(self, batch: Choices) -> float:  # type: ignore[override]
        """Return the sum of the two largest distances from the mean of a set."""
        largest = 0.0
        for part in self._parts(batch, self.root.shape[1]):
            V, possible, weight = part.design.times(self.root), _possible(part), part.weight
            counts = np.maximum(np.add.reduceat(possible.astype(np.float64), part.indptr[:-1]), 1.0)
            means = np.add.reduceat(np.where(possible[:, None], V, 0.0), part.indptr[:-1]) / counts[:, None]
            off = np.sqrt(np.square(V - np.repeat(means, part.sizes, axis=0)).sum(axis=1))
            off[~possible] = 0.0
            for sets, at in part.by_size:
                of_sets = _largest(off[at], None if weight is None else weight[sets], against_zero=False)
                largest = max(largest, of_sets)
        return largest

    def coarse(self, batch: Choices) -> float:  # type: ignore[override]
        """Return the largest Σ_i (max_y f_i − min_y f_i) ‖R_i‖."""
        largest, sizes = 0.0, np.linalg.norm(self.root, axis=1)
        for part in self._parts(batch, self.root.shape[0]):
            X, whole, possible = part.design.dense(), part.log_measure is None, _possible(part)
            for sets, at in part.by_size:  # which is faster than reductions over sets of any size
                F, closed = X[at], None if whole else ~possible[at][:, :, None]
                highest = (F if closed is None else np.where(closed, -np.inf, F)).max(axis=0)
                lowest = (F if closed is None else np.where(closed, np.inf, F)).min(axis=0)
                weight = None if part.weight is None else part.weight[sets]
                largest = max(largest, _largest(((highest - lowest) @ sizes)[None], weight))
        return largest

    @staticmethod
    def _parts(batch: Choices, width: int) -> Iterator[Choices]:
        per_set = max(int(batch.indptr[-1]) * max(width, 1) // len(batch), 1)
        return iter(batch.batches(max(CHUNK // per_set, 1)))


def _possible(batch: Choices) -> Array:
    if batch.log_measure is None:
        return np.ones(int(batch.indptr[-1]), dtype=bool)
    return ~np.isneginf(batch.log_measure)


def _largest(distances: Array, weight: Array | None, *, against_zero: bool = True) -> float:
    """Return the largest sum of the two largest distances of a row that counts; one alone stands against zero."""
    if len(distances) == 1:
        each = distances[0] if against_zero else np.zeros(distances.shape[1])
    else:
        each = np.partition(distances, -2, axis=0)[-2:].sum(axis=0)
    return float((each if weight is None else each[weight > 0]).max(initial=0.0))
