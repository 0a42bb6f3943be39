"""When a curvature is bought, and what steps and starts around it do."""

from dataclasses import dataclass
from math import exp

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax

from majorant import Binary, Labelled, LogisticRegression, Multinomial, Newton, Objective, QuasiNewton, minimize
from majorant.curvature import Kronecker
from majorant.solvers import preconditioners
from majorant.solvers.preconditioners import DiagonalOfHessian, GramOfColumns, HessianOfAll, _speaks_for_all
from majorant.solvers.prices import Prices, pays_in_single_precision
from majorant.solvers.renting import Lease, Market, market_for

PRICES = Prices(rows=100_000, classes=1, columns=10, stored=10.0, sparse=False)


@dataclass(frozen=True)
class Offer:
    """One that costs so many steps."""

    quality: int
    steps: float

    more: float = 0.0

    def price(self, prices):
        return self.steps * prices.whole_step()

    def upkeep(self, prices):
        return self.more * prices.whole_step()


def leased(quality, gains=(), made_at=0, times=1):
    return Lease(quality, made_at, times, tuple(gains))


def spent(offers, step, rate, *, made_at=0, quality=0, times=1):
    """What is due when every step has shrunk the gain by e^−rate, F being 1."""
    gains = [exp(-rate * k) for k in range(made_at, step)]
    return Market.of(offers, PRICES).due(leased(quality, gains, made_at, times), step, 1.0)


def test_the_first_is_the_best_that_is_next_to_free():
    cheap, better, dear = Offer(0, 0.1), Offer(1, 0.4), Offer(4, 0.6)
    assert Market.of((cheap, better, dear), PRICES).due(Lease(), 0, 1.0) is better
    assert Market.of((cheap, dear), PRICES).due(Lease(), 0, 1.0) is cheap
    assert Market.of((Offer(0, 2.0), dear), PRICES).due(Lease(), 0, 1.0) is dear  # which is not even dearer


def test_a_hessian_of_small_data_is_the_first_and_found_again_at_every_step():
    """It saves steps for certain: twice what nobody would notice is paid for it, but not for a Gram matrix."""
    small = Prices(rows=100, classes=1, columns=5, stored=5.0, sparse=False)
    diagonal, gram, hessian = Offer(0, 0.2), Offer(2, 1.5), Offer(4, 1.5)
    assert 1.0 / 1.5 < Market.of((hessian,), small).unnoticed < 1.5
    market = Market.of((diagonal, gram, hessian), small)
    assert market.due(Lease(), 0, 1.0) is hessian
    assert market.due(leased(4, [1.0]), 1, 1.0) is hessian
    assert Market.of((diagonal, gram), small).due(Lease(), 0, 1.0) is diagonal
    assert Market.of((diagonal, Offer(4, 2.5)), small).due(Lease(), 0, 1.0) is diagonal


def test_correlations_are_not_looked_at_where_a_hessian_is_bought_anyway():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(9_000, 60)), rng.integers(0, 2, 9_000)
    F, large = (Objective(Binary(), Labelled(X[:t], y[:t]), ridge=1.0) for t in (1_000, 9_000))
    offers = [DiagonalOfHessian(), GramOfColumns(), HessianOfAll()]
    assert market_for(offers, F, products=True).excess is None
    assert "correlation" not in vars(F.facts)
    assert market_for(offers, large, products=True).excess is not None


def test_what_makes_every_step_twice_as_dear_is_for_those_who_have_nothing_else():
    cheap, dear = Offer(0, 1.0), Offer(2, 5.0, more=1.5)
    assert Market.of((cheap, dear), PRICES).offers == (cheap,)
    assert Market.of((dear,), PRICES).offers == (dear,)


def test_a_dearer_one_is_bought_when_the_rent_has_come_to_its_price_and_not_before():
    offers = (Offer(0, 1.0), Offer(4, 20.0))
    due_at = [step for step in range(1, 60) if spent(offers, step, rate=0.3) is offers[1]]
    assert due_at[0] == 20
    slow = [step for step in range(1, 60) if spent(offers, step, rate=0.01) is offers[1]]
    assert slow[0] == 10  # there is much more to do than it costs


def test_nothing_is_bought_where_little_is_left_to_do():
    offers = (Offer(0, 1.0), Offer(4, 5.0))
    assert all(spent(offers, step, rate=4.0) is not offers[1] for step in range(1, 10))


def test_a_hessian_waits_where_a_diagonal_of_independent_columns_serves():
    offers, gains = (Offer(0, 1.0), Offer(4, 3.0)), [exp(-k) for k in range(4)]
    for excess, due in ((None, offers[1]), (5.0, offers[1]), (0.0, offers[0])):  # found again
        assert Market.of(offers, PRICES, excess=excess).due(leased(0, gains), 4, 1.0) is due
    # Between classes there is what columns do not tell of; and steps may tell that they were wrong.
    assert Market.of((Offer(1, 1.0), offers[1]), PRICES, excess=0.0).due(leased(1, gains), 4, 1.0) is offers[1]
    slowly = [exp(-0.5 * k) for k in range(10)]
    assert Market.of(offers, PRICES, excess=0.0).due(leased(0, slowly), 10, 1.0) is offers[1]


def test_never_more_than_twice_the_price_is_spent_before_it_is_paid():
    """Whatever the price, and however long it takes."""
    for price in (1.0, 7.0, 33.0, 150.0):
        offers = (Offer(0, 1.0), Offer(4, price))
        first = next(step for step in range(1, 1_000) if spent(offers, step, rate=1e-4) is offers[1])
        assert price / 2 <= first <= price + 1


def test_renewals_come_more_and_more_rarely_but_for_a_hessian():
    offers = (Offer(0, 1.0),)
    assert spent(offers, 3, rate=0.1) is None
    assert spent(offers, 4, rate=0.1) is offers[0]
    assert spent(offers, 11, rate=0.1, made_at=4, times=2) is None
    assert spent(offers, 12, rate=0.1, made_at=4, times=2) is offers[0]
    hessian = (Offer(4, 0.5),)
    assert spent(hessian, 9, rate=0.1, made_at=7, times=5, quality=4) is hessian[0]


def test_prices_grow_with_the_data_and_count_what_is_stored():
    few, tall, wide = Prices(10**3, 1, 10, 10.0, False), PRICES, Prices(10**5, 1, 100, 100.0, False)
    assert few.step() < tall.step() < wide.step()
    assert few.hessian(10**3) < tall.hessian(10**5) < wide.hessian(10**5)
    sparse = Prices(10**5, 1, 100, 1.0, True)
    assert sparse.step() < wide.step()
    assert sparse.gram(10**5) < wide.gram(10**5)


def test_a_gram_matrix_of_small_data_costs_no_less_than_the_hessian():
    """What makes it takes longer to call; of many rows it is found in single precision, or from some of them."""
    for rows, columns in ((300, 5), (500, 50), (2_000, 20)):
        small = Prices(rows, 1, columns, columns, False)
        assert small.gram(rows) > small.hessian(rows)
    assert PRICES.gram(10**5) < PRICES.hessian(10**5)
    many, few = Prices(1_000, 60, 4, 4.0, False), Prices(1_000, 4, 60, 60.0, False)
    assert many.hessian(1_000) < 0.6 * 60 * 61 / 2 * Prices(1_000, 1, 4, 4.0, False).hessian(1_000)
    assert few.hessian(1_000) > 10 * Prices(1_000, 1, 60, 60.0, False).hessian(1_000)


def generated(t, p, n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(t, p)) * np.exp(rng.normal(size=p)) + rng.normal(size=p)
    return X, np.argmax(X @ rng.normal(size=(p, n)) / np.sqrt(p) + rng.gumbel(size=(t, n)), axis=1)


def objective(t, p, n, **data):
    X, y = generated(t, p, n)
    return Objective(Binary() if n == 2 else Multinomial(n), Labelled(X, y, **data), ridge=0.1)


def correlated(t, p, n):
    """Columns that have something in common, so that steps are many."""
    X, y = generated(t, p, n)
    X += X[:, :1]
    return Objective(Binary() if n == 2 else Multinomial(n), Labelled(X, y), ridge=0.1)


@pytest.mark.parametrize("n", [2, 4])
def test_steps_in_single_precision_lead_to_the_same_optimum(n):
    F = correlated(4_000, 300, n)
    assert pays_in_single_precision(F)
    assert pays_in_single_precision(objective(4_000, 300, n)) == (n > 2)  # of one class, few steps do not pay for it
    solution = minimize(F, QuasiNewton(), tol=1e-10)
    assert solution.result.converged
    assert "double precision" in [name for _, name in solution.result.account]
    best = minimize(F, QuasiNewton(curvature="kronecker"), tol=1e-12).trace["objective"][-1]
    assert F.value(solution.params) == pytest.approx(best, rel=1e-9)


def test_steps_in_single_precision_count_and_keep_to_the_limit():
    F = objective(4_000, 300, 4)
    solution = minimize(F, QuasiNewton(), tol=1e-6)
    turned = {name: step for step, name in solution.result.account}["double precision"]
    assert solution.trace["step"][0] == turned > 0
    assert f"in {solution.trace['step'][-1]:.0f} steps" in solution.result.message
    for most in (0, 1, 5):
        for start in (None, np.full(F.size, 0.1)):
            few = minimize(F, QuasiNewton(), tol=1e-12, max_steps=most, start=start)
            assert few.trace["step"][-1] == most
            assert f"limit of {most} step" in few.result.message


def test_steps_on_a_sample_count_and_keep_to_the_limit():
    F = objective(30_000, 5, 2)
    solution = minimize(F, QuasiNewton(), tol=1e-6)
    assert solution.result.account[0][1].startswith("Newton steps on")
    assert solution.trace["step"][0] > 0
    assert solution.trace["step"][-1] == solution.trace["step"][0] + len(solution.trace["step"]) - 1
    for most in (0, 1, 2):
        assert minimize(F, QuasiNewton(), tol=1e-14, max_steps=most).trace["step"][-1] == most


def test_a_run_that_goes_on_does_not_count_twice_what_nobody_saw():
    F = objective(30_000, 5, 2)
    first = minimize(F, QuasiNewton(), tol=1.0)
    assert first.trace["step"][0] > 0
    assert minimize(F, QuasiNewton(), tol=1.0, start=first).trace["step"][0] == 0


def test_a_copy_in_single_precision_is_not_made_of_sparse_or_short_rows_or_of_a_few():
    X, y = generated(4_000, 300, 2)
    assert not pays_in_single_precision(Objective(Binary(), Labelled(sp.csr_array(X), y), ridge=1.0))
    assert not pays_in_single_precision(Objective(Binary(), Labelled(X.astype(np.float32), y), ridge=1.0))
    assert not pays_in_single_precision(objective(200, 20, 2))


def test_a_narrowed_objective_is_the_same_to_single_precision():
    F = objective(500, 20, 3, constant=True, center=True)
    narrow = F.narrowed()
    theta = np.random.default_rng(1).normal(size=F.size)
    assert narrow.narrow
    assert narrow.narrowed() is None
    assert narrow.value(theta) == pytest.approx(F.value(theta), rel=1e-5)
    np.testing.assert_allclose(narrow.point(theta).gradient, F.point(theta).gradient, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("n", [2, 4])
def test_a_leap_is_a_step_along_the_ray(n):
    F, rng = objective(300, 6, n), np.random.default_rng(2)
    theta, direction = rng.normal(size=(2, F.size))
    start = F.point(theta)
    leap, ray = F.ray(start, direction, leap=True), F.ray(start, direction)
    for a in (1.0, 0.3, 1.0, 2.0):
        assert leap.value_and_slope(a) == pytest.approx(ray.value_and_slope(a), rel=1e-12)
        here, there = leap.land(a), ray.land(a)
        assert here.value == pytest.approx(there.value, rel=1e-12)
        np.testing.assert_allclose(here.gradient, there.gradient, atol=1e-9)
        np.testing.assert_allclose(np.hstack(here.scores), np.hstack(there.scores), atol=1e-12)
    before = F.work.passes
    F.ray(start, direction, leap=True).land(1.0)
    assert F.work.passes == before + 1.0


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("n", [2, 4])
def test_residuals_tell_the_hessian_between_classes(n, soft, weighted):
    rng = np.random.default_rng(0)
    y = rng.dirichlet(np.ones(n), size=30) if soft else rng.integers(n, size=30)
    weight = rng.choice([0.0, 0.5, 2.0], size=30) if weighted else None
    data, model = Labelled(np.zeros((30, 1)), y, weight), Binary() if n == 2 else Multinomial(n)
    scores = 3 * rng.normal(size=(1 if n == 2 else n, 30))
    H, weights = model.between_classes(model.loss_and_residual(scores, data)[1], data)
    P = softmax(np.vstack([np.zeros(30), scores]) if n == 2 else scores, axis=0)
    each = np.ones(30) if weight is None else weight
    expected = np.einsum("j,cj,ce->ce", each, P, np.eye(n)) - np.einsum("j,cj,ej->ce", each, P, P)
    np.testing.assert_allclose(H, expected[1:, 1:] if n == 2 else expected, atol=1e-12)
    np.testing.assert_allclose(weights, each * (P * (1 - P))[1 if n == 2 else 0 :], atol=1e-12)


def test_a_kronecker_product_is_nearly_factorized():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(5), size=200)
    C, rows = np.diag(P.sum(axis=0)) - P.T @ P, rng.normal(size=(50, 3))
    curvature = Kronecker(C / np.trace(C) * 4, rows.T @ rows, majorizes=False)
    near = curvature.nearly_factorized(0.5)
    b = rng.normal(size=(5, 3))
    b -= b.mean(axis=0)  # where all classes move together there is nothing
    ratio = (b.ravel() @ near(b.ravel())) / (b.ravel() @ curvature.solve(b.ravel(), 0.5))
    assert 0.7 < ratio < 1.4


@pytest.mark.parametrize("n", [2, 5])
def test_fits_start_where_every_class_is_as_likely_as_it_was_observed(n):
    F = objective(400, 3, n, constant=True)
    F = F.with_ridge(np.tile([1.0, 1.0, 1.0, 0.0], 1 if n == 2 else n))
    theta = F.with_likely_intercept(np.zeros(F.size))
    W = theta.reshape(-1, 4)
    assert not W[:, :-1].any()
    assert abs(F.point(theta).gradient.reshape(-1, 4)[:, -1]).max() < 1e-9 * 400
    np.testing.assert_array_equal(F.with_likely_intercept(np.ones(F.size)), np.ones(F.size))


def test_a_model_says_what_was_bought_and_when():
    X, y = generated(600, 8, 2)
    model = LogisticRegression().fit(X, y)
    steps, names = zip(*model.result_.account, strict=True)
    assert steps[0] == 0
    assert list(steps) == sorted(steps)
    assert names[0] == "the Hessian"  # of so few columns it costs no more than its diagonal


def test_the_same_optimum_whatever_is_bought():
    for t, p, n in ((300, 4, 2), (300, 4, 3), (60, 90, 3), (5_000, 3, 2), (900, 30, 12)):
        F = objective(t, p, n)
        best = minimize(F, Newton(), tol=1e-12).trace["objective"][-1]
        assert minimize(F, QuasiNewton(), tol=1e-9).trace["objective"][-1] == pytest.approx(best, rel=1e-8), (t, p, n)


def rare_columns(rows=8_000, columns=40, classes=4, rare=20):
    """Columns of unit variance, some of which a few rows make up alone, as those of standardised pixels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns))
    W = rng.normal(size=(columns, classes))
    for column in range(rare):
        X[:, column] = 0.0
        X[rng.choice(rows, 6, replace=False), column] = np.sqrt(rows / 6) * rng.choice([-1.0, 1.0], 6)
    return X, (X @ W + 2 * rng.gumbel(size=(rows, classes))).argmax(axis=1)


def test_a_share_of_the_rows_does_not_speak_for_columns_that_few_rows_make_up():
    X, y = rare_columns()
    F = Objective(Multinomial(4), Labelled(X, y), ridge=1.0)
    assert not _speaks_for_all(F, 0.05)
    ordinary = Objective(Multinomial(4), Labelled(np.random.default_rng(0).normal(size=X.shape), y), ridge=1.0)
    assert _speaks_for_all(ordinary, 0.05)
    of_all, of_some = F.facts.squares_of_some(0.05)
    np.testing.assert_allclose(of_all, (X**2).sum(axis=0))
    assert F.facts.squares_of_some(0.05)[0] is of_all
    assert of_some.shape == of_all.shape


def test_rare_columns_take_no_more_steps_with_a_share_of_the_rows(monkeypatch):
    X, y = rare_columns()
    F = Objective(Multinomial(4), Labelled(X, y), ridge=1.0)
    point = F.point(np.zeros(F.size))
    best = minimize(F, QuasiNewton(), tol=1e-10).trace["objective"][-1]

    def steps(speaks):
        monkeypatch.setattr(preconditioners, "_speaks_for_all", lambda *_: speaks)
        found = minimize(F, QuasiNewton(curvature="kronecker"), tol=1e-6, start=point.theta)
        return int(np.argmax(np.array(found.trace["objective"]) <= best * (1 + 1e-6)))

    assert steps(speaks=False) < steps(speaks=True)


def nearly_separable(t, p, n, seed):
    """Sparse rows, some columns in many of them and most in few, whose labels their scores nearly tell."""
    rng = np.random.default_rng(seed)
    often, count = (1.0 + np.arange(p)) ** -0.7, int(0.09 * t * p)
    where = rng.integers(t, size=count), rng.choice(p, size=count, p=often / often.sum())
    X = sp.csr_array((rng.lognormal(sigma=0.5, size=count), where), shape=(t, p))
    scores = X @ rng.normal(size=(p, n))
    return X, np.argmax(3 * scores / scores.std() + rng.gumbel(size=scores.shape), axis=1)


def test_where_columns_are_as_many_as_rows_their_diagonal_is_raised_and_steps_lead_further(monkeypatch):
    X, y = nearly_separable(500, 580, 12, seed=1)
    ridge = np.tile(np.append(np.full(580, 1 / 30), 0.0), 12)

    def reached():
        F = Objective(Multinomial(12), Labelled(X, y, constant=True), ridge=ridge)
        return minimize(F, QuasiNewton(curvature="diagonal"), tol=1e-6, max_steps=25).trace["objective"][-1]

    raised = reached()
    monkeypatch.setattr(preconditioners, "RAISED", 0.0)
    assert raised < 0.7 * reached()


@pytest.mark.parametrize(("rows", "share"), [(2, 10.0), (40, 4 / 64), (5000, 4e-6)])
def test_a_diagonal_is_raised_by_the_columns_there_are_for_a_row_but_not_along_a_free_intercept(rows, share):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(rows, 4)) * [1, 2, 3, 0.1], np.arange(rows) % 2
    F = Objective(Binary(), Labelled(sp.csr_array(X), y, constant=True), ridge=[1.0] * 4 + [0.0])
    point = F.point(np.zeros(5))
    entries = F.hessian_diagonal(point)
    found = 1 / preconditioners.DiagonalOfHessian().at(F, point)(np.zeros(5))(np.ones(5))
    assert np.allclose(found, entries + np.append(np.full(4, share * entries[:-1].mean()), 0.0))


def test_columns_with_units_of_their_own_are_not_raised():
    rng = np.random.default_rng(0)
    X, y = sp.csr_array(rng.normal(size=(6, 4)) * [0.01, 0.1, 1, 100]), np.arange(6) % 2
    F = Objective(Binary(), Labelled(X, y, constant=True), ridge=[1.0] * 4 + [0.0])
    point = F.point(np.zeros(5))
    found = 1 / preconditioners.DiagonalOfHessian().at(F, point)(np.zeros(5))(np.ones(5))
    assert np.allclose(found, F.hessian_diagonal(point))
