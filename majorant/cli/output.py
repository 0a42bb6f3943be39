"""Output of the commands: tables, JSON, warnings and progress; plain text unless on a terminal."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
import typer

from majorant.cli.files import Refusal, in_options

if TYPE_CHECKING:
    from majorant.linear.probe import SweepTable


def on_terminal(stream: Any = None) -> bool:
    """Return whether the stream (standard output if not given) is a terminal."""
    stream = sys.stdout if stream is None else stream
    return stream is not None and bool(stream.isatty())


def standard_output() -> TextIO:
    """Return standard output, or say that there is none."""
    if sys.stdout is None:
        raise Refusal("standard output is closed: name a file with --out")
    return sys.stdout


def show(text: str) -> None:
    """Print a line."""
    typer.echo(text)


def fail(text: str) -> None:
    """Print one line that says what went wrong."""
    typer.echo(f"majorant: error: {_one_line(text)}", err=True)


def warn(text: str) -> None:
    """Print one line that says what may be wrong."""
    typer.echo(f"majorant: warning: {_one_line(text)}", err=True)


def note(text: str) -> None:
    """Print one line of information on standard error, where it does not mix with results."""
    typer.echo(f"majorant: {_one_line(text)}", err=True)


def show_json(values: dict[str, Any]) -> None:
    """Print one JSON object; what is not a number becomes null."""
    typer.echo(json.dumps(_plain(values), ensure_ascii=False, indent=2))


def show_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> None:
    """Print a table: with rich on a terminal, as aligned text otherwise; so many columns are flush left."""
    if not on_terminal():
        from majorant.core.result import aligned

        typer.echo(f"\n{title}\n{aligned([header, *rows], left)}")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for i, name in enumerate(header):
        table.add_column(name, justify="left" if i < left else "right")
    for row in rows:
        table.add_row(*row)
    console = Console()
    console.print(f"\n{title}", style="bold", markup=False, highlight=False)
    console.print(table, markup=False)


def show_sweep(table: SweepTable, verbose: bool) -> None:
    """Print the table of a sweep over C, the best marked: the rows around it, or all."""
    rows = [("*" if k == table.best else "", *cells) for k, cells in enumerate(table.cells())]
    shown = rows if verbose else rows[max(table.best - 3, 0) : table.best + 4]
    show_table("Sweep over C", ["", *table], shown)
    if len(shown) < len(rows):
        show(f"({len(rows)} rows in all: --verbose shows the others)")


@contextmanager
def spoken_warnings() -> Iterator[None]:
    """Print the warnings of the block as lines of our own, once it has ended."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in caught:
        warn(str(warning.message))


@contextmanager
def progress(title: str, *, stays: bool = False) -> Iterator[Callable[..., None]]:
    """Show a bar on standard error while the block runs, if that is a terminal; yield the function that advances it.

    Its arguments are the amount done, the total (if known) and another title (if any).
    """
    if not on_terminal(sys.stderr):
        yield lambda done, total=None, title=None: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=not stays) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total=None, title=None: bar.update(task, completed=done, total=total, description=title)


def check_writable(path: str | None, *inputs: str) -> None:
    """Refuse a file that cannot be written, or is one of those to be read, before work is done for it."""
    if path is None or path == "-":
        return
    for name in inputs:
        if Path(name).is_file() and Path(path).exists() and Path(path).samefile(name):
            raise Refusal(f"cannot write {path}: it is the file to be read")
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise Refusal(f"cannot write {path}: there is no folder {folder}")
    if Path(path).is_dir():
        raise Refusal(f"cannot write {path}: it is a folder")


def _one_line(text: str) -> str:
    return in_options(" ".join(text.split()))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value
