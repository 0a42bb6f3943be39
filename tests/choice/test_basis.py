"""Columns of choices that are collinear, or nearly."""

import numpy as np
import pytest

from majorant import Choices
from majorant.choice.basis import Collinear, may_be_collinear, refuse_collinear


@pytest.mark.parametrize("rows", [6, 50])
def test_collinear_columns_are_told_one_by_one(rows, monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setattr("majorant.choice.basis.FACTOR_BLOCK", 70)  # some sets at a time
    X = rng.normal(size=(rows, 5)) * [1e-6, 1.0, 1e6, 1.0, 1.0]
    X[:, 3] = 2 * X[:, 1] - 1e-6 * X[:, 2]
    X[:, 4] = 1e9
    X += np.repeat(rng.normal(size=(rows // 2, 5)), 2, axis=0)  # which no choice depends on
    sets = Choices(X, np.full(rows // 2, 2), chosen=np.zeros(rows // 2, dtype=int))
    found = Collinear.of(sets)
    assert [each.tolist() for each in found.groups()] == [[4], [1, 2, 3]]
    with pytest.raises(ValueError, match="column 'e' is constant"):
        refuse_collinear(found.groups(), "abcde")


def test_a_hessian_says_whether_columns_may_be_collinear():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3)) * [1e-12, 1.0, 1e12]
    assert not may_be_collinear(X.T @ X, (X**2).sum(axis=0))
    assert may_be_collinear(X.T @ X, 1e21 * (X**2).sum(axis=0))  # constant but for rounding errors
    X[:, 2] = X[:, 1] + 1e-6 * X[:, 0] / 1e-12
    assert may_be_collinear(X.T @ X, (X**2).sum(axis=0))
    assert may_be_collinear(np.diag([1.0, 0.0]), np.zeros(2))
    assert may_be_collinear(np.diag([1.0, np.nan]), np.zeros(2))
