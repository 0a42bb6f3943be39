"""First fits of chains: in new processes, with nothing compiled before and with everything kept.

    OMP_NUM_THREADS=1 python -m benchmarks.chain_cold [--sequences 20 --sequences 100 ...]

Sequences are generated; below thirty of them a fit starts by an online pass, with more by dual ascent. Seconds are
those of the processor after ``import majorant``, the median of a few processes in turn.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

from benchmarks import report

ROUNDS = 3
FIT = """
import sys, time
import numpy as np
from majorant import ChainCRF

rng, tokens = np.random.default_rng(0), lambda: [[f"w{rng.integers(200)}", f"s{rng.integers(20)}"] for _ in range(12)]
X = [tokens() for _ in range(int(sys.argv[1]))]
y = [["ABCD"[int(shape[1:]) % 4] for _, shape in tokens] for tokens in X]
for _ in range(2):
    started = time.process_time()
    ChainCRF().fit(X, y)
    print(time.process_time() - started)
"""


def seconds(sequences: int, kept: str) -> list[float]:
    """Seconds of a first and a second fit in a new process, which keeps what it compiles in a folder."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": kept}
    done = subprocess.run(
        [sys.executable, "-c", FIT, str(sequences)], env=environment, check=True, capture_output=True, text=True
    )
    return [float(line) for line in done.stdout.split()]


def measured(sequences: int) -> dict[str, float]:
    rows = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as kept:
            first, _ = seconds(sequences, kept)
            rows.append((first, *seconds(sequences, kept)))
    ever, cached, again = np.median(rows, axis=0)
    return {"sequences": sequences, "first-ever s": ever, "first in a process s": cached, "next s": again}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sequences", type=int, action="append", help="how many to fit, again for more")
    wanted = parser.parse_args().sequences or [20, 100, 1000]
    report.show("first fits of chains", [measured(each) for each in wanted])


if __name__ == "__main__":
    main()
