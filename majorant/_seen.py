"""A state of a solver, and what is known of it."""

from __future__ import annotations

from math import isnan

from majorant._lazy import lazy
from majorant.objective import Certificate, Objective, Point
from majorant.objective.certificates import better, concordant, strong
from majorant.objective.certificates.base import share
from majorant.objective.cuts import Cuts
from majorant.solvers import State


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
        doubt = strong.doubt(self._objective, self.point)
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
        self._tight = concordant.certify(self._objective, self.point, aim=aim, known=known, share=share, settle=settle)
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
