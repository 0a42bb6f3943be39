"""Another order for rows that stand sorted: every stretch of a pass is made of rows from many chunks.

Chunks are drawn into groups, at random, and each is cut into stretches, which are dealt out in turn to as many
*windows* as its group has chunks. A window has about as many rows as a chunk, and labels of all of its group, even if
rows are sorted within chunks. Nothing is read twice, and no more than a few windows are in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from majorant._threads import even_parts
from majorant.data.base import Order

# Chunks of a group, at most, and stretches of a window, about: each is still worth a read.
MIXED, STRETCHES = 32, 128

# Numbers of chunks, and which of their rows.
Window: TypeAlias = list[tuple[int, slice]]


def windows_of(chunks: Sequence[int], seed: int, passes: int) -> Iterator[Window]:
    """Yield the windows of a pass over chunks of so many rows: the same for the same seed and pass."""
    drawn = Order(seed).of_pass(passes, len(chunks)).tolist()
    for some in even_parts(len(drawn), -(-len(drawn) // MIXED)):
        group = drawn[some]
        many = len(group)
        cuts = {number: even_parts(chunks[number], many * (STRETCHES // many)) for number in group}
        for turn in range(many):
            dealt = [(number, rows) for number in group for rows in cuts[number][turn::many]]
            window = [(number, rows) for number, rows in dealt if rows.start < rows.stop]
            if window:
                yield window


def length_of(window: Window) -> int:
    """Return how many rows there are."""
    return sum(rows.stop - rows.start for _, rows in window)
