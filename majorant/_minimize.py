"""The one way to run a solver."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from majorant._checks import Array, whole
from majorant._monitor import Limits, Metric, Monitor, Observer
from majorant._sentences import about_saddles
from majorant._solution import AnotherRunError, Progress, Solution
from majorant._threads import numerics
from majorant.models import Model
from majorant.objective import Objective, Point
from majorant.objective.certificates.concordant import LARGEST
from majorant.solvers import BatchMajorization, Solver, State
from majorant.solvers.saddles import way_down


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
        ``follow`` is first given a function that returns the :class:`~majorant._solution.Progress` of the run.
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
