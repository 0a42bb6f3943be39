"""How many hidden states each class has, as people say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from majorant._checks import Array, whole


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
    """Refuse more states than a class has rows: one of them would have none of its own. A weight of 2 is two rows."""
    rows = np.bincount(labels, minlength=len(classes))
    by_weight = rows if weight is None else np.bincount(labels, weights=weight, minlength=len(classes))
    for count, label, found in zip(states, classes.tolist(), np.maximum(rows, by_weight), strict=True):
        if count > max(found, 1):
            raise ValueError(
                f"n_latent asks for {count} states of class {label!r}, of which there are only {found:g} rows; "
                "give this class fewer states: n_latent may be a dict of classes"
            )
