"""Products with a Hessian that is never written out: twice through the data, and no exponentials."""

from __future__ import annotations

from majorant._checks import Array
from majorant.objective.objective import Objective
from majorant.objective.ray import Point
from majorant.objective.tasks import Bending, HessianTimes


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
