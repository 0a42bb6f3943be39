"""Sees every state of a solver: counts, times, traces, and decides when to stop and why.

The one way to run a solver.

Several runs from several starts, for losses that are not convex: the best is kept, and how far apart they end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from majorant.core import separation
from majorant.core.certificates import Certificate
from majorant.core.checks import Array, lazy, whole
from majorant.core.descent import BatchMajorization
from majorant.core.line_search import Point
from majorant.core.model import Model
from majorant.core.objective import Objective
from majorant.core.result import (
    AnotherRunError,
    Outcome,
    Progress,
    Result,
    Solution,
    Trace,
    about_saddles,
    about_separation,
    about_the_gap,
    counted,
)
from majorant.core.self_concordance import LARGEST
from majorant.core.separation import Cuts
from majorant.core.solver import Solver, State, way_down
from majorant.core.stopping import LOOSE, Lookout, Promises, Seen, Stopwatch
from majorant.core.threads import all_finite, mapped, norm, numerics

Metric: TypeAlias = Callable[[Array], float]
Observer: TypeAlias = Callable[[Mapping[str, float], Array], Any]

# Steps after which data without a certificate are looked at for what may keep them from having one.
MANY_STEPS = (64, 512)
# A certificate is looked for again when the estimate has fallen to this share; and where it takes products in double
# precision, which cost more than a step, first when that is so much of the tolerance.
AGAIN, CLEARLY = 0.25, 0.5
# Gradients that promise more than so many times the tolerance in an old metric are not measured by a new one; and where
# no more than so many times the tolerance seems to be left to gain, Newton's steps lead to the optimum.
OUTDATED, SETTLES = 10.0, 1e4


@dataclass(frozen=True)
class Limits:
    """When to stop; see :func:`majorant.minimize`."""

    tol: float
    gradient_tol: float
    max_steps: int
    max_passes: float
    largest_hessian: int = LARGEST
    certified: bool = True


class Mark(NamedTuple):
    """What had been counted when a state came, before it was looked at."""

    steps: int
    entries: int  # of the trace
    passes: float
    curvatures: int
    seconds: float
    cpu_seconds: float
    last_estimate: float
    looked: tuple[Any, ...]


class Monitor:
    """The observer that :func:`majorant.minimize` gives to a solver.

    ``objective`` is the solver's, whose account is read; what the monitor looks at itself goes to another one. Its time
    counts, but for that of metrics, of callbacks, and of F and ∇F where a solver does not need them.
    """

    def __init__(
        self, objective: Objective, limits: Limits, metrics: Mapping[str, Metric], callback: Observer | None
    ) -> None:
        self.limits, self.metrics, self.callback = limits, metrics, callback
        self.trace = Trace()
        self.result: Result | None = None
        self.saddles = 0  # that were left
        self._objective, self._work = objective.with_ledger(), objective.work
        self._before = replace(objective.work)
        self._cuts = Cuts(objective.penalty.as_prior()) if Cuts.suit(objective) else None
        self._seen = Seen(self._objective, State(np.zeros(objective.size)))
        self._steps = 0
        self._certified = False
        self._is_bounded = False  # whether F is known to have a minimum, or nobody can tell
        self._last_estimate = np.inf  # when a certificate was last looked for, or a small gradient was misleading
        self._metric: Array | None = None  # that gradients were last measured by, where nothing certifies
        self._lookout = Lookout(self._objective, limits.tol, limits.largest_hessian)
        self._clock = Stopwatch()
        self._mark: Mark | None = None  # of the latest state
        self._promises = Promises()

    @property
    def state(self) -> State:
        """The latest state."""
        return self._seen.state

    @property
    def point(self) -> Point:
        """The latest θ with F and ∇F."""
        return self._seen.point

    @property
    def rests(self) -> bool:
        """Whether nothing leads the run any further, of a loss that is not convex."""
        ended = self.result is not None and self.result.outcome in (Outcome.STATIONARY, Outcome.STALLED)
        return ended and not self._objective.convex

    def add(self, words: str) -> None:
        """Say more of the result."""
        assert self.result is not None
        self.result = replace(self.result, message=self.result.message + words)

    @property
    def certificate(self) -> Certificate | None:
        """What is known of how good those are, if anything was looked for."""
        return self._seen.certificate if self._certified else None

    @property
    def cuts(self) -> Cuts | None:
        """What all states say of the least F."""
        return self._cuts

    @property
    def looked(self) -> tuple[Any, ...] | None:
        """What told when to look for a certificate, before the latest state."""
        return None if self._mark is None else self._mark.looked

    def recall(self, cuts: Cuts | None, looked: tuple[Any, ...] | None = None) -> None:
        """Go on from what the states of an interrupted run said."""
        if looked is not None:
            memory, self._is_bounded = looked
            self._lookout.recall(memory)
        if self._cuts is not None and cuts is not None and cuts.holds_under(self._cuts):
            self._cuts = cuts.copy()

    def progress(self, solver: Any) -> Progress:
        """Return how far the run has come, from where it can go on: the latest state will be looked at again."""
        mark, point = self._mark, self._seen.point
        assert mark is not None
        return Progress(
            solver,
            self._seen.given,
            None if self._cuts is None else self._cuts.copy(),
            self.trace.first(mark.entries),
            mark.steps,
            mark.passes,
            mark.curvatures,
            mark.seconds,
            mark.cpu_seconds,
            mark.last_estimate,
            mark.looked,
            point.value,
            point.gradient,
            saddles=self.saddles,
        )

    def go_on(self, progress: Progress) -> None:
        """Count on from where an interrupted run has come."""
        self.trace, self._steps = Trace.of(progress.trace), progress.steps
        self._last_estimate = progress.last_estimate
        self._work.passes = self._before.passes + progress.passes
        self._work.curvatures = self._before.curvatures + progress.curvatures
        self.recall(progress.cuts, progress.looked)
        self.saddles = progress.saddles
        self._clock = Stopwatch(progress.seconds, progress.cpu_seconds)

    def _marked(self) -> Mark:
        return Mark(
            self._steps,
            self.trace.entries,
            self._passes(),
            self._work.curvatures - self._before.curvatures,
            *self._clock.read(),
            self._last_estimate,
            (self._lookout.memory, self._is_bounded),
        )

    @property
    def params(self) -> Array:
        """The parameters of the latest state, or those of a better point near it that were certified instead."""
        return self._seen.certificate.theta if self._certified else self._seen.state.theta

    def observe(self, state: State) -> bool:
        """Record a state; return whether to stop."""
        seen = Seen(self._objective, state, self._cuts)
        if state.point is None:  # F and ∇F are found for the trace
            self._clock.read()
            self.result = self._fatal(seen)
            self._clock.skip()
        else:
            self.result = self._fatal(seen)
        if self.result is None:
            self._seen, self._certified, self._mark = seen, False, self._marked()
            self._steps += state.unseen
            row = {} if state.stalled else self._record(seen)
            self.result = self._judge(seen)
            if row and self._called_back(row, state.theta) and self.result is None:
                self.result = self._say(Outcome.STOPPED, "stopped by the callback")
        self._steps += 1
        return self.result is not None

    def finish(self) -> None:
        """Book what it took to end the run, certificate included, to the last entry of the trace."""
        if self.trace.entries:
            seconds, cpu_seconds = self._clock.read()
            self.trace.correct({"seconds": seconds, "cpu_seconds": cpu_seconds})

    def _called_back(self, row: dict[str, float], theta: Array) -> bool:
        if self.callback is None:
            return False
        self._clock.read()
        stops = bool(self.callback(row, read_only(theta)))
        self._clock.skip()
        return stops

    def _record(self, seen: Seen) -> dict[str, float]:
        assert self._mark is not None
        row = {
            "step": float(self._steps),
            "passes": self._passes(),
            "curvatures": float(self._work.curvatures - self._before.curvatures),
            "seconds": self._mark.seconds,
            "cpu_seconds": self._mark.cpu_seconds,
            "objective": seen.point.value,
            "gradient_norm": norm(seen.point.gradient),
            "gap": seen.gap,
        }
        if self.metrics:
            self._clock.read()
        for name, metric in self.metrics.items():
            if name in row:
                raise ValueError(f"metrics must not be named as a column of the trace: {name!r}")
            row[name] = float(metric(read_only(seen.point.theta)))
        if self.metrics:
            self._clock.skip()
        self.trace.append(row)
        return row

    def _fatal(self, seen: Seen) -> Result | None:
        if isfinite(seen.point.value) and all_finite(seen.point.gradient):
            return None
        if self._steps == 0:
            self._seen = seen
            return Result(Outcome.NON_FINITE, "the objective is not finite at the starting parameters", np.nan)
        return self._say(
            Outcome.NON_FINITE,
            f"the objective became non-finite at step {self._steps}; these are the last finite parameters",
        )

    def _judge(self, seen: Seen) -> Result | None:
        limit, stalled = self._limit_reached(), seen.state.stalled
        converged = self._has_converged(seen, last=stalled or bool(limit))
        if self._objective.facts.may_be_unbounded and (runs_off := self._runs_off(seen, converged, bool(limit))):
            return Result(Outcome.UNBOUNDED, runs_off, float("nan"))
        if converged and not self._objective.convex:
            return self._say(Outcome.STATIONARY, f"stationary after {counted(self._steps, 'step')}")
        if not converged and self._promises_nothing(seen):
            off = f"{self._promises.estimate:.1e} of the optimum as their metric has it (an estimate)"
            return self._say(Outcome.ESTIMATED, f"converged in {counted(self._steps, 'step')}, to {off}")
        if converged:
            return self._say(Outcome.CONVERGED, f"converged in {counted(self._steps, 'step')}")
        if stalled:
            return self._say(Outcome.STALLED, "no further decrease was found in this precision")
        return self._say(Outcome.STEP_LIMIT, f"stopped at the limit of {limit}") if limit else None

    def _limit_reached(self) -> str:
        """Return which limit has been reached, in words; none is no words."""
        if self._steps >= self.limits.max_steps:
            return counted(self.limits.max_steps, "step")
        # A pass may be a sum of many shares.
        return counted(self.limits.max_passes, "pass") if self._passes() >= self.limits.max_passes - 1e-9 else ""

    def _has_converged(self, seen: Seen, last: bool) -> bool:
        if not self._objective.convex:
            return self._is_stationary(seen.point)
        size, goal, guess = self._criterion(seen.point)
        self._lookout.note(seen.point.value, size, goal, guess * seen.point.value, seen.state.unseen)
        if self._objective.certifiable:
            looks = last or seen.certificate_is_free or self._is_promising(size)
            converged = looks and (not self.limits.certified or self._loosely().gap <= self.limits.tol)
        else:
            converged = size <= min(goal, AGAIN * self._last_estimate) and self._gains_nothing(seen)
        if self._looks_closer(seen, last=last, converged=converged):
            ends, tol = last or converged, self.limits.tol
            # What nothing else certifies is often read in standard errors, of which a tolerance of F says little.
            settle = 0.0 if self._objective.certifiable else SETTLES * tol
            found = seen.look_closer(0.0 if ends else tol, self._lookout.share(seen.state, ends=ends), settle)
            self._lookout.learn(seen.state, found)
            self._certified = self._certified or np.isfinite(found.gap)
            # A small gradient misleads where a Hessian says that there is more to gain, or no more is certified.
            if not self._objective.certifiable and (found.estimate > tol or found.gap > tol):
                converged, self._last_estimate = False, size
            converged = converged or found.gap <= self.limits.tol
        # A gradient is no sign of an optimum where rounding hides the curvature along some direction.
        return converged and not (self._lookout.hidden and not self._objective.certifiable)

    def _gains_nothing(self, seen: Seen) -> bool:
        """Return whether neither the next step nor one scaled by the Hessian's diagonal seems to gain ``tol``·F."""
        next_step = seen.state.promise() / max(abs(seen.point.value), 1e-300)
        return not next_step > self.limits.tol and self._is_stationary(seen.point)

    def _criterion(self, point: Point) -> tuple[float, float, float]:
        """Return a loose gap, or the norm of a gradient, how small it has to become, and what gap it stands for."""
        if self._objective.certifiable:
            gap = self._objective.estimated_gap(point.value, point.gradient)
            return gap, self.limits.tol, gap / LOOSE if gap < 1 else np.inf  # as it is wherever nothing is known
        size, relative = self._size_of(point.gradient), self._relative_to_zero(point.gradient)
        return size, self.limits.gradient_tol * self._at_zero[1], relative * relative  # infinite where powers raise

    def _looks_closer(self, seen: Seen, *, last: bool, converged: bool) -> bool:
        if not self.limits.certified:
            return False
        if last or converged:
            asked_for = not (self._objective.certifiable and converged)
            return self._lookout.is_worth_its_price(seen.state, asked_for=asked_for)
        return self._lookout.is_due(seen.state, seen.point.value)

    def _is_stationary(self, point: Point) -> bool:
        """Return whether the gradient promises next to nothing. A metric is found afresh once the last one says so."""
        F, tol = self._objective, self.limits.tol
        if self._metric is not None and F.promise(point, self._metric) > OUTDATED * tol:
            return False
        self._metric = F.metric(point)
        return F.promise(point, self._metric) <= tol

    def _is_promising(self, estimate: float) -> bool:
        """Return whether a certificate that costs a pass is worth looking for: again only if much has changed."""
        enough = (CLEARLY if self._objective.narrow else 1.0) * self.limits.tol
        if not estimate <= min(enough, AGAIN * self._last_estimate):
            return False
        self._last_estimate = estimate
        return True

    def _promises_nothing(self, seen: Seen) -> bool:
        """Return whether steps on a device promise next to nothing, and no Hessian tells any better."""
        F = self._objective
        if not F.blocks.estimates or F.size <= self.limits.largest_hessian:
            return False
        return self._promises.are_over(seen.state, seen.point.value, self.limits.tol)

    def _runs_off(self, seen: Seen, converged: bool, limited: bool) -> str:
        """Return along what F is known to fall for ever, in words; none is no words."""
        if np.isfinite(seen.tight_gap):  # which proves an optimum
            return ""
        last, F = converged or seen.state.stalled or limited, self._objective
        # Looking costs a pass, so it is done when it matters and otherwise at steps 1, 2, 4, 8, …
        if (last or self._steps & (self._steps - 1) == 0 < self._steps) and F.separated(seen.point.theta):
            return about_separation(F, separation.find(F, complete=True) if separation.suits(F) else None)
        in_doubt = seen.looked_in_vain or self._steps in MANY_STEPS or last
        if self._is_bounded or not in_doubt or not separation.suits(F):
            return ""
        found = separation.find(F)
        self._is_bounded = found is None
        return "" if found is None else about_separation(F, found)

    def _certify(self) -> Certificate:
        """Return the certificate of the latest state; from now on the parameters are those that it speaks of."""
        self._certified = True
        return self._seen.certificate

    def _loosely(self) -> Certificate:
        self._certified = True
        return self._seen.loose

    def _say(self, outcome: Outcome, sentence: str) -> Result:
        estimate, F, here = float("nan"), self._objective, self._seen.point
        if outcome is Outcome.ESTIMATED:
            estimate = self._promises.estimate
        elif F.certifiable:
            estimate = F.estimated_gap(here.value, here.gradient)
        if not self.limits.certified:
            return Result(outcome, sentence, float("nan"), self._seen.state.account, estimate)
        found = self._certify()
        if found.gap >= 1:
            sentence += "; the certificate says nothing yet"
        elif np.isfinite(found.gap):
            sentence += about_the_gap(found, self._objective)
        elif self._objective.certifiable:
            sentence += "; how far from the optimum could not be certified: the intercept is out of bounds"
        elif not self._objective.convex:
            promise = self._objective.promise(self._seen.point)
            sentence += (
                f"; in the metric of its curvature the gradient promises to gain {promise:.1e} of F, "
                "but nothing certifies an optimum: the loss is not convex"
            )
        else:
            share, why = self._relative_to_zero(self._seen.point.gradient), self._why_not()
            sentence += f"; the gradient is {share:.1e} of what it was at zero, but nothing certifies an optimum: {why}"
            promise = self._seen.state.promise() / max(abs(self._seen.point.value), 1e-300)
            if isfinite(promise):
                sentence += f"; another step promises to gain {promise:.1e} of F (an estimate)"
            if self._objective.facts.may_be_unbounded and not separation.suits(self._objective):
                sentence += f"; whether data are separated is not looked for among {self._objective.size} parameters"
        if self._seen.state.remark:
            sentence += f"; {self._seen.state.remark}"
        return Result(outcome, sentence, found.gap, self._seen.state.account, estimate)

    def _why_not(self) -> str:
        free = not self._objective.penalty.penalised.all()
        return "a parameter is unpenalised" if free else "the penalty is not strongly convex"

    def _passes(self) -> float:
        return self._work.passes - self._before.passes

    @lazy
    def _at_zero(self) -> tuple[Array, float]:
        """1/√H_ii at zero, where most runs begin, and the norm of the gradient times that: no unit of a column is left.

        Both are relative to a power of two near the largest 1/√H_ii, so that no square overflows.

        A parameter without curvature, as a constant column beside an intercept has it, changes nothing but rounding.
        """
        F, here = self._objective, self._seen.point
        zero = here if not here.theta.any() else F.point(np.zeros(F.size), keep=False)
        curvature = F.metric(zero)
        scale = np.divide(1.0, np.sqrt(curvature), out=np.zeros(F.size), where=curvature > 0)
        scale = np.ldexp(scale, -np.frexp(scale.max(initial=0.0))[1])
        return scale, norm(scale * zero.gradient)

    def _size_of(self, gradient: Array) -> float:
        return norm(self._at_zero[0] * gradient)

    def _relative_to_zero(self, gradient: Array) -> float:
        return self._size_of(gradient) / max(self._at_zero[1], 1e-300)


def read_only(array: Array) -> Array:
    """Return a view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def minimize(
    objective: Objective,
    solver: Solver[Any] | None = None,
    *,
    start: ArrayLike | Solution | Progress | None = None,
    tol: float = 1e-8,
    gradient_tol: float = 1e-8,
    max_steps: int = 1000,
    max_passes: float = np.inf,
    metrics: Mapping[str, Metric] | None = None,
    callback: Observer | None = None,
    threads: int | None = 1,
    largest_hessian: int = LARGEST,
    saddles: int = 0,
    certified: bool = True,
) -> Solution:
    """Minimise an objective.

    Parameters
    ----------
    objective : Objective
        A model, data and a ridge.
    solver : Solver, optional
        ``BatchMajorization()`` if not given.
    start : array of shape (d,), Solution or Progress, optional
        Where to begin: zero (of latent models a random point, always the same), these parameters, or where another run
        stopped. A run of the same solver on the same
        objective is resumed in its state; one of ``QuasiNewton`` under another ridge leaves its curvature and secant
        pairs, which are adapted; otherwise only its parameters are taken. From the progress of a run that was
        interrupted it goes on as if that had not happened: steps, passes and trace count on.
    tol : float
        Stop when F is certified to be within ``tol``·F of its minimum. Where the loss is not convex, stop when the
        gradient promises to gain less than ``tol``·F in the metric of the curvature (:meth:`Objective.promise`).
    gradient_tol : float
        Where a parameter is unpenalised, stop also when the gradient has shrunk to this share of the gradient at zero,
        both divided by the root of the Hessian's diagonal at zero, so that the units of columns do not matter; but not
        where a Hessian, or the next step, says that more than ``tol``·F is left.
    max_steps : int
        Stop after so many steps. A step of a stochastic solver is a pass, or what its ``report_every`` says. Steps that
        ``QuasiNewton`` makes in single precision or on some of the rows count; the trace begins after them.
    max_passes : float
        Stop after so many passes over the data.
    metrics : mapping of names to functions of θ, optional
        Evaluated at every step and kept in the trace; their time is not counted. See :func:`held_out`.
    callback : callable, optional
        Called with the latest row of the trace and θ (read-only); a true answer stops the run; its time is not counted,
        either. One that has a method
        ``follow`` is first given a function that returns the :class:`~majorant.core.result.Progress` of the run.
    threads : int or None
        Threads for BLAS while this runs; None leaves them as they are. One is the default because spinning BLAS
        threads on a busy machine cost far more than a second core gains.
    largest_hessian : int
        Of no more parameters than this a tight certificate is looked for, which takes a Hessian, when that costs less
        than going on without it; 0 for never.
    saddles : int
        Where the loss is not convex, how many saddles to leave at most. A dozen gradients look for negative curvature
        where the run has come to rest; if there is some it goes on from below, steps and trace count on. The result
        says what was found. 0, the default, does not look.
    certified : bool
        Whether to certify where the run ends, if that takes a look at the data; to compare runs an estimate may do.

    Returns
    -------
    Solution
        ``params``, ``result`` (outcome, sentence, certified gap), ``trace``, ``state``.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> F = majorant.Objective(majorant.Multinomial(8), majorant.Labelled(X, y), ridge=1.0)
    >>> solution = majorant.minimize(F)
    >>> solution.result.converged, solution.result.gap <= 1e-8
    (True, True)
    """
    solver = _chosen_solver(solver, start)
    _check_settings(solver, tol, gradient_tol, max_steps, max_passes, threads)
    whole("saddles", saddles, least=0)
    limits = Limits(
        tol, gradient_tol, max_steps, max_passes, whole("largest_hessian", largest_hessian, least=0), certified
    )
    with numerics(threads):
        spending = objective.with_ledger()  # every run has an account of its own
        monitor = Monitor(spending, limits, metrics or {}, callback)
        follow = getattr(callback, "follow", None)  # a protocol that is checked would take as long as a step
        if follow is not None:
            follow(partial(monitor.progress, solver))
        # Nobody here holds the first state: it would be in memory to the end.
        solver.drive(spending, _first_state(spending, solver, start, monitor), monitor.observe)
        if saddles:
            _leave_saddles(spending, solver, monitor, saddles)
        monitor.finish()
    assert monitor.result is not None
    return Solution(
        monitor.params,
        monitor.result,
        monitor.trace,
        monitor.state,
        solver,
        monitor.cuts,
        monitor.certificate,
        monitor.looked,
    )


def held_out(model: Model[Any], data: Any, prefix: str = "test_") -> dict[str, Metric]:
    """Return metrics on data that are not trained on, for the ``metrics`` of :func:`minimize`.

    ``log_likelihood`` is the weighted mean over rows (of a chain: over tokens), ``error`` the share of them whose
    likeliest outcome is not the one observed.

    Parameters
    ----------
    model : Model
        That of the objective.
    data : data of the model
        Rows, choices or sequences that are not trained on.
    prefix : str
        What names of columns of the trace begin with.

    Returns
    -------
    dict of functions of θ
        By the names of columns.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> model, train = majorant.Multinomial(8), np.arange(len(y)) % 10 > 0
    >>> F = majorant.Objective(model, majorant.Labelled(X[train], y[train]), ridge=0.1)
    >>> metrics = majorant.held_out(model, majorant.Labelled(X[~train], y[~train]))
    >>> trace = majorant.minimize(F, metrics=metrics).trace
    >>> bool(trace["test_error"][-1] < trace["test_error"][0])
    True
    """
    model.check(data)
    weight = np.ones(model.n_observations(data)) if data.weight is None else data.weight

    def log_likelihood(theta: Array) -> float:
        return -model.loss(model.scores(theta, data), data) / float(weight.sum())

    def error(theta: Array) -> float:
        return 1.0 - float(np.average(model.hits(model.scores(theta, data), data), weights=weight))

    return {f"{prefix}log_likelihood": log_likelihood, f"{prefix}error": error}


def _chosen_solver(solver: Solver[Any] | None, start: Any) -> Solver[Any]:
    if not isinstance(start, Progress):
        return BatchMajorization() if solver is None else solver
    if solver is not None and solver != start.solver:
        raise AnotherRunError(f"a run goes on with the solver it began with, {start.solver!r}, got {solver!r}")
    return start.solver


def _check_settings(
    solver: Any, tol: float, gradient_tol: float, max_steps: int, max_passes: float, threads: int | None
) -> None:
    if not isinstance(solver, Solver):
        raise TypeError(f"solver must be a solver such as BatchMajorization() or LBFGS(), got {solver!r}")
    for name, value in (("tol", tol), ("gradient_tol", gradient_tol), ("max_passes", max_passes)):
        if not value >= 0:
            raise ValueError(f"{name} must be non-negative, got {value}")
    whole("max_steps", max_steps, least=0)
    if threads is not None:
        whole("threads", threads, least=1)


def _first_state(objective: Objective, solver: Solver[Any], start: Any, monitor: Monitor) -> Any:
    """Return the state to begin in; what was known and counted before is taken over."""
    if isinstance(start, Progress):
        state = _go_on(objective, start)
        monitor.go_on(start)
        return state
    resumed = _resume(objective, solver, start, monitor.limits.max_steps)
    if resumed is not None and isinstance(start, Solution):
        monitor.recall(start.cuts, start.looked)
    if resumed is not None:
        return resumed
    limits = monitor.limits
    return solver.start_within(objective, _read_start(objective, start), limits.max_steps)


def _leave_saddles(objective: Objective, solver: Solver[Any], monitor: Monitor, most: int) -> None:
    """Go on from below every saddle where the run becomes stationary, and say what was found of the last point."""
    while monitor.rests:
        below = way_down(objective, monitor.point)
        if below is None or monitor.saddles >= most:
            monitor.add(about_saddles(monitor.saddles, is_saddle=below is not None))
            return
        monitor.saddles += 1
        solver.drive(objective, solver.start(objective, below), monitor.observe)


def _go_on(objective: Objective, progress: Progress) -> State:
    """Return the state of an interrupted run, if F and ∇F there are still what they were; one look at the data."""
    state: State = progress.state
    if state.theta.shape != (objective.size,):
        raise AnotherRunError(f"the run had {len(state.theta)} parameters, got data of {objective.size}")
    now = objective.with_ledger().point(state.theta, keep=False)
    if not _is_same(now, Point(state.theta, progress.value, progress.gradient), objective.facts.epsilon):
        raise AnotherRunError(
            f"the data differ from those of the run: where it had come to F was {progress.value!r}, got {now.value!r}"
        )
    return state.revived(objective)


def _resume(objective: Objective, solver: Solver[Any], start: ArrayLike | Solution | None, steps: int) -> Any:
    """Return the state to go on from, if ``start`` is a run of this solver on this objective or under another ridge."""
    if not isinstance(start, Solution) or start.solver != solver or start.params.shape != (objective.size,):
        return None
    state: State = start.state
    carried = solver.carry(objective, state, start.params, steps)
    if carried is not None or state.stalled or state.point is None:
        return carried
    point = objective.with_ledger().point(state.theta)
    same = _is_same(point, state.point, objective.facts.epsilon)
    return state.changed(unseen=0).resumed(objective, point, steps) if same else None


def _read_start(objective: Objective, start: ArrayLike | Solution | None) -> Array:
    if start is None:
        return objective.first_params()
    return np.array(start.params if isinstance(start, Solution) else start, dtype=np.float64)


def _is_same(now: Point, then: Point, epsilon: float) -> bool:
    """Return whether F and ∇F are what they were: rows may have changed places, but nothing else."""
    # Along a ray scores are added up, in double precision or in single: they differ in a few of the last digits.
    digits = max(1e-9, 100 * epsilon)
    close = np.allclose(now.gradient, then.gradient, rtol=max(1e-6, digits), atol=digits * max(abs(now.value), 1.0))
    return close and bool(np.isclose(now.value, then.value, rtol=digits))


R = TypeVar("R")
# Two runs that end closer than this, relative to F, have found the same.
SAME = 1e-5


@dataclass(frozen=True, eq=False)
class Restarts:
    """The best of several runs, and where each of them ended; what :func:`minimize_from` returns.

    Parameters
    ----------
    best : Solution
        The run with the lowest F.
    objectives : array
        F where each run ended, infinite where it failed.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> F = majorant.Objective(majorant.LatentMultinomial([2] * 8), majorant.Labelled(X, y), ridge=1.0)
    >>> restarts = majorant.minimize_from(F, None, [F.first_params(seed) for seed in range(2)], tol=1e-4)
    >>> bool(restarts.best.trace["objective"][-1] == restarts.objectives.min())
    True
    """

    best: Solution
    objectives: Array

    @property
    def result(self) -> Result:
        """What is said of the best, and of how far apart all of them ended."""
        return with_spread(self.best.result, self.objectives)

    def _repr_html_(self) -> str:
        return self.result._repr_html_()


def minimize_from(
    objective: Objective, solver: Solver[Any] | None, starts: Iterable[Array], **settings: Any
) -> Restarts:
    """Minimise an objective from several starts, which threads share (``majorant.core.threads.sharing``).

    Parameters
    ----------
    objective, solver
        As for :func:`majorant.minimize`.
    starts : arrays of shape (d,)
        At least one; ``objective.first_params(seed)`` draws them.
    settings
        Of :func:`majorant.minimize`.

    Returns
    -------
    Restarts
        ``best``, a :class:`~majorant.Solution`, the ``objectives`` of all, and a ``result`` that says how far apart
        they ended.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> F = majorant.Objective(majorant.LatentMultinomial([2] * 8), majorant.Labelled(X, y), ridge=1.0)
    >>> restarts = minimize_from(F, majorant.QuasiNewton(), [F.first_params(seed) for seed in range(3)])
    >>> restarts.best.result.outcome.value, len(restarts.objectives)
    ('stationary', 3)
    """
    runs = mapped(lambda start: minimize(objective, solver, start=start, threads=None, **settings), list(starts))
    best, objectives = best_of(runs, final_objective)
    return Restarts(best, objectives)


def final_objective(solution: Solution) -> float:
    """Return F where a run ended, infinity if it failed."""
    failed = solution.result.outcome is Outcome.NON_FINITE or not solution.trace.entries
    return float("inf") if failed else float(solution.trace["objective"][-1])


def best_of(runs: Sequence[R], value: Callable[[R], float]) -> tuple[R, Array]:
    """Return the run of the least value, the first of them, and all values; if none is finite, the first run."""
    values = np.array([value(run) for run in runs], dtype=np.float64)
    return runs[int(np.argmin(np.where(np.isnan(values), np.inf, values)))], values


def with_spread(result: Result, objectives: Array) -> Result:
    """Return the result of the best of several runs with a word about the others."""
    if len(objectives) < 2:
        return result
    ended = objectives[np.isfinite(objectives)]
    if not len(ended):
        return replace(result, message=f"all {len(objectives)} restarts failed: {result.message}")
    best, worst = float(ended.min()), float(ended.max())
    alike = int((ended <= best + SAME * abs(best)).sum())
    spread = (worst - best) / abs(best) if best and isfinite(worst) else 0.0
    said = f"; best of {len(objectives)} restarts: {alike} ended there, the worst {spread:.1e} above (relative)"
    failed = len(objectives) - len(ended)
    return replace(result, message=result.message + said + (f"; {failed} failed" if failed else ""))
