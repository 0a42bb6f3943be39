"""What a solver is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from majorant._checks import Array
from majorant.objective import Objective


@dataclass(frozen=True, eq=False)
class State:
    """Where a solver is. ``stalled`` says that it cannot decrease the objective any further."""

    theta: Array
    value: float
    gradient: Array
    stalled: bool = False


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


def improves(new: State, old: State) -> bool:
    """Return whether one state is better than another, to rounding.

    Close to the optimum the value is flat to the last bit while the gradient, which certifies, still shrinks.
    """
    if new.value < old.value:
        return True
    flat = new.value <= old.value + 1e-14 * abs(old.value)
    return flat and bool(np.linalg.norm(new.gradient) < np.linalg.norm(old.gradient))
