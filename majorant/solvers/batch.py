"""Batch bound majorization (BBM): minimise a bound, move there, bound again.

A bound step decreases F whatever the data, with no step size to choose, but it is short where the data are nearly
separable: its rate is 1 − H/Σ. What the gradient did along the last steps corrects Σ (a limited-memory BFGS update
of the bound's metric), and the best point along that direction is found without visiting the data again. The bound
is the safeguard: where the corrected step fails to descend, its own step cannot.

References
----------
Choromanska & Jebara, *Stochastic Bound Majorization*, 2013, Equation 2. Salakhutdinov & Roweis, *Adaptive
overrelaxed bound optimization methods*, ICML 2003, for η.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from majorant._bound import QuadraticBound
from majorant._checks import Array, positive
from majorant.curvature import Form
from majorant.objective import Objective
from majorant.solvers.base import State, SteppingSolver, improves
from majorant.solvers.line_search import best_step
from majorant.solvers.quasi_newton import Pairs, add_pair, quasi_newton_step


@dataclass(frozen=True, eq=False, kw_only=True)
class BatchState(State):
    """The bound at θ, and the secant pairs of the last few steps."""

    bound: QuadraticBound
    pairs: Pairs = ()


@dataclass(frozen=True)
class BatchMajorization(SteppingSolver[BatchState]):
    """θ ← θ − η Σ⁻¹∇F, with Σ the curvature of a bound on F at θ.

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
        How many past steps correct the metric. 0 is the plain algorithm of the paper.

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
        positive("step_size", self.step_size, below=2.0)
        if self.memory < 0:
            raise ValueError(f"memory must be non-negative, got {self.memory}")

    def start(self, objective: Objective, theta: Array) -> BatchState:
        """Return the state at θ, its bound included."""
        bound = objective.bound(theta, self.curvature, self.rank)
        return BatchState(theta=theta, value=bound.value, gradient=bound.gradient, bound=bound)

    def step(self, objective: Objective, state: BatchState) -> BatchState:
        """Return the next state: after the corrected step if it descends, after the bound's own otherwise."""
        if state.pairs:
            corrected = self._move(objective, state, self._corrected(objective, state))
            if improves(corrected, state):
                return corrected
        plain = self._move(objective, state, state.theta + self.step_size * state.bound.step())
        return plain if improves(plain, state) else replace(state, stalled=True)

    def _corrected(self, objective: Objective, state: BatchState) -> Array:
        bound = state.bound
        step = quasi_newton_step(state.gradient, state.pairs, lambda q: bound.curvature.solve(q, bound.ridge))
        ray = objective.ray(state.theta, step)
        return ray.at(best_step(ray))

    def _move(self, objective: Objective, state: BatchState, theta: Array) -> BatchState:
        new = self.start(objective, theta)
        pairs = add_pair(state.pairs, theta - state.theta, new.gradient - state.gradient, self.memory)
        return replace(new, pairs=pairs)
