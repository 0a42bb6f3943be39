"""What every benchmark does with its numbers: print them as they come, and keep them."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

from threadpoolctl import threadpool_limits


def seconds(run) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def show(title: str, rows: list[dict]) -> None:
    print(f"\n{title}")
    widths = {name: max(len(name), 12) for name in rows[0]}
    print("  ".join(f"{name:>{width}}" for name, width in widths.items()))
    for row in rows:
        cells = (f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values())
        print("  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths.values(), strict=True)))


def run(description: str, measurements: dict[str, Callable[[], list[dict]]]) -> None:
    """Take the measurements in one thread, print a table of each, and write all of them where --json says."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--json", help="also write the numbers to this file")
    parser.add_argument("--only", help="take only the measurements whose title contains this text")
    arguments = parser.parse_args()
    results = {}
    with threadpool_limits(1):
        for title, measure in measurements.items():
            if arguments.only is None or arguments.only in title:
                results[title] = measure()
                show(title, results[title])
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=1, ensure_ascii=False)
