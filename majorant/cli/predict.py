"""``majorant predict``: the classes of the rows of a file."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from majorant.cli.options import FeaturesName, ManyData, Missing, Model, TableReading, expanded, listed
from majorant.cli.output import check_writable, show, standard_output
from majorant.cli.packing import PACKED, open_packing
from majorant.cli.saved import CHOICES, KINDS, PREDICT, kind_saved, refuse_options, refuse_other_kinds

if TYPE_CHECKING:
    from majorant.cli.readers import Tables
    from majorant.cli.trained import Trained

Columns = dict[str, list[Any]]

# What predictions can be written as, by what a name ends with: text with that between cells, and two other formats.
JSON, PARQUET = (".jsonl", ".ndjson"), (".parquet", ".pq")
TEXTS = {"": ",", ".csv": ",", ".txt": ",", ".tsv": "\t", ".tab": "\t", **dict.fromkeys(JSON, "")}


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
    features_name: FeaturesName = None,
    *,
    reading: TableReading,
) -> None:
    """Predict the class of each row, or which alternative is chosen.

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
    _check_suffix(out)
    if kind == "LinearProbe":
        refuse_options(model, kind, {"keep": keep, "missing": missing, **reading.given})
        check_writable(out, *data, model)
        written = _of_probe(model, data, features_name, proba)
    else:
        refuse_options(model, kind, {"features_name": features_name, "missing": missing if kind in CHOICES else None})
        source = reading.source(*data)
        check_writable(out, *source.paths, model)
        of_choices = kind in CHOICES
        written = _of_choices(model, source, kept) if of_choices else _of_table(model, source, missing, proba, kept)
    rows = _write(written.parts, out, written.types)
    if out != "-":
        show(f"{rows} predictions written to {out}")


@dataclass(frozen=True)
class Written:
    """The columns to write, some rows at a time, and their types."""

    parts: Iterator[Columns]
    types: dict[str, str]


def _of_table(path: str, source: Tables, missing: str | None, proba: bool, keep: list[str]) -> Written:
    from majorant.cli.trained import Trained

    trained = Trained.load(path, missing=missing)
    types = _types(trained.estimator.classes_, proba, keep)
    return Written(_predictions(trained, source, proba, keep), types)


def _of_probe(path: str, data: list[str], name: str | None, proba: bool) -> Written:
    from majorant import LinearProbe
    from majorant.cli.arrays import features
    from majorant.cli.probing import probabilities

    probe = LinearProbe.load(path)
    classes = probe.classes_

    def parts() -> Iterator[Columns]:
        for each in data:
            for probability in probabilities(probe, features(each, name)):
                columns: Columns = {"prediction": classes[probability.argmax(axis=1)].tolist()}
                chances = probability.T.tolist() if proba else []
                yield columns | {f"p({label})": chance for label, chance in zip(classes, chances, strict=False)}

    return Written(parts(), _types(classes, proba, []))


def _of_choices(path: str, source: Tables, keep: list[str]) -> Written:
    from majorant.cli.choosing import foresee

    found = foresee(path, source, keep, chosen=False)
    names = [name for name in (found.layout.group, found.layout.alternative) if name is not None]
    names = list(dict.fromkeys([*names, *keep]))
    _check_kept(names, ["probability"])
    columns: Columns = {name: found.table.text(name) for name in names}
    columns |= {"prediction": found.prediction.tolist(), "probability": found.probability.tolist()}
    types = dict.fromkeys(names, "string") | {"prediction": "int64", "probability": "float64"}
    return Written(iter([columns]), types)


def _types(classes: Any, proba: bool, keep: list[str]) -> dict[str, str]:
    chances = [f"p({name})" for name in classes] if proba else []
    _check_kept(keep, chances)
    kind = {"i": "int64", "u": "int64", "f": "float64", "b": "bool"}.get(classes.dtype.kind, "string")
    return dict.fromkeys(keep, "string") | {"prediction": kind} | dict.fromkeys(chances, "float64")


def _check_suffix(out: str) -> None:
    """Refuse a name that promises something else than what is written there; pipes and devices have any name."""
    path = Path(out)
    if out == "-" or (path.exists() and not path.is_file()):
        return
    if _suffix(out) not in (*TEXTS, *PARQUET) or (path.suffix in PACKED and _suffix(out) in PARQUET):
        raise ValueError(
            f"cannot write {out}: predictions are written as .csv, .tsv, .jsonl (also with {', '.join(PACKED)}) or "
            ".parquet; choose a name that ends so"
        )


def _suffix(out: str) -> str:
    """Return what the name of a file says of its format, be it packed or not."""
    path = Path(out)
    return (Path(path.stem).suffix if path.suffix in PACKED else path.suffix).lower()


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
        if _suffix(out) in PARQUET:
            return _write_parquet(parts, temporary, types)
        with open_packing(temporary) as file:
            return _write_text(parts, file, _suffix(out))


def _write_text(parts: Iterator[Columns], file: Any, suffix: str) -> int:
    if suffix in JSON:
        return _write_json(parts, file)
    writer = csv.writer(file, delimiter=TEXTS.get(suffix, ","), lineterminator="\n")
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
    from majorant.cli.readers import parquet_writer

    rows = 0
    with parquet_writer(path, types) as write:
        for columns in parts:
            write(columns)
            rows += len(columns["prediction"])
    return rows
