"""Axes to draw on, in whatever way the user's matplotlib draws."""

from __future__ import annotations

from typing import Any

from majorant._extras import needed


def new_axes() -> Any:
    """Return the axes of a new figure; matplotlib, the extra ``majorant[plot]``, is imported by no one else before."""
    return needed("matplotlib.pyplot", "a plot", "plot").subplots(layout="constrained")[1]
