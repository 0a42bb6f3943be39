"""In which units steps of latent classes are measured: |H|^½, or of many parameters the diagonal of a curvature."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from majorant._checks import Array
from majorant.models.latent_classes import LatentClasses

# Of more parameters no Hessian is factorised: that takes longer than the steps it saves.
LARGE = 1000
# Curvature below this share of the largest, coordinates scaled, is raised to it.
LEAST_CURVATURE = 1e-8
# The longest step, in units in which scores change by about that much.
LONGEST = 5.0


def is_large(state: LatentClasses) -> bool:
    """Return whether a Hessian is too large to be factorised at every step."""
    return state.at.flat().size > LARGE


def units(state: LatentClasses) -> Array:
    """Return the roots of what curvatures of the parameters would be if classes were known."""
    diagonal = state.curvatures
    return np.sqrt(np.maximum(diagonal, LEAST_CURVATURE**2 * max(float(diagonal.max()), 1e-300)))


def whitened(state: LatentClasses, rows: Array) -> Array:
    """Return rows G of gradients as GR, with RRᵀ = |H|⁻¹."""
    return rows / units(state) if is_large(state) else np.asarray(rows @ _root(state))


def solved(state: LatentClasses, rows: Array) -> Array:
    """Return |H|⁻¹g for rows g."""
    if is_large(state):
        return np.asarray(rows / units(state) ** 2)
    R = _root(state)
    return np.asarray(rows @ R @ R.T)


def _root(state: LatentClasses) -> Array:
    """Return R with RRᵀ = |H|⁻¹: eigenvalues without their sign, coordinates scaled, and none too small."""
    scale = units(state)
    values, vectors = eigh(state.hessian / np.outer(scale, scale))
    size = np.maximum(np.abs(values), LEAST_CURVATURE * max(float(np.abs(values).max()), 1e-300))
    return np.asarray(vectors / np.sqrt(size) / scale[:, None])


def reach(state: LatentClasses, direction: Array) -> float:
    """Return about how far a step moves scores: the largest root mean square over classes, or logit of membership.

    What is all but certain, of probability p, counts for √(4p(1 − p)): it may move as far as it likes.
    """
    steps = direction[: state.at.tastes.size].reshape(state.at.tastes.shape)
    X, P = state.panel.features, state.probabilities
    of_tastes = np.sqrt((((X - X.mean(axis=0)) @ steps.T) ** 2 * 4.0 * P * (1.0 - P)).mean(axis=0)).max()
    members = direction[steps.size :].reshape(-1, state.panel.covariates.shape[1])
    π = np.exp(state.log_priors[:, 1:])
    of_members = (np.abs(state.panel.covariates @ members.T) * np.sqrt(4.0 * π * (1.0 - π))).max(initial=0.0)
    return float(max(of_tastes, of_members))
