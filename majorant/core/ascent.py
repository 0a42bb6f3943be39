"""Starts of chains: dual ascent, which moves one sequence at a time, and a pass of online learning.

**Dual ascent**: rounds of visits, as long as they contract well.

Each sequence is moved exactly as far as the dual objective rises (a model's
:class:`~majorant.core.model.DualAscent`), so there is no step size. The first rounds visit all sequences, later
ones those that promise most: what a visit gained the last time says what another one would. Neither F nor the dual
objective is evaluated on the way; promises tell when to evaluate F. The mean of θ over a round is far better than θ at
its end. It is taken of the last round before F is evaluated alone, since a good mean takes many snapshots of θ.

Several threads may share the rounds of a chain (``chain.dual.SharedAscent``): they move one θ without locks, which is
made anew from the marginals after each round. Groups of sequences that move copies of θ, added up now and then, were
worse: each settles what is frequent for itself, and together they go too far. Four diverged on CoNLL-2000.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from majorant.core.checks import Array, one_of, whole
from majorant.core.curvature import Diagonal
from majorant.core.line_search import Point
from majorant.core.objective import Objective
from majorant.core.penalty import ElasticNet
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
        """Return the state after a pass: here, or by workers, each of whom goes on from it with what it holds."""
        order, F, passes = Order(self.seed, self.shuffle), objective, state.passes
        after = before = OnlineStream(F.model, state.theta, state.curvature.entries)
        if not F.comes_here:
            after = before.joined(*F.blocks.total(partial(learnt_apart, before, order, passes, self.curvature)))
        elif F.whole is not None:
            after = before.learn(F.whole, order.of_pass(passes, F.rows), self.curvature)
        else:  # block by block
            for number, block in enumerate(F.data.blocks(F.rows)):
                after = after.learn(block, order.of_chunk(passes, number, len(block)), self.curvature)
        F.spend(passes=1)
        gathered = Diagonal(after.precision, majorizes=False)
        return replace(state, theta=after.theta, curvature=gathered, passes=passes + 1)


# --- a start for quasi-Newton steps -----------------------------------------------------------------------------


def learns_online(objective: Objective) -> bool:
    """Return whether an online pass can be the start: of a chain, with every parameter penalised."""
    penalty, few = objective.penalty, objective.rows <= MOST_ROWS * objective.size
    return few and objective.model.learns_online() and penalty.prior is not None and penalty.everywhere


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


# --- dual ascent --------------------------------------------------------------------------------------------

# With more sequences for each parameter all directions are stiff, and steps from zero take fewer passes.
MOST_ROWS = 10
# Rounds over all sequences. Later ones visit those that make up this share of all promises; those of others grow.
FULL_ROUNDS, COVERED, AGEING = 2, 0.8, 1.5
# F is evaluated when rounds to come promise this share of the dual objective; then when this share of that is left.
FIRST_LOOK, NEXT_LOOK = 2e-3, 0.1
# Rounds end after so many in succession that leave more than this share of what was promised; or after so many at all.
PATIENCE, SLOW, MOST_ROUNDS = 2, 0.9, 500
# Where the next evaluation of F is more passes away than this, quasi-Newton steps certify sooner.
FAR = 5.0


@dataclass(frozen=True, eq=False)
class Ascent:
    """How far the rounds have come: the marginals, the mean θ of the last round, and what is still promised."""

    work: Any
    theta: Array
    promised: float = np.inf
    rate: float = 0.0  # to which share of itself that shrank
    passes: float = 1.0  # of the last round
    rounds: int = 0
    slow: int = 0  # rounds in succession
    look: float = FIRST_LOOK
    finite: bool = True

    @property
    def contracts(self) -> bool:
        """Whether further rounds are worth it."""
        return self.finite and self.slow < PATIENCE and self.rounds < MOST_ROUNDS

    def revived(self, objective: Objective) -> Ascent:
        """Return the same with the sequences that marginals are of."""
        work = marginals(objective)
        work.take_up(self.work)
        return replace(self, work=work)

    def go_on(self, objective: Objective, before: Point | None, seed: int) -> StartResult:
        """Return the point after a few more rounds; where they have ended, what steps from there are scaled by."""
        after = ascend(objective, self, seed)
        point = objective.point(after.theta) if after.finite else None
        if point is None or not point.value <= objective.value_at_zero():  # numbers ran off, or marginals had no room
            if not objective.penalty.smooth:
                return StartResult(
                    objective.point(np.zeros(objective.size)), remark="dual ascent did not lead anywhere"
                )
            begun = from_online_pass(objective, np.zeros(objective.size), seed)
            why = "dual ascent did not lead to the optimum, so an online pass made the start instead"
            return replace(begun, remark=why)
        far = after.rate > 0  # rounds that no longer contract never get there
        if 0 < after.rate < 1:
            far = bool(after.passes * np.log(NEXT_LOOK) / np.log(after.rate) > FAR)
        if after.contracts and not far:
            return StartResult(point, continuation=after)

        done = (f"{after.rounds} rounds of dual ascent",)
        best = point if before is None or point.value < before.value else before
        if not objective.penalty.smooth:
            return StartResult(best, account=done)

        # The metric is the root of the diagonal of the Hessian: attributes of a token are far from independent, so the
        # diagonal itself is too stiff where they are frequent. It is that of the marginals, which are nearer to those
        # at the optimum than the ones of θ: with a small penalty θ has to grow far, and p(1 − p) to shrink, while
        # marginals begin at what was observed.
        objective.spend(curvatures=1)
        metric = Diagonal(np.sqrt(after.work.hessian_diagonal() + objective.ridge), majorizes=False)
        done = (f"{done[0]}, and the diagonal of the Hessian",)
        return StartResult(best, Unridged(metric.factorized()), least_factor=0.0, account=done)


def suits(objective: Objective) -> bool:
    """Return whether the model has a dual ascent, there are many rows, and every parameter is penalised.

    The penalty is a ridge, or an elastic net that is the same for all parameters.
    """
    penalty = objective.penalty
    # With fewer sequences than ten, too much of θ moves at a time.
    if not objective.comes_here or not 10 <= objective.rows <= MOST_ROWS * objective.size:
        return False
    if isinstance(penalty, ElasticNet):
        same = bool((penalty.l1 == penalty.l1[0]).all() and (penalty.l2 == penalty.l2[0]).all())
        return same and penalty.l1[0] > 0 and objective.model.ascends(objective.data)
    return penalty.prior is not None and penalty.everywhere and objective.model.ascends(objective.data)


def begin(objective: Objective, theta: Array, seed: int) -> StartResult:
    """Return the point after the first rounds, from zero; the diagonal of the Hessian where it ends is the metric."""
    return Ascent(marginals(objective), theta).go_on(objective, None, seed)


def marginals(objective: Objective) -> Any:
    """Return what was observed, and θ = 0 with it."""
    penalty = objective.penalty
    if isinstance(penalty, ElasticNet):
        return objective.model.dual_ascent(objective.data, penalty.l2, float(penalty.l1[0]))
    return objective.model.dual_ascent(objective.data, penalty.as_prior(), 0.0)


def ascend(objective: Objective, ascent: Ascent, seed: int) -> Ascent:
    """Return the state after as many rounds as it takes for F to be worth evaluating, with the mean θ of the last."""
    work, averaged = _rewound(objective, ascent, seed), False
    ascent = replace(ascent, work=work)
    while ascent.finite:
        # What all rounds to come promise, a geometric series; and what is worth evaluating F, or is not worth a round.
        rate, enough = ascent.rate, ascent.look * abs(work.value)
        remaining = ascent.promised * max(1.0, rate / max(1 - rate, 1e-9)) if rate < 1 else np.inf
        if averaged and (not ascent.contracts or remaining <= enough):
            break
        averaged = not ascent.contracts or (ascent.rounds >= FULL_ROUNDS and remaining * rate <= enough)
        order = _order(work, seed)
        # Of θ in a round, to be averaged: where F is stiff, θ strays to all sides.
        finite = work.visit(order, 100 if averaged else 1)
        passes, promised = float(work.lengths[order].sum() / work.lengths.sum()), float(work.gains.sum()) + work.moved
        objective.spend(passes=passes)
        rate = promised / ascent.promised if promised > 0 else 0.0
        slow, rounds = ascent.slow + 1 if rate > SLOW else 0, ascent.rounds + 1
        ascent = replace(ascent, promised=promised, rate=rate, passes=passes, rounds=rounds, slow=slow, finite=finite)
    theta = work.average() if ascent.finite else ascent.theta
    return replace(ascent, theta=theta, look=ascent.look * NEXT_LOOK)


def _rewound(objective: Objective, ascent: Ascent, seed: int) -> Any:
    """Return the marginals after the rounds of a state: they move in place, so those of an earlier one are redone."""
    work = ascent.work
    if work.rounds != ascent.rounds:
        work = marginals(objective)
        while work.rounds < ascent.rounds:
            work.visit(_order(work, seed))
    return work


def _order(work: Any, seed: int) -> Array:
    """Return the sequences of the next round: all, or those that promise most; promises of the others grow."""
    chosen = np.arange(len(work.gains))
    if work.rounds >= FULL_ROUNDS and work.selects:
        ranked = np.argsort(-work.gains / np.maximum(work.lengths, 1))
        covered = np.cumsum(work.gains[ranked])
        enough = int(np.searchsorted(covered, COVERED * covered[-1])) + 1
        chosen = ranked[:enough]
        work.gains[ranked[enough:]] *= AGEING
    return np.random.default_rng([seed, work.rounds]).permutation(chosen)
