"""Which rows a probe is fitted to, and which score it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from majorant._checks import Array
from majorant.estimators.probe.features import labels_of, read_more, take


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to fit, with their labels, and rows to score, with the numbers of their classes."""

    X: Any
    y: Array
    X_held: Any
    codes: Array
    classes: Array

    @property
    def held_labels(self) -> Array:
        """The labels of the rows that score."""
        return self.classes[self.codes]


def split_rows(estimator: Any, X: Any, y: Array, validation: Any) -> Split:
    """Return the split that ``validation`` asks for: a share of each class, some of the rows, or rows of their own."""
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y must hold at least two classes, got only one class: {classes.tolist()[0]!r}")
    if is_pair(validation):
        X_held = read_more(estimator, validation[0])
        return Split(X, y, X_held, _codes_of(labels_of(validation[1]), classes, X_held.shape[0]), classes)
    if isinstance(validation, float | int) and not isinstance(validation, bool):
        held = draw(codes, validation, estimator.random_state)
    else:
        held = read_index(validation, len(y))
    _refuse_lost_classes(classes, codes[~held])
    fitted, scored = np.flatnonzero(~held), np.flatnonzero(held)
    return Split(take(X, _narrow(fitted)), y[fitted], take(X, _narrow(scored)), codes[scored], classes)


def is_pair(validation: Any) -> bool:
    """Return whether rows of their own are given, features and labels."""
    if not (isinstance(validation, tuple) and len(validation) == 2):
        return False
    return len(getattr(validation[0], "shape", ()) or np.shape(validation[0])) == 2


def draw(codes: Array, share: float, random_state: Any) -> Array:
    """Return a mask of that share of the rows of each class; a row of each stays.

    Rows are put in order by class, at random within each, and every (1/share)-th is taken: classes of any size have
    their share, on average.

    Examples
    --------
    >>> held = draw(np.repeat([0, 1], [80, 20]), 0.1, 0)
    >>> held[:80].sum(), held[80:].sum()
    (np.int64(8), np.int64(2))
    """
    if not 0 < share < 1:
        raise ValueError(f"validation must be a share between 0 and 1, rows, or (X, y), got {share!r}")
    random, rows = check_random_state(random_state), len(codes)
    order = np.lexsort((random.uniform(size=rows), codes))
    ends = np.floor((np.arange(rows + 1) + random.uniform()) * share)
    held = np.zeros(rows, dtype=bool)
    held[order] = np.diff(ends) > 0
    first = order[np.flatnonzero(np.diff(codes[order], prepend=-1))]  # a row of each class, any
    held[first[np.bincount(codes, held) == np.bincount(codes)]] = False
    return held if held.any() else _one_row(codes, order)


def _one_row(codes: Array, order: Array) -> Array:
    """Return a mask of one row of the largest class, where a share is less than one."""
    sizes = np.bincount(codes)
    if sizes.max() < 2:
        raise ValueError("validation needs a class with two rows, one to fit and one to score; pass X_val and y_val")
    held = np.zeros(len(codes), dtype=bool)
    held[order[codes[order] == sizes.argmax()][0]] = True
    return held


def read_index(validation: Any, rows: int) -> Array:
    """Return a mask of the rows that an index names: numbers, a mask or a slice."""
    held = np.zeros(rows, dtype=bool)
    index = validation if isinstance(validation, slice) else labels_of(validation)
    usable = isinstance(index, slice) or (index.ndim == 1 and index.dtype.kind in "iub")
    try:
        if usable:
            held[index] = True
    except IndexError as problem:
        raise ValueError(f"validation must name rows of X, of which there are {rows}: {problem}") from None
    if not usable or not held.any():
        raise ValueError(f"validation must be a share between 0 and 1, rows, or (X, y), got {validation!r:.80}")
    return held


def _narrow(rows: Array) -> Array | slice:
    """Return rows as a slice, which is no copy, if they are one."""
    whole = len(rows) and rows[-1] - rows[0] == len(rows) - 1
    return slice(int(rows[0]), int(rows[-1]) + 1) if whole else rows


def _codes_of(labels: Array, classes: Array, rows: int) -> Array:
    if labels.shape != (rows,):
        raise ValueError(f"y_val must have one label for each row of X_val ({rows}), got shape {labels.shape}")
    if not rows:
        raise ValueError("X_val must have rows to score, got none")
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise ValueError(f"y_val holds classes that y lacks: {unknown.tolist()[:5]}; there is nothing to learn of them")
    return np.searchsorted(classes, labels)


def _refuse_lost_classes(classes: Array, left: Array) -> None:
    lost = classes[np.bincount(left, minlength=len(classes)) == 0]
    if len(lost):
        raise ValueError(f"validation takes all rows of classes {lost.tolist()[:5]}; leave one of each to fit")
