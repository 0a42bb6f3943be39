"""``majorant predict`` and ``majorant evaluate``: what a model says of the rows of a file, and how good that is."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from majorant.cli.files import LISTED, PACKED, Refusal, open_packing
from majorant.cli.model_file import CHOICES, KINDS, TableModel, kind_saved, refuse_options, refuse_other_kinds
from majorant.cli.options import (
    AsJson,
    FeaturesName,
    LabelsName,
    ManyData,
    Missing,
    Model,
    Names,
    TableReading,
    Target,
    expanded,
    listed,
    option,
)
from majorant.cli.output import check_writable, show, show_json, show_table, standard_output
from majorant.core.checks import Array

if TYPE_CHECKING:
    from majorant import LinearProbe
    from majorant.cli.readers import Tables

# Columns of predictions, and their types.
Columns = dict[str, list[Any]]
Types = dict[str, str]

# What predictions can be written as, by what a name ends with: text with that between cells, and two other formats.
JSON, PARQUET = (".jsonl", ".ndjson"), (".parquet", ".pq")
TEXTS = {"": ",", ".csv": ",", ".txt": ",", ".tsv": "\t", ".tab": "\t", **dict.fromkeys(JSON, "")}


@expanded
def predict(
    model: Model,
    data: ManyData,
    out: Annotated[str, option("CSV, .tsv, .jsonl or .parquet; - is standard output.", "FILE", "--out", "-o")] = "-",
    proba: Annotated[bool, option("Also write the probability of each class.", None, "--proba")] = False,
    keep: Annotated[Names, option("Columns of DATA to copy, such as an identifier.", "COLS")] = None,
    missing: Missing = None,
    features_name: FeaturesName = None,
    *,
    reading: TableReading,
) -> None:
    """Predict classes, or which option is chosen.

    Columns may stand in another order than in the file that was trained on; extra ones are ignored. Files are read,
    and predictions written, in chunks: neither need fit in memory. Where rows with missing values are dropped, their
    prediction is empty.

    For a model of majorant probe, DATA holds features, as it did there. For one of majorant choice it has a row for
    each alternative, the prediction is 1 for the likeliest of each situation, the probability stands beside it, and the
    file is read whole.

    \b
    majorant predict flowers.npz new.csv --out species.csv --keep id --proba
    majorant predict head.npz features.npy --out classes.csv
    majorant predict trips.npz new_trips.csv --out chosen.csv
    """
    refuse_other_kinds(model, KINDS, "predict")
    kind, kept = kind_saved(model), listed(keep)
    parts: Iterator[Columns]
    place = Path(out)
    suffix = (Path(place.stem).suffix if place.suffix in PACKED else place.suffix).lower()
    # Pipes and devices have any name.
    if out != "-" and (place.is_file() or not place.exists()):
        packed_parquet = place.suffix in PACKED and suffix in PARQUET
        if suffix not in (*TEXTS, *PARQUET) or packed_parquet:
            raise Refusal(
                f"cannot write {out}: predictions are written as .csv, .tsv, .jsonl (also with {', '.join(PACKED)}) or "
                ".parquet; choose a name that ends so"
            )
    if kind == "LinearProbe":
        refuse_options(model, kind, {"keep": keep or None, "missing": missing, **reading.given})
        check_writable(out, *data, model)
        from majorant import LinearProbe
        from majorant.cli.arrays import features

        probe = LinearProbe.load(model)
        chunks = (chunk for file in data for chunk in probe_probabilities(probe, features(file, features_name)))
        parts, types = (_predicted(probe.classes_, chunk, proba) for chunk in chunks), _types(probe.classes_, proba, [])
    else:
        refuse_options(model, kind, {"features_name": features_name, "missing": missing if kind in CHOICES else None})
        source = reading.source(*data)
        check_writable(out, *source.paths, model)
        if kind in CHOICES:
            parts, types = _predict_choices(model, source, kept)
        else:
            parts, types = _predict_table(model, source, missing, proba, kept)
    rows = _write(parts, out, suffix, types)
    if out != "-":
        show(f"{rows} predictions written to {out}")


def _predict_table(
    path: str, source: Tables, missing: str | None, proba: bool, keep: list[str]
) -> tuple[Iterator[Columns], Types]:
    trained = TableModel.load(path, missing=missing)
    classes = trained.estimator.classes_

    def parts() -> Iterator[Columns]:
        for part in trained.probabilities(source):
            if keep and part.table.X is not None:
                raise Refusal(f"the columns of {source.name} have no names, so leave out --keep")
            columns: Columns = {name: part.table.text(name) for name in keep}
            found = _predicted(classes, part.probability, proba)
            if not part.kept.all():
                for name, values in found.items():
                    column = np.full(len(part.table), None)
                    column[part.kept] = values
                    found[name] = column.tolist()
            yield columns | found

    return parts(), _types(classes, proba, keep)


def _predict_choices(path: str, source: Tables, keep: list[str]) -> tuple[Iterator[Columns], Types]:
    from majorant.cli.choice import predict_choices

    found = predict_choices(path, source, keep, chosen=False)
    names = [name for name in (found.layout.group, found.layout.alternative) if name is not None]
    names = list(dict.fromkeys([*names, *keep]))
    _check_kept(names, ["probability"])
    columns: Columns = {name: found.table.text(name) for name in names}
    columns |= {"prediction": found.prediction.tolist(), "probability": found.probability.tolist()}
    types = dict.fromkeys(names, "string") | {"prediction": "int64", "probability": "float64"}
    return iter([columns]), types


def probe_probabilities(probe: LinearProbe, X: Any) -> Iterator[Array]:
    """Yield the probabilities of the classes for features, some rows at a time."""
    from majorant.cli import csv_reader
    from majorant.device.estimators import to_array

    rows = csv_reader.chunk_rows(None, X.shape[1])
    for start in range(0, len(X), rows):
        yield probe.predict_proba(to_array(X[start : start + rows]))


def _predicted(classes: Any, probability: Any, proba: bool) -> Columns:
    """Return the likeliest classes and, if asked, the probabilities of all."""
    columns: Columns = {"prediction": classes[probability.argmax(axis=1)].tolist()}
    if proba:
        columns |= {f"p({name})": probability[:, c].tolist() for c, name in enumerate(classes)}
    return columns


def _types(classes: Any, proba: bool, keep: list[str]) -> Types:
    chances = [f"p({name})" for name in classes] if proba else []
    _check_kept(keep, chances)
    kind = {"i": "int64", "u": "int64", "f": "float64", "b": "bool"}.get(classes.dtype.kind, "string")
    return dict.fromkeys(keep, "string") | {"prediction": kind} | dict.fromkeys(chances, "float64")


def _check_kept(names: list[str], chances: list[str]) -> None:
    lost = next((name for name in names if name in ("prediction", *chances)), None)
    if lost is not None:
        raise Refusal(f"--keep cannot copy a column named {lost!r}: what is predicted has that name; rename it")


def _write(parts: Iterator[Columns], out: str, suffix: str, types: Types) -> int:
    """Write predictions as they come; return how many there are."""
    from majorant.core.files import replacing

    def write_text(file: Any, suffix: str) -> int:
        writer = None if suffix in JSON else csv.writer(file, delimiter=TEXTS.get(suffix, ","), lineterminator="\n")
        rows = 0
        for columns in parts:
            if writer is None:
                for row in zip(*columns.values(), strict=True):
                    file.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n")
            else:
                if not rows:
                    writer.writerow(columns)
                writer.writerows(zip(*columns.values(), strict=True))
            rows += len(columns["prediction"])
        return rows

    if out == "-":
        return write_text(standard_output(), ".csv")
    with replacing(out) as temporary:
        if suffix not in PARQUET:
            with open_packing(temporary) as file:
                return write_text(file, suffix)
        from majorant.cli.readers import parquet_writer

        rows = 0
        with parquet_writer(temporary, types) as write:
            for columns in parts:
                write(columns)
                rows += len(columns["prediction"])
        return rows


# --- evaluate ---------------------------------------------------------------------------------------------


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
    refuse_other_kinds(model, KINDS, "evaluate")
    kind, names = kind_saved(model), {"features_name": features_name, "labels_name": labels_name}
    if kind == "LinearProbe":
        refuse_options(model, kind, {"target": target, "missing": missing, **reading.given})
        title, metrics = data[0], _measure_probe(model, data, (features_name, labels_name))
    else:
        refuse_options(model, kind, {**names, "missing": missing if kind in CHOICES else None})
        source = reading.source(*data)
        title = source.name
        if kind in CHOICES:
            from majorant.cli.choice import predict_choices

            found = predict_choices(model, source, chosen=True, choice=target)
            metrics = {"rows": len(found.table), **found.measures()}
        else:
            metrics = _measure_table(model, source, target, missing)
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


def _measure_table(path: str, source: Tables, target: str | None, missing: str | None) -> dict[str, Any]:
    trained = TableModel.load(path, target=target, missing=missing)
    tally, left_out = Tally(trained.estimator.classes_), 0
    for part in trained.probabilities(source):
        tally.add(trained.schema.labels(part.complete, tally.classes), part.probability)
        left_out += len(part.table) - len(part.complete)
    if not tally.rows:
        raise Refusal(f"{source.name} has no complete rows to measure on")
    return {**tally.metrics(), "left_out": left_out}


def _measure_probe(path: str, data: list[str], names: tuple[str | None, str | None]) -> dict[str, Any]:
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
        row, listed = int(unknown.argmax()), ", ".join(map(str, classes[:LISTED]))
        raise Refusal(f"label {str(y[row])!r} in row {row + 1} of {data[-1]} is none of the classes {listed}")
    tally, first = Tally(probe.classes_), 0
    for probability in probe_probabilities(probe, X):
        tally.add(y[first : first + len(probability)], probability)
        first += len(probability)
    return {**tally.metrics(), "left_out": 0}


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
            name: np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)
            for name, part, whole in (
                ("precision", right, found),
                ("recall", right, true),
                ("f1", 2 * right, found + true),
            )
        }
        return {
            "rows": self.rows,
            "accuracy": float(right.sum() / self.rows),
            "log_loss": self.log_loss / self.rows,
            "auc": self._auc(),
            "classes": [
                {"class": name, **{what: values[c] for what, values in measures.items()}, "rows": true[c]}
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
    if len(names) > LISTED:
        show(f"\n{len(names)} classes: the confusion counts are in the output of --json")
        return
    counts = [[name, *map(str, row)] for name, row in zip(names, metrics["confusion"], strict=True)]
    show_table("Confusion: true class (rows), predicted class (columns)", ["", *names], counts)
