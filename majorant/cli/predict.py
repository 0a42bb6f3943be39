"""``majorant predict``: the classes of the rows of a file."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from majorant.cli.model_file import (
    CHOICES,
    KINDS,
    PREDICT,
    TableModel,
    kind_saved,
    probe_probabilities,
    refuse_options,
    refuse_other_kinds,
)
from majorant.cli.options import FeaturesName, ManyData, Missing, Model, TableReading, expanded, listed, option
from majorant.cli.output import check_writable, show, standard_output
from majorant.cli.packing import PACKED, open_packing
from majorant.cli.refusals import Refusal

if TYPE_CHECKING:
    from majorant.core.checks import Array

# Columns of predictions, and their types.
Columns = dict[str, list[Any]]
Types = dict[str, str]

# Rows of a row group that is written.
GROUP = 2**17
# What predictions can be written as, by what a name ends with: text with that between cells, and two other formats.
JSON, PARQUET = (".jsonl", ".ndjson"), (".parquet", ".pq")
TEXTS = {"": ",", ".csv": ",", ".txt": ",", ".tsv": "\t", ".tab": "\t", **dict.fromkeys(JSON, "")}


@expanded
def predict(
    model: Model,
    data: ManyData,
    out: Annotated[str, option("CSV, .tsv, .jsonl or .parquet; - is standard output.", "FILE", "--out", "-o")] = "-",
    proba: Annotated[bool, option("Also write the probability of each class.", None, "--proba")] = False,
    keep: Annotated[str | None, option("Columns of DATA to copy, such as an identifier.", "COLS")] = None,
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
    refuse_other_kinds(model, KINDS, PREDICT)
    kind, kept = kind_saved(model), listed(keep)
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
        refuse_options(model, kind, {"keep": keep, "missing": missing, **reading.given})
        check_writable(out, *data, model)
    else:
        refuse_options(model, kind, {"features_name": features_name, "missing": missing if kind in CHOICES else None})
        source = reading.source(*data)
        check_writable(out, *source.files, model)
        if kept and not source.named:
            raise Refusal(f"the columns of {source.name} have no names, so leave out --keep")
    if kind in CHOICES:
        from majorant.cli.choice_fit import predict_choices

        found = predict_choices(model, source, kept, chosen=False)
        kept = list(dict.fromkeys([*filter(None, (found.layout.group, found.layout.alternative)), *kept]))
        types = {"prediction": "int64", "probability": "float64"}
        columns: Columns = {name: found.table.text(name) for name in kept}
        columns |= {"prediction": found.prediction.tolist(), "probability": found.probability.tolist()}
        parts = iter([columns])
    else:
        probabilities: Iterator[tuple[Columns, Array | None, Array]]
        if kind == "LinearProbe":
            from majorant import LinearProbe
            from majorant.cli import arrays

            estimator: Any = LinearProbe.load(model)
            features = (arrays.features(file, features_name) for file in data)
            probabilities = (({}, None, p) for X in features for p in probe_probabilities(estimator, X))
        else:
            trained = TableModel.load(model, missing=missing)
            estimator = trained.estimator
            probabilities = (
                ({name: part.table.text(name) for name in kept}, part.kept, part.probability)
                for part in trained.probabilities(source)
            )
        classes = estimator.classes_
        kind_of_label = {"i": "int64", "u": "int64", "f": "float64", "b": "bool"}.get(classes.dtype.kind, "string")
        types = {"prediction": kind_of_label}
        if proba:
            types |= {f"p({name})": "float64" for name in classes}
        parts = predicted(probabilities, classes, proba)
    lost = next((name for name in kept if name in types), None)
    if lost is not None:
        raise Refusal(f"--keep cannot copy a column named {lost!r}: what is predicted has that name; rename it")
    rows = write(parts, out, suffix, dict.fromkeys(kept, "string") | types)
    if out != "-":
        show(f"{rows} predictions written to {out}")


def predicted(parts: Iterable[tuple[Columns, Array | None, Array]], classes: Array, proba: bool) -> Iterator[Columns]:
    """Yield the likeliest classes and, if asked, the probabilities of all, beside columns that are kept.

    A part has these columns, which of its rows are complete (None is all), and the probabilities of those alone.
    """
    for kept, complete, probability in parts:
        columns: Columns = {"prediction": classes[probability.argmax(axis=1)].tolist()}
        if proba:
            columns |= {f"p({name})": probability[:, c].tolist() for c, name in enumerate(classes)}
        if complete is not None and not complete.all():
            for name, values in columns.items():
                filled = [None] * len(complete)
                for row, value in zip(complete.nonzero()[0], values, strict=True):
                    filled[row] = value
                columns[name] = filled
        yield kept | columns


def write(parts: Iterator[Columns], out: str, suffix: str, types: Types) -> int:
    """Write predictions as they come; return how many there are."""
    from majorant.core.files import replacing

    if out == "-":
        return write_text(parts, standard_output(), ".csv")
    with replacing(out) as temporary:
        if suffix in PARQUET:
            return write_parquet(parts, temporary, types)
        with open_packing(temporary) as file:
            return write_text(parts, file, suffix)


def write_parquet(parts: Iterator[Columns], path: Path, types: Types) -> int:
    """Write predictions to a Parquet file, in row groups of which one is held; return how many there are."""
    import pyarrow as pa
    from pyarrow import parquet

    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in types.items()])
    held: list[Any] = []
    rows = waiting = 0
    with parquet.ParquetWriter(path, schema) as writer:
        for columns in parts:
            held.append(pa.record_batch(columns, schema))
            rows, waiting = rows + held[-1].num_rows, waiting + held[-1].num_rows
            if waiting >= GROUP:
                writer.write_table(pa.Table.from_batches(held))
                held, waiting = [], 0
        if held:
            writer.write_table(pa.Table.from_batches(held))
    return rows


def write_text(parts: Iterator[Columns], file: Any, suffix: str) -> int:
    """Write predictions as CSV or the like, or as lines of JSON; return how many there are."""
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
