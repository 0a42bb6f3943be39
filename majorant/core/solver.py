"""Solvers and their states, and how a run goes on from a saddle of a loss that is not convex.

With M the metric of :meth:`Objective.metric` and H the Hessian of F, a few steps of Lanczos' method, from a random
vector, approximate the least eigenvalues of M^{-½} H M^{-½}, whose scale is that of one. A product with H is a
difference of gradients, so it takes ``GRADIENTS`` of them. States of a label that are still alike, or all but, are what
it finds: there the least eigenvalue is −0.1 or less and stands apart, so that half as many would do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from majorant.core.certificates import KnownHessian
from majorant.core.checks import Array
from majorant.core.line_search import Point
from majorant.core.objective import Objective
from majorant.core.threads import norm

# A relative decrease that is none of rounding's: to bound rounding would take longer than a small step.
CLEAR = 1e-6
# A decrease counts if it is no smaller than this share of the rounding errors of F: others come without end.
MATTERS = 1e-3
# Where F is flat a gradient has to shrink to this share: by less, it may be noise.
SHRINKS = 0.9


@dataclass(frozen=True, eq=False)
class State:
    """Where a solver is, and what it knows of that.

    ``point`` holds F and ∇F at θ. It is None where they are not known: stochastic solvers do not compute them. A state
    with another θ forgets the point of the one it was made from, so what a state says is always true of its own θ.
    ``stalled`` says that F cannot be decreased any further, ``account`` what steps were scaled by, and from which step
    on, ``remark`` what else a user should know, and ``unseen`` how many unrecorded steps were made since the state
    before: in single precision, or on a sample of the rows.
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
        """Return the state with other values. ``dataclasses.replace`` reads every field, which takes longer."""
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
        """Return by how much the next step is predicted to decrease F, NaN where that is not known."""
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

    nonsmooth: ClassVar[bool] = False  # whether the penalty may have kinks

    @abstractmethod
    def start(self, objective: Objective, theta: Array) -> S:
        """Return the first state: at θ, or where the solver finds it better to start."""

    def start_within(self, objective: Objective, theta: Array, steps: int) -> S:
        """Return the first state, before which no more than so many steps are made."""
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
    """A solver that is a pure step from state to state; :func:`majorant.minimize` has the loop."""

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


# Gradients that Lanczos' method takes.
GRADIENTS = 12
# Curvature above this, relative to the metric, is not told from none.
NEGATIVE = -1e-2
# By which share of F the quadratic model changes, at most, where gradients are compared.
NEAR = 1e-8
# The first length to try is predicted to decrease F by this share; a length is good if F decreases by this share of
# what is predicted.
FIRST, ENOUGH, HALVINGS = 0.1, 0.25, 8


def leave_saddle(objective: Objective, point: Point) -> Array | None:
    """Return parameters of a smaller F along directions of negative curvature at a point; None if none were found."""
    found = negative_curvature(objective, point)
    if found is None:
        return None
    direction, curvature = found
    length = np.sqrt(2 * FIRST * abs(point.value) / -curvature)
    for _ in range(HALVINGS):
        theta = point.theta + length * direction
        if objective.value(theta) < point.value + ENOUGH * 0.5 * curvature * length**2:
            return np.asarray(theta)
        length *= 0.5
    return None


def negative_curvature(objective: Objective, point: Point) -> tuple[Array, float] | None:
    """Return a direction δ with δᵀMδ = 1 that leads downhill, and δᵀHδ < 0; None if none was found.

    It is the sum of all that Lanczos' method has found: where several labels have states that are alike, all of them
    part at once.
    """
    metric = objective.metric(point)
    root = np.divide(1.0, np.sqrt(metric), out=np.zeros_like(metric), where=metric > 0)
    near = max(NEAR, objective.epsilon ** (2 / 3))
    length = float(np.sqrt(2 * near * abs(point.value)))
    if not length > 0:
        return None

    def multiplied(q: Array) -> Array:
        there = objective.value_and_gradient(point.theta + length * root * q)[1]
        return np.asarray(root * (there - point.gradient) / length)

    values, Q, W = lanczos(multiplied, objective.size)
    negative = values < NEGATIVE
    if not negative.any():
        return None
    δ = root * (W[:, negative].sum(axis=1) @ Q) / np.sqrt(negative.sum())
    return (-δ if point.gradient @ δ > 0 else δ), float(values[negative].mean())


def lanczos(multiplied: Callable[[Array], Array], size: int) -> tuple[Array, Array, Array]:
    """Return Ritz values of a symmetric matrix, ascending, a basis (rows), and the vectors in it (columns).

    ``multiplied`` returns the product of the matrix and a vector of length one.
    """
    steps = min(GRADIENTS, size)
    Q, α, β = np.zeros((steps, size)), np.zeros(steps), np.zeros(steps)
    q = np.random.default_rng(0).normal(size=size)
    for k in range(steps):
        Q[k] = q / norm(q)
        q = multiplied(Q[k])
        if not isfinite(norm(q)):  # out of range: what was found before is all that there is
            steps = k
            break
        α[k] = Q[k] @ q
        for _ in range(2):  # once leaves rounding errors, which come back as copies of eigenvalues
            q = q - (Q[: k + 1] @ q) @ Q[: k + 1]
        β[k] = norm(q)
        if not β[k] > 1e-8 * np.abs(α).max():  # nothing else is left to find
            steps = k + 1
            break
    if not steps:
        return np.empty(0), Q[:0], np.empty((0, 0))
    # Its zeros cost nothing, and what LAPACK has for tridiagonal matrices fails on some of them, in old versions.
    values, vectors = np.linalg.eigh(np.diag(α[:steps]) + np.diag(β[: steps - 1], -1))  # which reads what is below
    return values, Q[:steps], vectors
