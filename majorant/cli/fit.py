"""``majorant fit``: train a model on a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from majorant.cli.larger import CHUNK, Larger
from majorant.cli.options import (
    READING,
    SOLVERS,
    AsJson,
    Learning,
    ManyData,
    TableReading,
    Target,
    either,
    expanded,
    listed,
)
from majorant.cli.output import note, on_terminal, show, show_json, spoken_warnings
from majorant.cli.saved import check_model_path

if TYPE_CHECKING:
    from majorant.cli.readers import Tables
    from majorant.cli.schema import Wanted
    from majorant.cli.training import Fit

MODEL = "The model"
TESTING = "Testing"

ModelFile: TypeAlias = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="FILE", help="Where to write the model; DATA.model.npz by default."),
]
Penalty: TypeAlias = Annotated[
    float, typer.Option("--C", help="Inverse of the penalty: larger fits closer.", rich_help_panel=MODEL)
]
SolverName: TypeAlias = Annotated[str, typer.Option(help=f"{either(SOLVERS)}.", rich_help_panel=MODEL)]
Tolerance: TypeAlias = Annotated[
    float, typer.Option(help="Certified relative suboptimality at which to stop.", rich_help_panel=MODEL)
]
Steps: TypeAlias = Annotated[
    int, typer.Option(help="Steps; of stochastic solvers, passes.", min=0, rich_help_panel=MODEL)
]
ClassWeight: TypeAlias = Annotated[
    str | None, typer.Option(metavar="WEIGHTS", help="balanced, or such as yes=2,no=1.", rich_help_panel=MODEL)
]
Intercept: TypeAlias = Annotated[
    bool, typer.Option("--intercept/--no-intercept", help="Whether there is one.", rich_help_panel=MODEL)
]
Penalized: TypeAlias = Annotated[
    bool, typer.Option("--penalize-intercept", help="Penalise it too, as sbm needs it.", rich_help_panel=MODEL)
]
Weight: TypeAlias = Annotated[
    str | None, typer.Option(metavar="COL", help="Column of row weights.", rich_help_panel=READING)
]
TestSize: TypeAlias = Annotated[
    float | None,
    typer.Option(metavar="SHARE", help="Share of each class to test on, not trained on.", rich_help_panel=TESTING),
]
Seed: TypeAlias = Annotated[int, typer.Option(help="Which rows these are, and their order.", rich_help_panel=TESTING)]


@expanded
def fit(
    data: ManyData,
    target: Target = None,
    model: ModelFile = None,
    as_json: AsJson = False,
    C: Penalty = 1.0,
    solver: SolverName = "auto",
    tol: Tolerance = 1e-8,
    max_iter: Steps = 1000,
    class_weight: ClassWeight = None,
    intercept: Intercept = True,
    penalize_intercept: Penalized = False,
    weight: Weight = None,
    *,
    learning: Learning,
    reading: TableReading,
    test_size: TestSize = None,
    seed: Seed = 0,
    larger: Larger,
) -> None:
    """Train a logistic regression on a file, or several as one, and save it.

    Columns of numbers are used as they are; each value of a column of text becomes a column of zeros and ones. Labels
    may be numbers or text. Says why the fit stopped and how close to the optimum it is certified to be.

    Files that are larger than memory are read pass by pass (--batches: the same model, certified, however many passes
    that takes) or once (--stream: a good model of one pass).

    \b
    majorant fit flowers.csv --target species --drop id --test-size 0.2
    majorant fit clicks/ --target clicked --batches --checkpoint clicks.part.npz --resume
    majorant fit 'clicks-*.csv.gz' --target clicked --stream --classes 0,1
    """
    larger.check(solver, test_size)
    source, wanted = reading.source(*data), learning.wanted(target, weight)
    larger.check_files(source)
    path = _model_path(model, data, source)
    settings: dict[str, Any] = dict(C=C, solver=solver, tol=tol, max_iter=max_iter, fit_intercept=intercept)
    settings |= dict(penalize_intercept=penalize_intercept, class_weight=_class_weight(class_weight), random_state=seed)
    resume_from = _checkpoint_to_resume(larger, path, source)
    with spoken_warnings():
        done = _train(source, wanted, settings, test_size, seed, larger, resume_from)
    _save_and_report(done, path, source.name, as_json)


def _train(
    source: Tables,
    wanted: Wanted,
    settings: dict[str, Any],
    share: float | None,
    seed: int,
    larger: Larger,
    resume_from: str | None,
) -> Fit:
    from majorant.callbacks import Checkpoint, ProgressLine
    from majorant.cli.batches import fit_batches
    from majorant.cli.training import fit_stream, fit_whole
    from majorant.estimators import LogisticRegression

    callbacks: list[Any] = [] if larger.checkpoint is None else [Checkpoint(larger.checkpoint, larger.seconds)]
    if not larger.in_batches and on_terminal(sys.stderr):
        callbacks.append(ProgressLine(transient=True))
    estimator = LogisticRegression(**settings, callbacks=callbacks)
    if larger.stream:
        return fit_stream(source, wanted, estimator, listed(larger.classes), larger.chunk_rows or CHUNK)
    if larger.in_batches:
        how: dict[str, Any] = dict(rows=larger.chunk_rows, scheduler=larger.scheduler, resume_from=resume_from)
        return fit_batches(source, wanted, estimator, **how)
    return fit_whole(source, wanted, estimator, share, seed, resume_from)


def _checkpoint_to_resume(larger: Larger, model: str, source: Tables) -> str | None:
    """Return the checkpoint to go on from, if there is one; it must be possible to write it."""
    path = larger.checkpoint
    check_model_path(path, *source.paths)
    if path is not None and Path(path).resolve() == Path(model).resolve():
        raise typer.BadParameter(f"--checkpoint and --model must be two files, got {path} for both")
    if not larger.resume or path is None:
        return None
    if Path(path).exists():
        return path
    note(f"there is no checkpoint {path} yet: the fit starts from the beginning")
    return None


def _save_and_report(done: Fit, path: str, origin: str, as_json: bool) -> None:
    estimator = done.estimator
    estimator.save(path, notes=done.notes(Path(origin).name))
    facts = {
        "model": path,
        "rows": done.rows,
        "features": estimator.n_features_in_,
        "classes": estimator.classes_.tolist(),
        "result": done.result,
        "gap": estimator.gap_,
        "steps": int(estimator.n_iter_[0]),
        "passes": done.passes,
        "rounds": getattr(estimator, "n_rounds_", None),
        "seconds": done.seconds,
        "test": done.test,
    }
    if as_json:
        show_json(facts)
        return
    show(
        f"trained on {done.rows} rows, {facts['features']} features, {len(estimator.classes_)} classes "
        f"in {done.seconds:.2f} s"
    )
    show(done.result)
    show(f"model written to {path}")
    if done.test is not None:
        from majorant.cli.scores import show_metrics

        show_metrics(done.test, "Held out")


def _model_path(model: str | None, data: list[str], source: Tables) -> str:
    """Return where to write the model, which must be possible; it is called after a folder, or the first file."""
    first = data[0] if Path(data[0]).is_dir() else source.path
    path = model or f"{'stdin' if first == '-' else Path(first).resolve().name.split('.')[0]}.model.npz"
    check_model_path(path, *source.paths)
    return path


def _class_weight(text: str | None) -> Any:
    """Return "balanced", or a dict of weights by label; labels that are whole numbers are numbers."""
    if text is None or text == "balanced":
        return text
    from majorant.cli.tables import find_classes, match_classes

    pairs = [pair.rpartition("=") for pair in listed(text)]
    try:
        weights = {label: float(weight) for label, _, weight in pairs}
    except ValueError:
        raise typer.BadParameter(f"--class-weight must be balanced or such as yes=2,no=1, got {text}") from None
    labels = match_classes(list(weights), find_classes(weights, "class_weight"), "--class-weight", lambda row: row)
    return dict(zip(labels.tolist(), weights.values(), strict=True))
