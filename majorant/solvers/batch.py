"""Batch bound majorization (BBM): minimise a bound, move there, bound again.

A bound step decreases F whatever the data, with no step size to choose, but it is short where the data are nearly
separable (its rate is 1 − H/Σ), and a new Σ at every step is most of the work. So, unless the plain algorithm is
asked for, the bound's Σ is the initial metric of a limited-memory BFGS, renewed at steps 1, 3, 9, 27, …; the best
point along each direction is found without visiting the data again. The bound remains the safeguard: where the
corrected step fails to descend, its own step cannot.

References
----------
Choromanska & Jebara, *Stochastic Bound Majorization*, 2013, Equation 2. Salakhutdinov & Roweis, *Adaptive
overrelaxed bound optimization methods*, ICML 2003, for η.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from majorant._bound import QuadraticBound
from majorant._checks import Array, positive, whole
from majorant._ray import Point
from majorant.curvature import Form, form
from majorant.objective import Objective
from majorant.solvers.base import State, SteppingSolver, improves
from majorant.solvers.line_search import EXACT
from majorant.solvers.quasi_newton import Pairs, add_pair, quasi_newton_move


@dataclass(frozen=True, eq=False, kw_only=True)
class BatchState(State):
    """The latest bound (anchored at θ, or earlier if accelerated), the secant pairs, and the steps made."""

    bound: QuadraticBound
    solve: Callable[[Array], Array] | None = None
    point: Point | None = None
    pairs: Pairs = ()
    steps: int = 0

    def resumed_at(self, point: Point) -> Self:
        """Return the state with the scores of the data as they now stand."""
        same = self.point is not None and self.point.has_scores_of(point)
        return self if same else replace(super().resumed_at(point), point=point)


@dataclass(frozen=True)
class BatchMajorization(SteppingSolver[BatchState]):
    """Minimise F by minimising bounds on it: no step size, and F never rises.

    Plain (``memory=0``), θ ← θ − η Σ⁻¹∇F with a new Σ at each step. Accelerated, as by default, Σ is the metric
    of a limited-memory BFGS with a line search, and the plain step its fallback.

    Parameters
    ----------
    curvature : str or callable
        "dense", "low-rank", "diagonal", "kronecker", "boehning", or any function of the factors that returns
        a curvature. One that is only a metric is refused: the guarantee would be gone.
    rank : int
        Directions kept by "low-rank".
    step_size : float in (0, 2)
        η. Every value is monotone; 1 goes to the minimum of the bound. It only scales the bound's own step.
    memory : int
        How many past steps correct the metric. 0 is the plain algorithm of the paper, a new bound at each step.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> F = majorant.Objective(majorant.Multinomial(8), majorant.Labelled(X, y), ridge=1.0)
    >>> majorant.minimize(F, BatchMajorization(memory=0), tol=1e-6).result.converged
    True
    """

    curvature: str | Form = "dense"
    rank: int = 10
    step_size: float = 1.0
    memory: int = 10

    def __post_init__(self) -> None:
        form(self.curvature, self.rank)
        positive("step_size", self.step_size, below=2.0)
        whole("memory", self.memory, least=0)

    def start(self, objective: Objective, theta: Array) -> BatchState:
        """Return the state at θ, its bound included."""
        bound = objective.bound(theta, self.curvature, self.rank)
        return BatchState(theta=theta, value=bound.value, gradient=bound.gradient, bound=bound)

    def step(self, objective: Objective, state: BatchState) -> BatchState:
        """Return the next state: after the corrected step if it descends, after the bound's own otherwise."""
        if self.memory:
            state = self._renew(objective, state)
            new = self._corrected_step(objective, state)
            if improves(objective, new, state):
                return new
        new = self._bound_step(objective, state)
        return new if improves(objective, new, state) else replace(state, stalled=True)

    def _renew(self, objective: Objective, state: BatchState) -> BatchState:
        if not _is_power_of_three(state.steps):
            return state
        return replace(state, bound=objective.bound(state.theta, self.curvature, self.rank), solve=None)

    def _bound_step(self, objective: Objective, state: BatchState) -> BatchState:
        here = state if state.bound.anchor is state.theta else self.start(objective, state.theta)
        new = self.start(objective, state.theta + self.step_size * here.bound.step())
        return replace(new, steps=state.steps + 1)

    def _corrected_step(self, objective: Objective, state: BatchState) -> BatchState:
        here = state.point or objective.point(state.theta)
        solve = state.solve or state.bound.curvature.inverse(state.bound.ridge)
        new = quasi_newton_move(objective, here, state.pairs, solve, EXACT)
        return BatchState(
            theta=new.theta,
            value=new.value,
            gradient=new.gradient,
            bound=state.bound,
            solve=solve,
            point=new,
            pairs=add_pair(state.pairs, new.theta - here.theta, new.gradient - here.gradient, self.memory),
            steps=state.steps + 1,
        )


def _is_power_of_three(n: int) -> bool:
    while n > 1 and n % 3 == 0:
        n //= 3
    return n == 1
