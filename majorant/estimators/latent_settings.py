"""How many hidden states each class has, and what is added to its scores, as people say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from majorant._checks import Array, whole
from majorant.estimators.settings import read_offset


def read_states(n_latent: Any, classes: Array) -> tuple[int, ...]:
    """Return how many states each class has: one number for all, one each, or a dict of those that have more than one.

    Examples
    --------
    >>> read_states({"b": 3}, np.array(["a", "b"]))
    (1, 3)
    """
    if isinstance(n_latent, Mapping):
        unknown = [label for label in n_latent if label not in classes.tolist()]
        if unknown:
            raise ValueError(f"n_latent names classes that y does not hold: {unknown}")
        return tuple(_count(n_latent.get(label, 1), label) for label in classes.tolist())
    if np.ndim(n_latent) == 0:
        return (_count(n_latent),) * len(classes)
    counts = np.asarray(n_latent)
    if counts.shape != (len(classes),):
        raise ValueError(f"n_latent must have one number for each of {len(classes)} classes, got {n_latent!r:.80}")
    return tuple(_count(count, label) for count, label in zip(counts.tolist(), classes.tolist(), strict=True))


def _count(value: Any, label: Any = None) -> int:
    return whole("n_latent" if label is None else f"n_latent of class {label!r}", value, least=1)


def check_enough_rows(states: tuple[int, ...], classes: Array, labels: Array, weight: Array | None) -> None:
    """Refuse more states than a class has rows: one of them would have none of its own. A weight of 2 is two rows.

    A class without rows, as a bootstrap may leave it, is no likelier for its states.
    """
    rows = np.bincount(labels, minlength=len(classes))
    by_weight = rows if weight is None else np.bincount(labels, weights=weight, minlength=len(classes))
    for count, label, found in zip(states, classes.tolist(), np.maximum(rows, by_weight), strict=True):
        if count > max(found, 1) and found > 0:
            raise ValueError(
                f"n_latent asks for {count} states of class {label!r}, of which there are only {found:g} rows; "
                "give this class fewer states: n_latent may be a dict of classes"
            )


def read_class_offset(offset: Any, rows: int, classes: int) -> Array | None:
    """Return an offset with a column for each class: of two it is given for the second alone. −inf rules a class out.

    Examples
    --------
    >>> read_class_offset([0.5, 1.5], rows=2, classes=2).tolist()
    [[0.0, 0.5], [0.0, 1.5]]
    """
    given = read_offset(offset, rows, classes)
    if given is None:
        return None
    if given.dtype.kind not in "buif":
        raise ValueError(f"offset must be numeric, got dtype {given.dtype}")
    bad = np.isnan(given) | np.isposinf(given)
    if bad.any():
        raise ValueError(
            f"offset must hold numbers, or −inf for what cannot be, got {given[bad][0]} ({bad.sum()} such)"
        )
    return np.column_stack([np.zeros(rows), given]) if given.ndim == 1 else given
