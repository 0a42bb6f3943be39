"""Streams whose columns are far from zero, of any precision, and what they remember."""

import functools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, log_expit
from sklearn.metrics import log_loss

from majorant import Binary, Labelled, LogisticRegression
from majorant.core.proximal import solve_in_scores
from majorant.curvature import Growing
from majorant.design import DenseDesign, Moments
from majorant.linear.stream import better_centre, moved_parameters, moved_precision


def draw(classes, rows=2000, seed=0):
    r = np.random.default_rng(seed)
    X = r.normal(size=(rows, 3))
    return X, np.argmax(X @ r.normal(size=(3, classes)) + r.gumbel(size=(rows, classes)), axis=1)


def fed(X, y, size, **settings):
    model = LogisticRegression(**settings)
    for start in range(0, len(y), size):
        model.partial_fit(X[start : start + size], y[start : start + size], classes=np.unique(y))
    return model


@functools.cache
def loss_near_zero(classes, size):
    X, y = draw(classes)
    return log_loss(y, fed(X, y, size).predict_proba(X))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("size", [20, 400])
@pytest.mark.parametrize("far", [3.0, 1e3, 1e6])
def test_where_columns_are_makes_no_difference(classes, kind, size, far):
    X, y = draw(classes)
    away = fed(kind(X + far), y, size)
    loss = log_loss(y, away.predict_proba(X + far))
    assert loss == pytest.approx(loss_near_zero(classes, size), rel=2e-3)


@pytest.mark.parametrize("far", [0.0, 3.0, 100.0])
def test_single_precision_learns_as_double_does(far):
    X, y = draw(3)
    X = (X + far).astype(np.float32)
    single, double = fed(X, y, 300), fed(X.astype(np.float64), y, 300)
    np.testing.assert_allclose(single.coef_, double.coef_, atol=1e-6)
    np.testing.assert_allclose(single.intercept_, double.intercept_, atol=1e-4)
    np.testing.assert_allclose(single.posterior_covariance(), double.posterior_covariance(), rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("block", [True, False])
def test_a_moved_centre_changes_the_prior_and_nothing_else(block):
    """What rows have taught, as information, is the same from wherever it is measured."""
    r, p, prior = np.random.default_rng(0), 4, 1e-3
    shift, θ = r.normal(size=p - 1), r.normal(size=p)
    here = np.column_stack([r.normal(size=(30, p - 1)), np.ones(30)])
    there = here - np.append(shift, 0.0)
    A, expected = (Φ.T @ Φ + np.diag([1.0] * (p - 1) + [prior]) for Φ in (here, there))
    shape = (1, p, p) if block else (1, p, 1, p)
    old, new = moved_precision(A.reshape(shape), prior, shift)
    np.testing.assert_allclose(new.reshape(p, p), expected, atol=1e-9)
    same = θ + np.append(np.zeros(p - 1), θ[:-1] @ shift)  # the same scores
    moved = moved_parameters(old, new, θ, shift)
    np.testing.assert_allclose(expected @ moved, old.reshape(p, p) @ same, atol=1e-9)


def test_moments_of_chunks_add_up():
    r = np.random.default_rng(0)
    X, weight = r.normal(size=(90, 4)) * [1, 5, 0.1, 1] + [0, 1e6, 3, -2], r.exponential(size=90)
    total = Moments.of(X[:20], weight[:20]) + Moments.of(X[20:70], weight[20:70]) + Moments.of(X[70:], weight[70:])
    mean, variance = DenseDesign(X).moments(weight)
    assert total.rows == 90
    np.testing.assert_allclose(total.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(total.variance, variance, rtol=1e-9)
    assert better_centre(total, mean + 3 * np.sqrt(variance)) is None
    centre = better_centre(total, mean + np.array([0, 0, 0, 1e3]))
    np.testing.assert_allclose(centre, mean, rtol=1e-9)


def test_pending_rows_are_those_of_a_matrix_written_out():
    r = np.random.default_rng(0)
    A = np.diag(r.uniform(1, 2, size=12))
    growing, expected = Growing(A.copy()), A.copy()
    for k in range(150):  # past several flushes and renewals
        x = r.normal(size=(1 + k % 3, 12))
        V, G = growing.through(x, lambda M, x=x: x @ M)
        M = np.linalg.inv(expected)
        np.testing.assert_allclose(V, x @ M, atol=1e-9)
        np.testing.assert_allclose(G, x @ M @ x.T, atol=1e-9)
        np.testing.assert_allclose(growing.solve(x[0]), M @ x[0], atol=1e-9)
        growing = growing.grown(x, V, G)
        expected = expected + x.T @ x
    np.testing.assert_allclose(growing.as_matrix(), expected, rtol=1e-12)


@pytest.mark.parametrize("G", [0.0, 1e-6, 3.0, 1e5])
@pytest.mark.parametrize("target", [0, 1])
def test_a_single_row_is_solved_as_any_batch_is(G, target):
    one = Labelled([[1.0]], [target], weight=[2.0])
    two = Labelled([[1.0], [1.0]], [target, target], weight=[2.0, 1e-300])  # solved by Newton's method
    for score in (-20.0, 0.0, 5.0):
        a = solve_in_scores(Binary(), one, np.array([[score]]), np.array([[G]]))
        expected = solve_in_scores(Binary(), two, np.array([[score, score]]), np.diag([G, G]))[0]
        assert a[0] == pytest.approx(expected, abs=1e-3 / (1 + G))
        assert a[0] == pytest.approx(2.0 * (target - expit(score + G * a[0])), abs=1e-3)


@pytest.mark.parametrize("G", [1e8, 1e12, 1e18, 1e40])
@pytest.mark.parametrize("target", [0, 1])
def test_a_single_row_of_any_length_is_solved_to_the_digits_of_its_probability(G, target):
    one, sign = Labelled([[1.0]], [target], weight=[2.0]), 2 * target - 1
    for score in (-20.0, 0.0, 5.0):
        a = sign * solve_in_scores(Binary(), one, np.array([[score]]), np.array([[G]]))[0]
        assert a > 0
        assert np.log(a / 2) == pytest.approx(log_expit(-(sign * score + G * a)), abs=1e-4)


@pytest.mark.parametrize("step", [30.0, 300.0])
def test_a_matrix_that_grows_little_by_little_without_end_keeps_its_inverse(step):
    growing, expected = Growing(np.diag([1e-4, 1e-3])), np.diag([1e-4, 1e-3])
    for k in range(30):  # each row grows one eigenvalue by less than what an inverse is found afresh for
        x = np.array([[step ** (k / 2) * 1e-2 * (-1) ** k, 1e-3]])
        V, G = growing.through(x, lambda M, x=x: x @ M)
        growing = growing.grown(x, V, G)
        expected = expected + x.T @ x
        s = np.sqrt(np.diag(expected))
        b = np.array([[0.3, -1.0]]) * s
        V, _ = growing.through(b, lambda M, b=b: b @ M)
        np.testing.assert_allclose(V[0] * s, np.linalg.solve(expected / np.outer(s, s), b[0] / s), rtol=1e-3)


def test_one_row_calls_write_no_square_array():
    X, y = draw(2, rows=40)
    X = np.hstack([X, np.random.default_rng(1).normal(size=(40, 297))])
    model = fed(X[:10], y[:10], 1)
    before = model._stream.memory.precision
    arrays = [before._A, before._M]
    model.partial_fit(X[10:11], y[10:11])
    after = model._stream.memory.precision
    assert [after._A is arrays[0], after._M is arrays[1]] == [True, True]


@pytest.mark.parametrize("size", [1, 5, 40])
@pytest.mark.parametrize("far", [1e8, 1e12])
def test_a_stream_that_begins_where_nothing_can_be_seen_begins_again(size, far):
    X, y = draw(2, rows=400)
    model = fed(sp.csr_array(X + np.array([0, far, 0])), y, size)
    loss = log_loss(y, model.predict_proba(sp.csr_array(X + np.array([0, far, 0]))))
    expected = log_loss(y, LogisticRegression().fit(X, y).predict_proba(X)) if far < 1e10 else 0.69
    assert loss < 1.1 * expected


def test_wide_sparse_streams_find_their_centre_at_first():
    r = np.random.default_rng(0)
    Z = r.normal(size=(300, 2500))
    y = (Z @ r.normal(size=2500) > 0).astype(int)
    far, near = fed(sp.csr_array(Z + 1e4), y, 30), fed(sp.csr_array(Z), y, 30)
    assert far.score(sp.csr_array(Z + 1e4), y) >= near.score(sp.csr_array(Z), y) - 0.05


def test_the_posterior_of_a_stream_is_near_that_of_a_fit():
    X, y = draw(3, rows=600)
    stream, whole = fed(X, y, 60), LogisticRegression().fit(X, y)
    ratio = np.diag(stream.posterior_covariance()) / np.diag(whole.posterior_covariance(X))
    assert 0.7 < ratio.min() <= ratio.max() < 1.3


def test_rows_that_weigh_nothing_teach_nothing():
    X, y = draw(2, rows=100)
    model = fed(X, y, 50)
    before = model.coef_.copy()
    model.partial_fit(X[:5], y[:5], sample_weight=np.zeros(5))
    np.testing.assert_array_equal(model.coef_, before)


def test_settings_of_a_stream_are_kept():
    X, y = draw(2)
    model = fed(X, y, 500)
    with pytest.raises(ValueError, match=r"C was 1.0 when the stream began, got 2.0.*clone the estimator"):
        model.set_params(C=2.0).partial_fit(X, y)
    with pytest.raises(ValueError, match="fit_intercept was True"):
        model.set_params(C=1.0, fit_intercept=False).partial_fit(X, y)
    model.set_params(fit_intercept=True).partial_fit(X, y)
    model.fit(X, y)
    model.partial_fit(X[:, :2], y)  # after a fit a stream starts afresh, whatever its columns
    assert model.n_features_in_ == 2


def test_a_stream_of_wild_scales_survives():
    r = np.random.default_rng(0)
    X = np.column_stack([1.6e9 + 1e8 * r.normal(size=1000), r.normal(size=1000), 1e-6 * r.normal(size=1000)])
    y = np.argmax(X[:, 1:2] * [0, 1, -1] + r.gumbel(size=(1000, 3)), axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for dtype in (np.float32, np.float64):
            model = fed(X.astype(dtype), y, 125, C=1e4)
            assert model.score(X.astype(dtype), y) > 0.45
