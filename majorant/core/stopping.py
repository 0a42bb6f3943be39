"""When a run stops: how far from the optimum it is, and when that is worth finding out.

F is within ``tol``·F of its least value once a certificate says so. Which there is depends on the objective:

==============================  ==============================================================================
all but an intercept penalised  strong convexity: ½‖∇F‖² in the metric of the penalty, which costs next to nothing, and
                                is loose; with a Hessian a tight one
d ≤ 2,000 parameters            self-concordance: a tight one, with or without a penalty, for the price of a Hessian
neither                         none: the gradient and the next step are judged in the metric of the curvature
==============================  ==============================================================================

The tight certificate is computed before the run ends (:class:`CertificateSchedule`) when three things hold:

1. the next step is predicted to decrease F by less than a quarter of ``tol``·F;
2. its price is at most a third of that of the steps so far;
3. the prediction is at most a quarter of what it was at the last one, which did not suffice.

Without a penalty no other certificate can end the run, so the first one is computed whatever it costs, from the Hessian
of as many rows as a third of the steps pays for. A share r of the rows says 1/r as much, so r·``tol`` is aimed at. From
all rows Newton's steps in its metric, a pass each, then end the run.
"""

from __future__ import annotations

from math import inf, isfinite, isinf, isnan, nan
from typing import Any

import numpy as np

from majorant.core import certificates
from majorant.core.certificates import Certificate, Cuts, better, ratio
from majorant.core.checks import Array
from majorant.core.line_search import Point
from majorant.core.objective import Objective
from majorant.core.prices import Prices
from majorant.core.solver import State
from majorant.core.threads import all_finite, norm

SAFETY = 4.0  # by how much more than a metric predicts there may be to gain, usually
OF_STEPS = 1 / 3  # of the price of all steps so far: what a certificate may cost
CHEAP = 6.0  # steps: what it may cost where a run begins, and from all rows where there is no other certificate
AGAIN = 0.25  # of what was predicted when a certificate did not suffice: then it is computed again
SETTLES = 100.0  # tolerances that may be left to gain where Newton's steps lead to the optimum
ROWS_PER_PARAMETER = 3  # rows for each parameter that a Hessian is found from, at least
NEGLIGIBLE = 0.1  # tolerances: all steps to come gain no more than this where an estimate ends a run
SLOWEST = 0.95  # of a predicted decrease: what the next one is at most
TINY = 1e-300


class Evaluated:
    """A state of a solver with F, ∇F and the certificates at its θ.

    ``gap`` is what strong convexity says of F and ∇F as they are, here and before (``cuts``); NaN where it says
    nothing. The certificates, which may take a pass or more, are computed when they are asked for, once.
    """

    def __init__(self, objective: Objective, state: State, cuts: Cuts | None = None) -> None:
        self._objective, self.given = objective, state  # as the solver made it
        self.state = state
        if state.point is None:
            self.state = state.moved_to(objective.point(state.theta, keep=False))
        assert self.state.point is not None
        self.point: Point = self.state.point
        self.tight: Certificate | None = None
        self._strong: Certificate | None = None
        self._suffices = False
        self.is_finite = isfinite(self.point.value) and all_finite(self.point.gradient)
        if not self.is_finite:
            return
        point = self.point
        self.gap = objective.gap(point.theta, point.value, point.gradient, point.reach)
        if cuts is not None and self.gap != 0:
            doubt = certificates.doubt_of_tangent(objective, point)
            cuts.add(point, doubt)
            self.gap = min(self.gap, ratio(point.value + doubt - cuts.lowest, point.value - doubt))

    @property
    def strong_is_free(self) -> bool:
        """Whether the certificate of strong convexity takes no pass over the data."""
        return not (self._objective.certifiable and (self._objective.intercept is not None or self._objective.narrow))

    def strong_certificate(self, aim: float = 0.0) -> Certificate:
        """Return that of strong convexity, of a better point if the intercept was too far from its best for ``aim``."""
        if self._strong is None and self.strong_is_free:
            self._strong = Certificate(self.point.theta, self.point.value, self.point.gradient, self.gap)
        elif self._strong is None:
            self._strong = certificates.by_strong_convexity(self._objective, self.point, aim=aim)
        return self._strong

    def tight_certificate(self, aim: float, share: float, settle: float) -> Certificate:
        """Return that of a Hessian, for which a gap of ``aim`` suffices; see :func:`.by_self_concordance`."""
        known = self.state.hessian()
        self.tight = certificates.by_self_concordance(
            self._objective, self.point, aim=aim, known=known, share=share, settle=settle
        )
        self._suffices = self.tight.gap <= aim
        return self.tight

    @property
    def tight_failed(self) -> bool:
        """Whether the tight certificate was computed near enough to the optimum, and says nothing."""
        return self.tight is not None and isnan(self.tight.gap) and not self.tight.early

    def best_certificate(self) -> Certificate:
        """Return the best of both; that of strong convexity is left out where the tight one suffices."""
        if self.tight is None:
            return self.strong_certificate()
        return self.tight if self._suffices else better(self.strong_certificate(), self.tight)


class CertificateSchedule:
    """When to compute a tight certificate: the three rules at the top of this module."""

    def __init__(self, objective: Objective, tol: float, largest: int) -> None:
        self._objective, self._tol, self._largest = objective, tol, largest
        self._is_only = not objective.certifiable  # there is no other certificate
        self._applies: bool | None = None  # not known before it is asked for, which may take a pass
        self._values: tuple[float, ...] = ()  # F at the latest states
        self._steps = 0  # so far, those of runs that this one goes on from included
        self._at_last = inf  # what was predicted when a certificate was last computed
        self.is_hidden = False  # by rounding: then it is not computed again

    @property
    def memory(self) -> tuple[Any, ...]:
        """What a run that goes on has to know."""
        return self._values, self._steps, self._at_last, self.is_hidden

    def recall(self, memory: tuple[Any, ...], *, same_tol: bool) -> None:
        """Go on from what was known; for another tolerance certificates would have been others."""
        self._values, self._steps, at_last, self.is_hidden = memory
        self._at_last = at_last if same_tol else inf

    def share_due(self, state: State, value: float, gap: float, *, ends: bool) -> float:
        """Return the share of the rows whose Hessian is to certify a state; zero if none is.

        ``value`` is F and ``gap`` the estimate of strong convexity; where the run ``ends`` no certificate need suffice.
        """
        F, self._values, self._steps = self._objective, (*self._values, value)[-3:], self._steps + 1 + state.unseen
        if self._applies is None:
            self._applies = certificates.suits(F, self._largest)
        if not self._applies or self.is_hidden:
            return 0.0

        # Prices in steps.
        prices, known, rows, affordable = Prices.of(F), state.hessian() is not None, 1.0, OF_STEPS * self._steps
        of_all, fixed = prices.certificate(known=known) / prices.step(), prices.certificate(share=0.0) / prices.step()
        if self._is_only and of_all > CHEAP and not (known or F.whole is None or F.narrow):
            rows = min(max((affordable - fixed) / (of_all - fixed), ROWS_PER_PARAMETER * F.size / F.rows), 1.0)
        price = of_all if rows == 1 else fixed + rows * (of_all - fixed)

        # A run may begin at the optimum, which strong convexity alone would not tell for a while.
        begins = self._steps == 1 and gap < min(SETTLES * self._tol, 1.0)
        is_needed = self._is_only and (ends or isinf(self._at_last))
        if not is_needed and price > (max(affordable, CHEAP) if begins else affordable):
            return 0.0
        if ends or begins:
            return rows

        # What a solver does not predict Aitken's rule does, from the last three F.
        predicted = state.predicted_decrease()
        if isnan(predicted):
            predicted = inf
            if len(self._values) == 3:
                before, last = self._values[0] - self._values[1], self._values[1] - self._values[2]
                predicted = last * last / (before - last) if 0 < last < before else inf
        settles = self._is_only and rows == 1 and not F.narrow
        enough = self._tol * value * (SETTLES if settles else rows)
        if not (SAFETY * predicted <= enough and predicted <= AGAIN * self._at_last):
            return 0.0
        self._at_last = predicted
        return rows


class PredictedDecrease:
    """The decrease of F that all steps to come are predicted to make, relative to F: a geometric series."""

    def __init__(self) -> None:
        self.estimate, self._last = inf, inf

    def converged(self, state: State, value: float, tol: float) -> bool:
        """Return whether this state and the one before predict next to nothing.

        Unrecorded steps stopped because their predicted decrease was small already: then one recorded state suffices.
        """
        before = 0.0 if state.unseen > 1 else self.estimate
        predicted = state.predicted_decrease() / max(abs(value), TINY)
        ratio = min(predicted / self._last, SLOWEST) if self._last > 0 else 0.0
        self._last, self.estimate = predicted, predicted / (1 - ratio)
        return max(before, self.estimate) <= NEGLIGIBLE * tol


class Stopping:
    """The criteria of convergence of a run."""

    def __init__(self, objective: Objective, tol: float, gradient_tol: float, largest: int, certified: bool) -> None:
        self._objective, self._tol, self._gradient_tol, self._certified = objective, tol, gradient_tol, certified
        self._largest = largest
        self.schedule = CertificateSchedule(objective, tol, largest)
        self.predicted = PredictedDecrease()
        self._last_estimate = inf  # of the gap when strong convexity was last asked, or of a gradient that misled
        self._metric: Array | None = None  # that gradients were last measured by, where nothing certifies
        self._scale: Array | None = None  # 1/√H_ii at zero
        self._at_zero = nan  # ‖∇F‖ at zero, so scaled

    @property
    def memory(self) -> tuple[Any, ...]:
        """What a run that goes on has to know."""
        return self._tol, self._last_estimate, self.schedule.memory

    def recall(self, memory: tuple[Any, ...]) -> None:
        """Go on from what was known."""
        tol, last_estimate, of_schedule = memory
        self._last_estimate = last_estimate if tol == self._tol else inf
        self.schedule.recall(of_schedule, same_tol=tol == self._tol)

    def converged(self, evaluated: Evaluated, *, last: bool) -> bool:
        """Return whether a state is within the tolerance; the ``last`` one is certified as well as it can be."""
        F, tol, point, state, schedule = self._objective, self._tol, evaluated.point, evaluated.state, self.schedule
        if not F.convex:
            return self._is_stationary(point)
        if F.certifiable:  # where strong convexity takes a pass it is asked first where the gap seems small enough
            size = F.estimated_gap(point.value, point.gradient)
            asks = last or evaluated.strong_is_free
            if not asks and size <= min(tol, AGAIN * self._last_estimate):
                asks, self._last_estimate = True, size
            converged = asks
            if asks and self._certified:
                gap = evaluated.strong_certificate(tol).gap
                # Where an intercept is out of bounds nothing certifies, and the gradient tells.
                converged = self._is_stationary(point) if isnan(gap) else gap <= tol
        else:
            size = self.relative_gradient(point)
            converged = size <= min(self._gradient_tol, AGAIN * self._last_estimate)
            predicted = state.predicted_decrease() if converged else nan
            converged = converged and not predicted > tol * abs(point.value) and self._is_stationary(point)
        if not self._certified:
            return converged

        if F.certifiable and converged:
            return True
        ends = last or converged
        rows = schedule.share_due(evaluated.given, point.value, size if F.certifiable else inf, ends=ends)
        if rows:
            # What nothing else certifies is often read in standard errors, of which a tolerance of F says little.
            settle = 0.0 if F.certifiable else SETTLES * tol
            found = evaluated.tight_certificate(0.0 if ends else tol, rows, settle)
            schedule.is_hidden = isinf(found.decrement)
            if not F.certifiable and (found.estimate > tol or found.gap > tol):  # a small gradient was misleading
                converged, self._last_estimate = False, size
            converged = converged or found.gap <= tol
        # A gradient is no sign of an optimum where rounding hides the curvature along some direction.
        return converged and not (schedule.is_hidden and not F.certifiable)

    def is_estimated(self, evaluated: Evaluated) -> bool:
        """Return whether steps on a device are predicted to gain next to nothing, and no Hessian tells any better."""
        F = self._objective
        if not F.blocks.estimates or F.size <= self._largest:
            return False
        return self.predicted.converged(evaluated.state, evaluated.point.value, self._tol)

    def relative_gradient(self, point: Point) -> float:
        """Return ‖∇F‖ relative to that at zero, both divided by √H_ii at zero: no unit of a column is left.

        A parameter without curvature, as a constant column beside an intercept has it, changes nothing but rounding.
        1/√H_ii is relative to a power of two near the largest, so that no square overflows.
        """
        if self._scale is None:
            F = self._objective
            zero = point if not point.theta.any() else F.point(np.zeros(F.size), keep=False)
            curvature = F.metric(zero)
            scale = np.divide(1.0, np.sqrt(curvature), out=np.zeros(F.size), where=curvature > 0)
            self._scale = np.ldexp(scale, -np.frexp(scale.max(initial=0.0))[1])
            self._at_zero = norm(self._scale * zero.gradient)
        return norm(self._scale * point.gradient) / max(self._at_zero, TINY)

    def _is_stationary(self, point: Point) -> bool:
        """Return whether the gradient predicts next to nothing, in a metric found anew once the last one does."""
        F, tol = self._objective, self._tol
        if self._metric is not None and F.predicted_decrease(point, self._metric) > SAFETY * tol:
            return False
        self._metric = F.metric(point)
        return F.predicted_decrease(point, self._metric) <= tol
