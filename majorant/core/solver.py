"""Solvers and their states; descent by bounds, gradients or Hessians along one direction at a time; SciPy's minimisers.

**Saddles.** A run goes on from a saddle of a loss that is not convex. With M the metric of :meth:`Objective.metric` and
H the Hessian of F, a few steps of Lanczos' method, from a random vector, approximate the least eigenvalues of M^{-½} H
M^{-½}, whose scale is that of one. A product with H is a difference of gradients, so it takes ``GRADIENTS`` of them.
States of a label that are still alike, or all but, are what it finds: there the least eigenvalue is −0.1 or less and
stands apart, so that half as many would do.

**Batch bound majorization** (BBM): minimise a bound, move there, bound again. A bound step decreases F whatever the
data, with no step size to choose, but it is short where the data are nearly separable (its rate is 1 − H/Σ), and a new
Σ at every step is most of the work. So, unless the plain algorithm is asked for, the bound's Σ is what a limited-memory
BFGS starts from, renewed at steps 1, 3, 9, 27, …; the best point along each direction is found without visiting the
data again. The bound remains the safeguard: where the corrected step fails to descend, its own step cannot.

**SciPy's minimisers** own their loops, so they run themselves and report each step to our observer. What they know
between steps cannot be taken out of them, nor put back. But they are functions of what they were told: as long as that
is not too much it is kept, and a run that was interrupted is told the same again, which takes no look at the data and
leads to the same state to the last bit. A longer one starts afresh where it was, and says so.

References
----------
Choromanska & Jebara, *Stochastic Bound Majorization*, 2013, Equation 2. Salakhutdinov & Roweis, *Adaptive
overrelaxed bound optimization methods*, ICML 2003, for η.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from scipy import optimize

from majorant.core.bound import QuadraticBound
from majorant.core.certificates import KnownHessian
from majorant.core.checks import Array, positive, whole
from majorant.core.curvature import Curvature, Dense, Form, Solve, grounded, refuse_large
from majorant.core.line_search import Point, best_step
from majorant.core.objective import Objective
from majorant.core.quasi_newton import Pairs, add_pair, quasi_newton_step
from majorant.core.structured import form
from majorant.core.threads import norm

# A relative decrease that is none of rounding's: to bound rounding would take longer than a small step.
CLEAR = 1e-6
# A decrease counts if it is no smaller than this share of the rounding errors of F: others come without end.
MATTERS = 1e-3


@dataclass(frozen=True, eq=False)
class State:
    """Where a solver is, and what it knows of that.

    ``point`` holds F and ∇F at θ. It is None where they are not known: stochastic solvers do not compute them. A state
    with another θ forgets the point of the one it was made from, so what a state says is always true of its own θ.
    ``stalled`` says that F cannot be decreased any further, ``account`` what steps were scaled by, and from which step
    on, ``remark`` what else a user should know, and ``unseen`` how many unrecorded steps were made since the state
    before: in single precision, or on a sample of the rows.
    """

    FOUND: ClassVar[tuple[str, ...]] = ()  # attributes that are found from the others

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
        other, values = object.__new__(type(self)), vars(self) | changes
        for name in self.FOUND:
            values.pop(name, None)
        if values["point"] is not None and values["point"].theta is not values["theta"]:
            values["point"] = None
        vars(other).update(values)
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
    # Where F is flat a gradient has to shrink to this share: by less, it may be noise.
    return flat and norm(new.gradient) < 0.9 * norm(old.gradient)


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


# --- steps along one direction ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class BatchState(State):
    """The latest bound (anchored at θ, or earlier if accelerated), the secant pairs, and the steps made."""

    bound: QuadraticBound
    solve: Solve | None = None
    pairs: Pairs = ()
    steps: int = 0


@dataclass(frozen=True)
class BatchMajorization(SteppingSolver[BatchState]):
    """Minimise F by minimising bounds on it: no step size, and F never rises.

    Plain (``memory=0``), θ ← θ − η Σ⁻¹∇F with a new Σ at each step. Accelerated, as by default, a limited-memory BFGS
    with a line search starts from Σ, and the plain step is its fallback.

    Parameters
    ----------
    curvature : str or callable
        "dense", "low-rank", "diagonal", "kronecker", "boehning", or any function of the factors that returns
        a curvature. One that does not majorize is refused: the guarantee would be gone.
    rank : int
        Directions kept by "low-rank".
    step_size : float in (0, 2)
        η. Every value is monotone; 1 goes to the minimum of the bound. It only scales the bound's own step.
    memory : int
        How many past steps correct Σ. 0 is the plain algorithm of the paper, a new bound at each step.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> F = majorant.Objective(majorant.Multinomial(8), majorant.Labelled(X, y), ridge=1.0)
    >>> majorant.minimize(F, BatchMajorization(memory=0), tol=1e-6).result.converged
    True
    """

    curvature: str | Form = "dense"
    rank: int = 10
    step_size: float = 1.0
    memory: int = 10

    def __post_init__(self) -> None:
        form(self.curvature, self.rank)
        positive("step_size", self.step_size, below=2.0)
        whole("memory", self.memory, least=0)

    def start(self, objective: Objective, theta: Array) -> BatchState:
        """Return the state at θ, its bound included."""
        return self._bounded(objective, theta)

    def step(self, objective: Objective, state: BatchState) -> BatchState:
        """Return the next state: after the corrected step if it descends, after the bound's own otherwise."""
        here = known(objective, state)
        if self.memory:
            n = state.steps
            while n > 1 and n % 3 == 0:
                n //= 3
            if n == 1 and state.bound.anchor is not here.theta:  # a power of three
                state = replace(state, bound=self._bounded(objective, here).bound, solve=None)
            new = self._corrected_step(objective, state, here)
            if new.point is not None and improves(objective, new.point, here):
                return new
        new = self._bound_step(objective, state, here)
        assert new.point is not None
        return new if improves(objective, new.point, here) else replace(state, stalled=True)

    def _bounded(self, objective: Objective, at: Point | Array) -> BatchState:
        point, Σ = objective.expand(at, form(self.curvature, self.rank), majorizes=True)
        bound = QuadraticBound(point.theta, point.value, point.gradient, Σ, objective.ridge)
        return BatchState.at(point, bound=bound)

    def _bound_step(self, objective: Objective, state: BatchState, here: Point) -> BatchState:
        bound = state.bound if state.bound.anchor is here.theta else self._bounded(objective, here).bound
        return replace(self._bounded(objective, here.theta + self.step_size * bound.step()), steps=state.steps + 1)

    def _corrected_step(self, objective: Objective, state: BatchState, here: Point) -> BatchState:
        solve = state.solve or state.bound.curvature.factorized(state.bound.ridge)
        step = quasi_newton_step(here.gradient, state.pairs, solve)
        ray = objective.ray(here, step)
        new = ray.point_at(best_step(ray, (here.value, float(here.gradient @ step))))
        pairs = add_pair(objective, state.pairs, here, new, self.memory)
        return state.moved_to(new, solve=solve, pairs=pairs, steps=state.steps + 1)


@dataclass(frozen=True, eq=False, kw_only=True)
class DescentState(State):
    """A state, the direction to take from it, and the curvature it came from, if there is one."""

    direction: Array
    curvature: Dense | None = None

    def predicted_decrease(self) -> float:
        """Return what a quadratic says, where the direction comes from one."""
        if self.curvature is None or self.point is None:
            return float("nan")
        return -0.5 * float(self.point.gradient @ self.direction)

    def hessian(self) -> KnownHessian | None:
        """Return that of the last direction."""
        return None if self.curvature is None else KnownHessian(self.theta, self.curvature.matrix)


class Descent(SteppingSolver[DescentState]):
    """θ ← θ + aδ with a from a line search on the convex function of a."""

    @abstractmethod
    def aim(self, objective: Objective, point: Point | Array) -> DescentState:
        """Return the state at a point, or at parameters of which nothing is known yet, with its direction δ."""

    def start(self, objective: Objective, theta: Array) -> DescentState:
        """Return the state at θ."""
        return self.aim(objective, theta)

    def step(self, objective: Objective, state: DescentState) -> DescentState:
        """Return the state at the best point along the direction."""
        here = known(objective, state)
        ray = objective.ray(here, state.direction)
        new = ray.point_at(best_step(ray, (here.value, float(here.gradient @ state.direction))))
        return self.aim(objective, new) if improves(objective, new, here) else replace(state, stalled=True)


@dataclass(frozen=True)
class SteepestDescent(Descent):
    """δ = −∇F, along which the line search goes.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> F = majorant.Objective(majorant.Multinomial(8), majorant.Labelled(X, y), ridge=1.0)
    >>> majorant.minimize(F, majorant.SteepestDescent(), tol=1e-4).result.converged
    True
    """

    def aim(self, objective: Objective, point: Point | Array) -> DescentState:
        """Return −∇F, scaled so that a unit step is a sensible first guess."""
        here = point if isinstance(point, Point) else objective.point(point)
        return DescentState.at(here, direction=-here.gradient / max(float(np.linalg.norm(here.gradient)), 1e-300))


@dataclass(frozen=True)
class Newton(Descent):
    """δ = −H⁻¹∇F with the full Hessian, damped by the line search. O(d³) a step.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> F = majorant.Objective(majorant.Multinomial(8), majorant.Labelled(X, y), ridge=1.0)
    >>> majorant.minimize(F, majorant.Newton()).result.converged
    True
    """

    def aim(self, objective: Objective, point: Point | Array) -> DescentState:
        """Return the Newton direction."""
        here, found = objective.expand(point, Dense.of, majorizes=False)
        H = grounded_hessian(objective, found)
        return DescentState.at(here, direction=-H.solve(here.gradient, objective.ridge), curvature=H)


def grounded_hessian(objective: Objective, found: Curvature) -> Dense:
    """Return a Hessian of the loss, made positive where neither probabilities nor the penalty change."""
    H, together = found.compact(), objective.model.redundancy(objective.like)
    if together > 1:
        free = np.flatnonzero(~objective.penalty.penalised.reshape(together, -1).any(axis=0))
        H = grounded(H, together, free) if len(free) else H
    return Dense(H, majorizes=False)


NO_LIMIT = 10**9
# Numbers of all gradients together that are kept to be told again: 32 MB.
MOST_TOLD = 2**22
AFRESH = "SciPy's run was interrupted when it was too long to be told again, and started afresh from there"


@dataclass(frozen=True, eq=False, kw_only=True)
class ScipyState(State):
    """Where SciPy is, where it began, and what it was told on the way: F and ∇F wherever it asked, in order.

    All states of a run share the list of what was told, of which this one knows so many; it is None once that has
    become too much.
    """

    first: Point | None = None
    told: list[tuple[float, Array]] | None = None
    known: int = 0
    reports: int = 0

    def resumed(self, objective: Objective, point: Point, steps: int) -> Self:
        """Return a state that begins where this one is."""
        return type(self).at(point)

    def revived(self, objective: Objective) -> Self:
        """Return the state with what it was told, or one that begins where this one is and says so."""
        if self.first is None:
            return self
        if self.told is None:
            return replace(self, first=None, reports=0, remark=AFRESH)
        return replace(self, told=self.told[: self.known])


class Conversation:
    """What SciPy asks and is told: first what a run before was, then what F and ∇F are."""

    def __init__(self, objective: Objective, state: ScipyState) -> None:
        self._objective = objective
        here = state.point or objective.point(state.theta, keep=False)
        self.first = here if state.first is None else state.first
        self.told: list[tuple[float, Array]] | None = [] if state.told is None else state.told
        self._again = iter(list(self.told))
        self.last, self.known = self.first, 0

    def answer(self, theta: Array) -> tuple[float, Array]:
        """Return F and ∇F."""
        if not np.array_equal(theta, self.last.theta):
            self.last = self._point(theta.copy())
            self.known += 1
        return self.last.value, self.last.gradient

    def _point(self, theta: Array) -> Point:
        before = next(self._again, None)
        if before is not None:
            return Point(theta, *before)
        point = self._objective.point(theta, keep=False)
        if self.told is not None:
            self.told.append((point.value, point.gradient))
            self.told = self.told if len(self.told) * len(theta) <= MOST_TOLD else None
        return point

    def state(self, reports: int, remark: str) -> ScipyState:
        """Return where SciPy is."""
        return ScipyState.at(
            self.last, first=self.first, told=self.told, known=self.known, reports=reports, remark=remark
        )


class ScipySolver(Solver[ScipyState]):
    """Hands F and ∇F to ``scipy.optimize.minimize`` and never lets it stop by tolerances of its own."""

    method: ClassVar[str]

    def options(self) -> dict[str, Any]:
        """Return the options that turn SciPy's own stopping rules off."""
        return {"gtol": 0.0, "maxiter": NO_LIMIT}

    def start(self, objective: Objective, theta: Array) -> ScipyState:
        """Return the state at θ."""
        return ScipyState.at(objective.point(theta, keep=False))

    def drive(self, objective: Objective, state: ScipyState, observe: Callable[[ScipyState], bool]) -> None:
        """Let SciPy run from ``state``; what it ends by itself, it ends for lack of progress."""
        if observe(state):
            return
        talk, seen, reports, stopped = Conversation(objective, state), state.reports, 0, False

        def report(intermediate_result: Any) -> None:
            nonlocal state, reports, stopped
            talk.answer(intermediate_result.x)
            reports += 1
            if reports <= seen:  # by the run before
                return
            state = talk.state(reports, state.remark)
            stopped = observe(state)
            if stopped:
                raise StopIteration

        how = dict(jac=True, method=self.method, callback=report, options=self.options())
        optimize.minimize(talk.answer, talk.first.theta, **how)
        if not stopped:
            observe(replace(state, stalled=True))


@dataclass(frozen=True)
class LBFGS(ScipySolver):
    """Limited-memory BFGS.

    Parameters
    ----------
    memory : int
        Number of correction pairs kept.

    Notes
    -----
    A run that was interrupted goes on to the last bit while all gradients so far are no more than 4 million numbers.
    A longer one starts afresh from its parameters, without its correction pairs, and its result says so.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> F = majorant.Objective(majorant.Multinomial(8), majorant.Labelled(X, y), ridge=1.0)
    >>> majorant.minimize(F, majorant.LBFGS()).result.converged
    True
    """

    method = "L-BFGS-B"
    memory: int = 10

    def __post_init__(self) -> None:
        whole("memory", self.memory, least=1)

    def options(self) -> dict[str, Any]:
        """Return L-BFGS-B's options."""
        return {"maxcor": self.memory, "ftol": 0.0, "maxfun": NO_LIMIT, **super().options()}


@dataclass(frozen=True)
class BFGS(ScipySolver):
    """BFGS with a dense d×d inverse Hessian.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> F = majorant.Objective(majorant.Multinomial(8), majorant.Labelled(X, y), ridge=1.0)
    >>> majorant.minimize(F, majorant.BFGS()).result.converged
    True
    """

    method = "BFGS"

    def start(self, objective: Objective, theta: Array) -> ScipyState:
        """Return the state at θ."""
        refuse_large(objective.size, "BFGS")
        return super().start(objective, theta)


@dataclass(frozen=True)
class ConjugateGradient(ScipySolver):
    """Non-linear conjugate gradient (Polak–Ribière).

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> F = majorant.Objective(majorant.Multinomial(8), majorant.Labelled(X, y), ridge=1.0)
    >>> majorant.minimize(F, majorant.ConjugateGradient()).result.converged
    True
    """

    method = "CG"
