"""``majorant predict``, ``evaluate`` and ``info``: predictions of a saved model, their quality, and its contents."""

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
    Verbose,
    expanded,
    listed,
    option,
)
from majorant.cli.output import check_writable, show, show_json, show_sweep, show_table, standard_output
from majorant.core.checks import Array

if TYPE_CHECKING:
    from majorant import LinearProbe

# Columns of predictions, and their types.
Columns = dict[str, list[Any]]
Types = dict[str, str]

# What predictions can be written as, by what a name ends with: text with that between cells, and two other formats.
JSON, PARQUET = (".jsonl", ".ndjson"), (".parquet", ".pq")
TEXTS = {"": ",", ".csv": ",", ".txt": ",", ".tsv": "\t", ".tab": "\t", **dict.fromkeys(JSON, "")}
# Rows of a row group of Parquet, which are held until they are written.
ROW_GROUP = 2**17


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
        from majorant.cli.probe import features

        probe = LinearProbe.load(model)
        chunks = (chunk for file in data for chunk in probe_probabilities(probe, features(file, features_name)))
        parts, types = (_predicted(probe.classes_, chunk, proba) for chunk in chunks), _types(probe.classes_, proba, [])
    else:
        refuse_options(model, kind, {"features_name": features_name, "missing": missing if kind in CHOICES else None})
        source = reading.source(*data)
        check_writable(out, *source.paths, model)
        if kind in CHOICES:
            from majorant.cli.choice import predict_choices

            found = predict_choices(model, source, kept, chosen=False)
            names = [name for name in (found.layout.group, found.layout.alternative) if name is not None]
            names = list(dict.fromkeys([*names, *kept]))
            _check_kept(names, ["probability"])
            columns: Columns = {name: found.table.text(name) for name in names}
            columns |= {"prediction": found.prediction.tolist(), "probability": found.probability.tolist()}
            types = dict.fromkeys(names, "string") | {"prediction": "int64", "probability": "float64"}
            parts = iter([columns])
        else:
            trained = TableModel.load(model, missing=missing)
            classes = trained.estimator.classes_

            def of_tables() -> Iterator[Columns]:
                for part in trained.probabilities(source):
                    if kept and part.table.X is not None:
                        raise Refusal(f"the columns of {source.name} have no names, so leave out --keep")
                    predicted = _predicted(classes, part.probability, proba)
                    if not part.kept.all():  # rows that lack a value have no prediction
                        for name, values in predicted.items():
                            column = np.full(len(part.table), None)
                            column[part.kept] = values
                            predicted[name] = column.tolist()
                    yield {name: part.table.text(name) for name in kept} | predicted

            parts, types = of_tables(), _types(classes, proba, kept)
    rows = _write(parts, out, suffix, types)
    if out != "-":
        show(f"{rows} predictions written to {out}")


def probe_probabilities(probe: LinearProbe, X: Any) -> Iterator[Array]:
    """Yield the probabilities of the classes for features, some rows at a time."""
    from majorant.cli import readers
    from majorant.device.estimators import to_array

    rows = readers.chunk_rows(None, X.shape[1])  # by its module, which tests patch
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
        import pyarrow as pa
        from pyarrow import parquet

        schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in types.items()])
        rows, held = 0, list[Any]()
        with parquet.ParquetWriter(temporary, schema) as writer:
            for columns in parts:
                held.append(pa.record_batch(columns, schema))
                rows += held[-1].num_rows
                if sum(batch.num_rows for batch in held) >= ROW_GROUP:
                    writer.write_table(pa.Table.from_batches(held))
                    held.clear()
            if held:
                writer.write_table(pa.Table.from_batches(held))
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
            trained = TableModel.load(model, target=target, missing=missing)
            tally, left_out = Tally(trained.estimator.classes_), 0
            for part in trained.probabilities(source):
                tally.add(trained.schema.labels(part.complete, tally.classes), part.probability)
                left_out += len(part.table) - len(part.complete)
            if not tally.rows:
                raise Refusal(f"{source.name} has no complete rows to measure on")
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


def _measure_probe(path: str, data: list[str], names: tuple[str | None, str | None]) -> dict[str, Any]:
    """Return the metrics of a probe on the features of a file, with labels in the same file or in a second one."""
    from majorant import LinearProbe
    from majorant.cli.probe import rows
    from majorant.device.estimators import to_array

    probe = LinearProbe.load(path)
    if len(data) > 2:
        raise Refusal(f"a probe is measured on a file of features and one of labels, got {len(data)} files")
    X, labels = rows(data[0], data[-1], names)
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
    """Running totals of predictions: counts and sums, and of two classes the probability of the second.

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
        # How often a row of the second class is given more than one of the first; a tie is half of that.
        if len(self.classes) == 2 and true.all():
            first = np.sort(np.concatenate(self._second[0]))
            below = sum(int(np.searchsorted(first, second, side).sum()) for second in self._second[1] for side in SIDES)
            auc = below / (2 * len(first) * sum(map(len, self._second[1])))
        measures = {
            name: np.divide(part, total, out=np.zeros(len(part)), where=total > 0)
            for name, part, total in (
                ("precision", right, found),
                ("recall", right, true),
                ("f1", 2 * right, found + true),
            )
        }
        return {
            "rows": self.rows,
            "accuracy": float(right.sum() / self.rows),
            "log_loss": self.log_loss / self.rows,
            "auc": auc,
            "classes": [
                {"class": name, **{what: values[c] for what, values in measures.items()}, "rows": true[c]}
                for c, name in enumerate(self.classes)
            ],
            "confusion": self._confusion,
        }


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


def info(model: Model, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Say what is in a saved model.

    Prints its classes, columns, settings and certificate, and the largest coefficients.

    \b
    majorant info flowers.npz
    """
    import majorant

    refuse_other_kinds(model, (*KINDS, "ChainCRF"), "predict")
    kind = kind_saved(model)
    if kind in CHOICES:
        from majorant.cli.choice import Chosen, load_choices

        fitted = load_choices(model)
        notes = fitted.notes_ if isinstance(fitted.notes_, dict) else {}
        choices = Chosen(fitted, fitted.summary(), "hessian", notes.get("rows"))
        if as_json:
            show_json({"model": model, **choices.facts()})
        else:
            show(str(choices.summary))
        return
    if kind == "LinearProbe":
        probe = majorant.LinearProbe.load(model)
        facts = {**_facts(probe), "C": probe.C_, **(probe.notes_ if isinstance(probe.notes_, dict) else {})}
        if as_json:
            show_json({"model": model, **facts, "sweep": [row._asdict() for row in probe.scores_.rows]})
        else:
            _show_facts(model, facts)
            show_sweep(probe.scores_, verbose)
        return
    facts, coefficients = _of_chain(model) if kind == "ChainCRF" else _of_table(model)
    if as_json:
        show_json({"model": model, **facts, "coefficients": coefficients})
        return
    _show_facts(model, facts)
    show("\nLargest coefficients")
    for row in coefficients:
        largest = sorted(row["weights"].items(), key=lambda pair: -abs(pair[1]))[:5]
        show(f"{row['class']}: " + ", ".join(f"{name} {weight:+.3g}" for name, weight in largest))


def _of_chain(path: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    from majorant import ChainCRF

    estimator = ChainCRF.load(path)
    states, transitions = estimator.state_features_, estimator.transition_features_
    facts = {
        "kind": "ChainCRF",
        "classes": estimator.classes_.tolist(),
        "attributes": len({attribute for attribute, _ in states}),
        "weights": len(states) + len(transitions),
        "result": str(estimator.result_),
        "gap": estimator.gap_,
        "steps": estimator.n_iter_,
        "settings": _settings(estimator),
    }
    weights: dict[Any, dict[str, float]] = {label: {} for label in estimator.classes_.tolist()}
    for (attribute, label), weight in states.items():
        weights[label][attribute] = weight
    for (before, label), weight in transitions.items():
        weights[label][f"after {before}"] = weight
    return facts, [{"class": label, "weights": of_label} for label, of_label in weights.items()]


def _of_table(path: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    from majorant import LogisticRegression

    estimator = LogisticRegression.load(path)
    trained = TableModel.of(estimator, path)
    facts = _facts(estimator)
    if trained is None:
        names = list(getattr(estimator, "feature_names_in_", [f"x{i}" for i in range(estimator.n_features_in_)]))
    else:
        notes, schema = trained.notes, trained.schema
        names = schema.encoding.names
        facts |= {
            "trained_on": notes.get("trained_on"),
            "trained_by": f"majorant {notes.get('version')}",
            "rows": notes.get("rows"),
            "target": schema.target,
            "missing_values": schema.missing,
            "text_columns": getattr(schema.encoding, "levels", {}),
        }
    # Two classes share one row, which speaks for the second.
    classes = estimator.classes_ if len(estimator.coef_) > 1 else estimator.classes_[1:]
    return facts, [
        {"class": c, "intercept": b, "weights": dict(zip(names, w.tolist(), strict=True))}
        for c, b, w in zip(classes.tolist(), estimator.intercept_.tolist(), estimator.coef_, strict=True)
    ]


def _settings(estimator: Any) -> dict[str, Any]:
    return {k: v for k, v in estimator.get_params().items() if v is not None and k not in ("callbacks", "verbose")}


def _facts(estimator: Any) -> dict[str, Any]:
    return {
        "kind": type(estimator).__name__,
        "classes": estimator.classes_.tolist(),
        "features": estimator.n_features_in_,
        "result": str(estimator.result_),
        "gap": estimator.gap_,
        "steps": int(estimator.n_iter_[0]),
        "settings": _settings(estimator),
    }


def _show_facts(title: str, facts: dict[str, Any]) -> None:
    rows = []
    for name, value in facts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{k}={v}" for k, v in value.items() if str(v) != "deprecated") or "none"
        elif isinstance(value, list):
            value = ", ".join(map(str, value))
        rows.append([name.replace("_", " "), f"{value:.3g}" if name == "gap" else str(value)])
    show_table(title, ["what", "value"], rows, left=2)
