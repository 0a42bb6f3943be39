"""The table of a sweep, as commands print it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from majorant.cli.output import show_table

if TYPE_CHECKING:
    from majorant.estimators.probe.table import SweepTable


def show_sweep(table: SweepTable) -> None:
    """Print the table of a sweep, the best marked."""
    rows = [("*" if k == table.best else "", *cells) for k, cells in enumerate(table.cells())]
    show_table("Sweep over C", ["", *table], rows)
