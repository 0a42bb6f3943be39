"""``majorant evaluate``: how good a model is on a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from majorant.cli.options import AsJson, Data, Missing, Model, TableReading, Target, expanded
from majorant.cli.output import show, show_json

if TYPE_CHECKING:
    from majorant.cli.tables import Source
    from majorant.cli.trained import Trained


@expanded
def evaluate(
    model: Model,
    data: Data,
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
    metrics = _measure(trained, reading.source(data))
    if as_json:
        show_json({"model": model, "data": data, **metrics})
        return
    show_metrics(metrics, data)
    if metrics["left_out"]:
        show(f"\n{metrics['left_out']} rows were left out: they lack a value")


def _measure(trained: Trained, source: Source) -> dict[str, Any]:
    import numpy as np

    from majorant.cli.scores import measure

    labels, found, left_out = [], [], 0
    for part in trained.probabilities(source):
        labels.append(trained.schema.labels(part.complete, trained.estimator.classes_))
        found.append(part.probability)
        left_out += len(part.rows) - len(part.complete)
    if not sum(map(len, found)):
        raise ValueError(f"{source.name} has no complete rows to measure on")
    metrics = measure(np.concatenate(labels), np.concatenate(found), trained.estimator.classes_)
    return {**metrics, "left_out": left_out}
