"""Certificates by self-concordance, held against optima in long double: never below the truth, and soon near it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from majorant import (
    LBFGS,
    SGD,
    BatchMajorization,
    Binary,
    Choices,
    Enumerated,
    Labelled,
    LogisticRegression,
    Multinomial,
    Newton,
    Objective,
    QuasiNewton,
    minimize,
)
from majorant.core import certificates, separation
from majorant.core.certificates import KnownHessian
from majorant.core.curvature import root_by_eigenvalues, root_by_pivots
from majorant.core.rounding import ChoiceSpreads, ClassSpreads
from majorant.objective import Point
from tests import fuzz_certificates, oracles, problems
from tests.truth import Truth, centred, drawn

# --- the truth ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", range(3))
def test_never_below_the_truth_and_finite_soon_after(part):
    silent = heard = 0
    for seed in range(150 * part, 150 * (part + 1)):
        F, rng = drawn(seed)
        if separation.find(F) is not None:  # then there is no optimum, and nothing may be certified
            assert np.isnan(F.certify(np.zeros(F.size)).gap) or F.certifiable
            continue
        truth = Truth(F)
        best = truth.optimum(np.zeros(F.size))
        lowest, classes = truth.value(best), F.model.redundancy(F.like)
        for _ in range(3):
            theta = (best + 10 ** rng.uniform(-9, 0) * rng.normal(size=F.size)).astype(float)
            value = truth.value(theta)
            true, found = float((value - lowest) / value), F.certify(theta, move=False)
            rounding = 4 * np.finfo(np.longdouble).eps
            assert not found.gap < true - rounding, seed
            if found.region is not None:
                error = np.abs(centred(theta - best, classes)).astype(float)
                assert (found.region.within(classes) >= error * (1 - 1e-9) - 1e-17).all(), seed
            tight = certificates.by_self_concordance(F, F.point(theta))
            if np.isfinite(tight.gap) and true > 1e-15:
                assert true - rounding <= tight.gap <= (1.0 if tight.gap > 1e-4 else 2.0) * max(3 * true, 1e-22)
            if true < 1e-4:
                silent, heard = silent + np.isnan(tight.gap), heard + np.isfinite(tight.gap)
            if true < 1e-7:
                assert np.isfinite(tight.gap), (seed, true)
    assert heard > 20 * silent


def test_it_tends_to_the_truth():
    F = Objective(Binary(), drawn(0)[0].data, ridge=0.0)
    truth = Truth(F)
    best = truth.optimum(np.zeros(F.size))
    for distance, within in ((1e-2, 1.3), (1e-4, 1.01), (1e-6, 1.001)):
        theta = (best + distance).astype(float)
        true = float((truth.value(theta) - truth.value(best)) / truth.value(theta))
        assert true <= F.certify(theta).gap <= within * true


@pytest.mark.parametrize("distance", [1e-3, 0.1, 0.5, 0.8])
def test_it_is_the_truth_where_nothing_could_be_said_better(distance):
    """Of a rare label F is Σ w e^u − u, whose third derivative is as large as it may be; towards it curvature falls."""
    F = Objective(Binary(), Labelled([[1.0], [1.0]], [0, 1], weight=[1e6, 1.0]), ridge=0.0)
    truth = Truth(F)
    best = truth.optimum(np.array([-13.0]))
    theta = (best - np.log1p(-distance)).astype(float)  # there a is the distance, times √p
    found, true = F.certify(theta), float((truth.value(theta) - truth.value(best)) / truth.value(theta))
    assert true <= found.gap <= 1.02 * true
    assert np.abs(theta - best)[0] <= found.region.within()[0, 0] <= 1.01 * np.abs(theta - best)[0]


@pytest.mark.parametrize("seed", range(12))
def test_a_hessian_from_nearby_certifies_as_truly(seed):
    F, rng = drawn(seed)
    F = F.with_ridge(0.1)
    truth = Truth(F)
    best = truth.optimum(np.zeros(F.size))
    theta = (best + 1e-5 * rng.normal(size=F.size)).astype(float)
    for far in (0.0, 1e-3, 0.1, 3.0):
        nearby = theta + far * rng.normal(size=F.size)
        known = KnownHessian(nearby, F.hessian(nearby)[2].as_matrix())
        found = certificates.by_self_concordance(F, F.point(theta), known=known)
        true = float((truth.value(theta) - truth.value(best)) / truth.value(theta))
        assert true <= found.gap <= 4 * true
        assert (found.region.within() >= np.abs(theta - best).astype(float)).all()


@pytest.mark.parametrize("seed", range(24))
def test_some_of_the_rows_certify_as_truly(seed):
    F, rng = drawn(seed)
    F = F.with_ridge(0.1 if seed % 2 else 0.0)
    if separation.find(F) is not None:
        return
    truth = Truth(F)
    best = truth.optimum(np.zeros(F.size))
    theta = (best + 1e-6 * rng.normal(size=F.size)).astype(float)
    true = float((truth.value(theta) - truth.value(best)) / truth.value(theta))
    whole = certificates.by_self_concordance(F, F.point(theta))
    for share in (0.9, 0.6, 0.4):
        found = certificates.by_self_concordance(F, F.point(theta), share=share)
        assert true <= found.gap <= 100 * true
        assert found.gap >= whole.gap * (1 - 1e-9)
        error = np.abs(centred(theta - best, F.model.redundancy(F.like))).astype(float)
        assert (found.region.within(F.model.redundancy(F.like)) >= error).all()


def test_rows_that_leave_a_direction_open_are_not_enough():
    """A column that few rows have: without them nothing is known of it, and more rows are asked."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=400), np.zeros(400)])
    X[:4, 1] = [1.0, -1.0, 0.5, 1.0]
    F = Objective(Binary(), Labelled(X, np.concatenate([[1, 1, 0, 0], rng.integers(2, size=396)])), ridge=0.0)
    best = minimize(F, Newton()).params
    taken = F.data.sample(40, seed=0)
    assert not taken.design.dense()[:, 1].any()
    found = certificates.by_self_concordance(F, F.point(best), share=0.1)
    assert found.region.share == 0.4
    assert np.isfinite(found.region.within()).all()


def test_long_fits_are_certified_by_some_of_the_rows():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20_000, 12))
    y = (X @ rng.normal(size=(12, 8)) + rng.gumbel(size=(20_000, 8))).argmax(axis=1)
    F = Objective(Multinomial(8), Labelled(X, y), ridge=0.0)
    found = minimize(F, LBFGS())
    assert "% of the rows would have them); a unique maximum-likelihood estimate exists (proved)" in str(found.result)
    best = minimize(F, Newton(), tol=1e-15, gradient_tol=1e-14).params
    error = np.abs(centred(found.params - best, 8))
    assert (error <= found.certificate.region.within(8)).all()
    assert F.value(found.params) - F.value(best) <= found.result.gap * F.value(best) <= 1e-8 * F.value(best)


@pytest.mark.parametrize("part", range(3))
def test_small_problems_stopped_anywhere_are_never_certified_below_the_truth(part):
    kinds = {fuzz_certificates.judge(seed) for seed in range(40 * part, 40 * (part + 1))}
    assert kinds >= {"separated", "certified"}


# --- spreads ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_spreads_are_those_of_all_pairs_to_a_factor_of_two(seed):
    F, rng = drawn(seed)
    truth, R = Truth(F), rng.normal(size=(F.size, int(rng.integers(1, 5))))
    V, counts = (truth.Φ @ R).astype(float), (truth.weight > 0) & ~np.isneginf(truth.log_h + np.zeros(len(truth.row)))
    largest = 0.0
    for j in range(truth.rows):
        of_row = V[(truth.row == j) & counts]
        largest = max([largest, *(float(np.linalg.norm(a - b)) for a in of_row for b in of_row)])
    found = F.model.spreads(R, F.like)
    assert isinstance(found, ClassSpreads | ChoiceSpreads)
    exact, coarse = found.exact(F.whole), found.coarse(F.whole)
    assert largest * (1 - 1e-12) <= exact <= 2 * largest + 1e-12
    assert exact <= 2 * coarse + 1e-12
    assert largest <= coarse * (1 + 1e-12)


# --- what is said of it ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", [QuasiNewton(), Newton(), LBFGS(), BatchMajorization(), SGD(gain=1e-2)], ids=str)
@pytest.mark.parametrize("steps", [1, 3, 30])
def test_runs_without_a_penalty_are_certified_wherever_they_stop(solver, steps):
    F = problems.make(problems.multinomial)
    F = Objective(F.model, F.data, ridge=0.0)
    best = oracles.optimum(F)
    found = minimize(F, solver, max_steps=steps, tol=1e-10)
    value = F.value(found.params)
    assert np.isnan(found.result.gap) or found.result.gap >= (value - best) / value - 1e-12
    if steps == 30 and not isinstance(solver, SGD):
        assert found.result.gap <= 1e-8
        assert "a unique maximum-likelihood estimate exists (proved)" in str(found.result)
        assert "standard errors of the optimum" in str(found.result)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("C", [1.0, np.inf])
def test_coefficients_are_as_near_to_the_optimum_as_they_are_said_to_be(classes, dtype, C):
    rng = np.random.default_rng(1)
    X = (rng.normal(size=(400, 4)) * [1, 10, 0.1, 1] + [0, 100, 0, 3]).astype(dtype)
    y = rng.integers(0, classes, size=400)
    rough, exact = LogisticRegression(C=C, tol=1e-4).fit(X, y), LogisticRegression(C=C, tol=1e-15)
    with np.errstate(all="ignore"):
        exact = exact.set_params(solver="newton").fit(X.astype(float), y)
    assert rough.coef_error_.shape == rough.coef_.shape
    assert rough.intercept_error_.shape == rough.intercept_.shape
    assert (np.abs(rough.coef_ - exact.coef_) <= rough.coef_error_ + exact.coef_error_).all()
    assert (np.abs(rough.intercept_ - exact.intercept_) <= rough.intercept_error_ + exact.intercept_error_).all()
    if np.isinf(C):
        assert np.isfinite(rough.coef_error_).all()
        assert np.isfinite(rough.intercept_error_).all()


def test_a_stream_says_nothing_of_its_coefficients():
    X, y = np.random.default_rng(0).normal(size=(50, 2)), np.arange(50) % 2
    model = LogisticRegression(C=np.inf).fit(X, y)
    assert hasattr(model, "coef_error_")
    model.set_params(C=1.0).partial_fit(X, y, classes=[0, 1])
    assert not hasattr(model, "coef_error_")


def test_where_everything_is_flat_nothing_is_known_of_any_coefficient():
    F = Objective(Enumerated(), Choices([[1.0], [1.0], [2.0]], [2, 1], chosen=[0, 0]), ridge=0.0)
    found = certificates.by_self_concordance(F, F.point([0.5]))
    assert np.isinf(found.region.within()).all()


def test_a_column_of_one_number_stops_nothing():
    """Measured from its mean it is zero, and so is its curvature."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(400, 2)), np.full(400, 3.0)])
    model = LogisticRegression(C=np.inf).fit(X, (X[:, :1] + rng.gumbel(size=(400, 3))).argmax(axis=1))
    assert model.result_.converged
    assert "but those of column 2, which changes no probability: the maximum-likelihood estimate" in str(model.result_)
    np.testing.assert_array_equal(np.isinf(model.coef_error_), [[False, False, True]] * 3)


def test_columns_that_depend_on_each_other_are_named():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    X[:, 3] = X[:, 0] - 2 * X[:, 1]
    model = LogisticRegression(C=np.inf).fit(X, rng.integers(0, 2, 200))
    assert "columns 0, 1, 3, which depend on each other" in str(model.result_)
    assert "exists (proved), but is not unique" in str(model.result_)
    np.testing.assert_array_equal(np.isinf(model.coef_error_[0]), [True, True, False, True])


def test_a_model_that_is_not_known_to_be_self_concordant_gets_no_such_certificate():
    class Tempered(Binary):
        """What derives from a model may be anything."""

    F, _ = drawn(0)
    assert certificates.suits(F)
    assert not certificates.suits(Objective(Tempered(), F.data, ridge=F.ridge))
    assert not certificates.suits(F, largest=F.size - 1)


@pytest.mark.parametrize("seed", [50631, 52056])
def test_hessians_near_the_least_numbers_say_nothing_and_warn_of_nothing(seed):
    """Offsets of ±700 leave curvatures of 1e-310, whose inverses have no squares."""
    assert fuzz_certificates.judge(seed) == "stalled, not certified"


@pytest.mark.parametrize("seed", [190632, 301839])
def test_the_reference_knows_how_far_it_can_be_relied_on(seed):
    """Columns that vary in their last digits depend on the intercept; and last digits of F hide where it is least."""
    assert fuzz_certificates.judge(seed) == "certified"


@pytest.mark.parametrize("curvature", [1e-300, 1e-310, 5e-324])
def test_an_inverse_without_squares_says_nothing(curvature):
    F = Objective(Binary(), Labelled(np.array([[1.0], [2.0]]), [0, 1]), ridge=0.0)
    at = Point(np.zeros(1), 1.0, np.array([1e20]))
    found = certificates.by_self_concordance(
        F, at, known=KnownHessian(np.zeros(1), np.array([[curvature]])), settle=1.0
    )
    assert np.isnan(found.gap)
    assert found.decrement == np.inf


def test_rounding_errors_of_a_hessian_silence_it():
    X = np.array([[1.0, 1.0 + 1e-9], [2.0, 2.0 - 1e-9], [-1.0, -1.0], [0.5, 0.5]])
    F = Objective(Binary(), Labelled(X, [1, 0, 0, 1]), ridge=0.0)
    assert np.isnan(F.certify(np.zeros(2)).gap)


@pytest.mark.parametrize("tol", [1e-3, 1e-2])
def test_it_is_not_looked_for_where_a_fit_begins_of_which_nothing_is_known(tol, monkeypatch):
    looks = []
    certify = certificates.by_self_concordance
    monkeypatch.setattr(
        certificates, "by_self_concordance", lambda F, at, **how: looks.append(at) or certify(F, at, **how)
    )
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = X @ [3.0, -2.0, 1.0, 0.0] + rng.logistic(size=300) > 0
    LogisticRegression(tol=tol, C=10.0).fit(X, y)
    assert all(at.theta[:-1].any() for at in looks)


def test_what_is_known_of_a_point_need_not_be_found_again():
    F, rng = drawn(3)
    F = F.with_ridge(1.0)
    point = F.point(rng.normal(size=F.size))
    bare = replace(point, scores=None)
    assert certificates.by_self_concordance(F, point).decrement == pytest.approx(
        certificates.by_self_concordance(F, bare).decrement
    )
    assert isinstance(bare, Point)


@pytest.mark.parametrize("seed", range(5))
def test_pivots_measure_what_eigenvalues_do(seed):
    rng = np.random.default_rng(seed)
    d, rank = 12, int(rng.integers(1, 12))
    X = rng.normal(size=(60, rank)) @ np.eye(rank, d)
    X[:, rank:] = X[:, : min(2, rank)] @ rng.integers(-2, 3, size=(min(2, rank), d - rank))  # all depend on two
    scale = np.linalg.norm(X, axis=0)
    X = X / np.where(scale > 0, scale, 1.0)
    A, ones = X.T @ X, np.ones(d)
    (root, flat), (of_eigenvalues, _) = (how(A) for how in (root_by_pivots, root_by_eigenvalues))
    assert root.shape == of_eigenvalues.shape == (d, rank)
    np.testing.assert_allclose(X @ flat, 0.0, atol=1e-9)
    assert np.linalg.matrix_rank(flat) == d - rank
    # Rows have no part in flat directions: they are as long in both metrics.
    np.testing.assert_allclose(*(np.linalg.norm(X @ each, axis=1) for each in (root, of_eigenvalues)), rtol=1e-8)
    np.testing.assert_allclose(np.linalg.norm(root.T @ (A @ ones)), np.sqrt(ones @ A @ ones), rtol=1e-8)


def test_pivots_say_nothing_where_a_column_nearly_depends_on_others():
    X = np.random.default_rng(0).normal(size=(50, 3))
    X = np.column_stack([X, X[:, 0] + 1e-5 * X[:, 1] ** 2])
    A = X.T @ X
    scale = np.sqrt(np.diag(A))
    assert root_by_pivots(A / np.outer(scale, scale)) is None


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_estimates_without_a_penalty_settle(seed, classes):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3000, 6)) * 10 ** rng.uniform(-1, 1, size=6)
    y = (X / X.std(axis=0) @ rng.normal(size=(6, classes)) + 3 * rng.gumbel(size=(3000, classes))).argmax(axis=1)
    model = LogisticRegression(C=np.inf).fit(X, y)
    assert newton_decrement(model, np.column_stack([X, np.ones(3000)]), y, classes) <= 1e-6
    assert model.coef_error_.max() / model.summary(X, y).std_errors.max() <= 1e-6


def newton_decrement(model, X, y, classes):
    """Return ‖∇F‖ in the metric of H⁻¹: about how many standard errors a coefficient is off at most."""
    W = np.column_stack([model.coef_, model.intercept_])
    S = X @ (W if classes > 2 else np.vstack([0 * W, W])).T
    P = np.exp(S - S.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    g = ((P - np.eye(classes)[y])[:, 1:, None] * X[:, None]).sum(axis=0).ravel()  # the first class stands for all
    B = np.einsum("jc,cd->jcd", P, np.eye(classes)) - P[:, :, None] * P[:, None]
    H = np.einsum("jcd,ji,jk->cidk", B[:, 1:, 1:], X, X).reshape(len(g), len(g))
    return float(np.sqrt(g @ np.linalg.solve(H, g)))


def test_what_rounding_hides_is_not_looked_for_again(monkeypatch):
    looks = []
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    y = (X[:, 0] + rng.logistic(size=3000) > 0).astype(int)
    F = Objective(Binary(), Labelled(X, y), ridge=0.0)
    certify = certificates.by_self_concordance

    def hidden(*args, **settings):
        looks.append(1)
        return replace(certify(*args, **settings), gap=np.nan, region=None, decrement=np.inf)

    monkeypatch.setattr(certificates, "by_self_concordance", hidden)
    # A small gradient is then no sign of an optimum.
    assert minimize(F, QuasiNewton()).result.outcome.value == "stalled"
    assert len(looks) == 1
