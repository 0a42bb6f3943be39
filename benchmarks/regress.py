"""Is any benchmark set slower than it was? Fits of two checkouts in turn, in one process each.

    git worktree add ../before COMMIT
    MAJORANT_DATA=... OMP_NUM_THREADS=1 python -m benchmarks.regress ../before [--only SET] [--repeat 7]

Prints for each set and tolerance the least CPU seconds of both, and their ratio; the machine's moods hit both alike.
``chunks`` are the sentences of CoNLL-2000, for a chain.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

SETS = {
    "a9a": 1.0,
    "mushrooms": 1.0,
    "secstr": 10.0,
    "mnist": 1e-2,
    "letter": 1.0,
    "digit1": 1.0,
    "text": 1.0,
    "rcv1_small": 1.0,
    "news20": 1.0,
    "mnist60k": 1.0,
    "chunks": 1.0,
}
TOLERANCES = (1e-4, 1e-6, 1e-8)
# A set whose fits take so many seconds is fitted once by each.
LONG = 5.0


def work():
    """Fit what standard input asks for, a line each, and answer with CPU seconds."""
    import warnings

    warnings.simplefilter("ignore")
    cache = {}
    for line in sys.stdin:
        task = json.loads(line)
        if task["set"] not in cache:
            cache = {task["set"]: load(task["set"])}
        X, y = cache[task["set"]]
        try:
            started = time.process_time()
            estimator(task).fit(X, y)
            answer = time.process_time() - started
        except Exception as problem:
            answer = f"{type(problem).__name__}: {problem}"
        print(json.dumps(answer), flush=True)


def load(name):
    if name == "chunks":
        from benchmarks.chain import part

        return part("train")
    import majorant

    return majorant.datasets.load(name)


def estimator(task):
    import majorant

    if task["set"] == "chunks":
        return majorant.ChainCRF(tol=100 * task["tol"])  # 1e-2 and below: its certificate is looser
    settings = {name: task[name] for name in ("C", "tol", "fit_intercept")}
    return majorant.LogisticRegression(max_iter=100_000, **settings)


class Worker:
    """A process that fits with the package of a checkout."""

    def __init__(self, checkout: Path) -> None:
        command = [sys.executable, __file__, "--worker"]
        environment = {**os.environ, "PYTHONPATH": str(checkout.resolve())}
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **task):
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def compare(workers, name, tol, intercept, repeat):
    """Return the least seconds of each worker, asked in turn."""
    task = {"set": name, "C": 1 / SETS[name], "tol": tol, "fit_intercept": intercept}
    best = [worker.ask(**task) for worker in workers]  # compiles and loads: not counted below unless it is long
    if any(isinstance(seconds, str) for seconds in best) or min(best) > LONG:
        return best
    rounds = [[worker.ask(**task) for worker in workers] for _ in range(repeat)]
    return [min(column) for column in zip(*rounds, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("before", nargs="?", type=Path, help="folder of the other checkout")
    parser.add_argument("--only", choices=SETS, nargs="*", default=list(SETS))
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--intercept", action="store_true", help="the default settings, instead of no intercept")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work()
        return
    workers = [Worker(given.before), Worker(Path(__file__).parent.parent)]
    ratios = []
    print(f"{'set':12s} {'tol':>6s} {'before':>9s} {'now':>9s} {'ratio':>6s}")
    for name in given.only:
        for tol in TOLERANCES:
            before, now = compare(workers, name, tol, given.intercept, given.repeat)
            failed = isinstance(before, str) or isinstance(now, str)
            ratios += [] if failed else [now / before]
            ratio = "" if failed else f"{now / before:6.3f}"
            print(f"{name:12s} {tol:6.0e} {before!s:>9.9s} {now!s:>9.9s} {ratio}", flush=True)
    print(f"geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}")


if __name__ == "__main__":
    main()
