"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

READING = "Reading the file"

Data: TypeAlias = Annotated[
    str, typer.Argument(metavar="DATA", help="CSV, TSV, Parquet, svmlight or npz, also packed; - is standard input.")
]
Model: TypeAlias = Annotated[str, typer.Argument(metavar="MODEL", help="A model that majorant fit has written.")]
Target: TypeAlias = Annotated[
    str | None, typer.Option(metavar="COL", help="Column of the labels; svmlight and npz need none.")
]
Format: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="csv, tsv, parquet, svmlight or npz, if the name of the file does not say.",
        rich_help_panel=READING,
    ),
]
Delimiter: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="CHAR", help="Of CSV: a character, tab or space; found by default.", rich_help_panel=READING),
]
Header: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of CSV names the columns; without, they are c1, c2, and so on.",
        show_default=False,
        rich_help_panel=READING,
    ),
]
Decimal: TypeAlias = Annotated[
    str, typer.Option(metavar="CHAR", help="Mark before a fraction in CSV: . or ,", rich_help_panel=READING)
]
Encoding: TypeAlias = Annotated[
    str, typer.Option(metavar="NAME", help="Of text: utf-8, latin-1, utf-16 and so on.", rich_help_panel=READING)
]
Comment: TypeAlias = Annotated[
    str | None, typer.Option(metavar="PREFIX", help="Lines of CSV that begin so are skipped.", rich_help_panel=READING)
]
Missing: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="RULE", help="Missing values: error, mean (fill in) or drop (the row).", rich_help_panel=READING
    ),
]
Features: TypeAlias = Annotated[
    str | None, typer.Option(metavar="COLS", help="Columns to use, as a,b,c; all by default.", rich_help_panel=READING)
]
Drop: TypeAlias = Annotated[
    str | None, typer.Option(metavar="COLS", help="Columns to leave out, as id,name.", rich_help_panel=READING)
]
Standardize: TypeAlias = Annotated[
    bool, typer.Option("--standardize", help="Bring numbers to mean 0, deviation 1 first.", rich_help_panel=READING)
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def listed(text: str | None) -> list[str]:
    """Return the names in a comma-separated list."""
    return [] if text is None else [name.strip() for name in text.split(",") if name.strip()]
