"""A step after every sequence of a chain, in a diagonal precision that grows as it goes.

It gathers, for each parameter, a quarter of ‖v‖₁ |v| p(1 − p) from every token: the diagonal that dominates a token's
own curvature, times ¼ where that would be safe and too stiff. That is no bound; the diagonal of the bound over a chain
is the other choice, sequence by sequence: stiffer, and far more work.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from majorant import kernels
from majorant._checks import Array
from majorant.data.sequences import Sequences

SHARE = 0.25


def learn(
    model: Any, data: Sequences, theta: Array, precision: Array, order: Array, curvature: str
) -> tuple[Array, Array]:
    """Return parameters and precision after a visit to every sequence; ``curvature`` is "share" or "bound"."""
    if curvature == "bound":
        return _learn_by_bound(model, data, theta, precision, order)
    universe, states = data.universe, len(data.universe.label)
    θ, D = theta.copy(), precision.copy()
    A, DA = universe.transition_matrix(θ), universe.transition_matrix(D)
    # A transition that has no parameter does not move.
    DA[DA == 0] = np.inf
    weight = np.ones(data.n_tokens) if data.weight is None else data.weight
    room = kernels.chain.room_for(data.starts, universe.width)
    kernels.chain_online.online_pass(
        data.occurrences(),
        data.starts,
        data.y,
        weight,
        order,
        SHARE,
        universe.floor,
        room,
        universe.blocks,
        θ,
        D,
        A,
        DA,
    )
    θ[states:], D[states:] = universe.from_matrix(A), universe.from_matrix(DA)
    return θ, D


def _learn_by_bound(model: Any, data: Sequences, theta: Array, precision: Array, order: Array) -> tuple[Array, Array]:
    θ, D = theta, precision.copy()
    for j in order:
        one = data.part(j, j + 1)
        scores = model.scores(θ, one)
        D += model.bound_factors(scores, one).diagonal()
        θ = θ - model.lift(model.loss_and_residual(scores, one)[1], one) / D
    return θ, D
