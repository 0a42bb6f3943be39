"""``majorant evaluate``: how good a model is on a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from majorant.cli.options import AsJson, ManyData, Missing, Model, TableReading, Target, expanded
from majorant.cli.output import show, show_json

if TYPE_CHECKING:
    from majorant.cli.tables import Tables
    from majorant.cli.trained import Trained


@expanded
def evaluate(
    model: Model,
    data: ManyData,
    target: Target = None,
    as_json: AsJson = False,
    missing: Missing = None,
    *,
    reading: TableReading,
) -> None:
    """Measure a model on labelled rows: accuracy, log-loss, AUC, precision and recall by class, confusion counts.

    \b
    majorant evaluate flowers.npz more.csv
    """
    from majorant.cli.scores import show_metrics
    from majorant.cli.trained import Trained

    trained = Trained.load(model, target=target, missing=missing)
    source = reading.source(*data)
    metrics = _measure(trained, source)
    if as_json:
        show_json({"model": model, "data": data[0] if len(data) == 1 else data, **metrics})
        return
    show_metrics(metrics, source.name)
    if metrics["left_out"]:
        show(f"\n{metrics['left_out']} rows were left out: they lack a value")


def _measure(trained: Trained, source: Tables) -> dict[str, Any]:
    from majorant.cli.scores import Tally

    tally, left_out = Tally(trained.estimator.classes_), 0
    for part in trained.probabilities(source):
        tally.add(trained.schema.labels(part.complete, tally.classes), part.probability)
        left_out += len(part.rows) - len(part.complete)
    if not tally.rows:
        raise ValueError(f"{source.name} has no complete rows to measure on")
    return {**tally.metrics(), "left_out": left_out}
