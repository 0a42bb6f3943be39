"""``majorant rank``: ratings of players, models or items, from a file with a row for each battle."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from majorant.cli.files import Refusal
from majorant.cli.options import (
    SEVERAL,
    AsJson,
    Names,
    TableReading,
    argument,
    either,
    expanded,
    listed,
    option,
    reading,
)
from majorant.cli.output import check_writable, show, show_json, spoken_warnings, standard_output

if TYPE_CHECKING:
    from majorant.cli.tables import Table
    from majorant.core.checks import Array

# As the help lists them: to ask the estimator would load everything. A test holds them together.
TIES, SCALES = ("half", "davidson", "drop"), ("elo", "logit")

of_ratings = functools.partial(option, panel="Ratings")
of_ranks = functools.partial(option, panel="Intervals of ranks")


@dataclass(frozen=True)
class Scale:
    """How ratings are found and shown: options of the command, in a parameter of this type."""

    ties: Annotated[str, of_ratings(f"What a tie is: {either(TIES)} a win.", "KIND")] = "half"
    scale: Annotated[str, of_ratings(f"{either(SCALES)}.", "NAME")] = "elo"
    anchor: Annotated[str | None, of_ratings("The player whose rating is 1000 (0 in logits).", "NAME")] = None
    C: Annotated[float, of_ratings("Inverse of a penalty on ratings; inf is maximum likelihood.", "X", "--C")] = float(
        "inf"
    )


@dataclass(frozen=True)
class Resampling:
    """Whether battles are resampled: options of the command, in a parameter of this type."""

    bootstrap: Annotated[int | None, of_ranks("Replicates; none by default.", "N", min=2)] = None
    cluster: Annotated[str | None, of_ranks("Column of what belongs together, such as a judge.", "COL")] = None
    seed: Annotated[int, of_ranks("Of the replicates.", "N", min=0)] = 0


@expanded
def rank(
    data: Annotated[list[str], argument(f"CSV, TSV or Parquet with a row for each battle. {SEVERAL}", "DATA")],
    a: Annotated[str, option("Column of the first player.", "COL", "--a")],
    b: Annotated[str, option("Column of the second player.", "COL", "--b")],
    winner: Annotated[str, option("Column of the winner: a name, the name of a column, a or b, or tie.", "COL")],
    covariates: Annotated[Names, option("Columns of what speaks for the first player, as a,b.", "COLS")] = None,
    weight: Annotated[str | None, reading("Column of weights.", "COL")] = None,
    out: Annotated[str | None, option("A CSV file of the table to write; - is standard output.", "FILE")] = None,
    as_json: AsJson = False,
    *,
    scale: Scale,
    resampling: Resampling,
    reading: TableReading,
) -> None:
    """Rate players by who beat whom.

    Prints ratings with standard errors and intervals, best player first. The model is Bradley and Terry's, by maximum
    likelihood: the log-odds of a win are the difference of two ratings.

    \b
    majorant rank battles.csv --a model_a --b model_b --winner winner
    majorant rank battles.csv --a model_a --b model_b --winner winner \\
        --ties davidson --covariates length,style --bootstrap 1000 --cluster judge
    """
    from majorant.choice.paired import PairedComparison
    from majorant.core.checks import one_of

    one_of("ties", scale.ties, TIES)
    one_of("scale", scale.scale, SCALES)
    if resampling.cluster is not None and resampling.bootstrap is None:
        raise typer.BadParameter("--cluster goes with --bootstrap, the number of replicates")
    source = reading.source(*data)
    check_writable(out, *source.paths)
    used = listed(covariates)
    wanted = {a, b, winner, *([resampling.cluster] if resampling.cluster else [])}
    table = source.read(frozenset(wanted))
    columns: dict[str, Any] = {name: names_in(table, name) for name in wanted}
    columns |= {name: numbers_in(table, name) for name in (*used, *([weight] if weight else []))}
    with spoken_warnings():
        model = PairedComparison.from_battles(
            columns,
            a=a,
            b=b,
            winner=winner,
            covariates=used,
            ties=scale.ties,
            weight=weight,
            scale=scale.scale,
            anchor=scale.anchor,
            C=scale.C,
        )
    found = {"player": np.array([str(player) for player in model.ratings_.players]), **model.ratings_.columns}
    said = [str(model.result_)]
    if resampling.bootstrap is not None:
        cluster = None if resampling.cluster is None else columns[resampling.cluster]
        said.append(str(model.bootstrap(resampling.bootstrap, cluster=cluster, seed=resampling.seed)).split("\n")[0])
        found |= {f"rank {name}": model.rank_[name] for name in ("low", "high")}
    others = model.summary().rows()[len(model.players_) :]
    names = model.param_names_[len(model.players_) :]
    if out is not None:
        write_columns(out, found)
    if as_json:
        rows = [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]
        of_names = {
            name: dict(zip(("estimate", "std_err"), row[:2], strict=True))
            for name, row in zip(names, others, strict=True)
        }
        show_json({"ratings": rows, "coefficients": of_names, "scale": scale.scale, "result": said[0]})
    elif out != "-":
        cells = [
            [column, *(f"{value:.6g}" if isinstance(value, float) else str(value) for value in values.tolist())]
            for column, values in found.items()
        ]
        from majorant.core.result import aligned

        show(aligned(zip(*cells, strict=True)))
        for name, row in zip(names, others, strict=True):
            show(f"{name}: {row[0]:.6g} log-odds (std. err. {row[1]:.4g})")
        for sentence in said:
            show(sentence)


def names_in(table: Table, name: str) -> Array:
    """Return a column of names, none of which is missing."""
    values = table.text(name)
    if None in values:
        row = table.row(values.index(None))
        raise Refusal(f"column {name!r} of {table.origin} lacks a value in row {row}")
    return np.array(values, dtype=str)


def numbers_in(table: Table, name: str) -> Array:
    """Return a column of numbers, none of which is missing."""
    values = table.numbers(name)
    if not np.isfinite(values).all():
        row = table.row(int(np.argmin(np.isfinite(values))))
        raise Refusal(f"column {name!r} of {table.origin} lacks a finite number in row {row}")
    return values


def write_columns(path: str, columns: dict[str, Array]) -> None:
    """Write columns as CSV, to a file that appears whole or not at all."""
    import csv

    from majorant.core.files import replacing

    def write(file: Any) -> None:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(values.tolist() for values in columns.values()), strict=True))

    if path == "-":
        return write(standard_output())
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        write(file)
    return None
