"""Choice models say the same whatever units columns are in, also of columns nearly collinear or far from zero."""

import re
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from majorant import ConditionalLogit, LatentClassLogit
from majorant.core.result import Outcome

KINDS = ("plain", "twice", "sum", "constant", "near", "quasi-separated", "separated", "rare")
DRAWS = 14


def situations(seed, kind="plain", count=60):
    """Return X (four columns), y and groups of random situations of two to four alternatives."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 5, count)
    groups, starts = np.repeat(np.arange(count), sizes), np.concatenate([[0], np.cumsum(sizes)[:-1]])
    X = rng.normal(size=(len(groups), 4))
    utility = X[:, 0] if kind == "separated" else X @ rng.normal(size=4) + rng.gumbel(size=len(groups))
    y = (utility == np.repeat(np.maximum.reduceat(utility, starts), sizes)).astype(float)
    last = {
        "twice": X[:, 2],
        "sum": X[:, 1] + X[:, 2],
        "constant": rng.normal(size=count)[groups],
        "near": X[:, 2] + 1e-6 * X[:, 3],
        "quasi-separated": (y == 1) & (groups % 5 == 0),
        "rare": X[:, 3] > 1.2,
    }
    X[:, 3] = last.get(kind, X[:, 3])
    return X, y, groups


def fitted(estimator, X, y, groups):
    """Return what is said of a fit, numbers left out, and the model if there is one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = estimator.fit(X, y, groups)
        except ValueError as refusal:
            return str(refusal), None
    said = [model.result_.outcome.value, *(str(each.message) for each in caught)]
    return re.sub(r"(?<![xz])-?\d[\d.e+-]*( steps?)?", "#", " ".join(said)), model


@pytest.mark.parametrize("kind", KINDS)
def test_units_of_columns_change_neither_verdicts_nor_estimates(kind):
    for seed in range(DRAWS):
        X, y, groups = situations(seed, kind)
        units = 10.0 ** np.random.default_rng(1000 + seed).uniform(-12, 12, size=4)
        expected, plain = fitted(ConditionalLogit(), X, y, groups)
        said, model = fitted(ConditionalLogit(), X * units, y, groups)
        assert said == expected
        if plain is None or plain.result_.outcome is not Outcome.CONVERGED:
            continue
        errors = plain.summary().std_errors
        assert_allclose(model.coef_ * units / errors, plain.coef_ / errors, atol=1e-6)
        assert_allclose(model.summary().std_errors * units, errors, rtol=1e-6)
        robust = plain.summary("robust").std_errors
        assert_allclose(model.summary("robust").std_errors * units, robust, rtol=1e-5)
        assert_allclose(model.log_likelihood_, plain.log_likelihood_, rtol=1e-10)
        assert (model.coef_error_ * units < 1e-3 * errors).all()
        assert (plain.coef_error_ < 1e-3 * errors).all()


@pytest.mark.parametrize("kind", ["plain", "twice", "constant", "near", "quasi-separated", "separated"])
@pytest.mark.parametrize("classes", [1, 2])
def test_units_change_nothing_of_latent_classes(kind, classes):
    for seed in range(2):
        X, y, groups = situations(seed, kind)
        units = 10.0 ** np.random.default_rng(1000 + seed).uniform(-12, 12, size=4)
        expected, plain = fitted(LatentClassLogit(classes, n_init=2), X, y, groups)
        said, model = fitted(LatentClassLogit(classes, n_init=2), X * units, y, groups)
        if kind == "separated":  # any split into classes is an optimum, one with an empty class, too
            assert said.split()[0] == expected.split()[0] == "unbounded"
            assert "completely separated" in said
            assert "completely separated" in expected
            continue
        assert said == expected
        if plain is not None and plain.result_.outcome in (Outcome.CONVERGED, Outcome.STATIONARY):
            errors = plain.summary().std_errors[: 4 * classes].reshape(classes, 4)
            assert_allclose(model.coef_ * units / errors, plain.coef_ / errors, atol=1e-5)
            assert_allclose(model.log_likelihood_, plain.log_likelihood_, rtol=1e-9)


@pytest.mark.parametrize("units", [1e-12, 1.0, 1e12])
def test_units_of_what_is_known_of_people_change_nothing(units):
    X, y, groups = situations(3, count=120)
    persons = groups // 4
    known = np.random.default_rng(0).normal(size=30)
    plain = LatentClassLogit(2, n_init=2, C=10.0).fit(X, y, groups, persons, membership=known[persons])
    model = LatentClassLogit(2, n_init=2, C=10.0).fit(X, y, groups, persons, membership=units * (7 + known[persons]))
    assert_allclose(model.log_likelihood_, plain.log_likelihood_, rtol=1e-9)
    assert_allclose(model.membership_[0, 1] * units, plain.membership_[0, 1], rtol=1e-4)
    assert_allclose(model.membership_[0, 0] + 7 * plain.membership_[0, 1], plain.membership_[0, 0], atol=1e-4)
    assert_allclose(model.summary().std_errors[-1] * units, plain.summary().std_errors[-1], rtol=1e-4)
    assert_allclose(model.summary("robust").std_errors[-1] * units, plain.summary("robust").std_errors[-1], rtol=1e-4)
    again = model.predict_membership(X, y, groups, persons, membership=units * (7 + known[persons]))[1]
    assert_allclose(again, model.memberships_, atol=1e-9)


@pytest.mark.parametrize("tiny", [1e-5, 1e-6, 1e-8, 1e-10])
def test_columns_that_are_nearly_collinear_are_told_apart(tiny, tmp_path):
    """x, x + tiny·e and w are x, e and w in another basis: log-likelihoods and standard errors follow."""
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(600, 3)), np.repeat(np.arange(200), 3)
    utility = X @ [1.0, 0.7, -0.5] + rng.gumbel(size=600)
    y = (utility.reshape(-1, 3) == utility.reshape(-1, 3).max(axis=1, keepdims=True)).ravel()
    near = np.column_stack([X[:, 0], X[:, 0] + tiny * X[:, 1], X[:, 2]])
    exact = np.column_stack([X[:, 0], (near[:, 1] - near[:, 0]) / tiny, X[:, 2]])  # what is left of e
    plain, model = (ConditionalLogit().fit(each, y, groups) for each in (exact, near))
    assert model.result_.outcome is Outcome.CONVERGED
    digits = 1e-15 / tiny  # of e that are left
    assert_allclose(model.log_likelihood_, plain.log_likelihood_, rtol=1e-9 + digits)
    assert_allclose(model.coef_[1] * tiny, plain.coef_[1], rtol=1e-9 + digits)
    assert_allclose(model.coef_[2], plain.coef_[2], rtol=1e-9 + digits)
    off = np.abs(model.coef_ - [plain.coef_[0] - plain.coef_[1] / tiny, plain.coef_[1] / tiny, plain.coef_[2]])
    assert (off <= model.coef_error_ + 4e-16 * np.abs(model.coef_)).all()
    for kind in ("hessian", "robust"):
        errors, expected = model.summary(kind).std_errors, plain.summary(kind).std_errors
        assert_allclose(errors * [tiny, tiny, 1.0], expected[[1, 1, 2]], rtol=1e-6 + 2 * tiny + digits)
    model.save(tmp_path / "model.npz")
    assert_allclose(ConditionalLogit.load(tmp_path / "model.npz").covariance(), model.covariance())
    one = LatentClassLogit(1).fit(near, y, groups)
    assert_allclose(one.coef_[0] * [tiny, tiny, 1.0], model.coef_ * [tiny, tiny, 1.0], rtol=1e-6)
    assert_allclose(one.summary().std_errors, model.summary().std_errors, rtol=1e-6)


def test_columns_are_collinear_where_rounding_is_all_that_tells_them_apart():
    X, y, groups = situations(0)
    X[:, 3] = 0.1 * X[:, 0] + 0.3 * X[:, 2]
    for estimator in (ConditionalLogit(), LatentClassLogit(1)):
        with pytest.raises(ValueError, match="columns 'x0', 'x2', 'x3' are collinear within every group"):
            estimator.fit(X, y, groups)
    X[:, 3] = 0.3
    X[::2, 3] = 0.1 + 0.2  # another last bit
    for estimator in (ConditionalLogit(), LatentClassLogit(1)):
        with pytest.raises(ValueError, match="column 'x3' is constant within every group"):
            estimator.fit(X, y, groups)


@pytest.mark.parametrize("size", [1e160, 1e-160, 1e-200])
@pytest.mark.parametrize("estimator", [ConditionalLogit(), ConditionalLogit(C=1.0), LatentClassLogit(1)])
def test_columns_whose_squares_are_no_numbers_are_refused_for_that(estimator, size):
    X, y, groups = situations(0)
    X[:, 1] *= size
    with pytest.raises(ValueError, match=r"column 'x1' holds numbers .*, whose squares are beyond double precision"):
        estimator.fit(X, y, groups)
    with pytest.raises(ValueError, match="membership column 'z0' holds numbers"):
        LatentClassLogit(2).fit(X[:, [0]], y, groups, membership=size * (1.0 + groups))


@pytest.mark.parametrize("shift", [1e6, 1e9, 1e12])
def test_differences_count_where_numbers_are_large(shift):
    """Times in nanoseconds since 1970, say."""
    X, y, groups = situations(1)
    X = np.round(X, 2)
    far = X + shift * np.random.default_rng(0).uniform(1, 2, size=60).round(3)[groups][:, None]
    plain = ConditionalLogit().fit(X, y, groups)
    model = ConditionalLogit().fit(far, y, groups)
    assert model.result_.outcome is Outcome.CONVERGED
    errors = plain.summary().std_errors
    assert_allclose(model.coef_ / errors, plain.coef_ / errors, atol=1e-13 * shift + 1e-9)
    assert_allclose(model.summary().std_errors, errors, rtol=1e-13 * shift + 1e-9)
    assert (model.coef_error_ < 1e-6 * errors).all()


def test_differences_from_large_numbers_are_exact():
    X, y, groups = situations(1)
    far = np.round(X, 2) + 214_611.27
    first = np.concatenate([[0], np.flatnonzero(np.diff(groups)) + 1])
    differences = far - far[first][groups]
    model, exact = (ConditionalLogit().fit(each, y, groups) for each in (far, differences))
    assert_allclose(model.coef_, exact.coef_, rtol=1e-14)


@pytest.mark.parametrize("solver", ["newton", "bbm", "lbfgs"])
def test_every_solver_finds_estimates_of_columns_of_any_size(solver):
    X, y, groups = situations(2, count=70)
    units = np.array([1e4, 1e-4, 1e-4, 1.0])
    exact = ConditionalLogit().fit(X, y, groups)
    model = ConditionalLogit(solver=solver).fit(X * units, y, groups)
    assert_allclose(model.coef_ * units, exact.coef_, rtol=1e-6)
    penalised = ConditionalLogit(solver=solver, C=3.0).fit(X, y, groups)
    same = ConditionalLogit(solver=solver, C=3.0e-18).fit(X * 1e9, y, groups)
    assert_allclose(same.coef_ * 1e9, penalised.coef_, rtol=1e-6)
