"""Runs from several starts, of which the best goes on: how far each has come, and what it is worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from majorant._solution import Fitted, Outcome, Progress
from majorant.callbacks import Callback
from majorant.estimators.fitting import UNWANTED
from majorant.objective import Objective

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
