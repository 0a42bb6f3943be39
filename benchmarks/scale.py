"""Beyond memory and beyond one process: Parquet folders, a hard limit on memory, Dask, rounds, kills.

    pip install -e '.[bench,files,dask]' dask-ml
    OMP_NUM_THREADS=1 python -m benchmarks.scale [--json FILE] [--only PART]

PART is stream, limit, workers, dask-ml, rounds, constants or kills. Data are generated in a temporary folder
(``TMPDIR``), up to 5 GB of it. Every fit that is measured for memory or time runs in a process of its own, one thread
unless said; seconds are those of the wall clock, of the fit with all reading.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from shutil import rmtree

import numpy as np

from benchmarks import report
from benchmarks.clusters import dask_ml, round_of_nothing, rounds, two_workers

COLUMNS = 100
PER_FILE, PER_GROUP = 250_000, 50_000
# Of the fit under a limit: data in memory are five times as large.
LIMIT = 2**30
LIMITED_ROWS = 5 * LIMIT // (4 * COLUMNS)

IMPORTS = """
import json, sys, time
import numpy as np
import majorant
from majorant import LogisticRegression, Parquet
def done(**more):
    # Not ru_maxrss, which is at least what the parent had when it made this process.
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    print(json.dumps(dict(peak_MB=int(status["VmHWM"].split()[0]) * 1.024e-3, **more)))
def compiled():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5000, 100)).astype(np.float32), rng.integers(0, 2, 5000)
    for solver in ("auto", "proximal"):
        LogisticRegression(solver=solver, tol=1e-2).fit(X, y)
def loaded(folder):
    import pathlib, pyarrow.parquet
    files = sorted(pathlib.Path(folder).iterdir())
    rows = sum(pyarrow.parquet.read_metadata(file).num_rows for file in files)
    X, y, at = np.empty((rows, 100), dtype=np.float32), np.empty(rows, dtype=np.int8), 0
    for chunk in Parquet(folder, target="y").chunks():
        X[at : at + len(chunk)], y[at : at + len(chunk)] = chunk.X, chunk.labels.names[chunk.labels.codes]
        at += len(chunk)
    return X, y
"""


@cache
def folder() -> Path:
    """Return a folder that goes when the process ends."""
    made = Path(tempfile.mkdtemp(prefix="majorant-scale-"))
    atexit.register(rmtree, made, ignore_errors=True)
    return made


def parquet_folder(rows: int) -> Path:
    """Return a folder of Parquet files with so many rows of standard normal columns and a binary label."""
    import pyarrow as pa
    import pyarrow.parquet

    target, rng = folder() / f"rows-{rows}", np.random.default_rng(0)
    w = rng.normal(size=COLUMNS) / 5
    if target.exists():
        return target
    target.mkdir()
    for number in range(-(-rows // PER_FILE)):
        some = min(PER_FILE, rows - number * PER_FILE)
        X = rng.standard_normal(size=(some, COLUMNS), dtype=np.float32)
        y = (X @ w + rng.logistic(size=some) > 0).astype(np.int8)
        table = pa.table({f"x{i}": X[:, i] for i in range(COLUMNS)} | {"y": y})
        pa.parquet.write_table(table, target / f"{number:04d}.parquet", row_group_size=PER_GROUP)
    return target


def in_a_process(code: str, *arguments: object, limit: int | None = None) -> dict:
    """Run code in a process of its own, with no more memory than that, and return what it prints last."""
    call = [sys.executable, "-c", IMPORTS + code, *map(str, arguments)]
    with limited(limit) as enter:
        run = subprocess.run(call, capture_output=True, text=True, check=False, preexec_fn=enter)
    if run.returncode:
        return {"failed": (run.stderr.strip().splitlines() or [f"exit code {run.returncode}"])[-1][:100]}
    return json.loads(run.stdout.strip().splitlines()[-1])


@contextmanager
def limited(limit: int | None):
    """Yield what a new process calls to have no more memory than that: it enters a control group, which kills it.

    The files it reads and writes count, but the system drops them when there is no room. Without the right to make a
    group, address space is limited instead, of which libraries reserve far more than they use.
    """
    if limit is None:
        yield None
        return
    group = Path("/sys/fs/cgroup/memory" if Path("/sys/fs/cgroup/memory").is_dir() else "/sys/fs/cgroup")
    group /= f"majorant-{os.getpid()}"
    name = "memory.limit_in_bytes" if group.parent.name == "memory" else "memory.max"
    try:
        group.mkdir()
        (group / name).write_text(str(limit))
    except OSError:
        yield lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        return
    try:
        yield lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
    finally:
        group.rmdir()


STREAM = """
compiled()
folder, memory = sys.argv[1], sys.argv[2] == "memory"
X, y = loaded(folder) if memory else (Parquet(folder, target="y"), None)
start = time.perf_counter()
import warnings; warnings.simplefilter("ignore")
model = LogisticRegression(solver="proximal", max_iter=1, tol=0.5, n_jobs=1).fit(X, y)
done(seconds=time.perf_counter() - start)
"""


def streaming(rows: int = 2_000_000):
    """One streaming pass, from files and from memory; a certificate of where it led is part of both."""
    data = parquet_folder(rows)
    found = {where: in_a_process(STREAM, data, where) for where in ("files", "memory")}
    rates = {where: rows / each["seconds"] for where, each in found.items()}
    return [
        {
            "rows": rows,
            "rows/s files": rates["files"],
            "rows/s memory": rates["memory"],
            "share": rates["files"] / rates["memory"],
            "MB files": found["files"]["peak_MB"],
            "MB memory": found["memory"]["peak_MB"],
        }
    ]


BATCH = """
compiled()
folder, memory = sys.argv[1], sys.argv[2] == "memory"
start = time.perf_counter()
X, y = loaded(folder) if memory else (Parquet(folder, target="y"), None)
read = time.perf_counter() - start
model = LogisticRegression(tol=1e-6, n_jobs=1).fit(X, y)
done(seconds=time.perf_counter() - start, read=read, gap=model.gap_, steps=int(model.n_iter_[0]))
"""


def under_a_limit():
    """A certified fit of data five times as large as the memory that the process may have."""
    data = parquet_folder(LIMITED_ROWS)
    limited = in_a_process(BATCH, data, "files", limit=LIMIT)
    free = in_a_process(BATCH, data, "memory")
    without = in_a_process(BATCH, data, "memory", limit=LIMIT)
    return [
        {
            "rows": LIMITED_ROWS,
            "limit MB": LIMIT / 1e6,
            "seconds": limited.get("seconds", float("nan")),
            "gap": limited.get("gap", float("nan")),
            "peak MB": limited.get("peak_MB", float("nan")),
            "in memory": free["seconds"],
            "of which read": free["read"],
            "peak MB there": free["peak_MB"],
            "ratio": limited.get("seconds", float("nan")) / free["seconds"],
            "in memory, limited": without.get("failed", "fits?"),
            **({"failed": limited["failed"]} if "failed" in limited else {}),
        }
    ]


CONSTANTS = """
from majorant import Binary, Labelled, Objective
from majorant.sources.cache import ChunkCache
from majorant.sources.streamed import survey_source
def best(call, times=5):
    seconds = []
    for _ in range(times):
        start = time.process_time(); call(); seconds.append(time.process_time() - start)
    return min(seconds)
source = Parquet(sys.argv[1], target="y")
decode = best(lambda: sum(len(chunk) for chunk in source.chunks()))
cache = ChunkCache()
survey_source(source, cache)
spool = best(lambda: [cache[k] for k in range(len(cache))])
X, y = loaded(sys.argv[1])
F = Objective(Binary(), Labelled(X, y.astype(int), constant=True), ridge=1.0)
point = F.point(np.zeros(F.size))
step = best(lambda: F.ray(point, np.ones(F.size) * 1e-3, unit_step=True))
done(decode=1e9 * decode / X.size, spool=1e9 * spool / X.size, step=1e9 * step / X.size)
"""


def constants(rows: int = 500_000):
    """What a fit far larger than these is priced from: nanoseconds of CPU a number, and seconds a round."""
    found = in_a_process(CONSTANTS, parquet_folder(rows))
    return [
        {
            "Parquet, ns/number": found["decode"],
            "copy on disk, ns/number": found["spool"],
            "step, ns/number": found["step"],
            "round of nothing, ms": 1e3 * round_of_nothing(),
        }
    ]


def kills(count: int = 50):
    """Fits of all kinds, killed at random moments, resumed until they end: bit-equal to fits that never stopped."""
    code = ["-W", "ignore", "-m", "tests.killed_fits", str(folder() / "kills"), str(count), "0"]
    (folder() / "kills").mkdir(exist_ok=True)
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *code], capture_output=True, text=True, check=False)
    return [{"exit code": done.returncode, "seconds": time.perf_counter() - start, "said": done.stdout.strip()[-400:]}]


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    report.run(
        __doc__,
        {
            "stream: one pass over Parquet": streaming,
            "limit: five times the memory": under_a_limit,
            "workers: two against one process": two_workers,
            "dask-ml: seconds to 1e-4": dask_ml,
            "rounds of a multinomial fit": rounds,
            "constants of a larger fit": constants,
            "kills survived": kills,
        },
    )
