"""Figures: ``majorant.plot(model)`` draws the trace of a fit; curves of solvers, mean and spread over runs.

:func:`compare` runs solvers side by side on one problem: the same start, the same passes, and the cost of tuning apart.
Drawing needs matplotlib, the extra ``majorant[plot]``, which is imported when a figure is drawn.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy

from majorant import __version__
from majorant.core.checks import Array, needed, new_axes
from majorant.core.labelled import Labelled
from majorant.core.model import Model
from majorant.core.objective import Objective
from majorant.core.policy import QuasiNewton
from majorant.core.result import Result, Solution
from majorant.core.run import Restarts, held_out, minimize
from majorant.core.solver import Solver
from majorant.core.stochastic import StochasticSolver
from majorant.estimators.fitting import TUNED, named_solver, tuned
from majorant.linear.path import RegularizationPath

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
    "auto": (BLUE, "-"),
    "proximal": (SKY, "-"),
    "sbm": (VERMILION, "-"),
    "bbm": (GREEN, (0, (6, 2))),
    "scipy-lbfgs": (BLACK, (0, (1, 1))),
    "sgd": (ORANGE, (0, (4, 2))),
    "asgd": (PURPLE, (0, (3, 1, 1, 1))),
    "sgd tuned": (GREY, (0, (4, 2))),
    "asgd tuned": (YELLOW, (0, (3, 1, 1, 1))),
}
SPARE = ((YELLOW, "-."), (BLACK, "-."), (GREEN, "-"), (PURPLE, "-"), (ORANGE, "-"))

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
MANY = 60  # points of a curve: longer curves are thin, and have no marks
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
    found, log = {}, x in LOGARITHMIC
    for solver, lines in grouped.items():
        if not lines:
            continue
        # Entry by entry, or at points of a grid where lengths differ; a run that ended early keeps its last value.
        if len({len(across) for across, _ in lines}) == 1:
            grid, values = np.mean([across for across, _ in lines], axis=0), np.array([along for _, along in lines])
        else:
            end = max(float(across[-1]) for across, _ in lines)
            begin = min(float(across[across > 0].min(initial=end)) for across, _ in lines)
            grid = np.geomspace(begin, max(end, begin * 1.01), 200) if log else np.linspace(0.0, end, 200)
            values = np.array([np.interp(grid, across, along) for across, along in lines])
        shown = slice(int(log and len(grid) > 1), None)  # the start is at zero, which a logarithmic axis has not
        mean = values.mean(axis=0)
        found[solver] = Curve(grid[shown], mean[shown], values.std(axis=0)[shown], float(mean[0]))
    return found


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
    limits = _without_divergence(curves, name)
    if zoomed:  # the best final value, and what comes near it
        sign = -1.0 if name in FALLING else 1.0
        finals = np.sort([sign * float(curve.mean[-1]) for curve in curves.values()])
        best = max(sign * float(value) for curve in curves.values() for value in (curve.mean[-1], *curve.mean))
        start = min(sign * curve.start for curve in curves.values())
        span = float(np.clip(best - np.median(finals), 0.1 * (best - start), 0.4 * (best - start))) or 1e-6
        low, high = best - 1.6 * span, best + 0.2 * span
        limits = (low, high) if sign > 0 else (-high, -low)
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


# Random starts give scores of about this size, whatever the scale of the features: "close to the origin".
START_SCORES = 0.01


@dataclass(frozen=True, eq=False)
class Problem:
    """The training objective, metrics by name, and the root mean square length of a training row."""

    objective: Objective
    metrics: Mapping[str, Callable[[Array], float]]
    row_length: float

    @classmethod
    def of(cls, model: Model[Any], train: Labelled, test: Labelled, *, ridge: float, training: bool = True) -> Problem:
        """Return the problem of training rows, with the metrics of test rows and, if ``training``, of training rows."""
        metrics = held_out(model, test)
        if training:
            metrics |= held_out(model, train, prefix="train_")
        row_length = train.design.frobenius_norm() / float(np.sqrt(len(train)))
        return cls(Objective(model, train, ridge=ridge), metrics, row_length)

    def start(self, seed: int) -> Array:
        """Return a random start near the origin."""
        rng = np.random.default_rng([seed, 1])
        return rng.normal(size=self.objective.size) * START_SCORES / self.row_length


@dataclass(frozen=True)
class Effort:
    """The cost of tuning the gain of a solver: settings tried, passes and seconds; and the best setting in words."""

    settings: int
    passes: float
    seconds: float
    best: str


@dataclass(frozen=True)
class Entry:
    """A solver, its runs (as :func:`majorant.plotting.draw_curves` reads them), or why there are none."""

    solver: str
    runs: tuple[dict[str, Any], ...] = ()
    tuning: Effort | None = None
    failure: str | None = None

    def last(self, column: str) -> list[float]:
        """Return the last value of a column of each trace."""
        return [float(run["trace"][column][-1]) for run in self.runs]

    def passes_to(self, value: float) -> float | None:
        """Return the median over runs of the passes to an objective of at most ``value``; None if it is infinite."""
        arrivals = []
        for run in self.runs:
            reached = np.flatnonzero(np.asarray(run["trace"]["objective"]) <= value)
            arrivals.append(run["trace"]["passes"][reached[0]] if len(reached) else np.inf)
        median = float(np.median(arrivals))
        return median if np.isfinite(median) else None


def compare(
    problem: Problem,
    names: Sequence[str],
    *,
    passes: float,
    runs: int,
    tuning_passes: int | None = None,
    reports: int = 5,
    tell: Callable[[str], None] = lambda sentence: None,
) -> tuple[list[Entry], float]:
    """Run every solver from random starts near zero; return an entry for each, and the least objective.

    Parameters
    ----------
    problem : Problem
        The objective and the metrics.
    names : sequence of str
        Names of :func:`majorant.estimators.fitting.named_solver`.
    passes : float
        Length of a run; a step that ends beyond it is left out.
    runs : int
        Runs of each solver; start and order of the rows differ.
    tuning_passes : int, optional
        Length of each trial of a gain; by default as long as a run, so that it is tuned for what it is judged by.
    reports : int
        Entries of a trace for each pass of a stochastic solver.
    tell : callable
        Called with what begins.
    """
    entries, objective = [], problem.objective
    trial = max(round(passes), 1) if tuning_passes is None else tuning_passes
    for name in names:
        try:
            effort = None
            if name in TUNED:
                tell(f"{name}: tuning")
                started = time.perf_counter()
                tuning = tuned(name, objective, passes=trial)
                seconds, spent = time.perf_counter() - started, sum(trial_run.passes for trial_run in tuning.trials)
                solver: Solver[Any] = tuning.best
                best = asdict(tuning.best)
                tau = f", τ={best['tau']:g}" if best["schedule"] == "adaptive" else ""
                words = f"{best['schedule']} gain {best['gain']:.3g}{tau}, batches of {best['batch_size']}"
                effort = Effort(len(tuning.trials), spent, seconds, words)
            else:
                solver = named_solver(name, objective)
            warm_up(objective, solver)
            done = []
            for seed in range(runs):
                tell(f"{name}: run {seed + 1} of {runs}")
                if isinstance(solver, StochasticSolver):
                    solver = replace(solver, seed=seed, report_every=1 / reports)
                elif isinstance(solver, QuasiNewton):
                    solver = replace(solver, seed=seed)
                limits: dict[str, Any] = {"tol": 1e-10, "max_steps": 10**9, "max_passes": passes}
                found = minimize(objective, solver, start=problem.start(seed), metrics=problem.metrics, **limits)
                # A step may cost several passes and end beyond the limit: it is not counted, so that all have the same.
                within = max(np.count_nonzero(found.trace["passes"] <= passes + 1e-9), 1)
                trace = {column: found.trace[column][:within].tolist() for column in found.trace}
                outcome = found.result.outcome.value
                done.append({"solver": name, "seed": seed, "outcome": outcome, "trace": trace})
            entries.append(Entry(name, tuple(done), effort))
        except ValueError as refusal:  # such as too many parameters for a full matrix
            entries.append(Entry(name, failure=str(refusal)))
    tell("optimum")
    optimum = minimize(objective, QuasiNewton(), tol=1e-10, max_steps=10_000)
    return entries, float(optimum.trace["objective"].min())


def warm_up(objective: Objective, solver: Solver[Any]) -> None:
    """Make a step on a few rows, so that no run is charged for compiling."""
    few = objective.data.sample(200, seed=0)
    minimize(Objective(objective.model, few, ridge=np.maximum(objective.ridge, 1.0)), solver, max_steps=1)


def versions() -> dict[str, str]:
    """Return the versions that numbers may depend on."""
    return {
        "majorant": __version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
    }


CERTIFIED = "distance from the optimum, at most\n(relative, certified)"
ABOVE = "objective above the lowest seen\n(relative)"
ACROSS = ("passes", "step")  # what traces are drawn against, the first that there is


def plot(fitted: Any, *, y: str | None = None, x: str | None = None, ax: Any = None) -> Any:
    """Draw how a fit went.

    Where there is a certificate, what is drawn for each step is how far it was from the optimum at most, (F − L)/F with
    L = F_end (1 − gap), which lies below every value of the objective; elsewhere how far it was above the lowest
    objective seen. The title is what the result says.

    Parameters
    ----------
    fitted : estimator, Solution, Restarts, Trace, dict of arrays or RegularizationPath
        What has been fitted, or its trace. Of a path coefficients are drawn against C, with the number of those that
        are not zero above.
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
    if isinstance(fitted, RegularizationPath):
        return _draw_path(fitted, new_axes() if ax is None else ax)
    trace, result = _trace_of(fitted)
    x = next((name for name in ACROSS if name in trace), ACROSS[-1]) if x is None else x
    across = _column(trace, "x", x)
    if y is None:
        F = _column(trace, "fitted", "objective")
        known = result is not None and np.isfinite(result.gap) and F[-1] > 0
        least = F[-1] * (1.0 - result.gap) if known and result is not None else np.nanmin(F)
        apart = (F - least) / (F if known else max(abs(least), np.finfo(float).tiny))
        along, label = np.where(apart > 0, apart, np.nan), CERTIFIED if known else ABOVE
    else:
        along, label = _column(trace, "y", y), LABELS.get(y, y)
    axis = new_axes() if ax is None else ax
    axis.plot(across, along, color=BLUE, lw=1.9, marker="o" if len(across) <= MANY else "", ms=3.5)
    axis.set(xlabel=LABELS.get(x, x), ylabel=label)
    if y is None and np.nanmax(along, initial=0.0) > 0:
        axis.set_yscale("log")
    if result is not None:
        axis.set_title(str(result), wrap=True, fontsize="small", loc="left")
    return axis


def _draw_path(path: RegularizationPath, axis: Any) -> Any:
    """Draw each coefficient along a path, and the size of the support above."""
    order = np.argsort(path.Cs)
    Cs, W = path.Cs[order], path.coefs[order].reshape(len(order), -1)
    for line in W[:, W.any(axis=0)].T:
        axis.plot(Cs, line, lw=1.2)
    axis.axhline(0.0, color=GREY, lw=0.8, zorder=0)
    axis.set(xscale="log", xlabel="C", ylabel="coefficient", xlim=(Cs[0], Cs[-1]))
    above = axis.secondary_xaxis("top")
    some = np.unique(np.linspace(0, len(Cs) - 1, min(len(Cs), 6)).round().astype(int))
    above.set_xticks(Cs[some], labels=[str(int(count)) for count in path.n_nonzero[order][some]])
    above.minorticks_off()
    above.set_xlabel("coefficients that are not zero")
    return axis


def _trace_of(fitted: Any) -> tuple[Mapping[str, Array], Result | None]:
    if isinstance(fitted, Restarts):
        return fitted.best.trace, fitted.result
    if isinstance(fitted, Solution):
        return fitted.trace, fitted.result
    if isinstance(fitted, Mapping):
        return fitted, None
    trace = getattr(fitted, "trace_", None)
    if trace is None:
        raise ValueError(
            f"fitted must have a trace, and this {type(fitted).__name__} has none: call fit first; models that were "
            "loaded, or that have learnt from a stream, keep none"
        )
    return trace, getattr(fitted, "result_", None)


def _column(trace: Mapping[str, Array], argument: str, name: str) -> Array:
    if name not in trace:
        raise ValueError(f"{argument} must be a column of the trace, {', '.join(trace)}; got {name!r}")
    return np.asarray(trace[name], dtype=np.float64)
