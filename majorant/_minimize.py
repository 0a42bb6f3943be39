"""The one way to run a solver: counting, timing, tracing, stopping, and saying why."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from majorant._checks import Array
from majorant._solution import Outcome, Result, Solution, Trace
from majorant.objective import Objective
from majorant.solvers import BatchMajorization, Solver, State

Metric = Callable[[Array], float]
Callback = Callable[[Mapping[str, float], Array], Any]


def minimize(
    objective: Objective,
    solver: Solver[Any] | None = None,
    *,
    start: ArrayLike | Solution | None = None,
    tol: float = 1e-8,
    gradient_tol: float = 1e-8,
    max_steps: int = 1000,
    max_passes: float = np.inf,
    metrics: Mapping[str, Metric] | None = None,
    callback: Callback | None = None,
    threads: int | None = 1,
) -> Solution:
    """Minimise an objective.

    Parameters
    ----------
    objective : Objective
        A model, data and a ridge.
    solver : Solver, optional
        ``BatchMajorization()`` if not given.
    start : array of shape (d,) or Solution, optional
        Where to begin: zero, these parameters, or the state another run with the same solver stopped in.
    tol : float
        Stop when F is certified to be within ``tol``·F of its minimum.
    gradient_tol : float
        Where there is no certificate (a parameter is unpenalised), stop when the gradient has shrunk to this share
        of the gradient at zero.
    max_steps : int
        Stop after so many steps. A step of a stochastic solver is a pass, or what its ``report_every`` says.
    max_passes : float
        Stop after so many passes over the data.
    metrics : mapping of names to functions of θ, optional
        Evaluated at every step and kept in the trace; their time is not counted. See :func:`held_out`.
    callback : callable, optional
        Called with the latest row of the trace and θ; a true answer stops the run.
    threads : int or None
        Threads for BLAS while this runs; None leaves them as they are. One is the default because spinning BLAS
        threads on a busy machine cost far more than a second core gains.

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
    solver = solver or BatchMajorization()
    monitor = _Monitor(objective, tol, gradient_tol, max_steps, max_passes, metrics or {}, callback)
    with _blas_threads(threads), np.errstate(over="ignore", invalid="ignore"):
        solver.drive(objective, _first_state(objective, solver, start), monitor.observe)
    assert monitor.result is not None
    return Solution(monitor.state.theta, monitor.result, monitor.trace, monitor.state)


def held_out(objective: Objective) -> dict[str, Metric]:
    """Return metrics of an objective's data, for the ``metrics`` of :func:`minimize`.

    ``log_likelihood`` is the mean over rows; ``error`` the share of rows whose observed outcome is not the
    likeliest (a tie counts as an error).
    """
    model = objective.model
    total = sum(float(np.sum(_weights(block))) for block in objective.blocks)

    def log_likelihood(theta: Array) -> float:
        return -sum(model.loss(model.scores(theta, b), b) for b in objective.blocks) / total

    def error(theta: Array) -> float:
        wrong = (_weights(b) @ (model.margins(model.scores(theta, b), b) <= 0) for b in objective.blocks)
        return float(sum(wrong)) / total

    return {"log_likelihood": log_likelihood, "error": error}


def _weights(block: Any) -> Array:
    return np.ones(len(block)) if block.weight is None else block.weight


def _first_state(objective: Objective, solver: Solver[Any], start: ArrayLike | Solution | None) -> Any:
    if isinstance(start, Solution):
        fresh = solver.start(objective, start.params)
        # The state of another kind of solver is of no use to this one; its parameters are.
        return start.state if type(start.state) is type(fresh) and not start.state.stalled else fresh
    theta = np.zeros(objective.size) if start is None else np.array(start, dtype=np.float64)
    return solver.start(objective, theta)


def _blas_threads(threads: int | None) -> AbstractContextManager[Any]:
    if threads is None:
        return nullcontext()
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=threads, user_api="blas")


class _Monitor:
    """Sees every state, keeps the trace, and decides when to stop."""

    def __init__(
        self,
        objective: Objective,
        tol: float,
        gradient_tol: float,
        max_steps: int,
        max_passes: float,
        metrics: Mapping[str, Metric],
        callback: Callback | None,
    ) -> None:
        self.objective, self.tol, self.gradient_tol = objective, tol, gradient_tol
        self.max_steps, self.max_passes = max_steps, max_passes
        self.metrics, self.callback = metrics, callback
        self.trace = Trace()
        self.result: Result | None = None
        self.state = State(np.zeros(objective.size), np.nan, np.zeros(objective.size))
        self._steps = -1
        self._certified = bool((objective.ridge > 0).all())
        self._can_run_away = not objective.ridge.any()
        self._gradient_scale = self._measure_gradient_scale()
        self._spent = (objective.work.passes, objective.work.curvatures)
        self._clock = time.perf_counter()

    def observe(self, state: State) -> bool:
        """Record a state; return whether to stop."""
        paused = time.perf_counter()
        spent = (self.objective.work.passes, self.objective.work.curvatures)
        self._steps += 1
        if not state.evaluated:
            value, gradient = self.objective.value_and_gradient(state.theta)
            state = replace(state, value=value, gradient=gradient)
        finite = bool(np.isfinite(state.value) and np.isfinite(state.gradient).all())
        if finite or self._steps == 0:
            self.state = state
        row = self._record(state, paused, spent) if finite else {}
        self.result = self._judge(state, finite, spent[0] - self._spent[0])
        wants_stop = bool(finite and self.callback and self.callback(row, state.theta))
        if wants_stop and self.result is None:
            self.result = self._say(Outcome.STOPPED, "stopped by the callback")
        self.objective.work.passes, self.objective.work.curvatures = spent
        self._clock += time.perf_counter() - paused
        return self.result is not None

    def _record(self, state: State, now: float, spent: tuple[float, int]) -> dict[str, float]:
        row = {
            "step": float(self._steps),
            "passes": spent[0] - self._spent[0],
            "curvatures": float(spent[1] - self._spent[1]),
            "seconds": now - self._clock,
            "objective": state.value,
            "gradient_norm": float(np.linalg.norm(state.gradient)),
            "gap": self.objective.gap(state.value, state.gradient),
        }
        row |= {name: float(metric(state.theta)) for name, metric in self.metrics.items()}
        self.trace.append(row)
        return row

    def _judge(self, state: State, finite: bool, passes: float) -> Result | None:
        if not finite:
            return self._say(
                Outcome.NON_FINITE,
                f"the objective became non-finite at step {self._steps}; these are the last finite parameters",
            )
        if self._has_converged(state):
            return self._say(Outcome.CONVERGED, f"converged in {self._steps} steps")
        if self._can_run_away and _is_power_of_two(self._steps) and self.objective.separated(state.theta):
            return self._say(
                Outcome.UNBOUNDED,
                "the data are completely separated and nothing is penalised, so the likelihood grows for ever "
                "as the parameters do; set ridge > 0",
            )
        if state.stalled:
            return self._say(Outcome.STALLED, "no further decrease is possible in this precision")
        if self._steps >= self.max_steps:
            return self._say(Outcome.STEP_LIMIT, f"stopped at the limit of {self.max_steps} steps")
        if passes >= self.max_passes:
            return self._say(Outcome.STEP_LIMIT, f"stopped at the limit of {self.max_passes:g} passes")
        return None

    def _has_converged(self, state: State) -> bool:
        if self._certified:
            return self.objective.gap(state.value, state.gradient) <= self.tol
        return bool(np.linalg.norm(state.gradient) <= self.gradient_tol * self._gradient_scale)

    def _say(self, outcome: Outcome, sentence: str) -> Result:
        gap = self.objective.gap(self.state.value, self.state.gradient)
        if self._certified and np.isfinite(gap):
            sentence += f"; certified to be within {gap:.1e} of the optimum (relative)"
        elif outcome in (Outcome.CONVERGED, Outcome.STALLED, Outcome.STEP_LIMIT):
            share = np.linalg.norm(self.state.gradient) / max(self._gradient_scale, 1e-300)
            sentence += f"; gradient at {share:.1e} of its size at zero (no certificate: ridge is zero somewhere)"
        return Result(outcome, sentence, gap)

    def _measure_gradient_scale(self) -> float:
        if self._certified:
            return float("nan")
        return float(np.linalg.norm(self.objective.value_and_gradient(np.zeros(self.objective.size))[1]))


def _is_power_of_two(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0
