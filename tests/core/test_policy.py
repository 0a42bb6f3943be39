"""What ``solver="auto"`` does: where it starts, and when a metric is bought, by the rule of ski rental."""

from dataclasses import dataclass
from itertools import pairwise
from math import ceil, exp, inf

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from majorant import Binary, Labelled, LogisticRegression, Multinomial, Newton, Objective, QuasiNewton, minimize
from majorant.core import policy, preconditioners, row_space
from majorant.core.files import decode, encode
from majorant.core.policy import WINDOW, Plan, QuasiNewtonState
from majorant.core.preconditioners import (
    FREE,
    DiagonalOfHessian,
    GramOfColumns,
    HessianOfAll,
    Level,
    Prices,
    StartResult,
    pays_in_single_precision,
)
from majorant.curvature import Kronecker
from majorant.objective import Point

PRICES = Prices(rows=100_000, classes=1, columns=10, stored=10.0, sparse=False)
BY_PRODUCTS = "Newton steps by conjugate gradients"


@dataclass(frozen=True)
class Rung:
    """A rung of the ladder that costs so many steps, and a solve in it so many."""

    level: int
    steps: float = 0.0
    more: float = 0.0
    name: str = "a metric"

    def price(self, objective):
        step = Prices.of(objective).step
        return self.steps * step, self.more * step

    def at(self, objective, point):
        return lambda ridge: lambda b: b


def plan(*rungs, **more):
    """What can be bought, the best first."""
    return Plan(tuple((rung, rung.steps, rung.more) for rung in rungs), **more)


def state(gains=(), *, cost=1.0, **known):
    """A state whose latest steps have promised so much and cost so much each; F is 1."""
    point = Point(np.zeros(1), 1.0, np.ones(1))
    return QuasiNewtonState.at(point, gains=tuple((gain, cost) for gain in gains)[-WINDOW:], **known)


def after(steps, rate, *, level=0, budget=FREE, **known):
    """The state after so many steps in a metric, each of which has shrunk the gain by e^-rate."""
    gains = [exp(-rate * k) for k in range(steps)]
    return state(gains, level=level, budget=budget + steps, spent=float(steps), steps=steps, **known)


def decided(state, plan):
    """The state with what is bought before the next step."""
    if (due := (state := state.changed(plan=plan)).due()) is not None:
        return state.in_metric(due[0].at(None, state.point), np.ones(1), *due)
    return state.with_products_if_they_pay()


def is_bought(state, plan):
    """Whether anything is."""
    return len(decided(state, plan).account) > len(state.account)


# --- the rule -------------------------------------------------------------------------------------------------


def test_the_first_metric_is_the_best_that_is_next_to_free():
    cheap, better, dear = Rung(0, 0.2 * FREE), Rung(1, 0.8 * FREE), Rung(4, 1.2 * FREE)
    assert decided(state(), plan(dear, better, cheap)).level == 1
    assert decided(state(), plan(dear, cheap)).level == 0
    assert decided(state(), plan(Rung(4, 0.9 * FREE), better, cheap)).level == 4
    assert decided(state(), plan(Rung(2, 0.9 * FREE, more=0.5), better, cheap)).level == 1  # for what solves cost
    assert decided(state(), plan(dear, Rung(0, 1.1 * FREE))).level == 0  # where nothing is, the cheapest


def test_it_is_paid_for():
    for price in (0.0, 0.5 * FREE, FREE):
        assert decided(state(), plan(Rung(0, price))).budget == FREE - price
    assert decided(state(), plan(Rung(0, 3 * FREE))).budget == 0.0


@pytest.mark.parametrize("rate", [0.3, 0.01])
@pytest.mark.parametrize("price", [6.0, 20.0, 33.0])
def test_a_better_metric_is_bought_once_steps_have_cost_as_much_and_not_before(price, rate):
    offers = plan(Rung(4, FREE + price), Rung(0))
    bought = [steps for steps in range(60) if decided(after(steps, rate), offers).level == 4]
    assert bought[0] == ceil(price)
    better = decided(after(bought[0], rate), offers)
    assert better.budget == pytest.approx(bought[0] - price)
    assert (better.spent, better.gains, better.pairs) == (0.0, (), ())


def test_steps_that_cost_more_pay_sooner():
    slow = [exp(-0.1 * k) for k in range(8)]
    offers = plan(Rung(4, 20.0), Rung(0))
    assert not is_bought(state(slow, level=0, budget=8.0), offers)
    assert is_bought(state(slow, level=0, budget=24.0, cost=3.0), offers)


def test_nothing_is_bought_where_little_is_left():
    for price in (3.0, 5.0, 8.0):
        assert not any(is_bought(after(steps, rate=5.0), plan(Rung(4, price), Rung(0))) for steps in range(2, 30))
    done = [policy.AIM * 0.5**k for k in range(4)]
    assert state(done).left() == 0.0
    assert not is_bought(state(done, level=0, budget=100.0, spent=100.0), plan(Rung(4, 0.0), Rung(0, 0.0)))


def test_what_is_left_is_told_by_the_latest_steps():
    gains = [exp(-0.5 * k) for k in range(5)]
    steps = (np.log(gains[-1]) - np.log(policy.AIM)) / 0.5
    assert state(gains).left() == pytest.approx(steps)
    assert state(gains, cost=4.0).left() == pytest.approx(4.0 * steps)
    assert state([1e-3, 1e-3, 2e-3]).left() == inf  # there is no end in sight


@pytest.mark.parametrize("gains", [[1e-3] * 8, [1e-3, 2e-3, 1e-3, 2e-3]], ids=["as much", "more"])
def test_steps_that_gain_no_less_as_they_go_on_buy_a_better_metric(gains):
    """Infinitely much is left then, as far as anybody knows."""
    assert is_bought(state(gains, level=0, budget=30.0, spent=30.0), plan(Rung(4, 20.0), Rung(0)))


def test_the_best_that_pays_is_bought():
    offers = plan(Rung(4, 50.0), Rung(2, 10.0), Rung(1, 5.0), Rung(0))
    assert decided(after(20, 0.05, budget=0.0), offers).level == 2
    assert decided(after(60, 0.05, budget=0.0), offers).level == 4
    assert decided(after(60, 0.05, budget=0.0, level=4), offers).level == 4


@pytest.mark.parametrize("level", [1, 2])
def test_no_worse_metric_is_bought(level):
    slow = after(60, 0.05, level=level)
    assert not is_bought(slow, plan(Rung(0, 0.1)))


@pytest.mark.parametrize("price", [0.5, 3.0])
def test_the_same_metric_is_found_anew_no_sooner_than_patience_says(price):
    offers = plan(Rung(0, price))
    for steps in range(2, 100):
        if is_bought(after(steps, 0.01), offers):
            assert steps >= WINDOW * max(price, 1.0)
    assert is_bought(after(100, 0.01), offers)


def test_a_hessian_that_costs_next_to_nothing_is_found_anew_after_any_step():
    assert is_bought(after(2, 0.1, level=4), plan(Rung(4, 0.5), Rung(0)))
    assert not is_bought(after(2, 0.1, level=4).changed(spent=0.0), plan(Rung(4, 0.5), Rung(0)))


def test_what_makes_steps_dearer_has_to_save_some():
    slow = after(20, 0.1)
    assert decided(slow, plan(Rung(2, 5.0, more=0.1), Rung(0))).level == 2
    assert decided(slow, plan(Rung(2, 5.0, more=1.0), Rung(0))).level == 0


def test_first_steps_in_a_metric_buy_nothing_as_nobody_knows_what_is_left():
    """So where a metric serves many penalties that take few steps each, nothing is bought at all."""
    rich = state(level=0, budget=100.0, spent=100.0)
    offers = plan(Rung(4, 1.0), Rung(0), product=0.1)
    assert not is_bought(rich, offers)
    assert not is_bought(rich.changed(gains=((1e-2, 1.0),)), offers)
    assert decided(rich.changed(gains=((1e-2, 1.0), (9e-3, 1.0))), offers).level == 4


def test_but_a_hessian_that_costs_next_to_nothing_is_found_anew():
    at_once = after(1, 0.1, level=4).changed(curved_at=np.zeros(1))
    assert is_bought(at_once, plan(Rung(4, 0.5), Rung(0)))
    assert not is_bought(at_once, plan(Rung(4, 0.5 + at_once.budget), Rung(0)))


def slow_to_fit(classes=3):
    """Columns of unlike scales that hang together, under a weak penalty."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 12)) @ rng.normal(size=(12, 12)) * 10 ** rng.uniform(-1, 1, 12)
    y = np.argmax(X[:, :classes] / X.std() + 0.5 * rng.gumbel(size=(120, classes)), axis=1)
    return Objective(Binary() if classes == 2 else Multinomial(classes), Labelled(X, y), ridge=1e-3)


def fitted(F, plan, most=200):
    """The states of a fit from zero where a plan is given, and what was bought when steps had cost how much.

    Of every purchase: whether the rule was asked, what it was, its price, and what steps had cost so far.
    """
    solver, ledger, asked, cost = QuasiNewton(), [], [], 0.0
    buy, decide = QuasiNewtonState.in_metric, QuasiNewtonState.due

    def bought(self, factorize, ridge, rung, price):
        ledger.append((bool(asked and asked.pop()), rung, price, cost))
        return buy(self, factorize, ridge, rung, price)

    def deciding(self):
        asked[:] = [decide(self) is not None]
        return decide(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QuasiNewtonState, "in_metric", bought)
        patch.setattr(QuasiNewtonState, "due", deciding)
        states = [QuasiNewtonState.at(F.point(np.zeros(F.size)), ridge=F.penalty.prior, plan=plan, rows_tried=True)]
        while not states[-1].stalled and len(states) < most:
            states.append(solver.step(F, states[-1]))
            cost += 0.0 if states[-1].stalled else states[-1].gains[-1][1]
    return states, ledger


prices_of_rungs = st.floats(0.01, 60.0)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([2, 3]), prices_of_rungs, prices_of_rungs, st.floats(0.0, FREE), st.floats(0.05, 1.0))
def test_no_more_is_paid_than_steps_have_cost_and_the_optimum_is_the_same(classes, hessian, gram, diagonal, product):
    F = slow_to_fit(classes)
    rungs = ((HessianOfAll(), hessian, 0.0), (GramOfColumns(), gram, 0.05), (DiagonalOfHessian(), diagonal, 0.0))
    states, ledger = fitted(F, Plan(rungs, product=product))
    best = minimize(F, Newton(), tol=1e-13).trace["objective"][-1]
    assert states[-1].point.value == pytest.approx(best, rel=1e-8)
    asked = [(rung, price, cost) for of_the_rule, rung, price, cost in ledger if of_the_rule]
    paid = np.cumsum([price for _, price, _ in asked])
    assert (paid <= FREE + np.array([cost for _, _, cost in asked]) + 1e-9).all()
    assert all(before.level <= after.level for (before, *_), (after, *_) in pairwise(asked))
    for (_, before, _, then), (of_the_rule, rung, price, now) in pairwise(ledger):
        if of_the_rule and rung is before and rung.level < Level.SAMPLE:
            assert now - then >= WINDOW * max(price, 1.0)


@pytest.mark.parametrize("price", [5.0, 20.0])
def test_a_fit_in_a_poor_metric_buys_a_better_one_when_steps_have_cost_as_much(price):
    rungs = ((HessianOfAll(), FREE + price, 0.0), (DiagonalOfHessian(), 0.0, 0.0))
    _, ledger = fitted(slow_to_fit(), Plan(rungs))
    first = next(cost for _, rung, _, cost in ledger if rung == HessianOfAll())
    assert price <= first <= 2 * price + WINDOW


def test_no_metric_is_left_for_a_worse_one_where_steps_fail(monkeypatch):
    F = slow_to_fit()
    rungs = ((HessianOfAll(), 1.0, 0.0), (GramOfColumns(), 0.5, 0.0), (DiagonalOfHessian(), 0.1, 0.0))
    before = QuasiNewtonState.at(F.point(np.zeros(F.size)), ridge=F.penalty.prior, plan=Plan(rungs))
    before = QuasiNewton().step(F, before)
    assert before.level == Level.HESSIAN
    found = []
    monkeypatch.setattr(policy, "best_step", lambda *_: 1.0)
    buy = QuasiNewtonState.in_metric
    monkeypatch.setattr(
        QuasiNewtonState,
        "in_metric",
        lambda self, f, λ, rung, price: found.append(rung.level) or buy(self, f, λ, rung, price),
    )
    monkeypatch.setattr(policy, "improves", lambda *_: False)
    failed = QuasiNewton().step(F, before)
    assert failed.stalled
    assert set(found) == {before.level}


# --- the plan -------------------------------------------------------------------------------------------------


def test_what_more_than_doubles_the_price_of_steps_is_for_those_who_have_nothing_else(monkeypatch):
    F = objective(300, 6, 2)
    cheap, dear = Rung(0, 1.0), Rung(2, 5.0, more=1.5)
    for ladder, kept in (((cheap, dear), [cheap]), ((dear,), [dear]), ((cheap, Rung(2, 5.0)), [Rung(2, 5.0), cheap])):
        monkeypatch.setattr(policy, "LADDERS", {"auto": ladder})
        assert [rung for rung, *_ in Plan.of(F, "auto", F.point(np.zeros(F.size))).rungs] == kept


def test_prices_of_a_plan_are_in_steps():
    F = objective(300, 6, 4)
    found, prices = Plan.of(F, "auto", F.point(np.zeros(F.size))), Prices.of(F)
    for rung, price, solve in found.rungs:
        assert (price, solve) == pytest.approx([part / prices.step for part in rung.price(F)])
    assert found.product == pytest.approx(prices.product() / prices.step)


@pytest.mark.parametrize("shape", [(100, 5, 2), (300, 4, 3), (500, 50, 2), (2_000, 20, 2), (4_000, 20, 5)])
def test_a_gram_matrix_is_bought_where_it_is_cheaper_than_the_hessian(shape):
    F = objective(*shape)
    price = {rung: price for rung, price, _ in Plan.of(F, "auto", F.point(np.zeros(F.size))).rungs}
    assert HessianOfAll() in price
    assert price.get(GramOfColumns(), 0.0) < price[HessianOfAll()]


def test_only_the_whole_ladder_has_products_and_rows():
    F = objective(160, 290, 3)
    at = F.point(np.zeros(F.size))
    found = Plan.of(F, "auto", at)
    assert max(found.product, found.row_space) < inf
    for kind in ("sample", "kronecker", "diagonal"):
        assert min((other := Plan.of(F, kind, at)).product, other.row_space) == inf


def test_of_small_data_the_hessian_is_first():
    X, y = generated(100, 5, 2)
    F = Objective(Binary(), Labelled(X, y), ridge=0.1)
    (best, price, _), *_ = Plan.of(F, "auto", F.point(np.zeros(F.size))).rungs
    assert best == HessianOfAll()
    assert price < FREE
    assert minimize(F, QuasiNewton()).result.account[0] == (0, HessianOfAll.name)


def test_the_space_of_the_rows_is_tried_once_and_left_if_it_is_no_better(monkeypatch):
    F, tried = slow_to_fit(), []

    def no_better(objective, steps):
        tried.append(steps)
        return StartResult(objective.point(np.zeros(objective.size)))

    monkeypatch.setattr(row_space, "newton_among_rows", no_better)
    rungs = ((DiagonalOfHessian(), 0.1, 0.0),)
    given = Plan(rungs, row_space=6.0, row_product=0.01)
    state, solver = QuasiNewtonState.at(F.point(np.zeros(F.size)), ridge=F.penalty.prior, plan=given), QuasiNewton()
    for _ in range(40):
        before, state = state, solver.step(F, state)
        if tried and state.rows_tried != before.rows_tried:
            assert before.budget >= 6.0
            assert state.budget <= before.budget - 6.0 + 1.0
            assert state.point.value < before.point.value
    assert len(tried) == 1


# --- prices ---------------------------------------------------------------------------------------------------


def test_prices_grow_with_the_data_and_count_what_is_stored():
    few, tall, wide = Prices(10**3, 1, 10, 10.0, False), PRICES, Prices(10**5, 1, 100, 100.0, False)
    assert few.step < tall.step < wide.step
    assert few.hessian(10**3) < tall.hessian(10**5) < wide.hessian(10**5)
    sparse = Prices(10**5, 1, 100, 1.0, True)
    assert sparse.step < wide.step
    assert sparse.gram(10**5) < wide.gram(10**5)


def test_a_gram_matrix_of_small_data_costs_no_less_than_the_hessian():
    """What makes it takes longer to call; of many rows it is found in single precision."""
    for rows, columns in ((300, 5), (500, 50), (2_000, 20)):
        small = Prices(rows, 1, columns, columns, False)
        assert small.gram(rows) > small.hessian(rows)
    assert PRICES.gram(10**5) < PRICES.hessian(10**5)
    many, few = Prices(1_000, 60, 4, 4.0, False), Prices(1_000, 4, 60, 60.0, False)
    assert many.hessian(1_000) < 0.6 * 60 * 61 / 2 * Prices(1_000, 1, 4, 4.0, False).hessian(1_000)
    assert few.hessian(1_000) > 4 * Prices(1_000, 1, 60, 60.0, False).hessian(1_000)


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
    leap, ray = F.ray(start, direction, unit_step=True), F.ray(start, direction)
    for a in (1.0, 0.3, 1.0, 2.0):
        assert leap.value_and_slope(a) == pytest.approx(ray.value_and_slope(a), rel=1e-12)
        here, there = leap.point_at(a), ray.point_at(a)
        assert here.value == pytest.approx(there.value, rel=1e-12)
        np.testing.assert_allclose(here.gradient, there.gradient, atol=1e-9)
        np.testing.assert_allclose(np.hstack(here.scores), np.hstack(there.scores), atol=1e-12)
    before = F.work.passes
    F.ray(start, direction, unit_step=True).point_at(1.0)
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


# --- what goes on -----------------------------------------------------------------------------------------------

KINDS = {  # rows, columns, classes, density
    "the Hessian": (300, 5, 3, 1.0),
    "products": (300, 40, 12, 1.0),
    "rows": (60, 90, 3, 1.0),
    "single precision": (4_000, 300, 4, 1.0),
    "a sample": (40_000, 5, 2, 1.0),
    "sparse": (400, 300, 3, 0.05),
    "dual sweeps": (600, 5_000, 2, 0.01),
}


def problem(kind):
    t, p, n, density = KINDS[kind]
    X, y = generated(t, p, n)
    if density < 1:
        X = sp.csr_array(np.where(np.random.default_rng(1).random((t, p)) < density, X, 0.0))
    return Objective(Binary() if n == 2 else Multinomial(n), Labelled(X, y), ridge=0.1)


@pytest.mark.parametrize("steps", [0, 2, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_a_state_from_a_file_goes_on_to_the_same_bits(kind, steps):
    F, solver = problem(kind), QuasiNewton()
    state = solver.start(F, np.zeros(F.size))
    for _ in range(steps):
        state = solver.step(F, state)
    again = decode(*encode(state)).revived(F)
    for _ in range(4):
        state, again = solver.step(F, state), solver.step(F, again)
        np.testing.assert_array_equal(state.theta, again.theta)
        assert (state.account, state.budget, state.gains) == (again.account, again.budget, again.gains)


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_under_another_ridge_keeps_its_metric_and_what_is_left_to_spend(kind):
    F, solver = problem(kind), QuasiNewton()
    state = solver.start(F, np.zeros(F.size))
    while state.continuation is not None or state.level < 0:
        state = solver.step(F, state)
    other = F.with_ridge(1.0)
    carried = solver.carry(other, state, state.theta, 0)
    np.testing.assert_array_equal(carried.ridge, other.ridge)
    assert (carried.level, carried.budget) == (state.level, state.budget)
    assert carried.gains == ()
    assert carried.hessian() is None  # that of other rows, for all anybody knows
    assert "the metric of another penalty" in [name for _, name in carried.account]
    after = solver.step(other, carried)
    assert after.level == state.level
    assert after.point.value < carried.point.value


def test_nothing_is_carried_to_the_same_ridge_nor_without_a_metric():
    F = problem("the Hessian")
    state = QuasiNewton().start(F, np.zeros(F.size))
    assert state.carried(F.with_ridge(1.0), state.theta) is None
    state = QuasiNewton().step(F, state)
    assert state.carried(F, state.theta) is None
    assert state.carried(F.with_ridge(1.0), state.theta) is not None


@pytest.mark.parametrize("most", [0, 1, 2, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_from_a_given_point_nothing_rises_whatever_the_limit_of_steps(kind, most):
    F = problem(kind)
    start = minimize(F, QuasiNewton(), tol=1e-10).params
    start = start + 0.3 * np.abs(start).mean() * np.random.default_rng(0).normal(size=F.size)
    assert F.value(start) < F.value_at_zero()
    trace = minimize(F, QuasiNewton(), tol=1e-12, max_steps=most, start=start).trace
    assert trace["step"][-1] <= most
    assert trace["objective"][0] == pytest.approx(F.value(start), rel=1e-9)
    assert (np.diff(trace["objective"]) <= 1e-6 * trace["objective"][0]).all()
