"""Chains in one pass: a step after every sequence, in a diagonal precision that grows as it goes. No step size.

The precision starts at the penalty, which enters once. It is not a bound; further passes with it only overfit. With
``curvature="bound"`` the diagonal of the bound over a chain is gathered instead: stiffer, and far more work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from majorant._checks import Array, one_of, whole
from majorant.curvature import Diagonal
from majorant.data.base import Order
from majorant.objective import Objective
from majorant.solvers.base import State, SteppingSolver


@dataclass(frozen=True, eq=False)
class OnlineStream:
    """Parameters, and the precision that sequences have left behind. Learning makes another one."""

    model: Any
    theta: Array
    precision: Array

    def learn(self, data: Any, order: Array, curvature: str = "share") -> OnlineStream:
        """Return the stream after a step at every sequence, in order."""
        theta, precision = self.model.learn(data, self.theta, self.precision, order, curvature)
        return replace(self, theta=theta, precision=precision)


@dataclass(frozen=True, eq=False, kw_only=True)
class OnlineState(State):
    """θ, the precision gathered so far, and the passes made."""

    curvature: Diagonal
    passes: int = 0


@dataclass(frozen=True, kw_only=True)
class OnlineMajorization(SteppingSolver[OnlineState]):
    """One pass over sequences per step; the penalty enters once, as the precision one starts from.

    Parameters
    ----------
    curvature : {"share", "bound"}
        See above.
    shuffle : bool
        Whether sequences are visited in random order; those that are not in memory are shuffled block by block.
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
        """Return the prior: parameters of zero, and the penalty as their precision."""
        if not objective.model.learns_online():
            raise TypeError(f"OnlineMajorization trains Chain, got {type(objective.model).__name__}")
        if not objective.penalty.everywhere:
            raise ValueError("OnlineMajorization needs a penalty on every parameter to start from: set ridge > 0")
        prior = Diagonal(objective.penalty.as_prior().copy(), majorizes=False)
        return OnlineState(theta=np.zeros(objective.size), curvature=prior)

    def step(self, objective: Objective, state: OnlineState) -> OnlineState:
        """Return the state after a pass."""
        after = OnlineStream(objective.model, state.theta, state.curvature.entries)
        for block, order in self._visits(objective, state.passes):
            after = after.learn(block, order, self.curvature)
        objective.spend(passes=1)
        gathered = Diagonal(after.precision, majorizes=False)
        return replace(state, theta=after.theta, curvature=gathered, passes=state.passes + 1)

    def _visits(self, objective: Objective, passes: int) -> Iterator[tuple[Any, Array]]:
        """Yield sequences and the order to visit them in: all there are, or, if they are not in memory, block by block.

        A block that is read comes shuffled.
        """
        order = Order(self.seed, self.shuffle)
        if objective.whole is not None:
            yield objective.whole, order.of_pass(passes, objective.rows)
            return
        for block in objective.visits(order, passes, 0, objective.rows, 1):
            yield block, np.arange(len(block))
