"""``majorant predict``: the classes of the rows of a file."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
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
        parts, types = _of_probe(model, data, features_name, proba)
    else:
        refuse_options(model, kind, {"features_name": features_name, "missing": missing if kind in CHOICES else None})
        source = reading.source(*data)
        check_writable(out, *source.paths, model)
        if kind in CHOICES:
            parts, types = _of_choices(model, source, kept)
        else:
            parts, types = _of_table(model, source, missing, proba, kept)
    rows = _write(parts, out, suffix, types)
    if out != "-":
        show(f"{rows} predictions written to {out}")


def _of_table(
    path: str, source: Tables, missing: str | None, proba: bool, keep: list[str]
) -> tuple[Iterator[Columns], Types]:
    import numpy as np

    from majorant.cli.tables import Matrix

    trained = TableModel.load(path, missing=missing)
    classes = trained.estimator.classes_

    def parts() -> Iterator[Columns]:
        for part in trained.probabilities(source):
            if keep and isinstance(part.table, Matrix):
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


def _of_probe(path: str, data: list[str], name: str | None, proba: bool) -> tuple[Iterator[Columns], Types]:
    from majorant import LinearProbe
    from majorant.cli.arrays import features

    probe = LinearProbe.load(path)
    chunks = (chunk for file in data for chunk in probe_probabilities(probe, features(file, name)))
    return (_predicted(probe.classes_, chunk, proba) for chunk in chunks), _types(probe.classes_, proba, [])


def _of_choices(path: str, source: Tables, keep: list[str]) -> tuple[Iterator[Columns], Types]:
    from majorant.cli.choice_fit import predict_choices

    found = predict_choices(path, source, keep, chosen=False)
    names = [name for name in (found.layout.group, found.layout.alternative) if name is not None]
    names = list(dict.fromkeys([*names, *keep]))
    _check_kept(names, ["probability"])
    columns: Columns = {name: found.table.text(name) for name in names}
    columns |= {"prediction": found.prediction.tolist(), "probability": found.probability.tolist()}
    types = dict.fromkeys(names, "string") | {"prediction": "int64", "probability": "float64"}
    return iter([columns]), types


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

    if out == "-":
        return _write_text(parts, standard_output(), ".csv")
    with replacing(out) as temporary:
        if suffix not in PARQUET:
            with open_packing(temporary) as file:
                return _write_text(parts, file, suffix)
        from majorant.cli.readers import parquet_writer

        rows = 0
        with parquet_writer(temporary, types) as write:
            for columns in parts:
                write(columns)
                rows += len(columns["prediction"])
        return rows


def _write_text(parts: Iterator[Columns], file: Any, suffix: str) -> int:
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
