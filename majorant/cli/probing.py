"""Saved probes on files of features: what they predict, and how good that is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from majorant import LinearProbe
from majorant._checks import Array
from majorant.cli import arrays
from majorant.cli.csv_reader import chunk_rows
from majorant.cli.scores import Tally
from majorant.estimators.tensors import to_array


def probabilities(probe: LinearProbe, X: Any) -> Iterator[Array]:
    """Yield the probabilities of the classes for features, some rows at a time."""
    rows = chunk_rows(None, X.shape[1])
    for start in range(0, len(X), rows):
        yield probe.predict_proba(to_array(X[start : start + rows]))


def measure(probe: LinearProbe, data: Sequence[str], names: tuple[str | None, str | None]) -> dict[str, Any]:
    """Return how good a probe is on the features of a file, with labels there or in a second one."""
    if len(data) > 2:
        raise ValueError(f"a probe is measured on a file of features and one of labels, got {len(data)} files")
    X, y = arrays.rows(data[0], data[-1], names)
    tally, true, first = Tally(probe.classes_), _known(np.asarray(to_array(y)), probe.classes_, data[-1]), 0
    for probability in probabilities(probe, X):
        tally.add(true[first : first + len(probability)], probability)
        first += len(probability)
    return {**tally.metrics(), "left_out": len(X) - tally.rows}


def _known(y: Array, classes: Array, origin: str) -> Array:
    """Return labels as the classes are, which have to be among these."""
    if "U" in (classes.dtype.kind, y.dtype.kind) or "O" in (classes.dtype.kind, y.dtype.kind):
        y, classes = y.astype(str), classes.astype(str)
    unknown = ~np.isin(y, classes)
    if unknown.any():
        row, listed = int(unknown.argmax()), ", ".join(map(str, classes[:20]))
        raise ValueError(f"label {str(y[row])!r} in row {row + 1} of {origin} is none of the classes {listed}")
    return y
