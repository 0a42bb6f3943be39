"""``majorant predict``: the classes of the rows of a file."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from majorant.cli.options import ManyData, Missing, Model, TableReading, expanded, listed
from majorant.cli.output import check_writable, show, standard_output

if TYPE_CHECKING:
    from majorant.cli.tables import Tables
    from majorant.cli.trained import Trained

Columns = dict[str, list[Any]]


@expanded
def predict(
    model: Model,
    data: ManyData,
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="FILE", help="CSV, .tsv, .jsonl or .parquet; - is standard output.")
    ] = "-",
    proba: Annotated[bool, typer.Option("--proba", help="Also write the probability of each class.")] = False,
    keep: Annotated[
        str | None, typer.Option(metavar="COLS", help="Columns of DATA to copy, such as an identifier.")
    ] = None,
    missing: Missing = None,
    *,
    reading: TableReading,
) -> None:
    """Predict the class of each row.

    Columns may stand in another order than in the file that was trained on; extra ones are ignored. Files are read,
    and predictions written, in chunks: neither need fit in memory. Where rows with missing values are dropped, their
    prediction is empty.

    \b
    majorant predict flowers.npz new.csv --out species.csv --keep id --proba
    """
    from majorant.cli.trained import Trained

    source = reading.source(*data)
    check_writable(out, *source.paths, model)
    trained = Trained.load(model, missing=missing)
    classes = trained.estimator.classes_
    chances = [f"p({name})" for name in classes] if proba else []
    _check_kept(listed(keep), chances)
    kind = "int64" if classes.dtype.kind in "iu" else "string"
    types = dict.fromkeys(listed(keep), "string") | {"prediction": kind} | dict.fromkeys(chances, "float64")
    rows = _write(_predictions(trained, source, proba, listed(keep)), out, types)
    if out != "-":
        show(f"{rows} predictions written to {out}")


def _check_kept(names: list[str], chances: list[str]) -> None:
    lost = next((name for name in names if name in ("prediction", *chances)), None)
    if lost is not None:
        raise ValueError(f"--keep cannot copy a column named {lost!r}: what is predicted has that name; rename it")


def _predictions(trained: Trained, source: Tables, proba: bool, keep: list[str]) -> Iterator[Columns]:
    import numpy as np

    from majorant.cli.tables import Matrix

    classes = trained.estimator.classes_
    for part in trained.probabilities(source):
        rows, probability = part.rows, part.probability
        if keep and isinstance(rows, Matrix):
            raise ValueError(f"the columns of {source.name} have no names, so leave out --keep")
        columns: Columns = {} if isinstance(rows, Matrix) else {name: rows.text(name) for name in keep}
        places = np.flatnonzero(part.kept)
        columns["prediction"] = _spread(classes[probability.argmax(axis=1)].tolist(), places, len(rows))
        if proba:
            for c, name in enumerate(classes):
                columns[f"p({name})"] = _spread(probability[:, c].tolist(), places, len(rows))
        yield columns


def _spread(values: list[Any], places: Any, rows: int) -> list[Any]:
    """Return the values where they belong, None elsewhere."""
    if len(values) == rows:
        return values
    column: list[Any] = [None] * rows
    for place, value in zip(places, values, strict=True):
        column[place] = value
    return column


def _write(parts: Iterator[Columns], out: str, types: dict[str, str]) -> int:
    from majorant._atomic import replacing

    if out == "-":
        return _write_text(parts, standard_output(), ".csv")
    with replacing(out) as temporary:
        if Path(out).suffix in (".parquet", ".pq"):
            return _write_parquet(parts, temporary, types)
        with open(temporary, "w", newline="", encoding="utf-8") as file:
            return _write_text(parts, file, Path(out).suffix)


def _write_text(parts: Iterator[Columns], file: Any, suffix: str) -> int:
    if suffix in (".jsonl", ".ndjson"):
        return _write_json(parts, file)
    writer = csv.writer(file, delimiter="\t" if suffix in (".tsv", ".tab") else ",", lineterminator="\n")
    rows = 0
    for columns in parts:
        if not rows:
            writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
        rows += len(columns["prediction"])
    return rows


def _write_json(parts: Iterator[Columns], file: Any) -> int:
    rows = 0
    for columns in parts:
        for row in zip(*columns.values(), strict=True):
            file.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n")
        rows += len(columns["prediction"])
    return rows


def _write_parquet(parts: Iterator[Columns], path: Path, types: dict[str, str]) -> int:
    from majorant.cli.tables.parquet import parquet_writer

    rows = 0
    with parquet_writer(path, types) as write:
        for columns in parts:
            write(columns)
            rows += len(columns["prediction"])
    return rows
