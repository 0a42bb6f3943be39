"""The default for data in memory: full-gradient quasi-Newton steps in a metric that is cheap for the size at hand.

========================  ==========================================================================================
metric                    how it is found
========================  ==========================================================================================
``sample``                a few Newton steps on some of the rows, with as much of the penalty: start and Hessian
``kronecker``             I ⊗ (Σ_j w_j x_j x_jᵀ + λ), w_j = (1 − Σ_c p_jc²)/(n − 1), p×p for any number of classes
``diagonal``              the diagonal of the Hessian, for data too wide for either; the Kronecker metric on the
                          columns with the largest entries there
========================  ==========================================================================================

The last two depend on θ and are renewed at steps 4 and 12, when θ has come close, and later where they have stopped
helping. Where steps go on until they have cost as much as the Hessian of all rows, that is bought, and bought again
every few steps: never much dearer than Newton's method. None is a bound: every step is checked by a line search on the
convex function along it, so F never rises. Wide data start by dual coordinate descent
(``majorant.solvers.dual``) as long as that contracts well; there F may rise now and then. Chains start by an online
pass and go on in the root of its metric.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from majorant._checks import Array, one_of, whole
from majorant._ray import Point
from majorant.models import Chain, RowModel
from majorant.models.class_space import ClassModel
from majorant.objective import Objective
from majorant.solvers import dual
from majorant.solvers.base import State, SteppingSolver, improves
from majorant.solvers.dual import Dual
from majorant.solvers.online import OnlineMajorization
from majorant.solvers.preconditioners import (
    diagonal_inverse,
    hessian_inverse,
    hessian_price,
    kronecker_inverse,
    newton_on_a_sample,
    sample_size,
)
from majorant.solvers.quasi_newton import MANY_PARAMETERS, Pairs, add_pair, quasi_newton_move, scaled

METRICS = ("auto", "sample", "kronecker", "diagonal")
RENEWED_AT = (0, 4, 12)
# Later, every so many times as many steps, if the gradient (squared) has not shrunk to this share meanwhile.
RENEWED_AGAIN = 3
SLOW = 0.01
# A whole Hessian is bought once as many steps have been made as it costs, but not too soon; then again after a few.
LARGEST_BOUGHT = 2_000
PATIENCE = 25
BOUGHT_AGAIN = 4
# A Hessian of that many parameters pays; a Gram matrix of so many columns does.
LARGEST_HESSIAN = 1_200
LARGEST_GRAM = 4_000
SMALL_GRAM = 500  # whatever the number of rows
PAIRS, PAIRS_OF_MANY = 30, 20


@dataclass(frozen=True, eq=False, kw_only=True)
class QuasiNewtonState(State):
    """Where the solver is, the metric, and the secant pairs."""

    point: Point
    solve: Callable[[Array], Array] | None = None
    pairs: Pairs = ()
    steps: int = 0
    dual: Dual | None = None  # until it is left for quasi-Newton steps
    scaled: bool = False  # whether the metric is right but for a factor, which the last pair tells
    made_at: int = 0  # the step at which the metric was made
    height: float = np.inf  # ‖∇F‖² there
    bought: bool = False  # whether it is the Hessian

    def resumed_at(self, point: Point) -> Self:
        """Return the state with the scores of the data as they now stand."""
        return self if self.point.has_scores_of(point) else replace(super().resumed_at(point), point=point)


@dataclass(frozen=True, kw_only=True)
class QuasiNewton(SteppingSolver[QuasiNewtonState]):
    """L-BFGS in a metric chosen by the size of the data. Nothing to tune.

    Parameters
    ----------
    metric : {"auto", "sample", "kronecker", "diagonal"}
        See the table above. "auto" takes a sample's Hessian up to 1,200 parameters if a quarter of the rows is enough
        for it, the Kronecker metric up to 4,000 columns, then the diagonal. Only models with classes have a choice.
    memory : int, optional
        Secant pairs kept; 30 if not given, 20 in single precision above 100,000 parameters.
    seed : int
        Which rows are sampled.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> F = majorant.Objective(majorant.Multinomial(8), majorant.Labelled(X, y), ridge=1.0)
    >>> majorant.minimize(F, QuasiNewton()).result.converged
    True
    """

    metric: str = "auto"
    memory: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        one_of("metric", self.metric, METRICS)
        if self.memory is not None:
            whole("memory", self.memory, least=0)

    def start(self, objective: Objective, theta: Array) -> QuasiNewtonState:
        """Return the state at θ, or at the optimum of a sample if that is the better one."""
        kind = self.kind(objective)
        if kind == "sample":
            of_sample, solve = newton_on_a_sample(objective, theta, self.seed)
            better = objective.value(of_sample) < objective.value(theta)
            return _state_at(objective.point(of_sample if better else theta), solve=solve)
        if isinstance(objective.model, Chain) and not theta.any() and objective.penalty.everywhere:
            return self._after_a_pass(objective, objective.model)
        if kind == "diagonal" and dual.suits(objective, theta):
            return self._swept(objective, dual.begin(objective))
        return _state_at(objective.point(theta))

    def step(self, objective: Objective, state: QuasiNewtonState) -> QuasiNewtonState:
        """Return the state after one quasi-Newton step."""
        if state.dual is not None:
            return self._swept(objective, state.dual, state)
        state = self._with_metric(objective, state)
        for attempt in self._attempts(objective, state):
            new = self._move(objective, attempt)
            if improves(objective, new, state):
                return new
        return replace(state, stalled=True)

    def _attempts(self, objective: Objective, state: QuasiNewtonState) -> Iterator[QuasiNewtonState]:
        """Yield the state, then without its pairs, which may be worn out, then with metrics made here."""
        yield state
        if state.pairs:
            yield replace(state, pairs=())
        if self.kind(objective) != "sample" or isinstance(objective.model, ClassModel):
            yield self._renewed(objective, state)
        if self._affords_hessian(objective):
            yield self._bought(objective, state)

    def _with_metric(self, objective: Objective, state: QuasiNewtonState) -> QuasiNewtonState:
        """Return the state with a metric made anew where that is due, or with the Hessian where it has been earned."""
        if self._is_worth_a_hessian(objective, state):
            return self._bought(objective, state)
        if self.kind(objective) == "sample" or state.scaled or state.bought:
            return state
        again = state.steps == RENEWED_AGAIN * state.made_at and _height(state) > SLOW * state.height
        return self._renewed(objective, state) if state.steps in RENEWED_AT or again else state

    def _affords_hessian(self, objective: Objective) -> bool:
        return isinstance(objective.model, RowModel) and objective.size <= LARGEST_BOUGHT

    def _is_worth_a_hessian(self, objective: Objective, state: QuasiNewtonState) -> bool:
        """Return whether the steps so far, or half of them since the last one, have cost as much as a Hessian would."""
        if state.bought:
            return state.steps - state.made_at >= max(hessian_price(objective) / 2, BOUGHT_AGAIN)
        affordable = state.steps >= PATIENCE and self._affords_hessian(objective)
        return affordable and state.steps >= hessian_price(objective)

    def kind(self, objective: Objective) -> str:
        """Return the metric that suits the objective."""
        if not isinstance(objective.model, ClassModel):
            return "sample" if isinstance(objective.model, RowModel) else "diagonal"
        if self.metric != "auto":
            return self.metric
        if objective.size <= LARGEST_HESSIAN and 4 * sample_size(objective) <= len(objective.data):
            return "sample"
        p = objective.data.n_features
        return "kronecker" if p <= min(LARGEST_GRAM, max(len(objective.data), SMALL_GRAM)) else "diagonal"

    def _after_a_pass(self, objective: Objective, model: Chain) -> QuasiNewtonState:
        """Return the state after an online pass over the sequences of a chain, and the root of its metric.

        Attributes of a token are far from independent, so the diagonal itself is too stiff where they are frequent.
        Values on wild scales may lead astray: then one starts at zero after all.
        """
        zero, online = np.zeros(objective.size), OnlineMajorization(seed=self.seed)
        after = online.step(objective, online.start(objective, zero))
        root, point = np.sqrt(after.metric), objective.point(after.theta)
        if not point.value <= model.loss_at_zero(objective.data):
            point = objective.point(zero)
        return _state_at(point, solve=lambda b: b / root, scaled=True)

    def _swept(self, objective: Objective, start: Dual, before: QuasiNewtonState | None = None) -> QuasiNewtonState:
        """Return the state after sweeps of dual coordinate descent, ready for quasi-Newton steps if they were poor."""
        swept = dual.sweep(objective, start, self.seed)
        point = objective.point(swept.theta)
        if not point.value <= dual.loss_at_zero(objective):  # rows on wild scales
            return _state_at(objective.point(np.zeros(objective.size)))
        if swept.contracts:
            return _state_at(point, dual=swept)
        return _state_at(point) if before is None or point.value < before.value else replace(before, dual=None)

    def _move(self, objective: Objective, state: QuasiNewtonState) -> QuasiNewtonState:
        here = state.point
        assert state.solve is not None
        solve = scaled(state.solve, state.pairs) if state.scaled else state.solve
        new = quasi_newton_move(objective, here, state.pairs, solve)
        pairs = add_pair(state.pairs, new.theta - here.theta, new.gradient - here.gradient, self._pairs_kept(objective))
        return replace(
            state,
            theta=new.theta,
            value=new.value,
            gradient=new.gradient,
            point=new,
            pairs=pairs,
            steps=state.steps + 1,
        )

    def _pairs_kept(self, objective: Objective) -> int:
        if self.memory is not None:
            return self.memory
        return PAIRS if objective.size <= MANY_PARAMETERS else PAIRS_OF_MANY

    def _renewed(self, objective: Objective, state: QuasiNewtonState) -> QuasiNewtonState:
        objective.work.curvatures += 1
        make = diagonal_inverse if self.kind(objective) == "diagonal" else kronecker_inverse
        return _in_metric(state, make(objective, state.point))

    def _bought(self, objective: Objective, state: QuasiNewtonState) -> QuasiNewtonState:
        return _in_metric(state, hessian_inverse(objective, state.theta), bought=True)


def _in_metric(state: QuasiNewtonState, solve: Callable[[Array], Array], *, bought: bool = False) -> QuasiNewtonState:
    """Return the state with another metric; secant pairs belong to the one before."""
    height = _height(state)
    return replace(state, solve=solve, pairs=(), scaled=False, made_at=state.steps, height=height, bought=bought)


def _height(state: State) -> float:
    return float(state.gradient @ state.gradient)


def _state_at(point: Point, **rest: Any) -> QuasiNewtonState:
    return QuasiNewtonState(theta=point.theta, value=point.value, gradient=point.gradient, point=point, **rest)
