"""How the proximal solver goes on after its pass: by quasi-Newton steps, scaled by what it remembers while that serves.

Early batches are remembered where θ was far from the optimum: on columns of wild scales that is far too stiff in some
directions, and secant pairs cannot mend them all. Once a window of steps has told that many more are left than a matrix
found here costs, that is bought (``majorant.solvers.renting``). Where what is remembered is good, nothing ever is.
"""

from __future__ import annotations

from dataclasses import dataclass

from majorant._checks import Array
from majorant.curvature import Solve
from majorant.objective import Objective, Point
from majorant.solvers.memory import Memory
from majorant.solvers.prices import Prices
from majorant.solvers.quasi_newton import RENTED, QuasiNewton, QuasiNewtonState
from majorant.solvers.renting import A_DIAGONAL, WINDOW, Lease, Market
from majorant.solvers.row_space import in_steps
from majorant.solvers.starts import Unridged


def begin(objective: Objective, solver: QuasiNewton, here: Point, memory: Memory) -> QuasiNewtonState:
    """Return the state in which steps begin.

    Diagonals and conjugate gradients are offered only where no matrix can be had: the memory is better than the first,
    and in a poor metric the second may take thousands of products. Steps that tell how good it is are no rent.
    """
    suitable = solver.offers(objective)
    matrices = [offer for offer in suitable if offer.quality > A_DIAGONAL]
    products = solver.takes_products(objective) and not matrices
    solve = Apart(memory.precision.factorized(), redundancy(objective))
    return QuasiNewtonState.at(
        here,
        market=Market.of(matrices or suitable, Prices.of(objective), products=products),
        lease=Lease().signed(memory.quality, 0),
        rent=-float(WINDOW),
        factorize=Unridged(solve),
        solve=solve,
        ridge=objective.penalty.prior,
        rows_at=RENTED * in_steps(objective),
        account=((0, "what a proximal pass has left"),),
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
