"""How good predictions are, as data and as tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from majorant.cli.output import show, show_table
from majorant.core.checks import Array

# A confusion table wider than that helps nobody.
MOST_CLASSES = 20
SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")


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
        right = np.diag(self._confusion)
        measures = {
            "precision": _share(right, found),
            "recall": _share(right, true),
            "f1": _share(2 * right, found + true),
            "rows": true,
        }
        return {
            "rows": self.rows,
            "accuracy": float(right.sum() / self.rows),
            "log_loss": self.log_loss / self.rows,
            "auc": self._auc(),
            "classes": [
                {"class": name, **{what: values[c] for what, values in measures.items()}}
                for c, name in enumerate(self.classes)
            ],
            "confusion": self._confusion,
        }

    def _auc(self) -> float | None:
        """Return how often a row of the second class is given more than one of the first; a tie is half of that."""
        if len(self.classes) != 2 or not self._confusion.sum(axis=1).all():
            return None
        first = np.concatenate(self._second[0])
        first.sort()
        below = sum(int(np.searchsorted(first, second, side).sum()) for second in self._second[1] for side in SIDES)
        return below / (2 * len(first) * sum(map(len, self._second[1])))


def measure(y: Array, probability: Array, classes: Array) -> dict[str, Any]:
    """Return the metrics of rows that are all here."""
    tally = Tally(classes)
    tally.add(y, probability)
    return tally.metrics()


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


def _share(part: Array, whole: Array) -> Array:
    """Return the share of each, zero where there are none."""
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)
