"""Curves of solvers: mean and spread over runs, one fixed style for each solver.

Drawing needs matplotlib, the extra ``majorant[plot]``; nothing is imported before a figure is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from majorant._checks import Array
from majorant._extras import needed

# Okabe & Ito's colour-blind safe palette; line styles differ too, for print without colour.
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    "#222222",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#CDBA00",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)
GREY = "#8A8A8A"
STYLES: dict[str, tuple[str, Any]] = {
    "auto": (SKY, "-"),
    "proximal": (BLUE, "-"),
    "sbm": (VERMILION, "-"),
    "bbm": (GREEN, (0, (6, 2))),
    "lbfgs": (BLACK, (0, (1, 1))),
    "sgd": (ORANGE, (0, (4, 2))),
    "asgd": (PURPLE, (0, (3, 1, 1, 1))),
    "sgd tuned": (GREY, (0, (4, 2))),
    "asgd tuned": (SKY, (0, (3, 1, 1, 1))),
}
SPARE = ((YELLOW, "-"), (BLACK, "-."), (GREEN, "-"), (PURPLE, "-"), (ORANGE, "-"))

LABELS = {
    "passes": "passes through the data",
    "seconds": "seconds",
    "cpu_seconds": "CPU seconds",
    "iterations": "updates of θ",
    "objective": "objective F",
    "train_log_likelihood": "training log-likelihood\n(mean over rows)",
    "test_log_likelihood": "test log-likelihood\n(mean over rows)",
    "train_error": "training error",
    "test_error": "test error",
}
LOGARITHMIC = ("seconds", "cpu_seconds")
MANY = 60  # points of a curve from which on what fluctuates is drawn thin
GRID = 200  # points of a curve whose runs do not share their x
FALLING = ("objective", "train_error", "test_error")  # lower is better

Run = Mapping[str, Any]


class Curve(NamedTuple):
    """Mean and standard deviation over runs, and the mean at the start, which may not be shown."""

    x: Array
    mean: Array
    spread: Array
    start: float


def draw_curves(
    runs: Sequence[Run],
    path: str | Path,
    *,
    x: str = "passes",
    panels: Sequence[str] = ("train_log_likelihood", "test_log_likelihood", "test_error"),
    zoom: bool = False,
    title: str | None = None,
) -> Path:
    """Draw one curve per solver, mean and one standard deviation over its runs, and write the figure.

    Parameters
    ----------
    runs : list of dicts
        ``{"solver": label, "seed": int, "trace": {name: numbers}}``. A label, or its first word, gives
        the style.
    path : str or Path
        Where to write; the ending says how (png, pdf, svg).
    x : str
        Column of the traces for the horizontal axis. Seconds are drawn on a logarithmic axis.
    panels : sequence of str
        Columns to draw, one panel each; those that no run has are left out.
    zoom : bool
        Whether a second row shows each panel near its end.
    title : str, optional
        Written above.

    Returns
    -------
    Path
        ``path``.
    """
    names = [name for name in panels if any(name in run["trace"] for run in runs)]
    if not names:
        raise ValueError(f"panels must name columns of the traces, got {', '.join(panels)}; no run has any of them")
    plt = pyplot()
    rows = 2 if zoom else 1
    size = (3.7 * len(names) + 0.3, 2.9 * rows + 0.6)
    with plt.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        figure, axes = plt.subplots(rows, len(names), figsize=size, squeeze=False, layout="constrained")
        for column, name in enumerate(names):
            curves = curves_of(runs, x, name)
            for row in range(rows):
                _panel(axes[row][column], curves, x, name, zoomed=row == 1)
        solvers = list(dict.fromkeys(run["solver"] for run in runs))
        legend(figure, axes[0][0], columns=min(len(solvers), 2 * len(names)))
        if title:
            figure.suptitle(title)
        save(figure, path)
    return Path(path)


def save(figure: Any, path: str | Path) -> None:
    """Write a figure and let go of it."""
    figure.savefig(path, dpi=120)
    pyplot().close(figure)


def pyplot() -> Any:
    """Return ``matplotlib.pyplot``, drawing to files only."""
    needed("matplotlib", "a figure", "plot").use("Agg")
    import matplotlib.pyplot as plt

    return plt


def legend(figure: Any, axis: Any, columns: int) -> None:
    """Put the names of the curves of ``axis`` below all panels."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


def styles_of(solvers: Sequence[str]) -> dict[str, tuple[str, Any]]:
    """Return a colour and a line style for each solver; known names always look the same."""
    chosen: dict[str, tuple[str, Any]] = {}
    spare = 0
    for solver in solvers:
        style = STYLES.get(solver.lower(), STYLES.get(solver.lower().split()[0]))
        if style is None or style in chosen.values():
            style, spare = SPARE[spare % len(SPARE)], spare + 1
        chosen[solver] = style
    return chosen


def curves_of(runs: Sequence[Run], x: str, name: str) -> dict[str, Curve]:
    """Return the curve of each solver that has both columns."""
    grouped: dict[str, list[tuple[Array, Array]]] = {run["solver"]: [] for run in runs}
    for run in runs:
        trace = run["trace"]
        if x in trace and name in trace:
            grouped[run["solver"]].append((np.asarray(trace[x], float), np.asarray(trace[name], float)))
    return {solver: mean_curve(lines, log=x in LOGARITHMIC) for solver, lines in grouped.items() if lines}


def mean_curve(lines: Sequence[tuple[Array, Array]], *, log: bool) -> Curve:
    """Return mean and spread of several lines: entry by entry, or off a common grid where their lengths differ.

    A run that ended early keeps its last value: nothing would have moved it.
    """
    if len({len(x) for x, _ in lines}) == 1:
        grid, values = np.mean([x for x, _ in lines], axis=0), np.array([y for _, y in lines])
    else:
        grid = _grid(lines, log)
        values = np.array([np.interp(grid, x, y) for x, y in lines])
    shown = slice(int(log and len(grid) > 1), None)  # the start is at zero, which a logarithmic axis has not
    mean = values.mean(axis=0)
    return Curve(grid[shown], mean[shown], values.std(axis=0)[shown], float(mean[0]))


def _grid(lines: Sequence[tuple[Array, Array]], log: bool) -> Array:
    end = max(float(x[-1]) for x, _ in lines)
    if not log:
        return np.linspace(0.0, end, GRID)
    begin = min(float(x[x > 0].min(initial=end)) for x, _ in lines)
    return np.geomspace(begin, max(end, begin * 1.01), GRID)


def _panel(axis: Any, curves: Mapping[str, Curve], x: str, name: str, *, zoomed: bool) -> None:
    styles = styles_of(list(curves))
    for solver, curve in curves.items():
        color, line = styles[solver]
        lone = {"marker": "o", "ms": 5} if len(curve.x) == 1 else {}
        layer = 2.0 if "sgd" in solver.lower() else 2.5  # what fluctuates goes below
        width = 1.1 if len(curve.x) > MANY and layer == 2.0 else 1.9
        axis.plot(curve.x, curve.mean, color=color, ls=line, lw=width, label=solver, zorder=layer, **lone)
        axis.fill_between(curve.x, curve.mean - curve.spread, curve.mean + curve.spread, color=color, alpha=0.15, lw=0)
    if x in LOGARITHMIC:
        axis.set_xscale("log")
    axis.set(xlabel=LABELS.get(x, x), ylabel=LABELS.get(name, name) + (", zoomed" if zoomed else ""))
    limits = _near_the_end(curves, name) if zoomed else _without_divergence(curves, name)
    if limits is not None:
        axis.set_ylim(*limits)


def _without_divergence(curves: Mapping[str, Curve], name: str) -> tuple[float, float] | None:
    """Return limits that leave out where a solver went far beyond where it began, or None if none did."""
    means = np.concatenate([curve.mean for curve in curves.values()])
    sign = -1.0 if name in FALLING else 1.0
    start = max(sign * curve.start for curve in curves.values())
    best, worst = float(np.max(sign * means)), float(np.min(sign * means))
    floor = start - 2 * (best - start)
    everyone = all(float(np.min(sign * curve.mean)) < floor for curve in curves.values())
    if name.endswith("error") or worst >= floor or best <= start or everyone:
        return None
    limits = floor, best + 0.05 * (best - floor)
    return limits if sign > 0 else (-limits[1], -limits[0])


def _near_the_end(curves: Mapping[str, Curve], name: str) -> tuple[float, float] | None:
    """Return limits that show the best final value and what comes near it."""
    sign = -1.0 if name in FALLING else 1.0
    finals = np.sort([sign * float(curve.mean[-1]) for curve in curves.values()])
    best = max(sign * float(value) for curve in curves.values() for value in (curve.mean[-1], *curve.mean))
    start = min(sign * curve.start for curve in curves.values())
    span = float(np.clip(best - np.median(finals), 0.1 * (best - start), 0.4 * (best - start))) or 1e-6
    low, high = best - 1.6 * span, best + 0.2 * span
    return (low, high) if sign > 0 else (-high, -low)
