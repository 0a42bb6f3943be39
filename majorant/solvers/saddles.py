"""Stationary points of losses that are not convex: whether they are saddles, and where F falls if they are.

With M the metric of :meth:`Objective.metric` and H the Hessian of F, a few steps of Lanczos' method, from a random
vector, approximate the least eigenvalues of M^{-½} H M^{-½}, whose scale is that of one. A product with H is a
difference of gradients, so a look takes ``LOOKS`` of them. States of a label that are still alike, or all but, are what
it finds: there the least eigenvalue is −0.1 or less and stands apart, so that half as many would do.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

import numpy as np

from majorant._checks import Array
from majorant._vectors import norm
from majorant.objective import Objective, Point

# Gradients that a look takes.
LOOKS = 12
# Curvature above this, relative to the metric, is not told from none.
NEGATIVE = -1e-2
# By which share of F the quadratic model changes, at most, where gradients are compared.
NEAR = 1e-8
# The first length to try promises to gain this share of F; a length is good if it gains so much of what it promises.
FIRST, ENOUGH, HALVINGS = 0.1, 0.25, 8


def way_down(objective: Objective, point: Point) -> Array | None:
    """Return parameters of a smaller F along directions of negative curvature at a point; None if none were found."""
    found = negative_curvature(objective, point)
    return None if found is None else _below(objective, point, *found)


def negative_curvature(objective: Objective, point: Point) -> tuple[Array, float] | None:
    """Return a direction δ with δᵀMδ = 1 that leads downhill, and δᵀHδ < 0; None if none was found.

    It is the sum of all that Lanczos' method has found: where several labels have states that are alike, all of them
    part at once.
    """
    metric = objective.metric(point)
    root = np.divide(1.0, np.sqrt(metric), out=np.zeros_like(metric), where=metric > 0)
    near = max(NEAR, objective.facts.epsilon ** (2 / 3))
    length = float(np.sqrt(2 * near * abs(point.value)))
    if not length > 0:
        return None

    def multiplied(q: Array) -> Array:
        there = objective.value_and_gradient(point.theta + length * root * q)[1]
        return np.asarray(root * (there - point.gradient) / length)

    values, Q, W = lanczos(multiplied, objective.size)
    negative = values < NEGATIVE
    if not negative.any():
        return None
    δ = root * (W[:, negative].sum(axis=1) @ Q) / np.sqrt(negative.sum())
    return (-δ if point.gradient @ δ > 0 else δ), float(values[negative].mean())


def lanczos(multiplied: Callable[[Array], Array], size: int) -> tuple[Array, Array, Array]:
    """Return ``LOOKS`` Ritz values of a symmetric matrix, ascending, a basis (rows), and the vectors in it (columns).

    ``multiplied`` returns the product of the matrix and a vector of length one.
    """
    steps = min(LOOKS, size)
    Q, α, β = np.zeros((steps, size)), np.zeros(steps), np.zeros(steps)
    q = np.random.default_rng(0).normal(size=size)
    for k in range(steps):
        Q[k] = q / norm(q)
        q = multiplied(Q[k])
        if not isfinite(norm(q)):  # out of range: what was found before is all that there is
            steps = k
            break
        α[k] = Q[k] @ q
        for _ in range(2):  # once leaves rounding errors, which come back as copies of eigenvalues
            q = q - (Q[: k + 1] @ q) @ Q[: k + 1]
        β[k] = norm(q)
        if not β[k] > 1e-8 * np.abs(α).max():  # nothing else is left to find
            steps = k + 1
            break
    if not steps:
        return np.empty(0), Q[:0], np.empty((0, 0))
    # Its zeros cost nothing, and what LAPACK has for tridiagonal matrices fails on some of them, in old versions.
    values, vectors = np.linalg.eigh(np.diag(α[:steps]) + np.diag(β[: steps - 1], -1))  # which reads what is below
    return values, Q[:steps], vectors


def _below(objective: Objective, point: Point, direction: Array, curvature: float) -> Array | None:
    """Return the longest of some steps along a direction that gains about what its curvature promises."""
    length = np.sqrt(2 * FIRST * abs(point.value) / -curvature)
    for _ in range(HALVINGS):
        theta = point.theta + length * direction
        if objective.value(theta) < point.value + ENOUGH * 0.5 * curvature * length**2:
            return np.asarray(theta)
        length *= 0.5
    return None
