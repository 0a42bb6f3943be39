"""Covariances of maximum-likelihood estimates from analytic derivatives.

With H the Hessian of the penalised loss at the estimates and s_j = w_j ∂(−log p_j)/∂θ the score of row j,

========  ====================================================================================================
kind      covariance
========  ====================================================================================================
hessian   H⁻¹: right if the model is
robust    H⁻¹ (Σ_j s_j s_jᵀ) H⁻¹: also if the model is wrong, as long as rows are independent (the sandwich)
cluster   H⁻¹ (Σ_g S_g S_gᵀ) H⁻¹ · G/(G − 1), S_g = Σ_{j in g} s_j: also if rows of a cluster depend on each other
========  ====================================================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError

from majorant._checks import Array, one_of
from majorant.curvature.cholesky import Factor, lower_factor, singular_inverse
from majorant.data.base import InMemory
from majorant.models.base import RowModel

KINDS = ("hessian", "robust", "cluster")
# Numbers of scores (rows × parameters) found at a time.
AT_A_TIME = 2**22


def covariance(H: Array, scores: Array | None, kind: str, clusters: Array | None = None) -> Array:
    """Return the covariance of estimates.

    Parameters
    ----------
    H : array of shape (d, d)
        The Hessian of the penalised loss.
    scores : array of shape (t, d)
        The gradient of each row, weight included; not needed for "hessian".
    kind : {"hessian", "robust", "cluster"}
        See the table above.
    clusters : array of shape (t,)
        What each row belongs to; for "cluster".
    """
    bread = inverse(H)
    if one_of("kind", kind, KINDS) == "hessian":
        return bread
    assert scores is not None
    if kind == "robust":
        return _sandwich(bread, scores.T @ scores)
    numbers, count = _numbered(clusters, len(scores))
    sums = np.zeros((count, scores.shape[1]))
    np.add.at(sums, numbers, scores)
    return _sandwich(bread, sums.T @ sums * (count / (count - 1)))


def through(T: Array, found: Array) -> Array:
    """Return T found Tᵀ, the covariance of Tθ; variances may be infinite."""
    unknown = np.isinf(np.diag(found))
    moved = T @ np.where(np.isfinite(found), found, 0.0) @ T.T
    touched = np.abs(T[:, unknown]).sum(axis=1) > 0
    moved[touched, touched] = np.inf
    return moved


def in_columns(T: Array | None, found: Array) -> Array:
    """Return the covariance of θ = Tφ from that of φ; T is a matrix, a diagonal as a vector, or None for φ itself."""
    if T is None:
        return found
    with np.errstate(over="ignore", invalid="ignore"):
        return _known(found * np.outer(T, T) if T.ndim == 1 else through(T, found))


def _sandwich(bread: Array, meat: Array) -> Array:
    """Return bread · meat · bread; what has an infinite variance in the one has it in the other."""
    unknown = np.isinf(np.diag(bread))
    finite = np.where(np.isfinite(bread), bread, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        found = finite @ meat @ finite
    found[unknown, unknown] = np.inf
    return _known(found)


def _known(found: Array) -> Array:
    """Return a covariance with infinite variances, and no covariances, of what is too large for a number."""
    unknown = ~np.isfinite(np.diag(found))
    if unknown.any():
        found[unknown] = found[:, unknown] = 0.0
        found[unknown, unknown] = np.inf
    return found


def inverse(H: Array) -> Array:
    """Return H⁻¹; along directions in which H is flat nothing is known, and variances there are infinite."""
    try:
        L = lower_factor(H)
        if (np.diag(L) ** 2 >= 1e-13 * len(H) * np.diag(H)).all():
            return Factor(L).inverse()
    except LinAlgError:
        pass
    root = singular_inverse(H).root
    with np.errstate(over="ignore", invalid="ignore"):
        found, flat = root @ root.T, _touched_by_flat_directions(H)
    found[flat, flat] = np.inf
    return _known(found)


def row_scores(model: RowModel[Any], theta: Array, batch: InMemory) -> Array:
    """Return the gradient of the loss of each row (t×d), some rows at a time."""
    rows = max(AT_A_TIME // (len(theta) * max(model.scores_per_row(batch), 1)), 1)
    parts = [model.row_gradients(model.scores(theta, some), some) for some in batch.batches(rows)]
    return np.concatenate(parts)


def _touched_by_flat_directions(H: Array) -> Array:
    scale = np.sqrt(np.where(np.diag(H) > 0, np.diag(H), 1.0))
    values, vectors = np.linalg.eigh(H / np.outer(scale, scale))
    flat = values <= 1e-13 * len(H) * max(float(values[-1]), 1e-300)
    return np.flatnonzero(np.abs(vectors[:, flat]).max(axis=1, initial=0.0) > 1e-6)


def _numbered(clusters: ArrayLike | None, rows: int) -> tuple[Array, int]:
    if clusters is None:
        raise ValueError("kind='cluster' needs cluster=…: what each row belongs to, such as a person")
    values = np.asarray(clusters)
    if values.shape != (rows,):
        raise ValueError(f"cluster must have one entry per observation ({rows}), got shape {values.shape}")
    try:
        names, numbers = np.unique(values, return_inverse=True)
    except TypeError:
        raise ValueError("cluster must be of one type, such as numbers or strings, got a mixture") from None
    if len(names) < 2:
        raise ValueError(f"cluster must name at least two clusters, got only {names.tolist()}")
    return numbers, len(names)
