"""Saddles of the likelihood of latent classes, and how they are left."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from majorant._checks import Array
from majorant.estimators.choice.class_metric import LONGEST, is_large, reach, units
from majorant.models.latent_classes import LatentClasses
from majorant.solvers import saddles

# An eigenvalue of the scaled Hessian below which a point is a saddle.
NEGATIVE = -1e-6
# A gain below this share of the loss is none.
NEGLIGIBLE = 1e-12
HALVINGS = 40
# How far gradients are compared, as a share of a unit that scores change by.
NEAR = 1e-4


def leave_saddle(state: LatentClasses) -> LatentClasses | None:
    """Return a state with a smaller loss along the direction of most negative curvature, None if there is none."""
    value, direction = least_curvature(state)
    if not is_negative(state, value):
        return None
    direction = direction * (LONGEST / max(reach(state, direction), 1e-300))
    for _ in range(HALVINGS):
        for sign in (1.0, -1.0):
            there = state.there(state.at.moved(sign * direction))
            if there.loss < state.loss - NEGLIGIBLE * abs(state.loss):
                return there
        direction = 0.5 * direction
    return None


def is_negative(state: LatentClasses, curvature: float) -> bool:
    """Return whether the least curvature is told from none: differences of gradients tell less than a Hessian."""
    return curvature < (saddles.NEGATIVE if is_large(state) else NEGATIVE)


def least_curvature(state: LatentClasses) -> tuple[float, Array]:
    """Return the least eigenvalue of the Hessian in the units of the parameters, and its vector in theirs."""
    scale = units(state)
    if not is_large(state):
        values, vectors = eigh(state.hessian / np.outer(scale, scale), subset_by_index=[0, 0])
        return float(values[0]), np.asarray(vectors[:, 0] / scale)

    def multiplied(q: Array) -> Array:
        length = NEAR / max(reach(state, q / scale), 1e-300)
        there = state.there(state.at.moved(length * q / scale))
        return np.asarray((there.gradient - state.gradient) / length / scale)

    values, Q, W = saddles.lanczos(multiplied, len(scale))
    if not len(values):
        return 0.0, np.zeros(len(scale))
    return float(values[0]), np.asarray(W[:, 0] @ Q / scale)
