"""Stochastic bound majorization (SBM), low rank: the same algorithm with Σ ⪯ VᵀSV + D.

The d×d matrix of the full-rank algorithm becomes k rows and a diagonal, absorbed term by term (corrected, so that it
still dominates: E3) and inverted by Woodbury's identity (with its minus: E6).

References
----------
Choromanska & Jebara, *Stochastic Bound Majorization*, 2013, section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from majorant import kernels
from majorant._checks import Array, positive, whole
from majorant.curvature import LowRank
from majorant.objective import Objective
from majorant.solvers.sampling import StochasticSolver, StochasticState
from majorant.solvers.stochastic import refuse_zero_ridge


@dataclass(frozen=True, eq=False, kw_only=True)
class LowRankState(StochasticState):
    """The curvature gathered so far, the ridge in its diagonal, and μ, the gradients gathered so far."""

    curvature: LowRank
    mu: Array


@dataclass(frozen=True, kw_only=True)
class LowRankStochasticMajorization(StochasticSolver[LowRankState]):
    """The paper's stochastic algorithm in O(kd) memory.

    A row costs O(kd) per outcome whatever its non-zeros, because V is dense; with rank 0 the curvature is diagonal and
    a sparse row costs as much as it has non-zeros.

    Parameters
    ----------
    rank : int
        Directions k kept besides the diagonal; 0 keeps none. The paper uses 1.
    step_size : float, optional
        η; m/t if not given. The paper tunes it for the low-rank algorithm.
    restart : bool
        Whether the curvature and μ start afresh at each pass. The paper's do not.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> F = majorant.Objective(majorant.Multinomial(8), majorant.Labelled(X, y), ridge=1.0)
    >>> solution = majorant.minimize(F, LowRankStochasticMajorization(rank=4, restart=True), max_steps=5)
    >>> bool(solution.trace["objective"][-1] < solution.trace["objective"][0])
    True
    """

    rank: int = 1
    step_size: float | None = None
    restart: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("rank", self.rank, least=0)
        if self.step_size is not None:
            positive("step_size", self.step_size)

    def start(self, objective: Objective, theta: Array) -> LowRankState:
        """Return the state at θ, with no curvature but the penalty's."""
        refuse_zero_ridge(objective)
        empty = LowRank.empty(self.rank, objective.size, majorizes=True)
        curvature = LowRank(empty.V, empty.S, objective.penalty.as_prior().copy(), majorizes=True)
        return LowRankState(theta=theta, curvature=curvature, mu=np.zeros(objective.size))

    def begin_pass(self, objective: Objective, state: LowRankState) -> LowRankState:
        """Return the state without the curvature and μ, if restarting."""
        if not self.restart:
            return state
        return replace(self.start(objective, state.theta), visited=state.visited)

    def visit(self, objective: Objective, state: LowRankState, rows: Any) -> LowRankState:
        """Return the state after the mini-batches of ``rows``."""
        hard = objective.model.hard_rows(rows) if self.rows_per_batch(objective) == 1 else None
        if hard is not None:
            return self._visit_rows(objective, state, hard)
        for batch in rows.batches(self.rows_per_batch(objective)):
            state = self._visit_batch(objective, state, batch)
        return state

    def _visit_batch(self, objective: Objective, state: LowRankState, batch: Any) -> LowRankState:
        model, t, θ = objective.model, objective.rows, state.theta
        scores = model.scores(θ, batch)
        gradient = model.lift(model.loss_and_residual(scores, batch)[1], batch)
        μ = state.mu + gradient + len(batch) / t * objective.ridge * θ
        curvature = state.curvature
        for Q in model.bound_factors(scores, batch).rows():
            curvature = curvature.absorb(Q)
        η = len(batch) / t if self.step_size is None else self.step_size
        return replace(state, theta=θ - η * curvature.solve(μ), curvature=curvature, mu=μ)

    def _visit_rows(self, objective: Objective, state: LowRankState, rows: Any) -> LowRankState:
        t, Σ = objective.rows, state.curvature
        θ, μ, V, S, D = (array.copy() for array in (state.theta, state.mu, Σ.V, Σ.S, Σ.D))
        η, shrink = 1 / t if self.step_size is None else self.step_size, objective.ridge / t
        descending = objective.model.as_rows().order == "descending"
        batch = (rows.csr(), rows.y, rows.weight, rows.offset, descending)
        if self.rank == 0:
            kernels.low_rank.diagonal_rows(*batch, θ, μ, D, η, shrink)
        else:
            kernels.low_rank.low_rank_rows(*batch, θ, μ, V, S, D, η, shrink)
        return replace(state, theta=θ, mu=μ, curvature=LowRank(V, S, D, majorizes=True))
