"""``majorant evaluate``: how good a model is on a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from majorant.cli.model_file import (
    CHOICES,
    EVALUATE,
    KINDS,
    TableModel,
    kind_saved,
    probe_probabilities,
    refuse_options,
    refuse_other_kinds,
)
from majorant.cli.options import (
    AsJson,
    FeaturesName,
    LabelsName,
    ManyData,
    Missing,
    Model,
    TableReading,
    Target,
    expanded,
)
from majorant.cli.output import show, show_json, show_table
from majorant.cli.refusals import Refusal

if TYPE_CHECKING:
    from majorant.cli.readers import Tables


@expanded
def evaluate(
    model: Model,
    data: ManyData,
    target: Target = None,
    as_json: AsJson = False,
    missing: Missing = None,
    features_name: FeaturesName = None,
    labels_name: LabelsName = None,
    *,
    reading: TableReading,
) -> None:
    """Measure a model on labelled rows.

    Prints accuracy, log-loss, AUC, precision and recall by class, and confusion counts. For a model of majorant probe,
    DATA is a file of features and, unless they are in it as well, one of labels. For one of majorant choice it has a
    row for each alternative, and situations are counted.

    \b
    majorant evaluate flowers.npz more.csv
    majorant evaluate head.npz features.npy labels.npy
    majorant evaluate trips.npz more_trips.csv
    """
    refuse_other_kinds(model, KINDS, EVALUATE)
    kind, names = kind_saved(model), {"features_name": features_name, "labels_name": labels_name}
    if kind == "LinearProbe":
        refuse_options(model, kind, {"target": target, "missing": missing, **reading.given})
        title, metrics = data[0], _of_probe(model, data, (features_name, labels_name))
    else:
        refuse_options(model, kind, {**names, "missing": missing if kind in CHOICES else None})
        source = reading.source(*data)
        title = source.name
        if kind in CHOICES:
            from majorant.cli.choice_fit import predict_choices

            found = predict_choices(model, source, chosen=True, choice=target)
            metrics = {"rows": len(found.table), **found.measures()}
        else:
            metrics = _of_table(model, source, target, missing)
    if as_json:
        show_json({"model": model, "data": data[0] if len(data) == 1 else data, **metrics})
        return
    if "situations" in metrics:
        table = [[name.replace("_", "-"), f"{metrics[name]:.4f}"] for name in ("accuracy", "log_loss")]
        show_table(f"{title}: {metrics['situations']} situations", ["measure", "value"], table)
        return
    from majorant.cli.scores import show_metrics

    show_metrics(metrics, title)
    if metrics["left_out"]:
        show(f"\n{metrics['left_out']} rows were left out: they lack a value")


def _of_table(path: str, source: Tables, target: str | None, missing: str | None) -> dict[str, Any]:
    from majorant.cli.scores import Tally

    trained = TableModel.load(path, target=target, missing=missing)
    tally, left_out = Tally(trained.estimator.classes_), 0
    for part in trained.probabilities(source):
        tally.add(trained.schema.labels(part.complete, tally.classes), part.probability)
        left_out += len(part.table) - len(part.complete)
    if not tally.rows:
        raise Refusal(f"{source.name} has no complete rows to measure on")
    return {**tally.metrics(), "left_out": left_out}


def _of_probe(path: str, data: list[str], names: tuple[str | None, str | None]) -> dict[str, Any]:
    """Return how good a probe is on the features of a file, with labels there or in a second one."""
    import numpy as np

    from majorant import LinearProbe
    from majorant.cli import arrays
    from majorant.cli.scores import Tally
    from majorant.device.estimators import to_array

    probe = LinearProbe.load(path)
    if len(data) > 2:
        raise Refusal(f"a probe is measured on a file of features and one of labels, got {len(data)} files")
    X, labels = arrays.rows(data[0], data[-1], names)
    y, classes = np.asarray(to_array(labels)), probe.classes_
    if {"U", "O"} & {classes.dtype.kind, y.dtype.kind}:
        y, classes = y.astype(str), classes.astype(str)
    unknown = ~np.isin(y, classes)
    if unknown.any():
        row, listed = int(unknown.argmax()), ", ".join(map(str, classes[:20]))
        raise Refusal(f"label {str(y[row])!r} in row {row + 1} of {data[-1]} is none of the classes {listed}")
    tally, first = Tally(probe.classes_), 0
    for probability in probe_probabilities(probe, X):
        tally.add(y[first : first + len(probability)], probability)
        first += len(probability)
    return {**tally.metrics(), "left_out": 0}
