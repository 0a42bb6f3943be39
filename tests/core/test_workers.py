"""Rows that workers hold: processes, threads and Dask clusters find what one process finds."""

import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from majorant import Checkpoint, Chunks, LogisticRegression, Parquet
from majorant.core.rows import LocalBlocks, Recompute
from tests.sources.test_sources import assert_same, write_parquet
from tests.sources.test_sources import rows as make_rows

PIECES = 5


def piece(number, classes, sparse, weighted):
    X, y = make_rows(classes, sparse)
    weight = np.random.default_rng(1).integers(0, 4, len(y)) * 0.5
    some = slice(len(y) * number // PIECES, len(y) * (number + 1) // PIECES)
    yield (X[some], y[some], weight[some]) if weighted else (X[some], y[some])


def in_pieces(classes=3, sparse=False, weighted=False):
    return Chunks([partial(piece, number, classes, sparse, weighted) for number in range(PIECES)])


def in_memory(classes=3, sparse=False, weighted=False, **settings):
    X, y = make_rows(classes, sparse)
    weight = np.random.default_rng(1).integers(0, 4, len(y)) * 0.5 if weighted else None
    return LogisticRegression(tol=1e-13, **settings).fit(X, y, weight)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("classes", [2, 4])
def test_a_pool_of_processes_fits_sources(pool, classes, sparse, weighted):
    ours = LogisticRegression(tol=1e-13).fit(in_pieces(classes, sparse, weighted), executor=pool)
    assert ours.result_.converged, ours.result_
    assert_same(ours, in_memory(classes, sparse, weighted), atol=2e-6)


@pytest.mark.parametrize("solver", ["auto", "bbm", "newton", "scipy-lbfgs"])
def test_a_pool_fits_rows_that_are_in_memory_here(pool, solver):
    X, y = make_rows()
    ours = LogisticRegression(tol=1e-10, solver=solver).fit(X, y, executor=pool)
    assert ours.result_.converged, ours.result_
    assert_same(ours, in_memory(), atol=1e-4)


def test_shares_that_do_not_fit_are_read_again(monkeypatch):
    monkeypatch.setattr("majorant.estimators.source.LARGEST_SHARE", 0)
    with ThreadPoolExecutor(2) as threads:
        ours = LogisticRegression(tol=1e-13).fit(in_pieces(), executor=threads)
    assert_same(ours, in_memory())


def test_rows_stay_with_workers(pool):
    with pytest.raises(TypeError, match="these rows stay with their workers: use a solver that asks for sums alone"):
        LogisticRegression(solver="proximal").fit(in_pieces(), executor=pool)
    with pytest.raises(TypeError, match="executor must be a concurrent"):
        LogisticRegression().fit(in_pieces(), executor="two")


def nothing():
    yield np.empty((0, 4)), []


def test_pieces_without_rows_do_no_harm(pool):
    pieces = [nothing, *in_pieces().factory, nothing, nothing]
    assert_same(LogisticRegression(tol=1e-13).fit(Chunks(pieces), executor=pool), in_memory(), atol=2e-6)
    with pytest.raises(ValueError, match="there are no rows to fit"):
        LogisticRegression().fit(Chunks([nothing, nothing]), executor=pool)


def test_a_fit_may_go_on_with_workers_or_without(pool, tmp_path):
    X, y = make_rows()

    def stop(row, theta):
        if row["step"] >= 2:
            raise KeyboardInterrupt

    for first, second in ((None, pool), (pool, None)):
        path = tmp_path / f"{first is None}.npz"
        with pytest.raises(KeyboardInterrupt):
            LogisticRegression(tol=1e-12, callbacks=[Checkpoint(path, every=0), stop]).fit(X, y, executor=first)
        model = LogisticRegression(tol=1e-12).fit(X, y, executor=second, resume_from=path)
        assert model.n_iter_[0] > 2
        assert_same(model, in_memory(), atol=2e-6)


def wrong(number):
    yield np.where((np.eye(4) == 1) & (number == 1), np.nan, 0.0), [0, 1, 0, 1]


def test_workers_say_what_is_wrong_and_where(pool):
    with pytest.raises(ValueError, match=re.escape("function 1, chunk 0, row 0: column 0 holds nan")):
        LogisticRegression().fit(Chunks([partial(wrong, 0), partial(wrong, 1)]), executor=pool)


def test_what_is_found_again_may_need_what_was_kept():
    blocks = LocalBlocks(range(5))
    kept = blocks.map(lambda block: 10 * block)
    twice = Recompute(lambda ten, block: 2 * ten, (kept,))
    plain = Recompute(lambda block: block)
    assert blocks.total(lambda a, b, c, block: a + b + c, plain, twice, kept) == sum(31 * k for k in range(5))


# --- Dask -------------------------------------------------------------------------------------------------

dask = pytest.importorskip("dask", reason="Dask is not installed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def client(cluster):
    with distributed.Client(cluster, set_as_default=False) as client:
        yield client


def arrays(classes=3, sparse=False, weighted=False, unknown=False):
    X, y = make_rows(classes, sparse)
    weight = da.from_array(np.random.default_rng(1).integers(0, 4, len(y)) * 0.5, chunks=300) if weighted else None
    if sparse:
        parts = [dask.delayed(X[k : k + 300]) for k in range(0, len(y), 300)]
        rows = da.concatenate([da.from_delayed(part, (300, X.shape[1]), float) for part in parts])
    else:
        rows = da.from_array(X, chunks=(300, 3))
    labels = da.from_array(y, chunks=200)
    if unknown:
        frame = dd.from_dask_array(rows.rechunk({1: -1}))
        numbers = da.from_array(np.unique(y, return_inverse=True)[1], chunks=300)
        rows, labels = frame.to_dask_array(), dd.from_dask_array(numbers).to_dask_array()
    return rows, labels, weight


@pytest.mark.parametrize("where", ["default scheduler", "cluster"])
@pytest.mark.parametrize(
    "kind",
    [
        dict(),
        dict(classes=2),
        dict(weighted=True),
        dict(sparse=True),
        dict(unknown=True),
    ],
    ids=str,
)
def test_dask_arrays(client, where, kind):
    X, y, weight = arrays(**kind)
    executor = client if where == "cluster" else None
    ours = LogisticRegression(tol=1e-14).fit(X, y, weight, executor=executor)
    assert ours.result_.converged, ours.result_
    known = {name: value for name, value in kind.items() if name != "unknown"}
    ours.classes_ = np.array([f"class {k}" for k in range(len(ours.classes_))])  # some are numbers
    assert_same(ours, in_memory(**known), atol=1e-6)


def test_dask_frames_bring_their_names(client):
    X, y = make_rows()
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")).assign(label=y), npartitions=4)
    for executor in (None, client):
        ours = LogisticRegression(tol=1e-12).fit(frame[list("abcd")], frame["label"], executor=executor)
        assert ours.feature_names_in_.tolist() == list("abcd")
        assert_same(ours, in_memory(), atol=1e-6)
    with pytest.raises(ValueError, match="y must be partitioned as X is, into 4 parts, got 2"):
        LogisticRegression().fit(frame[list("abcd")], frame["label"].repartition(npartitions=2))
    with pytest.raises(TypeError, match="must all be Dask collections"):
        LogisticRegression().fit(frame[list("abcd")], y)


def test_the_client_of_a_process_is_used(client):
    X, y, _ = arrays()
    with client.as_current(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("majorant.estimators.source.running_client", lambda: client)
        ours = LogisticRegression(tol=1e-12).fit(X, y)
    assert_same(ours, in_memory(), atol=1e-6)


def test_clusters_read_sources(client, tmp_path):
    X, y = make_rows()
    source = Parquet(write_parquet(tmp_path / "data", X, y), target="label")
    assert_same(LogisticRegression(tol=1e-12).fit(source, executor=client), in_memory(), atol=1e-6)


def test_rows_that_do_not_fit_are_read_at_every_round(client, monkeypatch):
    monkeypatch.setattr("majorant.estimators.source.PINNED", 0.0)
    monkeypatch.setattr("majorant.core.remote.CACHE_SHARE", 0.0)
    assert_same(LogisticRegression(tol=1e-12).fit(in_pieces(), executor=client), in_memory(), atol=1e-6)


def test_a_worker_that_is_killed_costs_no_fit(client):
    """Rows that it held are read again, and what was kept with them is found again."""
    killed = []

    def kill(row, theta):
        if len(killed) < 2:
            victim = next(iter(client.run(os.getpid).values()))
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    ours = LogisticRegression(tol=1e-18, callbacks=[kill]).fit(in_pieces(), executor=client)
    client.wait_for_workers(2, timeout=60)  # others may need them
    assert len(killed) == 2
    assert_same(ours, in_memory(), atol=1e-6)
