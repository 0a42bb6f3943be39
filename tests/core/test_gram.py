"""The factors of C ⊗ G, and solves with it."""

import numpy as np
import pytest

from majorant import Labelled, Multinomial, Objective
from majorant.curvature import Kronecker


def blobs(seed, rows, columns, classes, apart=2.0):
    rng = np.random.default_rng(seed)
    y = np.append(np.arange(classes), rng.integers(classes, size=rows - classes))
    return apart * rng.normal(size=(classes, columns))[y] + rng.normal(size=(rows, columns)), y


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [3, 5])
def test_sums_are_those_by_hand(classes, weighted):
    X, y = blobs(classes, 60, 4, classes, apart=0.5)
    rng = np.random.default_rng(1)
    weight = rng.integers(0, 3, 60).astype(float) if weighted else np.ones(60)
    F = Objective(Multinomial(classes), Labelled(X, y, weight=weight if weighted else None), ridge=1.0)
    theta = 0.3 * rng.normal(size=F.size)
    C, G = np.zeros((classes, classes)), np.zeros((4, 4))
    for x, v in zip(X, weight, strict=True):
        scores = theta.reshape(classes, -1) @ x
        P = np.exp(scores - np.logaddexp.reduce(scores))
        B = v * (np.diag(P) - np.outer(P, P))
        C, G = C + B, G + np.trace(B) / (classes - 1) * np.outer(x, x)
    for mine, by_hand in zip(F.mean_gram(F.point(theta), np.float64), (C, G), strict=True):
        np.testing.assert_allclose(mine, by_hand, atol=1e-10 * np.abs(by_hand).max())


def test_several_solutions_are_those_of_the_matrix():
    """At once or one by one, also where classes are so unlike that there are several factors."""
    X, y = blobs(3, 200, 6, 7)
    F = Objective(Multinomial(7), Labelled(X, y), ridge=1.0)
    point = F.point(np.random.default_rng(0).normal(size=F.size))
    curvature = Kronecker(*F.mean_gram(point, np.float64), majorizes=False)
    rows = np.random.default_rng(1).normal(size=(3, F.size))
    matrix = curvature.as_matrix() + np.eye(F.size)
    np.testing.assert_allclose(curvature.factorized(1.0).several(rows), np.linalg.solve(matrix, rows.T).T, atol=1e-9)
    solve = curvature.nearly_factorized(1.0)
    assert len(solve.groups) > 1
    np.testing.assert_allclose(solve.several(rows), [solve(row) for row in rows], rtol=1e-12)
