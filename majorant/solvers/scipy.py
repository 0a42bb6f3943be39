"""SciPy's minimisers. They own their loops, so they run themselves and report each step to our observer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy import optimize

from majorant._checks import Array, whole
from majorant.curvature.dense import refuse_large
from majorant.objective import Objective
from majorant.solvers.base import Solver, State

NO_LIMIT = 10**9


class ScipySolver(Solver[State]):
    """Hands F and ∇F to ``scipy.optimize.minimize`` and never lets it stop by tolerances of its own."""

    method: ClassVar[str]

    def options(self) -> dict[str, Any]:
        """Return the options that turn SciPy's own stopping rules off."""
        return {"gtol": 0.0, "maxiter": NO_LIMIT}

    def start(self, objective: Objective, theta: Array) -> State:
        """Return the state at θ."""
        return State.at(objective.point(theta, keep=False))

    def drive(self, objective: Objective, state: State, observe: Callable[[State], bool]) -> None:
        """Let SciPy run from ``state``; what it ends by itself, it ends for lack of progress."""
        if observe(state):
            return
        last, stopped = state.point or objective.point(state.theta, keep=False), False

        def evaluate(theta: Array) -> tuple[float, Array]:
            nonlocal last
            if not np.array_equal(theta, last.theta):
                last = objective.point(theta.copy(), keep=False)
            return last.value, last.gradient

        def report(intermediate_result: Any) -> None:
            nonlocal state, stopped
            evaluate(intermediate_result.x)
            state = State.at(last)
            stopped = observe(state)
            if stopped:
                raise StopIteration

        optimize.minimize(evaluate, state.theta, jac=True, method=self.method, callback=report, options=self.options())
        if not stopped:
            observe(replace(state, stalled=True))


@dataclass(frozen=True)
class LBFGS(ScipySolver):
    """Limited-memory BFGS.

    Parameters
    ----------
    memory : int
        Number of correction pairs kept.
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
    """BFGS with a dense d×d inverse Hessian."""

    method = "BFGS"

    def start(self, objective: Objective, theta: Array) -> State:
        """Return the state at θ."""
        refuse_large(objective.size, "BFGS")
        return super().start(objective, theta)


@dataclass(frozen=True)
class ConjugateGradient(ScipySolver):
    """Non-linear conjugate gradient (Polak–Ribière)."""

    method = "CG"
