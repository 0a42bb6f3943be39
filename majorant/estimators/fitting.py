"""One way to fit: callbacks follow it, and what it found is published when all is done."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sklearn
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from majorant._checks import Array
from majorant._solution import AnotherRunError, Fitted, Outcome, Progress, Result, Solution
from majorant.callbacks import Callback, Fit
from majorant.objective import Objective
from majorant.run import counted, minimize
from majorant.solvers import Solver

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
