"""Probes of several label sets over one feature matrix: those fitted alone, with products of columns made once."""

import numpy as np
import pytest

from majorant import Binary, Labelled, LinearProbe, Multinomial, Objective
from majorant.core.labelled import CommonGram, with_common
from majorant.core.preconditioners import gram_sums, shared_gram
from tests.linear.test_probe import GRID, embeddings


def test_label_sets_and_subsets_share_features():
    X, y = embeddings()
    few = np.flatnonzero(np.arange(len(y)) % 4 == 0)
    probes = LinearProbe(GRID).fit_many(X, {"all": y, "two": y == "class 1", "few": (few, y[few])})
    alone = LinearProbe(GRID)
    assert np.array_equal(probes["all"].coef_, alone.fit(X, y).coef_)
    assert np.array_equal(probes["two"].coef_, alone.fit(X, y == "class 1").coef_)
    assert np.array_equal(probes["few"].coef_, alone.fit(X[few], y[few]).coef_)


def counted_at_zero(monkeypatch):
    """Return a list that grows whenever products of columns are made where coefficients are zero."""
    made, mean_gram = [], Objective.mean_gram

    def counting(self, at, dtype, **rest):
        if not at.theta.reshape(-1, self.like.n_features)[:, :-1].any():
            made.append(self.rows)
        return mean_gram(self, at, dtype, **rest)

    monkeypatch.setattr(Objective, "mean_gram", counting)
    return made


def several_label_sets(rows=2000, columns=70, classes=30, seed=3):
    """Two label sets of too many classes for a Hessian, one of fewer, one of a subset, one of a few shots."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns)) @ rng.normal(size=(columns, columns)) / columns**0.5 + 5.0
    scores = rng.gumbel(size=(3, rows, classes)) + (X - 5.0) @ rng.normal(size=(3, columns, classes))
    a, b, c = scores.argmax(axis=2)
    half, few = np.arange(0, rows, 2), np.arange(0, rows, 20)
    return X, {"a": a, "b": b, "fewer": c // 2, "half": (half, a[half]), "few": (few, b[few])}


def test_products_of_columns_are_made_once_for_all_label_sets(monkeypatch):
    X, sets = several_label_sets()
    made = counted_at_zero(monkeypatch)
    probes = LinearProbe(GRID[:3], tol=1e-7).fit_many(X, sets)
    assert len([rows for rows in made if rows > 100]) == 1
    assert len(made) <= 2  # few shots vary along few directions: theirs are their own
    made.clear()
    for name, given in sets.items():
        rows, y = given if isinstance(given, tuple) else (slice(None), given)
        alone = LinearProbe(GRID[:3], tol=1e-7).fit(X[rows], y)
        assert probes[name].C_ == alone.C_
        assert np.allclose(probes[name].coef_, alone.coef_, atol=1e-4)
        assert "_common" not in vars(probes[name])
    assert len([rows for rows in made if rows > 100]) > 1


def test_columns_are_as_large_as_in_rows_of_their_own():
    """Others tell how they hang together; of these some are larger."""
    X, sets = several_label_sets()
    X[1000:, :5] *= 20.0
    y, setting = sets["b"][1000:], LinearProbe(GRID[:1], tol=1e-7)
    last = setting.fit_many(X, {"first": (slice(0, 1000), sets["a"][:1000]), "last": (slice(1000, 2000), y)})["last"]
    alone = setting.fit(X[1000:], y)
    assert np.allclose(last.coef_, alone.coef_, atol=1e-4)
    assert last.n_iter_[0] <= 2 * alone.n_iter_[0] + 2


def test_the_label_set_that_is_wrong_is_named():
    X, y = embeddings()
    with pytest.raises(ValueError, match=r"labels\['short'\]: .*inconsistent numbers"):
        LinearProbe(GRID[:1]).fit_many(X, {"right": y, "short": y[:-1]})


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("constant", [True, False])
def test_products_that_are_known_are_scaled_to_the_labels(classes, constant):
    X, y = embeddings(classes)
    common = CommonGram()

    def problem(y):
        model = Binary() if classes == 2 else Multinomial(classes)
        data = Labelled(X, y, constant=constant, center=constant)
        F = Objective(model, with_common(data, common), ridge=1.0)
        return F, F.point(F.with_likely_intercept(np.zeros(F.size)))

    codes = np.unique(y, return_inverse=True)[1]
    F, at = problem(codes)
    gram_sums(F, at, np.float64)
    other, there = problem(np.maximum(codes[::-1] - (np.arange(len(y)) % 3 == 0), 0))
    assert shared_gram(other, there, np.float64)[1] is not None
    found = gram_sums(other, there, np.float64)
    for ours, theirs in zip(found, other.mean_gram(there, np.float64), strict=True):
        assert ours.shape == theirs.shape
        assert np.allclose(ours, theirs, rtol=1e-10, atol=1e-8)
    moved = other.point(there.theta + 0.1)
    assert shared_gram(other, moved, np.float64) == (None, None)
