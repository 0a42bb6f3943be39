"""``majorant balance``: weights that give a sample the margins of a population."""

from __future__ import annotations

from typing import Annotated, Any

from majorant.cli.files import Refusal
from majorant.cli.options import SEVERAL, AsJson, Names, TableReading, argument, expanded, listed, option
from majorant.cli.output import check_writable, show, show_json, spoken_warnings
from majorant.cli.rank import names_in, numbers_in, write_columns
from majorant.core.checks import Array

# Columns of a file of margins.
VARIABLE, CATEGORY, SHARE = "variable", "category", "share"


@expanded
def balance(
    data: Annotated[list[str], argument(f"CSV, TSV or Parquet with a row for each unit. {SEVERAL}", "DATA")],
    targets: Annotated[
        str,
        option(
            "A table with the columns variable, category and share; where the category is missing, share is the mean "
            "of a column of numbers.",
            "FILE",
        ),
    ],
    base_weight: Annotated[str | None, option("Column of positive weights to start from.", "COL")] = None,
    tolerance: Annotated[float, option("How far means and shares may be off.", "X", min=0.0)] = 0.0,
    max_ratio: Annotated[float | None, option("The most that a weight may be times its base.", "X")] = None,
    out: Annotated[str | None, option("A CSV file of weights to write; - is standard output.", "FILE")] = None,
    keep: Annotated[Names, option("Columns to write beside the weights, as id,name.", "COLS")] = None,
    as_json: AsJson = False,
    *,
    reading: TableReading,
) -> None:
    """Weigh a sample to given shares and means.

    Prints the shares and means before and after. Weights are those nearest to the base weights in relative entropy:
    raking. Targets that no weights reach are named.

    \b
    majorant balance sample.csv --targets margins.csv
    majorant balance sample.csv --targets margins.csv --base-weight design \\
        --max-ratio 5 --out weights.csv --keep id
    """
    from majorant.maxent.balance import EntropyBalancing

    source, of_targets = reading.source(*data), reading.source(targets)
    check_writable(out, *source.paths, *of_targets.paths)
    margins = margins_in(of_targets)
    categories = {name for name, each in margins.items() if isinstance(each, dict)}
    kept = listed(keep)
    table = source.read(frozenset({*categories, *kept}))
    columns: dict[str, Array] = {
        name: names_in(table, name) if name in categories else numbers_in(table, name) for name in margins
    }
    base = None if base_weight is None else numbers_in(table, base_weight)
    with spoken_warnings():
        fitted = EntropyBalancing.from_margins(columns, margins, base, tolerance=tolerance, max_ratio=max_ratio)
    if out is not None:
        write_columns(out, {name: names_in(table, name) for name in kept} | {"weight": fitted.weights_})
    if as_json:
        found = fitted.balance()
        rows = [dict(zip(found.columns, row, strict=True)) for row in zip(*found.columns.values(), strict=True)]
        show_json(
            {
                "margins": dict(zip(found.names, rows, strict=True)),
                "effective_size": fitted.effective_size_,
                "rows": len(fitted.weights_),
                "converged": fitted.result_.converged,
                "result": str(fitted.result_),
            }
        )
    elif out != "-":
        show(str(fitted.balance()))
        show(str(fitted.result_))
        if out is not None:
            show(f"weights written to {out}")


def margins_in(source: Any) -> dict[Any, Any]:
    """Return shares by column and category, and means by column, of a table of margins."""
    table = source.read(frozenset({VARIABLE, CATEGORY}))
    variables, shares = names_in(table, VARIABLE), numbers_in(table, SHARE)
    categories = table.text(CATEGORY) if CATEGORY in table.columns else [None] * len(variables)
    found: dict[Any, Any] = {}
    for place, (variable, category, share) in enumerate(
        zip(variables.tolist(), categories, shares.tolist(), strict=True)
    ):
        before = found.get(variable)
        if (category is None and before is not None) or isinstance(before, float):
            raise Refusal(f"row {table.row(place)} of {table.origin} gives {variable!r} a mean beside other targets")
        found[variable] = float(share) if category is None else {**(before or {}), category: float(share)}
    if not found:
        raise Refusal(f"{table.origin} holds no targets")
    return found
