"""Stochastic bound majorization (SBM), full rank: Algorithm 2 of the paper, corrected.

For each mini-batch of m out of t rows, with g_j the mean of the features under the model,

    M ← (M⁻¹ + Σ_b Σ_j)⁻¹,      μ ← μ + Σ_b (g_j − f_j(y_j)) + m λθ/t,      θ ← θ − η M μ.

The paper's φ is always Mμ, so it is not kept. Two corrections: −f_j(y_j) + λθ/t enters once per row, not once
per outcome (E1), and μ is the gradient of what is minimised (E8). As printed, M and μ are never reset, and stale
gradients make θ overshoot (E2, E7); ``restart=True`` forgets them at each pass.

**One row at a time, without d×d traffic per outcome.** The n−1 rank-one updates of a row are one update by
W_j = C⁻¹LΦ_jM, with CCᵀ = I + LΦ_jMΦ_jᵀLᵀ. They can be delayed, M = M₀ − WᵀW with a few pending rows W, and
flushed by one matrix product; and Φ_jM₀ does not depend on θ, so it is found for many rows ahead by another. What
remains per row is one product M₀μ. The iterates are those of the rank-one loop, to rounding.

References
----------
Choromanska & Jebara, *Stochastic Bound Majorization*, 2013, Algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg.blas import dsymv

from majorant import kernels
from majorant._checks import Array, positive
from majorant.curvature.dense import refuse_large
from majorant.curvature.woodbury import whiten
from majorant.objective import Objective
from majorant.solvers.sampling import StochasticSolver, StochasticState

# Pending rows of W before they are flushed into M: as few as keep the flush a real matrix product.
PENDING = 96


@dataclass(frozen=True, eq=False, kw_only=True)
class MajorizationState(StochasticState):
    """M, the inverse of the curvature gathered so far, and μ, the gradients gathered so far."""

    M: Array
    mu: Array


@dataclass(frozen=True, kw_only=True)
class StochasticMajorization(StochasticSolver[MajorizationState]):
    """The paper's stochastic algorithm with a full d×d matrix. Cost: O(nd²) a row.

    Parameters
    ----------
    step_size : float, optional
        η; m/t if not given (1/t for one row at a time, as in the paper).
    restart : bool
        Whether M and μ start afresh at each pass. The paper's do not.

    Notes
    -----
    Outcomes are visited in the model's ``order``; the paper's is ``Multinomial(n, order="given")``. The penalty
    has to be positive, since M starts as I/λ.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> F = majorant.Objective(majorant.Multinomial(8), majorant.Labelled(X, y), ridge=1.0)
    >>> solution = majorant.minimize(F, StochasticMajorization(restart=True), max_steps=5)
    >>> bool((solution.trace["objective"][1:] < solution.trace["objective"][0]).all())
    True
    """

    step_size: float | None = None
    restart: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step_size is not None:
            positive("step_size", self.step_size)

    def start(self, objective: Objective, theta: Array) -> MajorizationState:
        """Return the state at θ, with no curvature but the penalty's."""
        refuse_large(objective.size, "full-rank stochastic majorization")
        refuse_zero_ridge(objective)
        return MajorizationState(theta=theta, M=np.diag(1 / objective.penalty.as_prior()), mu=np.zeros(objective.size))

    def begin_pass(self, objective: Objective, state: MajorizationState) -> MajorizationState:
        """Return the state without M and μ, if restarting."""
        if not self.restart:
            return state
        return replace(self.start(objective, state.theta), visited=state.visited)

    def visit(self, objective: Objective, state: MajorizationState, rows: Any) -> MajorizationState:
        """Return the state after the mini-batches of ``rows``."""
        visit = self._visit_rows if self.rows_per_batch(objective) == 1 else self._visit_batches
        theta, M, mu = visit(objective, state.theta.copy(), state.M.copy(), state.mu.copy(), rows)
        return replace(state, theta=theta, M=M, mu=mu)

    def _visit_batches(
        self, objective: Objective, θ: Array, M: Array, μ: Array, rows: Any
    ) -> tuple[Array, Array, Array]:
        model, t = objective.model, objective.rows
        for batch in rows.batches(self.rows_per_batch(objective)):
            scores = model.scores(θ, batch)
            μ += model.lift(model.loss_and_residual(scores, batch)[1], batch)
            μ += len(batch) / t * objective.ridge * θ
            for Q in model.bound_factors(scores, batch).rows():
                W = whiten(Q, Q @ M)
                M -= W.T @ W
            θ -= self._step_size(len(batch), t) * (M @ μ)
        return θ, M, μ

    def _visit_rows(self, objective: Objective, θ: Array, M: Array, μ: Array, rows: Any) -> tuple[Array, Array, Array]:
        n = objective.model.as_rows().scores_per_row(rows)
        W, update = np.empty((max(PENDING, 2 * n), objective.size)), np.empty_like(M)
        for block in rows.batches(max(PENDING // max(n - 1, 1), 1)):
            pending = _visit_block(objective, θ, M, μ, block, W, self._step_size(1, objective.rows))
            M -= np.matmul(pending.T, pending, out=update)
        return θ, M, μ

    def _step_size(self, rows: int, t: int) -> float:
        return rows / t if self.step_size is None else self.step_size


def _visit_block(objective: Objective, θ: Array, M: Array, μ: Array, block: Any, W: Array, η: float) -> Array:
    """Visit the rows of a block one at a time, updating θ and μ in place; return the rows of W then pending on M."""
    model, shrink = objective.model.as_rows(), objective.ridge / objective.rows
    Φ, ΦM, target = model.score_rows(block), model.through(M, block), model.targets(block)
    log_h = model.add_measure(np.zeros_like(model.potentials(θ, block)), block).ravel()
    weights, descending, k = model.score_weights(block), model.order == "descending", 0
    for at in model.row_slices(block):
        Φ_j, w = Φ[at], weights[at.start]
        scores = Φ_j @ θ + log_h[at]
        L, p = kernels.partition_compiled.row_bound(scores, descending, model.against_zero)
        L *= np.sqrt(w)
        V = ΦM[at] - (Φ_j @ W[:k].T) @ W[:k]
        W[k : k + len(L)] = whiten(L @ Φ_j, L @ V)
        k += len(L)
        μ += w * ((p - model.row_target(target[at], scores)) @ Φ_j) + shrink * θ
        pending = W[:k]
        θ -= η * (dsymv(1.0, M.T, μ) - (pending @ μ) @ pending)
    return W[:k]


def refuse_zero_ridge(objective: Objective) -> None:
    """Raise where the inverse of the penalty does not exist."""
    if not (objective.penalty.as_prior() > 0).all():
        raise ValueError(
            f"stochastic majorization starts from M = I/λ and needs ridge > 0, got {np.min(objective.ridge):g}; "
            "use BatchMajorization without a penalty"
        )
