"""SciPy's minimisers. They own their loops, so they run themselves and report each step to our observer.

What they know between steps cannot be taken out of them, nor put back. But they are functions of what they were told:
as long as that is not too much it is kept, and a run that was interrupted is told the same again, which takes no look
at the data and leads to the same state to the last bit. A longer one starts afresh where it was, and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import optimize

from majorant._checks import Array, whole
from majorant.curvature.dense import refuse_large
from majorant.objective import Objective, Point
from majorant.solvers.base import Solver, State

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
