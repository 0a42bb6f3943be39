"""Newton steps by conjugate gradients: products with the Hessian, the steps they make, and when these take over."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from majorant import Binary, Labelled, LogisticRegression, Multinomial, Objective, QuasiNewton, Threads, minimize
from majorant.objective.products import HessianProducts
from majorant.solvers.preconditioners import DiagonalBetweenClasses, DiagonalOfHessian
from majorant.solvers.prices import Prices
from majorant.solvers.renting import HESSIAN, Lease, Market
from majorant.solvers.truncated import newton_step

BY_PRODUCTS = "Newton steps by conjugate gradients"


def objective(t, p, n, *, sparse=False, dtype=np.float64, weighted=False, soft=False, threads=1, seed=0, **data):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(t, p)) * (rng.random((t, p)) < 0.3) if sparse else rng.normal(size=(t, p)) + 2).astype(dtype)
    y = rng.dirichlet(np.ones(n), size=t) if soft else rng.integers(n, size=t)
    weight = rng.random(t) + 0.1 if weighted else None
    labelled = Labelled(sp.csr_array(X) if sparse else X, y, weight, **data)
    ridge = np.exp(rng.normal(size=labelled.n_features * (1 if n == 2 else n)))
    return Objective(Binary() if n == 2 else Multinomial(n), labelled, ridge=ridge, reducer=Threads(threads))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize(
    "kind",
    [
        {},
        {"sparse": True},
        {"weighted": True, "constant": True},
        {"constant": True, "center": True},
        {"sparse": True, "weighted": True, "constant": True, "center": True},
        {"soft": True},
    ],
    ids=str,
)
def test_a_product_is_that_of_the_hessian_written_out(n, kind, compiled, monkeypatch):
    for module in ("binary", "multinomial"):
        monkeypatch.setattr(f"majorant.models.{module}.WORTH_COMPILING", 0 if compiled else 10**9)
    monkeypatch.setattr("majorant.models.binary.LONG_ROW", 0)
    monkeypatch.setattr("majorant.models.binary.CACHE", 0)
    F, rng = objective(150, 7, n, **kind), np.random.default_rng(1)
    theta, v = 0.3 * rng.normal(size=(2, F.size))
    times = HessianProducts(F, F.point(theta))
    H = F.hessian(theta)[2].as_matrix() + np.diag(F.ridge)
    np.testing.assert_allclose(times(v), H @ v, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("p", [20, 81, 82, 83, 84])
def test_long_sparse_rows_are_summed_up_to_the_last_of_their_numbers(p, monkeypatch):
    monkeypatch.setattr("majorant.models.binary.WORTH_COMPILING", 0)
    rng = np.random.default_rng(p)
    X = rng.normal(size=(70, p)) * (rng.random((70, p)) < rng.random((70, 1)))  # from no number to all of them
    F = Objective(Binary(), Labelled(sp.csr_array(X), rng.integers(2, size=70)), ridge=0.5)
    theta, v = 0.3 * rng.normal(size=(2, p))
    here, s = F.point(theta), 1 / (1 + np.exp(-X @ theta))
    np.testing.assert_allclose(here.gradient, X.T @ (s - F.whole.y) + 0.5 * theta, rtol=1e-11, atol=1e-11)
    expected = X.T @ (s * (1 - s) * (X @ v)) + 0.5 * v
    np.testing.assert_allclose(HessianProducts(F, here)(v), expected, rtol=1e-11, atol=1e-11)


def test_a_product_is_the_slope_of_the_gradient_and_counts_as_a_pass():
    F, rng = objective(200, 5, 3), np.random.default_rng(2)
    theta, v, h = 0.1 * rng.normal(size=F.size), rng.normal(size=F.size), 1e-5
    times = HessianProducts(F, F.point(theta))
    difference = (F.point(theta + h * v).gradient - F.point(theta - h * v).gradient) / (2 * h)
    before = F.work.passes
    np.testing.assert_allclose(times(v), difference, rtol=1e-5)
    assert F.work.passes == before + 1


def test_threads_multiply_as_one_does():
    results = []
    for threads in (1, 3):
        F = objective(9_000, 20, 3, threads=threads)
        theta, v = np.random.default_rng(3).normal(size=(2, F.size))
        results.append(HessianProducts(F, F.point(0.1 * theta))(v))
    np.testing.assert_array_equal(*results)


def test_there_are_none_of_a_loss_that_is_not_known():
    class Other(Multinomial):
        pass

    F = objective(30, 3, 3)
    assert HessianProducts.suit(F)
    assert not HessianProducts.suit(Objective(Other(3), F.data, ridge=1.0))


@pytest.mark.parametrize("n", [2, 4])
def test_a_step_is_newtons_where_products_do_not_stop(n, monkeypatch):
    monkeypatch.setattr("majorant.solvers.truncated.WORTH_ANOTHER", 1e-12)
    F = objective(300, 6, n, constant=True)
    here = F.point(np.zeros(F.size))
    found = newton_step(F, here, DiagonalOfHessian().at(F, here)(F.ridge))
    H = F.hessian(here.theta)[2].as_matrix() + np.diag(F.ridge)
    np.testing.assert_allclose(found.step, np.linalg.solve(H, -here.gradient), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_products_stop_when_little_is_left_to_gain(seed):
    F = objective(300, 20, 3, constant=True, seed=seed)
    here = F.point(np.zeros(F.size))
    found = newton_step(F, here, DiagonalOfHessian().at(F, here)(F.ridge))
    H, g = F.hessian(here.theta)[2].as_matrix() + np.diag(F.ridge), here.gradient
    gained = -(g @ found.step + 0.5 * found.step @ H @ found.step)
    assert gained > 0.8 * (0.5 * g @ np.linalg.solve(H, g))
    assert 1 < found.products < F.size / 2


def test_where_the_gradient_is_zero_nothing_moves():
    F = objective(50, 3, 2)
    here = F.point(np.zeros(F.size))
    still = type(here)(here.theta, here.value, np.zeros(F.size), here.scores)
    assert not newton_step(F, still, lambda b: b).step.any()


def hard(n, seed=5):
    """Data of which quasi-Newton steps in a diagonal metric take many."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 40)) * np.exp(rng.normal(size=40))
    return X, np.argmax(X @ rng.normal(size=(40, n)) + 3 * rng.gumbel(size=(300, n)), axis=1)


def test_many_steps_left_turn_into_products():
    X, y = hard(12)
    F = Objective(Multinomial(12), Labelled(X, y), ridge=0.1)
    turned = minimize(F, QuasiNewton(), tol=1e-8)
    assert turned.result.converged
    assert BY_PRODUCTS in [name for _, name in turned.result.account]
    usual = minimize(F, QuasiNewton(curvature="diagonal"), tol=1e-8)
    assert BY_PRODUCTS not in [name for _, name in usual.result.account]
    assert turned.trace["step"][-1] < 0.5 * usual.trace["step"][-1]
    assert F.value(turned.params) == pytest.approx(F.value(usual.params), rel=1e-7)
    assert (np.diff(turned.trace["passes"]) >= 1).all()
    assert turned.trace["passes"][-1] > 2 * turned.trace["step"][-1]


def market(product, **shape):
    prices = Prices(**{"rows": 1_000, "classes": 1, "columns": 50, "stored": 50.0, "sparse": False} | shape)
    made = Market.of((DiagonalOfHessian(),), prices, products=True)
    return replace(made, product=product)


def lease(rate, steps=5, quality=0):
    return Lease(quality, 0, 1, tuple(np.exp(-rate * np.arange(steps))))


def test_products_are_turned_to_where_they_are_cheap_and_much_is_left():
    assert market(0.1).turns_to_products(lease(0.5), 5, 1.0)
    assert not market(0.9).turns_to_products(lease(0.5), 5, 1.0)  # they cost as much as steps
    assert not market(0.1).turns_to_products(lease(9.0), 5, 1.0)  # little is left
    assert not market(0.1).turns_to_products(lease(0.5), 2, 1.0)  # too soon to tell
    assert not market(0.1).turns_to_products(lease(0.5, steps=1), 5, 1.0)
    assert not market(0.1).turns_to_products(lease(0.5, quality=HESSIAN), 5, 1.0)
    assert Market.of((DiagonalOfHessian(),), None).product == np.inf


def test_no_diagonal_is_found_for_products_that_costs_more_than_all_steps():
    made = replace(market(0.1, classes=5), offers=(DiagonalBetweenClasses(), DiagonalOfHessian()), prices=(7.0, 2.0))
    assert made.due_for_products(lease(0.5), 3.0, 1.0, 1.0) == DiagonalOfHessian()
    assert made.due_for_products(lease(0.5), 8.0, 1.0, 1.0) == DiagonalBetweenClasses()
    assert made.due_for_products(lease(0.5, quality=1), 3.0, 1.0, 1.0) is None


def test_of_several_classes_fewer_products_make_up_for_a_step():
    assert market(0.4, classes=5).turns_to_products(lease(0.5), 5, 1.0)
    assert not market(0.4).turns_to_products(lease(0.5), 5, 1.0)
    assert not market(0.4, classes=3).turns_to_products(lease(0.5), 5, 1.0)


def test_a_product_costs_less_than_a_step_of_small_or_sparse_data_and_as_much_of_large_dense():
    def share(**shape):
        return Market.of((DiagonalOfHessian(),), Prices(**shape), products=True).product

    assert share(rows=300, classes=20, columns=40, stored=40.0, sparse=False) < 0.3
    assert share(rows=1_500, classes=1, columns=12_000, stored=50.0, sparse=True) < 0.5
    assert share(rows=100_000, classes=1, columns=500, stored=500.0, sparse=False) > 0.9


def test_a_free_intercept_of_several_classes_is_no_obstacle():
    """The Hessian is singular along what all classes share."""
    model = LogisticRegression(C=10.0, tol=1e-9).fit(*hard(12))
    assert BY_PRODUCTS in [name for _, name in model.result_.account]
    assert model.gap_ <= 1e-9
