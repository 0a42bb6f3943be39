"""Products with a Hessian that is never written out: twice through the data, and no exponentials.

The Hessian by blocks of parameters that never meet in an outcome (``majorant.core.structured``).
"""

from __future__ import annotations

from functools import partial

from majorant.core.checks import Array
from majorant.core.line_search import Point
from majorant.core.objective import Objective
from majorant.core.structured import Arrow


class HessianProducts:
    """v ↦ (∇²loss + λ)v at a point whose scores are known; what follows from these is found once.

    Of a penalty that is no ridge, λ is a diagonal that its Hessian never exceeds.
    """

    def __init__(self, objective: Objective, at: Point) -> None:
        self._objective = objective
        self._weights = objective.blocks.map(objective.model.hessian_weights, at.scores)

    @staticmethod
    def suit(objective: Objective) -> bool:
        """Return whether there are such products, of rows in memory and scores that are kept."""
        at_hand = objective.whole is not None and objective.keeps_scores
        return at_hand and objective.model.has_products(objective.like)

    def __call__(self, v: Array) -> Array:
        """Return the product, which is a pass."""
        F = self._objective
        F.spend(passes=1)
        return F.blocks.total(partial(F.model.hessian_product, v), self._weights) + F.ridge * v


def hessian_by_blocks(F: Objective, at: Point, *, whole: bool) -> Arrow:
    """Return the Hessian of the loss, of an objective that has a pattern: all of it, or blocks alone."""
    assert F.pattern is not None
    F.spend(curvatures=1)
    arrow, rows = partial(F.model.arrow, pattern=F.pattern, whole=whole), F.model.curvature_rows(F.like)
    found: Arrow = F.blocks.total_of_large(arrow, rows, F.size, F.scores(at))
    return found
