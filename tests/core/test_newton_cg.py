"""Newton steps by conjugate gradients: products with the Hessian, the steps they make, and when these take over."""

import numpy as np
import pytest
import scipy.sparse as sp

from majorant import Binary, Labelled, LogisticRegression, Multinomial, Objective, QuasiNewton, Threads, minimize
from majorant.core.preconditioners import DiagonalOfHessian, Level, Prices
from majorant.core.quasi_newton import MOST_STEPS, HessianProducts, conjugate_gradients
from tests.core.test_policy import BY_PRODUCTS, Rung, after, decided, plan, state


def newton_direction(F, at, solve):
    """Newton's direction at a point, in the metric whose inverse is ``solve``."""
    return conjugate_gradients(at.gradient, HessianProducts(F, at), solve)


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
    monkeypatch.setattr("majorant.core.kernels.WORTH_COMPILING", 0 if compiled else 10**9)
    F, rng = objective(150, 7, n, **kind), np.random.default_rng(1)
    theta, v = 0.3 * rng.normal(size=(2, F.size))
    times = HessianProducts(F, F.point(theta))
    H = F.hessian(theta)[2].as_matrix() + np.diag(F.ridge)
    np.testing.assert_allclose(times(v), H @ v, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("p", [20, 81, 82, 83, 84])
def test_long_sparse_rows_are_summed_up_to_the_last_of_their_numbers(p, monkeypatch):
    monkeypatch.setattr("majorant.core.kernels.WORTH_COMPILING", 0)
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


def newtons(F, at):
    """Newton's direction, and what a unit step promises to gain, with the Hessian written out."""
    H = F.hessian(at.theta)[2].as_matrix() + np.diag(F.ridge)
    x = np.linalg.solve(H, -at.gradient)
    return H, x, -0.5 * float(at.gradient @ x)


@pytest.mark.parametrize("n", [2, 4])
def test_a_direction_is_newtons_where_products_do_not_stop(n, monkeypatch):
    monkeypatch.setattr("majorant.core.quasi_newton.WORTH_ANOTHER", 1e-12)
    F = objective(300, 6, n, constant=True)
    here = F.point(np.zeros(F.size))
    found, (_, exact, gain) = newton_direction(F, here, DiagonalOfHessian().at(F, here)(F.ridge)), newtons(F, here)
    np.testing.assert_allclose(found.x, exact, rtol=1e-4, atol=1e-6)
    assert found.gain == pytest.approx(gain, rel=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_products_stop_when_little_is_left_to_gain(seed):
    F = objective(300, 20, 3, constant=True, seed=seed)
    here = F.point(np.zeros(F.size))
    found, (H, _, gain) = newton_direction(F, here, DiagonalOfHessian().at(F, here)(F.ridge)), newtons(F, here)
    gained = -(here.gradient @ found.x + 0.5 * found.x @ H @ found.x)
    assert found.gain == pytest.approx(gained)
    assert 0.8 * gain < gained <= gain * (1 + 1e-9)
    assert 1 < found.products < F.size / 2


def test_in_the_metric_of_the_hessian_one_product_is_enough():
    F = objective(300, 6, 3)
    here = F.point(np.zeros(F.size))
    H, exact, _ = newtons(F, here)
    found = newton_direction(F, here, lambda b: np.linalg.solve(H, b))
    assert found.products <= 2
    np.testing.assert_allclose(found.x, exact, rtol=1e-9, atol=1e-12)


def test_where_the_gradient_is_zero_nothing_moves():
    F = objective(50, 3, 2)
    here = F.point(np.zeros(F.size))
    still = type(here)(here.theta, here.value, np.zeros(F.size), here.scores)
    found = newton_direction(F, still, lambda b: b)
    assert not found.x.any()
    assert found.gain == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_another_inner_product_has_the_same_solution(seed, monkeypatch):
    """Among combinations z of rows, of which Kz is what they stand for, K⁻¹ times a symmetric matrix is the Hessian."""
    monkeypatch.setattr("majorant.core.quasi_newton.WORTH_ANOTHER", 1e-14)
    rng = np.random.default_rng(seed)
    root, W, λ = rng.normal(size=(8, 8)), rng.random(8), 0.3
    K, gradient = root @ root.T, rng.normal(size=8)
    found = conjugate_gradients(gradient, lambda z, Kz: W * Kz + λ * z, lambda z: z, lambda z: K @ z)
    np.testing.assert_allclose(W * (K @ found.x) + λ * found.x, -gradient, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found.Kx, K @ found.x, rtol=1e-6, atol=1e-8)
    assert found.gain == pytest.approx(-0.5 * gradient @ K @ found.x)


@pytest.mark.parametrize("curvature", [0.0, -1.0])
def test_where_nothing_is_curved_the_first_direction_is_that_of_the_metric(curvature):
    """To rounding there may be none: then no unit step promises anything, but it leads down."""
    gradient = np.array([1.0, -2.0])
    found = conjugate_gradients(gradient, lambda d, _: curvature * d, lambda b: 2.0 * b)
    np.testing.assert_array_equal(found.x, -2.0 * gradient)
    assert (found.gain, found.products) == (0.0, 1)


def test_products_end():
    scales = 10.0 ** np.linspace(-12, 0, 2 * MOST_STEPS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("majorant.core.quasi_newton.WORTH_ANOTHER", 0.0)
        found = conjugate_gradients(np.ones(len(scales)), lambda d, _: scales * d, lambda b: b)
    assert found.products <= MOST_STEPS
    assert found.gain > 0


def hard(n, seed=5):
    """Data of which quasi-Newton steps in a diagonal metric take many."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 40)) * np.exp(rng.normal(size=40))
    return X, np.argmax(X @ rng.normal(size=(40, n)) + 3 * rng.gumbel(size=(300, n)), axis=1)


def test_many_steps_left_turn_into_products(monkeypatch):
    monkeypatch.setattr("majorant.core.small.MOST_ROWS", 0)
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


def turns(state, product):
    """Whether steps become Newton's, by products of a price, where no metric can be bought."""
    return decided(state, plan(Rung(0, 1e9), product=product)).by_products


def test_products_are_turned_to_where_they_are_cheap_and_much_is_left():
    assert turns(after(5, rate=0.5), 0.1)
    assert not turns(after(5, rate=0.5), 0.9)  # they cost as much as steps
    assert not turns(after(5, rate=0.5), np.inf)
    assert not turns(after(5, rate=9.0), 0.1)  # little is left
    assert not turns(after(1, rate=0.5), 0.1)  # too soon to tell
    assert not turns(after(5, rate=0.5, level=Level.HESSIAN), 0.1)
    assert not turns(after(5, rate=0.5, budget=-9.0), 0.1)  # steps that tell how good a metric is pay for nothing


def test_pairs_of_other_steps_are_forgotten_then():
    turned = decided(
        after(5, rate=0.5).changed(pairs=((np.ones(1), np.ones(1), 1.0),)), plan(Rung(0, 1e9), product=0.1)
    )
    assert turned.by_products
    assert (turned.pairs, turned.gains) == ((), ())
    assert turned.account[-1] == (5, BY_PRODUCTS)


def test_no_metric_is_found_for_products_that_costs_more_than_all_steps():
    offers = plan(Rung(4, 40.0), Rung(1, 7.0), Rung(0, 2.0), product=0.1)
    for budget, level in ((3.0, 0), (8.0, 1), (50.0, 4)):
        slow = state([np.exp(-0.1 * k) for k in range(8)], level=0, budget=budget, spent=3.0, by_products=True)
        found = decided(slow, offers)
        assert found.level == level
        assert found.by_products
        assert np.isnan(found.predicted_decrease()) == (level < Level.SAMPLE)  # one that is written out needs none


def test_a_metric_within_products_does_not_hide_how_fast_steps_gain():
    slow = state([np.exp(-0.1 * k) for k in range(8)], level=0, budget=8.0, spent=3.0, by_products=True)
    assert decided(slow, plan(Rung(1, 7.0), Rung(0, 2.0), product=0.1)).gains == slow.gains
    assert decided(slow, plan(Rung(4, 7.0), Rung(0, 2.0), product=0.1)).gains == ()


def test_a_product_costs_less_than_a_step_of_small_or_sparse_data_and_as_much_of_large_dense():
    def share(**shape):
        return (prices := Prices(**shape)).product() / prices.step

    assert share(rows=300, classes=20, columns=40, stored=40.0, sparse=False) < 0.3
    assert share(rows=1_500, classes=1, columns=12_000, stored=50.0, sparse=True) < 0.5
    assert share(rows=100_000, classes=1, columns=500, stored=500.0, sparse=False) > 0.9


def test_a_free_intercept_of_several_classes_is_no_obstacle(monkeypatch):
    """The Hessian is singular along what all classes share."""
    monkeypatch.setattr("majorant.core.small.MOST_ROWS", 0)
    model = LogisticRegression(C=10.0, tol=1e-9).fit(*hard(12))
    assert BY_PRODUCTS in [name for _, name in model.result_.account]
    assert model.gap_ <= 1e-9
