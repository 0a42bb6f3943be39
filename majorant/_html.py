"""Tables and sentences as HTML, for notebooks. Colours are left to those, so that dark ones stay readable."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def paragraph(text: str, *, bold: bool = False) -> str:
    """Return a paragraph of text.

    Examples
    --------
    >>> paragraph("0 < 1")
    '<p>0 &lt; 1</p>'
    """
    return f"<p><b>{escape(text)}</b></p>" if bold else f"<p>{escape(text)}</p>"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, marked: int | None = None) -> str:
    """Return a table of text; the row that is marked is set in bold, and so is a first column that has no heading.

    Examples
    --------
    >>> table(("", "n"), [("a", "1"), ("b", "2")])
    '<table><thead><tr><th></th><th>n</th></tr></thead><tbody><tr><th>a</th><td>1</td></tr><tr>...</tr></tbody></table>'
    """
    named = bool(header) and not header[0]
    head = f"<thead>{_row(header, len(header))}</thead>" if header else ""
    body = "".join(_row(row, len(row) if k == marked else int(named)) for k, row in enumerate(rows))
    return f"<table>{head}<tbody>{body}</tbody></table>"


def _row(cells: Sequence[str], bold: int) -> str:
    tags = ["th"] * bold + ["td"] * (len(cells) - bold)
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for tag, cell in zip(tags, cells, strict=True)) + "</tr>"
