"""Proximal quasi-Newton steps, for penalties with kinks: an L-BFGS model of the loss, and the penalty as it is.

At θ with g = ∇loss the next direction is the least of gᵀd + ½dᵀBd + R(θ + d), where R is an elastic net and B the BFGS
matrix of the last pairs s, y of steps and of changes of ∇loss. Written out (Byrd, Nocedal & Schnabel, 1994) it is

    B = γI − Ψ M⁻¹ Ψᵀ,    Ψ = [γS  Y],    M = [γSᵀS  L; Lᵀ  −D],    L, D the lower part and the diagonal of SᵀY,

so that a coordinate costs 4m operations of m pairs. Coordinates that may move are those with θ_i ≠ 0, or |g_i| above
the threshold: all others stay zero. A line search along d makes F fall; where the loss is convex that converges
superlinearly, since F has no kinks along what moves once signs have settled (Zhong, Yen, Dhillon & Ravikumar, *Proximal
quasi-Newton for computationally intensive ℓ1-regularized M-estimators*, 2014).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from majorant.core import ascent, kernels
from majorant.core.checks import Array, whole
from majorant.core.line_search import Point
from majorant.core.objective import Objective
from majorant.core.penalty import ElasticNet
from majorant.core.solver import State, SteppingSolver, improves

# Sweeps over the coordinates of a quadratic model, at most, and the share of the first one's gain that ends them.
SWEEPS, SETTLED = 50, 1e-2
# The share of what the model predicts that F has to fall by, and how often a step is halved.
ENOUGH, HALVINGS = 1e-4, 20


@dataclass(frozen=True, eq=False, kw_only=True)
class ProximalState(State):
    """Where the solver is: the gradient of the loss, the last pairs, and a start that is not done yet."""

    slope: Array | None = None  # ∇loss
    pairs: tuple[tuple[Array, Array, float], ...] = ()  # s, y, sᵀy
    curvature: float = 0.0  # γ
    predicted: float = float("nan")  # by how much the last step was predicted to decrease F
    continuation: Any = None

    def predicted_decrease(self) -> float:
        """Return by how much the last step was predicted to decrease F: the next one gains no more, as a rule."""
        return self.predicted

    def resumed(self, objective: Objective, point: Point, steps: int) -> ProximalState:
        """Return the state at a point that was found again."""
        return self.moved_to(point)

    def revived(self, objective: Objective) -> ProximalState:
        """Return the state with a start that sees the data again."""
        if self.continuation is None:
            return self
        return self.changed(continuation=self.continuation.revived(objective))


@dataclass(frozen=True, kw_only=True)
class ProximalQuasiNewton(SteppingSolver[ProximalState]):
    """Dual ascent as a start where the model has one, then proximal quasi-Newton steps; for elastic nets and ridges.

    Parameters
    ----------
    memory : int
        Pairs that are kept.
    seed : int
        Of the order in which dual ascent visits rows.

    Examples
    --------
    >>> import majorant
    >>> from majorant.objective import ElasticNet
    >>> X, y = majorant.datasets.load("ecoli")
    >>> F = majorant.Objective(majorant.Multinomial(8), majorant.Labelled(X, y), ridge=ElasticNet(1.0, 0.1, 64))
    >>> solution = majorant.minimize(F, ProximalQuasiNewton(), tol=1e-6)
    >>> solution.result.converged, int((solution.params != 0).sum())
    (True, 22)
    """

    nonsmooth: ClassVar[bool] = True

    memory: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        whole("memory", self.memory, least=1)

    def start(self, objective: Objective, theta: Array) -> ProximalState:
        """Return the state after the first rounds of dual ascent, or at θ."""
        if not isinstance(objective.penalty, ElasticNet):
            raise TypeError(f"this solver minimises with an elastic net, got {type(objective.penalty).__name__}")
        if not theta.any() and ascent.suits(objective):
            return self._begun(ProximalState(theta), ascent.begin(objective, theta, self.seed))
        return ProximalState.at(objective.point(theta))

    def step(self, objective: Objective, state: ProximalState) -> ProximalState:
        """Return the state after more of the start, or after one step."""
        point, penalty = state.point or objective.point(state.theta), objective.penalty
        assert isinstance(penalty, ElasticNet)
        if state.continuation is not None:
            return self._begun(state, state.continuation.go_on(objective, point, self.seed))
        θ, g, γ, pairs = point.theta, state.slope, state.curvature, state.pairs
        if g is None:
            g = self._of_loss(objective, θ)[1]
        free = np.flatnonzero((θ != 0) | (np.abs(g) > penalty.l1))
        if γ == 0:
            γ = float(np.max(objective.hessian_diagonal(point), initial=1e-300))

        for _ in range(HALVINGS):
            d, predicted = self._direction(penalty, θ, g, free, pairs, γ)
            length = 1.0
            while predicted < 0 and length > 2.0**-HALVINGS:
                there = θ.copy()
                there[free] += length * d
                loss, slope = self._of_loss(objective, there)
                value = loss + penalty.value(there)
                new = Point(there, value, penalty.slope(there, slope))
                if value <= point.value + ENOUGH * length * predicted or improves(objective, new, point):
                    s, y = there - θ, slope - g
                    sy = float(s @ y)
                    if sy > 0:
                        pairs = (*pairs, (s.astype(np.float32), y.astype(np.float32), sy))[-self.memory :]
                        γ = float(y[free] @ y[free]) / sy
                    return state.moved_to(new, slope=slope, pairs=pairs, curvature=γ, predicted=-predicted)
                length *= 0.5
            if not pairs:
                break
            pairs = ()
        return state.changed(stalled=True, unseen=0)

    def _begun(self, state: ProximalState, begun: Any) -> ProximalState:
        account = (*state.account, *((0, done) for done in begun.account))
        return state.moved_to(
            begun.point, slope=None, continuation=begun.continuation, account=account, remark=begun.remark
        )

    def _of_loss(self, objective: Objective, theta: Array) -> tuple[float, Array]:
        objective.spend(passes=1)
        return objective.blocks.total(partial(objective.model.loss_and_gradient, theta))

    def _direction(
        self, penalty: ElasticNet, θ: Array, g: Array, free: Array, pairs: Any, γ: float
    ) -> tuple[Array, float]:
        """Return the direction of coordinates that may move, and by how much F changes to first order and by R."""
        many = len(pairs)
        ψ, φ = np.zeros((len(free), 2 * many)), np.zeros((len(free), 2 * many))
        if many:
            S, Y = (np.array([pair[k][free] for pair in pairs], dtype=np.float64) for k in (0, 1))
            SY, ψ = S @ Y.T, np.concatenate([γ * S, Y]).T.copy()
            L, D = np.tril(SY, -1), np.diag(np.diag(SY))
            φ = ψ @ np.linalg.pinv(np.block([[γ * (S @ S.T), L], [L.T, -D]]))
        d = np.zeros(len(free))
        kernels.coordinates.coordinate_descent(
            g[free], θ[free], ψ, φ, γ, penalty.l1[free], penalty.l2[free], SWEEPS, SETTLED, d
        )
        there = θ[free] + d
        of_penalty = penalty.l1[free] @ (np.abs(there) - np.abs(θ[free]))
        of_penalty += 0.5 * (penalty.l2[free] @ (there**2 - θ[free] ** 2))
        return d, float(g[free] @ d) + float(of_penalty)
