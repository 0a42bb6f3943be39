"""What steps and curvatures cost here, against what ``majorant.core.preconditioners`` thinks they do.

    OMP_NUM_THREADS=1 python -m benchmarks.rates [--json FILE]

CPU milliseconds, the least of a few, and their ratio to the price. Only ratios between prices matter: columns of ratios
that are all 2 means a machine half as fast, and nothing else.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks import report
from benchmarks.shapes import Shape, make
from majorant import Binary, Labelled, Multinomial, Objective
from majorant.core.line_search import best_step
from majorant.core.preconditioners import DiagonalOfHessian, GramOfColumns, HessianOfAll, Prices
from majorant.core.threads import recycling

SHAPES = [
    Shape(family, rows, columns, classes, 1.0, density, 0)
    for family, rows, columns, classes, density in (
        ("standardised", 500, 5, 2, 1.0),
        ("standardised", 500, 20, 4, 1.0),
        ("standardised", 50_000, 10, 2, 1.0),
        ("standardised", 20_000, 100, 2, 1.0),
        ("standardised", 2_000, 1_000, 2, 1.0),
        ("standardised", 20_000, 15, 26, 1.0),
        ("standardised", 5_000, 150, 10, 1.0),
        ("standardised", 3_000, 10, 200, 1.0),
        ("sparse", 20_000, 500, 2, 0.02),
        ("sparse", 5_000, 2_000, 2, 0.01),
        ("sparse", 5_000, 500, 10, 0.03),
    )
]


def least_seconds(run, times: int = 4) -> float:
    """CPU seconds of the quickest of a few runs."""
    best = np.inf
    for _ in range(times):
        started = time.process_time()
        run()
        best = min(best, time.process_time() - started)
    return best


def measure(shape: Shape) -> dict:
    """Milliseconds of a step and of every curvature, each with its ratio to the price."""
    X, y = make(shape)
    model = Binary() if shape.classes == 2 else Multinomial(shape.classes)
    F = Objective(model, Labelled(X, y, constant=True, center=True), ridge=1.0)
    prices, first = Prices.of(F), DiagonalOfHessian()
    row = {"shape": f"{shape.rows}×{shape.columns}×{shape.classes}" + " sparse" * (shape.family == "sparse")}
    with recycling():
        here = F.point(np.zeros(F.size))
        step = -0.5 * first.at(F, here)(F.ridge)(here.gradient)

        def make_step():
            ray = F.ray(here, step, unit_step=True)
            return ray.point_at(best_step(ray))

        runs = {"step": (make_step, prices.step)}
        for rung in (first, GramOfColumns(), HessianOfAll()):
            price = rung.price(F)
            if price is not None:
                runs[rung.name] = (lambda rung=rung: rung.at(F, here)(F.ridge), price[0])
        for name in ("step", first.name, GramOfColumns.name, HessianOfAll.name):
            run, price = runs.get(name, (None, np.nan))
            seconds = least_seconds(run) if run else np.nan
            row |= {name: 1e3 * seconds, f"/ price {len(row) // 2}": 1e9 * seconds / price}
    return row


if __name__ == "__main__":
    report.run(__doc__, {"CPU milliseconds": lambda: [measure(shape) for shape in SHAPES]})
