"""How far rounding may have moved scores, losses and gradients: what a certificate has to allow for.

Scores are sums over p columns, gradients sums over t rows. Rounding errors are taken to be independent, so that those
of a sum of k terms grow like √k, and twice that is allowed for; if all k conspired it would not be enough. With column
norms ‖x_i‖ and Cauchy's inequality the errors of all scores, as a vector over rows, are then at most

    δ_c = ε (2√p Σ_i |W_ci| ‖x_i‖ + ‖offset‖),

they move residuals by at most ½ max_j w_j ‖δ‖, and coefficient i of the gradient by that times ‖x_i‖.

Of a chain j is a sequence, x_ji bounds feature i of its paths, and a score is a sum over all features of its tokens: by
a covariance under p(path) errors of at most δ_j move the mean of a feature by ½ x_ji δ_j at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, sqrt
from typing import NamedTuple

import numpy as np

from majorant._checks import Array
from majorant._vectors import norm
from majorant.design import Design

# Errors of a sum of k terms, in units of ε√k.
SAFETY = 2.0


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
        columns = design.column_norms() if design.finds_columns_at_once else None
        of_all = design.frobenius_norm() if columns is None else norm(columns)
        return cls(t, p, of_all, weights, heaviest, measure, columns)

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
