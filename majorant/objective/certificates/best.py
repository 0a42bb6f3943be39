"""The best of all certificates."""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from typing import TYPE_CHECKING

import numpy as np

from majorant.objective.certificates import concordant, strong
from majorant.objective.certificates.base import Certificate
from majorant.objective.ray import Point

if TYPE_CHECKING:
    from majorant.objective.objective import Objective


def certify(F: Objective, at: Point, *, move: bool, largest: int) -> Certificate:
    """Return the best of all certificates; see :meth:`Objective.certify`."""
    found = strong.certify(F, at, move=move)
    if not concordant.suits(F, largest):
        return found
    same = np.array_equal(found.theta, at.theta)
    point = at if same and at.scores is not None else Point(found.theta, found.value, found.gradient)
    return better(found, concordant.certify(F, point))


def better(one: Certificate, other: Certificate) -> Certificate:
    """Return the one with the smaller gap, with what is known of where the optimum is."""
    best, rest = (other, one) if other.gap <= one.gap or isnan(one.gap) else (one, other)
    if best.region is None and rest.region is not None and np.array_equal(best.theta, rest.theta):
        return replace(best, region=rest.region)
    return best
