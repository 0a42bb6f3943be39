"""Minimising over an unpenalised intercept alone: what a certificate needs before strong convexity applies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from majorant._checks import Array
from majorant.data import Labelled
from majorant.models.class_space import ClassModel

ITERATIONS = 200
# The decrease that another step would bring, relative to the loss: nothing that a certificate could notice.
FLAT = 1e-13
# And the slope that may be left, relative to the total weight.
LEVEL = 1e-7


def profile_intercept(model: ClassModel, blocks: Sequence[Labelled], theta: Array) -> tuple[Array, bool]:
    """Return θ with the last coefficient of each class moved to where the loss is least, and whether it was found.

    Newton's method on the intercepts, and a step of the bound where that does not descend; the data are visited once,
    for the scores.
    """
    scores = [model.scores(theta, block) for block in blocks]
    moved = np.zeros(model.coefficient_rows)
    here = _expand(model, blocks, scores, moved)
    rows, found = sum(model.score_weights(block).sum() for block in blocks), False
    for _ in range(ITERATIONS):
        step = _solve(here.hessian, here.slope)
        decrement = -float(here.slope @ step)
        # Where every row is saturated H vanishes too, and a slope that does not says that this is no minimum.
        found = decrement <= FLAT * here.loss and bool(np.abs(here.slope).max() <= LEVEL * rows)
        if found:
            break
        there = _expand(model, blocks, scores, moved + step)
        if not there.loss < here.loss:
            step = _solve(_bound(model, blocks, scores, moved), here.slope)
            there = _expand(model, blocks, scores, moved + step)
        moved, here = moved + step, there
    W = theta.reshape(model.coefficient_rows, -1).copy()
    W[:, -1] += moved
    return W.ravel(), found


class _Expansion(NamedTuple):
    loss: float
    slope: Array
    hessian: Array


def _solve(H: Array, slope: Array) -> Array:
    return -np.linalg.lstsq(H, slope, rcond=1e-14)[0]


def _expand(model: ClassModel, blocks: Sequence[Labelled], scores: list[Array], moved: Array) -> _Expansion:
    n = len(moved)
    loss, slope, H = 0.0, np.zeros(n), np.zeros((n, n))
    for block, S in zip(blocks, scores, strict=True):
        at = S + moved[:, None]
        part, residual = model.loss_and_residual(at, block)
        constant = np.repeat(np.eye(n), len(block), axis=0)  # Φ restricted to the intercepts
        root = model.hessian_root_times(at.ravel(), block, constant)
        loss, slope, H = loss + part, slope + residual.sum(axis=1), H + root.T @ root
    return _Expansion(loss, slope, H)


def _bound(model: ClassModel, blocks: Sequence[Labelled], scores: list[Array], moved: Array) -> Array:
    """Return the curvature of the bound of Algorithm 1 along the intercepts: its step cannot rise."""
    matrices = (model.class_bounds(S + moved[:, None], block) for block, S in zip(blocks, scores, strict=True))
    return sum((B.sum(axis=2) for B in matrices), np.zeros((len(moved), len(moved))))
