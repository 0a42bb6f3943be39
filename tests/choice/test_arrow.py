"""Hessians by blocks of parameters that never meet, against the same written out."""

import numpy as np
import pytest
import scipy.sparse as sp

from majorant import Choices, ConditionalLogit, Enumerated, Objective, QuasiNewton, minimize
from majorant.choice import enumerated, inference
from majorant.core import preconditioners
from majorant.core.files import decode, encode
from majorant.core.preconditioners import hessian_by_blocks
from majorant.curvature import Arrow, Dense


def drawn(seed, *, sets=12, alternatives=5, shared=2, own=(2, 3), apart=1.0):
    """Return choices whose columns are shared, or belong to one alternative; sets differ, and may repeat or lack one.

    Columns of an alternative that are not far ``apart`` nearly depend on each other.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, alternatives + 2, size=sets)
    which = rng.integers(alternatives, size=sizes.sum())
    widths = rng.integers(*own, size=alternatives, endpoint=True)
    widths[0] = 0  # a base, which touches nothing but what is shared
    first = shared + np.cumsum(widths) - widths
    X = np.zeros((len(which), shared + widths.sum()))
    X[:, :shared] = rng.normal(size=(len(which), shared))
    for row, a in enumerate(which):
        X[row, first[a] : first[a] + widths[a]] = rng.normal() + apart * rng.normal(size=widths[a])
    X = X[:, rng.permutation(X.shape[1])]
    weight = rng.integers(0, 4, size=sets) if seed % 2 else None
    return Choices(sp.csr_array(X), sizes, chosen=rng.integers(sizes), weight=weight)


@pytest.fixture(autouse=True)
def any_size(monkeypatch):
    monkeypatch.setattr(enumerated, "COMMON", (0.8, 0.5))
    monkeypatch.setattr(preconditioners, "LARGEST", 0)
    monkeypatch.setattr(inference, "LARGEST_HESSIAN", 0)


@pytest.mark.parametrize("seed", range(20))
def test_a_hessian_by_blocks_is_the_hessian(seed):
    data = drawn(seed, shared=seed % 3)
    F, rng = Objective(Enumerated(), data, ridge=0.0), np.random.default_rng(seed)
    theta, λ = rng.normal(size=F.size), rng.exponential(size=F.size)
    H, point = F.hessian(theta)[2].as_matrix(), F.point(theta)
    found = hessian_by_blocks(F, point, whole=True)
    np.testing.assert_allclose(found.as_matrix(), H, atol=1e-12)
    v = rng.normal(size=F.size)
    np.testing.assert_allclose(found.matvec(v), H @ v, atol=1e-11)
    inverse = np.linalg.inv(H + np.diag(λ))
    np.testing.assert_allclose(found.solve(v, λ), inverse @ v, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.factorized(λ).inverse_diagonal(), np.diag(inverse), rtol=1e-8)
    assert type(found + Dense(H, majorizes=False)) is Dense


@pytest.mark.parametrize("seed", range(6))
def test_blocks_alone_are_those_of_the_hessian(seed):
    F = Objective(Enumerated(), drawn(seed), ridge=0.0)
    point = F.point(np.random.default_rng(seed).normal(size=F.size))
    H, found = F.hessian(point.theta)[2].as_matrix(), hessian_by_blocks(F, point, whole=False).as_matrix()
    pattern = F.pattern
    within = np.zeros((F.size + 1, F.size + 1), dtype=bool)
    for each in (pattern.shared, *pattern.blocks):
        within[np.ix_(each, each)] = True
    np.testing.assert_allclose(found, np.where(within[:-1, :-1], H, 0.0), atol=1e-12)


def test_parts_of_the_data_add_up():
    data = drawn(3, sets=20)
    whole, model = Objective(Enumerated(), data, ridge=0.0), Enumerated()
    theta, pattern = np.linspace(-1, 1, whole.size), model.pattern(data)
    parts = [model.arrow(model.scores(theta, some), some, pattern, whole=True) for some in data.batches(7)]
    total = parts[0] + parts[1] + parts[2]
    assert isinstance(total, Arrow)
    np.testing.assert_allclose(total.as_matrix(), whole.hessian(theta)[2].as_matrix(), atol=1e-12)


def test_no_blocks_where_all_parameters_meet():
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(30, 8))
    assert Enumerated().pattern(Choices(dense, [3] * 10, chosen=[0] * 10)) is None
    chained = sp.diags_array([np.ones(30), np.ones(29)], offsets=[0, 1]).tocsr()  # each meets the next
    pattern = Enumerated().pattern(Choices(sp.csr_array(chained), [3] * 10, chosen=[0] * 10))
    assert pattern.blocks.shape == (1, 30)  # one block is all of them


def test_a_singular_arrow_still_scales_steps():
    data = drawn(1, shared=0)
    X = data.design.csr()
    twice = Choices(sp.hstack([X, X[:, [0]], sp.csr_array((X.shape[0], 1))]), np.diff(data.indptr), target=data.target)
    F = Objective(Enumerated(), twice, ridge=0.0)
    point = F.point(np.zeros(F.size))
    step = hessian_by_blocks(F, point, whole=True).solve(-point.gradient)
    assert np.isfinite(step).all()
    assert point.gradient @ step < 0


@pytest.mark.parametrize("whole", [False, True], ids=["each block", "by blocks"])
def test_quasi_newton_buys_it_and_lands_at_the_optimum(monkeypatch, whole):
    if whole:
        monkeypatch.setattr(preconditioners.HessianByBlocks, "price", lambda self, prices: (0.0, 0.0))
    data = drawn(0, sets=400, alternatives=12, own=(4, 4), apart=1e-3)
    F = Objective(Enumerated(), data, ridge=1e-6)
    found = minimize(F, QuasiNewton(), tol=1e-10, largest_hessian=0)
    assert f"the Hessian {'by blocks' if whole else 'of each block'}" in [name for _, name in found.state.account]
    H = F.hessian(found.params)[2].as_matrix() + np.diag(F.ridge)
    g = F.value_and_gradient(found.params)[1]
    assert g @ np.linalg.solve(H, g) <= 1e-10 * F.value(found.params)


def long(data):
    rng, groups = np.random.default_rng(0), data.set_of_outcome
    order = rng.permutation(len(groups))
    return data.design.csr()[order], data.target[order], groups[order]


def test_many_parameters_have_standard_errors(monkeypatch, tmp_path):
    arrays = long(drawn(2, sets=600, alternatives=6))
    by_blocks = ConditionalLogit(C=100.0, solver="lbfgs").fit(*arrays)
    monkeypatch.setattr(inference, "LARGEST_HESSIAN", 5_000)
    whole = ConditionalLogit(C=100.0).fit(*arrays)
    np.testing.assert_allclose(by_blocks.coef_, whole.coef_, rtol=1e-8, atol=1e-10)
    errors = whole.summary().std_errors
    np.testing.assert_allclose(by_blocks.summary().std_errors, errors, rtol=1e-6)
    by_blocks.save(tmp_path / "model.npz")
    loaded = ConditionalLogit.load(tmp_path / "model.npz")
    np.testing.assert_allclose(loaded.summary().std_errors, errors, rtol=1e-6)
    np.testing.assert_array_equal(loaded.coef_error_, by_blocks.coef_error_)
    with pytest.raises(ValueError, match=r"too many for a covariance matrix: summary\(\) has standard errors"):
        by_blocks.covariance()


def test_what_many_parameters_cannot_identify_is_named():
    X, y, groups = long(drawn(4, sets=600, alternatives=6))
    constant = sp.csr_array(np.random.default_rng(0).normal(size=600)[groups][:, None])
    with pytest.raises(ValueError, match="column 'x0' is constant within every group"):
        ConditionalLogit(solver="lbfgs").fit(sp.hstack([constant, X]), y, groups)


def test_it_travels_in_files():
    F = Objective(Enumerated(), drawn(0), ridge=1.0)
    found = hessian_by_blocks(F, F.point(np.zeros(F.size)), whole=True)
    tree, arrays = encode({"factorize": found.factorized, "solve": found.factorized(F.ridge)})
    back, v = decode(tree, arrays), np.arange(F.size, dtype=float)
    np.testing.assert_array_equal(back["solve"](v), found.solve(v, F.ridge))
    np.testing.assert_array_equal(back["factorize"](F.ridge)(v), found.solve(v, F.ridge))
