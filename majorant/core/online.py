"""Chains in one pass: a step after every sequence, in a diagonal precision that grows as it goes. No step size.

The precision starts at the penalty, which enters once. It is not a bound; further passes with it only overfit. With
``curvature="bound"`` the diagonal of the bound over a chain is gathered instead: stiffer, and far more work.

Sequences that are not in memory are visited block by block. Workers each make a pass over what they hold, from the same
prior, and what they have learnt is multiplied as Gaussians are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from majorant.core.checks import Array, one_of, whole
from majorant.core.curvature import Diagonal
from majorant.core.objective import Objective
from majorant.core.preconditioners import StartResult, Unridged
from majorant.core.rows import Order
from majorant.core.solver import State, SteppingSolver


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

    def joined(self, information: Array, precision: Array) -> OnlineStream:
        """Return the stream with what others have learnt who went on from here, each on sequences of its own.

        Gaussians are multiplied: precisions D add up, and so does the information Dθ.
        """
        D = self.precision + precision
        return replace(self, theta=(self.precision * self.theta + information) / D, precision=D)


def learnt_apart(before: OnlineStream, order: Order, passes: int, curvature: str, block: Any) -> tuple[Array, Array]:
    """Return what an online pass over a block adds to Dθ and to D, from the same stream for every block."""
    after = before.learn(block, order.of_pass(passes, len(block)), curvature)
    return after.precision * after.theta - before.precision * before.theta, after.precision - before.precision


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
        What the precision gathers: the rows' share of the curvature, or the diagonal of the bound over a chain, which
        is stiffer, and far more work.
    shuffle : bool
        Whether sequences are visited in random order; those that are not in memory are shuffled block by block.
    seed : int
        Of that order.

    Examples
    --------
    >>> import numpy as np
    >>> import majorant
    >>> from majorant.data import Sequences, Universe
    >>> universe = Universe.of(np.arange(4), np.arange(4), 2, 2)  # two attributes, two labels, all pairs and steps
    >>> starts, attributes = np.array([0, 2, 5]), np.array([0, 1, 0, 1, 1])
    >>> y = np.array([0, 1, 0, 1, 1], dtype=np.int32)
    >>> data = Sequences.of(universe, starts, np.arange(6), attributes, None, y)
    >>> F = majorant.Objective(majorant.Chain(), data, ridge=1.0)
    >>> one_pass = majorant.minimize(F, majorant.OnlineMajorization(), max_steps=1)
    >>> bool(one_pass.trace["objective"][1] < one_pass.trace["objective"][0])
    True
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
        before = OnlineStream(objective.model, state.theta, state.curvature.entries)
        after = self._learnt(objective, before, state.passes)
        objective.spend(passes=1)
        gathered = Diagonal(after.precision, majorizes=False)
        return replace(state, theta=after.theta, curvature=gathered, passes=state.passes + 1)

    def _learnt(self, objective: Objective, before: OnlineStream, passes: int) -> OnlineStream:
        """Return the stream after a pass: here, or by workers, each of whom goes on from before with what it holds."""
        order, after = Order(self.seed, self.shuffle), before
        if not objective.comes_here:
            return before.joined(*objective.blocks.total(partial(learnt_apart, before, order, passes, self.curvature)))
        for block, places in self._visits(objective, order, passes):
            after = after.learn(block, places, self.curvature)
        return after

    @staticmethod
    def _visits(objective: Objective, order: Order, passes: int) -> Iterator[tuple[Any, Array]]:
        """Yield sequences and the order to visit them in: all, or block by block if they are not in memory."""
        if objective.whole is not None:
            yield objective.whole, order.of_pass(passes, objective.rows)
            return
        for number, block in enumerate(objective.data.blocks(objective.rows)):
            yield block, order.of_chunk(passes, number, len(block))


# --- a start for quasi-Newton steps -----------------------------------------------------------------------------


def learns_online(objective: Objective) -> bool:
    """Return whether an online pass can be the start: of a chain, with every parameter penalised."""
    penalty = objective.penalty
    return objective.model.learns_online() and penalty.prior is not None and penalty.everywhere


def from_online_pass(objective: Objective, theta: Array, seed: int) -> StartResult:
    """Return the point after an online pass over the sequences of a chain; the root of its precision is the metric.

    Attributes of a token are far from independent, so the precision itself is too stiff where they are frequent.
    Values on wild scales may lead astray: then one starts at zero after all.
    """
    online = OnlineMajorization(seed=seed)
    after = online.step(objective, online.start(objective, theta))
    root, point = np.sqrt(after.curvature.entries), objective.point(after.theta)
    if not point.value <= objective.value_at_zero():
        point = objective.point(theta)
    metric = Unridged(Diagonal(root, majorizes=False).factorized())
    return StartResult(point, metric, least_factor=0.0, account=("an online pass, and the root of its precision",))
