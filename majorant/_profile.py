"""Minimising over an unpenalised intercept alone: what a certificate needs before strong convexity applies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from majorant._checks import Array
from majorant.data import Labelled
from majorant.models.class_space import ClassModel

ITERATIONS = 50
# Relative to the total weight: the slope left along the intercepts.
FLAT = 1e-13


def profile_intercept(model: ClassModel, blocks: Sequence[Labelled], theta: Array) -> Array:
    """Return θ with the last coefficient of each class moved to where the loss is least along it.

    Newton's method on the intercepts; the data are visited once, for the scores.
    """
    scores = [model.scores(theta, block) for block in blocks]
    moved = np.zeros(model.coefficient_rows)
    loss, slope, H = _expand(model, blocks, scores, moved)
    for _ in range(ITERATIONS):
        step = -np.linalg.lstsq(H, slope, rcond=1e-14)[0]
        decrement = -float(slope @ step)
        if decrement <= FLAT * abs(loss):
            break
        for length in 0.5 ** np.arange(30):
            trial = _expand(model, blocks, scores, moved + length * step)
            if trial[0] <= loss - 1e-4 * length * decrement:
                break
        else:
            break
        moved, (loss, slope, H) = moved + length * step, trial
    W = theta.reshape(model.coefficient_rows, -1).copy()
    W[:, -1] += moved
    return W.ravel()


def _expand(
    model: ClassModel, blocks: Sequence[Labelled], scores: list[Array], moved: Array
) -> tuple[float, Array, Array]:
    n = len(moved)
    loss, slope, H = 0.0, np.zeros(n), np.zeros((n, n))
    for block, S in zip(blocks, scores, strict=True):
        at = S + moved[:, None]
        part, residual = model.loss_and_residual(at, block)
        constant = np.repeat(np.eye(n), len(block), axis=0)  # Φ restricted to the intercepts
        root = model.hessian_root_times(at.ravel(), block, constant)
        loss, slope, H = loss + part, slope + residual.sum(axis=1), H + root.T @ root
    return loss, slope, H
