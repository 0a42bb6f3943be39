"""Dual coordinate descent against root finding, the primal optimum, and duplicated rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import expit, softmax

from majorant import Binary, Labelled, LogisticRegression, Multinomial, Newton, Objective, QuasiNewton, minimize
from majorant.core import dual
from majorant.core.kernels import dual as kernels
from tests.kernel_oracles import logistic_step


@settings(deadline=None)
@given(st.floats(-500, 500), st.floats(0, 1), st.floats(1e-6, 1e18))
@example(0.0, 0.0, 7000.0)  # a first visit to a long row
@example(-30.0, 1.0, 1e12)
@example(0.3, 0.5, 2.0)
@example(24.0, 0.0, 8434783771247037.0)
def test_a_logistic_step_solves_its_equation(u, a, q):
    c = u - q * a
    found, slope = kernels.logistic_step(u, c, q)
    v = -logistic_step(-c, q)
    # c and q are known to a relative 1e-16 only, and so is what is left of c + q a.
    slack = 1e-15 * (abs(c) + q) / (1 + q * expit(v) * expit(-v))
    nearby = expit(-v - np.array([-1, 1]) * (1e-4 + slack))
    assert nearby[1] <= found * (1 + 1e-6)
    assert found <= nearby[0] * (1 + 1e-6)
    assert slope <= 0.25 + 1e-15


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 6), st.floats(-4, 5), st.floats(-1, 2.5))
def test_a_softmax_step_solves_its_equation(seed, n, log_q, log_spread):
    rng = np.random.default_rng(seed)
    q, s = 10**log_q, 10**log_spread * rng.normal(size=n)
    p_before = rng.dirichlet(np.ones(n))
    c = s + q * p_before
    v = s - np.logaddexp.reduce(s)
    kernels.softmax_step(c, q, v, np.logaddexp.reduce(s))
    p = np.exp(v)
    assert p.sum() == pytest.approx(1.0)
    # log p + q p = c − log Z with one log Z for all: those that matter agree on it.
    log_z = c - v - q * p
    assert np.ptp(log_z[p > 1e-9]) <= 1e-3 + 1e-8 * (q + np.abs(c).max())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_loss_at_zero_is_what_the_objective_says(n, weighted):
    X, y = wide(n, t=50, p=60)
    weight = np.random.default_rng(0).uniform(size=50) if weighted else None
    F = Objective(Binary() if n == 1 else Multinomial(n), Labelled(X, y, weight), ridge=1.0)
    assert F.value_at_zero() == pytest.approx(F.value(np.zeros(F.size)), rel=1e-12)


def wide(n, seed=0, t=500, p=1_000):
    rng = np.random.default_rng(seed)
    X = sp.csr_array(rng.normal(size=(t, p)) * (rng.uniform(size=(t, p)) < 0.02))
    score = X @ rng.normal(size=(p, n)) * 2
    y = (score[:, 0] > 0).astype(int) if n == 1 else score.argmax(axis=1)
    return X, y


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("ridge", [1.0, "by column"])
def test_sweeps_reach_the_optimum_and_keep_residuals_and_coefficients_together(n, ridge):
    X, y = wide(n)
    each = np.linspace(0.5, 2.0, X.shape[1]) if ridge == "by column" else np.ones(X.shape[1])
    weight = np.random.default_rng(1).uniform(0, 2, size=len(y))
    model = Binary() if n == 1 else Multinomial(n)
    F = Objective(model, Labelled(X, y, weight), ridge=np.tile(each, n))
    state = dual.begin(F)
    for _ in range(20):
        state = dual.sweep(F, state, seed=0)
    optimum = minimize(F, Newton() if n == 1 else QuasiNewton(), tol=1e-13).trace["objective"][-1]
    assert F.value(state.theta) == pytest.approx(optimum, rel=1e-9)
    implied = -(X.T @ state.residual) / each[:, None]
    np.testing.assert_allclose(state.theta.reshape(n, -1), implied.T, atol=1e-9)
    scores = X @ state.theta.reshape(n, -1).T
    p = expit(scores) if n == 1 else softmax(scores, axis=1)
    target = y[:, None] if n == 1 else np.eye(n)[y]
    np.testing.assert_allclose(state.residual, weight[:, None] * (p - target), atol=1e-4)


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize(("of_intercept", "centred"), [(0.0, False), (0.0, True), (0.3, False)])
def test_sweeps_alone_reach_the_optimum_of_an_intercept(n, of_intercept, centred):
    X, y = wide(n)
    y[:150] = 0  # classes are not balanced
    X = sp.csr_array(sp.hstack([X, np.full((500, 1), 3.0)])) if centred else X
    each = np.append(np.ones(X.shape[1]), of_intercept)
    model = Binary() if n == 1 else Multinomial(n)
    centre = np.append(np.zeros(X.shape[1] - 1), 3.0) if centred else False
    F = Objective(model, Labelled(X, y, constant=True, center=centre), ridge=np.tile(each, n))
    state = dual.begin(F)
    assert state.is_free == (of_intercept == 0)
    for _ in range(3):
        state = dual.sweep(F, state, seed=0)
        assert state.contracts
    optimum = minimize(F, QuasiNewton(curvature="kronecker"), tol=1e-11).trace["objective"][-1]
    assert F.value(state.theta) == pytest.approx(optimum, rel=1e-7)


def test_sweeps_go_on_until_a_look_is_worth_it_and_no_longer_than_they_contract():
    X, y = wide(1)
    alike = sp.csr_array(X + 0.3 * sp.csr_array(np.ones((500, 1)) @ X[[0]].toarray()))
    quick, slow = (Objective(Binary(), Labelled(each, y), ridge=0.1) for each in (X, alike * 30))
    first = dual.sweep(quick, dual.begin(quick), seed=0)
    assert first.contracts
    assert dual.left(first.gains) <= dual.WORTH_A_LOOK
    assert quick.work.passes == first.sweeps
    again = dual.sweep(quick, first, seed=0)
    assert dual.left(again.gains) <= dual.LESS * dual.left(first.gains)
    assert again.sweeps < 2 * first.sweeps
    left = dual.sweep(slow, dual.begin(slow), seed=0)
    assert not left.contracts
    assert left.sweeps < 20


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("form", ["sparse", "intercept"])
def test_wide_data_start_in_the_dual_and_end_at_the_optimum(n, form):
    X, y = wide(n)
    free = form == "intercept"
    F = Objective(
        Binary() if n == 1 else Multinomial(n),
        Labelled(X, y, constant=free),
        ridge=np.tile(np.append(np.full(1_000, 0.1), [0.0] * free), n),
    )
    assert isinstance(QuasiNewton().start(F, np.zeros(F.size)).continuation, dual.Dual)
    solution = minimize(F, QuasiNewton(), tol=1e-9)
    assert solution.result.converged
    best = minimize(F, QuasiNewton(curvature="kronecker"), tol=1e-10).trace["objective"][-1]
    assert F.value(solution.params) == pytest.approx(best, rel=1e-8)


def test_soft_labels_and_offsets_do_without():
    X, y = wide(1)
    plain = Objective(Binary(), Labelled(X, y), ridge=1.0)
    assert dual.suits(plain)
    assert not dual.suits(Objective(Binary(), Labelled(X.toarray(), y), ridge=1.0))
    assert not dual.suits(Objective(Binary(), Labelled(X[:, :900], y), ridge=1.0))
    assert not dual.suits(Objective(Binary(), Labelled(X, y), ridge=0.0))
    assert not dual.suits(Objective(Binary(), Labelled(X, y, offset=np.ones(500)), ridge=1.0))
    assert not dual.suits(Objective(Binary(), Labelled(X, np.column_stack([1 - y, y]) * 1.0), ridge=1.0))


def test_the_estimator_uses_it_and_repeats_itself():
    X, y = wide(4)
    first, second = (LogisticRegression(C=0.5).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert first.gap_ <= 1e-6


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("C", [1e4, 1e8])
def test_a_weak_penalty_does_not_lead_astray(n, C):
    X, y = wide(n)
    y = np.where(np.random.default_rng(3).uniform(size=len(y)) < 0.1, 0, y)
    F = Objective(Binary() if n == 1 else Multinomial(n), Labelled(X, y), ridge=1 / C)
    trace = minimize(F, QuasiNewton(), tol=1e-4, max_steps=2000).trace
    best = minimize(F, QuasiNewton(curvature="kronecker"), tol=1e-4, max_steps=4000).trace["objective"][-1]
    assert trace["objective"][-1] <= 1.001 * best


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("scale", [1e9, 1e160])
def test_a_row_on_another_scale_does_not_lead_astray(n, scale):
    X, y = wide(n)
    X = sp.diags_array(np.where(np.arange(500) == 0, scale, 1.0)) @ X
    F = Objective(Binary() if n == 1 else Multinomial(n), Labelled(X, y), ridge=1.0)
    solution = minimize(F, QuasiNewton(), tol=1e-3, max_steps=300)
    assert np.isfinite(solution.params).all()
    # Squares of 1e160 overflow: then to say so at zero is all that can be done.
    assert F.value(solution.params) <= (1.0 if scale == 1e160 else 0.9) * F.value(np.zeros(F.size))


def test_rows_that_are_all_huge():
    X, y = wide(1)
    F = Objective(Binary(), Labelled(X * 1e9, y), ridge=1.0)
    assert minimize(F, QuasiNewton(), max_steps=300).trace["objective"][-1] < 1e-3 * F.value(np.zeros(F.size))
