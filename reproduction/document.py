"""A document of a few kinds of blocks, written as Markdown or as one HTML file with its images inside."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias


@dataclass(frozen=True)
class Heading:
    """A title of a level."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """Text; `code`, **bold** and [links](url) as in Markdown."""

    text: str


@dataclass(frozen=True)
class Table:
    """A header and rows of text."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Figure:
    """An image with a caption."""

    path: Path
    caption: str


Block: TypeAlias = Heading | Paragraph | Table | Figure

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; color: #222; }
h1 { font-size: 1.7rem; line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #ddd; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 0.88rem; }
th, td { text-align: left; vertical-align: top; padding: 0.35rem 0.6rem; border-bottom: 1px solid #e4e4e4; }
th { white-space: nowrap; background: #f6f6f6; } code { background: #f3f3f3; padding: 0 0.2em; font-size: 0.9em; }
figure { margin: 1.2rem 0; } figure img { max-width: 100%; height: auto; }
figcaption { color: #555; font-size: 0.9rem; }
.holds { color: #00664b; } .fails { color: #a33b00; } .partly { color: #7a5a00; }
"""
VERDICT_CLASSES = {"holds only if": "partly", "does not hold": "fails", "holds": "holds"}


def to_markdown(blocks: Sequence[Block]) -> str:
    """Return Markdown; figures are links to files beside it."""
    return "\n\n".join(_markdown(block) for block in blocks) + "\n"


def to_html(title: str, blocks: Sequence[Block]) -> str:
    """Return one self-contained page."""
    body = "\n".join(_html(block) for block in blocks)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}'
    head = f"<head>{head}</title><style>{STYLE}</style></head>"
    return f'<!doctype html>\n<html lang="en">{head}\n<body>\n{body}\n</body></html>\n'


def _markdown(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {text}"
        case Paragraph(text):
            return text
        case Figure(path, caption):
            return f"![{caption}]({path.name})\n\n*{caption}*"
        case Table(header, rows):
            lines = [header, ["---"] * len(header), *rows]
            return "\n".join(f"| {' | '.join(cell.replace('|', '∣') for cell in line)} |" for line in lines)


def _html(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{_inline(text)}</h{level}>"
        case Paragraph(text):
            return f"<p>{_inline(text)}</p>"
        case Figure(path, caption):
            image = base64.b64encode(path.read_bytes()).decode()
            source = f"data:image/png;base64,{image}"
            words = html.escape(caption)
            return f'<figure><img alt="{words}" src="{source}"><figcaption>{words}</figcaption></figure>'
        case Table(header, rows):
            head = "".join(f"<th>{_inline(cell)}</th>" for cell in header)
            body = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>\n" for row in rows)
            return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>'


def _cell(text: str) -> str:
    bare = text.strip("*")
    kind = next((name for start, name in VERDICT_CLASSES.items() if bare.startswith(start)), "")
    return f'<td class="{kind}">{_inline(text)}</td>' if kind else f"<td>{_inline(text)}</td>"


def _inline(text: str) -> str:
    escaped = html.escape(text, quote=False)
    escaped = re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)
    escaped = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", escaped)
    return re.sub(r"\[([^\]]+)\]\(([^)]+)\)", r'<a href="\2">\1</a>', escaped)
