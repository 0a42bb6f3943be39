"""``majorant compare`` and ``majorant reproduce``: solvers side by side, on one's own data or as in the papers."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from majorant.cli.files import Refusal, in_options
from majorant.cli.options import (
    SOLVERS,
    AsJson,
    Data,
    Learning,
    Standardize,
    TableReading,
    Target,
    argument,
    expanded,
    listed,
    option,
)
from majorant.cli.output import on_terminal, show, show_json, show_table, spoken_warnings

if TYPE_CHECKING:
    from majorant.cli.readers import Tables
    from majorant.cli.schema import Wanted
    from majorant.core.labelled import Labelled
    from majorant.plotting import Entry

COLUMNS = ("objective", "train_log_likelihood", "test_log_likelihood", "test_error", "passes", "seconds")

WHAT = ("bound", "toy", "ecoli", "secstr", "mnist", "digit1", "text", "gisette", "mnist4v9", "latent", "all")

comparing = functools.partial(option, panel="The comparison")


@expanded
def compare(
    data: Data,
    target: Target = None,
    out: Annotated[str | None, option("Folder for curves.png and results.json.", "DIR", "--out", "-o")] = None,
    as_json: AsJson = False,
    solvers: Annotated[str, comparing(f"Of {', '.join(SOLVERS)}.", "NAMES")] = "auto,proximal,sbm,scipy-lbfgs,sgd,asgd",
    passes: Annotated[float, comparing("Passes over the rows in each run.", "N", min=1)] = 10,
    runs: Annotated[int, comparing("Runs of each: random starts and orders.", "N", min=1)] = 3,
    C: Annotated[float | None, comparing("Inverse of the penalty; 1 by default.", "X", "--C")] = None,
    ridge: Annotated[float | None, comparing("The penalty itself, instead of C.", "X", min=0)] = None,
    tune_passes: Annotated[
        int | None, comparing("Passes of a trial of a gain; as a run by default.", "N", min=1)
    ] = None,
    test_size: Annotated[float, comparing("Share of each class to test on.", "SHARE")] = 0.1,
    seed: Annotated[int, comparing("Which rows these are.", "N")] = 0,
    standardize: Standardize = True,
    *,
    learning: Learning,
    reading: TableReading,
) -> None:
    """Compare solvers on your data.

    Shows likelihood and error against passes, as a table and as curves. DATA is a file, or a data set by name such as
    ecoli. The gains of sgd and asgd are tuned on a grid of up to 600 settings first, and what that costs is shown
    apart; nothing else here is tuned. Every parameter is penalised, the intercept too, as sbm needs it. Columns are
    standardised, without which solvers of first order hardly move; data sets by name are as the papers have them.

    \b
    majorant compare ecoli --passes 5
    majorant compare flowers.csv --target species --solvers auto,sgd --out f
    """
    names = listed(solvers)
    wrong = [name for name in names if name not in SOLVERS]
    if wrong or not names:
        raise typer.BadParameter(f"--solvers must be of {', '.join(SOLVERS)}, got {', '.join(wrong) or 'none'}")
    if C is not None and ridge is not None:
        raise typer.BadParameter("give either --C or --ridge, not both")
    if C is not None and not C > 0:
        raise typer.BadParameter(f"--C must be positive, got {C:g}")
    penalty = ridge if ridge is not None else 1.0 if C is None else 1.0 / C

    from majorant import datasets
    from majorant.core.files import replacing
    from majorant.linear.multinomial import Binary, Multinomial
    from majorant.plotting import Problem, draw_curves, versions
    from majorant.plotting import compare as compare_solvers

    by_name = data in datasets.NAMES and not Path(data).exists()
    with spoken_warnings():
        train, test, n = _read(reading.source(data), learning.wanted(target, standardize), test_size, seed)
    if n < 2:
        raise Refusal(f"{data} holds one class only: there is nothing to tell apart")
    problem = Problem.of(Binary() if n == 2 else Multinomial(n), train, test, ridge=penalty)
    settings: dict[str, Any] = dict(passes=passes, runs=runs, tuning_passes=tune_passes)
    if on_terminal(sys.stderr):
        from rich.console import Console

        with Console(stderr=True).status("") as status:
            entries, least = compare_solvers(problem, names, **settings, tell=status.update)
    else:
        entries, least = compare_solvers(problem, names, **settings)
    if not any(entry.runs for entry in entries):
        raise Refusal(f"no solver ran: {entries[0].failure}")
    rows = [_summary(entry, least) for entry in entries]
    if out is not None:
        curves = [run for entry in entries for run in entry.runs]
        results = {"summary": rows, "runs": curves, "versions": versions()}
        Path(out).mkdir(parents=True, exist_ok=True)
        with replacing(Path(out) / "results.json") as temporary:
            temporary.write_text(json.dumps(results, allow_nan=False) + "\n", encoding="utf-8")
        with replacing(Path(out) / "curves.png") as temporary:
            draw_curves(curves, temporary, zoom=True, title=Path(data).name)
    if as_json:
        show_json({"data": data, "ridge": penalty, "passes": passes, "runs": runs, "optimum": least, "solvers": rows})
        return
    objective = problem.objective
    title = f"{data}: {len(objective.data)} rows, {objective.size} parameters, λ = {objective.ridge[0]:g}"
    how = "as they are" if by_name or not standardize else "standardised"
    _show(f"{title}, columns {how}, mean of {runs} runs", rows)
    if out is not None:
        show(f"\ncurves and results are in {out}")


def _read(source: Tables, wanted: Wanted, share: float, seed: int) -> tuple[Labelled, Labelled, int]:
    """Return rows to train on and rows to test on, of a file or a data set by name, and the number of classes."""
    import numpy as np

    from majorant import datasets
    from majorant.cli.schema import read_split, split
    from majorant.core.labelled import Labelled

    path = source.paths[0]
    if path in datasets.NAMES and not Path(path).exists():
        X, y = datasets.load(path)  # with a constant column
        train, test = (Labelled(X[rows], y[rows]) for rows in split(y, share, seed))
        return train, test, int(y.max()) + 1
    data = read_split(source, wanted, share, seed)
    train, test = (
        Labelled(
            data.schema.features(part),
            np.searchsorted(data.classes, data.schema.labels(part, data.classes)),
            constant=True,
        )
        for part in (data.train, data.test)
        if part is not None
    )
    return train, test, len(data.classes)


def _summary(entry: Entry, least: float) -> dict[str, Any]:
    """Return the means over runs of how a solver ended, and what its tuning cost."""
    import numpy as np

    facts: dict[str, Any] = {"solver": entry.solver, "failure": entry.failure}
    if entry.runs:
        facts |= {name: float(np.mean(entry.last(name))) for name in COLUMNS}
        facts["above_optimum"] = max(facts["objective"] / least - 1, 0.0)
        facts["passes_to_1_percent"] = entry.passes_to(1.01 * least)
    facts["tuning"] = None if entry.tuning is None else vars(entry.tuning)
    return facts


def _show(title: str, rows: list[dict[str, Any]]) -> None:
    header = ["solver", "passes", "seconds", "train log-lik", "test log-lik", "test error", "above optimum (relative)"]
    formats = dict(passes=".1f", seconds=".3f", train_log_likelihood=".4f", test_log_likelihood=".4f")
    formats |= dict(test_error=".4f", above_optimum=".1e")
    cells = []
    for row in rows:
        if row["failure"] is None:
            arrival = row["passes_to_1_percent"]
            measures = [format(row[name], form) for name, form in formats.items()]
            cells.append([row["solver"], *measures, "–" if arrival is None else f"{arrival:.1f}"])
    show_table(title, [*header, "passes to 1 %"], cells)
    costs = [
        [row["solver"], cost["best"], str(cost["settings"]), f"{cost['passes']:.0f}", f"{cost['seconds']:.1f}"]
        for row in rows
        if (cost := row["tuning"]) is not None
    ]
    if costs:
        header = ["solver", "best setting", "settings tried", "passes", "seconds"]
        show_table("Tuning, not counted above", header, costs, left=2)
    for row in rows:
        if row["failure"] is not None:
            show(f"\n{row['solver']} did not run: {in_options(row['failure'])}")


# --- the papers -------------------------------------------------------------------------------------------


def reproduce(
    what: Annotated[str, argument(f"{', '.join(WHAT)}. gisette's stand-in is mnist4v9.", "WHAT")] = "ecoli",
    runs: Annotated[int, option("Random starts of each solver; splits, of latent.", "N", min=1)] = 10,
    passes: Annotated[float | None, option("Passes of a run; by default what suits the figure.", "N", min=1)] = None,
    out: Annotated[Path, option("Where results, figures and report go.", "DIR")] = Path("out/reproduction"),
    cv: Annotated[bool, option("Choose the ridge by cross-validation.", None, "--cv")] = False,
    tune: Annotated[bool, option("Add SGD and ASGD with tuned gains to the paper's.", None, "--tune")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the experiments of the papers again.

    It takes a source checkout of majorant. Runs the solvers of "Stochastic Bound Majorization" (Choromanska and Jebara,
    2013) as the paper did, draws the curves, and writes a report of which claims hold. A finished run is kept and never
    computed again, so an interrupted command goes on where it stopped.

    \b
    majorant reproduce ecoli
    majorant reproduce all --tune --out out/all
    majorant reproduce latent
    """
    if what not in WHAT:
        raise typer.BadParameter(f"{what!r} is none of {', '.join(WHAT)}", param_hint="WHAT")
    import majorant

    if not (Path(majorant.__file__).parents[1] / "reproduction" / "__init__.py").is_file():
        raise ValueError(
            "the experiments are not part of the installed package: run this command in a source checkout of majorant, "
            "where make demo installs what it takes"
        )
    from reproduction import command

    if what == "latent":
        command.latent_table(out, runs, as_json)
    else:
        command.figures_of_paper(what, out, as_json, runs=runs, passes=passes, cv=cv, tune=tune)


def warm_up() -> None:
    """Compile what large fits use, once for all.

    An image for a server or a read-only install runs this while it is built; NUMBA_CACHE_DIR says where loops are kept.
    """
    from majorant.compilation import warm_up as compile_all

    kinds: list[str] = []

    def tell(name: str) -> None:
        kinds.append(name)
        typer.echo(f"compiling for {name} …", err=True)

    seconds = compile_all(tell)
    typer.echo(f"ready after {seconds:.1f} s: {', '.join(kinds)}")
