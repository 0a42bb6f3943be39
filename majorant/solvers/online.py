"""Chains in one pass: a step after every sequence, in a diagonal metric that grows as it goes. No step size.

The metric starts at the penalty and gathers, for each parameter, a quarter of ‖v‖₁ |v| p(1 − p) from every token: the
diagonal that dominates a token's own curvature, times ¼ where that would be safe and too stiff. It is a metric, not a
bound; further passes with it only overfit. With ``curvature="bound"`` the diagonal of the bound over a chain is taken
instead, sequence by sequence: stiffer, and far more work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from majorant import kernels
from majorant._checks import Array, one_of, whole
from majorant.data import Sequences
from majorant.models import Chain
from majorant.objective import Objective
from majorant.solvers.base import State, SteppingSolver

SHARE = 0.25


@dataclass(frozen=True, eq=False, kw_only=True)
class OnlineState(State):
    """θ, the diagonal of the metric, and the passes made."""

    metric: Array
    passes: int = 0


@dataclass(frozen=True, kw_only=True)
class OnlineMajorization(SteppingSolver[OnlineState]):
    """One pass over sequences per step; the penalty enters once, as the metric one starts from.

    Parameters
    ----------
    curvature : {"share", "bound"}
        See above.
    shuffle : bool
        Whether sequences are visited in random order.
    seed : int
        Of that order.
    """

    curvature: str = "share"
    shuffle: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        one_of("curvature", self.curvature, ("share", "bound"))
        whole("seed", self.seed, least=0)

    def start(self, objective: Objective, theta: Array) -> OnlineState:
        """Return the prior: parameters of zero, and the penalty as the metric."""
        if not isinstance(objective.model, Chain):
            raise TypeError(f"OnlineMajorization trains Chain, got {type(objective.model).__name__}")
        if not objective.penalty.everywhere:
            raise ValueError("OnlineMajorization needs a penalty on every parameter to start from: set ridge > 0")
        return OnlineState(theta=np.zeros(objective.size), metric=objective.ridge.copy())

    def step(self, objective: Objective, state: OnlineState) -> OnlineState:
        """Return the state after a pass."""
        t = len(objective.data)
        order = np.random.default_rng([self.seed, state.passes]).permutation(t) if self.shuffle else np.arange(t)
        visit = learn if self.curvature == "share" else learn_by_bound
        theta, metric = visit(objective.data, state.theta, state.metric, order)
        objective.work.passes += 1
        return state.forgetting(theta=theta, metric=metric, passes=state.passes + 1)


def learn(data: Sequences, theta: Array, metric: Array, order: Array) -> tuple[Array, Array]:
    """Return parameters and metric after a visit to every sequence."""
    universe, states = data.universe, len(data.universe.label)
    θ, D = theta.copy(), metric.copy()
    A, DA = universe.transition_matrix(θ), universe.transition_matrix(D)
    # A transition that has no parameter does not move.
    DA[DA == 0] = np.inf
    weight = np.ones(data.n_tokens) if data.weight is None else data.weight
    kernels.chain_online.online_pass(
        data.occurrences(), data.starts, data.y, weight, order, universe.n, SHARE, θ, D, A, DA
    )
    θ[states:], D[states:] = universe.from_matrix(A), universe.from_matrix(DA)
    return θ, D


def learn_by_bound(data: Sequences, theta: Array, metric: Array, order: Array) -> tuple[Array, Array]:
    """Return what :func:`learn` does, with the diagonal of the bound over each sequence as its curvature."""
    model, θ, D = Chain(), theta, metric.copy()
    for j in order:
        one = data.part(j, j + 1)
        scores = model.scores(θ, one)
        D += model.bound_factors(scores, one).diagonal()
        θ = θ - model.lift(model.loss_and_residual(scores, one)[1], one) / D
    return θ, D
