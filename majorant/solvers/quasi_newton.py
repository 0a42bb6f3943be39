"""The default for data in memory: full-gradient quasi-Newton steps, scaled by a curvature that is worth its price.

========================  ==========================================================================================
curvature                 how it is found
========================  ==========================================================================================
``diagonal``              the diagonal of the Hessian; of models with classes C ⊗ diag(g), C between classes
``kronecker``             C ⊗ G, G = Σ_j w_j x_j x_jᵀ, w_j = tr(B_j)/(n − 1): p×p for any number of classes
``sample``                a few Newton steps on some of the rows, with as much of the penalty: start and Hessian
the Hessian               of all rows; of many parameters by blocks that never meet in an outcome, where there are such
========================  ==========================================================================================

Steps begin in one that is next to free, and a dearer one is bought once steps have cost as much
(``majorant.solvers.renting``), or at once where correlations between columns say that it pays
(``majorant.solvers.forecasts``): never much dearer than the best choice. None is a bound: every step is checked by a
line search on the convex function along it, so F never rises. Where many are left to make and products with the Hessian
are cheap, steps turn into Newton's, by conjugate gradients (``majorant.solvers.truncated``). Under another ridge what
was learnt is adapted: a curvature gets new factors, and secant pairs change by a known amount. Tall data start from a
sample, wide dense ones in the space of their rows (``majorant.solvers.row_space``); wide sparse data by dual coordinate
descent (``majorant.solvers.dual``) as long as that contracts well, and there F may rise now and then. So do chains,
sequence by sequence (``majorant.solvers.ascent``); where that cannot be, they start by an online pass and go on scaled
by the root of its precision. Starts are in ``majorant.solvers.starts``, curvatures in
``majorant.solvers.preconditioners``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from majorant._checks import Array, one_of, whole
from majorant.curvature import Dense, Factorize, Solve
from majorant.objective import Objective, Point
from majorant.objective.certificates import KnownHessian
from majorant.objective.products import HessianProducts
from majorant.solvers import truncated
from majorant.solvers.ascent import FromAscent
from majorant.solvers.base import State, SteppingSolver, improves, known
from majorant.solvers.line_search import EXACT, LOOSE
from majorant.solvers.preconditioners import OFFERS, HessianOfAll, Preconditioner
from majorant.solvers.prices import MANY_PARAMETERS, narrows_freely, pays_in_single_precision
from majorant.solvers.renting import HESSIAN, Lease, Market, market_for
from majorant.solvers.row_space import FromRowSpace, in_steps
from majorant.solvers.secants import Pairs, add_pair, best_point_along, quasi_newton_step, shifted
from majorant.solvers.starts import (
    SAMPLE_STEPS,
    Begun,
    FromDual,
    FromOnlinePass,
    FromPoint,
    FromSample,
    Start,
    Sweeps,
)

CURVATURES = tuple(OFFERS)
# Of many parameters pairs are the most that a fit keeps in memory: twice as many save a twelfth of the steps.
PAIRS, PAIRS_OF_MANY = 20, 10
# Of a curvature other than a Hessian, to be corrected by the last pair.
LEAST_FACTOR = 0.2
# Steps in single precision, until what they promise to gain, relative to F, comes near its rounding errors.
NARROW_STEPS, NARROW_AIM = 100, 3e-6
# The same where factors have ten bits.
COARSE, COARSE_AIM = 1e-5, 5e-6
# A point that was given is left for another start if a step promises to gain more than this, relative to F.
POOR = 1e-3
# A curvature from another penalty is found anew if the first step gains so many times less, or more, than it says.
ASTRAY = 10.0
# The space of the rows is tried once steps in all columns have cost so many times as much.
RENTED = 1.0


@dataclass(frozen=True, eq=False, kw_only=True)
class QuasiNewtonState(State):
    """Where the solver is, what steps are scaled by, and the secant pairs."""

    market: Market | None = None  # of the offers that suit; not before the first step
    lease: Lease = field(default_factory=Lease)
    factorize: Factorize | None = None
    ridge: Array | None = None  # of the pairs and of ``solve``; None of a penalty that is no ridge
    solve: Solve | None = None
    pairs: Pairs = ()
    steps: int = 0
    rent: float = 0.0  # what they have cost: as many steps, or more where each took several products
    truncates: bool = False  # whether they are Newton's, by conjugate gradients in the curvature that there is
    leaps: bool = True  # whether the last step was a whole one
    sweeps: Sweeps | None = None  # until they are left for quasi-Newton steps
    least_factor: float | None = None  # of ``solve``, if it is right but for a factor, which the last pair tells
    most: int = NARROW_STEPS  # steps that may still be made unseen
    given: bool = False  # whether θ was, there are other starts, and nobody has looked yet how good it is
    borrowed: bool = False  # whether the curvature is from another penalty, and not tried yet
    curved_at: Array | None = None  # θ where it was found, if it is the Hessian of all rows
    rows_at: float = np.inf  # the rent at which as much was spent as the space of the rows costs

    @property
    def is_truncated(self) -> bool:
        """Whether the next step takes products with the Hessian: one that is written out needs none."""
        return self.truncates and self.lease.quality < HESSIAN and self.sweeps is None

    def promise(self) -> float:
        """Return what the next step promises, in the curvature that there is."""
        if self.point is None or self.solve is None or self.sweeps is not None or self.is_truncated:
            return float("nan")
        return _promise(self.point, _direction(self, self.point))

    def hessian(self) -> KnownHessian | None:
        """Return the one that was bought last, if nothing else was since."""
        curvature = getattr(self.factorize, "__self__", None)
        if self.curved_at is None or not isinstance(curvature, Dense):
            return None
        return KnownHessian(self.curved_at, curvature.matrix)

    def revived(self, objective: Objective) -> QuasiNewtonState:
        """Return the state with sweeps that see the data again; what was on a device is put, or found, there again."""
        state = self if self.sweeps is None else self.changed(sweeps=self.sweeps.revived(objective))
        if self.factorize is None or self.solve is not None:
            return state
        pairs = tuple((*map(objective.blocks.placed, (s, y)), sy) for s, y, sy in self.pairs)
        return state.changed(pairs=pairs, factorize=None, lease=Lease())

    def carried(self, objective: Objective, theta: Array) -> QuasiNewtonState | None:
        """Return the state at θ under another ridge: the curvature is as it was, and y changes by (λ' − λ)s."""
        ridge = objective.penalty.prior
        if self.factorize is None or self.ridge is None or ridge is None or np.array_equal(ridge, self.ridge):
            return None
        return self.moved_to(
            objective.point(theta),
            market=None if self.market is None else self.market.of_another(objective),
            lease=self.lease.carried_on(self.rent),
            ridge=ridge,
            solve=self.factorize(ridge),
            pairs=shifted(self.pairs, ridge - self.ridge),
            steps=0,
            rent=0.0,
            account=((0, "what another penalty had left"),),
            stalled=False,
            borrowed=True,
            curved_at=None,  # who knows of which rows
        )


@dataclass(frozen=True, kw_only=True)
class QuasiNewton(SteppingSolver[QuasiNewtonState]):
    """L-BFGS scaled by a curvature that suits the size of the data. Nothing to tune.

    Parameters
    ----------
    curvature : {"auto", "sample", "kronecker", "diagonal"}
        See the table above. "auto" buys each when it has been earned; the others never buy a Gram matrix or a Hessian
        but the one they name. Only models with classes have a choice.
    memory : int, optional
        Secant pairs kept; if not given 20, or 10 of more than 30,000 parameters, which are in single precision.
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
        one_of("curvature", self.curvature, CURVATURES)
        if self.memory is not None:
            whole("memory", self.memory, least=0)

    def starts(self, objective: Objective, most: int = NARROW_STEPS) -> tuple[Start, ...]:
        """Return where steps may start, after no more than so many before the first state; the last always suits."""
        kind, sample = self._kind(objective), FromSample(min(SAMPLE_STEPS, most))
        if kind != "auto":
            return (sample,) if kind == "sample" else (FromPoint(),)
        return FromAscent(), FromOnlinePass(), FromDual(), FromRowSpace(most), sample, FromPoint()

    def offers(self, objective: Objective) -> list[Preconditioner]:
        """Return what steps may be scaled by, the dearest last."""
        return [offer for offer in OFFERS[self._kind(objective)] if offer.suits(objective)]

    def takes_products(self, objective: Objective) -> bool:
        """Return whether steps may become Newton's, by conjugate gradients."""
        return self._kind(objective) == "auto" and objective.convex and HessianProducts.suit(objective)

    def _kind(self, objective: Objective) -> str:
        return self.curvature if objective.model.classes(objective.like) else "auto"

    def start(self, objective: Objective, theta: Array) -> QuasiNewtonState:
        """Return the state at θ, if that is not zero; else where a start, or steps in single precision, have led."""
        return self.start_within(objective, theta, NARROW_STEPS)

    def start_within(self, objective: Objective, theta: Array, steps: int) -> QuasiNewtonState:
        """Return the same, after no more than so many steps."""
        if not theta.any():
            return self._go(objective, theta, steps)
        better = pays_in_single_precision(objective) or not isinstance(self._start(objective, theta), FromPoint)
        return self._at(objective, objective.point(theta), given=better).changed(most=steps)

    def _start(self, objective: Objective, theta: Array, most: int = NARROW_STEPS) -> Start:
        starts = self.starts(objective, most)
        return next(each for each in starts if each is starts[-1] or each.suits(objective, theta))

    def _go(self, objective: Objective, theta: Array, most: int) -> QuasiNewtonState:
        """Return where a start has led; single precision is for where there is none, and many steps to make."""
        start = self._start(objective, theta, most)
        if isinstance(start, FromPoint) and pays_in_single_precision(objective):
            return self._begun_in_single_precision(objective, theta, most)
        return self._begun(objective, theta, start)

    def _at(self, objective: Objective, point: Point, *, given: bool = False, done: bool = False) -> QuasiNewtonState:
        rows_at = RENTED * in_steps(objective) if self.curvature == "auto" and not done else np.inf
        return QuasiNewtonState.at(point, ridge=objective.penalty.prior, given=given, rows_at=rows_at)

    def _market(self, objective: Objective, point: Point) -> Market:
        return market_for(self.offers(objective), objective, products=self.takes_products(objective), at=point)

    def _begun_in_single_precision(self, objective: Objective, theta: Array, most: int) -> QuasiNewtonState:
        narrow = objective.narrowed()
        assert narrow is not None
        begun = self._begun(narrow, theta, self._start(narrow, theta, most))
        return self._through(narrow, begun, most, objective)

    def _through(self, narrow: Objective, state: QuasiNewtonState, most: int, objective: Objective) -> QuasiNewtonState:
        """Return where steps in a lower precision lead until they gain next to nothing, in that of the objective."""
        aim = NARROW_AIM if narrow.facts.epsilon < COARSE else COARSE_AIM
        for _ in range(min(NARROW_STEPS, most)):
            assert state.point is not None
            if state.lease.gains and state.lease.gains[-1] <= aim * state.point.value:
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
        return None if carried is None else self._through(narrow, carried, steps, objective)

    def _begun(self, objective: Objective, theta: Array, start: Start) -> QuasiNewtonState:
        begun = start.begin(objective, objective.with_likely_intercept(theta), self.seed)
        return _entered(objective, self._at(objective, begun.point, done=begun.done), begun)

    def step(self, objective: Objective, state: QuasiNewtonState) -> QuasiNewtonState:
        """Return the state after one quasi-Newton step."""
        here = known(objective, state)
        if state.sweeps is not None:
            return _entered(objective, state, state.sweeps.go_on(objective, here, self.seed))
        if state.rent >= state.rows_at and state.lease.is_slow(here.value, state.rows_at * state.steps / state.rent):
            state = state.changed(rows_at=np.inf)
            begun = FromRowSpace(NARROW_STEPS).better_than(objective, here, self.seed)
            if begun is not None:
                return _entered(objective, state, begun)
        state = self._with_curvature(objective, state, here)
        if state.given and _promise(here, _direction(state, here)) > POOR * abs(here.value):
            return self._go(objective, state.theta, max(state.most - 1, 0))  # this is one itself
        # In the lowest precision a step that fails says that it is too low.
        many = 1 if objective.facts.epsilon > COARSE else None
        for attempt in islice(self._attempts(objective, state, here), many):
            step, rent = _step(objective, attempt, here)
            flat_enough = EXACT if attempt.curved_at is here.theta else LOOSE  # Newton's are few, and worth a search
            new, length = best_point_along(objective, here, step, flat_enough, leap=attempt.leaps)
            if improves(objective, new, here):
                attempt = attempt.changed(pairs=self._paired(objective, attempt, here, new), leaps=length == 1.0)
                return _moved(attempt, here, new, _promise(here, step), rent)
        return state.changed(unseen=0, stalled=True)

    def _attempts(self, objective: Objective, state: QuasiNewtonState, here: Point) -> Iterator[QuasiNewtonState]:
        """Yield the state, then without its pairs, which may be worn out, then with curvatures found here."""
        yield state
        if state.is_truncated:
            state = state.changed(truncates=False)
            yield state
        if state.pairs:
            yield state.changed(pairs=())
        assert state.market is not None
        offers = state.market.offers[::-1]
        for offer in [each for each in offers if each.quality >= state.lease.quality] or offers:
            yield _bought(objective, state, here, offer).changed(pairs=())

    def _with_curvature(self, objective: Objective, state: QuasiNewtonState, here: Point) -> QuasiNewtonState:
        """Return the state with a curvature, another one if that is due."""
        market, lease = state.market or self._market(objective, here), state.lease
        state = state if state.market is market else state.changed(market=market)
        if not state.is_truncated:
            offer = market.due(lease, state.rent, here.value)
            if offer is not None:
                return _bought(objective, state, here, offer)
            if not market.turns_to_products(lease, state.rent, here.value):
                return state
            account = (*state.account, (state.steps, "Newton steps by conjugate gradients"))
            state = state.changed(truncates=True, pairs=(), account=account)
        offer = market.due_for_products(lease, state.rent, state.rent / max(state.steps, 1), here.value)
        return state if offer is None else _bought(objective, state, here, offer)

    def _paired(self, objective: Objective, state: QuasiNewtonState, here: Point, new: Point) -> Pairs:
        usual = PAIRS if len(new.theta) <= MANY_PARAMETERS else PAIRS_OF_MANY
        kept = 0 if state.is_truncated else usual if self.memory is None else self.memory
        return add_pair(objective, state.pairs, here, new, kept)


def _moved(state: QuasiNewtonState, here: Point, new: Point, gain: float, rent: float) -> QuasiNewtonState:
    """Return the state at a point that a step has led to, which promised so much and cost so much."""
    lease = state.lease.gained(gain)
    moved = state.moved_to(new, steps=state.steps + 1, rent=state.rent + rent, lease=lease, given=False, borrowed=False)
    if state.borrowed and not gain <= ASTRAY * (here.value - new.value) <= ASTRAY**2 * gain:
        return moved.changed(pairs=state.pairs[-1:], factorize=None, solve=None, lease=Lease())
    return moved


def _promise(here: Point, step: Array) -> float:
    """Return what a step promises to gain."""
    return -0.5 * float(here.gradient @ step)


def _entered(objective: Objective, state: QuasiNewtonState, begun: Begun) -> QuasiNewtonState:
    """Return the state in which steps begin, or sweeps go on."""
    lease = Lease() if begun.factorize is None else Lease().signed(begun.quality, 0)
    return state.moved_to(
        begun.point,
        factorize=begun.factorize,
        solve=None if begun.factorize is None else begun.factorize(objective.ridge),
        least_factor=begun.least_factor,
        sweeps=begun.sweeps,
        steps=state.steps + begun.made,
        unseen=begun.made,
        pairs=(),
        lease=lease,
        curved_at=None,
        account=(*state.account, *((state.steps, each) for each in begun.account)),
        remark=begun.remark,
    )


def _step(objective: Objective, state: QuasiNewtonState, here: Point) -> tuple[Array, float]:
    """Return the next step, and what it costs, in usual ones."""
    if not state.is_truncated:
        return _direction(state, here), 1.0
    assert state.solve is not None
    assert state.market is not None
    found = truncated.newton_step(objective, here, state.solve)
    return found.step, 1.0 + found.products * state.market.product


def _direction(state: QuasiNewtonState, here: Point) -> Array:
    """Return the next step: found once, whoever asks what it promises before it is made."""
    assert state.solve is not None
    of, known = (here.gradient, state.pairs, state.solve, state.least_factor), vars(state).get("direction")
    if known is None or any(a is not b for a, b in zip(known[0], of, strict=True)):
        known = vars(state)["direction"] = (of, quasi_newton_step(*of))
    return known[1]


def _bought(objective: Objective, state: QuasiNewtonState, here: Point, offer: Preconditioner) -> QuasiNewtonState:
    """Return the state with another curvature. Secant pairs are kept, unless it is a Hessian, which knows better."""
    factorize, is_hessian = offer.at(objective, here), offer.quality >= HESSIAN
    inside = state.truncates and not is_hessian  # of conjugate gradients
    again = inside and offer.quality == state.lease.quality  # where that is known to be done often
    return state.changed(
        pairs=() if is_hessian else state.pairs,
        factorize=factorize,
        solve=factorize(objective.ridge),
        leaps=state.leaps or is_hessian,
        least_factor=None if is_hessian else LEAST_FACTOR,
        lease=state.lease.signed(offer.quality, state.rent, steps_change=not inside),
        curved_at=here.theta if isinstance(offer, HessianOfAll) else None,
        account=state.account if again else (*state.account, (state.steps, offer.name)),
    )
