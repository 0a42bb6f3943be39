"""Figures: how one fit went (:func:`majorant.plot`), and curves of several solvers, mean and spread over runs.

Drawing needs matplotlib, the extra ``majorant[plot]``; nothing of it is imported before a figure is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from majorant.core.checks import Array, needed, new_axes
from majorant.core.result import Result, Solution
from majorant.core.run import Restarts

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
FALLING = ("objective", "train_error", "test_error")  # lower is better
MANY = 60  # points of a curve above which it has no markers, and fluctuating ones are thin

Run = Mapping[str, Any]


class Curve(NamedTuple):
    """Mean and standard deviation over runs, and the mean at the start, which a logarithmic axis does not show."""

    x: Array
    mean: Array
    spread: Array
    start: float


def plot(fitted: Any, *, y: str | None = None, x: str | None = None, ax: Any = None) -> Any:
    """Draw how a fit went.

    Where there is a certificate, what is drawn for each step is how far it was from the optimum at most, (F − L)/F with
    L = F_end (1 − gap), which lies below every value of the objective; elsewhere how far it was above the lowest
    objective seen. The title is what the result says.

    Parameters
    ----------
    fitted : estimator, Solution, Restarts, Trace or dict of arrays
        What has been fitted, or its trace.
    y : str, optional
        A column of the trace to draw instead, such as a metric.
    x : str, optional
        Column for the horizontal axis, such as ``"seconds"``; passes over the data, or steps where nobody counted them.
    ax : matplotlib axes, optional
        Where to draw; a new figure if None.

    Returns
    -------
    matplotlib axes
        What was drawn on.

    Examples
    --------
    >>> from majorant import LogisticRegression, datasets, plot
    >>> X, y = datasets.load("ecoli")
    >>> axes = plot(LogisticRegression().fit(X, y))
    >>> axes.get_yscale()
    'log'
    """
    trace: Mapping[str, Array] | None
    result: Result | None = None
    if isinstance(fitted, Restarts):
        trace, result = fitted.best.trace, fitted.result
    elif isinstance(fitted, Solution):
        trace, result = fitted.trace, fitted.result
    elif isinstance(fitted, Mapping):
        trace = fitted
    else:
        trace, result = getattr(fitted, "trace_", None), getattr(fitted, "result_", None)
    if trace is None:
        raise ValueError(
            f"fitted must have a trace, and this {type(fitted).__name__} has none: call fit first; models that were "
            "loaded, or that have learnt from a stream, keep none"
        )
    if x is None:
        x = "passes" if "passes" in trace else "step"
    across = _column(trace, "x", x)
    if y is not None:
        along, label = _column(trace, "y", y), LABELS.get(y, y)
    else:
        F = _column(trace, "fitted", "objective")
        if result is not None and np.isfinite(result.gap) and F[-1] > 0:
            along = (F - F[-1] * (1.0 - result.gap)) / F
            label = "distance from the optimum, at most\n(relative, certified)"
        else:
            lowest = float(np.nanmin(F))
            along = (F - lowest) / max(abs(lowest), np.finfo(float).tiny)
            label = "objective above the lowest seen\n(relative)"
        along = np.where(along > 0, along, np.nan)
    axis = new_axes() if ax is None else ax
    axis.plot(across, along, color=BLUE, lw=1.9, marker="o" if len(across) <= MANY else "", ms=3.5)
    axis.set(xlabel=LABELS.get(x, x), ylabel=label)
    if y is None and np.nanmax(along, initial=0.0) > 0:
        axis.set_yscale("log")
    if result is not None:
        axis.set_title(str(result), wrap=True, fontsize="small", loc="left")
    return axis


def _column(trace: Mapping[str, Array], argument: str, name: str) -> Array:
    if name not in trace:
        raise ValueError(f"{argument} must be a column of the trace, {', '.join(trace)}; got {name!r}")
    return np.asarray(trace[name], dtype=np.float64)


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
                _draw_panel(axes[row][column], curves, x, name, zoomed=row == 1)
        solvers = {run["solver"] for run in runs}
        legend(figure, axes[0][0], columns=min(len(solvers), 2 * len(names)))
        if title:
            figure.suptitle(title)
        save(figure, path)
    return Path(path)


def _draw_panel(axis: Any, curves: Mapping[str, Curve], x: str, name: str, *, zoomed: bool) -> None:
    styles = styles_of(list(curves))
    for solver, curve in curves.items():
        color, line = styles[solver]
        marker = {"marker": "o", "ms": 5} if len(curve.x) == 1 else {}
        fluctuates = "sgd" in solver.lower()
        layer, width = 2.0 if fluctuates else 2.5, 1.1 if fluctuates and len(curve.x) > MANY else 1.9
        axis.plot(curve.x, curve.mean, color=color, ls=line, lw=width, label=solver, zorder=layer, **marker)
        axis.fill_between(curve.x, curve.mean - curve.spread, curve.mean + curve.spread, color=color, alpha=0.15, lw=0)
    if x in LOGARITHMIC:
        axis.set_xscale("log")
    axis.set(xlabel=LABELS.get(x, x), ylabel=LABELS.get(name, name) + (", zoomed" if zoomed else ""))
    limits = limits_of(curves, name, zoomed=zoomed)
    if limits is not None:
        axis.set_ylim(*limits)


def curves_of(runs: Sequence[Run], x: str, name: str) -> dict[str, Curve]:
    """Return the curve of each solver that has both columns.

    Runs of equal length are averaged entry by entry, others on a common grid, where a run that ended early keeps its
    last value: nothing would have moved it.
    """
    grouped: dict[str, list[tuple[Array, Array]]] = {run["solver"]: [] for run in runs}
    for run in runs:
        trace = run["trace"]
        if x in trace and name in trace:
            grouped[run["solver"]].append((np.asarray(trace[x], float), np.asarray(trace[name], float)))
    log, curves = x in LOGARITHMIC, {}
    for solver, lines in grouped.items():
        if not lines:
            continue
        if len({len(xs) for xs, _ in lines}) == 1:
            grid, values = np.mean([xs for xs, _ in lines], axis=0), np.array([ys for _, ys in lines])
        else:
            begin, end = 0.0, max(float(xs[-1]) for xs, _ in lines)
            if log:
                begin = min(float(xs[xs > 0].min(initial=end)) for xs, _ in lines)
            grid = np.geomspace(begin, max(end, begin * 1.01), 200) if log else np.linspace(begin, end, 200)
            values = np.array([np.interp(grid, xs, ys) for xs, ys in lines])
        shown = slice(int(log and len(grid) > 1), None)  # the start is at zero, which a logarithmic axis does not have
        mean = values.mean(axis=0)
        curves[solver] = Curve(grid[shown], mean[shown], values.std(axis=0)[shown], float(mean[0]))
    return curves


def limits_of(curves: Mapping[str, Curve], name: str, *, zoomed: bool) -> tuple[float, float] | None:
    """Return the vertical limits of a panel; None leaves them to matplotlib.

    A zoomed panel shows the best final value and the curves near it. Another one leaves out where a solver went far
    beyond where it began, unless all did, so that it does not flatten the others.
    """
    sign = -1.0 if name in FALLING else 1.0  # upwards is better from here on
    means = [sign * curve.mean for curve in curves.values()]
    starts = [sign * curve.start for curve in curves.values()]
    best = max(float(np.max(mean)) for mean in means)
    if zoomed:
        gap = best - min(starts)
        span = float(np.clip(best - np.median([mean[-1] for mean in means]), 0.1 * gap, 0.4 * gap)) or 1e-6
        low, high = best - 1.6 * span, best + 0.2 * span
    else:
        start, lowest = max(starts), [float(np.min(mean)) for mean in means]
        low = start - 2 * (best - start)
        if name.endswith("error") or best <= start or min(lowest) >= low or max(lowest) < low:
            return None
        high = best + 0.05 * (best - low)
    return (low, high) if sign > 0 else (-high, -low)


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


def legend(figure: Any, axis: Any, columns: int) -> None:
    """Put the names of the curves of ``axis`` below all panels."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


def pyplot() -> Any:
    """Return ``matplotlib.pyplot``, drawing to files only."""
    needed("matplotlib", "a figure", "plot").use("Agg")
    import matplotlib.pyplot as plt

    return plt


def save(figure: Any, path: str | Path) -> None:
    """Write a figure and close it."""
    figure.savefig(path, dpi=120)
    pyplot().close(figure)
