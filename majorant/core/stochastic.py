"""What stochastic solvers share: which rows come next, and how often to report.

Stochastic gradient descent with the gains of the paper: the opponents that need tuning.

References
----------
Choromanska & Jebara, *Stochastic Bound Majorization*, 2013, section 2.1.

Stochastic bound majorization (SBM), full rank: Algorithm 2 of the paper, corrected.

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

Stochastic bound majorization (SBM), low rank: the same algorithm with Σ ⪯ VᵀSV + D.

The d×d matrix of the full-rank algorithm becomes k rows and a diagonal, absorbed term by term (corrected, so that it
still dominates: E3) and inverted by Woodbury's identity (with its minus: E6).

References
----------
Choromanska & Jebara, *Stochastic Bound Majorization*, 2013, section 3.2.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from scipy.linalg.blas import dsymv

from majorant.core import kernels
from majorant.core.checks import Array, one_of, positive, whole, with_parameters_of
from majorant.core.curvature import refuse_large
from majorant.core.objective import Objective
from majorant.core.rows import Order
from majorant.core.solver import State, SteppingSolver
from majorant.core.structured import LowRank, whiten


@dataclass(frozen=True, eq=False, kw_only=True)
class StochasticState(State):
    """A state after so many draws. F and its gradient are left to whoever asks: the solver never sees them."""

    visited: int = 0


S = TypeVar("S", bound=StochasticState)


@dataclass(frozen=True, kw_only=True)
class StochasticSolver(SteppingSolver[S]):
    """Visits mini-batches. A pass is as many draws as there are rows; a step ends where a report is due.

    Parameters
    ----------
    batch_size : int
        Rows m of a mini-batch; the last one of a pass may be smaller.
    replacement : bool
        Whether rows are drawn with replacement. Without, each pass visits every row once.
    shuffle : bool
        Whether the order of the rows is drawn anew for each pass; False visits them as they stand.
    seed : int
        Of what is drawn: the same seed gives the same run, whole or resumed.
    report_every : float
        Passes between two entries of the trace, at most 1.
    """

    batch_size: int | None = 1
    replacement: bool = False
    shuffle: bool = True
    seed: int = 0
    report_every: float = 1.0

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.__doc__ = with_parameters_of(StochasticSolver.__doc__, cls.__doc__)

    def __post_init__(self) -> None:
        if self.batch_size is not None:
            whole("batch_size", self.batch_size, least=1)
        if not 0 < self.report_every <= 1:
            raise ValueError(f"report_every must be above 0 and at most 1 pass, got {self.report_every}")

    @abstractmethod
    def visit(self, objective: Objective, state: S, rows: Any) -> S:
        """Return the state after visiting ``rows``, mini-batch by mini-batch; all are of one pass."""

    def rows_per_batch(self, objective: Objective) -> int:
        """Return m, refusing more rows than there are."""
        m, t = self.batch_size or 1, objective.rows
        if m > t:
            raise ValueError(f"batch_size must not exceed the number of rows ({t}), got {m}")
        return m

    def begin_pass(self, objective: Objective, state: S) -> S:
        """Return the state as the next pass finds it."""
        return state

    def step(self, objective: Objective, state: S) -> S:
        """Return the state at the next report, or at the end of the pass if that is sooner."""
        objective.model.as_rows()
        t, m = objective.rows, self.rows_per_batch(objective)
        passes, position = divmod(state.visited, t)
        if position == 0:
            state = self.begin_pass(objective, state)
        order = Order(self.seed, self.shuffle, self.replacement)
        per_report = max(round(self.report_every * t / m), 1) * m if self.report_every < 1 else t
        end = min(position + per_report, t)
        for rows in objective.data.visits(order, passes, position, end, m):
            state = self.visit(objective, state, rows)
            state = replace(state, visited=state.visited + len(rows), point=None)
            objective.spend(passes=len(rows) / t)
        return state


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
    """Descend by compiled loops where rows and penalty have the form for it, through the model's surface if not.

    All classes need the same penalty, and of sparse rows all columns that are not free of it: those are scaled as one.
    The sparse kernel costs as much as there are non-zeros.
    """
    model, penalty, hard = objective.model, objective.penalty, objective.model.single_label_rows(rows)
    prior = penalty.prior
    if hard is not None and prior is not None:
        λ, W = prior.reshape(-1, hard.shape[1]), theta.reshape(-1, hard.shape[1])
        decay, of_rows = λ[0] / objective.rows, (hard.y, hard.weight, hard.offset)
        if (λ == λ[0]).all() and not hard.is_sparse:
            W = W.copy()
            kernels.stochastic.dense_pass(hard.dense(), *of_rows, W, gains, m, decay)
            return W.ravel()
        if (λ == λ[0]).all() and np.isin(λ[0], (0.0, λ[0].max())).all():
            U, most = W.T.copy(), float(decay.max())
            kernels.stochastic.csr_pass(hard.csr(), *of_rows, U, gains, m, most, decay < most)
            return U.T.ravel()
    for gain, batch in zip(gains, rows.batches(m), strict=True):
        of_loss = model.lift(model.loss_and_residual(model.scores(theta, batch), batch)[1], batch)
        theta = theta - gain * (of_loss + len(batch) / objective.rows * penalty.gradient(theta))
    return theta


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
        model, t, m = objective.model, objective.rows, self.rows_per_batch(objective)
        θ, M, μ = state.theta.copy(), state.M.copy(), state.mu.copy()
        if m == 1:
            self._visit_rows(objective, θ, M, μ, rows)
            return replace(state, theta=θ, M=M, mu=μ)
        for batch in rows.batches(m):
            scores = model.scores(θ, batch)
            μ += model.lift(model.loss_and_residual(scores, batch)[1], batch)
            μ += len(batch) / t * objective.ridge * θ
            for Q in model.bound_factors(scores, batch).rows():
                W = whiten(Q, Q @ M)
                M -= W.T @ W
            θ -= (len(batch) / t if self.step_size is None else self.step_size) * (M @ μ)
        return replace(state, theta=θ, M=M, mu=μ)

    def _visit_rows(self, objective: Objective, θ: Array, M: Array, μ: Array, rows: Any) -> None:
        """Visit rows one at a time, updating θ, M and μ in place; rows of W are left pending on M within a block."""
        model, shrink = objective.model.as_rows(), objective.ridge / objective.rows
        n, η = model.scores_per_row(rows), 1 / objective.rows if self.step_size is None else self.step_size
        W, update = np.empty((max(PENDING, 2 * n), objective.size)), np.empty_like(M)
        for block in rows.batches(max(PENDING // max(n - 1, 1), 1)):
            Φ, ΦM, target = model.score_rows(block), model.through(M, block), model.targets(block)
            log_h = model.add_measure(np.zeros_like(model.potentials(θ, block)), block).ravel()
            weights, descending, k = model.score_weights(block), model.order == "descending", 0
            for at in model.row_slices(block):
                Φ_j, w = Φ[at], weights[at.start]
                scores = Φ_j @ θ + log_h[at]
                L, p = kernels.stochastic.row_bound(scores, descending, model.against_zero)
                L *= np.sqrt(w)
                V = ΦM[at] - (Φ_j @ W[:k].T) @ W[:k]
                W[k : k + len(L)] = whiten(L @ Φ_j, L @ V)
                k += len(L)
                μ += w * ((p - model.row_target(target[at], scores)) @ Φ_j) + shrink * θ
                pending = W[:k]
                θ -= η * (dsymv(1.0, M.T, μ) - (pending @ μ) @ pending)
            M -= np.matmul(W[:k].T, W[:k], out=update)


def refuse_zero_ridge(objective: Objective) -> None:
    """Raise where the inverse of the penalty does not exist."""
    if not (objective.penalty.as_prior() > 0).all():
        raise ValueError(
            f"stochastic majorization starts from M = I/λ and needs ridge > 0, got {np.min(objective.ridge):g}; "
            "use BatchMajorization without a penalty"
        )


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
        hard = objective.model.single_label_rows(rows) if self.rows_per_batch(objective) == 1 else None
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
            kernels.stochastic.diagonal_rows(*batch, θ, μ, D, η, shrink)
        else:
            kernels.stochastic.low_rank_rows(*batch, θ, μ, V, S, D, η, shrink)
        return replace(state, theta=θ, mu=μ, curvature=LowRank(V, S, D, majorizes=True))
