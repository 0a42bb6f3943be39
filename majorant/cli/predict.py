"""``majorant predict``: the classes of the rows of a file."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from majorant.cli.options import Data, Missing, Model, TableReading, expanded, listed
from majorant.cli.output import check_writable, show, standard_output

if TYPE_CHECKING:
    from majorant.cli.tables import Source
    from majorant.cli.trained import Trained

Columns = dict[str, list[Any]]


@expanded
def predict(
    model: Model,
    data: Data,
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="FILE", help="CSV, .tsv or .parquet; - is standard output.")
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

    Columns may stand in another order than in the file that was trained on; extra ones are ignored. The file is read in
    chunks. Where rows with missing values are dropped, their prediction is empty.

    \b
    majorant predict flowers.npz new.csv --out species.csv --keep id --proba
    """
    from majorant.cli.trained import Trained

    check_writable(out, data, model)
    trained = Trained.load(model, missing=missing)
    _check_kept(listed(keep), [str(name) for name in trained.estimator.classes_] if proba else [])
    parts = _predictions(trained, reading.source(data), proba, listed(keep))
    rows = _write(parts, out)
    if out != "-":
        show(f"{rows} predictions written to {out}")


def _check_kept(names: list[str], classes: list[str]) -> None:
    taken = {"prediction", *(f"p({name})" for name in classes)}
    lost = next((name for name in names if name in taken), None)
    if lost is not None:
        raise ValueError(f"--keep cannot copy a column named {lost!r}: what is predicted has that name; rename it")


def _predictions(trained: Trained, source: Source, proba: bool, keep: list[str]) -> Iterator[Columns]:
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


def _write(parts: Iterator[Columns], out: str) -> int:
    from majorant._atomic import replacing

    if out == "-":
        return _write_delimited(parts, standard_output(), ",")
    with replacing(out) as temporary:
        if Path(out).suffix in (".parquet", ".pq"):
            return _write_parquet(parts, temporary)
        with open(temporary, "w", newline="", encoding="utf-8") as file:
            return _write_delimited(parts, file, "\t" if Path(out).suffix in (".tsv", ".tab") else ",")


def _write_delimited(parts: Iterator[Columns], file: Any, delimiter: str) -> int:
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    rows = 0
    for columns in parts:
        if not rows:
            writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
        rows += len(columns["prediction"])
    return rows


def _write_parquet(parts: Iterator[Columns], path: Path) -> int:
    from majorant.cli.tables.parquet import write_parquet

    whole: Columns = {}
    for columns in parts:
        for name, values in columns.items():
            whole.setdefault(name, []).extend(values)
    write_parquet(path, whole)
    return len(whole["prediction"])
