"""What a fit spends, counted where it is spent: products with X, certificates, looks at separation."""

import time
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from majorant import (
    Binary,
    ChainCRF,
    Labelled,
    LogisticRegression,
    Multinomial,
    Newton,
    Objective,
    QuasiNewton,
    datasets,
    minimize,
)
from majorant.core import certificates, intercept
from majorant.core.matrix import CsrDesign, DenseDesign
from majorant.solvers import State
from tests import problems


@pytest.fixture
def products(monkeypatch):
    """How many vectors were multiplied by X, and its rows, product by product."""
    rows = []
    for kind in (DenseDesign, CsrDesign):
        for name in ("project", "pull_back"):
            method = getattr(kind, name)
            counted = lambda X, R, method=method: rows.append((len(R), X.shape[0])) or method(X, R)  # noqa: E731
            monkeypatch.setattr(kind, name, counted)
    return rows


def ecoli():
    X, y = datasets.load("ecoli")
    return X[:, :-1], y


def tall():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 6)) + 3.0
    return X, (X[:, 0] + rng.logistic(size=5000) > 3).astype(int)


def sparse():
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.uniform(size=(800, 40)) * (rng.uniform(size=(800, 40)) < 0.2))
    return X, rng.integers(0, 3, size=800)


@pytest.mark.parametrize("data", [ecoli, tall, sparse])
@pytest.mark.parametrize("settings", [{}, {"fit_intercept": False}, {"C": 100.0}], ids=str)
def test_a_default_fit_hides_hardly_any_products(data, settings, products):
    """The certificate takes two that are nobody's steps."""
    X, y = data()
    model = LogisticRegression(**settings).fit(X, y)
    assert model.gap_ <= 1e-6
    of_classes = [rows for vectors, rows in products if vectors == len(model.coef_)]  # others are of certificates
    hidden = sum(of_classes) / len(y) - 2 * model.trace_["passes"][-1]
    assert -1e-9 <= hidden <= 3


def test_nothing_is_certified_twice(monkeypatch):
    X, y = ecoli()
    calls = []
    profile = intercept.profile_intercept
    counted = lambda *args, **how: calls.append(1) or profile(*args, **how)  # noqa: E731
    monkeypatch.setattr(certificates, "profile_intercept", counted)
    assert LogisticRegression().fit(X, y).result_.converged
    assert len(calls) <= 2  # a first look may have come too soon


def test_separation_is_looked_for_only_where_it_may_be(monkeypatch):
    calls = []
    separated = Objective.separated
    monkeypatch.setattr(Objective, "separated", lambda self, theta: calls.append(1) or separated(self, theta))
    X, y = ecoli()
    LogisticRegression().fit(X, y)  # two classes bound a free intercept
    LogisticRegression(penalize_intercept=True).fit(X, y)
    assert not calls
    minimize(Objective(Binary(), Labelled([[1.0], [-1.0], [1.0]], [1, 0, 0]), ridge=0.0), Newton())
    assert calls


def test_runs_have_accounts_of_their_own():
    F = problems.make(problems.multinomial)
    first, second = minimize(F, QuasiNewton()), minimize(F, QuasiNewton())
    np.testing.assert_array_equal(first.trace["passes"], second.trace["passes"])
    assert F.work.passes == 0


def test_a_state_forgets_what_it_knew_elsewhere():
    F = Objective(Multinomial(3), Labelled(np.eye(3), [0, 1, 2]), ridge=1.0)
    here = State.at(F.point(np.ones(9)))
    assert here.point is not None
    assert State(np.ones(9), point=here.point).point is None  # the same numbers, but who knows whose
    assert replace(here, theta=np.zeros(9)).point is None
    assert replace(here, stalled=True).point is here.point


# --- seconds ----------------------------------------------------------------------------------------------


def random_chains(seed, many=80, length=12, attributes=60, labels=6):
    """Sequences whose labels have little to do with their attributes: fits take many steps."""
    rng = np.random.default_rng(seed)
    X = [[[f"a{k}" for k in rng.integers(0, attributes, size=4)] for _ in range(length)] for _ in range(many)]
    return X, [[int(label) for label in rng.integers(0, labels, size=length)] for _ in range(many)]


def random_rows(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20_000, 50))
    return X, np.argmax(X[:, :5] + rng.gumbel(size=(20_000, 5)), axis=1)


@pytest.mark.parametrize(
    ("model", "drawn"),
    [(ChainCRF(c2=1e-4, tol=1e-8), random_chains), (LogisticRegression(C=np.inf, n_jobs=1), random_rows)],
    ids=["chains", "rows"],
)
def test_the_trace_holds_the_seconds_of_a_fit(model, drawn):
    X, y = drawn(0)
    model.fit(X, y)  # compiles
    missing = []
    for _ in range(5):
        started = time.process_time()
        model.fit(X, y)
        total = time.process_time() - started
        missing.append(total - model.trace_["cpu_seconds"][-1] - 0.05 * total)
    assert min(missing) < 2e-3  # to read and check X and y
