"""One call that draws how a fit went: ``majorant.plot(model)``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from majorant._axes import new_axes
from majorant._checks import Array
from majorant._solution import Result, Solution
from majorant.plotting import BLUE, LABELS
from majorant.run import Restarts

CERTIFIED = "distance from the optimum, at most\n(relative, certified)"
ABOVE = "objective above the lowest seen\n(relative)"
ACROSS = ("passes", "step")  # what traces are drawn against, the first that there is
MARKED = 60  # steps up to which each has a point


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
    trace, result = _trace_of(fitted)
    x = next((name for name in ACROSS if name in trace), ACROSS[-1]) if x is None else x
    across = _column(trace, "x", x)
    along, label = _distances(trace, result) if y is None else (_column(trace, "y", y), LABELS.get(y, y))
    axis = new_axes() if ax is None else ax
    axis.plot(across, along, color=BLUE, lw=1.9, marker="o" if len(across) <= MARKED else "", ms=3.5)
    axis.set(xlabel=LABELS.get(x, x), ylabel=label)
    if y is None and np.nanmax(along, initial=0.0) > 0:
        axis.set_yscale("log")
    if result is not None:
        axis.set_title(str(result), wrap=True, fontsize="small", loc="left")
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


def _distances(trace: Mapping[str, Array], result: Result | None) -> tuple[Array, str]:
    """Return what is known of how far each step was from the optimum, NaN where it is zero, and what it is."""
    F = _column(trace, "fitted", "objective")
    known = result is not None and np.isfinite(result.gap) and F[-1] > 0
    least = F[-1] * (1.0 - result.gap) if known and result is not None else np.nanmin(F)
    apart = (F - least) / (F if known else max(abs(least), np.finfo(float).tiny))
    return np.where(apart > 0, apart, np.nan), CERTIFIED if known else ABOVE
