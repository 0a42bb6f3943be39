"""When a run stops: how far from the optimum it is, and when that is worth finding out.

F is within ``tol``·F of its least value once a certificate says so. Which there is depends on the objective:

==============================  ==============================================================================
all but an intercept penalised  strong convexity: ½‖∇F‖² in the metric of the penalty, which costs next to nothing, and
                                is loose; with a Hessian a tight one
d ≤ 2,000 parameters            self-concordance: a tight one, with or without a penalty, for the price of a Hessian
neither                         none: the gradient and the next step are judged in the metric of the curvature
==============================  ==============================================================================

The tight certificate is computed before the run ends (:meth:`Stopping.share_due`) when three things hold:

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
from majorant.core.certificates import Certificate, Cuts
from majorant.core.checks import Array
from majorant.core.line_search import Point
from majorant.core.objective import Objective
from majorant.core.preconditioners import FREE, ROWS_PER_PARAMETER, Prices
from majorant.core.solver import State
from majorant.core.threads import all_finite, norm

SAFETY = 4.0  # by how much more than a metric predicts there may be to gain, usually; and by how much less when again
OF_STEPS = 1 / 3  # of the price of all steps so far: what a certificate may cost
SETTLES, NEAR = 100.0, 1e-6  # tolerances that may be left to gain where Newton's steps lead to the optimum, and a limit
NEGLIGIBLE = 0.1  # tolerances that all steps to come gain where an estimate ends a run; and how little each gains less


class Stopping:
    """The judge of a run: the latest state with its certificates, and the criteria of convergence.

    ``gap`` is what strong convexity says of F and ∇F as they are, at the latest state and before (``cuts``); NaN where
    it says nothing. Certificates, which may take a pass or more, are computed once, when they are asked for.
    """

    point: Point  # the latest, with F and ∇F
    given: State  # as the solver made it
    state: State  # the same with its point

    def __init__(self, objective: Objective, tol: float, gradient_tol: float, largest: int, certified: bool) -> None:
        self._objective, self._tol, self._gradient_tol, self._certified = objective, tol, gradient_tol, certified
        self._largest = largest
        self.strong: Certificate | None = None  # of strong convexity
        self.tight: Certificate | None = None  # of a Hessian
        self._suffices = False  # whether that is as tight as it was aimed to be
        self.gap = nan
        self.estimate = inf  # the decrease of F that all steps to come are predicted to make, relative to F
        self._predicted = inf  # that of the next step
        self._last_estimate = inf  # of the gap when strong convexity was last asked, or of a gradient that misled
        self._metric: Array | None = None  # that gradients were last measured by, where nothing certifies
        self._scale: Array | None = None  # 1/√H_ii at zero
        self._at_zero = nan  # ‖∇F‖ at zero, so scaled

        # What decides when to compute a tight certificate.
        self._tight_applies: bool | None = None  # not known before it is asked for, which may take a pass
        self._values: tuple[float, ...] = ()  # F at the latest states
        self._steps = 0  # so far, those of runs that this one goes on from included
        self._at_last_tight = inf  # what was predicted when one was last computed
        self._is_hidden = False  # by rounding: then it is not computed again

    @property
    def memory(self) -> tuple[Any, ...]:
        """What a run that goes on has to know."""
        return self._tol, self._last_estimate, self._at_last_tight, self._values, self._steps, self._is_hidden

    def recall(self, memory: tuple[Any, ...]) -> None:
        """Go on from what was known; for another tolerance certificates would have been others."""
        tol, *estimates, self._values, self._steps, self._is_hidden = memory
        self._last_estimate, self._at_last_tight = estimates if tol == self._tol else (inf, inf)

    def evaluate(self, given: State, cuts: Cuts | None) -> bool:
        """Take in a state, with F and ∇F at its θ; return whether these are finite. If not, the latest one stays."""
        F = self._objective
        state = given if given.point is not None else given.moved_to(F.point(given.theta, keep=False))
        assert state.point is not None
        point = state.point
        finite = isfinite(point.value) and all_finite(point.gradient)
        if not finite and "point" in vars(self):
            return False
        self.given, self.state, self.point, self.tight, self.strong = given, state, point, None, None
        if not finite:
            return False
        self.gap = F.gap(point.theta, point.value, point.gradient, point.reach)
        if cuts is not None and self.gap != 0:
            doubt = certificates.doubt_of_tangent(F, point)
            cuts.add(point, doubt)
            self.gap = min(self.gap, certificates.ratio(point.value + doubt - cuts.lowest, point.value - doubt))
        if not (
            F.certifiable and (F.intercept is not None or F.narrow or not F.penalty.strong)
        ):  # else it takes a pass
            self.strong = Certificate(point.theta, point.value, point.gradient, self.gap)
        return True

    def converged(self, *, last: bool) -> bool:
        """Return whether the latest state is within the tolerance; the ``last`` one is certified as well as can be."""
        F, tol, point, gap = self._objective, self._tol, self.point, inf
        self._values, self._steps = (*self._values, point.value)[-3:], self._steps + 1 + self.given.unseen
        if not F.convex:
            return self._is_stationary()

        # Strong convexity. Where it takes a pass it is asked once the gap seems small enough.
        if F.certifiable:
            gap = F.estimated_gap(point)
            asks = last or self.strong is not None
            if not asks and gap <= min(tol, self._last_estimate / SAFETY):
                asks, self._last_estimate = True, gap
            converged = asks and gap <= tol
            if asks and self._certified:
                self.strong = self.strong or certificates.by_strong_convexity(F, point, aim=tol)
                # Where an intercept is out of bounds nothing certifies, and the gradient tells.
                converged = self._is_stationary() if isnan(self.strong.gap) else self.strong.gap <= tol

        # Without it, the gradient and the next step, which may mislead.
        else:
            size = self.relative_gradient()
            converged = size <= min(self._gradient_tol, self._last_estimate / SAFETY)
            predicted = self.state.predicted_decrease() if converged else nan
            converged = converged and not predicted > tol * abs(point.value) and self._is_stationary()
        if not self._certified or (F.certifiable and converged):
            return converged

        # A Hessian.
        ends = last or converged
        rows = self.share_due(gap, ends=ends)
        if rows:
            # What nothing else certifies is often read in standard errors, of which a tolerance of F says little.
            aim, settle = 0.0 if ends else tol, 0.0 if F.certifiable else min(SETTLES * tol, NEAR)
            known = self.state.hessian()
            found = certificates.by_self_concordance(F, point, aim=aim, known=known, share=rows, settle=settle)
            self.tight, self._suffices, self._is_hidden = found, found.gap <= aim, isinf(found.decrement)
            if not F.certifiable and (found.estimate > tol or found.gap > tol):
                converged, self._last_estimate = False, size
            converged = converged or found.gap <= tol
        # A gradient is no sign of an optimum where rounding hides the curvature along some direction.
        return converged and not (self._is_hidden and not F.certifiable)

    def share_due(self, gap: float, *, ends: bool) -> float:
        """Return the share of the rows whose Hessian is to certify the latest state; zero if none is.

        ``gap`` is the estimate of strong convexity; where the run ``ends`` no certificate need suffice.
        """
        F, state, only = self._objective, self.given, not self._objective.certifiable
        if self._tight_applies is None:
            self._tight_applies = certificates.suits(F, self._largest)
        if not self._tight_applies or self._is_hidden:
            return 0.0

        # Its price, in steps.
        prices, known, rows, affordable = Prices.of(F), state.hessian() is not None, 1.0, OF_STEPS * self._steps
        of_all, fixed = prices.certificate(known=known) / prices.step, prices.certificate(share=0.0) / prices.step
        if only and of_all > FREE and not (known or F.whole is None or F.narrow):
            rows = min(max((affordable - fixed) / (of_all - fixed), ROWS_PER_PARAMETER * F.size / F.rows), 1.0)
        price = of_all if rows == 1 else fixed + rows * (of_all - fixed)

        # A run may begin at the optimum, which strong convexity alone would not tell for a while.
        begins = self._steps == 1 and gap < min(SETTLES * self._tol, 1.0)
        is_needed = only and (ends or isinf(self._at_last_tight))
        if not is_needed and price > (max(affordable, FREE) if begins else affordable):
            return 0.0
        if ends or begins:
            return rows

        # What a solver does not predict Aitken's rule does, from the last three F.
        predicted, value = state.predicted_decrease(), self.point.value
        if isnan(predicted):
            predicted = inf
            if len(self._values) == 3:
                before, last = self._values[0] - self._values[1], self._values[1] - self._values[2]
                predicted = last * last / (before - last) if 0 < last < before else inf
        settles = only and rows == 1 and not F.narrow
        enough = value * (min(SETTLES * self._tol, NEAR) if settles else rows * self._tol)
        if not (SAFETY * predicted <= enough and SAFETY * predicted <= self._at_last_tight):
            return 0.0
        self._at_last_tight = predicted
        return rows

    def is_estimated(self) -> bool:
        """Return whether steps are predicted to gain next to nothing, and no Hessian tells any better.

        That is asked on a device, and of a penalty that is neither smooth nor strongly convex: there a certificate
        takes a gradient that is exact in every entry.

        This state and the one before have to predict so: a geometric series of decreases. Unrecorded steps stopped
        because their predicted decrease was small already: then one recorded state suffices.
        """
        F = self._objective
        is_kinked = not (F.penalty.smooth or F.penalty.strong)
        if not (F.blocks.estimates or is_kinked) or F.size <= self._largest:
            return False
        before = 0.0 if self.given.unseen > 1 else self.estimate
        predicted = self.state.predicted_decrease() / max(abs(self.point.value), 1e-300)
        ratio = min(predicted / self._predicted, 1 - NEGLIGIBLE) if self._predicted > 0 else 0.0
        self._predicted, self.estimate = predicted, predicted / (1 - ratio)
        return max(before, self.estimate) <= NEGLIGIBLE * self._tol

    def best_certificate(self) -> Certificate:
        """Return the best of both; that of strong convexity is left out where the tight one suffices."""
        if self.tight is not None and self._suffices:
            return self.tight
        self.strong = self.strong or certificates.by_strong_convexity(self._objective, self.point)
        return self.strong if self.tight is None else certificates.better(self.strong, self.tight)

    def relative_gradient(self) -> float:
        """Return ‖∇F‖ relative to that at zero, both divided by √H_ii at zero: no unit of a column is left.

        A parameter without curvature, as a constant column beside an intercept has it, changes nothing but rounding.
        1/√H_ii is relative to a power of two near the largest, so that no square overflows.
        """
        if self._scale is None:
            F = self._objective
            zero = self.point if not self.point.theta.any() else F.point(np.zeros(F.size), keep=False)
            curvature = F.metric(zero)
            scale = np.divide(1.0, np.sqrt(curvature), out=np.zeros(F.size), where=curvature > 0)
            self._scale = np.ldexp(scale, -np.frexp(scale.max(initial=0.0))[1])
            self._at_zero = norm(self._scale * zero.gradient)
        return norm(self._scale * self.point.gradient) / max(self._at_zero, 1e-300)

    def _is_stationary(self) -> bool:
        """Return whether the gradient predicts next to nothing, in a metric found anew once the last one does."""
        F, tol = self._objective, self._tol
        if self._metric is not None and F.predicted_decrease(self.point, self._metric) > SAFETY * tol:
            return False
        self._metric = F.metric(self.point)
        return F.predicted_decrease(self.point, self._metric) <= tol
