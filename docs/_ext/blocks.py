"""Blocks of code end with their last line: in the sources an empty one tells doctests where output ends."""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """Take the empty line away once a page is read."""
    app.connect("doctree-read", _trim)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _trim(app: Sphinx, page: nodes.document) -> None:
    for block in page.findall(nodes.literal_block):
        text = block.astext().rstrip()
        block.rawsource, block.children = text, [nodes.Text(text)]
