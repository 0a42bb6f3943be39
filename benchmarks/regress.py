"""Compare the speed of two checkouts: their fits alternate, each checkout in a process of its own.

    git worktree add ../before COMMIT
    MAJORANT_DATA=... OMP_NUM_THREADS=1 python -m benchmarks.regress ../before [--only SET ...] [--repeat 7]
    OMP_NUM_THREADS=1 python -m benchmarks.regress ../before --shapes 60 --seed 7 [--jobs 7]

Prints the least CPU seconds of both for every fit, and their ratio. Changes of the machine's speed affect both alike.
The first form fits named data sets at three tolerances; ``chunks`` are the sentences of CoNLL-2000, for a chain.
The second form makes default fits of the shapes that ``benchmarks.shapes`` draws, and adds the mean of each family.
``--jobs`` compares so many fits at a time, on a machine with twice as many cores.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import queue
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
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
# Fits that take more seconds than this are repeated once only.
LONG = 5.0


def work() -> None:
    """Make the fits that standard input asks for, one a line, and answer with CPU seconds."""
    import warnings

    import majorant  # of the checkout; shapes are drawn by the code beside this file

    assert majorant.LogisticRegression
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    warnings.simplefilter("ignore")
    cache = {}
    for line in sys.stdin:
        task = json.loads(line)
        if task["data"] not in cache:
            cache = {task["data"]: load(task["data"])}
        X, y = cache[task["data"]]
        try:
            started = time.process_time()
            estimator(task).fit(X, y)
            answer = time.process_time() - started
        except Exception as problem:
            answer = f"{type(problem).__name__}: {problem}"
        print(json.dumps(answer), flush=True)


def load(name: str):
    """Return X and y of a data set, or of a shape, which is written "shape SEED NUMBER"."""
    if name.startswith("shape "):
        from benchmarks.shapes import draw, make

        seed, k = map(int, name.split()[1:])
        return make(draw(seed, k), seed)
    if name == "chunks":
        from benchmarks.chain import part

        return part("train")
    import majorant

    return majorant.datasets.load(name)


def estimator(task):
    import majorant

    if task["data"] == "chunks":
        return majorant.ChainCRF(tol=100 * task["settings"]["tol"])  # 1e-2 and below: its certificate is looser
    return majorant.LogisticRegression(**task["settings"])


class Worker:
    """A process that fits with the package of a checkout."""

    def __init__(self, checkout: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(checkout.resolve())}
        command = [sys.executable, __file__, "--worker"]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, data: str, settings: dict):
        self.process.stdin.write(json.dumps({"data": data, "settings": settings}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def compare(workers, data: str, settings: dict, repeat: int):
    """Return the least seconds of each worker. The order alternates; quick fits are repeated more often."""
    first = [worker.ask(data, settings) for worker in workers]  # compiles and loads, and does not count
    if any(isinstance(seconds, str) for seconds in first):
        return first
    first = [worker.ask(data, settings) for worker in workers]
    if min(first) > LONG:
        return first
    best, repeat = [math.inf] * len(workers), max(repeat, min(40, round(0.3 / min(first))))
    for k in range(repeat):
        for place in range(len(workers))[:: 1 if k % 2 else -1]:
            best[place] = min(best[place], workers[place].ask(data, settings))
    return best


def tasks_of(given):
    """Yield the family, the name, the data and the settings of every fit."""
    if not given.shapes:
        for name in given.only:
            for tol in TOLERANCES:
                settings = {"C": 1 / SETS[name], "tol": tol, "fit_intercept": given.intercept, "max_iter": 100_000}
                yield name, f"{name} {tol:.0e}", name, settings
        return
    from benchmarks.shapes import draw

    for k in range(given.shapes):
        shape = draw(given.seed, k)
        settings = {"C": shape.C} if given.tol is None else {"C": shape.C, "tol": given.tol}
        yield shape.family, f"{k} {shape}", f"shape {given.seed} {k}", settings


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("before", nargs="?", type=Path, help="folder of the other checkout")
    parser.add_argument("--only", choices=SETS, nargs="*", default=list(SETS))
    parser.add_argument("--shapes", type=int, default=0, help="fit so many drawn shapes instead of named sets")
    parser.add_argument("--seed", type=int, default=0, help="of the shapes")
    parser.add_argument("--tol", type=float, help="of the shapes; the default if not given")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=1, help="fits that are compared at a time")
    parser.add_argument("--intercept", action="store_true", help="named sets with an intercept, as is the default")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work()
        return
    pairs: queue.SimpleQueue[list[Worker]] = queue.SimpleQueue()
    for _ in range(given.jobs):
        pairs.put([Worker(given.before), Worker(Path(__file__).parent.parent)])
    ratios: dict[str, list[float]] = {}
    print(f"{'before':>9s} {'now':>9s} {'ratio':>6s}  fit")

    def run(task):
        family, name, data, settings = task
        workers = pairs.get()
        before, now = compare(workers, data, settings, given.repeat)
        pairs.put(workers)
        if isinstance(before, str) or isinstance(now, str):
            print(f"{before!s:>9.9s} {now!s:>9.9s} {'':6s}  {name}", flush=True)
            return
        ratios.setdefault(family, []).append(now / before)
        print(f"{before:9.4f} {now:9.4f} {now / before:6.3f}  {name}", flush=True)

    with ThreadPoolExecutor(given.jobs) as executor:
        list(executor.map(run, tasks_of(given)))
    for family, some in sorted(ratios.items()):
        print(f"{mean(some):.3f}, worst {max(some):.3f}: {family} ({len(some)} fits)")
    all_ratios = [ratio for some in ratios.values() for ratio in some]
    print(f"geometric mean {mean(all_ratios):.3f} of {len(all_ratios)} fits, worst {max(all_ratios):.3f}")


if __name__ == "__main__":
    main()
