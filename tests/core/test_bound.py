"""The public bound: valid everywhere, touching at the anchor, in any order of outcomes."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from majorant import QuadraticBound, log_partition_bound
from majorant.core.kernels.partition import ORDERS
from majorant.curvature import Dense
from tests import oracles


@st.composite
def outcome_sets(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, d = draw(st.integers(1, 9)), draw(st.integers(1, 5))
    scale = 10.0 ** draw(st.floats(-3, 2))
    features = scale * rng.normal(size=(n, d))
    log_h = rng.normal(size=n) * draw(st.sampled_from([0.0, 1.0, 10.0]))
    impossible = rng.uniform(size=n) < draw(st.sampled_from([0.0, 0.4]))
    impossible[rng.integers(n)] = False
    log_h[impossible] = -np.inf
    return rng, features, log_h


@settings(max_examples=300, deadline=None)
@given(outcome_sets(), st.sampled_from(ORDERS), st.floats(-2, 3))
def test_bound_holds_everywhere_and_touches_at_the_anchor(problem, order, log_distance):
    rng, features, log_h = problem
    anchor = rng.normal(size=features.shape[1])
    bound = log_partition_bound(anchor, features, log_h, order)
    assert bound(anchor) == pytest.approx(oracles.log_partition(anchor, features, log_h), rel=1e-12, abs=1e-12)
    for _ in range(20):
        theta = anchor + 10.0**log_distance * rng.normal(size=len(anchor))
        exact = oracles.log_partition(theta, features, log_h)
        assert bound(theta) >= exact - 1e-9 * max(1.0, abs(exact))


@settings(max_examples=100, deadline=None)
@given(outcome_sets(), st.sampled_from(ORDERS))
def test_slope_at_the_anchor_is_that_of_log_z(problem, order):
    rng, features, log_h = problem
    features = features / np.abs(features).max()
    anchor = rng.normal(size=features.shape[1])
    bound = log_partition_bound(anchor, features, log_h, order)
    slope = oracles.finite_difference(lambda theta: oracles.log_partition(theta, features, log_h), anchor)
    np.testing.assert_allclose(bound.gradient, slope, atol=1e-7)


@settings(max_examples=100, deadline=None)
@given(outcome_sets(), st.sampled_from(ORDERS))
def test_equals_algorithm_1_as_printed(problem, order):
    rng, features, log_h = problem
    anchor = rng.normal(size=features.shape[1])
    scores = features @ anchor + log_h
    visit = {"given": np.arange(len(scores)), "descending": np.argsort(-scores, kind="stable")}
    visit["ascending"] = np.argsort(scores, kind="stable")
    log_z, g, Sigma = oracles.naive_bound(anchor, features, log_h, visit[order])
    bound = log_partition_bound(anchor, features, log_h, order)
    size = np.abs(features).max()
    np.testing.assert_allclose(bound.value, log_z, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(bound.gradient, g, rtol=1e-9, atol=1e-9 * size)
    np.testing.assert_allclose(bound.curvature.as_matrix(), Sigma, rtol=1e-9, atol=1e-9 * size**2)


def test_descending_order_is_tighter_than_ascending():
    rng = np.random.default_rng(0)
    ratio = []
    for _ in range(200):
        features, theta = rng.normal(size=(6, 4)), rng.normal(size=4)
        down, up = (
            np.trace(log_partition_bound(theta, features, order=o).curvature.as_matrix())
            for o in ("descending", "ascending")
        )
        ratio.append(down / up)
    assert np.mean(ratio) < 0.95


@pytest.mark.parametrize("order", ORDERS)
def test_scores_of_ten_thousand_are_fine(order):
    features = np.array([[1e4], [-1e4], [0.0], [9.9e3]])
    bound = log_partition_bound([1.0], features, order=order)
    assert bound.value == pytest.approx(1e4)
    assert np.isfinite(bound.curvature.as_matrix()).all()
    for theta in (-3.0, -1.0, 0.0, 0.999, 1.001, 2.0):
        assert bound([theta]) >= oracles.log_partition(np.array([theta]), features) - 1e-6


def test_bounds_with_the_same_anchor_add():
    rng = np.random.default_rng(1)
    first, second, theta, anchor = rng.normal(size=(5, 3)), rng.normal(size=(2, 3)), rng.normal(size=3), np.ones(3)
    total = log_partition_bound(anchor, first) + log_partition_bound(anchor, second)
    apart = log_partition_bound(anchor, first)(theta) + log_partition_bound(anchor, second)(theta)
    assert total(theta) == pytest.approx(apart, rel=1e-12)
    with pytest.raises(ValueError, match="same anchor"):
        total + log_partition_bound(theta, first)


def test_minimizer_has_zero_slope():
    rng = np.random.default_rng(2)
    features = rng.normal(size=(6, 3))
    bound = log_partition_bound(rng.normal(size=3), features)
    best = bound.minimizer()
    assert all(bound(best) <= bound(best + 1e-3 * rng.normal(size=3)) for _ in range(50))


def test_a_bound_refuses_parameters_of_another_shape():
    bound = log_partition_bound([0.0, 0.0], np.eye(2))
    for wrong in (0.0, [1.0], np.zeros((2, 1))):
        with pytest.raises(ValueError, match=r"theta must have shape \(2,\)"):
            bound(wrong)


def test_sparse_features_are_fine():
    features = np.array([[1.0, 0.0], [0.0, 2.0]])
    sparse = log_partition_bound([0.3, 0.1], sp.csr_array(features))
    np.testing.assert_array_equal(sparse.gradient, log_partition_bound([0.3, 0.1], features).gradient)


def test_a_curvature_that_does_not_majorize_is_no_bound():
    with pytest.raises(ValueError, match="no bound"):
        QuadraticBound(np.zeros(1), 0.0, np.zeros(1), Dense(np.eye(1), majorizes=False))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(theta=[0.0], features=[[1.0, 2.0]]), r"features must have one column per parameter \(1\), got 2"),
        (dict(theta=[np.nan], features=[[1.0]]), "theta must be finite, got nan at 0"),
        (dict(theta=[0.0], features=[[np.inf]]), r"features must be finite, got inf at \(0, 0\)"),
        (dict(theta=[0.0], features=np.zeros((0, 1))), "outcome set is empty"),
        (dict(theta=[0.0], features=[["a"]]), "features must be numeric"),
        (dict(theta=[[0.0]], features=[[1.0]]), "theta must be 1-dimensional"),
        (dict(theta=[0.0], features=[[1.0]], log_measure=[-np.inf]), "at least one outcome possible"),
        (dict(theta=[0.0], features=[[1.0]], log_measure=[np.inf]), "log_measure must be finite, got inf"),
        (dict(theta=[0.0], features=[[1.0]], log_measure=[0.0, 0.0]), "one entry per outcome"),
        (dict(theta=[0.0], features=[[1.0]], order="random"), "order must be one of 'descending'"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        log_partition_bound(**arguments)
