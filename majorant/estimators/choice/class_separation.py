"""Latent classes whose tastes or logits of membership have no end: no choice speaks against larger ones."""

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


def runaway_columns(state: LatentClasses, T: Array | None = None) -> dict[int, list[int]]:
    """Return by class the columns along which its choices are all but certain: quasi-complete separation.

    Compared are Σ w Var_p(f) at the estimates and at zero. That is no proof, as a program of linear inequalities would
    be; but who belongs to a class is not certain either. Features are columns XT, if T is a matrix.
    """
    zero = state.there(Parameters(np.zeros_like(state.at.tastes), state.at.membership))
    found = {c: _named(_lost_tastes(state, zero, c), T) for c in range(len(state))}
    return {c: columns for c, columns in found.items() if columns}


def runaway_covariates(state: LatentClasses) -> list[int]:
    """Return the covariates along which membership is all but certain, as tastes in :func:`runaway_columns`.

    The constant, covariate 0, is none: a class that loses everyone is dropped. Memberships are compared with those that
    are the same for all people.
    """
    n, q = state.at.membership.shape
    if n == 1 or q == 1:
        return []
    alike = np.zeros((n, q))
    alike[:, 0] = np.log(np.maximum(state.shares, 1e-300) / max(float(state.shares[0]), 1e-300))
    then = state.there(Parameters(state.at.tastes, alike)).membership_curvature()
    lost = _lost(state.membership_curvature(), then, SHARED * np.abs(np.diag(then)))
    sizes = np.abs(lost).reshape(n - 1, q, -1).max(axis=0)
    return [int(j) for j in np.flatnonzero((sizes > NAMED * sizes.max(axis=0, initial=0.0)).any(axis=1)) if j > 0]


def _lost_tastes(state: LatentClasses, zero: LatentClasses, c: int) -> Array:
    everyone = np.sum([np.diag(zero.class_curvature(k, zero)) for k in range(len(state))], axis=0)
    return _lost(state.class_curvature(c, state), state.class_curvature(c, zero), SHARED * everyone)


def _lost(now: Array, then: Array, least: Array) -> Array:
    """Return the directions, as columns in units of the curvature then, in which next to none of it is left now."""
    floor = np.diag(np.maximum(least, 1e-300))
    scale = np.sqrt(np.diag(then + floor))
    both = np.outer(scale, scale)
    values, vectors = eigh((now + floor) / both, (then + floor) / both)
    return np.asarray(vectors[:, values < LOST])


def _named(lost: Array, T: Array | None) -> list[int]:
    """Return the columns that directions consist of."""
    if T is not None and T.ndim == 2:
        lost = (T @ lost) * np.linalg.norm(np.linalg.inv(T), axis=0)[:, None]
    sizes = np.abs(lost)
    return np.flatnonzero((sizes > NAMED * sizes.max(axis=0, initial=0.0)).any(axis=1)).tolist()
