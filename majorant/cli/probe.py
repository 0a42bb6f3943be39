"""``majorant probe``: a linear probe of features in files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from majorant.cli.options import AsJson, FeaturesName, LabelsName
from majorant.cli.output import check_writable, progress, show, show_json, spoken_warnings
from majorant.cli.saved import TENSORS, check_model_path
from majorant.cli.sweeps import show_sweep

if TYPE_CHECKING:
    from majorant import LinearProbe
    from majorant.estimators.probe.table import Row

SCORING = "Choosing C"

FeaturesFile: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="FEATURES",
        help=".npy, .npz, .safetensors, .parquet or .pt, or a folder of such shards.",
    ),
]
LabelsFile: TypeAlias = Annotated[
    str | None, typer.Argument(metavar="[LABELS]", help="The same; if left out, they are in the file of the features.")
]
OutFile: TypeAlias = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="FILE", help="Where to write the probe: .npz, or .safetensors for PyTorch."),
]
PlotFile: TypeAlias = Annotated[str | None, typer.Option(metavar="FILE", help="Draw score and loss over C.")]
Grid: TypeAlias = Annotated[
    str, typer.Option(metavar="COUNT|LIST", help="Points between 1e-6 and 1e5, or 0.1,1,10.", rich_help_panel=SCORING)
]
Share: TypeAlias = Annotated[float, typer.Option(help="Of each class, to score on.", rich_help_panel=SCORING)]
Validation: TypeAlias = Annotated[
    tuple[str, str] | None,
    typer.Option(metavar="FEATURES LABELS", help="Score on these instead; never trained on.", rich_help_panel=SCORING),
]
Test: TypeAlias = Annotated[
    tuple[str, str] | None, typer.Option(metavar="FEATURES LABELS", help="Say how good the probe is on these.")
]
MetricName: TypeAlias = Annotated[
    str, typer.Option(help="accuracy, balanced_accuracy or loss.", rich_help_panel=SCORING)
]
Patience: TypeAlias = Annotated[
    int, typer.Option(help="Scores clearly below the best that end the sweep; 0 for all.", rich_help_panel=SCORING)
]
Seed: TypeAlias = Annotated[int, typer.Option(help="Which rows score.", rich_help_panel=SCORING)]
Standardize: TypeAlias = Annotated[
    bool, typer.Option("--standardize", help="Let every column count alike, whatever its scale.")
]
Tolerance: TypeAlias = Annotated[float, typer.Option(help="Certified relative suboptimality of the probe.")]
Device: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Such as cuda, with PyTorch; NumPy if not given."),
]


def probe(
    features: FeaturesFile,
    labels: LabelsFile = None,
    model: OutFile = None,
    plot: PlotFile = None,
    as_json: AsJson = False,
    cs: Grid = "45",
    share: Share = 0.1,
    validation: Validation = None,
    test: Test = None,
    metric: MetricName = "accuracy",
    patience: Patience = 3,
    seed: Seed = 0,
    standardize: Standardize = False,
    tol: Tolerance = 1e-6,
    device: Device = None,
    features_name: FeaturesName = None,
    labels_name: LabelsName = None,
) -> None:
    """Train a linear probe on frozen features: the best C of a sweep, and a head that is certified.

    Fits every C of a grid, from the strongest penalty on, scores each on rows that are held out, stops when scores have
    clearly turned, and fits all rows with the best. There is no learning rate.

    \b
    majorant probe features.npy labels.npy --model head.safetensors
    majorant probe train.npz --validation val.npz val.npz --test test.npz test.npz --plot sweep.png
    majorant probe shards/ labels.npy --device cuda --json
    """
    names = features_name, labels_name
    check_model_path(model, features, *([labels] if labels else []), suffixes=(".npz", TENSORS))
    check_writable(plot, features)
    X, y = _rows(features, labels or features, names, device)
    held = share if validation is None else _rows(*validation, names, device)
    settings: dict[str, Any] = dict(Cs=_grid(cs), validation=held, metric=metric, patience=patience or None)
    settings |= dict(random_state=seed, standardize=standardize, tol=tol)
    found, seconds = _fit(X, y, settings)
    tested = None if test is None else found.score(*_rows(*test, names, device))
    if model is not None:
        found.save(model, notes={"trained_on": Path(features).name, "rows": len(y)})
    if plot is not None:
        _draw(found, plot)
    _report(found, len(y), seconds, tested, {"model": model, "plot": plot}, as_json)


def _rows(features: str, labels: str, names: tuple[str | None, str | None], device: str | None) -> tuple[Any, Any]:
    from majorant.cli import arrays

    X, y = arrays.rows(features, labels, names)
    return arrays.on_device(X, device), y


def _grid(text: str) -> Any:
    try:
        return int(text) if text.strip().isdecimal() else [float(each) for each in text.split(",") if each.strip()]
    except ValueError:
        raise typer.BadParameter(f"--cs must be a number of points or such as 0.1,1,10, got {text}") from None


def _fit(X: Any, y: Any, settings: dict[str, Any]) -> tuple[LinearProbe, float]:
    from majorant import LinearProbe
    from majorant.estimators.probe.linear_probe import probe_grid

    done, started = 0, time.perf_counter()
    with spoken_warnings(), progress("sweeping") as move:
        total = len(probe_grid(settings["Cs"]))

        def follow(row: Row) -> None:
            nonlocal done
            done += 1
            move(done, total, f"C = {row.C:.2g}, score {row.score:.4g}")

        found = LinearProbe(**settings, callback=follow).fit(X, y)
    return found, time.perf_counter() - started


def _draw(found: LinearProbe, path: str) -> None:
    from majorant.plotting import pyplot, save

    figure, axis = pyplot().subplots(figsize=(6, 4), layout="constrained")
    found.plot(axis)
    save(figure, path)


def _report(
    found: LinearProbe, rows: int, seconds: float, tested: float | None, written: dict[str, str | None], as_json: bool
) -> None:
    table = found.scores_
    best = table.rows[table.best]
    facts = {"C": found.C_, "score": best.score, "metric": found.metric, "loss": best.loss, "test_accuracy": tested}
    facts |= {"rows": rows, "features": found.n_features_in_, "classes": len(found.classes_)}
    facts |= {"result": str(found.result_), "gap": found.gap_, "steps": int(found.n_iter_[0]), "seconds": seconds}
    if as_json:
        show_json({**facts, **written, "sweep": [row._asdict() for row in table.rows]})
        return
    show_sweep(table)
    show(f"\nbest C = {found.C_:.4g}, held-out {found.metric} {best.score:.4f}, loss {best.loss:.4f}")
    show(f"head of {rows} rows, {facts['features']} features, {facts['classes']} classes: {found.result_}")
    if tested is not None:
        show(f"accuracy on the test rows {tested:.4f}")
    for what, path in written.items():
        if path is not None:
            show(f"{what} written to {path}")
    show(f"{seconds:.1f} s in all")
