"""Axes to draw on, in whatever way the user's matplotlib draws."""

from __future__ import annotations

from typing import Any


def new_axes() -> Any:
    """Return the axes of a new figure; matplotlib, the extra ``majorant[plot]``, is imported by no one else before."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("a plot needs matplotlib: pip install 'majorant[plot]'") from None
    return plt.subplots(layout="constrained")[1]
