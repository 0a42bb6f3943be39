"""How the proximal solver goes on after its pass: by quasi-Newton steps, in the metric that it remembers.

Early batches are remembered where θ was far from the optimum: on columns of wild scales that is far too stiff in some
directions, and L-BFGS pairs cannot mend them all. Then a better metric is bought, by the rule of
``majorant.solvers.policy``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from majorant._checks import Array
from majorant.curvature import Solve
from majorant.objective import Objective, Point
from majorant.solvers.memory import Memory
from majorant.solvers.policy import WINDOW, Plan, QuasiNewtonState
from majorant.solvers.preconditioners import DIAGONALS
from majorant.solvers.starts import Unridged


def begin(objective: Objective, here: Point, memory: Memory) -> QuasiNewtonState:
    """Return the state in which steps begin.

    Diagonals and conjugate gradients are for where no matrix can be had: the memory is better than the first, and in a
    poor metric the second may take thousands of products. The steps that tell how good it is pay for nothing.
    """
    plan = Plan.of(objective, "auto", here)
    matrices = tuple(entry for entry in plan.rungs if entry[0] not in DIAGONALS)
    solve = Apart(memory.precision.factorized(), redundancy(objective))
    return QuasiNewtonState.at(
        here,
        plan=replace(plan, rungs=matrices, product=inf) if matrices else plan,
        factorize=Unridged(solve),
        solve=solve,
        level=memory.level,
        budget=-float(WINDOW),
        ridge=objective.penalty.prior,
        account=((0, "the metric of a proximal pass"),),
    )


@dataclass(frozen=True, eq=False)
class Apart:
    """PA⁻¹P as a function, with P what takes out the mean over classes.

    Softmax scores do not change where all classes move together. Blocks of classes, which know nothing of each other,
    lead there, and the penalty, which alone leads back, is next to nothing beside the curvature of large columns.
    """

    solve: Solve
    classes: int

    def __call__(self, b: Array) -> Array:
        """Return PA⁻¹Pb."""
        return apart(self.solve(apart(b, self.classes)), self.classes)


def apart(theta: Array, classes: int) -> Array:
    """Return θ less its mean over classes: of all that give the same probabilities it is penalised least."""
    if classes == 1:
        return theta
    each = theta.reshape(classes, -1)
    return (each - each.mean(axis=0)).ravel()


def redundancy(objective: Objective) -> int:
    """Return how many classes can move together, 1 where the penalty tells them apart."""
    n, ridge = objective.model.redundancy(objective.like), objective.penalty.prior
    if n == 1 or ridge is None:
        return 1
    each = ridge.reshape(n, -1)
    return n if (each == each[0]).all() else 1
