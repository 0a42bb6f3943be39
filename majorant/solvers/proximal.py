"""Proximal stochastic majorization: one pass, no step size, then full-gradient steps in the metric it has learnt.

For each mini-batch b, **solve** instead of linearising, and remember the curvature where that led:

    θ ← argmin ½‖θ' − θ‖²_A + ℓ_b(θ'),        A ← A + Hessian of ℓ_b at the new θ,        A₀ = λI, θ₀ = 0.

The penalty enters once, as the prior: so the first proximal term is centred at zero wherever one would like to start.
A is the precision of a sequential Laplace approximation of the posterior. With the bound's curvature instead of the
Hessian the early anchors are too stiff and never forgotten; with a linearised step the Hessian can blow up. Later
passes would count rows twice; instead, quasi-Newton steps on the whole objective finish from here, in the metric A⁻¹.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from majorant._checks import Array, one_of, whole
from majorant._ray import Point
from majorant.models.class_space import ClassModel
from majorant.objective import Objective
from majorant.solvers.base import improves
from majorant.solvers.line_search import best_step
from majorant.solvers.metrics import BlockMetric, DiagonalMetric, InverseMetric, Metric, WholeMetric
from majorant.solvers.quasi_newton import Pairs, add_pair, quasi_newton_move
from majorant.solvers.sampling import StochasticSolver, StochasticState

METRICS = ("auto", "whole", "block", "diagonal")
# A d×d metric is best while it is affordable; then one p×p block per class; then the diagonal.
LARGEST_WHOLE = 1_000
LARGEST_BLOCK = 2_000
# Rows of a mini-batch, and scores of one where the inner problem couples the classes of every row.
DEFAULT_ROWS = 100
COUPLED_SCORES = 400
# The prior of a parameter that is not penalised: the stream needs one, the finish does not.
WEAK_PRIOR = 1e-3


@dataclass(frozen=True, eq=False, kw_only=True)
class ProximalState(StochasticState):
    """The metric learnt so far; while finishing, where that is, and the secant pairs."""

    metric: Metric
    point: Point | None = None
    pairs: Pairs = ()

    def resumed_at(self, point: Point) -> Self:
        """Return the state with the scores of the data as they now stand."""
        if self.point is None or self.point.has_scores_of(point):
            return self
        return replace(super().resumed_at(point), point=point)


@dataclass(frozen=True, kw_only=True)
class ProximalMajorization(StochasticSolver[ProximalState]):
    """One proximal pass over mini-batches, then quasi-Newton steps to the optimum. Nothing to tune.

    Parameters
    ----------
    batch_size : int, optional
        Rows m of a mini-batch. By default 100; where the metric has one block per class or is diagonal, as many as
        make 400 scores (at least 2). Any m works.
    metric : {"auto", "whole", "block", "diagonal"}
        What to remember: the d×d precision (chosen while d ≤ 1,000, or ≤ 2,000 for one-row binary), one p×p block
        per class (p ≤ 2,000), or the diagonal.
    memory : int
        Secant pairs of the finishing steps.

    Notes
    -----
    ``start`` is ignored except to resume: the prior is centred at zero. An unpenalised parameter gets the prior
    precision min(λ, 10⁻³) during the stream. ``solution.state.metric.precision()`` is A.

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
    metric: str = "auto"
    memory: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("metric", self.metric, METRICS)
        whole("memory", self.memory, least=0)

    def rows_per_batch(self, objective: Objective) -> int:
        """Return m."""
        if self.batch_size is not None:
            return super().rows_per_batch(objective)
        return min(self.default_rows(objective), len(objective.data))

    def default_rows(self, objective: Objective) -> int:
        """Return m for data of this shape, however many rows there will be."""
        n = objective.row_model.scores_per_row(objective.data)
        coupled = n > 1 and self._kind(objective) != "whole"
        return max(COUPLED_SCORES // n, 2) if coupled else DEFAULT_ROWS

    def start(self, objective: Objective, theta: Array) -> ProximalState:
        """Return the prior."""
        return ProximalState(
            theta=np.zeros(objective.size), metric=self.prior(objective, self.rows_per_batch(objective))
        )

    def step(self, objective: Objective, state: ProximalState) -> ProximalState:
        """Return the next state: of the stream while it lasts, then of the finish."""
        if state.visited >= len(objective.data):
            return self._finish(objective, state)
        state = super().step(objective, state)
        return self._look_back(objective, state) if state.visited >= len(objective.data) else state

    def visit(self, objective: Objective, state: ProximalState, rows: Any) -> ProximalState:
        """Return the state after the mini-batches of ``rows``."""
        theta, metric = state.theta, state.metric.copy()
        rows = rows.widened() if objective.narrow else rows  # curvatures add up, and so would their rounding errors
        for batch in rows.blocks(self.rows_per_batch(objective)):
            theta = metric.step(objective.model, theta, batch)
        return ProximalState(theta=theta, metric=metric, visited=state.visited)

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
        return state if length == 1.0 else replace(state, theta=ray.at(length))

    def _finish(self, objective: Objective, state: ProximalState) -> ProximalState:
        here = state.point or objective.point(state.theta)
        new = self._quasi_newton(objective, state, here, state.pairs)
        if not improves(objective, new, here) and state.pairs:
            new = self._quasi_newton(objective, state, here, ())
        return new if improves(objective, new, here) else replace(state, stalled=True)

    def _quasi_newton(self, objective: Objective, state: ProximalState, here: Point, pairs: Pairs) -> ProximalState:
        new = quasi_newton_move(objective, here, pairs, state.metric.solve)
        pairs = add_pair(pairs, new.theta - here.theta, new.gradient - here.gradient, self.memory)
        return replace(state, theta=new.theta, value=new.value, gradient=new.gradient, point=new, pairs=pairs)

    def prior(self, objective: Objective, rows: int) -> Metric:
        """Return the metric before any row is seen, suited to mini-batches of that many rows."""
        prior, kind = self.prior_precision(objective.ridge), self._kind(objective)
        if kind == "diagonal":
            return DiagonalMetric(prior.copy())
        if kind == "block":
            p = objective.data.n_features
            return BlockMetric(np.stack([np.diag(block) for block in prior.reshape(-1, p)]))
        scores = rows * objective.row_model.scores_per_row(objective.data)
        classes = objective.model.coefficient_rows if isinstance(objective.model, ClassModel) else 1
        make: Callable[[Array, int], Metric] = WholeMetric if scores >= objective.size else InverseMetric
        return make(np.diag(prior), classes)

    @staticmethod
    def prior_precision(ridge: Array) -> Array:
        """Return the penalty, and a weak prior where there is none."""
        weakest = np.min(ridge[ridge > 0], initial=np.inf)
        return np.where(ridge > 0, ridge, min(weakest, WEAK_PRIOR))

    def _kind(self, objective: Objective) -> str:
        if not isinstance(objective.model, ClassModel):
            return self._only_whole(objective)
        if self.metric != "auto":
            return self.metric
        if objective.size <= LARGEST_WHOLE:
            return "whole"
        if objective.data.n_features > LARGEST_BLOCK:
            return "diagonal"
        return "whole" if objective.model.coefficient_rows == 1 else "block"

    def _only_whole(self, objective: Objective) -> str:
        name = type(objective.model).__name__
        if self.metric in ("block", "diagonal"):
            raise ValueError(f"metric={self.metric!r} needs a model with classes; {name} has only 'whole'")
        if objective.size > 10 * LARGEST_WHOLE:
            raise ValueError(f"{name} with {objective.size} parameters is too wide for a whole metric; use LBFGS")
        return "whole"
