"""How F is minimised: the loop that every fit runs, :func:`minimize` around it, and several runs from several starts.

A solver steps from state to state, and :meth:`Run.iterate` evaluates each state, records it in the trace, judges it,
and says when to stop. What has converged is decided in ``majorant.core.stopping``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, isnan, nan
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from majorant.core import separation
from majorant.core.certificates import LARGEST, Certificate, Cuts
from majorant.core.checks import Array, whole
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
from majorant.core.solver import BatchMajorization, Solver, State, SteppingSolver, leave_saddle
from majorant.core.stopping import Stopping
from majorant.core.threads import mapped, norm, numerics

Metric: TypeAlias = Callable[[Array], float]
Observer: TypeAlias = Callable[[Mapping[str, float], Array], Any]
R = TypeVar("R")


class Run:
    """A run of a solver, whose loop is ``while not run.iterate(state): state = step(state)``.

    Passes over the data are counted for the solver in ``objective.work``, and for what judges its states in a ledger of
    its own. The time of metrics, of callbacks, and of F and ∇F where a solver does not need them does not count.
    """

    def __init__(
        self,
        objective: Objective,
        solver: Solver[Any],
        stopping: Stopping,
        *,
        max_steps: int,
        max_passes: float,
        metrics: Mapping[str, Metric],
        callback: Observer | None,
        certified: bool,
    ) -> None:
        self._objective, self._work, self._before = objective.with_ledger(), objective.work, replace(objective.work)
        self._solver, self._certified = solver, certified
        self._max_steps, self._max_passes, self._metrics, self._callback = max_steps, max_passes, metrics, callback
        self.stopping = stopping
        self.trace = Trace()
        self.result: Result | None = None
        self.certificate: Certificate | None = None  # of the parameters that it ends with
        self.cuts = Cuts(objective.penalty.as_prior()) if Cuts.suit(objective) else None
        self.saddles = 0  # that were left
        self._steps = 0
        self._is_bounded = False  # whether a linear program has found that F has a minimum
        self._seconds = 0.0, 0.0  # of the wall clock, and of the processor for all threads of this process
        self._since = time.perf_counter(), time.process_time()
        self._counts: tuple[int, float, int, float, float, tuple[Any, ...]] | None = None  # before it was judged

    def iterate(self, state: State) -> bool:
        """Evaluate, record and judge a state; return whether to stop. A solver steps between two of these calls."""
        F, stopping = self._objective, self.stopping
        self.result = self.certificate = None

        # Evaluate F and ∇F, unless the solver has. The time of that is not its own.
        first, counts = self._steps == 0, state.point is not None
        self._read_clock()
        finite = stopping.evaluate(state, self.cuts)
        seconds, cpu_seconds = self._read_clock(counts=counts)
        if not finite and first:
            self.result = Result(Outcome.NON_FINITE, "the objective is not finite at the starting parameters", nan)
            return True
        if not finite:
            where = f"step {self._steps}; these are the last finite parameters"
            self._end(Outcome.NON_FINITE, f"the objective became non-finite at {where}")
            return True

        # Record it: what a run that goes on has to know, and a row of the trace.
        passes, curvatures = self._work.passes - self._before.passes, self._work.curvatures - self._before.curvatures
        memory = (stopping.memory, self._is_bounded)
        self._counts = (self._steps, passes, curvatures, seconds, cpu_seconds, memory)
        self._steps += state.unseen
        row: dict[str, float] = {}
        if not state.stalled:
            row = {"step": float(self._steps), "passes": passes, "curvatures": float(curvatures)}
            row |= {"seconds": seconds, "cpu_seconds": cpu_seconds, "objective": stopping.point.value}
            row |= {"gradient_norm": norm(stopping.point.gradient), "gap": stopping.gap}
            for name, metric in self._metrics.items():
                if name in row:
                    raise ValueError(f"metrics must not be named as a column of the trace: {name!r}")
                row[name] = float(metric(read_only(stopping.point.theta)))
            self.trace.append(row)
            self._read_clock(counts=not self._metrics)

        # Judge it.
        limit, steps = "", counted(self._steps, "step")
        if self._steps >= self._max_steps:
            limit = counted(self._max_steps, "step")
        elif passes >= self._max_passes - 1e-9:  # shares of passes add up with rounding errors
            limit = counted(self._max_passes, "pass")
        last = state.stalled or bool(limit)
        converged = stopping.converged(last=last)
        if F.may_be_unbounded and (reason := self._unbounded(converged or last)):
            self.result = Result(Outcome.UNBOUNDED, reason, nan)
        elif converged and not F.convex:
            self._end(Outcome.STATIONARY, f"stationary after {steps}")
        elif converged:
            self._end(Outcome.CONVERGED, f"converged in {steps}")
        elif stopping.is_estimated():
            off = f"{stopping.estimate:.1e} of the optimum in the metric of the last step (an estimate)"
            self._end(Outcome.ESTIMATED, f"converged in {steps}, to {off}", stopping.estimate)
        elif state.stalled:
            self._end(Outcome.STALLED, "no further decrease was found in this precision")
        elif limit:
            self._end(Outcome.STEP_LIMIT, f"stopped at the limit of {limit}")

        # Show it.
        if row and self._callback is not None:
            self._read_clock()
            stops = bool(self._callback(row, read_only(state.theta)))
            self._read_clock(counts=False)
            if stops and self.result is None:
                self._end(Outcome.STOPPED, "stopped by the callback")
        self._steps += 1
        return self.result is not None

    def _read_clock(self, *, counts: bool = True) -> tuple[float, float]:
        """Return the seconds so far; those since the last reading count, or do not."""
        (wall, cpu), self._since = self._since, (time.perf_counter(), time.process_time())
        if counts:
            self._seconds = self._seconds[0] + self._since[0] - wall, self._seconds[1] + self._since[1] - cpu
        return self._seconds

    # --- where it begins --------------------------------------------------------------------------------------

    def first_state(self, objective: Objective, start: Any) -> Any:
        """Return the state to begin in; what was known and counted before is taken over."""
        solver, epsilon = self._solver, objective.epsilon
        if isinstance(start, Progress):  # F and ∇F there have to be what they were, which takes a pass
            state: State = start.state
            if state.theta.shape != (objective.size,):
                raise AnotherRunError(f"the run had {len(state.theta)} parameters, got data of {objective.size}")
            now = objective.with_ledger().point(state.theta, keep=False)
            if not is_same(now, Point(state.theta, start.value, start.gradient), epsilon):
                then = f"where it had come to F was {start.value!r}, got {now.value!r}"
                raise AnotherRunError(f"the data differ from those of the run: {then}")
            self.trace, self._steps, self.saddles = Trace.of(start.trace), start.steps, start.saddles
            self._work.passes = self._before.passes + start.passes
            self._work.curvatures = self._before.curvatures + start.curvatures
            self._seconds = start.seconds, start.cpu_seconds
            self._since = time.perf_counter(), time.process_time()
            self._take_over(start)
            return state.revived(objective)
        if isinstance(start, Solution) and start.solver == solver and start.params.shape == (objective.size,):
            carried = solver.carry(objective, start.state, start.params, self._max_steps)
            if carried is not None:
                return carried
            if not start.state.stalled and start.state.point is not None:
                point = objective.with_ledger().point(start.state.theta)
                if is_same(point, start.state.point, epsilon):
                    self._take_over(start)
                    return start.state.changed(unseen=0).resumed(objective, point, self._max_steps)
        if start is None:
            theta = objective.first_params()
        else:
            theta = np.array(start.params if isinstance(start, Solution) else start, dtype=np.float64)
        return solver.start_within(objective, theta, self._max_steps)

    def _take_over(self, start: Progress | Solution) -> None:
        """Go on from what the states of another run said."""
        if start.stopping is not None:
            of_stopping, self._is_bounded = start.stopping
            self.stopping.recall(of_stopping)
        if self.cuts is not None and start.cuts is not None and start.cuts.holds_under(self.cuts):
            self.cuts = start.cuts.copy()

    def progress(self) -> Progress:
        """Return how far the run has come, from where it can go on: the latest state will be judged again."""
        assert self._counts is not None
        state, point = self.stopping.given, self.stopping.point
        cuts = None if self.cuts is None else self.cuts.copy()
        trace = self.trace.first(self.trace.entries - (not state.stalled))
        known = (point.value, point.gradient)
        return Progress(self._solver, state, cuts, trace, *self._counts, *known, saddles=self.saddles)

    # --- where it ends ----------------------------------------------------------------------------------------

    def _unbounded(self, last: bool) -> str:
        """Return along what F is known to fall for ever, in words; no words if that is not known."""
        F, steps, tight = self._objective, self._steps, self.stopping.tight
        if tight is not None and isfinite(tight.gap):  # which proves an optimum
            return ""
        # Complete separation takes a pass to see: at the end, and at steps 1, 2, 4, 8, …
        if (last or steps & (steps - 1) == 0 < steps) and F.separated(self.stopping.point.theta):
            return about_separation(F, separation.find(F, complete=True) if separation.suits(F) else None)
        failed = tight is not None and isnan(tight.gap) and not tight.early  # near the optimum
        # Steps after which a linear program tells whether data without a certificate are separated.
        in_doubt = last or failed or steps in (64, 512)
        if self._is_bounded or not in_doubt or not separation.suits(F):
            return ""
        found = separation.find(F)
        self._is_bounded = found is None
        return "" if found is None else about_separation(F, found)

    def _end(self, outcome: Outcome, sentence: str, estimate: float = nan) -> None:
        """Set the result: an outcome, and a sentence about it with all that is known of the optimum."""
        F, state, point = self._objective, self.stopping.state, self.stopping.point
        if isnan(estimate) and F.certifiable:
            estimate = F.estimated_gap(point)
        if not self._certified:
            self.result = Result(outcome, sentence, nan, state.account, estimate)
            return
        found = self.certificate = self.stopping.best_certificate()
        if found.gap >= 1:
            sentence += "; the certificate says nothing yet"
        elif isfinite(found.gap):
            sentence += about_the_gap(found, F)
        elif F.certifiable:
            sentence += "; how far from the optimum could not be certified: the best intercept was not found"
        elif not F.convex:
            sentence += (
                "; in the metric of its curvature the gradient promises to gain "
                f"{F.predicted_decrease(point):.1e} of F, but nothing certifies an optimum: the loss is not convex"
            )
        else:
            is_free = not F.penalty.penalised.all()
            why = "a parameter is unpenalised" if is_free else "the penalty is not strongly convex"
            share = self.stopping.relative_gradient()
            sentence += f"; the gradient is {share:.1e} of what it was at zero, but nothing certifies an optimum: {why}"
            predicted = state.predicted_decrease() / max(abs(point.value), 1e-300)
            if isfinite(predicted):
                sentence += f"; another step promises to gain {predicted:.1e} of F (an estimate)"
            if F.may_be_unbounded and not separation.suits(F):
                sentence += f"; whether data are separated is not looked for among {F.size} parameters"
        if state.remark:
            sentence += f"; {state.remark}"
        self.result = Result(outcome, sentence, found.gap, state.account, estimate)

    def solution(self) -> Solution:
        """Return what there is to return; the last entry of the trace has the time that it took to end."""
        assert self.result is not None
        if self.trace.entries:
            seconds, cpu_seconds = self._read_clock()
            self.trace.correct({"seconds": seconds, "cpu_seconds": cpu_seconds})
        state, certificate = self.stopping.state, self.certificate
        params = state.theta if certificate is None else certificate.theta
        stopping = None if self._counts is None else self._counts[-1]
        return Solution(params, self.result, self.trace, state, self._solver, self.cuts, certificate, stopping)


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
        stopped. A run of the same solver on the same objective is resumed in its state; one of ``QuasiNewton`` under
        another ridge leaves its curvature and secant pairs, which are adapted; otherwise only its parameters are taken.
        From the progress of a run that was interrupted it goes on as if that had not happened: steps, passes and trace
        count on.
    tol : float
        Stop when F is certified to be within ``tol``·F of its minimum. Where the loss is not convex, stop when the
        gradient predicts a decrease of less than ``tol``·F in the metric of the curvature
        (:meth:`Objective.predicted_decrease`).
    gradient_tol : float
        Where a parameter is unpenalised, stop also when the gradient has shrunk to this share of the gradient at zero,
        both divided by the root of the Hessian's diagonal at zero, so that the units of columns do not matter; but not
        where a Hessian, or the next step, says that more than ``tol``·F is left.
    max_steps : int
        Stop after this number of steps. A step of a stochastic solver is a pass, or what its ``report_every`` says.
        Steps that ``QuasiNewton`` makes in single precision or on a sample count; the trace begins after them.
    max_passes : float
        Stop after this number of passes over the data.
    metrics : mapping of names to functions of θ, optional
        Evaluated at every step and kept in the trace; their time is not counted. See :func:`held_out`.
    callback : callable, optional
        Called with the latest row of the trace and θ (read-only); a true answer stops the run; its time is not counted,
        either. One that has a method ``follow`` is first given a function that returns the
        :class:`~majorant.core.result.Progress` of the run.
    threads : int or None
        Threads for BLAS while this runs; None leaves them as they are. One is the default because spinning BLAS
        threads on a busy machine cost far more than a second core gains.
    largest_hessian : int
        The most parameters for which a Hessian is computed to certify F tightly (``majorant.core.stopping`` says when);
        0 for never.
    saddles : int
        Where the loss is not convex, how many saddles to leave at most. Where the run becomes stationary a dozen
        gradients tell whether there is negative curvature; if so it goes on from below, steps and trace count on. The
        result says what was found. 0, the default, leaves this out.
    certified : bool
        Whether to certify where the run ends, if that takes a pass over the data; to compare runs an estimate may do.

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
    if isinstance(start, Progress) and solver is None:
        solver = start.solver
    solver = BatchMajorization() if solver is None else solver
    if isinstance(start, Progress) and solver != start.solver:
        raise AnotherRunError(f"a run goes on with the solver it began with, {start.solver!r}, got {solver!r}")
    if not isinstance(solver, Solver):
        raise TypeError(f"solver must be a solver such as BatchMajorization() or LBFGS(), got {solver!r}")
    if not (objective.penalty.smooth or solver.nonsmooth):
        raise TypeError(f"solver must be one for penalties with kinks, such as ProximalNewton(), got {solver!r}")
    for name, value in (("tol", tol), ("gradient_tol", gradient_tol), ("max_passes", max_passes)):
        if not value >= 0:
            raise ValueError(f"{name} must be non-negative, got {value}")
    for name, number, least in (("max_steps", max_steps, 0), ("threads", 1 if threads is None else threads, 1)):
        whole(name, number, least=least)
    whole("saddles", saddles, least=0)
    largest = whole("largest_hessian", largest_hessian, least=0)
    with numerics(threads):
        objective = objective.with_ledger()  # every run has an account of its own
        stopping = Stopping(objective.with_ledger(), tol, gradient_tol, largest, certified)
        run = Run(
            objective,
            solver,
            stopping,
            max_steps=max_steps,
            max_passes=max_passes,
            metrics=metrics or {},
            callback=callback,
            certified=certified,
        )
        follow = getattr(callback, "follow", None)  # isinstance with a protocol would take as long as a step
        if follow is not None:
            follow(run.progress)
        state = run.first_state(objective, start)
        while True:
            if isinstance(solver, SteppingSolver):
                while not run.iterate(state):
                    state = solver.step(objective, state)
            else:
                solver.drive(objective, state, run.iterate)

            # Where the loss is not convex the run may have come to a saddle: then it goes on from below.
            assert run.result is not None
            if not saddles or objective.convex or run.result.outcome not in (Outcome.STATIONARY, Outcome.STALLED):
                return run.solution()
            below = leave_saddle(objective, run.stopping.point)
            if below is None or run.saddles >= saddles:
                found = about_saddles(run.saddles, is_saddle=below is not None)
                run.result = replace(run.result, message=run.result.message + found)
                return run.solution()
            run.saddles += 1
            state = solver.start(objective, below)


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


def is_same(now: Point, then: Point, epsilon: float) -> bool:
    """Return whether F and ∇F are what they were: rows may have changed places, but nothing else."""
    # Along a ray scores are added up, in double precision or in single: they differ in a few of the last digits.
    digits = max(1e-9, 100 * epsilon)
    close = np.allclose(now.gradient, then.gradient, rtol=max(1e-6, digits), atol=digits * max(abs(now.value), 1.0))
    return close and bool(np.isclose(now.value, then.value, rtol=digits))


def read_only(array: Array) -> Array:
    """Return a view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


# --- several starts ---------------------------------------------------------------------------------------------


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

    def ended(run: Solution) -> float:
        failed = run.result.outcome is Outcome.NON_FINITE or not run.trace.entries
        return np.inf if failed else float(run.trace["objective"][-1])

    return Restarts(*best_of(runs, ended))


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
    # Two runs that end closer than this, relative to F, have found the same.
    alike = int((ended <= best + 1e-5 * abs(best)).sum())
    spread = (worst - best) / abs(best) if best and isfinite(worst) else 0.0
    said = f"; best of {len(objectives)} restarts: {alike} ended there, the worst {spread:.1e} above (relative)"
    failed = len(objectives) - len(ended)
    return replace(result, message=result.message + said + (f"; {failed} failed" if failed else ""))
