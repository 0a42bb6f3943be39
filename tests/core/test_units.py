"""No verdict depends on the units of columns, nor on whether X is dense, sparse, in single precision or a tensor."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from majorant import Chunks, ConditionalLogit, LogisticRegression, Outcome
from majorant.design import CsrDesign, read_design, with_constant
from tests import fuzz_units


@pytest.mark.unwatched
@pytest.mark.parametrize("batch", range(4))
def test_columns_in_other_units_change_no_verdict(batch):
    found = {seed: fuzz_units.judge(seed)[0] for seed in range(25 * batch, 25 * (batch + 1))}
    assert not any(found.values()), {seed: each for seed, each in found.items() if each}


# --- constant columns --------------------------------------------------------------------------------------


def counts_and_a_constant(constant, t, n):
    r = np.random.default_rng(0)
    P = r.poisson(1.0, size=(t, 4)).astype(float)
    y = np.argmax(P @ r.normal(size=(4, n)) + r.gumbel(size=(t, n)), axis=1)
    return np.column_stack([P, np.full(t, constant)]), y


def kinds_of_rows(X):
    kinds = [X, sp.csr_matrix(X), X.astype(np.float32), sp.csr_array(X.astype(np.float32))]
    try:
        import torch
    except ImportError:
        return kinds
    return [*kinds, torch.as_tensor(X)]


@pytest.mark.parametrize("constant", [0.1, 1 / 3, 1.0, 7.3, 1e5, -2.7e-3])
@pytest.mark.parametrize(("t", "n"), [(200, 3), (3_000, 2), (3_000, 5), (20_000, 3)])
def test_a_constant_column_without_a_penalty_changes_nothing(constant, t, n):
    X, y = counts_and_a_constant(constant, t, n)
    least = LogisticRegression(C=np.inf).fit(X[:, :4], y)
    for rows in kinds_of_rows(X):
        model = LogisticRegression(C=np.inf).fit(rows, y)
        assert model.result_.converged, (type(rows), str(model.result_))
        assert "column 4, which changes no probability" in str(model.result_)
        np.testing.assert_allclose(model.trace_["objective"][-1], least.trace_["objective"][-1], rtol=1e-6)


@pytest.mark.parametrize("solver", ["auto", "newton", "bbm", "scipy-lbfgs"])
@pytest.mark.parametrize("settings", [dict(penalty=None), dict(C=1.0, feature_penalty=[1, 1, 1, 1, 0])])
def test_every_solver_learns_beside_a_constant_sparse_column(solver, settings):
    X, y = counts_and_a_constant(7.3, 3_000, 3)
    dense, sparse = (LogisticRegression(solver=solver, **settings).fit(rows, y) for rows in (X, sp.csr_array(X)))
    assert sparse.result_.converged
    losses = [log_loss(y, model.predict_proba(X)) for model in (sparse, dense)]
    np.testing.assert_allclose(*losses, rtol=1e-8)


def test_constant_columns_of_a_sparse_source():
    X, y = counts_and_a_constant(7.3, 6_000, 3)
    rows, parts = sp.csr_array(X), [slice(start, start + 1_000) for start in range(0, 6_000, 1_000)]
    model = LogisticRegression(C=np.inf).fit(Chunks(lambda: ((rows[part], y[part]) for part in parts)))
    whole = LogisticRegression(C=np.inf).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), whole.predict_proba(X), atol=1e-5)


def test_sparse_columns_without_zeros_are_centred_as_dense_ones_are():
    r = np.random.default_rng(0)
    X = np.column_stack([1.7e9 + r.normal(size=300), r.poisson(1.0, size=300), np.full(300, 0.1)])
    dense, sparse = (with_constant(read_design("X", each), center=True) for each in (X, sp.csr_array(X)))
    np.testing.assert_allclose(sparse.dense(), dense.dense(), rtol=1e-12, atol=1e-12)
    assert not sparse.dense()[:, 2].any()
    R = r.random((2, 300))
    np.testing.assert_allclose(sparse.pull_back_squares(R), dense.pull_back_squares(R), rtol=1e-9)
    np.testing.assert_array_equal(sparse.uncentred().dense()[:, :3], X)
    assert isinstance(sparse, CsrDesign)


def test_a_column_that_is_constant_where_rows_have_weight():
    X, y = counts_and_a_constant(1.0, 3_000, 2)
    weight = np.ones(3_000)
    X[:500, 4] = weight[:500] = 0.0
    model = LogisticRegression(C=np.inf).fit(sp.csr_array(X), y, sample_weight=weight)
    least = LogisticRegression(C=np.inf).fit(X[500:, :4], y[500:])
    assert model.result_.converged
    np.testing.assert_allclose(model.trace_["objective"][-1], least.trace_["objective"][-1], rtol=1e-8)


# --- flat directions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["auto", "newton", "scipy-lbfgs", "bbm"])
@pytest.mark.parametrize("unit", [1e3, 1e7, 1e9, 1e12])
def test_columns_that_are_the_same_in_other_units_are_undetermined(solver, unit):
    r = np.random.default_rng(0)
    z = r.normal(size=(500, 1))
    y = (z[:, 0] + r.logistic(size=500) > 0).astype(int)
    model = LogisticRegression(C=np.inf, solver=solver).fit(np.hstack([z, z / unit]), y)
    assert np.isinf(model.coef_error_).all()
    assert "columns 0, 1, which depend on each other" in str(model.result_)


def test_constant_columns_of_other_sizes_without_an_intercept_are_undetermined():
    y = np.arange(50) % 3 == 0
    model = LogisticRegression(C=np.inf, fit_intercept=False).fit(np.tile([1e-3, 6e4], (50, 1)), y)
    assert np.isinf(model.coef_error_).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("exponent", [24, 42, 50])
@pytest.mark.parametrize("C", [1e11, 1e13])
def test_a_penalised_column_has_a_part_in_no_flat_direction(exponent, C):
    r = np.random.default_rng(0)
    z = r.normal(size=(60, 1))
    y = (z[:, 0] + r.logistic(size=60) > 0).astype(int)
    X = np.hstack([z / 2.0**exponent, z])
    model = LogisticRegression(C=C, feature_penalty=[0, 1], warm_start=True).fit(X, y)
    least = model.trace_["objective"][-1]
    model.coef_ = model.coef_ + 1e6 * np.array([[2.0**exponent, -1.0]])
    model.fit(X, y)
    penalty = 0.5 / C * float(model.coef_[0, 1] ** 2)
    assert not model.gap_ < penalty / (penalty + least) - 1e-9


# --- endings -----------------------------------------------------------------------------------------------


def choices_in_units(s):
    r = np.random.default_rng(0)
    Z = r.normal(size=(210, 3))
    utility = (Z @ [1, 0.5, -1] + r.gumbel(size=210)).reshape(70, 3)
    return Z * s, (utility == utility.max(axis=1, keepdims=True)).ravel().astype(float), np.arange(210) // 3


def test_a_gradient_that_is_small_in_units_of_its_largest_column_is_no_optimum():
    s = np.array([1e4, 1e-4, 1e-4])
    X, y, _ = choices_in_units(s)
    labels = y.reshape(70, 3)[:, 0].astype(int)
    with pytest.warns(ConvergenceWarning):
        far = LogisticRegression(C=np.inf, solver="scipy-lbfgs").fit(X[::3], labels)
    assert far.result_.outcome is not Outcome.CONVERGED


@pytest.mark.parametrize("solver", ["auto", "bbm", "lbfgs"])
@pytest.mark.parametrize("s", [np.ones(3), np.array([1e4, 1e-4, 1e-4])])
def test_solvers_of_choice_models_agree_in_all_units(solver, s):
    X, y, groups = choices_in_units(s)
    model = ConditionalLogit(solver=solver).fit(X, y, groups)
    exact = ConditionalLogit().fit(*choices_in_units(np.ones(3)))
    assert model.result_.converged
    np.testing.assert_allclose(model.coef_ * s, exact.coef_, atol=1e-4)


@pytest.mark.parametrize("solver", ["auto", "newton", "scipy-lbfgs", "bbm"])
def test_a_small_gradient_is_no_optimum_where_the_hessian_sees_nothing(solver):
    r = np.random.default_rng(0)
    X = r.normal(size=(40, 2))
    X[:, 1] = X[:, 0] + 1e-8 * X[:, 1]
    y = ((X[:, 1] - X[:, 0]) * 1e8 + r.logistic(size=40) > 0).astype(int)
    with pytest.warns(ConvergenceWarning):
        LogisticRegression(C=np.inf, solver=solver).fit(X, y)


@pytest.mark.parametrize("apart", [1e-3, 1e-4, 1e-5, 1e-6])
def test_choices_separated_by_nearly_collinear_columns(apart):
    r = np.random.default_rng(1)
    x = r.normal(size=180).round(2)
    z = x.copy()
    z[0] += apart  # where the first alternative was chosen, and nowhere else
    with pytest.warns(ConvergenceWarning, match="quasi-completely separated along columns x0, x1"):
        model = ConditionalLogit().fit(np.column_stack([x, z]), np.arange(180) % 3 == 0, np.arange(180) // 3)
    assert np.isinf(model.coef_error_).all()


@pytest.mark.parametrize("seed", [0, 29, 40, 52, 81, 132, 152, 170])
def test_what_rounding_of_nearly_collinear_columns_hides_is_not_proved(seed):
    """One row's last digit separates them, which orthonormal columns keep, with noise in the other rows."""
    r = np.random.default_rng(seed)
    situations, apart = int(r.integers(10, 80)), 10 ** r.uniform(-11, -6)
    x = r.normal(size=3 * situations)
    x = x.round(2) if r.random() < 0.5 else x
    z = x.copy()
    z[0] += apart
    rows = np.arange(3 * situations)
    with pytest.warns(ConvergenceWarning):
        model = ConditionalLogit().fit(np.column_stack([x, z]), rows % 3 == 0, rows // 3)
    assert "proved" not in str(model.result_)
    assert np.isinf(model.coef_error_).all()
    assert not model.gap_ <= 1


@pytest.mark.parametrize("apart", [1e-4, 1e-6, 1e-8, 1e-9])
def test_columns_that_are_apart_by_more_than_rounding_are_told_apart(apart):
    r = np.random.default_rng(0)
    x, noise = r.normal(size=(2, 180))
    utility = (x + noise + r.gumbel(size=180)).reshape(60, 3)
    chosen = (utility == utility.max(axis=1, keepdims=True)).ravel()
    model = ConditionalLogit().fit(np.column_stack([x, x + apart * noise]), chosen, np.arange(180) // 3)
    plain = ConditionalLogit().fit(np.column_stack([x, noise]), chosen, np.arange(180) // 3)
    assert "a unique maximum-likelihood estimate exists (proved)" in str(model.result_)
    np.testing.assert_allclose(model.coef_[1] * apart, plain.coef_[1], rtol=1e-13 / apart + 1e-6)


def test_weights_and_offsets_of_any_size_raise_nothing():
    r = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for _ in range(40):
            X, y = r.normal(size=(5, 2)), np.arange(5) % 2
            settings = dict(C=np.inf) if r.random() < 0.5 else dict(C=1.0, feature_penalty=[0, 1])
            weight, offset = 10 ** r.uniform(-12, 12, size=5), 700.0 * r.choice([-1, 1], size=5)
            model = LogisticRegression(**settings).fit(X, y, sample_weight=weight, offset=offset)
            assert np.isfinite(model.coef_).all()


def test_converged_is_not_said_where_more_is_left_than_the_tolerance():
    r = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(60):
            X = r.normal(size=(12, 3)) * 10 ** r.uniform(-4, 4, size=3)
            penalty, weight = 10.0 ** r.uniform(-9, 9, size=3) * r.integers(0, 2, size=3), 10 ** r.uniform(-12, 12, 12)
            model = LogisticRegression(feature_penalty=penalty, tol=1e-4).fit(
                X, np.arange(12) % 2, sample_weight=weight
            )
            if model.result_.outcome is Outcome.CONVERGED:
                assert not model.gap_ > 1e-4
                _, _, left = str(model.result_).partition("another step promises to gain ")
                assert not left or float(left.split()[0]) <= 1e-4, str(model.result_)
