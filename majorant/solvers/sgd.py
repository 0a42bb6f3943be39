"""Stochastic gradient descent with the gains of the paper: the opponents that need tuning.

References
----------
Choromanska & Jebara, *Stochastic Bound Majorization*, 2013, section 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from majorant import kernels
from majorant._checks import Array, one_of, positive
from majorant.objective import Objective
from majorant.solvers.sampling import StochasticSolver, StochasticState

SCHEDULES = ("constant", "adaptive", "inverse")


@dataclass(frozen=True, eq=False, kw_only=True)
class SGDState(StochasticState):
    """Parameters, and how many mini-batches were visited."""

    iterations: int = 0


@dataclass(frozen=True, kw_only=True)
class SGD(StochasticSolver[SGDState]):
    """θ ← θ − η_i Σ_{j in batch} ∇F_j, with F_j the share of row j in F.

    Parameters
    ----------
    gain : float
        η₀.
    schedule : {"constant", "adaptive", "inverse"}
        η_i = η₀ (the paper's SGD), η₀τ/(τ + i) or η₀/i (its ASGD), i = 1, 2, … counting mini-batches.
    tau : float
        τ of "adaptive".

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> F = majorant.Objective(majorant.Multinomial(8), majorant.Labelled(X, y), ridge=1.0)
    >>> solution = majorant.minimize(F, SGD(gain=0.01, batch_size=10), max_steps=3)
    >>> bool(solution.trace["objective"][-1] < solution.trace["objective"][0])
    True
    """

    gain: float
    schedule: str = "constant"
    tau: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("gain", self.gain)
        positive("tau", self.tau)
        one_of("schedule", self.schedule, SCHEDULES)

    def start(self, objective: Objective, theta: Array) -> SGDState:
        """Return the state at θ."""
        return SGDState(theta=theta)

    def visit(self, objective: Objective, state: SGDState, rows: Any) -> SGDState:
        """Return the state after the mini-batches of ``rows``."""
        m = self.rows_per_batch(objective)
        batches = -(-len(rows) // m)
        gains = self.gains(state.iterations + 1 + np.arange(batches))
        theta = _descend(objective, state.theta, rows, gains, m)
        return SGDState(theta=theta, visited=state.visited, iterations=state.iterations + batches)

    def gains(self, i: Array) -> Array:
        """Return η_i."""
        if self.schedule == "constant":
            return np.full(len(i), self.gain)
        return self.gain * (self.tau / (self.tau + i) if self.schedule == "adaptive" else 1.0 / i)


def _descend(objective: Objective, theta: Array, rows: Any, gains: Array, m: int) -> Array:
    """Descend by compiled loops where rows and penalty have the form for it, through the model's surface if not."""
    model, penalty, hard = objective.model, objective.penalty, objective.model.hard_rows(rows)
    λ = penalty.prior
    if hard is not None and λ is not None and _is_of_columns(λ.reshape(-1, hard.shape[1]), sparse=hard.is_sparse):
        return _descend_compiled(theta, hard, gains, m, λ[: hard.shape[1]] / objective.rows)
    for gain, batch in zip(gains, rows.batches(m), strict=True):
        of_loss = model.lift(model.loss_and_residual(model.scores(theta, batch), batch)[1], batch)
        theta = theta - gain * (of_loss + len(batch) / objective.rows * penalty.gradient(theta))
    return theta


def _is_of_columns(λ: Array, *, sparse: bool) -> bool:
    """Return whether all classes have the same penalty, and of sparse rows all columns that are not free of it.

    Those are scaled as one.
    """
    return bool((λ == λ[0]).all() and (not sparse or np.isin(λ[0], (0.0, λ[0].max())).all()))


def _descend_compiled(theta: Array, rows: Any, gains: Array, m: int, decay: Array) -> Array:
    """Descend on a class model; the sparse kernel costs as much as there are non-zeros."""
    W = theta.reshape(-1, rows.shape[1])
    if not rows.is_sparse:
        W = W.copy()
        kernels.sgd.dense_pass(rows.dense(), rows.y, rows.weight, rows.offset, W, gains, m, decay)
        return W.ravel()
    U, most = W.T.copy(), float(decay.max())
    kernels.sgd.csr_pass(rows.csr(), rows.y, rows.weight, rows.offset, U, gains, m, most, decay < most)
    return U.T.ravel()
