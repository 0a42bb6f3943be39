"""The small sets of Jebara & Choromanska (2012), *Majorization for CRFs and latent likelihoods*: gzipped tables."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from majorant.core.checks import Array
from majorant.datasets import readers


def ionosphere(path: Path) -> tuple[Array, Array]:
    """Return radar returns, good or bad; a column that is always zero is left out."""
    fields = _fields(path)
    X = np.array([row[:-1] for row in fields], dtype=float)
    return readers.with_constant(X[:, X.any(axis=0)]), readers.class_numbers([row[-1] for row in fields])


def bupa(path: Path) -> tuple[Array, Array]:
    """Return liver disorders with the last column, the donors' selector, as the class: most papers do."""
    table = np.array(_fields(path), dtype=float)
    return readers.with_constant(table[:, :-1]), readers.class_numbers(table[:, -1])


def hepatitis(path: Path) -> tuple[Array, Array]:
    """Return patients who died or lived; what is missing is the mean of its column."""
    table = np.array([[np.nan if cell == "?" else float(cell) for cell in row] for row in _fields(path)])
    X = table[:, 1:]
    return readers.with_constant(np.where(np.isnan(X), np.nanmean(X, axis=0), X)), readers.class_numbers(table[:, 0])


def wine(path: Path) -> tuple[Array, Array]:
    """Return wines of three cultivars."""
    table = np.array(_fields(path), dtype=float)
    return readers.with_constant(table[:, 1:]), readers.class_numbers(table[:, 0])


def srbct(path: Path) -> tuple[Array, Array]:
    """Return gene expressions of four tumours."""
    fields = _fields(path)[1:]
    X = np.array([row[2:] for row in fields], dtype=float)
    return readers.with_constant(X), readers.class_numbers([int(row[1]) for row in fields])


def _fields(path: Path) -> list[list[str]]:
    with gzip.open(path, "rt") as file:
        return [line.strip().split(",") for line in file if line.strip()]
