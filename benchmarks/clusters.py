"""Fits on a Dask cluster of two processes: against one process, against dask-ml, and what their rounds are and cost."""

from __future__ import annotations

import time
from functools import partial

import numpy as np

from benchmarks import report

# Settings by which Dask watches itself less: what they switch off takes a tenth of a core, of two that workers fill.
UNWATCHED = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
}


def two_workers(shapes=((60_000, 400, 10), (120_000, 400, 10), (120_000, 400, 30))):
    """One process, and a Dask cluster of two, data in memory: few rows, where rounds tell, and more."""
    return [row for shape in shapes for row in _two_workers(*shape)]


def _two_workers(rows: int, columns: int, classes: int) -> list[dict]:
    """Against Dask as it comes, and where it watches itself less."""
    from majorant import LogisticRegression

    X, y = _multinomial(rows, columns, classes)
    fit = LogisticRegression(tol=1e-6, n_jobs=1).fit
    fit(X[:2000], y[:2000])  # compiled
    alone = min(_seconds(lambda: fit(X, y)) for _ in range(2))
    coef = fit(X, y).coef_
    return [
        {"shape": f"{rows}×{columns}×{classes}", "Dask": name, **_of_two_workers(X, y, alone, coef, settings)}
        for name, settings in (("as it comes", {}), ("unwatched", UNWATCHED))
    ]


def _of_two_workers(X, y, alone: tuple[float, float, float], coef, settings: dict) -> dict:
    """Seconds of both; and those of CPU, which others on the machine change less: a step waits for both of the last."""
    import dask
    from distributed import Client, LocalCluster, wait

    from majorant import LogisticRegression

    fit = LogisticRegression(tol=1e-6, n_jobs=1).fit
    with dask.config.set(settings), _cluster(LocalCluster) as cluster, Client(cluster) as client:
        # Copied by workers, as if these had read them: what has travelled is at odd addresses, and copied by every fit.
        Xd, yd = (client.persist(each.map_blocks(np.array)) for each in _as_dask(X, y, len(X) // 4))
        wait([Xd, yd])
        LogisticRegression(tol=1e-1).fit(Xd, yd)  # workers compile
        together = min(_seconds(lambda: fit(Xd, yd), lambda: client.run(time.process_time)) for _ in range(2))
        model = LogisticRegression(tol=1e-6, n_jobs=1).fit(Xd, yd)
    return {
        "one process": alone[0],
        "two workers": together[0],
        "times faster": alone[0] / together[0],
        "CPU, one process": alone[1],
        "a worker": together[2],
        "client": together[1],
        "times less": alone[1] / (together[1] + together[2]),
        "rounds": model.n_rounds_,
        "largest difference": float(np.abs(model.coef_ - coef).max()),
    }


def _seconds(call, of_workers=dict) -> tuple[float, float, float]:
    """Return the seconds of a call, and those of CPU: of this process, and of the worker that had most to do."""
    before, cpu, start = of_workers(), time.process_time(), time.perf_counter()
    call()
    wall, cpu, after = time.perf_counter() - start, time.process_time() - cpu, of_workers()
    return wall, cpu, max((after[each] - before[each] for each in after), default=0.0)


def dask_ml(rows: int = 400_000, columns: int = 50):
    """Seconds to a true 1e-4 against dask-ml's lbfgs on the same cluster; and its answer for three classes."""
    from distributed import Client, LocalCluster

    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns)) + 1
    y = (X @ rng.normal(size=columns) / 3 + rng.logistic(size=rows) > 1).astype(int)
    with _cluster(LocalCluster) as cluster, Client(cluster) as client:
        Xd, yd = (client.persist(each) for each in _as_dask(X, y, rows // 4))
        optimum, value = _optimum(X, y)
        _fit_ours(Xd, yd, 1e-1), _fit_theirs(Xd, yd, 1e-1)  # workers import and compile
        ours = _first_to(1e-4, optimum, value, lambda tol: _fit_ours(Xd, yd, tol), (1e-2, 1e-3, 1e-4, 1e-6))
        theirs = _first_to(1e-4, optimum, value, lambda tol: _fit_theirs(Xd, yd, tol), (1e-2, 1e-4, 1e-6, 1e-8))
        wrong = _three_classes(client)
    return [{"rows": rows, "ours": ours, "dask-ml": theirs, "times faster": theirs / ours, **wrong}]


def _first_to(level, optimum, value, fit, tolerances) -> float:
    """Return the seconds of a fit, the loosest whose F is within a share of the optimum: the median of three."""
    for tol in tolerances:
        if value(fit(tol)) <= optimum * (1 + level):
            return float(np.median([report.seconds(lambda tol=tol: fit(tol)) for _ in range(3)]))
    return float("nan")


def _fit_ours(X, y, tol):
    from majorant import LogisticRegression

    model = LogisticRegression(tol=tol, n_jobs=1).fit(X, y)
    return np.append(model.coef_, model.intercept_)


def _fit_theirs(X, y, tol):
    from dask_ml.linear_model import LogisticRegression

    model = LogisticRegression(solver="scipy-lbfgs", C=1.0, tol=tol, max_iter=1000).fit(X, y)
    return np.append(model.coef_, model.intercept_)


def _optimum(X, y):
    """Return the least F, and F as a function of coefficients and intercept."""
    from majorant import Binary, Labelled, Objective, QuasiNewton, minimize

    F = Objective(Binary(), Labelled(X, y, constant=True), ridge=np.append(np.ones(X.shape[1]), 0.0))
    return minimize(F, QuasiNewton(), tol=1e-12).trace["objective"][-1], F.value


def _three_classes(client):
    import dask.array as da

    from majorant import LogisticRegression

    X, y = _multinomial(20_000, 10, 3)
    Xd, yd = da.from_array(X, chunks=(5_000, 10)), da.from_array(y, chunks=5_000)
    ours = LogisticRegression().fit(Xd, yd).score(X, y)
    try:
        from dask_ml.linear_model import LogisticRegression as Theirs

        theirs = float(np.mean(np.asarray(Theirs(solver="lbfgs").fit(Xd, yd).predict(Xd)) == y))
    except Exception as problem:
        theirs = type(problem).__name__
    return {"3 classes, ours": float(ours), "3 classes, theirs": theirs}


def rounds():
    """Messages to all workers of a multinomial fit certified to 1e-6, on data like Mnist's."""
    from distributed import Client, LocalCluster

    from majorant import LogisticRegression

    found = []
    with _cluster(LocalCluster) as cluster, Client(cluster):
        for rows, columns in ((60_000, 50), (20_000, 200)):
            X, y = _multinomial(rows, columns, 10)
            start = time.perf_counter()
            model = LogisticRegression(tol=1e-6, n_jobs=1).fit(*_as_dask(X, y, rows // 4))
            found.append(
                {
                    "shape": f"{rows}×{columns}×10",
                    "rounds": model.n_rounds_,
                    "steps": int(model.n_iter_[0]),
                    "gap": model.gap_,
                    "seconds": time.perf_counter() - start,
                }
            )
    return found


def round_of_nothing(times: int = 200) -> float:
    """Return the median seconds of a call to two workers that hold a few rows each."""
    from dask import delayed
    from distributed import Client, LocalCluster

    from majorant import Binary, Labelled
    from majorant.core.remote import ActorBlocks, Actors

    gradient = partial(Binary().loss_and_gradient, np.zeros(1000))
    with _cluster(LocalCluster) as cluster, Client(cluster) as client:
        shares = [delayed([Labelled(np.eye(2, 1000), [0, 1])]) for _ in range(2)]
        blocks = ActorBlocks(Actors(client, shares, memory=1e9))
        return float(np.median([report.seconds(lambda: blocks.total(gradient)) for _ in range(times)]))


def _multinomial(rows, columns, classes, seed=0):
    """Return rows that are not negative, of a few factors, as pixels are, with one of several labels."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(rows, 20))
    X = np.maximum(factors @ rng.normal(size=(20, columns)) + rng.normal(size=(rows, columns)), 0)
    scores = factors @ rng.normal(size=(20, classes))
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def _as_dask(X, y, rows):
    import dask.array as da

    return da.from_array(X, chunks=(rows, X.shape[1])), da.from_array(y, chunks=rows)


def _cluster(kind):
    return kind(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=40)
