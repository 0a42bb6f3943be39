"""How far rounding may have moved scores, losses and gradients: what a certificate has to allow for.

Scores are sums over p columns, gradients sums over t rows. Rounding errors are taken to be independent, so that those
of a sum of k terms grow like √k, and twice that is allowed for; if all k conspired it would not be enough. With column
norms ‖x_i‖ and Cauchy's inequality the errors of all scores, as a vector over rows, are then at most

    δ_c = ε (2√p Σ_i |W_ci| ‖x_i‖ + ‖offset‖),

they move residuals by at most ½ max_j w_j ‖δ‖, and coefficient i of the gradient by that times ‖x_i‖.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np

from majorant._checks import Array

# Errors of a sum of k terms, in units of ε√k.
SAFETY = 2.0


@dataclass(frozen=True)
class Magnitudes:
    """How large the numbers are that a gradient is summed from, before anything cancels."""

    shape: tuple[int, int]  # of the design matrix
    norm: float  # of the whole matrix
    find_columns: Callable[[], Array]  # and of its columns, which take longer to find
    weight: Array | None
    measure: float  # the norm of what is added to the scores

    @cached_property
    def columns(self) -> Array:
        """The norm of each column."""
        return self.find_columns()

    def of_scores(self, theta: Array, epsilon: float) -> Array:
        """Return how far the scores of each class may be off, as the norm over rows."""
        W = np.abs(theta).reshape(-1, self.shape[1])
        return epsilon * (SAFETY * sqrt(self.shape[1]) * (W @ self.columns) + self.measure)

    def of_residuals(self, theta: Array, epsilon: float) -> float:
        """Return how far errors of scores may have moved the residuals, all together."""
        return 0.5 * self._heaviest * float(np.linalg.norm(self.of_scores(theta, epsilon)))

    def of_loss(self, theta: Array, epsilon: float) -> float:
        """Return how far the loss may be off."""
        return self._weights * float(self.of_scores(theta, epsilon).sum())

    def of_gradient(self, theta: Array, epsilon: float, stirred: float = 0.0) -> Array:
        """Return how far each coefficient of the gradient may be off, also if residuals (their norm) are."""
        of_residuals = self._of_residuals(float(np.linalg.norm(self.of_scores(theta, epsilon))), epsilon, stirred)
        return np.tile(of_residuals * self.columns, len(theta) // self.shape[1])

    def at_most(self, norm: float, classes: int, epsilon: float, stirred: float = 0.0) -> tuple[float, float]:
        """Return how far loss and gradient (its norm) may be off at any θ of this norm: coarser, but at no cost."""
        of_scores = epsilon * (SAFETY * sqrt(self.shape[1]) * norm * self.norm + sqrt(classes) * self.measure)
        of_gradient = self._of_residuals(of_scores, epsilon, stirred) * self.norm * sqrt(classes)
        return self._weights * sqrt(classes) * of_scores, of_gradient

    def _of_residuals(self, of_scores: float, epsilon: float, stirred: float) -> float:
        of_sums = epsilon * SAFETY * sqrt(2.0 * self.shape[0]) * self._weights
        return 0.5 * self._heaviest * of_scores + stirred + of_sums

    @cached_property
    def _weights(self) -> float:
        return float(sqrt(self.shape[0]) if self.weight is None else np.linalg.norm(self.weight))

    @cached_property
    def _heaviest(self) -> float:
        return 1.0 if self.weight is None else float(self.weight.max())
