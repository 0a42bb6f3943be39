"""Designs with a constant column and a centre, through every function, against the same matrix written out."""

import numpy as np
import pytest
import scipy.sparse as sp

from majorant import Labelled
from majorant.kernels import design

T, P, N = 40, 5, 3
RNG = np.random.default_rng(0)
W, R = RNG.normal(size=(N, P + 1)), RNG.normal(size=(N, T))
M, WEIGHT = RNG.normal(size=(P + 1, 2)), RNG.exponential(size=T)
B = np.einsum("cj,ej->cej", R, R)
L = RNG.normal(size=(2, N, T))
SOME = np.array([0, 2, P])


def outer_sum(X):
    """Return Σ_j B[:, :, j] ⊗ x_j x_jᵀ."""
    return sum(np.kron(B[:, :, j], np.outer(x, x)) for j, x in enumerate(X))


# What a function makes of a design, and what it is of the matrix D.
FUNCTIONS = {
    "project": (lambda X: design.project(X, W), lambda D: W @ D.T),
    "pull_back": (lambda X: design.pull_back(X, R), lambda D: R @ D),
    "pull_back_squares": (lambda X: design.pull_back_squares(X, R**2), lambda D: R**2 @ D**2),
    "weighted_gram": (lambda X: design.weighted_gram(X, B), outer_sum),
    "one weighted_gram": (lambda X: design.weighted_gram(X, WEIGHT[None, None]), lambda D: (D.T * WEIGHT) @ D),
    "columns": (lambda X: design.dense(design.columns(X, SOME)), lambda D: D[:, SOME]),
    "stored columns": (lambda X: design.dense(design.columns(X, SOME[:2])), lambda D: D[:, SOME[:2]]),
    "all columns": (lambda X: design.dense(design.columns(X, np.arange(P + 1))), lambda D: D),
    "multiply": (lambda X: design.multiply(X, M), lambda D: D @ M),
    "dense": (design.dense, lambda D: D),
    "csr": (lambda X: design.csr(X).toarray(), lambda D: D),
    "widened": (lambda X: design.dense(design.widened(X)), lambda D: D),
    "absolute": (lambda X: design.dense(design.absolute(X)[0]), np.abs),
    "sums of absolute": (lambda X: design.absolute(X)[1], lambda D: np.abs(D).sum(axis=1)),
    "outer_rows": (lambda X: design.outer_rows(L, X), lambda D: np.stack([
        np.kron(L[y, :, j], D[j]) for j in range(T) for y in range(len(L))
    ])),
    "rows": (lambda X: design.dense(X[3:9]), lambda D: D[3:9]),
}  # fmt: skip


def stored(sparse, dtype):
    """Columns of which some are far from zero, one is empty and one has few entries."""
    X = RNG.normal(loc=[0, 4, 0, -6, 0], size=(T, P))
    X[:, 2], X[:, 4] = 0.0, X[:, 4] * (np.arange(T) % 7 == 0)
    return sp.csr_array(X.astype(dtype)) if sparse else X.astype(dtype)


@pytest.fixture(scope="module", params=["dense", "sparse"])
def forms(request):
    """Every form of a design, beside the matrix that it stands for."""
    found = []
    for dtype in (np.float64, np.float32):
        X = stored(request.param == "sparse", dtype)
        whole = X.toarray() if sp.issparse(X) else X
        for centre in (False, True, np.array([0.5, 3.0, 0.0, -6.0, 0.0])):
            data = Labelled(X, np.arange(T) % 2, constant=True, center=centre)
            shift = 0.0 if data.centre is None else data.centre
            found.append((data.X, np.column_stack([whole.astype(float) - shift, np.ones(T)])))
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_design_is_the_matrix_that_it_stands_for(forms, name):
    of_design, of_matrix = FUNCTIONS[name]
    for X, D in forms:
        if name == "widened" and X.dtype == np.float64:
            continue  # only what is narrow is widened
        found, expected = of_design(X), of_matrix(D)
        assert found.shape == expected.shape
        tolerance = 1e-9 if X.dtype == np.float64 else 1e-4
        np.testing.assert_allclose(found, expected, atol=tolerance * max(np.abs(expected).max(), 1))


def test_sizes_of_columns_are_known_before_anything_cancels(forms):
    for X, D in forms:
        norms = np.linalg.norm(D, axis=0)
        assert (design.column_norms(X) >= norms * (1 - 1e-6)).all()
        assert design.frobenius_norm(X) >= np.linalg.norm(D) * (1 - 1e-6)


def test_columns_that_are_left_out_are_empty(forms):
    for X, D in forms:
        found, which = design.occurring(X)
        np.testing.assert_allclose(found, D[:, which], atol=1e-5)
        assert not np.delete(D, which, axis=1).any()
        assert P in which


def test_what_is_stored(forms):
    for X, D in forms:
        assert X.shape == D.shape
        assert 0 < design.density(X) <= 1
        assert design.is_sparse(X) == (design.density(X) < 1)
