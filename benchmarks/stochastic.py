"""The numbers of the stochastic solvers.

    MAJORANT_DATA=... OMP_NUM_THREADS=1 python -m benchmarks.stochastic [--json FILE] [--only TEXT]

Single-threaded; ratios compare runs of this one process. Binary sets are in one-row form, but for the low-rank table,
which keeps the paper's two rows. Compilation is warmed up before anything is timed.
"""

from __future__ import annotations

import itertools
import time

import numpy as np
from scipy.linalg.blas import dger

from benchmarks import data, report
from benchmarks.report import seconds
from majorant import (
    SGD,
    Binary,
    Labelled,
    LowRankStochasticMajorization,
    Multinomial,
    Newton,
    Objective,
    ProximalMajorization,
    StochasticMajorization,
    datasets,
    held_out,
    minimize,
    tune,
)

# --- exact m = 1 ------------------------------------------------------------------------------------------


def one_row_at_a_time() -> list[dict]:
    """The same iterates as a loop of rank-one updates in place, faster."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 750))
    synthetic = X, (X[:, 0] + rng.normal(size=3000) > 0).astype(int)
    rows = []
    for name, n, (X, y), ridge, visits in (
        ("mnist 10k pca-50", 10, data.mnist_pca(), 1e-2, 500),
        ("synthetic", 2, synthetic, 1.0, 500),
    ):
        F = Objective(Multinomial(n, order="given"), Labelled(X, y), ridge=ridge)
        solver = StochasticMajorization(shuffle=False, report_every=visits / len(y))
        start = solver.start(F, np.zeros(F.size))
        warm = minimize(
            Objective(F.model, F.data.take(np.arange(20)), ridge=1.0), StochasticMajorization(), max_steps=1
        )
        assert np.isfinite(warm.params).all()
        times: dict[str, list[float]] = {"naive": [], "ours": []}
        for _ in range(3):
            started = time.perf_counter()
            slow = rank_one_loop(X, y, n, ridge, visits)
            times["naive"].append(time.perf_counter() - started)
            started = time.perf_counter()
            fast = solver.step(F, start).theta
            times["ours"].append(time.perf_counter() - started)
        naive, ours = (float(np.median(times[k])) / visits * 1e3 for k in ("naive", "ours"))
        difference = float(np.abs(fast - slow).max() / np.abs(slow).max())
        rows.append({"data": name, "n": n, "d": F.size, "naive ms/row": naive, "ours ms/row": ours,
                     "speed-up": naive / ours, "relative difference": difference})  # fmt: skip
    return rows


def rank_one_loop(X, y, n, ridge, visits):
    """Algorithm 2, corrected, with in-place BLAS rank-one updates and the paper's φ."""
    t, p = X.shape
    d = n * p
    M, mu, phi, theta = np.eye(d) / ridge, np.zeros(d), np.zeros(d), np.zeros(d)
    for j in range(visits):
        x, log_z, g = X[j], -np.inf, np.zeros(d)
        scores = theta.reshape(n, p) @ x
        for c in range(n):
            direction = -g
            direction[c * p : (c + 1) * p] += x
            u = scores[c] - log_z
            kappa = 1 / (1 + np.exp(-u))
            xi = kappa * direction
            if c == 0:
                xi += ridge * theta / t
                xi[y[j] * p : (y[j] + 1) * p] -= x
                phi += M @ xi
            else:
                beta = 0.25 if abs(u) < 1e-7 else np.tanh(u / 2) / (2 * u)
                Ml = M @ direction
                scale = beta / (1 + beta * direction @ Ml)
                dger(-scale, Ml, Ml, a=M.T, overwrite_a=1)
                phi += M @ xi - scale * Ml * (Ml @ mu)
            g += kappa * direction
            mu += xi
            log_z = np.logaddexp(log_z, scores[c])
        theta = theta - phi / t
    return theta


# --- the proximal pass ------------------------------------------------------------------------------------


def share_of_the_machine(t: int = 50_000, d: int = 300, m: int = 100) -> list[dict]:
    """Useful flops of the proximal pass per second, as a share of DGEMM's."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(t, d))
    y = (X @ rng.normal(size=d) / np.sqrt(d) * 2 + rng.logistic(size=t) > 0).astype(int)
    F = Objective(Binary(), Labelled(X, y), ridge=1.0)
    A = rng.normal(size=(1500, 1500))
    rates, shares, passes = [], [], []
    for _ in range(5):
        rates.append(2 * 1500**3 / min(seconds(lambda: A @ A) for _ in range(3)))
        trace = minimize(F, ProximalMajorization(batch_size=m), max_passes=1).trace
        passes.append(trace["seconds"][1] - trace["seconds"][0])
        shares.append((4 * m * d**2 + 2 * m**2 * d) * (t / m) / passes[-1] / rates[-1])
    return [{"pass s": float(np.median(passes)), "DGEMM GF/s": float(np.median(rates)) / 1e9,
             "share": float(np.median(shares))}]  # fmt: skip


def problems():
    X, y = data.a9a()
    yield "a9a", Objective(Binary(), Labelled(X, y), ridge=1.0)
    X, y = data.secstr()
    yield "secstr", Objective(Binary(), Labelled(X, y), ridge=10.0)
    X, y = data.mnist_pca()
    yield "mnist 10k pca-50", Objective(Multinomial(10), Labelled(X, y), ridge=1e-2)
    X, y = data.letter()
    yield "letter", Objective(Multinomial(26), Labelled(X, y), ridge=1.0)
    yield "letter / 15", Objective(Multinomial(26), Labelled(X / [*[15.0] * 16, 1.0], y), ridge=1.0)


def one_pass_excess(seeds: int = 3) -> list[dict]:
    """Excess of the training objective over the optimum after one pass, and that of the best SGD of the grid."""
    rows = []
    for name, F in problems():
        optimum = minimize(F, Newton(), tol=1e-13).trace["objective"][-1]
        runs = [minimize(F, ProximalMajorization(seed=s), max_passes=1).trace for s in range(seeds)]
        ours = [100 * (trace["objective"][-1] / optimum - 1) for trace in runs]
        found = tune(F)
        best = found.best
        rows.append(
            {
                "data": name,
                "proximal % (median)": float(np.median(ours)),
                "worst seed %": float(np.max(ours)),
                "seconds": float(np.median([trace["seconds"][-1] for trace in runs])),
                "best SGD %": 100 * (found.objective / optimum - 1),
                "settings tried": len(found.trials),
                "it was": f"{best.schedule} η₀={best.gain:.3g} τ={best.tau:g} m={best.batch_size}",
            }
        )
    return rows


def finish_on_a9a() -> list[dict]:
    """Full-gradient evaluations from the end of the pass to 1e-6 and 1e-10."""
    F = next(problems())[1]
    optimum = minimize(F, Newton(), tol=1e-14).trace["objective"][-1]
    trace = minimize(F, ProximalMajorization(), tol=1e-13).trace
    rows = []
    for level in (1e-3, 1e-6, 1e-10):
        reached = int(np.argmax(trace["objective"] <= optimum * (1 + level)))
        # step 1 ends the pass; step 2 evaluates the gradient there and at its own end, later steps at their end
        evaluations = 0 if reached <= 1 else reached
        rows.append({"relative excess": level, "gradient evaluations": evaluations,
                     "seconds": float(trace["seconds"][reached])})  # fmt: skip
    return rows


def never_diverges(rows_at_most: int = 2000) -> list[dict]:
    """Every combination of data, λ, scale, m and order; a failure is a run that ends non-finite or above F(0)."""
    sets = {
        "ecoli": (8, datasets.load("ecoli")),
        "letter": (26, data.letter()),
        "digit1": (1, data.digit1()),
        "a9a": (1, data.a9a()),
        "mushrooms": (1, data.mushrooms()),
        "mnist 10k pca-50": (10, data.mnist_pca()),
        "secstr": (1, data.secstr()),
    }
    table = []
    for name, (n, (X, y)) in sets.items():
        started, failures, runs = time.perf_counter(), 0, 0
        some = np.random.default_rng(0).permutation(len(y))[:rows_at_most]
        some = some[np.argsort(y[some], kind="stable")]
        for scale, ridge, m, shuffle in itertools.product((1e-3, 1, 1e3), (1e-4, 1, 1e3), (1, 10, 100), (False, True)):
            F = Objective(Binary() if n == 1 else Multinomial(n), Labelled(X[some] * scale, y[some]), ridge=ridge)
            solver = ProximalMajorization(batch_size=m, shuffle=shuffle)
            solution = minimize(F, solver, max_passes=1)
            values = solution.trace["objective"]
            failures += len(values) != 2 or not np.isfinite(values).all() or values[-1] > values[0]
            runs += 1
        table.append({"data": name, "rows": len(some), "runs": runs, "failures": int(failures),
                      "seconds": time.perf_counter() - started})  # fmt: skip
    table.append({"data": "all", "rows": 0, **{k: sum(r[k] for r in table) for k in ("runs", "failures", "seconds")}})
    return table


# --- low rank ---------------------------------------------------------------------------------------------


def low_rank_table(passes: int = 20) -> list[dict]:
    """Test log-likelihood against CPU seconds, two-row binary, 90/10 split, label order: the paper's setting."""
    table = []
    for name, (X, y), ridge, paper_step, paper_gain in (
        ("text", data.text(), 10.0, 1.0, 1e-4),
        ("digit1", data.digit1(), 10.0, 50.0, 1e-4),
    ):
        order = np.random.default_rng(0).permutation(len(y))
        train, test = order[: int(0.9 * len(y))], order[int(0.9 * len(y)) :]
        F = Objective(Multinomial(2, order="given"), Labelled(X[train], y[train]), ridge=ridge)
        dense = Objective(F.model, Labelled(X[train].toarray() if name == "text" else X[train], y[train]), ridge=ridge)
        metrics = held_out(F.model, Labelled(X[test], y[test]))
        optimum = minimize(F, tol=1e-6, metrics=metrics, max_steps=200).trace if name == "digit1" else None
        if optimum is not None:
            table.append({"data": name, "solver": "optimum", **_columns(optimum)})
        for rank in (0, 1, 5, 20):
            for label, steps in (("paper's η", (paper_step,)), ("best η", (0.1, 1.0, 10.0, 50.0, 100.0))):
                step = _best_step(F, rank, steps) / len(train)
                solver = LowRankStochasticMajorization(rank=rank, step_size=step)
                trace = minimize(F, solver, max_steps=passes, tol=0.0, metrics=metrics).trace
                row = {"data": name, "solver": f"SBM k={rank}, {label} {step * len(train):g}/t", **_columns(trace)}
                table.append(row)
                report.show("so far", [row])
        found = tune(F, passes=5)
        gains = {
            "paper's η₀": SGD(gain=paper_gain, batch_size=10),
            "best of the grid": found.best,
        }
        for label, solver in gains.items():
            for storage, objective in (("dense", dense), ("sparse", F)) if name == "text" else (("dense", F),):
                minimize(objective, solver, max_steps=1)  # compile
                trace = minimize(objective, solver, max_steps=passes, tol=0.0, metrics=metrics).trace
                title = f"SGD {storage}, {label}: {solver.schedule} η₀={solver.gain:.3g} m={solver.batch_size}"
                table.append({"data": name, "solver": title, **_columns(trace)})
        trace = minimize(F, ProximalMajorization(), max_passes=1, metrics=metrics).trace
        table.append({"data": name, "solver": "proximal, one pass", **_columns(trace)})
    return table


def _best_step(F, rank, steps):
    """The multiple of 1/t with the lowest objective after 5 passes."""
    if len(steps) == 1:
        return steps[0]
    t = len(F.data)
    ends = {}
    for step in steps:
        solver = LowRankStochasticMajorization(rank=rank, step_size=step / t)
        values = minimize(F, solver, max_steps=2 if rank == 20 else 5, tol=0.0).trace["objective"]
        ends[step] = values[-1] if np.isfinite(values[-1]) else np.inf
    return min(ends, key=ends.get)


def _columns(trace) -> dict:
    """Objective, seconds and test log-likelihood after 1, 5 and the last pass."""
    row = {}
    last = len(trace["step"]) - 1
    for k, label in ((1, "1"), (min(5, last), "5"), (last, "end")):
        row[f"LL {label}"] = float(trace["test_log_likelihood"][k])
        row[f"s {label}"] = float(trace["seconds"][k])
    row["error"] = float(trace["test_error"][-1])
    row["train F"] = float(trace["objective"][-1])
    return row


MEASUREMENTS = {
    "exact m = 1 against a rank-one loop": one_row_at_a_time,
    "proximal pass, 50,000×300, m = 100": share_of_the_machine,
    "one pass: excess of the objective over the optimum": one_pass_excess,
    "finish on a9a": finish_on_a9a,
    "the proximal pass never diverges": never_diverges,
    "low rank: test log-likelihood after 1, 5 and 20 passes": low_rank_table,
}

if __name__ == "__main__":
    report.run(__doc__, MEASUREMENTS)
