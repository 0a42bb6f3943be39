"""Rows that stand sorted by label, visited in another order."""

import numpy as np
import pytest
import scipy.sparse as sp

from majorant import Chunks, LogisticRegression
from majorant.core.rows import Order
from majorant.estimators.source import surveyed
from majorant.sources import streamed
from majorant.sources.streamed import Encoding, windows_of


@pytest.mark.parametrize("seed", range(4))
def test_windows_hold_every_row_once(seed):
    rng = np.random.default_rng(seed)
    chunks = rng.integers(1, 400, size=rng.integers(1, 90)).tolist()
    windows = list(windows_of(chunks, seed, passes=1))
    seen = [(number, row) for window in windows for number, rows in window for row in range(rows.start, rows.stop)]
    assert sorted(seen) == [(number, row) for number, rows in enumerate(chunks) for row in range(rows)]
    assert sum(rows.stop - rows.start for window in windows for _, rows in window) == sum(chunks)
    assert windows == list(windows_of(chunks, seed, passes=1))
    if len(chunks) > streamed.GROUP:
        assert windows != list(windows_of(chunks, seed, passes=2))


def test_a_window_has_labels_of_all_chunks():
    """Also where each chunk is sorted: shares of labels are those of all rows, to a few in a hundred."""
    y = np.repeat(np.arange(7), 3000)
    chunks = [1500] * 14
    for window in windows_of(chunks, 0, 0):
        codes = np.concatenate([y[1500 * number + rows.start : 1500 * number + rows.stop] for number, rows in window])
        assert abs(np.bincount(codes, minlength=7) / len(codes) - 1 / 7).max() < 0.03


def sorted_rows(sparse, t=1200):
    """Rows that say which they are in their first column, sorted by label, with weights."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(t, 4)) * (rng.random((t, 4)) < 0.5)
    X[:, 0] = np.arange(1, t + 1)
    y, weight = np.repeat([0, 1, 2], t // 3), rng.uniform(0.5, 2, size=t)
    return (sp.csr_array(X) if sparse else X), y, weight


def placed(X, y, weight, size=190):
    at = range(0, X.shape[0], size)
    source = Chunks(lambda: ((X[k : k + size], y[k : k + size], weight[k : k + size]) for k in at))
    encoding = Encoding(np.arange(3), None, X.shape[1], X.dtype, False, None, X.shape[0])
    return surveyed(source).place(encoding).data


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_come_with_their_labels_and_weights(sparse, monkeypatch):
    monkeypatch.setattr("majorant.sources.base.SMALL", 100)
    X, y, weight = sorted_rows(sparse)
    data, order = placed(X, y, weight), Order(seed=3)
    visited = list(data.visits(order, 0, 0, len(y), 10))
    rows = np.concatenate([each.design.toarray() for each in visited])
    which = rows[:, 0].astype(int) - 1
    assert sorted(which) == list(range(len(y)))
    assert len(set(y[which[:100]])) == 3
    dense = X.toarray() if sparse else X
    np.testing.assert_array_equal(rows, dense[which])
    np.testing.assert_array_equal(np.concatenate([each.y for each in visited]), y[which])
    np.testing.assert_array_equal(np.concatenate([each.weight for each in visited]), weight[which])
    for middle in (1, 190, 777, len(y) - 1):  # a pass goes on where it was left
        parts = [*data.visits(order, 0, 0, middle, 10), *data.visits(order, 0, middle, len(y), 10)]
        np.testing.assert_array_equal(np.concatenate([each.design.toarray() for each in parts]), rows)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("classes", [2, 6])
def test_sorted_rows_are_learnt_as_well_as_shuffled_ones(seed, classes, monkeypatch):
    monkeypatch.setattr("majorant.sources.base.SMALL", 100)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(6000, 5))
    y = (X @ rng.normal(size=(5, classes)) + rng.gumbel(size=(6000, classes))).argmax(axis=1)

    def loss(rows):
        source = Chunks(lambda: ((X[some], y[some]) for some in np.array_split(rows, 12)))
        model = LogisticRegression(solver="proximal", max_iter=1, tol=0.5).fit(source)
        return -np.mean(model.predict_log_proba(X)[np.arange(len(y)), y])

    assert loss(np.argsort(y, kind="stable")) < loss(np.arange(len(y))) * 1.005
