"""Any features f_j(y) and measures h_j(y), outcomes written out: conditional logit, ranking, maximum entropy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from majorant._checks import Array, one_of
from majorant.curvature import Factors
from majorant.curvature.dense import refuse_large
from majorant.data import Choices
from majorant.kernels import design, partition, softmax
from majorant.models.base import Model, weigh, weighted_sum

# Rows of factors made at a time, in scalars.
FACTOR_BLOCK = 2**22


@dataclass(frozen=True)
class Enumerated(Model[Choices]):
    """p_j(y) ∝ h_j(y) exp(θᵀf_j(y)) over outcome sets of any size; scores are flat over all outcomes.

    Sets of equal size are stacked class-major, so the kernels of :class:`Multinomial` serve here too.

    Parameters
    ----------
    order : {"descending", "ascending", "given"}
        In which order the bound visits the outcomes of a set.

    Examples
    --------
    >>> from majorant import Choices, Objective
    >>> F = Objective(Enumerated(), Choices([[1.0], [0.0], [2.0]], sizes=[3], chosen=[2]), ridge=1.0)
    >>> round(F.value([0.0]), 4)  # log 3
    1.0986
    """

    order: str = "descending"

    def __post_init__(self) -> None:
        one_of("order", self.order, partition.ORDERS)

    def check(self, data: Choices) -> None:
        """Accept any choices: they were checked when they were made."""

    def n_parameters(self, data: Choices) -> int:
        """Return d, the columns of the features."""
        return data.n_features

    def n_outcomes(self, data: Choices) -> int:
        """Return the size of the largest set."""
        return int(np.diff(data.indptr).max())

    def potentials(self, theta: Array, batch: Choices) -> Array:
        """Return θᵀf_j(y), flat."""
        return design.project(batch.features, theta[None])[0]

    def add_measure(self, potentials: Array, batch: Choices) -> Array:
        """Return θᵀf_j(y) + log h_j(y), flat."""
        return potentials if batch.log_measure is None else potentials + batch.log_measure

    def loss(self, scores: Array, batch: Choices) -> float:
        """Return Σ_j w_j [log Z_j − Σ_y target_j(y) s_j(y)]."""
        log_z = np.empty(len(batch))
        for sets, at in batch.by_size:
            log_z[sets] = softmax.log_partition(scores[at])
        return weighted_sum(log_z - self._observed(scores, batch), batch.weight)

    def loss_and_residual(self, scores: Array, batch: Choices) -> tuple[float, Array]:
        """Return the loss and w_j (p_j(y) − target_j(y))."""
        log_z, R = np.empty(len(batch)), -batch.target
        for sets, at in batch.by_size:
            log_z[sets], P = softmax.log_partition_and_probabilities(scores[at])
            R[at] += P
        loss = weighted_sum(log_z - self._observed(scores, batch), batch.weight)
        return loss, weigh(R, _per_outcome(batch))

    def lift(self, residual: Array, batch: Choices) -> Array:
        """Return Σ residual_j(y) f_j(y)."""
        return design.pull_back(batch.features, residual[None])[0]

    def bound_factors(self, scores: Array, batch: Choices) -> Factors:
        """Return the factors of Algorithm 1's bound."""
        kernel = partial(partition.bound_directions, order=self.order)
        return OutcomeFactors(batch.features, _block_diagonal(scores, batch, kernel), majorizes=True)

    def hessian_factors(self, scores: Array, batch: Choices) -> Factors:
        """Return the factors of the Hessian."""
        kernel = softmax.hessian_directions
        return OutcomeFactors(batch.features, _block_diagonal(scores, batch, kernel), majorizes=False)

    def margins(self, scores: Array, batch: Choices) -> Array:
        """Return the least score with a positive target minus the largest without; −∞ where targets are soft."""
        margin = np.empty(len(batch))
        for sets, at in batch.by_size:
            S, observed = scores[at], batch.target[at] > 0
            rival = np.where(observed, -np.inf, S).max(axis=0)
            margin[sets] = np.where(observed, S, np.inf).min(axis=0) - rival
            margin[sets[observed.sum(axis=0) > 1]] = -np.inf
        return margin

    def _observed(self, scores: Array, batch: Choices) -> Array:
        # 0 · (−∞) is an outcome that neither can happen nor did.
        terms = np.multiply(batch.target, scores, out=np.zeros_like(scores), where=batch.target > 0)
        return np.add.reduceat(terms, batch.indptr[:-1])


@dataclass(frozen=True)
class OutcomeFactors(Factors):
    """Σ = (L F)ᵀ(L F), with L block-diagonal: one small block from the scores of each set."""

    features: Any
    L: Any
    majorizes: bool

    def matrix(self) -> Array:
        """Return Σ by one Gram product per block of rows."""
        d = self.features.shape[1]
        refuse_large(d, "a dense curvature")
        total = np.zeros((d, d))
        for Q in self.rows():
            total += Q.T @ Q
        return total

    def rows(self) -> Iterator[Array]:
        """Yield the rows √(wβ) (f(y) − g)."""
        step = max(FACTOR_BLOCK // max(self.features.shape[1], 1), 1)
        for start in range(0, self.L.shape[0], step):
            Q = self.L[start : start + step] @ self.features
            yield np.ascontiguousarray(Q.toarray() if sp.issparse(Q) else Q, dtype=np.float64)

    def diagonal(self) -> Array:
        """Return Σ |q| ‖q‖₁."""
        sizes = (np.abs(Q) for Q in self.rows())
        return np.sum([size.T @ size.sum(axis=1) for size in sizes], axis=0)

    def kronecker(self, weigh_rows: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Refuse: outcomes with features of their own share no class structure."""
        raise ValueError(
            "Enumerated has no classes to factor out; use curvature='dense', 'low-rank' or 'diagonal'"
        )

    def fixed(self) -> tuple[Array, Array]:
        """Refuse, as :meth:`kronecker` does."""
        return self.kronecker(lambda B: B)


def _block_diagonal(scores: Array, batch: Choices, kernel: Callable[[Array], Array]) -> Any:
    """Return the directions of all sets as one sparse matrix over outcomes, rows scaled by √w."""
    entries, columns, row_lengths = [], [], []
    for sets, at in batch.by_size:
        L = weigh(kernel(scores[at]), None if batch.weight is None else np.sqrt(batch.weight[sets]))
        by_row = np.moveaxis(L, 1, 2)  # (direction, set, outcome): each row of the result is one direction
        entries.append(by_row.ravel())
        columns.append(np.broadcast_to(at.T, by_row.shape).ravel())
        row_lengths.append(np.full(by_row.shape[0] * by_row.shape[1], by_row.shape[2]))
    indptr = np.concatenate(([0], np.cumsum(np.concatenate(row_lengths))))
    parts = (np.concatenate(entries), np.concatenate(columns), indptr)
    return sp.csr_array(parts, shape=(len(indptr) - 1, len(scores)))


def _per_outcome(batch: Choices) -> Array | None:
    return None if batch.weight is None else np.repeat(batch.weight, np.diff(batch.indptr))
