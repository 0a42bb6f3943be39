"""``majorant evaluate``: how good a model is on a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

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
from majorant.core.checks import Array

# A confusion table wider than that helps nobody.
MOST_CLASSES = 20
SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")


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
        title, metrics = data[0], measure_probe(model, data, (features_name, labels_name))
    else:
        refuse_options(model, kind, {**names, "missing": missing if kind in CHOICES else None})
        source = reading.source(*data)
        title = source.name
        if kind in CHOICES:
            from majorant.cli.choice_fit import predict_choices

            found = predict_choices(model, source, chosen=True, choice=target)
            metrics = {"rows": len(found.table), **found.measures()}
        else:
            trained = TableModel.load(model, target=target, missing=missing)
            tally, left_out = Tally(trained.estimator.classes_), 0
            for part in trained.probabilities(source):
                tally.add(trained.schema.labels(part.complete, tally.classes), part.probability)
                left_out += len(part.table) - len(part.complete)
            if not tally.rows:
                raise Refusal(f"{title} has no complete rows to measure on")
            metrics = {**tally.metrics(), "left_out": left_out}
    if as_json:
        show_json({"model": model, "data": data[0] if len(data) == 1 else data, **metrics})
        return
    if "situations" in metrics:
        table = [[name.replace("_", "-"), f"{metrics[name]:.4f}"] for name in ("accuracy", "log_loss")]
        show_table(f"{title}: {metrics['situations']} situations", ["measure", "value"], table)
        return
    show_metrics(metrics, title)
    if metrics["left_out"]:
        show(f"\n{metrics['left_out']} rows were left out: they lack a value")


def measure_probe(path: str, data: list[str], names: tuple[str | None, str | None]) -> dict[str, Any]:
    """Return how good a probe is on the features of a file, with labels there or in a second one."""
    from majorant import LinearProbe
    from majorant.cli import arrays
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


# --- measures -------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What is known of predictions so far: counts and sums, and of two classes the probability of the second.

    AUC compares every row of one class with every one of the other: for two classes alone, a number of each is kept.
    """

    classes: Array
    rows: int = 0
    log_loss: float = 0.0
    _second: tuple[list[Array], list[Array]] = field(default_factory=lambda: ([], []))  # of rows of either class

    def __post_init__(self) -> None:
        self._confusion = np.zeros((len(self.classes), len(self.classes)), dtype=np.int64)

    def add(self, y: Array, probability: Array) -> None:
        """Take note of more rows."""
        n, true = len(self.classes), np.searchsorted(self.classes, y)
        pairs = np.bincount(true * n + probability.argmax(axis=1), minlength=n * n)
        self._confusion += pairs.reshape(n, n)
        with np.errstate(divide="ignore"):
            self.log_loss -= float(np.log(probability[np.arange(len(y)), true]).sum())
        self.rows += len(y)
        if n == 2:
            for c, seen in enumerate(self._second):
                seen.append(probability[true == c, 1])

    def metrics(self) -> dict[str, Any]:
        """Return accuracy, log-loss, AUC (two classes), and precision, recall, F1 and confusion counts by class."""
        found, true = self._confusion.sum(axis=0), self._confusion.sum(axis=1)
        right, auc = np.diag(self._confusion), None
        if len(self.classes) == 2 and true.all():
            # How often a row of the second class is given more than one of the first; a tie is half of that.
            first = np.sort(np.concatenate(self._second[0]))
            below = sum(int(np.searchsorted(first, second, side).sum()) for second in self._second[1] for side in SIDES)
            auc = below / (2 * len(first) * int(true[1]))
        measures = {
            "precision": share(right, found),
            "recall": share(right, true),
            "f1": share(2 * right, found + true),
            "rows": true,
        }
        return {
            "rows": self.rows,
            "accuracy": float(right.sum() / self.rows),
            "log_loss": self.log_loss / self.rows,
            "auc": auc,
            "classes": [
                {"class": name, **{what: values[c] for what, values in measures.items()}}
                for c, name in enumerate(self.classes)
            ],
            "confusion": self._confusion,
        }


def show_metrics(metrics: dict[str, Any], title: str) -> None:
    """Print the tables."""
    auc = [] if metrics["auc"] is None else [["AUC", f"{metrics['auc']:.4f}"]]
    summary = [["accuracy", f"{metrics['accuracy']:.4f}"], ["log-loss", f"{metrics['log_loss']:.4f}"], *auc]
    show_table(f"{title}: {metrics['rows']} rows", ["measure", "value"], summary)
    by_class = [
        [str(row["class"]), *(f"{row[name]:.3f}" for name in ("precision", "recall", "f1")), str(row["rows"])]
        for row in metrics["classes"]
    ]
    show_table("By class", ["class", "precision", "recall", "F1", "rows"], by_class)
    names = [str(row["class"]) for row in metrics["classes"]]
    if len(names) > MOST_CLASSES:
        show(f"\n{len(names)} classes: the confusion counts are in the output of --json")
        return
    counts = [[name, *map(str, row)] for name, row in zip(names, metrics["confusion"], strict=True)]
    show_table("Confusion: true class (rows), predicted class (columns)", ["", *names], counts)


def share(part: Array, whole: Array) -> Array:
    """Return a part of the whole for each class, zero where the class has no rows."""
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)
