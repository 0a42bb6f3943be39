"""Sees every state of a solver: counts, times, traces, and decides when to stop and why."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from majorant._checks import Array
from majorant._solution import Outcome, Result, Trace
from majorant.objective import Certificate, Objective
from majorant.solvers import State

Metric: TypeAlias = Callable[[Array], float]
Callback: TypeAlias = Callable[[Mapping[str, float], Array], Any]

UNBOUNDED = (
    "the data are completely separated and the parameters that separate them are not penalised, so the likelihood "
    "grows for ever as they do; penalise them"
)


# A certificate is looked for again when the estimate has fallen to this share.
AGAIN = 0.25


@dataclass(frozen=True)
class Limits:
    """When to stop; see :func:`majorant.minimize`."""

    tol: float
    gradient_tol: float
    max_steps: int
    max_passes: float


class Monitor:
    """The observer that :func:`majorant.minimize` gives to a solver. Its own time and passes are not counted."""

    def __init__(
        self, objective: Objective, limits: Limits, metrics: Mapping[str, Metric], callback: Callback | None
    ) -> None:
        self.objective, self.limits, self.metrics, self.callback = objective, limits, metrics, callback
        self.trace = Trace()
        self.result: Result | None = None
        self.state = State(np.zeros(objective.size))
        self.params = self.state.theta  # of the state, or a better point near it that was certified instead
        self._steps = 0
        self._certifiable = objective.certifiable
        self._certified: tuple[State, Certificate] | None = None
        self._gapped: tuple[State, float] | None = None
        self._last_estimate = np.inf  # when a certificate was last looked for
        self._may_run_away = _may_run_away(objective)
        self._gradient_scale = float("nan") if self._certifiable else self._gradient_at_zero()
        self._before = replace(objective.work)
        self._clock = _clocks()

    def observe(self, state: State) -> bool:
        """Record a state; return whether to stop."""
        paused = _clocks()
        work = replace(self.objective.work)
        state = self._evaluated(state)
        self.result = self._fatal(state)
        if self.result is None:
            self.state, self.params = state, state.theta
            row = {} if state.stalled else self._record(state, paused - self._clock)
            self.objective.work.passes = work.passes
            self.result = self._judge(state)
            if self.callback and row and self.callback(row, read_only(state.theta)) and self.result is None:
                self.result = self._say(Outcome.STOPPED, "stopped by the callback")
        self._steps += 1
        self.objective.work.passes, self.objective.work.curvatures = work.passes, work.curvatures
        self._clock += _clocks() - paused
        return self.result is not None

    def _evaluated(self, state: State) -> State:
        """Return the state with F and ∇F, which a stochastic solver does not know."""
        if state.evaluated:
            return state
        work = replace(self.objective.work)
        value, gradient = self.objective.value_and_gradient(state.theta)
        self.objective.work.passes = work.passes
        return replace(state, value=value, gradient=gradient)

    def _record(self, state: State, elapsed: Array) -> dict[str, float]:
        row = {
            "step": float(self._steps),
            "passes": self._passes(),
            "curvatures": float(self.objective.work.curvatures - self._before.curvatures),
            "seconds": float(elapsed[0]),
            "cpu_seconds": float(elapsed[1]),
            "objective": state.value,
            "gradient_norm": float(np.linalg.norm(state.gradient)),
            "gap": self._gap(state),
        }
        for name, metric in self.metrics.items():
            if name in row:
                raise ValueError(f"metrics must not be named as a column of the trace: {name!r}")
            row[name] = float(metric(read_only(state.theta)))
        self.trace.append(row)
        return row

    def _fatal(self, state: State) -> Result | None:
        if np.isfinite(state.value) and np.isfinite(state.gradient).all():
            return None
        if self._steps == 0:
            self.state, self.params = state, state.theta
            return Result(Outcome.NON_FINITE, "the objective is not finite at the starting parameters", np.nan)
        return self._say(
            Outcome.NON_FINITE,
            f"the objective became non-finite at step {self._steps}; these are the last finite parameters",
        )

    def _judge(self, state: State) -> Result | None:
        limit = self._limit_reached()
        converged = self._has_converged(state, last=state.stalled or bool(limit))
        if self._runs_away(state, converged):
            return self._say(Outcome.UNBOUNDED, UNBOUNDED)
        if converged:
            return self._say(Outcome.CONVERGED, f"converged in {self._steps} steps")
        if state.stalled:
            return self._say(Outcome.STALLED, "no further decrease was found in this precision")
        return self._say(Outcome.STEP_LIMIT, f"stopped at the limit of {limit}") if limit else None

    def _limit_reached(self) -> str:
        """Return which limit has been reached, in words; none is no words."""
        if self._steps >= self.limits.max_steps:
            return f"{self.limits.max_steps} steps"
        # A pass may be a sum of many shares.
        return f"{self.limits.max_passes:g} passes" if self._passes() >= self.limits.max_passes - 1e-9 else ""

    def _has_converged(self, state: State, last: bool) -> bool:
        if self._certifiable:
            free_of_cost = not (self.objective.free_intercept or self.objective.narrow)
            return (last or free_of_cost or self._is_promising(state)) and self._certify().gap <= self.limits.tol
        return bool(np.linalg.norm(state.gradient) <= self.limits.gradient_tol * self._gradient_scale)

    def _is_promising(self, state: State) -> bool:
        """Return whether a certificate that costs a pass is worth looking for: again only if much has changed."""
        estimate = self.objective.estimated_gap(state.value, state.gradient)
        if not estimate <= min(self.limits.tol, AGAIN * self._last_estimate):
            return False
        self._last_estimate = estimate
        return True

    def _runs_away(self, state: State, converged: bool) -> bool:
        # Looking costs a pass, so it is done when it matters and otherwise at steps 1, 2, 4, 8, …
        due = converged or state.stalled or (self._steps & (self._steps - 1) == 0 < self._steps)
        return self._may_run_away and due and self.objective.separated(state.theta)

    def _certify(self) -> Certificate:
        """Return the certificate of the latest state, or of a better point if its intercept was not at its best."""
        if self._certified is None or self._certified[0] is not self.state:
            self._certified = (self.state, self._find_certificate())
        found = self._certified[1]
        self.params = found.theta
        return found

    def _find_certificate(self) -> Certificate:
        F, state = self.objective, self.state
        if self._certifiable and (F.free_intercept or F.narrow):
            return F.certify(state.theta)
        return Certificate(state.theta, state.value, state.gradient, self._gap(state))

    def _gap(self, state: State) -> float:
        if self._gapped is None or self._gapped[0] is not state:
            self._gapped = (state, self.objective.gap(state.theta, state.value, state.gradient))
        return self._gapped[1]

    def _say(self, outcome: Outcome, sentence: str) -> Result:
        if outcome is Outcome.UNBOUNDED:
            return Result(outcome, sentence, float("nan"))
        gap = self._certify().gap
        if gap >= 1:
            sentence += "; the certificate says nothing yet"
        elif np.isfinite(gap):
            sentence += f"; certified to be within {gap:.1e} of the optimum (relative)"
        elif self._certifiable:
            sentence += "; how far from the optimum could not be certified: the intercept is out of bounds"
        else:
            share = np.linalg.norm(self.state.gradient) / max(self._gradient_scale, 1e-300)
            why = "a parameter is unpenalised" if self.objective.convex else "the loss is not convex"
            sentence += f"; the gradient is {share:.1e} of what it was at zero, but nothing certifies an optimum: {why}"
        return Result(outcome, sentence, gap)

    def _passes(self) -> float:
        return self.objective.work.passes - self._before.passes

    def _gradient_at_zero(self) -> float:
        return float(np.linalg.norm(self.objective.value_and_gradient(np.zeros(self.objective.size))[1]))


def _may_run_away(objective: Objective) -> bool:
    """Return whether F may have no minimum. Free intercepts have one as soon as two classes were observed."""
    if objective.free_intercept:
        return int((objective.data.class_totals(2) > 0).sum()) < 2
    return not objective.penalty.everywhere


def _clocks() -> Array:
    """Return seconds of the wall clock, and of the processor for this process, all its threads together."""
    return np.array([time.perf_counter(), time.process_time()])


def read_only(array: Array) -> Array:
    """Return a view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view
