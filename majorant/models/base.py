"""The small surface every model offers, and the conventions of the package.

Conventions
-----------
*Objective.* Solvers minimise, with p_j(y) = h_j(y) exp(θᵀf_j(y)) / Z_j(θ),

    F(θ) = Σ_j w_j [ log Z_j(θ) − log h_j(y_j) − θᵀf_j(y_j) ] + (λ/2)‖θ‖².

The paper maximises J = −F. The loss is a weighted **sum** over rows, never a mean, and λ (``ridge``) is not
multiplied by the number of rows.

*Parameters.* One flat vector θ. For :class:`Multinomial` it is the n×p matrix of coefficients, row by row
(f_x(y) = e_y ⊗ x, so d = np); all n rows are kept, as in the paper. For :class:`Binary` it is one row.

*λ and C.* scikit-learn's ``C`` equals 1/λ, for :class:`Multinomial` with n ≥ 3 and for :class:`Binary`. With
``Multinomial(2)`` the optimum has θ = ±w/2, the penalty is (λ/4)‖w‖², and so C = 2/λ.

*Intercept.* None is added: append a constant column. It is penalised like any other unless its ``ridge`` is 0.

*Scores* are log-potentials log h_j(y) + θᵀf_j(y), class-major (n×t) or flat over outcomes
(:class:`Enumerated`). *Potentials* are scores without log h: they are linear in θ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sized
from typing import Any, Generic, TypeVar

import numpy as np

from majorant._checks import Array
from majorant._rounding import Magnitudes
from majorant.curvature import Factors
from majorant.kernels import design

Batch = TypeVar("Batch", bound=Sized)


# Class-space matrices (n² numbers a row) of a block of rows fit in a few megabytes; but a block has as many rows as X
# has columns, or adding up the gradients of blocks would take longer than finding them.
BLOCK = 2**20


class Model(ABC, Generic[Batch]):
    """A log-linear model p(y|x) ∝ h(y) exp(θᵀf(x, y)): frozen settings, no data, no parameters.

    What a full-gradient solver needs. :class:`RowModel` adds what solvers need that look inside a row.
    """

    @abstractmethod
    def check(self, data: Batch) -> None:
        """Raise if the data do not fit the model."""

    @abstractmethod
    def n_parameters(self, data: Batch) -> int:
        """Return d."""

    @abstractmethod
    def n_observations(self, data: Batch) -> int:
        """Return how many :meth:`hits` there are: rows, or tokens."""

    def convex(self, data: Batch) -> bool:
        """Return whether the loss is convex in θ: without that nothing can be certified."""
        return True

    @abstractmethod
    def block_rows(self, data: Batch) -> int:
        """Return how many rows to work on at a time."""

    @abstractmethod
    def precision(self, data: Batch) -> Any:
        """Return the dtype in which scores are multiplied."""

    def magnitudes(self, data: Batch) -> Magnitudes | None:
        """Return how large the numbers are that a gradient is summed from; None where they are known to be tame."""
        return None

    @abstractmethod
    def potentials(self, theta: Array, batch: Batch) -> Array:
        """Return θᵀf_j(y) for every row and outcome, or the parts that they are sums of: an array linear in θ."""

    @abstractmethod
    def add_measure(self, potentials: Array, batch: Batch) -> Array:
        """Return the scores: potentials plus log h_j(y)."""

    @abstractmethod
    def loss(self, scores: Array, batch: Batch) -> float:
        """Return Σ_j w_j [log Z_j − score of what was observed]."""

    @abstractmethod
    def loss_and_residual(self, scores: Array, batch: Batch) -> tuple[float, Array]:
        """Return the loss and its derivative with respect to the scores, w_j (p_j(y) − 1[y = y_j])."""

    @abstractmethod
    def lift(self, residual: Array, batch: Batch) -> Array:
        """Return Σ_j Σ_y residual_j(y) f_j(y) (d): a derivative on scores becomes one on parameters."""

    def loss_and_gradient(self, theta: Array, batch: Batch) -> tuple[float, Array]:
        """Return the loss and its gradient with respect to θ."""
        loss, residual = self.loss_and_residual(self.scores(theta, batch), batch)
        return loss, self.lift(residual, batch)

    @abstractmethod
    def hessian_diagonal(self, scores: Array, batch: Batch) -> Array:
        """Return the diagonal of the Hessian of the loss (d), or a metric like it."""

    @abstractmethod
    def bound_factors(self, scores: Array, batch: Batch) -> Factors:
        """Return the curvature factors of the bound of Algorithm 1."""

    @abstractmethod
    def hits(self, scores: Array, batch: Batch) -> Array:
        """Return for each row how much of what was observed is the likeliest outcome: 1 or 0, or a frequency."""

    def scores(self, theta: Array, batch: Batch) -> Array:
        """Return log h_j(y) + θᵀf_j(y) for every row and outcome."""
        return self.add_measure(self.potentials(theta, batch), batch)


class RowModel(Model[Batch]):
    """A model whose rows have few enough outcomes to be written out."""

    order: str  # in which the bound visits outcomes
    against_zero: bool = False  # whether a score stands against one of zero that is not written

    @abstractmethod
    def scores_per_row(self, data: Batch) -> int:
        """Return how many scores a row has: classes, 1 for one-row binary, the outcomes of the largest set."""

    @abstractmethod
    def design(self, data: Batch) -> Any:
        """Return the matrix that parameters are multiplied by."""

    @abstractmethod
    def hessian_factors(self, scores: Array, batch: Batch) -> Factors:
        """Return the curvature factors of the loss itself."""

    @abstractmethod
    def margins(self, scores: Array, batch: Batch) -> Array:
        """Return by how much the observed outcome beats the best other one, for each row."""

    @abstractmethod
    def score_rows(self, batch: Batch) -> Array:
        """Return Φ (scores × d), whose rows are the f_j(y) in the order of the flat scores: potentials = Φθ."""

    @abstractmethod
    def through(self, metric: Array, batch: Batch) -> Array:
        """Return Φ·metric for a d×k array, without writing Φ out."""

    @abstractmethod
    def center(self, scores: Array, batch: Batch, V: Array) -> tuple[Array, Array]:
        """Return p and V less its mean under p within each row, for V (scores × k) and flat scores.

        With H the Hessian of the loss on scores, HV = w p ∘ centered, and H = RᵀR with RV = √(wp) ∘ centered.
        """

    @abstractmethod
    def row_slices(self, batch: Batch) -> list[slice]:
        """Return for each row where its scores stand among the flat scores."""

    @abstractmethod
    def targets(self, batch: Batch) -> Array:
        """Return what was observed as flat frequencies, so that the residual is w (p − target)."""

    @abstractmethod
    def score_weights(self, batch: Batch) -> Array:
        """Return the weight of the row of each flat score."""

    def n_observations(self, data: Batch) -> int:
        """Return the rows."""
        return len(data)

    def block_rows(self, data: Batch) -> int:
        """Return enough rows for the class-space matrices to fill a few megabytes."""
        n = self.scores_per_row(data)
        return max(BLOCK // n**2, self.n_parameters(data) // n)

    def hessian_times(self, scores: Array, batch: Batch, V: Array) -> Array:
        """Return HV, with H the Hessian of the loss with respect to the flat scores."""
        p, centered = self.center(scores, batch, V)
        return (p * self.score_weights(batch))[:, None] * centered

    def hessian_root_times(self, scores: Array, batch: Batch, V: Array) -> Array:
        """Return RV with RᵀR = H."""
        p, centered = self.center(scores, batch, V)
        return np.sqrt(p * self.score_weights(batch))[:, None] * centered


def require_data(model: Model[Any], data: object, kind: type) -> None:
    """Raise a sentence where a model is given data of another kind."""
    if not isinstance(data, kind):
        raise TypeError(f"{type(model).__name__} reads {kind.__name__} data, got {type(data).__name__}")


def magnitudes(X: Any, weight: Array | None, measure: float) -> Magnitudes:
    """Return how large the numbers are that gradients on a design matrix are summed from."""
    return Magnitudes(X.shape, design.frobenius_norm(X), lambda: design.column_norms(X), weight, measure)


def weighted_sum(values: Array, weight: Array | None) -> float:
    """Return Σ_j w_j values_j."""
    return float(np.sum(values) if weight is None else weight @ values)


def weigh(values: Array, weight: Array | None) -> Array:
    """Return values whose last axis runs over rows, times the weight of each row."""
    return values if weight is None else values * weight
