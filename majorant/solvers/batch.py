"""Batch bound majorization (BBM): minimise a bound, move there, bound again.

A bound step decreases F whatever the data, with no step size to choose, but it is short where the data are nearly
separable (its rate is 1 − H/Σ), and a new Σ at every step is most of the work. So, unless the plain algorithm is
asked for, the bound's Σ is what a limited-memory BFGS starts from, renewed at steps 1, 3, 9, 27, …; the best
point along each direction is found without visiting the data again. The bound remains the safeguard: where the
corrected step fails to descend, its own step cannot.

References
----------
Choromanska & Jebara, *Stochastic Bound Majorization*, 2013, Equation 2. Salakhutdinov & Roweis, *Adaptive
overrelaxed bound optimization methods*, ICML 2003, for η.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from majorant._bound import QuadraticBound
from majorant._checks import Array, positive, whole
from majorant.curvature import Form, Solve, form
from majorant.objective import Objective, Point
from majorant.solvers.base import State, SteppingSolver, improves, known
from majorant.solvers.lbfgs import Pairs, add_pair, quasi_newton_move
from majorant.solvers.line_search import EXACT


@dataclass(frozen=True, eq=False, kw_only=True)
class BatchState(State):
    """The latest bound (anchored at θ, or earlier if accelerated), the secant pairs, and the steps made."""

    bound: QuadraticBound
    solve: Solve | None = None
    pairs: Pairs = ()
    steps: int = 0


@dataclass(frozen=True)
class BatchMajorization(SteppingSolver[BatchState]):
    """Minimise F by minimising bounds on it: no step size, and F never rises.

    Plain (``memory=0``), θ ← θ − η Σ⁻¹∇F with a new Σ at each step. Accelerated, as by default, a limited-memory BFGS
    with a line search starts from Σ, and the plain step is its fallback.

    Parameters
    ----------
    curvature : str or callable
        "dense", "low-rank", "diagonal", "kronecker", "boehning", or any function of the factors that returns
        a curvature. One that does not majorize is refused: the guarantee would be gone.
    rank : int
        Directions kept by "low-rank".
    step_size : float in (0, 2)
        η. Every value is monotone; 1 goes to the minimum of the bound. It only scales the bound's own step.
    memory : int
        How many past steps correct Σ. 0 is the plain algorithm of the paper, a new bound at each step.

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
        return self._bounded(objective, theta)

    def step(self, objective: Objective, state: BatchState) -> BatchState:
        """Return the next state: after the corrected step if it descends, after the bound's own otherwise."""
        here = known(objective, state)
        if self.memory:
            state = self._renewed(objective, state, here)
            new = self._corrected_step(objective, state, here)
            if new.point is not None and improves(objective, new.point, here):
                return new
        new = self._bound_step(objective, state, here)
        assert new.point is not None
        return new if improves(objective, new.point, here) else replace(state, stalled=True)

    def _bounded(self, objective: Objective, at: Point | Array) -> BatchState:
        point, Σ = objective.expand(at, form(self.curvature, self.rank), majorizes=True)
        bound = QuadraticBound(point.theta, point.value, point.gradient, Σ, objective.ridge)
        return BatchState.at(point, bound=bound)

    def _renewed(self, objective: Objective, state: BatchState, here: Point) -> BatchState:
        due = _is_power_of_three(state.steps) and state.bound.anchor is not here.theta
        return replace(state, bound=self._bounded(objective, here).bound, solve=None) if due else state

    def _bound_step(self, objective: Objective, state: BatchState, here: Point) -> BatchState:
        bound = state.bound if state.bound.anchor is here.theta else self._bounded(objective, here).bound
        return replace(self._bounded(objective, here.theta + self.step_size * bound.step()), steps=state.steps + 1)

    def _corrected_step(self, objective: Objective, state: BatchState, here: Point) -> BatchState:
        solve = state.solve or state.bound.curvature.factorized(state.bound.ridge)
        new = quasi_newton_move(objective, here, state.pairs, solve, EXACT)
        pairs = add_pair(objective, state.pairs, here, new, self.memory)
        return state.moved_to(new, solve=solve, pairs=pairs, steps=state.steps + 1)


def _is_power_of_three(n: int) -> bool:
    while n > 1 and n % 3 == 0:
        n //= 3
    return n == 1
