"""``majorant probe``: a linear probe of features in files."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from majorant.cli.model_file import TENSORS, check_model_path
from majorant.cli.options import AsJson, FeaturesName, LabelsName, Verbose, argument, option
from majorant.cli.output import check_writable, progress, show, show_json, show_sweep, spoken_warnings

if TYPE_CHECKING:
    from majorant.linear.probe import Row

scoring = functools.partial(option, panel="Choosing C")


def probe(
    features: Annotated[str, argument(".npy, .npz, .safetensors, .parquet, .pt or a folder of shards.", "FEATURES")],
    labels: Annotated[str | None, argument("The same; by default in the file of the features.", "[LABELS]")] = None,
    model: Annotated[str | None, option("The probe to write: .npz or .safetensors.", "FILE", "--model", "-m")] = None,
    plot: Annotated[str | None, option("Draw score and loss over C.", "FILE")] = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    cs: Annotated[str, scoring("Points between 1e-6 and 1e5, or 0.1,1,10.", "COUNT|LIST")] = "45",
    test_size: Annotated[float, scoring("Share of each class to score on.", "SHARE")] = 0.1,
    validation: Annotated[
        tuple[str, str] | None, scoring("Score on these instead of a share.", "FEATURES LABELS")
    ] = None,
    test: Annotated[tuple[str, str] | None, option("Say how good the probe is on these.", "FEATURES LABELS")] = None,
    metric: Annotated[str, scoring("accuracy, balanced_accuracy or loss.", "NAME")] = "accuracy",
    patience: Annotated[int, scoring("Scores clearly below the best that end the sweep; 0 for all.", "N")] = 3,
    seed: Annotated[int, scoring("Which rows score.", "N")] = 0,
    standardize: Annotated[bool, option("Let every column count alike.", None, "--standardize")] = False,
    tol: Annotated[float, option("Certified relative suboptimality of the probe.", "X")] = 1e-6,
    device: Annotated[str | None, option("Such as cuda, with PyTorch; NumPy if not given.", "NAME")] = None,
    features_name: FeaturesName = None,
    labels_name: LabelsName = None,
) -> None:
    """Train a linear probe on frozen features.

    Finds the best C of a sweep, and a head that is certified: fits every C of a grid, from the strongest penalty on,
    scores each on rows that are held out, stops when scores have clearly turned, and fits all rows with the best. There
    is no learning rate.

    \b
    majorant probe features.npy labels.npy --model head.safetensors
    majorant probe train.npz --validation val.npz val.npz --plot sweep.png
    majorant probe shards/ labels.npy --device cuda --json
    """
    from majorant import LinearProbe
    from majorant.cli import arrays
    from majorant.linear.probe import probe_grid

    def read(features: str, labels: str) -> tuple[Any, Any]:
        X, y = arrays.rows(features, labels, (features_name, labels_name))
        return arrays.on_device(X, device), y

    try:
        grid: Any = int(cs) if cs.strip().isdecimal() else [float(word) for word in cs.split(",") if word.strip()]
    except ValueError:
        raise typer.BadParameter(f"--cs must be a number of points or such as 0.1,1,10, got {cs}") from None
    check_model_path(model, features, *([labels] if labels else []), suffixes=(".npz", TENSORS))
    check_writable(plot, features)
    X, y = read(features, labels or features)
    held = test_size if validation is None else read(*validation)
    settings: dict[str, Any] = dict(Cs=grid, validation=held, metric=metric, patience=patience or None)
    settings |= dict(random_state=seed, standardize=standardize, tol=tol)
    done, started = 0, time.perf_counter()
    with spoken_warnings(), progress("sweeping") as move:
        total = len(probe_grid(settings["Cs"]))

        def follow(row: Row) -> None:
            nonlocal done
            done += 1
            move(done, total, f"C = {row.C:.2g}, score {row.score:.4g}")

        found = LinearProbe(**settings, callback=follow).fit(X, y)
    seconds = time.perf_counter() - started
    tested = None if test is None else found.score(*read(*test))
    if model is not None:
        found.save(model, notes={"trained_on": Path(features).name, "rows": len(y)})
    if plot is not None:
        from majorant.plotting import pyplot, save

        figure, axis = pyplot().subplots(figsize=(6, 4), layout="constrained")
        found.plot(axis)
        save(figure, plot)
    table = found.scores_
    best = table.rows[table.best]
    facts = {"C": found.C_, "score": best.score, "metric": found.metric, "loss": best.loss, "test_accuracy": tested}
    facts |= {"rows": len(y), "features": found.n_features_in_, "classes": len(found.classes_)}
    facts |= {"result": str(found.result_), "gap": found.gap_, "steps": int(found.n_iter_[0]), "seconds": seconds}
    written = {"model": model, "plot": plot}
    if as_json:
        show_json({**facts, **written, "sweep": [row._asdict() for row in table.rows]})
        return
    show_sweep(table, verbose)
    show(f"\nbest C = {found.C_:.4g}, held-out {found.metric} {best.score:.4f}, loss {best.loss:.4f}")
    show(f"head of {len(y)} rows, {facts['features']} features, {facts['classes']} classes: {found.result_}")
    if tested is not None:
        show(f"accuracy on the test rows {tested:.4f}")
    for what, path in written.items():
        if path is not None:
            show(f"{what} written to {path}")
    show(f"{seconds:.1f} s in all")
