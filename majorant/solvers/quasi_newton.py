"""The default for data in memory: full-gradient quasi-Newton steps, scaled by a curvature that is cheap for the size.

========================  ==========================================================================================
curvature                 how it is found
========================  ==========================================================================================
``sample``                a few Newton steps on some of the rows, with as much of the penalty: start and Hessian
``kronecker``             I ⊗ (Σ_j w_j x_j x_jᵀ + λ), w_j = (1 − Σ_c p_jc²)/(n − 1), p×p for any number of classes
``diagonal``              the diagonal of the Hessian, for data too wide for either; a Gram matrix on the columns with
                          the largest entries there
========================  ==========================================================================================

The last two depend on θ and are renewed at steps 4 and 12, when θ has come close, and later where they have stopped
helping. Where steps go on until they have cost as much as the Hessian of all rows, that is bought, and bought again
every few steps: never much dearer than Newton's method. None is a bound: every step is checked by a line search on the
convex function along it, so F never rises. Wide data start by dual coordinate descent
(``majorant.solvers.dual``) as long as that contracts well; there F may rise now and then. So do chains, sequence by
sequence (``majorant.solvers.ascent``); where that cannot be, they start by an online pass and go on scaled by the root
of its precision. Starts are in ``majorant.solvers.starts``, curvatures in ``majorant.solvers.preconditioners``; each
says what it suits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from majorant._checks import Array, one_of, whole
from majorant.curvature import Solve
from majorant.objective import Objective, Point
from majorant.solvers.ascent import FromAscent
from majorant.solvers.base import State, SteppingSolver, improves, known
from majorant.solvers.preconditioners import DiagonalOfHessian, GramOfColumns, HessianOfAll, Preconditioner
from majorant.solvers.secants import MANY_PARAMETERS, Pairs, add_pair, quasi_newton_move, scaled
from majorant.solvers.starts import Begun, FromDual, FromOnlinePass, FromPoint, FromSample, Start, Sweeps

CURVATURES = ("auto", "sample", "kronecker", "diagonal")
RENEWED_AT = (0, 4, 12)
# Later, every so many times as many steps, if the gradient (squared) has not shrunk to this share meanwhile.
RENEWED_AGAIN = 3
SLOW = 0.01
# A whole Hessian is bought once as many steps have been made as it costs, but not too soon; then again after a few.
PATIENCE = 25
BOUGHT_AGAIN = 4
PAIRS, PAIRS_OF_MANY = 30, 20


@dataclass(frozen=True)
class Plan:
    """How an objective is best gone about: where to start, and what to scale steps by when that has to be renewed."""

    starts: tuple[Start, ...]
    renewal: Preconditioner | None  # None where the curvature that comes with the start is the best there is


@dataclass(frozen=True, eq=False, kw_only=True)
class QuasiNewtonState(State):
    """Where the solver is, what steps are scaled by, and the secant pairs."""

    renewal: Preconditioner | None  # of the plan
    solve: Solve | None = None
    pairs: Pairs = ()
    steps: int = 0
    sweeps: Sweeps | None = None  # until they are left for quasi-Newton steps
    up_to_a_factor: bool = False  # whether ``solve`` is right but for a factor, which the last pair tells
    made_at: int = 0  # the step at which it was made
    height: float = np.inf  # ‖∇F‖² there
    bought: bool = False  # whether it is the Hessian
    own: bool = False  # whether it came with the start, and stays


@dataclass(frozen=True, kw_only=True)
class QuasiNewton(SteppingSolver[QuasiNewtonState]):
    """L-BFGS scaled by a curvature that suits the size of the data. Nothing to tune.

    Parameters
    ----------
    curvature : {"auto", "sample", "kronecker", "diagonal"}
        See the table above. "auto" takes a sample's Hessian up to 1,200 parameters if a quarter of the rows is enough
        for it, the Kronecker product up to 4,000 columns, then the diagonal. Only models with classes have a choice.
    memory : int, optional
        Secant pairs kept; 30 if not given, 20 in single precision above 100,000 parameters.
    seed : int
        Which rows are sampled.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> F = majorant.Objective(majorant.Multinomial(8), majorant.Labelled(X, y), ridge=1.0)
    >>> majorant.minimize(F, QuasiNewton()).result.converged
    True
    """

    curvature: str = "auto"
    memory: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        one_of("curvature", self.curvature, CURVATURES)
        if self.memory is not None:
            whole("memory", self.memory, least=0)

    def plan(self, objective: Objective, theta: Array) -> Plan:
        """Return how to go about an objective from θ."""
        kind = self.curvature if objective.model.classes(objective.like) else "auto"
        sample, gram = FromSample(), GramOfColumns()
        if kind == "sample" or (kind == "auto" and sample.suits(objective, theta)):
            return Plan((sample,), gram if objective.model.classes(objective.like) else None)
        if kind == "kronecker" or (kind == "auto" and gram.suits(objective)):
            return Plan((FromPoint(),), gram)
        return Plan((FromAscent(), FromOnlinePass(), FromDual(), FromPoint()), DiagonalOfHessian())

    def start(self, objective: Objective, theta: Array) -> QuasiNewtonState:
        """Return the state at θ, or where the plan's start has led."""
        plan = self.plan(objective, theta)
        start = next(each for each in plan.starts if each is plan.starts[-1] or each.suits(objective, theta))
        return _entered(start.begin(objective, theta, self.seed), plan.renewal)

    def step(self, objective: Objective, state: QuasiNewtonState) -> QuasiNewtonState:
        """Return the state after one quasi-Newton step."""
        if state.sweeps is not None:
            return _entered(state.sweeps.go_on(objective, known(objective, state), self.seed), state.renewal)
        here = known(objective, state)
        state = self._with_curvature(objective, state, here)
        for attempt in self._attempts(objective, state, here):
            new = self._move(objective, attempt, here)
            if improves(objective, new, here):
                return self._moved(objective, attempt, here, new)
        return replace(state, stalled=True)

    def _attempts(self, objective: Objective, state: QuasiNewtonState, here: Point) -> Iterator[QuasiNewtonState]:
        """Yield the state, then without its pairs, which may be worn out, then with curvatures found here."""
        yield state
        if state.pairs:
            yield replace(state, pairs=())
        if state.renewal is not None:
            yield _scaled_by(state, here, state.renewal.at(objective, here))
        if HessianOfAll().suits(objective):
            yield _scaled_by(state, here, HessianOfAll().at(objective, here), bought=True)

    def _with_curvature(self, objective: Objective, state: QuasiNewtonState, here: Point) -> QuasiNewtonState:
        """Return the state with its curvature found anew where that is due, or the Hessian where it has been earned.

        One that came with the start stays until a step has failed with it.
        """
        if self._has_earned_a_hessian(objective, state):
            return _scaled_by(state, here, HessianOfAll().at(objective, here), bought=True)
        if state.own or state.bought or state.renewal is None:
            return state
        again = state.steps == RENEWED_AGAIN * state.made_at and _height(here) > SLOW * state.height
        due = state.steps in RENEWED_AT or again
        return _scaled_by(state, here, state.renewal.at(objective, here)) if due else state

    def _has_earned_a_hessian(self, objective: Objective, state: QuasiNewtonState) -> bool:
        """Return whether the steps so far, or half of them since the last one, have cost as much as a Hessian would."""
        hessian = HessianOfAll()
        if state.bought:
            return state.steps - state.made_at >= max(hessian.price(objective) / 2, BOUGHT_AGAIN)
        affordable = state.steps >= PATIENCE and hessian.suits(objective)
        return affordable and state.steps >= hessian.price(objective)

    def _move(self, objective: Objective, state: QuasiNewtonState, here: Point) -> Point:
        assert state.solve is not None
        solve = scaled(state.solve, state.pairs) if state.up_to_a_factor else state.solve
        return quasi_newton_move(objective, here, state.pairs, solve)

    def _moved(self, objective: Objective, state: QuasiNewtonState, here: Point, new: Point) -> QuasiNewtonState:
        many = PAIRS if objective.size <= MANY_PARAMETERS else PAIRS_OF_MANY
        kept = many if self.memory is None else self.memory
        pairs = add_pair(state.pairs, new.theta - here.theta, new.gradient - here.gradient, kept)
        return state.moved_to(new, pairs=pairs, steps=state.steps + 1)


def _entered(begun: Begun, renewal: Preconditioner | None) -> QuasiNewtonState:
    """Return the state in which steps begin, or sweeps go on."""
    return QuasiNewtonState.at(
        begun.point,
        renewal=renewal,
        solve=begun.solve,
        up_to_a_factor=begun.up_to_a_factor,
        sweeps=begun.sweeps,
        remark=begun.remark,
        own=begun.solve is not None,
    )


def _scaled_by(state: QuasiNewtonState, here: Point, solve: Solve, *, bought: bool = False) -> QuasiNewtonState:
    """Return the state with another curvature; secant pairs belong to the one before."""
    return replace(
        state,
        solve=solve,
        pairs=(),
        up_to_a_factor=False,
        own=False,
        made_at=state.steps,
        height=_height(here),
        bought=bought,
    )


def _height(point: Point) -> float:
    return float(point.gradient @ point.gradient)
