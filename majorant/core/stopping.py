"""When a certificate that takes a Hessian is worth looking for: when it costs less than going on without it.

Strong convexity certifies what steps have not reached long before it says so: its bound is hundreds of times too large.
A tight certificate says so at once, but has a price. It is looked for when the next step promises to gain less than the
tolerance, and the steps that would otherwise still be made cost more than it does. A Hessian of a share r of the rows
certifies too, 1/r times as much: at the price of steps that make up for it.

What the steps of a run promise to gain: an estimate of how far the optimum is, where certificates are loose.

What a run takes.

A state of a solver, and what is known of it.
"""

from __future__ import annotations

import time
from math import inf, isfinite, isinf, isnan, log
from typing import TypeAlias

from majorant.core import certificates, self_concordance
from majorant.core.certificates import Certificate, share
from majorant.core.checks import lazy
from majorant.core.line_search import Point
from majorant.core.objective import Objective
from majorant.core.prices import Prices
from majorant.core.self_concordance import better
from majorant.core.separation import Cuts
from majorant.core.solver import State

Memory: TypeAlias = tuple[tuple[float, ...], tuple[float, ...], float, float, float, float, float]

TINY = 1e-300
# By how much a gap from strong convexity alone exceeds the truth, usually.
LOOSE = 100.0
# Steps that tell how fast a gap shrinks.
WINDOW = 8
# What was looked for in vain is looked for again when steps promise this share of what they did.
AGAIN, AGAIN_EARLY = 0.25, 0.7
# What it may cost of all steps, which is a quarter of a fit with it, and how long to wait before another, in its price.
OF_ALL, PAUSE = 1 / 3, 0.25
# What it may cost, in steps, where none was made: who begins near the optimum should not have to leave.
AT_ONCE = 10.0
# By how much a first guess may exceed the tolerance: it is as likely to be too large.
BENEFIT = 10.0
# Where there seems to be so many times more to gain than the tolerance, there is.
FAR = 1e4
# Rows for each column of X, for each parameter, and in all, that a Hessian is found from at least: few where nothing
# else certifies, and enough not to be looked for in vain where strong convexity does.
FEW_ROWS, ENOUGH_ROWS = (3, 0.5, 300), (10, 3, 1_000)
# What all rows may cost, in steps, for estimates that settle; and from how many times the tolerance on they do.
TO_SETTLE, TO_SETTLE_FROM = 6.0, 100.0
# What a step is worth that was made in single precision, or on some of the rows.
UNSEEN = 0.5
# Few steps near an optimum gain less of it than this; and by how much less than the truth metrics promise, usually,
# and than what some of the rows say. Where a look is dear, more is allowed for: in vain it costs more than a step.
SLOWEST, USUAL, OF_SOME, DEAR = 0.2, 4.0, 1.5, 2.5
# A certificate that nobody waits for may cost this share of what steps have cost; one that a fit ends with, the other.
UNNOTICED, AT_THE_END = 0.05, 1 / 3


class Lookout:
    """Decides when to look for a tight certificate, from what steps have gained and what things cost."""

    def __init__(self, objective: Objective, tol: float, largest: int) -> None:
        self._tol = tol
        self._only = not objective.certifiable  # there is no other certificate
        self._objective, self._largest = objective, largest
        self._values: tuple[float, ...] = ()
        self._left: tuple[float, ...] = ()  # log of what a fit would stop at otherwise
        self._goal = 0.0
        self._steps, self._until = 0.0, 0.0  # that were made, and before which it is too soon to look again
        self._most = inf  # that a step may promise
        self._guess = inf
        self._trust = 1.0  # by how much less than the truth steps have promised
        self._hidden = False  # by rounding: then it is not looked for again

    @property
    def memory(self) -> Memory:
        """All that steps have told."""
        return self._values, self._left, self._steps, self._tol, self._most, self._until, self._trust

    def recall(self, memory: Memory) -> None:
        """Go on from what steps have told before; looks for another tolerance would have been others."""
        self._values, self._left, self._steps, tol, most, until, trust = memory
        if tol == self._tol:
            self._most, self._until, self._trust = most, until, trust

    @lazy
    def _there_is_one(self) -> bool:
        return self_concordance.suits(self._objective, self._largest)

    @property
    def hidden(self) -> bool:
        """Whether rounding hides how far the optimum is from any point."""
        return self._hidden

    @property
    def suits(self) -> bool:
        """Whether there is such a certificate, and it can be seen."""
        return not self._hidden and self._there_is_one

    @lazy
    def _prices(self) -> tuple[float, float, float]:
        """Those of a certificate, in steps: whatever rows it takes, for all rows, and where the Hessian is known."""
        prices = Prices.of(self._objective)
        step, fixed = prices.step(), prices.certificate(share=0.0)
        return fixed / step, (prices.certificate() - fixed) / step, prices.certificate(known=True) / step

    @lazy
    def _least(self) -> float:
        """The least share of the rows that a Hessian may be found from."""
        F = self._objective
        if F.whole is None or F.narrow:
            return 1.0
        columns = F.size // max(F.model.classes(F.like), 1)
        per_column, per_parameter, least = FEW_ROWS if self._only else ENOUGH_ROWS
        return min(max(per_column * columns, per_parameter * F.size, least) / F.rows, 1.0)

    def share(self, state: State, *, ends: bool) -> float:
        """Return the share r of the rows that costs the least, with log(1/r) over the rate of the steps it takes.

        At the end of a fit nothing is to be made up for, and as many rows are taken as a fit may cost; before the
        first step nobody knows what would be. Where there is no other certificate estimates are to settle, which takes
        all rows: they are taken while parameters are few.
        """
        if state.hessian() is not None or self._least >= 1 or (self._steps <= 1 and not ends):
            return 1.0
        fixed, of_all, _ = self._prices
        affordable = (AT_THE_END * self._steps - fixed) / of_all
        if self._only and (affordable >= 1 or of_all <= TO_SETTLE):
            return 1.0
        if ends:
            return min(max(affordable, self._least), 1.0)
        rate = max(self._rate(), SLOWEST)
        share = min(max(1 / rate / of_all, self._least), 1.0)
        return share if share * of_all + self._made_up(share) < of_all else 1.0

    def _made_up(self, share: float) -> float:
        """Return how many steps make up for a Hessian that is of a share of the rows."""
        return -log(share) / max(self._rate(), SLOWEST)

    def note(self, value: float, size: float, goal: float, guess: float, unseen: int = 0) -> None:
        """Take down F after a step, how large is what a fit would stop at a goal of, and what there may be to gain."""
        self._guess, self._goal, self._steps = guess, goal, self._steps + 1 + UNSEEN * unseen
        self._values = (*self._values, value)[-3:]
        self._left = (*self._left, log(max(size, TINY)))[-WINDOW:]

    def is_due(self, state: State, value: float) -> bool:
        """Return whether to look now, before anything else says that the optimum has been found."""
        if not (self._guess <= FAR * self._tol * value and self.suits and self._pays(state)):
            return False
        promise, share = self._promise(state), self.share(state, ends=False)
        enough = share * self._tol * value * self._early(state, share)
        factor = self._factor(state) * (OF_SOME if share < 1 else 1.0)
        if not factor * promise <= enough or not promise <= self._most:
            return False
        self._most, self._until = AGAIN * promise, self._steps + PAUSE * self._cost(state)
        return True

    def _early(self, state: State, share: float) -> float:
        """Return how many times more than the tolerance there may be to gain: Newton's steps in all rows' metric do."""
        if self._only and share >= 1 and not self._objective.narrow:
            return TO_SETTLE_FROM
        return BENEFIT if self._steps <= 1 and isnan(state.promise()) else 1.0

    def _pays(self, state: State) -> bool:
        """Return whether it is cheaper than going on, and never a large share of a fit, nor too soon after the last."""
        if self._only:
            return self._steps >= self._until
        most = OF_ALL * self._steps if self._steps > 1 else AT_ONCE
        made_up = self._made_up(self.share(state, ends=False))
        return self._cost(state) <= min(self._steps_left() - made_up, most)

    def is_worth_its_price(self, state: State, *, asked_for: bool) -> bool:
        """Return whether to look at the end of a fit, where it is asked for or not."""
        if not self.suits:
            return False
        if asked_for and self._only:
            return True
        return self._cost(state, ends=True) <= (AT_THE_END if asked_for else UNNOTICED) * self._steps

    def learn(self, state: State, found: Certificate) -> None:
        """Learn from a certificate how much more than steps promise there is to gain."""
        promise, self._hidden = self._promise(state), isinf(found.decrement)
        if promise > 0 and isfinite(found.decrement):
            self._trust = max(found.decrement * found.value / promise, 1.0)
        if found.early and self._only:  # steps promised too much, and now it is known by how much
            self._most, self._until = AGAIN_EARLY * promise, 0.0

    def _factor(self, state: State) -> float:
        """Return by how much less than the truth steps promise: what was learnt, or is usual of other metrics."""
        unknown = self._trust == 1 and state.hessian() is None and not isnan(state.promise())
        if not unknown:
            return self._trust
        return USUAL * (DEAR if self._cost(state) > OF_ALL * self._steps else 1.0)

    def _cost(self, state: State, *, ends: bool = False) -> float:
        """Return the price in steps."""
        fixed, of_all, if_known = self._prices
        return fixed + self.share(state, ends=ends) * of_all if state.hessian() is None else if_known

    def _promise(self, state: State) -> float:
        """Return what there is to gain: what the solver says, or, if it does not, what the last steps foretell."""
        promise = state.promise()
        if not isnan(promise):
            return promise
        if len(self._values) < 3:
            return self._guess * LOOSE / min(LOOSE, self._loosest)
        before, last = self._values[0] - self._values[1], self._values[1] - self._values[2]
        return last * last / (before - last) if 0 < last < before else inf

    @lazy
    def _loosest(self) -> float:
        """By how much strong convexity overstates a gap at most: curvature is that of ½‖X‖² and the penalty at most."""
        F, sizes = self._objective, self._objective.facts.magnitudes
        return LOOSE if self._only or sizes is None else 1.0 + 0.5 * sizes.heaviest * sizes.norm**2 / F.penalty.least

    def _steps_left(self) -> float:
        """Return how many steps there are to make without it, at the rate of the last ones."""
        rate = self._rate() / (2 if self._only else 1)
        return max((self._left[-1] - log(max(self._goal, TINY))) / rate, 1.0) if rate > 0 else inf

    def _rate(self) -> float:
        """Return by how much the log of the gap falls in a step; it is a square of a gradient."""
        first, last = self._left[0], self._left[-1]
        return max((first - last) / max(len(self._left) - 1, 1), 0.0) * (2 if self._only else 1)


# Of the tolerance: what two steps foretell is less than this where the optimum is taken to be as near as that.
SURELY = 0.1
# How much of a promise the next step makes, at most, where anything is foretold of it.
SLOWEST_DECREASE = 0.95
TINY = 1e-300


class Promises:
    """What the last steps have promised, relative to F.

    ``estimate`` is what all that follow might gain together, if promises go on to shrink as the last did.
    """

    def __init__(self) -> None:
        self.estimate = inf
        self._last = inf

    def are_over(self, state: State, value: float, tol: float) -> bool:
        """Look at a state; return whether it and the one before leave next to nothing to gain.

        Steps that nobody has seen have ended since they promised as little.
        """
        before = 0.0 if state.unseen > 1 else self.estimate
        promise = state.promise() / max(abs(value), TINY)
        shrinks = min(promise / self._last, SLOWEST_DECREASE) if self._last > 0 else 0.0
        self._last, self.estimate = promise, promise / (1 - shrinks)
        return max(before, self.estimate) <= SURELY * tol


class Stopwatch:
    """Seconds of the wall clock, and of the processor for this process, all its threads together."""

    def __init__(self, seconds: float = 0.0, cpu_seconds: float = 0.0) -> None:
        self._seconds, self._cpu_seconds = seconds, cpu_seconds
        self.skip()

    def read(self) -> tuple[float, float]:
        """Return the seconds so far."""
        wall, cpu = self._since
        self.skip()
        self._seconds += self._since[0] - wall
        self._cpu_seconds += self._since[1] - cpu
        return self._seconds, self._cpu_seconds

    def skip(self) -> None:
        """Leave out what was done since the seconds were last read."""
        self._since = time.perf_counter(), time.process_time()


class Seen:
    """A state and what is known of its θ, each found once, when it is first asked for."""

    def __init__(self, objective: Objective, state: State, cuts: Cuts | None = None) -> None:
        self._objective, self._state, self._cuts = objective, state, cuts
        self._tight: Certificate | None = None
        self._enough = False

    @property
    def given(self) -> State:
        """The state as it was given."""
        return self._state

    @lazy
    def state(self) -> State:
        """The state, with F and ∇F, which a stochastic solver does not know."""
        if self._state.point is not None:
            return self._state
        return self._state.moved_to(self._objective.point(self._state.theta, keep=False))

    @lazy
    def point(self) -> Point:
        """θ, F and ∇F."""
        assert self.state.point is not None
        return self.state.point

    @lazy
    def gap(self) -> float:
        """What strong convexity says of F and ∇F as they are, here and before; NaN where an intercept is free."""
        gap = self._objective.gap(self.point.theta, self.point.value, self.point.gradient, self.point.reach)
        if self._cuts is None or gap == 0:
            return gap
        doubt = certificates.doubt(self._objective, self.point)
        self._cuts.add(self.point, doubt)
        return min(gap, share(self.point.value + doubt - self._cuts.lowest, self.point.value - doubt))

    @property
    def certificate_is_free(self) -> bool:
        """Whether a certificate takes no pass over the data."""
        return not (self._objective.certifiable and (self._objective.free_intercept or self._objective.narrow))

    @lazy
    def loose(self) -> Certificate:
        """What strong convexity says of the state, or of a better point if its intercept was not at its best."""
        if self.certificate_is_free:
            return Certificate(self.point.theta, self.point.value, self.point.gradient, self.gap)
        return self._objective.certify(self.point, largest=0)

    def look_closer(self, aim: float, share: float = 1.0, settle: float = 0.0) -> Certificate:
        """Look for a tight certificate, for which a gap of ``aim`` is enough, from a share of the rows.

        From a gap of ``settle`` on it is one of a better point; see :func:`concordant.certify`.
        """
        known = self.state.hessian()
        self._tight = self_concordance.certify(
            self._objective, self.point, aim=aim, known=known, share=share, settle=settle
        )
        self._enough = self._tight.gap <= aim
        return self._tight

    @property
    def tight_gap(self) -> float:
        """What it says, NaN where it was not looked for, or says nothing."""
        return float("nan") if self._tight is None else self._tight.gap

    @property
    def looked_in_vain(self) -> bool:
        """Whether it was looked for in time, and says nothing."""
        return self._tight is not None and isnan(self._tight.gap) and not self._tight.early

    @property
    def certificate(self) -> Certificate:
        """The best of what was looked for; the loose one is not, where the tight one is enough."""
        if self._tight is None:
            return self.loose
        return self._tight if self._enough else better(self.loose, self._tight)
