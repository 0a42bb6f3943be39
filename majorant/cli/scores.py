"""How good predictions are, as data and as tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from majorant._checks import Array
from majorant.cli.output import show, show_table

# A confusion table wider than that helps nobody.
MOST_CLASSES = 20


def measure(y: Array, probability: Array, classes: Array) -> dict[str, Any]:
    """Return accuracy, log-loss, AUC (two classes), and precision, recall, F1 and confusion counts by class."""
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    predicted = classes[probability.argmax(axis=1)]
    likelihood = probability[np.arange(len(y)), np.searchsorted(classes, y)]
    with np.errstate(divide="ignore"):
        log_loss = float(-np.log(likelihood).mean())
    each = precision_recall_fscore_support(y, predicted, labels=classes, zero_division=0)
    names = ("precision", "recall", "f1", "rows")
    return {
        "rows": len(y),
        "accuracy": float((predicted == y).mean()),
        "log_loss": log_loss,
        "auc": _auc(y, probability, classes),
        "classes": [
            {"class": classes[c], **{name: values[c] for name, values in zip(names, each, strict=True)}}
            for c in range(len(classes))
        ],
        "confusion": confusion_matrix(y, predicted, labels=classes),
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


def _auc(y: Array, probability: Array, classes: Array) -> float | None:
    from sklearn.metrics import roc_auc_score

    if len(classes) != 2 or len(np.unique(y)) < 2:
        return None
    return float(roc_auc_score(y == classes[1], probability[:, 1]))
