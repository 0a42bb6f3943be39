"""Latent classes whose tastes have no end: nothing that their people chose speaks against larger ones."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from majorant._checks import Array
from majorant.models.latent_classes import LatentClasses, Parameters

# A class whose people choose with a log-likelihood so near to zero is separated.
SEPARATED = 1e-6
# A direction in which so little is left of the curvature at zero is one in which tastes run off. What stops a run is a
# gain that is far smaller; a single choice of n that speaks against it leaves about 1/n.
LOST = 1e-8
# Of the curvature of all people, added to both: a class of few may have none of its own in some direction.
SHARED = 1e-12
# How much of a direction a column has to have for being named, columns scaled.
NAMED = 0.05


def separated_classes(state: LatentClasses) -> list[int]:
    """Return the classes that explain completely what their people chose."""
    return np.flatnonzero(state.surprises <= SEPARATED).tolist()


def runaway_columns(state: LatentClasses) -> dict[int, list[int]]:
    """Return by class the columns along which its choices are all but certain: quasi-complete separation.

    Compared are Σ w Var_p(f) at the estimates and at zero. That is no proof, as a program of linear inequalities would
    be; but who belongs to a class is not certain either.
    """
    zero = state.there(Parameters(np.zeros_like(state.at.tastes), state.at.membership))
    found = {c: _lost_columns(state, zero, c) for c in range(len(state))}
    return {c: columns for c, columns in found.items() if columns}


def _lost_columns(state: LatentClasses, zero: LatentClasses, c: int) -> list[int]:
    then, now = state.class_curvature(c, zero), state.class_curvature(c, state)
    everyone = sum(np.diag(zero.class_curvature(k, zero)) for k in range(len(state)))
    least = np.diag(SHARED * np.maximum(everyone, 1e-300))
    scale = np.sqrt(np.diag(then + least))
    both = np.outer(scale, scale)
    values, vectors = eigh((now + least) / both, (then + least) / both)
    lost: Array = np.abs(vectors[:, values < LOST])
    return np.flatnonzero((lost > NAMED * lost.max(axis=0, initial=0.0)).any(axis=1)).tolist()
