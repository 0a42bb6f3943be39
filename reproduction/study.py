"""Finished experiments, read from files: runs by solver, their distances from the optimum, and when they came near."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from majorant.core.checks import Array
from reproduction import store

WATCHED = 0.1  # share of a run that has to follow its arrival near the optimum, to say that it stays there


@dataclass(frozen=True)
class Study:
    """A finished experiment: its plan and its runs.

    Distances are shares of the gap F(start) − F*: 1 at the start, 0 at the optimum.
    """

    plan: dict[str, Any]
    runs: tuple[dict[str, Any], ...]

    @property
    def name(self) -> str:
        """Name of the experiment."""
        return str(self.plan["name"])

    @property
    def title(self) -> str:
        """Title of the experiment in text."""
        return str(self.plan["title"])

    @property
    def missing(self) -> str | None:
        """Why there are no runs, if there are none."""
        return self.plan.get("missing")

    @property
    def labels(self) -> list[str]:
        """Names of the solvers compared."""
        return list(dict.fromkeys(run["solver"] for run in self.compared()))

    def compared(self) -> list[dict[str, Any]]:
        """Return all runs but the one that found the optimum."""
        return [run for run in self.runs if run["solver"] != "optimum"]

    def of(self, label: str) -> list[dict[str, Any]]:
        """Return the runs of a solver."""
        return [run for run in self.runs if run["solver"] == label]

    def at_optimum(self, column: str) -> float:
        """Return a column of the trace at the optimum."""
        return float(self.of("optimum")[0]["trace"][column][-1])

    def distances(self, run: dict[str, Any]) -> Array:
        """Return (F − F*)/(F(start) − F*) along a run."""
        values, best = np.asarray(run["trace"]["objective"]), self.at_optimum("objective")
        return (values - best) / (values[0] - best)

    def after(self, label: str, passes: float) -> float:
        """Return the mean distance after a number of passes."""
        return float(np.mean([self.distances(run)[_entry_at(run, passes)] for run in self.of(label)]))

    def mean_after(self, label: str, column: str, passes: float) -> float:
        """Return the mean of a column after a number of passes."""
        return float(np.mean([run["trace"][column][_entry_at(run, passes)] for run in self.of(label)]))

    def reach(self, label: str, level: float, column: str = "passes", *, stays: bool = True) -> float:
        """Return the passes or seconds until a solver is within ``level``: the median over its runs, ∞ for never.

        They count to the entry from which on it stays there, or with ``stays=False`` to the first entry.
        """
        arrivals = []
        for run in self.of(label):
            inside = self.distances(run) <= level
            entries = np.flatnonzero(np.logical_and.accumulate(inside[::-1])[::-1] if stays else inside)
            arrived = len(entries) > 0 and (not stays or _was_seen_to_stay(run, entries[0]))
            arrivals.append(run["trace"][column][entries[0]] if arrived else np.inf)
        return float(np.median(arrivals))

    def seconds_per_pass(self, label: str) -> float:
        """Return the CPU seconds of a pass, the median over runs."""
        traces = [run["trace"] for run in self.of(label)]
        return float(np.median([trace["cpu_seconds"][-1] / trace["passes"][-1] for trace in traces]))

    def final(self, label: str, column: str) -> Array:
        """Return a column at the end of the comparison, one entry for each run."""
        return np.array([run["trace"][column][_entry_at(run, self.passes_run())] for run in self.of(label)])

    def final_distance(self, label: str) -> Array:
        """Return the distance at the end of the comparison, one entry for each run."""
        return np.array([self.distances(run)[_entry_at(run, self.passes_run())] for run in self.of(label)])

    def passes_run(self) -> float:
        """Return the number of passes that are compared."""
        return float(self.plan["passes"])


def _was_seen_to_stay(run: dict[str, Any], entry: int) -> bool:
    """Return whether at least a tenth of a run follows an entry; a run that ended by itself stays where it is."""
    if run["outcome"] == "non-finite":
        return False
    passes = run["trace"]["passes"]
    return run["outcome"] != "step limit" or bool(passes[entry] <= (1 - WATCHED) * passes[-1])


def read_study(file: Path) -> Study:
    """Return the study that a file holds."""
    entries = store.read(file)
    plan = entries[store.PLAN]
    return Study(plan, tuple(entries[name] for name in plan.get("entries", ())))


def read_studies(out: Path) -> dict[str, Study]:
    """Return every study under ``out/results`` by name; files without a plan are no study, or not run to the end."""
    studies = [read_study(file) for file in store.files(out) if store.PLAN in store.read(file)]
    return {study.name: study for study in studies}


def _entry_at(run: dict[str, Any], passes: float) -> int:
    """Return the first entry of a trace that is not before ``passes``, or the last."""
    at = np.asarray(run["trace"]["passes"])
    return min(int(np.searchsorted(at, passes - 1e-6)), len(at) - 1)


def mean_and_spread(values: Array) -> str:
    """Return the mean over runs and, of several, their standard deviation.

    Examples
    --------
    >>> mean_and_spread(np.array([1.0, 2.0])), mean_and_spread(np.array([1.0]))
    ('1.5000 ± 0.5000', '1.0000')
    """
    spread = f" ± {values.std():.4f}" if len(values) > 1 else ""
    return f"{values.mean():.4f}{spread}"
