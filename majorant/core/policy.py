"""What ``solver="auto"`` does: quasi-Newton steps in a metric that is worth its price.

Where it starts (the first of these that applies, :meth:`QuasiNewton.start_within`):

1. small dense data of three classes or more: Newton's steps until the end (``small``), from θ or from zero;
2. a given θ: there, unless F is less at zero;
3. chains of at most ten sequences for each parameter: dual ascent, or else an online pass (``ascent``);
4. sparse rows, with columns twice as many or more: sweeps of dual coordinate descent while they contract (``dual``);
5. tall data: Newton's steps on a sample of the rows, if two of them cost no more than one L-BFGS step on all rows;
   the Hessian of the sample is the first metric;
6. fewer dense rows than columns, or not many more: Newton's method among combinations of the rows, if the matrix of
   their products K = XXᵀ costs no more than ``FREE`` steps (``row_space``), else zero;
7. dense data of which products with X are a third of a step or more, chains over dense columns among them: steps on a
   copy in single precision, until one gains less than 5e-6 of F;
8. anything else: the given θ, or zero.

What it does before each step (:meth:`QuasiNewton.step`, :meth:`QuasiNewtonState.due`):

1. no metric yet: the best rung of the ladder that costs no more than ``FREE`` steps;
2. the space of the rows pays: Newton's method there, once;
3. a better rung pays, or the same one pays and is old: it is found at this θ. A metric is old once steps in it have
   cost ``WINDOW`` times its price, a Hessian after a step;
4. products with the Hessian pay: from now on steps are Newton's, by conjugate gradients in the metric.

Then comes an L-BFGS step in the metric, or Newton's, and a line search on it. If that finds nothing better, it is tried
without conjugate gradients, without pairs, then with each rung found anew.

The ladder (``preconditioners``): the diagonal of the Hessian; C ⊗ diag(g) with C between classes; C ⊗ G with G the Gram
matrix of the columns, if it is cheaper than the Hessian and its solves cost no more than a step; the Hessian. A chain
over dense columns has one rung, its own (``Model.preconditioner``).

What pays (:meth:`QuasiNewtonState.pays`) is decided by the rule of ski rental: rent until rents add up to the price,
then buy. Steps add what they cost to a budget, and a metric is found once its price is in the budget, and is less than
what is left to do. So metrics never cost more than steps do, and a fit not much more than twice the best choice,
whatever the data. What is left to do is estimated from how fast steps have decreased F; prices are counted operations
times measured rates.

``core.stopping`` decides when to compute a tight certificate and when to stop; ``core.run`` has the loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log
from typing import Any

import numpy as np

from majorant.core import ascent, dual, row_space, small
from majorant.core.ascent import from_online_pass, learns_online
from majorant.core.certificates import KnownHessian
from majorant.core.checks import Array, lazy, one_of, whole
from majorant.core.curvature import Dense, Factorize, Solve
from majorant.core.line_search import EXACT, LOOSE, RISE, Point, Ray, best_step
from majorant.core.objective import Objective
from majorant.core.preconditioners import (
    FREE,
    LADDERS,
    PRODUCTS_PER_STEP,
    ROWS_PER_COLUMN,
    ROWS_PER_PARAMETER,
    SINGLE,
    STEP,
    GramOfColumns,
    HessianOfAll,
    Level,
    Preconditioner,
    Prices,
    StartResult,
    pays_in_single_precision,
)
from majorant.core.quasi_newton import (
    MANY_PARAMETERS,
    MOST_STEPS,
    HessianProducts,
    Pairs,
    Scaled,
    add_pair,
    conjugate_gradients,
    quasi_newton_step,
    shifted,
)
from majorant.core.solver import MATTERS, Newton, State, SteppingSolver, improves, known
from majorant.core.threads import as_array, cast_like

# The gain, relative to F, at which nothing is left to do; and that at which the optimum of a sample is found: it is not
# that of all rows.
AIM, SAMPLE_AIM = 1e-10, 1e-4
# Steps that tell how fast gains shrink; a metric is found anew once steps have cost so many times its price.
WINDOW = 8
# L-BFGS pairs; and the least factor by which a metric other than a Hessian is scaled to agree with the last pair.
PAIRS, LEAST_FACTOR = 20, 0.2


@dataclass(frozen=True)
class Plan:
    """What can be bought for data of a shape, and what each costs, in L-BFGS steps."""

    rungs: tuple[tuple[Preconditioner, float, float], ...]  # the best metric first: its price, and that of a solve
    product: float = inf  # with the Hessian
    row_space: float = inf  # K = XXᵀ
    row_product: float = inf  # with K

    @classmethod
    def of(cls, objective: Objective, kind: str, at: Point) -> Plan:
        """Return the plan for an objective. Of a chain every metric is taken to cost a step."""
        products = kind == "auto" and objective.convex and HessianProducts.suit(objective)
        if not objective.model.has_rows:
            own = objective.model.preconditioner(objective.like) if kind == "auto" else None
            return cls(((own or LADDERS[kind][0], 1.0, 0.0),), 1.0 if products else inf)
        prices, gram = Prices.of(objective), GramOfColumns()
        step = prices.step
        price = {rung: cost for rung in LADDERS[kind] if (cost := rung.price(objective)) is not None}

        # No metric more than doubles the price of a step, unless there is no other; nor is a Gram matrix worth what a
        # Hessian costs. One that another problem over the same rows has found costs nothing but its factors.
        kept = [rung for rung in price if price[rung][1] <= step] or list(price)
        if gram in kept and price[gram][0] >= price.get(HessianOfAll(), (inf, 0.0))[0]:
            kept = [rung for rung in kept if rung != gram] or kept
        if gram in price and gram.is_known(objective, at):
            price[gram] = prices.gram(0), price[gram][1]
        has_row_space = kind == "auto" and row_space.suits(objective)
        return cls(
            tuple((rung, price[rung][0] / step, price[rung][1] / step) for rung in reversed(kept)),
            prices.product() / step if products else inf,
            prices.row_products() / step if has_row_space else inf,
            prices.product_of_rows() / step,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class QuasiNewtonState(State):
    """Where the solver is, the metric that steps are scaled by, and L-BFGS pairs."""

    FOUND = ("direction",)

    plan: Plan | None = None  # not before the first step
    factorize: Factorize | None = None  # the metric, as what makes its inverse for a ridge
    ridge: Array | None = None  # of the pairs and of ``solve``; None of a penalty that is no ridge
    solve: Solve | None = None
    level: int = Level.NONE  # of the metric, in the ladder
    budget: float = FREE  # what steps have cost, less what was paid, in L-BFGS steps
    spent: float = 0.0  # what steps have cost in this metric
    gains: tuple[tuple[float, float], ...] = ()  # −½∇Fᵀδ of the latest steps in this metric, and what each cost
    by_products: bool = False  # whether steps are Newton's, by conjugate gradients in the metric
    rows_tried: bool = False  # whether the row space was tried
    pairs: Pairs = ()
    least_factor: float | None = None  # that the last pair may scale the metric by
    curved_at: Array | None = None  # θ of the metric, if that is the Hessian of all rows
    whole_step: bool = True  # whether the last step was a whole one
    steps: int = 0
    continuation: Any = None  # of a start that is not done yet
    most: int = MOST_STEPS  # steps of the whole run

    # --- what pays ----------------------------------------------------------------------------------------

    def left(self) -> float:
        """Return the price of all steps to come, at the rate of the last ones; infinite if these have gained nothing.

        It takes two steps to know a rate. Before that a Hessian may be found anew (infinite), and nothing else (zero).
        """
        assert self.point is not None
        if len(self.gains) < 2:
            return 0.0 if self.curved_at is None else inf
        if not 0 < self.gains[-1][0] < self.gains[0][0]:
            return inf
        rate = log(self.gains[0][0] / self.gains[-1][0]) / (len(self.gains) - 1)
        steps = max(log(self.gains[-1][0] / max(AIM * abs(self.point.value), 1e-300)), 0.0) / rate
        return steps * sum(cost for _, cost in self.gains) / len(self.gains)

    def pays(self, price: float, each: float = 0.0) -> bool:
        """Return whether to pay a price now, and so much more for every step that is left then."""
        return price <= self.budget and each < 1.0 and price + FREE < (1.0 - each) * self.left()

    def due(self) -> tuple[Preconditioner, float] | None:
        """Return the metric to find before the next step, and its price: the first, or a better or a new one that pays.

        The same metric is new where θ has moved, so that it is due once steps in it have cost enough.
        """
        assert self.plan is not None
        if self.level == Level.NONE:
            affordable = [(rung, price) for rung, price, solve in self.plan.rungs if price + FREE * solve <= FREE]
            return affordable[0] if affordable else self.plan.rungs[-1][:2]
        for rung, price, solve in self.plan.rungs:
            patience = 1.0 if rung.level >= Level.SAMPLE else WINDOW * max(price, 1.0)
            better = rung.level > self.level or (rung.level == self.level and self.spent >= patience)
            if better and self.pays(price, solve):
                return rung, price
        return None

    # --- what it becomes ----------------------------------------------------------------------------------

    def in_metric(self, factorize: Factorize, ridge: Array, rung: Preconditioner, price: float) -> QuasiNewtonState:
        """Return the state in a metric that was found at its θ. Pairs are kept, but a Hessian knows better."""
        is_hessian, again = rung.level >= Level.SAMPLE, rung.level == self.level
        return self.changed(
            factorize=factorize,
            solve=factorize(ridge),
            level=rung.level,
            budget=max(self.budget - price, 0.0),
            spent=0.0,
            gains=self.gains if again or (self.by_products and not is_hessian) else (),
            pairs=() if is_hessian else self.pairs,
            whole_step=self.whole_step or is_hessian,
            least_factor=None if is_hessian else LEAST_FACTOR,
            curved_at=self.theta if isinstance(rung, HessianOfAll) else None,
            account=self.account if again and self.by_products else (*self.account, (self.steps, rung.name)),
        )

    def with_products_if_they_pay(self) -> QuasiNewtonState:
        """Return the state with Newton's steps from now on, or the same if products with the Hessian do not pay."""
        assert self.plan is not None
        pays = self.level < Level.SAMPLE and self.pays(0.0, PRODUCTS_PER_STEP * self.plan.product)
        if self.by_products or not pays:
            return self
        account = (*self.account, (self.steps, "Newton steps by conjugate gradients"))
        return self.changed(by_products=True, pairs=(), gains=(), account=account)

    def begun(self, start: StartResult, ridge: Array) -> QuasiNewtonState:
        """Return the state in which steps begin after a start, or the start goes on."""
        has_metric = start.factorize is not None
        return self.moved_to(
            start.point,
            factorize=start.factorize,
            solve=None if start.factorize is None else start.factorize(ridge),
            level=start.level if has_metric else Level.NONE,
            budget=0.0 if has_metric else FREE,
            spent=0.0,
            gains=(),
            least_factor=start.least_factor,
            continuation=start.continuation,
            steps=self.steps + start.steps,
            unseen=start.steps,
            pairs=(),
            curved_at=None,
            account=(*self.account, *((self.steps, done) for done in start.account)),
            remark=start.remark,
        )

    @lazy
    def direction(self) -> Array:
        """The next L-BFGS step."""
        assert self.point is not None
        assert self.solve is not None
        return quasi_newton_step(self.point.gradient, self.pairs, self.solve, self.least_factor)

    def predicted_decrease(self) -> float:
        """Return by how much the next step is predicted to decrease F, in the metric that there is."""
        newton = self.by_products and self.level < Level.SAMPLE
        if self.point is None or self.solve is None or self.continuation is not None or newton:
            return float("nan")
        return -0.5 * float(self.point.gradient @ self.direction)

    def hessian(self) -> KnownHessian | None:
        """Return the Hessian of all rows, if that is the metric."""
        curvature = getattr(self.factorize, "__self__", None)
        if self.curved_at is None or not isinstance(curvature, Dense):
            return None
        return KnownHessian(self.curved_at, curvature.matrix)

    def resumed(self, objective: Objective, point: Point, steps: int) -> QuasiNewtonState:
        """Return the state with what is known of its θ found again, for so many more steps."""
        return super().resumed(objective, point, steps).changed(most=self.steps + steps)

    def revived(self, objective: Objective) -> QuasiNewtonState:
        """Return the state with a start that sees the data again, and what was on a device there again."""
        state = self
        if self.continuation is not None:
            state = self.changed(continuation=self.continuation.revived(objective))
        if self.factorize is None or self.solve is not None:
            return state
        pairs = tuple((*map(objective.blocks.placed, (s, y)), sy) for s, y, sy in self.pairs)
        return state.changed(pairs=pairs, factorize=None, level=Level.NONE)

    def carried(self, objective: Objective, theta: Array) -> QuasiNewtonState | None:
        """Return the state at θ under another ridge: the metric is as it was, and y changes by (λ' − λ)s."""
        ridge = objective.penalty.prior
        if self.factorize is None or self.ridge is None or ridge is None or np.array_equal(ridge, self.ridge):
            return None
        return self.moved_to(
            objective.point(theta),
            plan=None,
            ridge=ridge,
            solve=self.factorize(ridge),
            pairs=shifted(self.pairs, ridge - self.ridge),
            gains=(),
            steps=0,
            account=((0, "the metric of another penalty"),),
            stalled=False,
            curved_at=None,  # the rows may be others
        )


@dataclass(frozen=True, kw_only=True)
class QuasiNewton(SteppingSolver[QuasiNewtonState]):
    """L-BFGS, or Newton's method by conjugate gradients, in a metric that suits the data. Nothing to tune.

    Parameters
    ----------
    curvature : {"auto", "sample", "kronecker", "diagonal"}
        The best metric to use. "auto" climbs the whole ladder (see the top of the module), "sample" starts from a
        sample of the rows and does the same, "kronecker" is C ⊗ G alone, and "diagonal" is diagonals alone. Only models
        with classes have a choice.
    memory : int, optional
        L-BFGS pairs kept; if not given 20, or 10 of more than 30,000 parameters, which are in single precision.
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

    curvature: str = "auto"
    memory: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        one_of("curvature", self.curvature, tuple(LADDERS))
        if self.memory is not None:
            whole("memory", self.memory, least=0)

    def _kind(self, objective: Objective) -> str:
        return self.curvature if objective.model.classes(objective.like) else "auto"

    # --- where to start -----------------------------------------------------------------------------------

    def start(self, objective: Objective, theta: Array) -> QuasiNewtonState:
        """Return the state where steps begin: the first part of the tree at the top of the module."""
        return self.start_within(objective, theta, MOST_STEPS)

    def start_within(self, objective: Objective, theta: Array, steps: int) -> QuasiNewtonState:
        kind, ridge = self._kind(objective), objective.penalty.prior
        here = objective.point(theta) if theta.any() else None
        if kind == "auto" and small.suits(objective):
            at = objective.point(objective.with_likely_intercept(np.zeros(objective.size))) if here is None else here
            return self._of_small(small.SmallNewton.of(objective), at, ridge, steps)
        if here is not None and (not steps or not objective.convex or here.value <= objective.value_at_zero()):
            return QuasiNewtonState.at(here, ridge=ridge, most=steps)
        zero = objective.with_likely_intercept(np.zeros(objective.size))
        rows, rows_tried = sample_size(objective) if kind in ("auto", "sample") else 0, False
        of_chain = kind == "auto" and not objective.model.has_rows
        if of_chain and ascent.suits(objective):
            begun = ascent.begin(objective, zero, self.seed)
        elif of_chain and learns_online(objective):
            begun = from_online_pass(objective, zero, self.seed)
        elif kind == "auto" and dual.suits(objective):
            begun = dual.begin(objective).go_on(objective, None, self.seed)
        elif rows or kind == "sample":
            begun = from_sample(objective, zero, self.seed, rows, steps)
        elif kind == "auto" and row_space.suits(objective):
            rows_tried = row_space.is_next_to_free(objective)
            if rows_tried:
                begun = row_space.newton_among_rows(objective, steps)
            if not rows_tried or begun.point.value > objective.value_at_zero():  # columns far from zero, say
                begun = StartResult(objective.point(zero) if here is None else here)
        elif kind == "auto" and pays_in_single_precision(objective):
            narrow = objective.narrowed()
            assert narrow is not None
            state = QuasiNewtonState.at(narrow.point(zero), ridge=ridge)
            return self._in_single_precision(narrow, state, steps, objective).changed(most=steps)
        else:
            begun = StartResult(objective.point(zero) if here is None else here)
        return (
            QuasiNewtonState.at(begun.point, ridge=ridge)
            .begun(begun, objective.ridge)
            .changed(most=steps, rows_tried=rows_tried)
        )

    def _in_single_precision(
        self, narrow: Objective, state: QuasiNewtonState, steps: int, objective: Objective
    ) -> QuasiNewtonState:
        """Return where steps in a lower precision lead until they gain next to nothing, in that of the objective."""
        for _ in range(min(MOST_STEPS, steps)):
            assert state.point is not None
            if state.gains and state.gains[-1][0] <= SINGLE * state.point.value:
                break
            following = self.step(narrow, state)
            if following.stalled:
                break
            state = following
        objective.spend(passes=0.5 * narrow.work.passes, curvatures=narrow.work.curvatures)
        account = (*state.account, (state.steps, "double precision"))
        return state.moved_to(objective.point(state.theta), account=account, curved_at=None, unseen=state.steps)

    def carry(self, objective: Objective, state: QuasiNewtonState, theta: Array, steps: int) -> QuasiNewtonState | None:
        """Return the state at θ under another ridge, after steps in a lower precision if that takes no copy of rows."""
        if isinstance(state.continuation, small.SmallNewton):
            at = objective.point(theta)
            return self._of_small(state.continuation.carried(), at, objective.penalty.prior, steps)
        narrow = objective.narrowed() if pays_in_single_precision(objective, freely=True) else None
        if narrow is None:
            return state.carried(objective, theta)
        carried = state.carried(narrow, theta)
        return None if carried is None else self._in_single_precision(narrow, carried, steps, objective)

    @staticmethod
    def _of_small(known: small.SmallNewton, at: Point, ridge: Array | None, steps: int) -> QuasiNewtonState:
        """Return the state in which Newton's steps on small data begin."""
        return QuasiNewtonState.at(at, ridge=ridge, most=steps, continuation=known, account=((0, known.name),))

    # --- a step -------------------------------------------------------------------------------------------

    def step(self, objective: Objective, state: QuasiNewtonState) -> QuasiNewtonState:
        """Return the state after one step: a metric if one pays, a direction, a line search, and a new pair."""
        here, ridge = known(objective, state), objective.ridge

        # A start that is not done yet goes on.
        if state.continuation is not None:
            return state.changed(steps=state.steps + 1).begun(
                state.continuation.go_on(objective, here, self.seed), ridge
            )
        if state.point is not here or state.plan is None:
            found = state.plan or Plan.of(objective, self._kind(objective), here)
            state = state.moved_to(here, plan=found, unseen=state.unseen)
        plan = state.plan
        assert plan is not None

        # Newton's method in the space of the rows, once.
        if not state.rows_tried and state.pays(plan.row_space, PRODUCTS_PER_STEP * plan.row_product):
            state = state.changed(rows_tried=True, budget=max(state.budget - plan.row_space, 0.0))
            begun = row_space.newton_among_rows(objective, state.most - state.steps - 1)
            if improves(objective, begun.point, here):
                return state.changed(steps=state.steps + 1).begun(begun, ridge)

        # Another metric, or Newton's steps from now on.
        if (due := state.due()) is not None:
            state = state.in_metric(due[0].at(objective, here), ridge, *due)
        else:
            state = state.with_products_if_they_pay()

        before, again = state, [rung for rung in plan.rungs[::-1] if rung[0].level >= state.level]
        again = again or [*plan.rungs[::-1]]
        while True:
            # The direction: Newton's, or that of L-BFGS.
            newton = state.by_products and state.level < Level.SAMPLE
            if newton:
                assert state.solve is not None
                times = HessianProducts(objective, here)
                by = conjugate_gradients(as_array(here.gradient), times, state.solve)
                step, cost = cast_like(by.x, here.gradient), 1.0 + by.products * plan.product
            else:
                step, cost = state.direction, 1.0
            slope = float(here.gradient @ step)

            # The line search. Steps by the Hessian are few, and worth a long one.
            ray = Ray(objective, here, step, unit_step=state.whole_step)
            flat_enough = EXACT if state.curved_at is here.theta else LOOSE
            length = best_step(ray, (here.value, slope), flat_enough, max(RISE, MATTERS * objective.epsilon))
            new = ray.point_at(length)
            if improves(objective, new, here):
                memory = PAIRS if len(new.theta) <= MANY_PARAMETERS else PAIRS // 2
                memory = memory if self.memory is None else self.memory
                return state.moved_to(
                    new,
                    pairs=() if newton else add_pair(objective, state.pairs, here, new, memory),
                    whole_step=length == 1.0,
                    gains=(*state.gains, (-0.5 * slope, cost))[-WINDOW:],
                    budget=state.budget + cost,
                    spent=state.spent + cost,
                    steps=state.steps + 1,
                )

            # Nothing better was found: try without conjugate gradients, then without pairs, then with each metric anew.
            # Data in half precision are coarser than what another try could gain.
            if newton and objective.epsilon <= SINGLE:
                state = state.changed(by_products=False)
            elif state.pairs and objective.epsilon <= SINGLE:
                state = state.changed(pairs=())
            elif again and objective.epsilon <= SINGLE:
                rung, price, _ = again.pop(0)
                plain = before.changed(by_products=False, pairs=())
                state = plain.in_metric(rung.at(objective, here), ridge, rung, price)
            else:
                return before.changed(unseen=0, stalled=True)


# --- Newton's method on a sample ------------------------------------------------------------------------------


def sample_size(objective: Objective) -> int:
    """Return how many rows make a sample of which two Newton steps cost one L-BFGS step; 0 if too few to be one."""
    if not (objective.model.has_rows and objective.convex):
        return 0
    prices, least = Prices.of(objective), _least_rows(objective)
    fixed, of_least = STEP + prices.hessian(0), STEP + prices.hessian(least)
    if 2 * least > objective.rows or 2 * of_least > prices.step:
        return 0
    affordable = least * (prices.step / 2 - fixed) / (of_least - fixed)
    if objective.whole is None:  # it is fetched
        # Numbers of a sample of rows that are not in memory, at most: 32 MB, as much as a few chunks.
        affordable = min(affordable, (2**22) / max(prices.stored, 1.0))
    return max(least, int(min(affordable, objective.rows / 2)))


def from_sample(objective: Objective, theta: Array, seed: int, rows: int, steps: int) -> StartResult:
    """Return nearly the optimum of a sample, or θ if that is better, and the Hessian of the sample."""
    sample, newton, made = objective.sampled(rows or _least_rows(objective), seed), Newton(), 0
    state = newton.start(sample, theta)
    for _ in range(min(MOST_STEPS, steps)):
        assert state.point is not None
        if -(state.point.gradient @ state.direction) <= SAMPLE_AIM * abs(state.point.value):
            break
        state, made = newton.step(sample, state), made + 1
        if state.stalled:
            break
    share = sample.rows / objective.rows
    objective.spend(passes=share * sample.work.passes, curvatures=sample.work.curvatures)
    assert state.curvature is not None
    point = objective.point(state.theta)
    if not point.value < (objective.value(theta) if theta.any() else objective.value_at_zero()):
        point = objective.point(theta)
    account = (f"Newton steps on {sample.rows} of {objective.rows} rows, and their Hessian",)
    return StartResult(point, OfSample(state.curvature, share), level=Level.SAMPLE, steps=made, account=account)


def _least_rows(objective: Objective) -> int:
    columns = objective.size // max(objective.model.classes(objective.like), 1)
    return min(max(ROWS_PER_COLUMN * columns, ROWS_PER_PARAMETER * objective.size), objective.rows)


@dataclass(frozen=True, eq=False)
class OfSample:
    """The Hessian of a share of the rows, which stands for that of all."""

    hessian: Dense
    share: float

    def __call__(self, ridge: Array) -> Solve:
        """Return the inverse for a ridge."""
        return Scaled(self.hessian.steadied(self.share * ridge), self.share)
