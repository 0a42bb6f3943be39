"""What correlations between columns tell of the steps to come, and what is bought because of it."""

from dataclasses import dataclass
from math import exp

import numpy as np
import pytest
import scipy.sparse as sp

from majorant import Binary, Labelled, LogisticRegression, Multinomial, Objective
from majorant.objective.correlation import eigenvalue_spread
from majorant.solvers.forecasts import excess, sample_pays
from majorant.solvers.prices import Prices
from majorant.solvers.renting import Lease, Market

PRICES = Prices(rows=100_000, classes=1, columns=10, stored=10.0, sparse=False)


@dataclass(frozen=True)
class Offer:
    quality: int
    steps: float
    more: float = 0.0

    def price(self, prices):
        return self.steps * prices.step()

    def upkeep(self, prices):
        return self.more * prices.step()


def mixed(p, rank, noise, seed):
    """A square root of a covariance matrix, and its correlations."""
    rng = np.random.default_rng(seed)
    root = np.vstack([rng.normal(size=(rank, p)), noise * np.eye(p)])
    covariance = root.T @ root
    scale = np.sqrt(covariance.diagonal())
    return root, covariance / np.outer(scale, scale)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("p", "rank", "noise"), [(40, 4, 1.0), (40, 2, 8.0), (300, 9, 2.0), (1_000, 30, 3.0)])
def test_a_few_rows_tell_how_unlike_the_eigenvalues_of_all_correlations_are(p, rank, noise, seed):
    root, R = mixed(p, rank, noise, seed)
    truth = np.mean((np.linalg.eigvalsh(R) - 1.0) ** 2)
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(128, len(root))) @ root
    found = eigenvalue_spread(rows)
    assert found == pytest.approx(truth, rel=0.4, abs=0.12)
    moved = eigenvalue_spread(rows * 10 ** rng.uniform(-3, 3, size=p) + rng.normal(size=p))
    assert moved == pytest.approx(found, rel=1e-6, abs=1e-9)


def test_long_rows_and_columns_that_are_constant_decide_nothing():
    rng = np.random.default_rng(0)
    rows = rng.standard_t(2.0, size=(128, 100))
    assert eigenvalue_spread(rows) < 0.2
    found = eigenvalue_spread(rows[:, :50])
    assert eigenvalue_spread(np.column_stack([rows[:, :50], np.full((128, 3), 7.0)])) == pytest.approx(found)
    assert eigenvalue_spread(np.ones((128, 4))) == 0.0


def market(offers, more):
    return Market.of(offers, PRICES, excess=more)


def test_a_matrix_is_bought_at_once_where_it_saves_more_than_it_costs_and_not_because_it_is_cheap():
    diagonal, gram, dear = Offer(0, 0.3), Offer(2, 0.4), Offer(2, 6.0)
    assert market((diagonal, gram), None).due(Lease(), 0, 1.0) is gram
    assert market((diagonal, gram), 0.02).due(Lease(), 0, 1.0) is diagonal
    assert market((diagonal, gram), 0.5).due(Lease(), 0, 1.0) is gram
    assert market((diagonal, dear), 0.5).due(Lease(), 0, 1.0) is diagonal
    assert market((diagonal, dear), 2.0).due(Lease(), 0, 1.0) is dear
    assert market((diagonal, Offer(2, 6.0, more=0.9)), 2.0).due(Lease(), 0, 1.0) is diagonal


def due_after(steps, more, rate, price=1.0, upkeep=0.0):
    offers = (Offer(0, 0.3), Offer(2, price, upkeep))
    lease = Lease(0, 0, 1, tuple(exp(-rate * k) for k in range(steps))[-8:])
    return market(offers, more).due(lease, steps, 1.0) is offers[1]


def test_later_it_is_bought_where_enough_is_left_or_steps_have_been_many():
    assert due_after(3, more=1.0, rate=1.0)
    assert not due_after(3, more=0.02, rate=1.0)
    assert not due_after(1, more=0.02, rate=1.0)  # nobody knows how much is left
    assert due_after(8, more=0.02, rate=1.0)  # correlations may be wrong
    assert not due_after(8, more=0.02, rate=1.0, price=4.0)
    assert not due_after(8, more=0.8, rate=1.0, upkeep=0.7)  # steps that it saves make others dearer


def generated(t, p, n, *, correlated, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(t, p))
    if correlated:
        X = rng.normal(size=(t, 5)) @ rng.normal(size=(5, p)) + 0.5 * X
    return X, np.argmax(X[:, :n] + rng.gumbel(size=(t, n)), axis=1)


@pytest.mark.parametrize("n", [2, 3])
def test_fits_begin_in_a_gram_matrix_where_columns_are_correlated_only(n):
    begins = {}
    for correlated in (False, True):
        X, y = generated(12_000, 150, n, correlated=correlated)
        model = LogisticRegression(tol=1e-6).fit(X, y)
        assert model.gap_ <= 1e-6
        begins[correlated] = model.result_.account[0][1]
    assert "diagonal" in begins[False]
    assert begins[True] == "a Gram matrix"


def test_a_sample_is_for_few_columns_or_for_correlated_ones():
    few, plain, mixed = (
        Objective(Binary(), Labelled(*generated(9_000, p, 2, correlated=c)), ridge=1.0)
        for p, c in ((5, False), (80, False), (80, True))
    )
    assert sample_pays(few, 2_000, price=3.0, narrows=False)
    assert not sample_pays(plain, 2_000, price=3.0, narrows=False)
    assert sample_pays(mixed, 2_000, price=3.0, narrows=False)
    several = Objective(Multinomial(3), Labelled(*generated(9_000, 80, 3, correlated=False)), ridge=1.0)
    assert sample_pays(several, 2_000, price=3.0, narrows=False)


def test_of_sparse_columns_nothing_is_said():
    X, y = generated(500, 20, 2, correlated=True)
    assert excess(Objective(Binary(), Labelled(X, y), ridge=1.0)) > 0.5
    assert excess(Objective(Binary(), Labelled(sp.csr_matrix(X), y), ridge=1.0)) is None
