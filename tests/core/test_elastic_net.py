"""ℓ1 and elastic-net penalties, and what certifies them: against definitions, long doubles and enumeration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import majorant
from majorant import Binary, Labelled, Multinomial, Objective, QuasiNewton
from majorant.core import certificates
from majorant.core.line_search import Point
from majorant.objective import ElasticNet, Ridge
from tests import problems
from tests.oracles import enumerate_sets

SIZES = st.floats(-5, 5).filter(lambda v: v == 0 or abs(v) > 1e-6)
VECTORS = arrays(float, 4, elements=SIZES)
RATES = arrays(float, 4, elements=st.sampled_from([0.0, 0.3, 1.0, 2.5]))


# --- the penalty ------------------------------------------------------------------------------------------


@given(theta=VECTORS, dual=VECTORS, l1=RATES, l2=RATES)
def test_values_slopes_and_conjugates_agree(theta, dual, l1, l2):
    R = ElasticNet(l1, l2, 4)
    assert R.value(theta) == pytest.approx(np.sum(l1 * abs(theta) + l2 * theta**2 / 2))
    # Fenchel–Young: R(θ) + R*(u) ≥ θᵀu, and equality where u is a subgradient.
    assert R.value(theta) + R.conjugate(dual) >= theta @ dual - 1e-9
    at = R.gradient(theta)
    assert R.value(theta) + R.conjugate(at) == pytest.approx(theta @ at, abs=1e-9)
    # The least subgradient is that of the smallest number among all.
    slope = R.slope(theta, dual)
    for share in np.linspace(-1, 1, 9):
        some = dual + l2 * theta + l1 * np.where(theta == 0, share, np.sign(theta))
        assert (abs(slope) <= abs(some) + 1e-12).all()


@given(theta=VECTORS, steps=st.floats(0.1, 3.0), l1=RATES, l2=RATES)
def test_the_proximal_point_is_a_minimum(theta, steps, l1, l2):
    R = ElasticNet(l1, l2, 4)
    x = R.proximal(theta, steps)
    slope = R.slope(x, (x - theta) / steps)
    np.testing.assert_allclose(slope, 0, atol=1e-9)


@given(theta=VECTORS, of_loss=VECTORS, l1=RATES, l2=RATES, share=st.sampled_from([0.0, 0.4, 1.0]))
def test_the_gap_is_that_of_fenchel_and_young(theta, of_loss, l1, l2, share):
    R = ElasticNet(l1, l2, 4)
    free = (l1 == 0) & (l2 == 0)
    of_loss = np.where(free, 0.0, of_loss)
    slope = R.slope(theta, of_loss)
    known = np.where((theta == 0) & (slope == 0), 0.0, of_loss)  # what a slope of zero hides has no part
    expected = R.value(theta) + R.conjugate(-share * known) + share * theta @ known
    assert R.excess(theta, slope, share=share) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    off = np.full(4, 0.01)
    if share < 1 or (l2 + free > 0).all():
        for sign in (-1, 1):
            worse = np.where(free, 0.0, known + sign * off)
            there = R.value(theta) + R.conjugate(-share * worse) + share * theta @ worse
            assert R.excess(theta, slope, off, share) >= there - 1e-9
    low, high = R.shares(theta, slope, off)
    assert 0 <= low <= high <= 1
    assert R.conjugate(-high * (1 - 1e-12) * (known + off * np.sign(known))) < np.inf


@given(theta=VECTORS, of_loss=VECTORS, l2=st.sampled_from([0.3, 2.0]))
def test_without_l1_it_is_a_ridge(theta, of_loss, l2):
    ours, ridge = ElasticNet(0.0, l2, 4), Ridge(l2, 4)
    assert ours.value(theta) == pytest.approx(ridge.value(theta))
    slope = ridge.slope(theta, of_loss)
    np.testing.assert_allclose(ours.slope(theta, of_loss), slope)
    for errors in (None, np.full(4, 0.1)):
        assert ours.excess(theta, slope, errors) == pytest.approx(ridge.excess(theta, slope, errors))


# --- certificates -----------------------------------------------------------------------------------------


def l1_problem(seed, l1, l2, *, classes=2, constant=True, soft=False, narrow=False, weighted=True):
    rng = np.random.default_rng(seed)
    t, p = 40, 6
    X = rng.normal(size=(t, p)) * np.exp(rng.normal(size=p)) + rng.normal(size=p)
    model = Binary() if classes == 2 else Multinomial(classes)
    y = rng.integers(0, classes, t)
    y[:classes] = np.arange(classes)
    if soft:
        y = rng.dirichlet(np.ones(classes), t)
    weight = rng.exponential(size=t) if weighted else None
    offset = rng.normal(size=t if classes == 2 else (t, classes)) if weighted else None
    X = X.astype(np.float32) if narrow else X
    data = Labelled(X, y, weight, offset, constant=constant, center=constant)
    one = np.append(np.ones(p), np.zeros(int(constant)))
    factors = np.tile(one, model.coefficient_rows)
    return Objective(model, data, ridge=ElasticNet(l1 * factors, l2 * factors, len(factors)))


def long_double(F, theta):
    """Return F in long double, written out."""
    theta, penalty = theta.astype(np.longdouble), F.penalty
    total = np.sum(penalty.l1 * abs(theta) + penalty.l2 * theta**2 / 2)
    for features, log_h, target, weight in enumerate_sets(F.model, F.data):
        scores = features.astype(np.longdouble) @ theta + log_h
        top = scores[np.isfinite(scores)].max()
        log_z = top + np.log(np.exp(scores - top).sum())
        total += np.longdouble(weight) * (log_z - np.sum((target * scores)[target > 0]))
    return total


def descended(F, theta, steps):
    """Return θ after so many accelerated proximal steps (FISTA with restarts)."""
    curvature = np.linalg.eigvalsh(F.hessian(np.zeros(F.size))[2].as_matrix()).max() * 2.5
    y, t, value = theta, 1.0, np.inf
    for _ in range(steps):
        here = F.point(y)
        of_loss = F.model.lift(F.model.loss_and_residual(F.model.scores(y, F.data), F.data)[1], F.data)
        new = F.penalty.proximal(y - of_loss / curvature, 1 / curvature)
        new_t = (1 + np.sqrt(1 + 4 * t * t)) / 2
        now = F.value(new)
        if now > value:
            y, t, value = theta, 1.0, F.value(theta)
            continue
        y, theta, t, value = new + (t - 1) / new_t * (new - theta), new, new_t, now
        assert here.value >= 0
    return theta


CASES = [
    {"classes": 2},
    {"classes": 3},
    {"classes": 2, "constant": False},
    {"classes": 3, "constant": False, "weighted": False},
    {"classes": 2, "soft": True},
    {"classes": 3, "soft": True},
]


@pytest.mark.parametrize(("l1", "l2"), [(1.0, 0.0), (3.0, 1e-3), (0.5, 1.0), (1e-3, 0.0)])
@pytest.mark.parametrize("case", CASES)
def test_certificates_are_never_below_the_truth(case, l1, l2):
    F = l1_problem(0, l1, l2, **case)
    best = descended(F, np.zeros(F.size), 3000)
    least = long_double(F, best)
    rng = np.random.default_rng(1)
    points = [best + 10.0**-k * rng.normal(size=F.size) * (best != 0) for k in range(1, 12, 2)]
    points += [best, np.zeros(F.size), rng.normal(size=F.size), descended(F, np.zeros(F.size), 5)]
    for theta in points:
        certificate = F.certify(theta)
        value = long_double(F, certificate.theta)
        assert 0 <= certificate.gap <= 1
        assert float(value - least) <= certificate.gap * float(value) + 1e-15
        kept = F.certify(theta, move=False)
        assert float(long_double(F, theta) - least) <= kept.gap * float(long_double(F, theta)) + 1e-15
    assert F.certify(best).gap < (1e-6 if l1 >= 0.5 else 0.5)  # steps that short are slow where rates are small


@pytest.mark.parametrize("l2", [0.0, 0.5])
def test_data_in_single_precision_are_certified_in_double(l2):
    F = l1_problem(3, 1.0, l2, narrow=True, weighted=False)
    wide = Objective(F.model, F.data.widened(), ridge=F.penalty)
    best = descended(wide, np.zeros(F.size), 3000)
    certificate = F.certify(best)
    value = long_double(wide, certificate.theta)
    assert float(value - long_double(wide, best)) <= certificate.gap * float(value) + 1e-15
    assert certificate.gap < 1e-5


@pytest.mark.parametrize(("l1", "l2"), [(0.3, 0.0), (0.3, 0.2)])
def test_chains_are_certified_against_enumeration(l1, l2):
    model, data, _ = problems.chain(np.random.default_rng(0))
    size = model.n_parameters(data)
    F = Objective(model, data, ridge=ElasticNet(l1, l2, size))
    curvature = 4.0 * float(F.hessian_diagonal(F.point(np.zeros(size))).max()) * 3

    def descended_from(theta, steps):
        for _ in range(steps):
            of_loss = model.loss_and_gradient(theta, data)[1]
            theta = F.penalty.proximal(theta - of_loss / curvature, 1 / curvature)
        return theta

    early, best = descended_from(np.zeros(size), 30), descended_from(np.zeros(size), 2000)
    least, rng = long_double(F, best), np.random.default_rng(1)
    for theta in (early, best, np.zeros(size), rng.normal(size=size), best + 1e-3 * rng.normal(size=size)):
        certificate = F.certify(theta)
        value = long_double(F, theta)
        assert float(value - least) <= certificate.gap * float(value) + 1e-13
    assert F.certify(best).gap < 1e-4


def test_at_the_least_rate_that_leaves_nothing_zero_is_certified():
    F = l1_problem(0, 1.0, 0.0, constant=False)
    most = abs(F.model.loss_and_gradient(np.zeros(F.size), F.data)[1]).max()
    assert F.with_ridge(ElasticNet(most, 0.0, F.size)).certify(np.zeros(F.size)).gap < 1e-12
    assert F.with_ridge(ElasticNet(0.9 * most, 0.0, F.size)).certify(np.zeros(F.size)).gap > 1e-6


def test_solvers_of_smooth_penalties_refuse_kinks():
    F = l1_problem(0, 1.0, 0.5)
    with pytest.raises(TypeError, match="penalties with kinks"):
        majorant.minimize(F, QuasiNewton())
    assert not certificates.suits(F)


@settings(max_examples=20)
@given(scale=st.floats(0.1, 10.0))
def test_gaps_do_not_depend_on_units(scale):
    """All weights and rates times a number: F is that many times as large, and the gap the same."""
    F = l1_problem(2, 1.0, 0.1, weighted=False)
    rows, weight = F.data.design.dense()[:, :-1], np.full(len(F.data), scale)
    other = Labelled(rows, F.data.y, weight, constant=True)
    G = Objective(F.model, other, ridge=F.penalty.scaled(scale))
    theta = 0.1 * np.arange(F.size)
    one, two = (H.certify(Point(theta, np.nan, np.empty(0))).gap for H in (F, G))
    assert one == pytest.approx(two, rel=1e-6)
