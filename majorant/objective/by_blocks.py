"""The Hessian by blocks of parameters that never meet in an outcome (``majorant.curvature.arrow``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from majorant._checks import Array
from majorant.curvature import Arrow, Pattern
from majorant.models import Model
from majorant.objective.objective import Objective
from majorant.objective.ray import Point
from majorant.objective.reduce import Again
from majorant.objective.tasks import Scores


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
