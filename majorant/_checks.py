"""Reading arguments: every refusal names the argument, what it got and what to do."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[Any]


def finite_array(name: str, value: ArrayLike, *, ndim: int | tuple[int, ...], allow: str = "") -> Array:
    """Return ``value`` as a float array of ``ndim`` dimensions, refusing NaN and infinities.

    ``allow="-inf"`` lets minus infinity through (the logarithm of a zero measure).
    float32 stays float32; everything else becomes float64.
    """
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiubO":
            raise TypeError(f"got dtype {array.dtype}")
        if array.dtype != np.float32:
            array = array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"{name} must be numeric: {problem}") from None
    dims = (ndim,) if isinstance(ndim, int) else ndim
    if array.ndim not in dims:
        wanted = " or ".join(f"{n}-dimensional" for n in dims)
        raise ValueError(f"{name} must be {wanted}, got an array of shape {array.shape}")
    refuse_non_finite(name, array, allow=allow)
    return array


def refuse_non_finite(name: str, array: Array, *, allow: str = "") -> None:
    """Raise if ``array`` holds a NaN or an infinity that is not allowed."""
    if np.isfinite(np.sum(array, dtype=np.float64)):  # no temporary array in the usual case
        return
    bad = ~np.isfinite(array)
    if allow == "-inf":
        bad &= ~np.isneginf(array)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        place = f" at {where[0] if len(where) == 1 else where}" if where else ""
        count = f" ({int(bad.sum())} such values)" if bad.sum() > 1 else ""
        raise ValueError(f"{name} must be finite, got {array[where]}{place}{count}")


def row_weights(name: str, value: ArrayLike | None, rows: int) -> Array | None:
    """Return one non-negative weight per row, or None where every row weighs one."""
    if value is None:
        return None
    weight = finite_array(name, value, ndim=1).astype(np.float64, copy=False)
    if weight.shape != (rows,):
        raise ValueError(f"{name} must have one entry per row ({rows}), got {weight.shape[0]}")
    if (weight < 0).any():
        raise ValueError(f"{name} must be non-negative, got {float(np.min(weight)):g}; drop rows instead")
    if not weight.any():
        raise ValueError(f"{name} must not be zero everywhere: there is nothing to fit")
    return weight


def positive(name: str, value: float, *, below: float = np.inf) -> float:
    """Return ``value`` if it lies strictly between 0 and ``below``."""
    if not 0 < value < below:
        upper = "" if below == np.inf else f" and below {below:g}"
        raise ValueError(f"{name} must be above 0{upper}, got {value}")
    return float(value)


def whole(name: str, value: object, *, least: int) -> int:
    """Return ``value`` if it is a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)


def refuse_null_ending(name: str, labels: Any) -> None:
    """Raise if a string ends in a NUL character: arrays of strings drop it, and what is left may be another label."""
    if not isinstance(labels, list | tuple) and getattr(getattr(labels, "dtype", None), "kind", "") != "O":
        return
    for label in labels:
        if isinstance(label, str) and label.endswith("\0"):
            raise ValueError(f"{name} must not hold names that end in a NUL character, got {label!r}; rename it")


def one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    """Return ``value`` if it is a known name."""
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}")
    return value
