"""What a solver is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from majorant._checks import Array
from majorant._vectors import norm
from majorant.objective import Objective, Point
from majorant.objective.certificates import KnownHessian

# A relative decrease that is none of rounding's; looking closer would take longer than a small step.
CLEAR = 1e-6
# A decrease counts if it is no smaller than this share of the rounding errors of F: others come without end.
MATTERS = 1e-3
# Where F is flat a gradient has to shrink to this share: by less, it may be noise.
SHRINKS = 0.9


@dataclass(frozen=True, eq=False)
class State:
    """Where a solver is, and what it knows of that.

    ``point`` holds F and ∇F at θ. It is None where they are not known: a stochastic solver leaves them to whoever asks.
    A state with another θ forgets the point of the one it was made from, so what a state says is always true of its
    own θ. ``stalled`` says that F cannot be decreased any further, ``account`` what was bought, and at which step,
    ``remark`` what else a user should know, and ``unseen`` how many steps were made since the state before that nobody
    saw: in single precision, or on some of the rows.
    """

    theta: Array
    point: Point | None = None
    stalled: bool = False
    account: tuple[tuple[int, str], ...] = ()
    remark: str = ""
    unseen: int = 0

    def __post_init__(self) -> None:
        if self.point is not None and self.point.theta is not self.theta:
            object.__setattr__(self, "point", None)

    @classmethod
    def at(cls, point: Point, **more: Any) -> Self:
        """Return the state at a point."""
        return cls(theta=point.theta, point=point, **more)

    def moved_to(self, point: Point, **changes: Any) -> Self:
        """Return the state at another point."""
        return self.changed(**{"theta": point.theta, "point": point, "unseen": 0, **changes})

    def changed(self, **changes: Any) -> Self:
        """Return the state with other values. ``dataclasses.replace`` looks at every field, which takes longer."""
        other = object.__new__(type(self))
        vars(other).update(vars(self) | changes)
        other.__post_init__()
        return other

    def resumed(self, objective: Objective, point: Point, steps: int) -> Self:
        """Return the state with what is known of its θ found again, unless the data are those it knows.

        No more than so many steps are made from there.
        """
        same = self.point is not None and objective.same_scores(self.point, point)
        return self if same else self.moved_to(point)

    def predicted_decrease(self) -> float:
        """Return what the next step promises to gain, NaN where that is not known."""
        return float("nan")

    def hessian(self) -> KnownHessian | None:
        """Return the Hessian of all rows that steps are scaled by, if it is one."""
        return None

    def revived(self, objective: Objective) -> Self:
        """Return the state as it was before it was written to a file, which holds nothing of the data."""
        return self

    def carried(self, objective: Objective, theta: Array) -> Self | None:
        """Return the state at θ under another penalty, or None if it knows nothing that holds there."""
        return None


S = TypeVar("S", bound=State)


class Solver(ABC, Generic[S]):
    """Minimises an objective, showing each state it reaches to an observer."""

    @abstractmethod
    def start(self, objective: Objective, theta: Array) -> S:
        """Return the first state: at θ, or where the solver finds it better to start."""

    def start_within(self, objective: Objective, theta: Array, steps: int) -> S:
        """Return the same, before which no more than so many steps are made."""
        return self.start(objective, theta)

    def carry(self, objective: Objective, state: S, theta: Array, steps: int) -> S | None:
        """Return the state of a run under another penalty at θ, what it had learnt adapted; None where that cannot be.

        No more than so many steps are made on the way.
        """
        return state.carried(objective, theta)

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


def known(objective: Objective, state: State) -> Point:
    """Return the point of a state, scores included where they are kept; it is found if it is not known."""
    point = state.point
    if point is None or (point.scores is None and objective.keeps_scores):
        return objective.point(state.theta)
    return point


def improves(objective: Objective, new: Point, old: Point) -> bool:
    """Return whether one point is better than another, to rounding errors of F.

    Close to the optimum the value is flat to the last bit while the gradient, which certifies, still shrinks.
    """
    if new.value < old.value - CLEAR * abs(old.value):
        return True
    rounding = objective.rounding(old.theta, old.value)
    if new.value < old.value - MATTERS * rounding:
        return True
    flat = new.value <= old.value + rounding
    return flat and norm(new.gradient) < SHRINKS * norm(old.gradient)
