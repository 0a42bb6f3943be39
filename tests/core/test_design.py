"""Every design does what the matrix it stands for does."""

import numpy as np
import pytest
import scipy.sparse as sp

from majorant.design import Constant, CsrDesign, DenseDesign, Design, read_design, with_constant

SHIFT = np.array([3.0, 0.0, -2.0, 0.5])


class Stored(Design):
    """Five methods and nothing else: all others are those of the base class."""

    def __init__(self, rows):
        self.rows = rows

    @property
    def shape(self):
        return self.rows.shape

    @property
    def dtype(self):
        return self.rows.dtype

    def project(self, W):
        return W @ self.rows.T

    def pull_back(self, R):
        return R @ self.rows

    def part(self, rows):
        return Stored(self.rows[rows])

    def toarray(self):
        return self.rows


def written_out(X, shift=None):
    return np.column_stack([X if shift is None else X - shift, np.ones(len(X))])


KINDS = {
    "dense": (DenseDesign, lambda X: X),
    "csr": (lambda X: CsrDesign(sp.csr_array(X)), lambda X: X),
    "csr matrix": (lambda X: CsrDesign(sp.csr_matrix(X)), lambda X: X),
    "stored": (Stored, lambda X: X),
    "constant": (lambda X: DenseDesign(X, constant=True), written_out),
    "constant csr": (lambda X: CsrDesign(sp.csr_array(X), constant=True), written_out),
    "constant stored": (lambda X: Constant(Stored(X)), written_out),
    "centred stored": (lambda X: Constant(Stored(X), SHIFT), lambda X: written_out(X, SHIFT)),
    "centred": (lambda X: DenseDesign(X, True, SHIFT), lambda X: written_out(X, SHIFT)),
    "centred csr": (lambda X: CsrDesign(sp.csr_array(X), True, SHIFT), lambda X: written_out(X, SHIFT)),
    "centred before": (
        lambda X: DenseDesign(DenseDesign(X).less(SHIFT, np.float64).numbers, True, SHIFT, centred=True),
        lambda X: written_out(X, SHIFT),
    ),
}


@pytest.fixture(params=[0.1, 0.9], ids=["sparse", "full"])
def X(request):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) * (rng.uniform(size=(300, 4)) < request.param)
    X[:, 1] = 0.0  # a column that never occurs
    return X


@pytest.fixture(params=list(KINDS))
def pair(request, X, monkeypatch):
    monkeypatch.setattr("majorant.core.matrix.CHUNK", 1)  # forces several chunks
    make, write = KINDS[request.param]
    return make(X), write(X)


def test_products(pair):
    design, X = pair
    rng, (t, p) = np.random.default_rng(1), X.shape
    W, R, M = rng.normal(size=(3, p)), rng.uniform(size=(3, t)), rng.normal(size=(p, 2))
    assert design.shape == X.shape
    np.testing.assert_allclose(design.toarray(), X, atol=1e-12)
    np.testing.assert_allclose(design.project(W), W @ X.T, atol=1e-12)
    np.testing.assert_allclose(design.pull_back(R), R @ X, atol=1e-10)
    np.testing.assert_allclose(design.pull_back_squares(R), R @ X**2, atol=1e-9)
    np.testing.assert_allclose(design.times(M), X @ M, atol=1e-12)
    np.testing.assert_allclose(design.csr().toarray(), X, atol=1e-12)
    np.testing.assert_allclose(design.widened().dense(), X, atol=1e-12)


@pytest.mark.parametrize(("dtype", "close"), [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_squares_of_sparse_rows_are_those_of_products(X, dtype, close):
    design, R = CsrDesign(sp.csr_array(X.astype(dtype))), np.random.default_rng(3).uniform(size=(1, len(X)))
    np.testing.assert_allclose(design.pull_back_squares(R), R @ X**2, rtol=close, atol=close)


@pytest.mark.parametrize("n", [1, 3])
def test_compiled_gram_matrices_of_sparse_rows_are_those_of_products(X, n, monkeypatch):
    design, weights = CsrDesign(sp.csr_array(X)), np.random.default_rng(4).normal(size=(n, len(X)))
    by_products = design.triangles(weights)
    monkeypatch.setattr("majorant.core.kernels.WORTH_COMPILING", 0)
    np.testing.assert_allclose(design.triangles(weights), by_products, rtol=1e-12, atol=1e-12)


def test_a_narrow_copy_is_the_same_numbers_rounded(X):
    design = DenseDesign(X)
    assert design.narrowed().narrowed().numbers is not design.numbers
    np.testing.assert_array_equal(design.narrowed().numbers, X.astype(np.float32))


@pytest.mark.parametrize("n", [1, 3])
def test_weighted_gram_matrices(pair, n):
    design, X = pair
    B = np.random.default_rng(0).normal(size=(n, n, len(X)))
    B += B.transpose(1, 0, 2)
    for weights in (B, np.abs(B)):
        expected = np.einsum("cej,jp,jq->cpeq", weights, X, X).reshape(X.shape[1] * n, -1)
        np.testing.assert_allclose(design.gram(weights), expected, rtol=1e-9, atol=1e-9)


def test_parts_and_columns(pair):
    design, X = pair
    p = X.shape[1]
    for rows in (slice(3, 50), slice(0, 0), np.array([7, 7, 0, 299])):
        np.testing.assert_allclose(design.part(rows).toarray(), X[rows], atol=1e-12)
    for which in (np.arange(p), np.array([0, 2]), np.array([1, p - 1]), np.array([p - 1])):
        np.testing.assert_allclose(design.columns(which).dense(), X[:, which], atol=1e-12)
    dense, which = design.part(slice(0, 5)).occurring()
    np.testing.assert_allclose(dense, X[:5][:, which], atol=1e-12)
    np.testing.assert_allclose(np.delete(X[:5], which, axis=1), 0, atol=1e-12)


def test_sums_of_magnitudes(pair):
    design, X = pair
    magnitude, total = design.absolute()
    np.testing.assert_allclose(magnitude.dense(), np.abs(X), atol=1e-12)
    np.testing.assert_allclose(total, np.abs(X).sum(axis=1), atol=1e-12)
    # Before anything cancels: at least as large as what is left.
    assert (design.column_norms() >= np.linalg.norm(X, axis=0) - 1e-9).all()
    assert design.frobenius_norm() >= np.linalg.norm(X) - 1e-9
    L = np.random.default_rng(2).normal(size=(2, 3, len(X)))
    rows = np.stack([sum(np.kron(np.eye(3)[c], X[j]) * L[y, c, j] for c in range(3)) for j in range(4) for y in (0, 1)])
    np.testing.assert_allclose(design.outer_rows(L)[:8], rows, atol=1e-12)


def test_moments(pair):
    design, X = pair
    weight = np.random.default_rng(3).exponential(size=len(X))
    mean, variance = design.moments(weight)
    expected = np.average(X, axis=0, weights=weight)
    np.testing.assert_allclose(mean, expected, atol=1e-12)
    np.testing.assert_allclose(variance, np.average((X - expected) ** 2, axis=0, weights=weight), atol=1e-10)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_constant_column_is_its_own_mean_where_rows_have_weight(kind):
    weight, X = np.random.default_rng(0).exponential(size=300), np.tile([0.1, 7.3, 1e5], (300, 1))
    weight[:7], X[:7] = 0.0, [0.7, 0.0, 3.3]
    mean, variance = read_design("X", kind(X)).moments(weight)
    np.testing.assert_array_equal(mean, X[-1])
    assert not variance.any()


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_single_precision_is_kept_and_widened(kind):
    X = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    design = with_constant(read_design("X", kind(X + np.float32(1e3))), center=True)
    assert design.dtype == np.float32
    assert design.widened().dtype == np.float64
    mean = (X + np.float32(1e3)).astype(np.float64) - design.centre
    np.testing.assert_allclose(design.widened().dense()[:, :-1], mean, atol=1e-12)
    B = np.abs(np.random.default_rng(0).normal(size=(1, 1, 50)))
    D = design.dense()
    np.testing.assert_allclose(design.gram(B), np.einsum("j,jp,jq->pq", B[0, 0], D, D), rtol=1e-3, atol=1e-3)


def test_a_design_is_read_as_it_is():
    design = Stored(np.ones((2, 2)))
    assert read_design("X", design) is design
    with pytest.raises(ValueError, match="X must have at least one column"):
        read_design("X", np.ones((3, 0)))


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
def test_some_rows_of_sparse_data_are_views(kind):
    """SciPy's constructors copy a view of less than half of an array."""
    X = kind(sp.random_array((50, 9), density=0.4, random_state=0, format="csr"))
    some = read_design("X", X).part(slice(10, 15))
    some.pull_back(np.ones((1, 5)))
    assert np.shares_memory(some.numbers.data, X.data)
    assert np.shares_memory(some._transposed.indices, X.indices)
    np.testing.assert_array_equal(some.toarray(), X.toarray()[10:15])
