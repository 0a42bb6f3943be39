"""Products with a Hessian that is never written out: twice through the data, and no exponentials.

The Hessian by blocks of parameters that never meet in an outcome (``majorant.core.structured``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from majorant.core.checks import Array
from majorant.core.line_search import Point
from majorant.core.model import Model
from majorant.core.objective import Objective
from majorant.core.rows import Again
from majorant.core.structured import Arrow, Pattern
from majorant.core.tasks import Bending, HessianTimes, Scores


class HessianProducts:
    """v ↦ (∇²loss + λ)v at a point whose scores are known; what follows from these is found once.

    Of a penalty that is no ridge, λ is a diagonal that its Hessian never exceeds.
    """

    def __init__(self, objective: Objective, at: Point) -> None:
        self._objective = objective
        self._bending = objective.blocks.run(Bending(objective.model), at.scores)[1]

    @staticmethod
    def suit(objective: Objective) -> bool:
        """Return whether there are such products, of rows in memory and scores that are kept."""
        at_hand = objective.whole is not None and objective.keeps_scores
        return at_hand and objective.model.has_products(objective.like)

    def __call__(self, v: Array) -> Array:
        """Return the product, which is a pass."""
        F = self._objective
        F.spend(passes=1)
        return F.blocks.total(HessianTimes(F.model, v), self._bending) + F.ridge * v


@dataclass(frozen=True, eq=False)
class HessianByBlocks:
    """The Hessian at scores that were kept: all of it, or blocks alone."""

    model: Model[Any]
    pattern: Pattern
    whole: bool

    def __call__(self, block: Any, scores: Array) -> tuple[Arrow, None]:
        """Return it."""
        return self.model.arrow(scores, block, self.pattern, whole=self.whole), None


def hessian_by_blocks(F: Objective, at: Point, *, whole: bool) -> Arrow:
    """Return the Hessian of the loss, of an objective that has a pattern: all of it, or blocks alone."""
    assert F.facts.pattern is not None
    F.spend(curvatures=1)
    task, rows = HessianByBlocks(F.model, F.facts.pattern, whole), F.model.curvature_rows(F.like)
    scores = Again(Scores(F.model, at.theta)) if at.scores is None else at.scores
    found: Arrow = F.blocks.total_of_large(task, rows, F.size, scores)
    return found
