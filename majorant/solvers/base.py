"""What a solver is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self, TypeVar

import numpy as np

from majorant._checks import Array
from majorant._ray import Point
from majorant.objective import Objective

UNKNOWN = np.empty(0)
# A relative decrease that is none of rounding's; looking closer would take longer than a small step.
CLEAR = 1e-6
# A decrease counts if it is no smaller than this share of the rounding errors of F: others come without end.
MATTERS = 1e-3
# Where F is flat a gradient has to shrink to this share: by less, it may be noise.
SHRINKS = 0.9


@dataclass(frozen=True, eq=False)
class State:
    """Where a solver is.

    ``value`` and ``gradient`` are F and ∇F at θ; a stochastic solver does not know them and leaves NaN, and the
    loop finds them out of the solver's time. ``stalled`` says that F cannot be decreased any further.
    """

    theta: Array
    value: float = float("nan")
    gradient: Array = field(default_factory=lambda: UNKNOWN)
    stalled: bool = False

    @property
    def evaluated(self) -> bool:
        """Whether the solver knows F and ∇F here."""
        return self.gradient is not UNKNOWN

    def forgetting(self, **changes: Any) -> Self:
        """Return the state with changes, one of them θ: F and ∇F are no longer known."""
        return replace(self, value=float("nan"), gradient=UNKNOWN, **changes)

    def resumed_at(self, point: Point) -> Self:
        """Return the state with F and ∇F found again."""
        return replace(self, theta=point.theta, value=point.value, gradient=point.gradient)


S = TypeVar("S", bound=State)


class Solver(ABC, Generic[S]):
    """Minimises an objective, showing each state it reaches to an observer."""

    @abstractmethod
    def start(self, objective: Objective, theta: Array) -> S:
        """Return the state at θ."""

    @abstractmethod
    def drive(self, objective: Objective, state: S, observe: Callable[[S], bool]) -> None:
        """Go on from ``state``, calling ``observe`` with every state, the first included, until it says stop."""


class SteppingSolver(Solver[S]):
    """A solver that is a pure step from state to state."""

    @abstractmethod
    def step(self, objective: Objective, state: S) -> S:
        """Return the next state; a stalled one if there is none."""

    def drive(self, objective: Objective, state: S, observe: Callable[[S], bool]) -> None:
        """Step until told to stop."""
        while not observe(state):
            state = self.step(objective, state)


def improves(objective: Objective, new: State, old: State | Point) -> bool:
    """Return whether one state is better than another, to rounding errors of F.

    Close to the optimum the value is flat to the last bit while the gradient, which certifies, still shrinks.
    """
    if new.value < old.value - CLEAR * abs(old.value):
        return True
    rounding = objective.rounding(old.theta, old.value)
    if new.value < old.value - MATTERS * rounding:
        return True
    flat = new.value <= old.value + rounding
    return flat and bool(np.linalg.norm(new.gradient) < SHRINKS * np.linalg.norm(old.gradient))
