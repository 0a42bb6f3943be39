"""Linear probes against what they are fitted with elsewhere: seconds to a level, rates, sweeps, real features.

    python -m benchmarks.probe fit --device cuda --decay 1 --C 0.01      one fit, and both L-BFGS
    python -m benchmarks.probe rates --device cuda --C 0.01              the best of 13 SGD and 5 AdamW rates, 10 epochs
    python -m benchmarks.probe sweep --device cuda                       LinearProbe, 45 values of C
    SCIPY_ARRAY_API=1 python -m benchmarks.probe sklearn --device cuda --rows 160146
    python -m benchmarks.probe sklearn --rows 200000 --columns 768       the same in host memory
    MAJORANT_DATA=... python -m benchmarks.probe real                    accuracy and loss beside scikit-learn's optimum

Features are made up as ``benchmarks/probe_data.py`` says; F is the sum of losses and ‖W‖²/(2C), a level is F/F* − 1.
F* is that of our fit to --tight. Wall-clock seconds; products of peers are TF32 on a GPU unless --precision highest.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from contextlib import contextmanager

import numpy as np
from scipy.special import log_softmax

from benchmarks import probe_data, probe_peers, report
from benchmarks.probe_peers import Log, Passes
from majorant import LinearProbe, LogisticRegression, QuasiNewton

LEVELS = (1e-4, 1e-6)
TIGHT = 1e-7
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
REAL_CS = (1e-3, 1e-1, 1.0, 10.0)


def host(y):
    return y.cpu().numpy() if probe_peers.is_tensor(y) else y


def ours(X, y, C, tol):
    """Return the fit, when it had which F, and how long all of it took, reading and certificate included."""
    before = probe_peers.forget_peak(X)
    log = Log(X)
    with watched(log):
        model = LogisticRegression(C=C, tol=tol).fit(X, y)
    log.add(float(model.trace_["objective"][-1]))
    log.passes, log.peak = float(model.trace_["passes"][-1]), probe_peers.peak_over(X, before)
    return model, log, log.seconds[-1]


@contextmanager
def watched(log):
    """Put down F after every step, those in a lower precision included, as that has it."""
    step = QuasiNewton.step

    def noted(solver, objective, state):
        following = step(solver, objective, state)
        if following.point is not None:
            log.add(following.point.value)
        return following

    QuasiNewton.step = noted
    try:
        yield
    finally:
        QuasiNewton.step = step


def problem(options):
    X, y, X_held, y_held = probe_data.made_up(shape_of(options), options.device)
    return Passes(X, y, options.C, options.classes), (X_held, host(y_held))


def optimum(passes, held, tol):
    """Return F* and what is said of the fit that found it."""
    model, _, seconds = ours(passes.X, host(passes.y), passes.C, tol)
    lowest = passes.value(model.coef_, model.intercept_)
    said = {"fit": f"to {tol:g}", "s": seconds, "passes": float(model.trace_["passes"][-1]), "gap": model.gap_}
    return lowest, said | {"top-1": accuracy(model, *held), "train top-1": accuracy(model, passes.X, host(passes.y))}


def accuracy(model, X, y):
    return float(np.mean(host(model.predict(X)) == y))


def fit(options):
    passes, held = problem(options)
    ours(passes.X[:2_000], host(passes.y[:2_000]), passes.C, 1e-2)  # compiles and loads what it needs
    lowest, said = optimum(passes, held, options.tight)
    taken = None if options.free is None else probe_peers.all_but(options.free, passes.X)
    runs = [ours(passes.X, host(passes.y), passes.C, options.tol) for _ in range(options.repeats)]
    del taken
    rows = [our_row(run, passes, lowest, options.tol) for run in runs]
    peers = {"L-BFGS, 10 pairs (our code)": probe_peers.lbfgs}
    if options.device is not None:
        peers["torch.optim.LBFGS"] = probe_peers.torch_lbfgs
    with probe_peers.products(options.precision):
        for name, peer in peers.items():
            peer(Passes(passes.X[:2_000], passes.y[:2_000], passes.C, options.classes), 3)
            before = probe_peers.forget_peak(passes.X)
            log = peer(passes, options.looks, until=lowest * (1 + options.until))
            rows.append({"who": name, **to_levels(log, lowest), **last_of(log, lowest)})
            rows[-1] |= {"gap": np.nan, "GB beside X": probe_peers.peak_over(passes.X, before)}
    return [said], rows


def our_row(run, passes, lowest, tol):
    model, log, seconds = run
    log.values[-1], log.seconds[-1] = passes.value(model.coef_, model.intercept_), seconds
    said = {"who": f"majorant, tol {tol:g}", **to_levels(log, lowest), **last_of(log, lowest), "gap": model.gap_}
    return said | {"GB beside X": log.peak}


def to_levels(log, lowest):
    return {f"s to {level:g}": log.seconds_to(lowest * (1 + level)) for level in LEVELS}


def last_of(log, lowest):
    return {"s": log.seconds[-1], "passes": log.passes, "excess": min(log.values) / lowest - 1}


def rates(options):
    passes, held = problem(options)
    lowest, said = optimum(passes, held, options.tight)
    grids = {"SGD": (probe_peers.sgd, probe_peers.SGD_RATES), "AdamW": (probe_peers.adamw, probe_peers.ADAMW_RATES)}
    rows = []
    with probe_peers.products(options.precision):
        for name, (optimizer, grid) in grids.items():
            for rate in grid:
                log = probe_peers.epochs_of(passes, optimizer, rate, options.epochs, options.batch)
                rows.append({"who": name, "rate": rate, **last_of(log, lowest)})
                print(rows[-1], flush=True)  # minutes pass
    best = min(rows, key=lambda row: row["excess"])
    return [said | {"best of the grid": best["excess"], "s of the grid": sum(row["s"] for row in rows)}], rows


def sweep(options):
    passes, held = problem(options)
    probes, seconds = [], []
    for _ in range(options.repeats):
        log = Log(passes.X)
        probes.append(LinearProbe(options.Cs, patience=options.patience).fit(passes.X, host(passes.y)))
        log.add(0.0)
        seconds += log.seconds
    probe, table = probes[-1], probes[-1].scores_
    said = {"s, median": float(np.median(seconds)), "values of C": len(table.rows), "C": probe.C_, "gap": probe.gap_}
    said |= {"passes": float(table["passes"].sum()), "top-1": accuracy(probe, *held)}
    return [said], [row._asdict() for row in table.rows]


def sklearn(options):
    passes, held = problem(options)
    ours(passes.X[:2_000], host(passes.y[:2_000]), passes.C, 1e-2)
    lowest, said = options.lowest, {"F*": options.lowest}
    if lowest is None:
        lowest, said = optimum(passes, held, options.tight)
        said |= {"F*": f"{lowest:.10g}"}
    rows = []
    for _ in range(options.repeats):
        model, _, seconds = ours(passes.X, host(passes.y), passes.C, options.tol)
        log, steps = probe_peers.sklearn_lbfgs(passes, lowest * (1 + options.until), options.looks)
        row = {"ours s": seconds, "sklearn s": log.seconds[-1], "ours / sklearn": seconds / log.seconds[-1]}
        row |= {"our excess": passes.value(model.coef_, model.intercept_) / lowest - 1, "our gap": model.gap_}
        rows.append(row | {"their excess": log.values[-1] / lowest - 1, "their steps": steps})
    return [said], rows


def real(options):
    """Accuracy and loss on the last sixth of the rows, ours and of scikit-learn fitted as far as it goes."""
    rows = []
    for name, load in probe_data.REAL.items():
        if options.only not in name:
            continue
        X, y = load()
        order = np.random.default_rng(0).permutation(len(y))[: options.real_rows]
        X, y = X[order].astype(np.float64), np.unique(y[order], return_inverse=True)[1]
        for C in REAL_CS:
            passes, held = parts(X, y, C, options.device)
            models = ours(passes.X, host(passes.y), C, TIGHT)[0], probe_peers.sklearn_optimum(passes, options.steps)
            rows.append({"features": f"{name}, C = {C:g}", **compared(models, passes, held)})
            print(rows[-1], flush=True)  # minutes pass
    return [rows]


def parts(X, y, C, device):
    """Return what is fitted, and features and labels of the last sixth of the rows; on a device if there is one."""
    kept = len(y) - len(y) // 6
    passes = Passes(X[:kept], y[:kept], C, int(y.max()) + 1)
    return passes.on(device), (X[kept:], y[kept:])


def compared(models, passes, held):
    X, y = held
    found, F = {}, []
    for who, (coef, intercept) in zip(("our", "their"), map(probe_peers.coefficients, models), strict=True):
        log_p = log_softmax(X @ coef.T + intercept, axis=1)
        found[f"{who} accuracy"] = float(np.mean(log_p.argmax(1) == y))
        found[f"{who} loss"] = float(-log_p[np.arange(len(y)), y].mean())
        F.append(passes.value(coef, intercept))
    return found | {
        "F ours / theirs − 1": F[0] / F[1] - 1,
        "gap": models[0].gap_,
        "their steps": int(models[1].n_iter_[0]),
    }


CASES = {"fit": fit, "rates": rates, "sweep": sweep, "sklearn": sklearn, "real": real}


def shape_of(options):
    names = ("rows", "columns", "classes", "decay", "best", "held", "seed")
    return probe_data.Shape(**{name: getattr(options, name) for name in names})


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=CASES)
    for name, value in vars(probe_data.Shape()).items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--Cs", type=int, default=45)
    parser.add_argument("--patience", type=lambda text: int(text) or None, default=3, help="0 for the whole grid")
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--tight", type=float, default=TIGHT, help="tolerance of the fit that finds F*")
    parser.add_argument("--lowest", type=float, help="F* if it is known, so that no fit has to find it (case sklearn)")
    parser.add_argument("--until", type=float, default=1e-4, help="level at which peers may stop")
    parser.add_argument("--looks", type=int, default=400, help="passes, or steps of scikit-learn, that L-BFGS may make")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=1_024)
    parser.add_argument("--steps", type=int, default=20_000, help="that scikit-learn may make on real features")
    parser.add_argument("--only", default="", help="real features whose name contains this")
    parser.add_argument("--real-rows", type=int, default=10**9)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu for seconds of processors, on a busy host")
    parser.add_argument("--free", type=float, help="leave our fits only so many GB of the device (case fit)")
    parser.add_argument("--device", help="such as cuda; NumPy if not given")
    parser.add_argument("--precision", choices=("high", "highest"), default="high")
    parser.add_argument("--json", help="also write the numbers to this file")
    return parser.parse_args()


def main():
    options = read_options()
    Log.clock = staticmethod(CLOCKS[options.clock])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tables = CASES[options.case](options)
    title = "real features" if options.case == "real" else str(shape_of(options))
    for table in tables:
        report.show(f"{options.case}: {title}, C = {options.C:g}", table)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"options": vars(options), "tables": tables}, file, indent=1, ensure_ascii=False)


if __name__ == "__main__":
    main()
