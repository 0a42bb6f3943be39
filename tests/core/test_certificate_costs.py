"""What tight certificates cost fits without a penalty: one look, few rows, and no more steps than needed."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from majorant import Binary, Labelled, Newton, Objective, QuasiNewton, minimize
from majorant.core import certificates
from majorant.design import CsrDesign
from tests.truth import Truth, centred, drawn


def looked_at(monkeypatch):
    """Return a list of every look for a certificate to come: how, and what was found."""
    looks, certify = [], certificates.by_self_concordance

    def noted(F, at, **how):
        looks.append((how, certify(F, at, **how)))
        return looks[-1][1]

    monkeypatch.setattr(certificates, "by_self_concordance", noted)
    return looks


def test_a_look_that_comes_too_early_does_not_put_the_optimum_in_doubt():
    F, rng = drawn(3)
    F = F.with_ridge(0.0)
    best = minimize(F, Newton(), tol=1e-12).params
    early = certificates.by_self_concordance(F, F.point(best + 0.01 * rng.normal(size=F.size)), aim=1e-12)
    assert early.early
    assert np.isnan(early.gap)
    assert 1e-12 < early.decrement < 1
    assert not certificates.by_self_concordance(F, F.point(best), aim=1e-8).early


def test_newtons_steps_in_the_metric_at_hand_lead_to_the_optimum():
    F, rng = drawn(3)
    F = F.with_ridge(0.0)
    truth = Truth(F)
    best = truth.optimum(np.zeros(F.size))
    theta = (best + 0.01 * rng.normal(size=F.size)).astype(float)
    found = certificates.by_self_concordance(F, F.point(theta), aim=1e-8, settle=1e-2)
    assert found.region.radius <= 1.01 * certificates.SETTLED
    assert found.gap < 1e-12
    error = np.abs(centred(found.theta - best, F.model.redundancy(F.like))).astype(float)
    assert (error <= found.region.within(F.model.redundancy(F.like)).ravel() + 1e-17).all()


def test_a_fit_without_a_penalty_looks_once_and_for_few_rows(monkeypatch):
    """Of 300 parameters a Hessian of all rows would cost more than the steps of a fit do."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12_000, 300))
    F = Objective(Binary(), Labelled(X, X @ rng.normal(size=300) / 17 + rng.logistic(size=12_000) > 0), ridge=0.0)
    looks = looked_at(monkeypatch)
    found = minimize(F, QuasiNewton())
    assert found.result.gap <= 1e-8
    assert [how["share"] < 0.2 for how, _ in looks] == [True]


def test_of_more_parameters_it_is_looked_for_where_that_is_asked_for():
    rng = np.random.default_rng(0)
    X = sp.random_array((9_000, 3_000), density=2e-3, random_state=rng, format="csr")
    X = sp.csr_array(sp.vstack([X, sp.eye_array(3_000), sp.eye_array(3_000)]))  # every column in two classes
    y = np.concatenate([rng.integers(0, 2, 9_000), np.zeros(3_000, dtype=int), np.ones(3_000, dtype=int)])
    F = Objective(Binary(), Labelled(X, y), ridge=0.0)
    silent, certified = (minimize(F, QuasiNewton(), largest_hessian=most) for most in (2_000, 3_000))
    assert np.isnan(silent.result.gap)
    assert certified.result.gap <= 1e-8
    assert "a unique maximum-likelihood estimate exists (proved)" in str(certified.result)
    assert np.isnan(F.certify(silent.params).gap)


def test_magnitudes_of_sparse_columns_measured_from_a_centre_are_not_written_out():
    rng = np.random.default_rng(0)
    X, centre = sp.random_array((40, 6), density=0.3, random_state=rng, format="csr"), rng.normal(size=6)
    magnitude, total = CsrDesign(X, constant=True, origin=centre).absolute()
    expected = np.abs(np.column_stack([X.toarray() - centre, np.ones(40)]))
    assert magnitude.is_sparse
    np.testing.assert_allclose(magnitude.toarray(), expected, atol=1e-15)
    np.testing.assert_allclose(total, expected.sum(axis=1), rtol=1e-14)
