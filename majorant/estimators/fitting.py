"""How estimators fit: solvers by name, callbacks that follow a fit, its outcome, and what is certified of coefficients.

A fit is ``with Followers(callbacks, fit, start) as followers: solution = minimize(…, callback=followers)``, and then
``followers.finish(objective, solution)``; :func:`run` is that for estimators with nothing to do in between.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from math import exp, log, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import sklearn
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from majorant.callbacks import Callback, Fit
from majorant.core.checks import Array, one_of
from majorant.core.objective import Objective
from majorant.core.policy import QuasiNewton
from majorant.core.proximal import ProximalMajorization
from majorant.core.proximal_newton import ProximalNewton
from majorant.core.result import AnotherRunError, Fitted, Outcome, Progress, Result, Solution, counted
from majorant.core.rows import most, widened
from majorant.core.run import minimize
from majorant.core.solver import LBFGS, BatchMajorization, Newton, Solver
from majorant.core.stochastic import LowRankStochasticMajorization, StochasticMajorization
from majorant.core.threads import norm

if TYPE_CHECKING:
    from majorant.tuning import Tuning

# Relative rounding errors of a few operations in double precision: no gap or intercept is known better.
ROUNDING = 1e-15
# A fit that can get no further is worth a warning if it may lie above the optimum by more than this share of F.
STUCK = 1e-4
# The share of a gap, or of the tolerance, below which other changes of F need not be known exactly.
NEGLIGIBLE = 0.1

# --- solvers by name ----------------------------------------------------------------------------------------

# The gains of these are tuned, over the schedules given here.
TUNED = {"sgd": ("constant",), "asgd": ("adaptive", "inverse")}
MAKERS: dict[str, Callable[..., Solver[Any]]] = {
    "auto": lambda seed, **rows: QuasiNewton(seed=seed),
    "bbm": lambda **rows: BatchMajorization(),
    "sbm": lambda warm, **rows: StochasticMajorization(restart=True, **rows),
    "sbm-lowrank": lambda warm, **rows: LowRankStochasticMajorization(restart=True, **rows),
    "proximal": lambda warm, **rows: ProximalMajorization(warm_start=warm, **rows),
    "scipy-lbfgs": lambda **rows: LBFGS(),
    "newton": lambda **rows: Newton(),
}
SOLVERS = (*MAKERS, *TUNED)
# Those that visit rows one after the other, and do not read with others.
ONE_AFTER_THE_OTHER = ("proximal", "sbm", "sbm-lowrank", *TUNED)
# scikit-learn's solvers differ in how they get to the same optimum, which is found by whatever is fastest here. Those
# who ask for the Hessian get it, since the others are chosen where it would not fit.
ALIASES = dict.fromkeys(("lbfgs", "newton-cg", "sag", "saga", "liblinear"), "auto") | {"newton-cholesky": "newton"}
ACCEPTED = (*SOLVERS, *ALIASES)


def named_solver(
    name: str, objective: Objective, *, seed: int = 0, shuffle: bool = True, warm: bool = False
) -> Solver[Any]:
    """Return a solver by name; those of ``TUNED`` with the best setting of their grid on this objective.

    ``seed`` and ``shuffle`` say in which order rows are visited, ``warm`` whether a start other than zero is meant.
    """
    if not objective.penalty.smooth:
        return ProximalNewton()
    name = ALIASES.get(one_of("solver", name, ACCEPTED), name)
    return tuned(name, objective, seed).best if name in TUNED else MAKERS[name](seed=seed, shuffle=shuffle, warm=warm)


def tuned(name: str, objective: Objective, seed: int = 0, passes: int = 1) -> Tuning:
    """Try the grid of a solver of ``TUNED``, for so many passes each."""
    from majorant.tuning import tune

    return tune(objective, schedules=TUNED[name], seed=seed, passes=passes)


# --- callbacks ----------------------------------------------------------------------------------------------

Method = TypeVar("Method", bound=Callable[..., Any])

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
    from sklearn.callback import with_callbacks as _followed
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""

    def _followed(method: Any) -> Any:
        return method


def with_callbacks(method: Method) -> Method:
    """Let scikit-learn's callbacks follow a method; its types, which scikit-learn does not have, stay visible."""
    decorated: Method = _followed(method)
    return decorated


class StepTasks(Callback):
    """Reports the steps of a fit to the callbacks that scikit-learn's ``set_callbacks`` registered, if there are any.

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
            self._data = {"X": X, "y": labels()}
            self._fit = estimator._init_callback_context(max_subtasks=None)
            self._fit.call_on_fit_task_begin(estimator=estimator, **self._data)

    @property
    def followers(self) -> list[Callback]:
        """The callbacks that report steps: none if nothing was registered."""
        return [] if self._fit is None else [self]

    def __call__(self, row: Mapping[str, float], theta: Array) -> bool:
        """Report the end of one step and the beginning of the next; return whether a callback asks to stop."""
        known = {"estimator": self._estimator, **self._data, "reconstruction_attributes": self._attributes(theta)}
        stop = self._step is not None and bool(self._step.call_on_fit_task_end(**known))
        self._step = self._fit.subcontext(task_name="iteration")
        self._step.call_on_fit_task_begin(**known)
        return stop

    def end(self) -> None:
        """Report the end of the fit, once it has been published."""
        if self._step is not None:
            self._step.call_on_fit_task_end(estimator=self._estimator)
        if self._fit is not None:
            self._fit.call_on_fit_task_end(estimator=self._estimator, **self._data)


def hand_over(owner: Any, model: Any) -> None:
    """Let the callbacks that were set on one estimator follow the fit of another, which stands for it."""
    if getattr(owner, "_skl_callbacks", None):
        model.set_callbacks(*owner._skl_callbacks)
        if hasattr(owner, "_parent_callback_ctx"):
            model._parent_callback_ctx = owner._parent_callback_ctx


# What is raised in a run that goes on from a damaged checkpoint.
BARE = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)


class Followers:
    """The callbacks of a fit, which follow it while this context is open.

    A run that goes on from a checkpoint and fails was given a checkpoint that no fit has written.
    """

    def __init__(self, callbacks: Iterable[Any], fit: Fit, start: Any = None) -> None:
        self._functions = list(callbacks)
        self._callbacks = [function for function in self._functions if isinstance(function, Callback)]
        self._start, self._is_called = start, False
        self.progress: Callable[[], Progress] | None = None  # how far the run has come, also when it is over
        for callback in self._callbacks:
            callback.start(fit)

    def __enter__(self) -> Self:
        """Begin: callbacks recall what they remembered of a run that goes on."""
        if isinstance(self._start, Progress):
            for callback, (name, memory) in zip(self._functions, self._start.memories, strict=False):
                if isinstance(callback, Callback) and name == type(callback).__name__ and memory is not None:
                    callback.recall(memory)
        return self

    def follow(self, progress: Callable[[], Progress]) -> None:
        """Let callbacks know how far the fit has come, and what the others remember of it."""

        def with_memories() -> Progress:
            memories = (f.memory() if isinstance(f, Callback) else None for f in self._functions)
            names = (type(f).__name__ for f in self._functions)
            return replace(progress(), memories=tuple(zip(names, memories, strict=True)))

        self.progress = with_memories
        for callback in self._callbacks:
            callback.follow(with_memories)

    def __call__(self, row: Mapping[str, float], theta: Array) -> bool:
        """Show a step to all callbacks; return whether any asks to stop."""
        self._is_called = True
        stops = [bool(function(row, theta)) for function in self._functions]
        self._is_called = False
        return any(stops)

    def __exit__(self, kind: Any, problem: BaseException | None, trace: Any) -> None:
        """End; an error of a damaged checkpoint is said to be one."""
        is_damage = isinstance(problem, BARE) and not isinstance(problem, AnotherRunError) and not self._is_called
        if isinstance(self._start, Progress) and is_damage:
            reason = f"{type(problem).__name__}: {problem}"[:200]
            raise ValueError(
                f"resume_from holds a checkpoint that no fit can go on from ({reason}): it is damaged, was made by "
                "hand, or is of another version of this package; fit without resume_from"
            ) from problem

    def finish(self, objective: Objective, solution: Solution) -> Fitted:
        """Return the fit, with the parameters of an earlier step where a callback prefers those; callbacks finish."""
        fitted = Fitted.of(solution)
        for callback in self._callbacks:
            preferred = callback.preferred()
            if preferred is not None and preferred[1] < fitted.steps:
                theta, step = preferred
                certified = objective.certify(theta, move=False)
                outcome = fitted.result.outcome if fitted.result.outcome in UNWANTED else Outcome.STOPPED
                kept = f"kept those of step {step}, best on the validation data"
                result = Result(outcome, f"stopped after {counted(fitted.steps, 'step')}; {kept}", certified.gap)
                fitted = replace(fitted, params=certified.theta, result=result)
        for callback in self._callbacks:
            callback.finish(fitted)
        return fitted


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
) -> Fitted:
    """Return the fit that minimises an objective, followed by callbacks. Threads of BLAS are left as they are."""
    with Followers(callbacks, fit, start) as followers:
        solution = minimize(
            objective,
            solver,
            start=start,
            tol=tol,
            gradient_tol=gradient_tol,
            max_steps=max_steps,
            callback=followers,
            threads=None,
            saddles=saddles,
        )
    return followers.finish(objective, solution)


# --- outcomes -----------------------------------------------------------------------------------------------

# Endings that a user should hear of; a stream or an early stop is what was asked for.
UNWANTED = (Outcome.STEP_LIMIT, Outcome.NON_FINITE, Outcome.UNBOUNDED)
# Files whose lines no warning points to: those of this package, and scikit-learn's that call its methods.
INSIDE = (str(Path(__file__).parent.parent) + os.sep, str(Path(sklearn.__file__).parent / "callback") + os.sep)


def publish(estimator: Any, fitted: Fitted) -> None:
    """Set the attributes that every estimator has of its fit; its parameters are its own to set."""
    estimator.result_, estimator.gap_ = fitted.result, fitted.result.gap
    estimator.n_iter_, estimator.trace_ = fitted.steps, fitted.trace
    if not fitted.trace:  # a stream has none
        del estimator.trace_


def is_unwanted(result: Result, tolerated: float) -> bool:
    """Return whether a fit is not what was asked for: it ended early, or could get no further at a larger gap.

    A limit of steps that was copied from elsewhere is no reason to warn of a fit that is certified to be good.
    """
    if result.outcome in (Outcome.STALLED, Outcome.STEP_LIMIT):
        enough = STUCK if result.outcome is Outcome.STEP_LIMIT else ROUNDING
        return not result.gap <= max(tolerated, enough)
    return result.outcome in UNWANTED


def is_disappointing(objective: Objective, fitted: Fitted) -> bool:
    """Return whether a user should hear how a fit ended: early, or where steps fail that should gain something."""
    outcome = fitted.result.outcome
    stalled = outcome is Outcome.STALLED
    return outcome in UNWANTED or (stalled and not predicted_decrease(objective, fitted) <= STUCK)


def predicted_decrease(objective: Objective, fitted: Fitted) -> float:
    """Return the predicted decrease of F by another step."""
    own = objective.with_ledger()
    return own.predicted_decrease(own.point(fitted.params))


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


# --- coefficients: how far from the optimum, and what rounding does to them ---------------------------------

BEFORE_ROUNDING = "before coef_ was rounded to single precision"


def errors_of(
    fitted: Fitted,
    ridge: Array,
    classes: int,
    centre: Array | None,
    published: dict[str, Array],
    *,
    has_l1: bool = False,
) -> dict[str, Any]:
    """Return ``coef_error_`` and ``intercept_error_``, rounding of what is published included; nothing of a stream.

    ``ridge`` is what is strongly convex of the penalty.
    """
    if fitted.solution is None:
        return {}
    coef, certificate = published["coef_"], fitted.solution.certificate
    W = fitted.params.reshape(classes, -1)
    W = as_told_apart(W, has_l1=has_l1)
    # A certificate says how near its parameters are: by a Hessian, or as F − F* ≥ ½ Σ_i λ_i (θ_i − θ*_i)².
    if certificate is None or not (
        certificate.theta is fitted.params or np.array_equal(certificate.theta, fitted.params)
    ):
        bound = np.full(W.shape, np.inf)
    elif certificate.region is not None:
        bound = certificate.region.within(classes, centre)
    else:
        # Less their mean over classes differences are no larger, if all classes are penalised alike; they are.
        excess = certificate.gap * certificate.value if np.isfinite(certificate.gap) else np.inf
        factors = ridge[:1] if ridge.strides == (0,) else ridge  # one number, broadcast
        bound = np.sqrt(np.divide(2 * excess, factors, where=factors > 0, out=np.full(factors.shape, np.inf)))
        bound = np.full(ridge.shape, bound).reshape(W.shape)
    p = coef.shape[1]
    of_coef = bound[:, :p]
    if not (coef.dtype == W.dtype and np.array_equal(coef, W[:, :p])):
        of_coef = of_coef + np.abs(W[:, :p] - coef)
    if W.shape[1] == p:
        return {"coef_error_": of_coef, "intercept_error_": np.zeros(classes)}
    shift = 0.0 if centre is None else np.abs(W[:, :p]) @ np.abs(centre)
    exact = W[:, p] - (0.0 if centre is None else W[:, :p] @ centre)
    off = np.abs(published["intercept_"] - exact) + ROUNDING * p * (np.abs(W[:, p]) + shift)
    return {"coef_error_": of_coef, "intercept_error_": bound[:, p] + off}


def as_told_apart(W: Array, *, has_l1: bool) -> Array:
    """Return coefficients of several classes less their mean, which changes no probability.

    An ℓ1 penalty tells classes apart: coefficients of zero stay zero, and a free intercept is the last column.
    """
    if len(W) == 1 or has_l1:
        return W
    return np.asarray(W - W.mean(axis=0))


def judged_as_published(objective: Objective, fitted: Fitted, published: Array, tol: float) -> Fitted:
    """Return the fit with the gap of its ``published`` parameters, which are rounded to single precision.

    The loss rises by gᵀd and what :func:`above_tangent` allows: from norms alone, from the largest change of a score
    difference, which takes half a pass, or as it is evaluated, another. Where rounding alone takes the gap above
    ``tol``, which no step could mend, the message says what the gap was before.
    """
    certificate = None if fitted.solution is None else fitted.solution.certificate
    sizes, epsilon = objective.magnitudes, float(np.finfo(np.float64).eps)
    if certificate is None or sizes is None or not fitted.result.gap < 1 or certificate.theta is not fitted.params:
        return fitted
    W = certificate.theta.reshape(-1, sizes.n_columns)
    certified = as_told_apart(W, has_l1=not objective.penalty.smooth).ravel()
    d, before = published - certified, fitted.result.gap
    if not d.any():
        return fitted
    # Rounding errors of F itself: a coarse bound, or one column by column.
    negligible = NEGLIGIBLE * max(before, tol)
    off, of_gradient = sizes.at_most(published, epsilon)
    if off > NEGLIGIBLE * negligible * certificate.value:
        off = objective.magnitudes_by_column.of_loss(published, epsilon)
    lower, upper = certificate.value - off, certificate.value + off
    # The rise of F: a bound from norms, then from each row, then as it is.
    slope = abs(float((certificate.gradient + objective.ridge * (certified - certificate.theta)) @ d))
    slope += of_gradient * norm(d) + 0.5 * float(objective.ridge @ d**2)
    rise = slope + above_tangent(sqrt(2) * norm(d) * sizes.norm, sizes.heaviest, upper)
    spreads = objective.model.spreads(d[:, None], objective.like)
    if rise > negligible * lower and spreads is not None:
        moved = float(objective.small_blocks.total(partial(widened, partial(most, spreads.exact))).value)
        rise = min(rise, slope + above_tangent(moved, sqrt(sizes.rows) * sizes.weights, upper))
    if rise > negligible * lower:
        loss = objective.small_blocks.total(partial(widened, partial(objective.model.loss_at, published)))
        rise = min(rise, max(loss + objective.penalty.value(published) - certificate.value, 0.0) + 2 * off)
    gap = (before * lower + rise) / (lower + rise) if lower > 0 else 1.0
    sentence, words = (f"within {number:.1e} of the optimum (relative)" for number in (before, gap))
    if before <= tol < gap:
        words += f", {before:.1e} {BEFORE_ROUNDING}"
    message = fitted.result.message.replace(sentence, words)
    return replace(fitted, result=replace(fitted.result, gap=gap, message=message))


def above_tangent(moved: float, weight: float, value: float) -> float:
    """Bound the rise of a loss above its tangent where differences of a row's scores move by ``moved`` at most.

    A row of weight w bends by ¼ w m² at most, m the range of its moves; and by w (1 − max p) m², which its loss exceeds
    and which grows by a factor of e^m on the way. ``weight`` is that of all rows, or, where ``moved`` is the root of a
    sum of squares over rows, that of the heaviest; F, which all their losses together do not exceed, is ``value``.
    """
    bend = min(0.25 * weight, value * exp(moved)) if moved < log(sys.float_info.max) else 0.25 * weight
    return 0.5 * bend * moved * moved


def in_double_precision(objective: Objective, fitted: Fitted, published: Callable[[Array], Array]) -> Fitted:
    """Return a fit in single precision whose coefficients may be huge and cancel, with F as it is in double.

    Where F is larger than single precision had it, coefficients are halved as long as that lowers it: those that lead
    above F(0) are near zero at last. ``published`` returns the parameters that published coefficients stand for.
    """

    def value(theta: Array) -> float:
        rounded = published(theta)
        loss = partial(widened, partial(objective.model.loss_at, rounded))
        return float(objective.small_blocks.total(loss)) + objective.penalty.value(rounded)

    theta, in_single, at_zero = fitted.params, float(fitted.trace["objective"][-1]), objective.value_at_zero()
    F = value(theta)
    if in_single + STUCK * max(at_zero - in_single, 0.0) >= F:
        return fitted
    for _ in range(np.finfo(np.float64).nmant):  # after which nothing would be left of them beside 1
        halved = value(theta / 2)
        if not (halved < F or at_zero < F):
            break
        theta, F = theta / 2, halved
    words = f"; F is {F:.3g} in double precision, not {in_single:.3g}: give X in double precision"
    gap = fitted.result.gap if theta is fitted.params else float("nan")
    return replace(fitted, params=theta, result=replace(fitted.result, message=f"{fitted.result}{words}", gap=gap))
