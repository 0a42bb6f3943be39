"""A Gram matrix that problems over the same rows share, for the first steps of each.

Where coefficients are zero, and there are neither weights nor offsets, every row has the same B = diag(p) − ppᵀ. Then
Σ_j w_j x_j x_jᵀ, with w_j = tr(B)/(n − 1), is the mean of x_j x_jᵀ times tr(Σ_j B_j)/(n − 1): labels only matter to a
number. It scales steps, so that of other rows of the same kind will do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from majorant._checks import Array
from majorant._vectors import here
from majorant.data import Labelled
from majorant.data.common_gram import CommonGram, MeanProducts
from majorant.objective.objective import Objective
from majorant.objective.ray import Point

# Rows of each column, for those of a problem to vary as others do: few of them vary along few directions, and there
# much more, and a matrix of their own is cheap.
ROWS_PER_COLUMN = 10
# A matrix of fewer rows than this share of what would be taken is found anew.
ENOUGH = 0.5
# Rows that show whether columns are as large as in others.
FEW = 500


def common_gram(objective: Objective, at: Point) -> CommonGram | None:
    """Return what is shared with other problems, if it says anything of a point."""
    like = objective.like
    if not isinstance(like, Labelled) or like.common is None or like.weight is not None or like.offset is not None:
        return None
    few = objective.rows < ROWS_PER_COLUMN * like.n_features
    if few or at.theta.reshape(-1, like.n_features)[:, : -1 if like.constant else None].any():
        return None
    return like.common


def known_products(objective: Objective, at: Point, dtype: Any) -> MeanProducts | None:
    """Return what another problem has found, if it is from about as many rows, measured as these are."""
    common = common_gram(objective, at)
    known = None if common is None else common.known.get(dtype)
    if known is None or known.rows < ENOUGH * objective.rows or known.centred != _is_centred(objective):
        return None
    return known


def sums_from(objective: Objective, at: Point, known: MeanProducts) -> tuple[tuple[Array, ...], Array]:
    """Return what :meth:`Objective.mean_gram` would, with products that are known; and the squares of a few rows.

    Σ_j w_j x_j² as these make it out to be is what the diagonal of the Gram matrix should be like.
    """
    C, squares = _of_a_few(objective, at)
    none = np.zeros((0, len(C))), np.zeros(0), np.zeros((0, len(known.gram)))  # of labels
    return (C, known.gram * _weight(C), *none), squares


def leave_to_others(objective: Objective, at: Point, dtype: Any, sums: tuple[Array, ...]) -> None:
    """Let other problems know what :meth:`Objective.mean_gram` has found, if it is of use to them."""
    common = common_gram(objective, at)
    if common is not None:
        gram = sums[1] / _weight(sums[0])
        common.learn(dtype, MeanProducts(gram, objective.rows, _is_centred(objective)))


def _of_a_few(objective: Objective, at: Point) -> tuple[Array, Array]:
    """Return Σ_j B_j, which any row tells, and Σ_j w_j x_j², which some do."""
    t = len(objective.like)
    few = min(FEW, t)
    model, rows = objective.model, objective.like.take(np.arange(few) * t // few).here()
    C, squares = model.class_curvature(model.scores(here(at.theta), rows), rows)
    return C * (objective.rows / few), squares * (objective.rows / few)


def _is_centred(objective: Objective) -> bool:
    return objective.model.as_rows().design(objective.like).centre is not None


def _weight(C: Array) -> float:
    """Return what all rows weigh together, tr(C)/(n − 1)."""
    return float(C.trace()) / max(len(C) - 1, 1)
