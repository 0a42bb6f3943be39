"""Packages that only some need: whoever lacks one is told which extra of this package brings it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# What each extra is known by. Those for developers are not asked for at run time.
EXTRAS = {
    "cli": "typer, rich and pyarrow",
    "dask": "Dask",
    "files": "pyarrow",
    "frames": "pandas",
    "plot": "matplotlib",
    "safetensors": "safetensors",
    "torch": "PyTorch",
}


def needed(module: str, what: str, extra: str) -> Any:
    """Return a module that something needs, or raise with how to install it.

    Examples
    --------
    >>> needed("no_such_package", "a plot", "plot")
    Traceback (most recent call last):
    ImportError: a plot needs matplotlib: pip install 'majorant[plot]'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as problem:
        if (problem.name or "").split(".")[0] != module.split(".")[0]:
            raise  # it is there, and lacks something of its own
        raise ImportError(missing(what, extra)) from None


def missing(what: str, extra: str) -> str:
    """Return what to say where the packages of an extra are not installed."""
    return f"{what} needs {EXTRAS[extra]}: pip install 'majorant[{extra}]'"
