"""How far coefficients are from those of the optimum, at most.

Solvers by name, as people ask for them.

scikit-learn's own callbacks (1.9 and later, experimental): one task for the fit, one for each step.

One way to fit: callbacks follow it, and what it found is published when all is done.

Runs from several starts, of which the best goes on: how far each has come, and what it is worth.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import exp, sqrt
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import sklearn
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from majorant.callbacks import Callback, Fit
from majorant.core.certificates import Certificate
from majorant.core.checks import Array, one_of
from majorant.core.descent import LBFGS, BatchMajorization, Newton
from majorant.core.objective import Objective
from majorant.core.policy import QuasiNewton
from majorant.core.proximal import ProximalMajorization
from majorant.core.result import AnotherRunError, Fitted, Outcome, Progress, Result, Solution, counted
from majorant.core.rows import most, widened
from majorant.core.run import minimize
from majorant.core.solver import Solver
from majorant.core.stochastic import LowRankStochasticMajorization, StochasticMajorization
from majorant.core.threads import norm
from majorant.tuning import Tuning, tune

# Rounding errors of an intercept, relative to what it is a difference of.
ROUNDING = 1e-15
# Rises of F are found by a pass if a bound on them is more than a share of the gap, and of F.
DIFFERS, WORTH_A_PASS = 0.1, 1e-9
# A coarse bound on rounding errors of F is good enough below this share of such a rise.
NEGLIGIBLE = 0.01
# Moves of scores whose exponentials say nothing.
FAR = 50.0
BEFORE_ROUNDING = "before coef_ was rounded to single precision"


def errors_of(
    fitted: Fitted, ridge: Array, classes: int, centre: Array | None, published: dict[str, Array]
) -> dict[str, Any]:
    """Return ``coef_error_`` and ``intercept_error_``, rounding of what is published included; nothing of a stream."""
    if fitted.solution is None:
        return {}
    coef, found = published["coef_"], fitted.solution.certificate
    W = fitted.params.reshape(classes, -1)
    W = W - W.mean(axis=0) if classes > 1 else W
    known = found is not None and (found.theta is fitted.params or np.array_equal(found.theta, fitted.params))
    bound = _bounds(found, ridge, classes, centre) if known else np.full(W.shape, np.inf)
    p = coef.shape[1]
    of_coef = bound[:, :p]
    if not (coef.dtype == W.dtype and np.array_equal(coef, W[:, :p])):
        of_coef = of_coef + np.abs(W[:, :p] - coef)
    if W.shape[1] == p:
        return {"coef_error_": of_coef, "intercept_error_": np.zeros(classes)}
    far = 0.0 if centre is None else np.abs(W[:, :p]) @ np.abs(centre)
    exact = W[:, p] - (0.0 if centre is None else W[:, :p] @ centre)
    off = np.abs(published["intercept_"] - exact) + ROUNDING * p * (np.abs(W[:, p]) + far)
    return {"coef_error_": of_coef, "intercept_error_": bound[:, p] + off}


def judged_as_published(objective: Objective, fitted: Fitted, published: Array, tol: float) -> Fitted:
    """Return the fit with the gap of its ``published`` parameters, which are rounded to single precision.

    The loss rises by gᵀd and what :func:`above_tangent` allows: from norms alone, from the largest change of a score
    difference, which takes half a pass, or as it is evaluated, another. Where rounding alone takes the gap above
    ``tol``, which no step could mend, the message says what the gap was before.
    """
    found = None if fitted.solution is None else fitted.solution.certificate
    sizes, epsilon = objective.magnitudes, float(np.finfo(np.float64).eps)
    if found is None or sizes is None or not fitted.result.gap < 1 or found.theta is not fitted.params:
        return fitted
    W = found.theta.reshape(-1, sizes.n_columns)
    certified = (W - W.mean(axis=0) if len(W) > 1 else W).ravel()
    d, before = published - certified, fitted.result.gap
    if not d.any():
        return fitted
    off, of_gradient = sizes.at_most(published, epsilon)
    if off > NEGLIGIBLE * max(before, WORTH_A_PASS) * found.value:
        off = objective.magnitudes_by_column.of_loss(published, epsilon)
    lower, upper = found.value - off, found.value + off
    slope = abs(float((found.gradient + objective.ridge * (certified - found.theta)) @ d))
    slope += of_gradient * norm(d) + 0.5 * float(objective.ridge @ d**2)
    rise = slope + above_tangent(sqrt(2) * norm(d) * sizes.norm, sizes.heaviest, upper)
    least = max(DIFFERS * before, WORTH_A_PASS) * lower
    spreads = objective.model.spreads(d[:, None], objective.like)
    if rise > least and spreads is not None:
        moved = float(objective.small_blocks.total(partial(widened, partial(most, spreads.exact))).value)
        rise = min(rise, slope + above_tangent(moved, sqrt(sizes.rows) * sizes.weights, upper))
    if rise > least:
        loss = objective.small_blocks.total(partial(widened, partial(objective.model.loss_at, published)))
        rise = min(rise, max(loss + objective.penalty.value(published) - found.value, 0.0) + 2 * off)
    gap = (before * lower + rise) / (lower + rise) if lower > 0 else 1.0
    said, words = (f"within {number:.1e} of the optimum (relative)" for number in (before, gap))
    if before <= tol < gap:
        words += f", {before:.1e} {BEFORE_ROUNDING}"
    message = fitted.result.message.replace(said, words)
    return replace(fitted, result=replace(fitted.result, gap=gap, message=message))


def above_tangent(moved: float, weight: float, value: float) -> float:
    """Return how far a loss may rise above its tangent where differences of a row's scores move by ``moved`` at most.

    A row of weight w bends by ¼ w m² at most, m the range of its moves; and by w (1 − max p) m², which its loss exceeds
    and which grows by a factor of e^m on the way. ``weight`` is that of all rows, or, where ``moved`` is the root of a
    sum of squares over rows, that of the heaviest; F, which all their losses together do not exceed, is ``value``.
    """
    bend = min(0.25 * weight, value * exp(moved)) if moved < FAR else 0.25 * weight
    return 0.5 * bend * moved * moved


def _bounds(found: Certificate, ridge: Array, classes: int, centre: Array | None) -> Array:
    """Return what a certificate says: of a Hessian, or F − F* ≥ ½ Σ_i λ_i (θ_i − θ*_i)²."""
    if found.region is not None:
        return found.region.within(classes, centre)
    excess = found.gap * found.value if np.isfinite(found.gap) else np.inf
    each = ridge[:1] if ridge.strides == (0,) else ridge  # one number, broadcast
    bounds = np.sqrt(np.divide(2 * excess, each, where=each > 0, out=np.full(each.shape, np.inf)))
    bounds = bounds if each is ridge else np.full(ridge.shape, bounds[0])
    # Less their mean over classes differences are no larger, if all classes are penalised alike; they are.
    return bounds.reshape(classes, -1)


# The gains of these are tuned, over the schedules given here.
TUNED = {"sgd": ("constant",), "asgd": ("adaptive", "inverse")}
MAKERS: dict[str, Callable[..., Solver[Any]]] = {
    "auto": lambda seed, **rows: QuasiNewton(seed=seed),
    "bbm": lambda **rows: BatchMajorization(),
    "sbm": lambda warm, **rows: StochasticMajorization(restart=True, **rows),
    "sbm-lowrank": lambda warm, **rows: LowRankStochasticMajorization(restart=True, **rows),
    "proximal": lambda warm, **rows: ProximalMajorization(warm_start=warm, **rows),
    "lbfgs": lambda **rows: LBFGS(),
    "newton": lambda **rows: Newton(),
}
SOLVERS = (*MAKERS, *TUNED)
# Those that go from row to row, and do not read with others.
ONE_AFTER_THE_OTHER = ("proximal", "sbm", "sbm-lowrank", *TUNED)
# Names of scikit-learn's solvers, which differ in how they get to an optimum that is the same: only the one that asks
# for the Hessian gets it, since the others are chosen where that would not fit.
ALIASES = {"newton-cholesky": "newton", "newton-cg": "auto", "liblinear": "auto", "sag": "auto", "saga": "auto"}
ACCEPTED = (*SOLVERS, *ALIASES)


def named_solver(
    name: str, objective: Objective, *, seed: int = 0, shuffle: bool = True, warm: bool = False
) -> Solver[Any]:
    """Return a solver by name; those of ``TUNED`` with the best setting of their grid on this objective.

    ``seed`` and ``shuffle`` say in which order rows are visited, ``warm`` whether a start other than zero is meant.
    """
    name = ALIASES.get(one_of("solver", name, ACCEPTED), name)
    return tuned(name, objective, seed).best if name in TUNED else MAKERS[name](seed=seed, shuffle=shuffle, warm=warm)


def tuned(name: str, objective: Objective, seed: int = 0, passes: int = 1) -> Tuning:
    """Try the grid of a solver of ``TUNED``, for so many passes each."""
    return tune(objective, schedules=TUNED[name], seed=seed, passes=passes)


Method = TypeVar("Method", bound=Callable[..., Any])

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as followed
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""

    def followed(method: Any) -> Any:
        """Return the method as it is."""
        return method


def with_callbacks(method: Method) -> Method:
    """Let callbacks follow a method; its types, which scikit-learn does not have, stay visible."""
    decorated: Method = followed(method)
    return decorated


class WithCallbacks(CallbackSupportMixin):  # type: ignore[misc]
    """What an estimator needs for scikit-learn's callbacks to follow it."""


class StepTasks(Callback):
    """Reports the steps of a fit to the callbacks that ``set_callbacks`` registered, if there are any.

    As in scikit-learn, the task of a step begins with the parameters before it and ends with those after it; whether a
    step is the last is known only when it is, so one task is begun too many, and ends empty.
    """

    def __init__(
        self, estimator: Any, X: Any, labels: Callable[[], Array], attributes: Callable[[Array], dict[str, Array]]
    ) -> None:
        self._estimator, self._attributes = estimator, attributes
        self._fit: Any = None
        self._step: Any = None
        if getattr(estimator, "_skl_callbacks", None):
            self._data = X, labels()
            self._fit = estimator._init_callback_context(max_subtasks=None)
            self._fit.call_on_fit_task_begin(estimator=estimator, X=X, y=self._data[1])

    @property
    def follows(self) -> bool:
        """Whether there are any."""
        return self._fit is not None

    def __call__(self, row: Mapping[str, float], theta: Array) -> bool:
        """Report the end of one step and the beginning of the next; return whether a callback asks to stop."""
        if self._fit is None:
            return False
        X, y = self._data
        known = dict(estimator=self._estimator, X=X, y=y, reconstruction_attributes=self._attributes(theta))
        stop = self._step is not None and bool(self._step.call_on_fit_task_end(**known))
        self._step = self._fit.subcontext(task_name="iteration")
        self._step.call_on_fit_task_begin(**known)
        return stop

    def end(self) -> None:
        """Report the end of the fit, once it has been published."""
        if self._fit is None:
            return
        if self._step is not None:
            self._step.call_on_fit_task_end(estimator=self._estimator)
        self._fit.call_on_fit_task_end(estimator=self._estimator, X=self._data[0], y=self._data[1])


def hand_over(owner: Any, model: Any) -> None:
    """Let the callbacks that were set on one estimator follow the fit of another, which stands for it."""
    if getattr(owner, "_skl_callbacks", None):
        model.set_callbacks(*owner._skl_callbacks)
        if hasattr(owner, "_parent_callback_ctx"):
            model._parent_callback_ctx = owner._parent_callback_ctx


__all__ = ["StepTasks", "WithCallbacks", "hand_over", "with_callbacks"]


# Endings that a user should hear of; a stream or an early stop is what was asked for.
UNWANTED = (Outcome.STEP_LIMIT, Outcome.NON_FINITE, Outcome.UNBOUNDED)
# Files whose lines no warning points to: those of this package, and scikit-learn's that call its methods.
INSIDE = (str(Path(__file__).parents[1]) + os.sep, str(Path(sklearn.__file__).parent / "callback") + os.sep)
# What is raised in the first steps of a run that goes on, if what it was given is damaged.
BARE = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
FIRST_STEPS = 5
NO_WAY_ON = (
    "resume_from holds a checkpoint that no fit can go on from ({problem}): it is damaged, was made by hand, or is of "
    "another version of this package; fit without resume_from"
)
# A gap that double precision cannot tell from none, whatever was asked for.
NONE = 1e-15


@dataclass
class Function(Callback):
    """A function of a row of the trace and θ, as a callback."""

    function: Callable[[Mapping[str, float], Array], Any]

    def __call__(self, row: Mapping[str, float], theta: Array) -> bool:
        """Call it."""
        return bool(self.function(row, theta))


class Followers:
    """All callbacks of a fit as one observer."""

    def __init__(self, callbacks: Iterable[Any], fit: Fit) -> None:
        self.each = [each if isinstance(each, Callback) else Function(each) for each in callbacks]
        for callback in self.each:
            callback.start(fit)
        self.steps, self.is_called = 0, False

    def recall(self, memories: Iterable[tuple[str, Any]]) -> None:
        """Give each callback what it remembered of a run that goes on."""
        for callback, (name, memory) in zip(self.each, memories, strict=False):
            if name == type(callback).__name__ and memory is not None:
                callback.recall(memory)

    def follow(self, progress: Callable[[], Progress]) -> None:
        """Let all know how far the fit has come, and what the others remember of it."""

        def with_memories() -> Progress:
            return replace(progress(), memories=tuple((type(each).__name__, each.memory()) for each in self.each))

        for each in self.each:
            each.follow(with_memories)

    def __call__(self, row: Mapping[str, float], theta: Array) -> bool:
        """Show all of them a step; return whether any asks to stop."""
        self.is_called = True
        stops = sum(bool(each(row, theta)) for each in self.each) > 0
        self.steps, self.is_called = self.steps + 1, False
        return stops


def run(
    objective: Objective,
    solver: Solver[Any],
    fit: Fit,
    callbacks: Iterable[Any],
    *,
    start: ArrayLike | Solution | Progress | None = None,
    tol: float,
    gradient_tol: float = 1e-8,
    max_steps: int,
    saddles: int = 0,
    certified: bool = True,
) -> Fitted:
    """Return what minimising an objective has found, followed by callbacks. BLAS is left as it is.

    A run that goes on and fails in its first steps was given something that no fit has written.
    """
    followers, goes_on = Followers(callbacks, fit), isinstance(start, Progress)
    try:
        if isinstance(start, Progress):
            followers.recall(start.memories)
        solution = minimize(
            objective,
            solver,
            start=start,
            tol=tol,
            gradient_tol=gradient_tol,
            max_steps=max_steps,
            callback=followers if followers.each or goes_on else None,
            threads=None,
            saddles=saddles,
            certified=certified,
        )
        fitted = Fitted.of(solution)
    except BARE as problem:
        if not goes_on or isinstance(problem, AnotherRunError) or followers.is_called or followers.steps > FIRST_STEPS:
            raise
        raise ValueError(NO_WAY_ON.format(problem=f"{type(problem).__name__}: {problem}"[:200])) from problem
    for each in followers.each:
        fitted = _as_preferred(objective, fitted, each)
    for each in followers.each:
        each.finish(fitted)
    return fitted


def _as_preferred(objective: Objective, fitted: Fitted, callback: Callback) -> Fitted:
    """Return the fit with the parameters that a callback prefers, if they are from an earlier step, certified."""
    preferred = callback.preferred()
    if preferred is None or preferred[1] >= fitted.steps:
        return fitted
    theta, step = preferred
    certified = objective.certify(theta, move=False)
    outcome = fitted.result.outcome if fitted.result.outcome in UNWANTED else Outcome.STOPPED
    kept = f"kept those of step {step}, best on the validation data"
    result = Result(outcome, f"stopped after {counted(fitted.steps, 'step')}; {kept}", certified.gap)
    return replace(fitted, params=certified.theta, result=result)


def publish(estimator: Any, fitted: Fitted) -> None:
    """Set what every estimator says of its fit; its parameters are its own to set."""
    estimator.result_, estimator.gap_ = fitted.result, fitted.result.gap
    estimator.n_iter_, estimator.trace_ = fitted.steps, fitted.trace
    if not fitted.trace:  # a stream has none
        del estimator.trace_


def is_unwanted(result: Result, tolerated: float) -> bool:
    """Return whether a fit is not what was asked for: it ended early, or could get no further at a larger gap."""
    if result.outcome is Outcome.STALLED:
        return not result.gap <= max(tolerated, NONE)
    return result.outcome in UNWANTED


def warn(result: Result, *, remedy: str = "use a finite C") -> None:
    """Say that a fit is not what was asked for, and what would help; ``remedy`` is for one without an optimum."""
    advice = f"; {remedy}" if result.outcome is Outcome.UNBOUNDED else ""
    warn_outside(f"{result}{advice}.", ConvergenceWarning)


def warn_outside(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn the user, at the line that called this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(INSIDE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


# A fit that can get no further is worth a warning if its gradient promises more than this share of the objective.
STUCK = 1e-4


class LastProgress(Callback):
    """Knows how far a run has come, also when it is over."""

    def follow(self, progress: Callable[[], Progress]) -> None:
        """Remember whom to ask."""
        self._progress = progress

    def __call__(self, *seen: Any) -> Any:
        """Return False to whoever shows a step, and the progress to whoever asks."""
        return False if seen else self._progress()


def value_of(objective: Objective, fitted: Fitted) -> float:
    """Return F where a run ended, infinity if it failed."""
    if fitted.result.outcome is Outcome.NON_FINITE:
        return float("inf")
    return objective.with_ledger().value(fitted.params)


def as_stationary(objective: Objective, finished: Fitted, tol: float) -> Fitted:
    """Return the fit as what it is if it has reached its tolerance before it got no further, or to its last step."""
    if finished.result.converged or not _predicted_decrease(objective, finished) <= tol:
        return finished
    return replace(finished, result=replace(finished.result, outcome=Outcome.STATIONARY))


def is_disappointing(objective: Objective, fitted: Fitted) -> bool:
    """Return whether a user should hear how a fit ended: early, or where steps fail that should gain something."""
    outcome = fitted.result.outcome
    return outcome in UNWANTED or (outcome is Outcome.STALLED and not _predicted_decrease(objective, fitted) <= STUCK)


def _predicted_decrease(objective: Objective, fitted: Fitted) -> float:
    own = objective.with_ledger()
    return own.predicted_decrease(own.point(fitted.params))
