"""Proximal stochastic majorization: one pass, no step size, then full-gradient steps scaled by what it has learnt.

For each mini-batch b, **solve** instead of linearising, and remember the curvature where that led:

    θ ← argmin ½‖θ' − θ‖²_A + ℓ_b(θ'),        A ← A + Hessian of ℓ_b at the new θ,        A₀ = λI, θ₀ = 0.

The penalty enters once, as the prior: so the first proximal term is centred at zero wherever one would like to start.
A is the precision of a sequential Laplace approximation of the posterior. With the bound's curvature instead of the
Hessian the early anchors are too stiff and never forgotten; with a linearised step the Hessian can blow up. Later
passes would count rows twice; instead, quasi-Newton steps on the whole objective finish from here, scaled by A⁻¹ for as
long as that serves (``majorant.solvers.finish``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from majorant._checks import Array, one_of, whole
from majorant.objective import Objective
from majorant.objective.certificates import KnownHessian
from majorant.solvers.base import known
from majorant.solvers.finish import apart, begin, redundancy
from majorant.solvers.line_search import best_step
from majorant.solvers.memory import Memory
from majorant.solvers.policy import QuasiNewton, QuasiNewtonState
from majorant.solvers.sampling import StochasticSolver, StochasticState
from majorant.solvers.stream import SHAPES, ProximalStream, default_rows, prior_memory


@dataclass(frozen=True, eq=False, kw_only=True)
class ProximalState(StochasticState):
    """What the rows so far have left behind, and the state of the finish once it has begun."""

    memory: Memory
    finish: QuasiNewtonState | None = None
    warm: Array | None = None  # where one wished to start: if it is better, the finish does

    def predicted_decrease(self) -> float:
        """Return what the next step of the finish promises."""
        return super().predicted_decrease() if self.finish is None else self.finish.predicted_decrease()

    def hessian(self) -> KnownHessian | None:
        """Return the one that the finish has bought, if it has."""
        return None if self.finish is None else self.finish.hessian()

    def revived(self, objective: Objective) -> ProximalState:
        """Return the state with a finish that sees the data again."""
        return self if self.finish is None else self.changed(finish=self.finish.revived(objective))


@dataclass(frozen=True, kw_only=True)
class ProximalMajorization(StochasticSolver[ProximalState]):
    """One proximal pass over mini-batches, then quasi-Newton steps to the optimum. Nothing to tune.

    Parameters
    ----------
    batch_size : int, optional
        Rows m of a mini-batch. By default 100; where the curvature has one block per class or is diagonal, as many as
        make 400 scores (at least 2). Any m works.
    curvature : {"auto", "whole", "block", "diagonal"}
        What to remember: the d×d precision (chosen while d ≤ 1,000, or ≤ 2,000 for one-row binary), one p×p block
        per class (p ≤ 2,000), or the diagonal.
    memory : int
        Secant pairs of the finishing steps.
    warm_start : bool
        Whether the finish may start at ``start``, where that is better than where the pass has led: half a pass tells.

    Notes
    -----
    The prior is centred at zero, and so the pass starts there whatever ``start`` is, except to resume. An unpenalised
    parameter gets the prior precision min(λ, 10⁻³) during the stream. ``solution.state.memory.precision`` is A.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> F = majorant.Objective(majorant.Multinomial(8), majorant.Labelled(X, y), ridge=1.0)
    >>> one_pass = majorant.minimize(F, ProximalMajorization(), max_passes=1)
    >>> optimum = majorant.minimize(F, ProximalMajorization(), start=one_pass)
    >>> excess = one_pass.trace["objective"][-1] / optimum.trace["objective"][-1] - 1
    >>> bool(excess < 0.02), optimum.result.converged
    (True, True)
    """

    batch_size: int | None = None
    curvature: str = "auto"
    memory: int = 20
    warm_start: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("curvature", self.curvature, SHAPES)
        whole("memory", self.memory, least=0)

    def rows_per_batch(self, objective: Objective) -> int:
        """Return m."""
        if self.batch_size is not None:
            return super().rows_per_batch(objective)
        return min(default_rows(objective.model.as_rows(), objective.like, self.curvature), objective.rows)

    def start(self, objective: Objective, theta: Array) -> ProximalState:
        """Return the prior; θ is remembered until the pass is over."""
        model, prior = objective.model.as_rows(), objective.penalty.as_prior()
        memory = prior_memory(model, objective.like, prior, self.rows_per_batch(objective), self.curvature)
        warm = theta if self.warm_start and theta.any() else None
        # Of a loss that is not convex zero may be a saddle, which a pass from there would never leave.
        first = np.zeros(objective.size) if objective.convex else theta
        return ProximalState(theta=first, memory=memory, warm=warm)

    def step(self, objective: Objective, state: ProximalState) -> ProximalState:
        """Return the next state: of the stream while it lasts, then of the finish."""
        if state.visited >= objective.rows:
            return self._finish(objective, state)
        state = super().step(objective, state)
        if state.visited < objective.rows:
            return state
        return self._look_back(objective, state.changed(theta=apart(state.theta, redundancy(objective))))

    def visit(self, objective: Objective, state: ProximalState, rows: Any) -> ProximalState:
        """Return the state after the mini-batches of ``rows``."""
        stream = ProximalStream(objective.model.as_rows(), state.theta, state.memory, self.rows_per_batch(objective))
        after = stream.learn(rows)
        return replace(state, theta=after.theta, memory=after.memory)

    def _look_back(self, objective: Objective, state: ProximalState) -> ProximalState:
        """Return the state, or a point between zero and it if rows in an adversarial order led above F(0).

        A batch of one class, fitted perfectly, has no curvature left there, and its memory is lost to the next: data
        sorted by label and not shuffled do this. One more pass, for the scores alone, finds out.
        """
        ray = objective.ray(np.zeros(objective.size), state.theta)
        at_zero, length = ray.value_and_slope(0.0)[0], 1.0
        if ray.value_and_slope(length)[0] > at_zero:
            length = best_step(ray)
        while ray.value_and_slope(length)[0] > at_zero:
            length /= 2
        if state.warm is not None and objective.value(state.warm) < ray.value_and_slope(length)[0]:
            return replace(state, theta=state.warm)
        return state if length == 1.0 else replace(state, theta=ray.at(length))

    def _finish(self, objective: Objective, state: ProximalState) -> ProximalState:
        solver, here = QuasiNewton(memory=self.memory, seed=self.seed), known(objective, state)
        before = begin(objective, here, state.memory) if state.finish is None else state.finish.moved_to(here)
        after = solver.step(objective, before)
        shared = ("theta", "point", "stalled", "account", "remark", "unseen")
        return state.changed(finish=after, **{each: getattr(after, each) for each in shared})
