"""What the rows of a label have in common: a curvature that knows it is closer to the Hessian, and steps are fewer."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import majorant
from majorant import Labelled, Multinomial, Objective
from majorant.curvature import Centred


def blobs(seed, rows, columns, classes, apart=2.0):
    rng = np.random.default_rng(seed)
    y = np.append(np.arange(classes), rng.integers(classes, size=rows - classes))
    return apart * rng.normal(size=(classes, columns))[y] + rng.normal(size=(rows, columns)), y


def sums_by_hand(X, y, weight, theta, n):
    """Return Σ_j B_j, Σ_j w_j x_j x_jᵀ, and of the rows of each label Σ_j B_j e_k, Σ_j w_j and Σ_j w_j x_j."""
    p = X.shape[1]
    C, G, columns, total, sums = np.zeros((n, n)), np.zeros((p, p)), np.zeros((n, n)), np.zeros(n), np.zeros((n, p))
    for x, k, v in zip(X, y, weight, strict=True):
        P = np.exp(theta @ x - np.logaddexp.reduce(theta @ x))
        B = v * (np.diag(P) - np.outer(P, P))
        w = np.trace(B) / (n - 1)
        C, G = C + B, G + w * np.outer(x, x)
        columns[k] += B[:, k]
        total[k] += w
        sums[k] += w * x
    return C, G, columns, total, sums


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [3, 5])
def test_sums_are_those_by_hand(classes, weighted):
    X, y = blobs(classes, 60, 4, classes, apart=0.5)
    rng = np.random.default_rng(1)
    weight = rng.integers(0, 3, 60).astype(float) if weighted else np.ones(60)
    F = Objective(Multinomial(classes), Labelled(X, y, weight=weight if weighted else None), ridge=1.0)
    theta = 0.3 * rng.normal(size=F.size)
    found = F.mean_gram(F.point(theta), np.float64, labels=True)
    expected = sums_by_hand(X, y, weight, theta.reshape(classes, -1), classes)
    for mine, by_hand in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, by_hand, atol=1e-10 * np.abs(by_hand).max())


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 8), st.integers(1, 6), st.floats(0, 4))
def test_what_is_left_of_the_features_is_positive(seed, classes, columns, apart):
    X, y = blobs(seed, 80, columns, classes, apart)
    F = Objective(Multinomial(classes), Labelled(X, y), ridge=1.0)
    theta = np.random.default_rng(seed).normal(size=F.size) / columns
    C, G, *labels = F.mean_gram(F.point(theta), np.float64, labels=True)
    curvature = Centred.of(C, G, *labels)
    assert np.linalg.eigvalsh(curvature.features).min() >= -1e-10 * np.abs(G).max()
    # Nothing is lost, nothing counts twice: over all classes features weigh what they do in the Hessian.
    by_feature = np.einsum("cpcq->pq", curvature.as_matrix().reshape(classes, columns, classes, columns))
    np.testing.assert_allclose(by_feature, (classes - 1) * G, atol=1e-9 * np.abs(G).max() * classes)


@pytest.mark.parametrize("labels", [False, True])
def test_several_solutions_are_those_of_the_matrix(labels):
    """At once or one by one, also where classes are so unlike that there are several factors."""
    X, y = blobs(3, 200, 6, 7)
    F = Objective(Multinomial(7), Labelled(X, y), ridge=1.0)
    point = F.point(np.random.default_rng(0).normal(size=F.size))
    curvature = Centred.of(*F.mean_gram(point, np.float64, labels=labels))
    rows = np.random.default_rng(1).normal(size=(3, F.size))
    matrix = curvature.as_matrix() + np.eye(F.size)
    np.testing.assert_allclose(curvature.factorized(1.0).several(rows), np.linalg.solve(matrix, rows.T).T, atol=1e-9)
    solve = curvature.nearly_factorized(1.0)
    assert len(getattr(solve, "rest", solve).groups) > 1
    np.testing.assert_allclose(solve.several(rows), [solve(row) for row in rows], rtol=1e-12)


def test_it_is_closer_to_the_hessian():
    X, y = blobs(0, 1_000, 6, 5)
    F = Objective(Multinomial(5), Labelled(X, y), ridge=1.0)
    point = F.point(majorant.minimize(F, tol=1e-3).params)
    H, λ = F.hessian(point.theta)[2].as_matrix(), np.diag(F.ridge)

    def spread(labels):
        M = Centred.of(*F.mean_gram(point, np.float64, labels=labels)).as_matrix()
        return np.log(np.linalg.eigvals(np.linalg.solve(M + λ, H + λ)).real).std()

    assert spread(labels=True) < 0.85 * spread(labels=False)
