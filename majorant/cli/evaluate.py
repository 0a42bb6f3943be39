"""``majorant evaluate``: how good a model is on a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
from majorant.cli.saved import CHOICES, EVALUATE, KINDS, kind_saved, refuse_options, refuse_other_kinds

if TYPE_CHECKING:
    from majorant.cli.readers import Tables
    from majorant.cli.trained import Trained


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
    """Measure a model on labelled rows: accuracy, log-loss, AUC, precision and recall by class, confusion counts.

    For a model of majorant probe, DATA is a file of features and, unless they are in it as well, one of labels. For one
    of majorant choice it has a row for each alternative, and situations are counted.

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
        of_choices = kind in CHOICES
        refuse_options(model, kind, {**names, "missing": missing if of_choices else None})
        source = reading.source(*data)
        title = source.name
        metrics = _of_choices(model, source, target) if of_choices else _of_table(model, source, target, missing)
    if as_json:
        show_json({"model": model, "data": data[0] if len(data) == 1 else data, **metrics})
        return
    _show(metrics, title)


def _of_table(path: str, source: Tables, target: str | None, missing: str | None) -> dict[str, Any]:
    from majorant.cli.trained import Trained

    return _measure(Trained.load(path, target=target, missing=missing), source)


def _of_probe(path: str, data: list[str], names: tuple[str | None, str | None]) -> dict[str, Any]:
    from majorant import LinearProbe
    from majorant.cli.probing import measure

    return measure(LinearProbe.load(path), data, names)


def _of_choices(path: str, source: Tables, choice: str | None) -> dict[str, Any]:
    from majorant.cli.choosing import foresee

    found = foresee(path, source, chosen=True, choice=choice)
    return {"rows": len(found.table), **found.measures()}


def _show(metrics: dict[str, Any], title: str) -> None:
    from majorant.cli.scores import show_metrics

    if "situations" in metrics:
        table = [[name.replace("_", "-"), f"{metrics[name]:.4f}"] for name in ("accuracy", "log_loss")]
        show_table(f"{title}: {metrics['situations']} situations", ["measure", "value"], table)
        return
    show_metrics(metrics, title)
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
