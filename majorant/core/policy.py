"""What ``solver="auto"`` does: quasi-Newton steps in a metric that is worth its price.

Where it starts, from zero (first of these that applies, ``QuasiNewton._start``):

1. chains: dual ascent, or else an online pass (``ascent``, ``starts``);
2. sparse rows, with columns twice as many or more: sweeps of dual coordinate descent while they contract (``dual``);
3. tall data, of which two Newton steps on a sample cost no more than one step: these, and the Hessian of the sample;
4. dense rows, not many more than columns, whose matrix K = XXᵀ costs less than the steps that most fits take: Newton's
   method among combinations of the rows (``row_space``);
5. dense data of which products with X are a third of a step or more: steps on a copy in single precision, until one
   gains less than 5e-6 of F;
6. anything else: zero. A given θ is left for one of these if a step promises to gain more than a thousandth of F.

What it does before each step (``QuasiNewton._with_metric``):

1. no metric yet: the best rung of the ladder that costs no more than ``FREE`` steps;
2. the space of the rows pays: Newton's method there, once;
3. a better rung pays, or the same one pays and is old: it is found at this θ. A metric is old once steps in it have
   cost ``PATIENCE`` times its price, a Hessian after a step;
4. products with the Hessian pay: from now on steps are Newton's, by conjugate gradients in the metric (``newton_cg``).

Then comes an L-BFGS step in the metric, or Newton's, and a line search on it. If that finds nothing better, it is tried
without conjugate gradients, without pairs, then with each rung found anew.

The ladder (``preconditioners``): the diagonal of the Hessian; C ⊗ diag(g) with C between classes; C ⊗ G with G the Gram
matrix of the columns, if it is cheaper than the Hessian and its solves cost no more than a step; the Hessian.

What pays (``QuasiNewtonState.pays``) is decided by the rule of ski rental. Steps add what they cost to a budget, and
purchases are paid from it; what is bought has to cost no more than is in the budget, and less than what is left to do.
So purchases never cost more than steps do, and a fit not much more than twice the best choice, whatever the data. What
is left to do is told by how fast steps have gained; prices are counted operations times measured rates (``prices``).

``core.stopping`` decides when to compute a tight certificate and when to stop; ``core.run`` has the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import inf, log

import numpy as np

from majorant.core import ascent, dual, row_space
from majorant.core.certificates import KnownHessian
from majorant.core.checks import Array, one_of, whole
from majorant.core.curvature import Dense, Factorize, Solve
from majorant.core.line_search import EXACT, LOOSE, Point
from majorant.core.objective import Objective
from majorant.core.preconditioners import HESSIAN, LADDERS, GramOfColumns, HessianOfAll, Preconditioner
from majorant.core.prices import (
    FREE,
    MANY_PARAMETERS,
    PRODUCTS_PER_STEP,
    Prices,
    narrows_freely,
    pays_in_single_precision,
)
from majorant.core.products import HessianProducts
from majorant.core.quasi_newton import Pairs, add_pair, best_point_along, newton_direction, quasi_newton_step, shifted
from majorant.core.solver import State, SteppingSolver, improves, known
from majorant.core.starts import Begun, DualSweeps, Sweeps, from_online_pass, from_sample, learns_online, sample_size

# Steps that are left to make in any metric.
AT_LEAST = 2.0
# A metric is found anew where θ has moved, after so many steps, and once steps have cost so many times its price.
PATIENCE = 8.0
# The gain, relative to F, at which nothing is left to do; and how many steps tell how fast gains shrink.
AIM, WINDOW = 1e-10, 8
# L-BFGS pairs; and the least factor by which the last of them may correct a metric other than a Hessian.
PAIRS, LEAST_FACTOR = 20, 0.2
# Steps in single precision, at most, and the gain, relative to F, that comes near its rounding errors.
NARROW_STEPS, NARROW_AIM = 100, 5e-6
# Rounding errors of factors with ten bits: there a step that fails says that the precision is too low.
COARSE = 1e-5
# A given θ is left for another start if a step promises to gain more than this, relative to F.
POOR = 1e-3


@dataclass(frozen=True)
class Plan:
    """What can be bought for data of a shape, and what each costs, in L-BFGS steps."""

    rungs: tuple[tuple[Preconditioner, float, float], ...]  # the best metric first: its price, and that of a solve
    product: float = inf  # with the Hessian
    row_space: float = inf  # K = XXᵀ
    row_product: float = inf  # with K

    @classmethod
    def of(cls, objective: Objective, kind: str, at: Point) -> Plan:
        """Return the plan for an objective. Of a chain every rung is taken to cost a step."""
        rungs = [rung for rung in LADDERS[kind] if rung.suits(objective)]
        products = kind == "auto" and objective.convex and HessianProducts.suit(objective)
        if not objective.model.has_rows:
            return cls(tuple((rung, 1.0, 0.0) for rung in reversed(rungs)), 1.0 if products else inf)
        prices = Prices.of(objective)
        step = prices.step()
        price = {rung: rung.price(prices) for rung in rungs}
        gram, hessian = GramOfColumns(), HessianOfAll()
        kept = [rung for rung in rungs if rung.upkeep(prices) <= step] or rungs
        if gram in price and price[gram] >= price.get(hessian, inf):
            kept = [rung for rung in kept if rung != gram] or kept
        if gram in price and gram.is_known(objective, at):
            price[gram] = prices.gram(0)
        has_row_space = kind == "auto" and row_space.suits(objective)
        return cls(
            tuple((rung, price[rung] / step, rung.upkeep(prices) / step) for rung in reversed(kept)),
            prices.product() / step if products else inf,
            prices.row_products() / step if has_row_space else inf,
            prices.product_of_rows() / step,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class QuasiNewtonState(State):
    """Where the solver is, the metric that steps are scaled by, and L-BFGS pairs."""

    plan: Plan | None = None  # not before the first step
    factorize: Factorize | None = None  # the metric, as what makes its inverse for a ridge
    ridge: Array | None = None  # of the pairs and of ``solve``; None of a penalty that is no ridge
    solve: Solve | None = None
    level: int = -1  # of the metric, in the ladder
    budget: float = FREE  # what steps have cost, less what was paid, in L-BFGS steps
    spent: float = 0.0  # what steps have cost in this metric
    gains: tuple[tuple[float, float], ...] = ()  # −½∇Fᵀδ of the latest steps in this metric, and what each cost
    by_products: bool = False  # whether steps are Newton's, by conjugate gradients in the metric
    rows_tried: bool = False  # whether the row space was tried
    pairs: Pairs = ()
    least_factor: float | None = None  # of the metric, if it is right but for a factor, which the last pair tells
    curved_at: Array | None = None  # θ of the metric, if that is the Hessian of all rows
    leaps: bool = True  # whether the last step was a whole one
    steps: int = 0
    sweeps: Sweeps | None = None  # of a start that is not done yet
    most: int = NARROW_STEPS  # steps of the whole run
    given: bool = False  # whether θ was, there are other starts, and nobody has looked yet how good it is

    @property
    def uses_products(self) -> bool:
        """Whether the next step takes products with the Hessian: one that is written out needs none."""
        return self.by_products and self.level < HESSIAN

    def left(self) -> float:
        """Return what steps that are left to make cost, at the rate of the last ones; infinitely much if that is none.

        Two steps have to be known, or nothing but a Hessian is found anew: its steps are worth another until the end.
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
        left = self.left()
        return price <= self.budget and each < 1.0 and price + AT_LEAST < (1.0 - each) * left

    def is_due(self, rung: Preconditioner, price: float) -> bool:
        """Return whether a rung is better than the metric, or the same and that is old; a Hessian is after a step."""
        if rung.level != self.level:
            return rung.level > self.level
        return self.spent >= (1.0 if rung.level >= HESSIAN else PATIENCE * max(price, 1.0))

    def predicted_decrease(self) -> float:
        """Return by how much the next step is predicted to decrease F, in the metric that there is."""
        if self.point is None or self.solve is None or self.sweeps is not None or self.uses_products:
            return float("nan")
        return _predicted_decrease(self.point, _lbfgs_step(self, self.point))

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
        """Return the state with sweeps that see the data again; what was on a device is put, or found, there again."""
        state = self if self.sweeps is None else self.changed(sweeps=self.sweeps.revived(objective))
        if self.factorize is None or self.solve is not None:
            return state
        pairs = tuple((*map(objective.blocks.placed, (s, y)), sy) for s, y, sy in self.pairs)
        return state.changed(pairs=pairs, factorize=None, level=-1)

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
            curved_at=None,  # who knows of which rows
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

    # --- where to start -----------------------------------------------------------------------------------

    def start(self, objective: Objective, theta: Array) -> QuasiNewtonState:
        """Return the state at θ, if that is not zero; else where a start, or steps in single precision, have led."""
        return self.start_within(objective, theta, NARROW_STEPS)

    def start_within(self, objective: Objective, theta: Array, steps: int) -> QuasiNewtonState:
        """Return the same, after no more than so many steps."""
        if not theta.any():
            return self._started(objective, theta, steps).changed(most=steps)
        better = self._start(objective, theta) != "point"
        return self._at(objective, objective.point(theta)).changed(given=better, most=steps)

    def _start(self, objective: Objective, theta: Array) -> str:
        """Return the name of the start that suits."""
        kind = self._kind(objective)
        if kind != "auto":
            return "sample" if kind == "sample" else "point"
        if ascent.suits(objective, theta):
            return "ascent"
        if learns_online(objective, theta):
            return "online pass"
        if dual.suits(objective, theta):
            return "dual sweeps"
        if sample_size(objective):
            return "sample"
        if row_space.suits(objective):
            return "row space" if row_space.pays_at_once(objective) else "point"
        return "single precision" if pays_in_single_precision(objective) else "point"

    def _started(self, objective: Objective, theta: Array, steps: int) -> QuasiNewtonState:
        """Return the state after the start that suits, and no more than so many steps."""
        start = self._start(objective, theta)
        if start == "single precision":
            narrow = objective.narrowed()
            assert narrow is not None
            state = self._at(narrow, narrow.point(narrow.with_likely_intercept(theta)))
            return self._in_single_precision(narrow, state, steps, objective)
        likely = objective.with_likely_intercept(theta)
        if start == "ascent":
            begun = ascent.begin(objective, likely, self.seed)
        elif start == "online pass":
            begun = from_online_pass(objective, likely, self.seed)
        elif start == "dual sweeps":
            begun = DualSweeps(dual.begin(objective)).go_on(objective, None, self.seed)
        elif start == "sample":
            begun = from_sample(objective, likely, self.seed, sample_size(objective), steps)
        elif start == "row space":
            begun = row_space.newton_among_rows(objective, steps)
            if not begun.point.value <= objective.value_at_zero():  # rounding errors of columns far from zero
                begun = Begun(objective.point(likely))
        else:
            begun = Begun(objective.point(likely))
        state = self._at(objective, begun.point).changed(rows_tried=start == "row space")
        return _entered(objective, state, begun)

    def _at(self, objective: Objective, point: Point) -> QuasiNewtonState:
        return QuasiNewtonState.at(point, ridge=objective.penalty.prior)

    def _in_single_precision(
        self, narrow: Objective, state: QuasiNewtonState, steps: int, objective: Objective
    ) -> QuasiNewtonState:
        """Return where steps in a lower precision lead until they gain next to nothing, in that of the objective."""
        for _ in range(min(NARROW_STEPS, steps)):
            assert state.point is not None
            if state.gains and state.gains[-1][0] <= NARROW_AIM * state.point.value:
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
        narrow = objective.narrowed() if narrows_freely(objective) else None
        if narrow is None:
            return state.carried(objective, theta)
        carried = state.carried(narrow, theta)
        return None if carried is None else self._in_single_precision(narrow, carried, steps, objective)

    def _kind(self, objective: Objective) -> str:
        return self.curvature if objective.model.classes(objective.like) else "auto"

    # --- a step -------------------------------------------------------------------------------------------

    def step(self, objective: Objective, state: QuasiNewtonState) -> QuasiNewtonState:
        """Return the state after one step; a start that is not done yet goes on."""
        here = known(objective, state)
        if state.sweeps is not None:
            begun = state.sweeps.go_on(objective, here, self.seed)
            return _entered(objective, state.changed(steps=state.steps + 1), begun)
        if state.point is not here or state.plan is None:
            plan = state.plan or Plan.of(objective, self._kind(objective), here)
            state = state.moved_to(here, plan=plan, unseen=state.unseen)
        assert state.plan is not None
        if not state.rows_tried and state.pays(state.plan.row_space, PRODUCTS_PER_STEP * state.plan.row_product):
            state = state.changed(rows_tried=True, budget=max(state.budget - state.plan.row_space, 0.0))
            begun = row_space.newton_among_rows(objective, state.most - state.steps - 1)
            if improves(objective, begun.point, here):
                return _entered(objective, state.changed(steps=state.steps + 1), begun)
        state = self._with_metric(objective, state, here)
        if state.given and _predicted_decrease(here, _lbfgs_step(state, here)) > POOR * abs(here.value):
            started = self._started(objective, state.theta, max(state.most - 1, 0))  # this is one itself
            if started.point is not None and started.point.value <= here.value:
                return started
            state = state.changed(given=False)
        attempts = self._attempts(objective, state, here)
        for attempt in islice(attempts, 1 if objective.epsilon > COARSE else None):
            step, cost = _step(objective, attempt, here)
            flat_enough = EXACT if attempt.curved_at is here.theta else LOOSE  # Newton's are few, and worth a search
            new, length = best_point_along(objective, here, step, flat_enough, leap=attempt.leaps)
            if improves(objective, new, here):
                return attempt.moved_to(
                    new,
                    pairs=self._paired(objective, attempt, here, new),
                    leaps=length == 1.0,
                    gains=(*attempt.gains, (_predicted_decrease(here, step), cost))[-WINDOW:],
                    budget=attempt.budget + cost,
                    spent=attempt.spent + cost,
                    steps=attempt.steps + 1,
                    given=False,
                )
        return state.changed(unseen=0, stalled=True)

    def _with_metric(self, objective: Objective, state: QuasiNewtonState, here: Point) -> QuasiNewtonState:
        """Return the state with a metric, another one if it pays; or with Newton's steps, if products pay."""
        plan = state.plan
        assert plan is not None
        if state.level < 0:
            affordable = [(rung, price) for rung, price, solve in plan.rungs if price + AT_LEAST * solve <= FREE]
            return _bought(objective, state, here, *(affordable[0] if affordable else plan.rungs[-1][:2]))
        for rung, price, solve in plan.rungs:
            if state.is_due(rung, price) and state.pays(price, solve):
                return _bought(objective, state, here, rung, price)
        if not state.by_products and state.level < HESSIAN and state.pays(0.0, PRODUCTS_PER_STEP * plan.product):
            account = (*state.account, (state.steps, "Newton steps by conjugate gradients"))
            return state.changed(by_products=True, pairs=(), gains=(), account=account)
        return state

    def _attempts(self, objective: Objective, state: QuasiNewtonState, here: Point) -> Iterator[QuasiNewtonState]:
        """Yield the state, then without its pairs, which may be worn out, then with metrics found here."""
        yield state
        if state.uses_products:
            state = state.changed(by_products=False)
            yield state
        if state.pairs:
            yield state.changed(pairs=())
        assert state.plan is not None
        rungs = state.plan.rungs[::-1]
        for rung, price, _ in [entry for entry in rungs if entry[0].level >= state.level] or rungs:
            yield _bought(objective, state, here, rung, price).changed(pairs=())

    def _paired(self, objective: Objective, state: QuasiNewtonState, here: Point, new: Point) -> Pairs:
        if state.uses_products:
            return ()
        usual = PAIRS if len(new.theta) <= MANY_PARAMETERS else PAIRS // 2
        return add_pair(objective, state.pairs, here, new, usual if self.memory is None else self.memory)


def _entered(objective: Objective, state: QuasiNewtonState, begun: Begun) -> QuasiNewtonState:
    """Return the state in which steps begin after a start, or sweeps go on."""
    return state.moved_to(
        begun.point,
        factorize=begun.factorize,
        solve=None if begun.factorize is None else begun.factorize(objective.ridge),
        level=-1 if begun.factorize is None else begun.level,
        budget=FREE if begun.factorize is None else 0.0,
        spent=0.0,
        gains=(),
        least_factor=begun.least_factor,
        sweeps=begun.sweeps,
        steps=state.steps + begun.made,
        unseen=begun.made,
        pairs=(),
        curved_at=None,
        account=(*state.account, *((state.steps, each) for each in begun.account)),
        remark=begun.remark,
    )


def _bought(
    objective: Objective, state: QuasiNewtonState, here: Point, rung: Preconditioner, price: float
) -> QuasiNewtonState:
    """Return the state with another metric. Pairs are kept, unless it is a Hessian, which knows better."""
    factorize, is_hessian = rung.at(objective, here), rung.level >= HESSIAN
    again = rung.level == state.level
    return state.changed(
        factorize=factorize,
        solve=factorize(objective.ridge),
        level=rung.level,
        budget=max(state.budget - price, 0.0),
        spent=0.0,
        gains=state.gains if again or (state.uses_products and not is_hessian) else (),
        pairs=() if is_hessian else state.pairs,
        leaps=state.leaps or is_hessian,
        least_factor=None if is_hessian else LEAST_FACTOR,
        curved_at=here.theta if isinstance(rung, HessianOfAll) else None,
        account=state.account if again and state.uses_products else (*state.account, (state.steps, rung.name)),
    )


def _step(objective: Objective, state: QuasiNewtonState, here: Point) -> tuple[Array, float]:
    """Return the next step, and what it costs, in L-BFGS steps."""
    if not state.uses_products:
        return _lbfgs_step(state, here), 1.0
    assert state.solve is not None
    assert state.plan is not None
    found = newton_direction(objective, here, state.solve)
    return found.x, 1.0 + found.products * state.plan.product


def _lbfgs_step(state: QuasiNewtonState, here: Point) -> Array:
    """Return the next L-BFGS step: found once, whoever asks what it promises before it is made."""
    assert state.solve is not None
    of, known = (here.gradient, state.pairs, state.solve, state.least_factor), vars(state).get("direction")
    if known is None or any(a is not b for a, b in zip(known[0], of, strict=True)):
        known = vars(state)["direction"] = (of, quasi_newton_step(*of))
    return known[1]


def _predicted_decrease(here: Point, step: Array) -> float:
    """Return by how much a step is predicted to decrease F."""
    return -0.5 * float(here.gradient @ step)
