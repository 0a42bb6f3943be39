"""``majorant compare``: solvers side by side on the user's own data."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from majorant.cli.options import SOLVERS, AsJson, Data, Learning, TableReading, Target, expanded, listed, option
from majorant.cli.output import on_terminal, show, show_json, show_table, spoken_warnings
from majorant.cli.refusals import Refusal, in_options

if TYPE_CHECKING:
    from majorant.cli.readers import Tables
    from majorant.cli.schema import Wanted
    from majorant.data import Labelled
    from majorant.experiments.comparison import Entry
    from majorant.experiments.problem import Problem

COLUMNS = ("objective", "train_log_likelihood", "test_log_likelihood", "test_error", "passes", "seconds")

comparing = functools.partial(option, panel="The comparison")


@expanded
def compare(
    data: Data,
    target: Target = None,
    out: Annotated[str | None, option("Folder for curves.png and results.json.", "DIR", "--out", "-o")] = None,
    as_json: AsJson = False,
    solvers: Annotated[str, comparing(f"Of {', '.join(SOLVERS)}.", "NAMES")] = "auto,proximal,sbm,lbfgs,sgd,asgd",
    passes: Annotated[float, comparing("Passes over the rows in each run.", "N", min=1)] = 10,
    runs: Annotated[int, comparing("Runs of each: random starts and orders.", "N", min=1)] = 3,
    C: Annotated[float | None, comparing("Inverse of the penalty; 1 by default.", "X", "--C")] = None,
    ridge: Annotated[float | None, comparing("The penalty itself, instead of C.", "X", min=0)] = None,
    tune_passes: Annotated[
        int | None, comparing("Length of each trial of a gain; that of a run by default.", "N", min=1)
    ] = None,
    test_size: Annotated[float, comparing("Share of each class to test on.", "SHARE")] = 0.1,
    seed: Annotated[int, comparing("Which rows these are.", "N")] = 0,
    *,
    learning: Learning,
    reading: TableReading,
) -> None:
    """Compare solvers on your data.

    Shows likelihood and error against passes, as a table and as curves. DATA is a file, or a data set by name such as
    ecoli. The gains of sgd and asgd are tuned on a grid of up to 600 settings first, and what that costs is shown
    apart; nothing else here is tuned. Every parameter is penalised, the intercept too, as sbm needs it.

    \b
    majorant compare ecoli --passes 5
    majorant compare flowers.csv --target species --solvers auto,lbfgs,sgd --out flowers
    """
    names, penalty = _known(listed(solvers)), _penalty(C, ridge)
    with spoken_warnings():
        problem = _problem(reading.source(data), learning.wanted(target), penalty, test_size, seed)
    entries, least = _compare(problem, names, passes=passes, runs=runs, tuning_passes=tune_passes)
    if not any(entry.runs for entry in entries):
        raise Refusal(f"no solver ran: {entries[0].failure}")
    rows = [_summary(entry, least) for entry in entries]
    if out is not None:
        _write(Path(out), entries, rows, data)
    if as_json:
        show_json({"data": data, "ridge": penalty, "passes": passes, "runs": runs, "optimum": least, "solvers": rows})
        return
    _show(problem, rows, data, runs, out)


def _problem(source: Tables, wanted: Wanted, ridge: float, share: float, seed: int) -> Problem:
    from majorant import datasets
    from majorant.experiments.problem import pose
    from majorant.models import Binary, Multinomial

    by_name = source.path in datasets.NAMES and not Path(source.path).exists()
    read = _read_named if by_name else _read_file
    train, test, n = read(source, wanted, share, seed)
    if n < 2:
        raise Refusal(f"{source.name} holds one class only: there is nothing to tell apart")
    return pose(Binary() if n == 2 else Multinomial(n), train, test, ridge=ridge)


def _read_named(source: Tables, wanted: Wanted, share: float, seed: int) -> tuple[Labelled, Labelled, int]:
    from majorant import datasets
    from majorant.cli.schema import split
    from majorant.data import Labelled

    X, y = datasets.load(source.path)  # with a constant column
    train, test = (Labelled(X[rows], y[rows]) for rows in split(y, share, seed))
    return train, test, int(y.max()) + 1


def _read_file(source: Tables, wanted: Wanted, share: float, seed: int) -> tuple[Labelled, Labelled, int]:
    import numpy as np

    from majorant.cli.schema import read_split
    from majorant.data import Labelled

    data = read_split(source, wanted, share, seed)

    def labelled(part: Any) -> Labelled:
        y = np.searchsorted(data.classes, data.schema.labels(part, data.classes))
        return Labelled(data.schema.features(part), y, constant=True)

    return labelled(data.train), labelled(data.test), len(data.classes)


def _compare(problem: Problem, names: list[str], **settings: Any) -> tuple[list[Entry], float]:
    from majorant.experiments.comparison import compare as run_all

    if not on_terminal(sys.stderr):
        return run_all(problem, names, **settings)
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        return run_all(problem, names, **settings, tell=status.update)


def _summary(entry: Entry, least: float) -> dict[str, Any]:
    """Return the means over runs of how a solver ended, and what its tuning cost."""
    import numpy as np

    from majorant.experiments.comparison import NEAR

    facts: dict[str, Any] = {"solver": entry.solver, "failure": entry.failure}
    if entry.runs:
        facts |= {name: float(np.mean(entry.last(name))) for name in COLUMNS}
        facts["above_optimum"] = max(facts["objective"] / least - 1, 0.0)
        facts["passes_to_1_percent"] = entry.passes_to((1 + NEAR) * least)
    facts["tuning"] = None if entry.tuning is None else vars(entry.tuning)
    return facts


def _show(problem: Problem, rows: list[dict[str, Any]], data: str, runs: int, out: str | None) -> None:
    objective = problem.objective
    header = ["solver", "passes", "seconds", "train log-lik", "test log-lik", "test error", "above optimum"]
    title = f"{data}: {len(objective.data)} rows, {objective.size} parameters, λ = {objective.ridge[0]:g}"
    done = [_cells(row) for row in rows if row["failure"] is None]
    show_table(f"{title}, mean of {runs} runs", [*header, "passes to 1 %"], done)
    tuned = [row for row in rows if row["tuning"] is not None]
    if tuned:
        costs = [
            [row["solver"], cost["best"], str(cost["settings"]), f"{cost['passes']:.0f}", f"{cost['seconds']:.1f}"]
            for row, cost in ((row, row["tuning"]) for row in tuned)
        ]
        show_table(
            "Tuning, not counted above",
            ["solver", "best setting", "settings tried", "passes", "seconds"],
            costs,
            left=2,
        )
    for row in rows:
        if row["failure"] is not None:
            show(f"\n{row['solver']} did not run: {in_options(row['failure'])}")
    if out is not None:
        show(f"\ncurves and results are in {out}")


def _cells(row: dict[str, Any]) -> list[str]:
    arrival = row["passes_to_1_percent"]
    return [
        row["solver"],
        f"{row['passes']:.1f}",
        f"{row['seconds']:.3f}",
        f"{row['train_log_likelihood']:.4f}",
        f"{row['test_log_likelihood']:.4f}",
        f"{row['test_error']:.4f}",
        f"{row['above_optimum']:.1e}",
        "–" if arrival is None else f"{arrival:.1f}",
    ]


def _write(folder: Path, entries: list[Entry], rows: list[dict[str, Any]], data: str) -> None:
    from majorant._atomic import replacing
    from majorant.experiments import store
    from majorant.plotting import draw_curves

    runs = [run for entry in entries for run in entry.runs]
    store.write(folder / "results.json", {"summary": rows, "runs": runs, "versions": store.versions()})
    with replacing(folder / "curves.png") as temporary:
        draw_curves(runs, temporary, zoom=True, title=Path(data).name)


def _known(names: list[str]) -> list[str]:
    wrong = [name for name in names if name not in SOLVERS]
    if wrong or not names:
        raise typer.BadParameter(f"--solvers must be of {', '.join(SOLVERS)}, got {', '.join(wrong) or 'none'}")
    return names


def _penalty(C: float | None, ridge: float | None) -> float:
    if C is not None and ridge is not None:
        raise typer.BadParameter("give either --C or --ridge, not both")
    if ridge is not None:
        return ridge
    if C is not None and not C > 0:
        raise typer.BadParameter(f"--C must be positive, got {C:g}")
    return 1.0 if C is None else 1.0 / C
