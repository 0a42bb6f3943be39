"""Reading arguments: every refusal names the argument, what it got and what to do.

Packages that only some need: whoever lacks one is told which extra of this package brings it.

Axes to draw on, in whatever way the user's matplotlib draws.

Docstrings of classes that say what their bases take as well: it is worded once, and read where people look.

Attributes that are found when they are first asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from inspect import cleandoc
from typing import Any, Generic, Self, TypeAlias, TypeVar, overload

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


def new_axes() -> Any:
    """Return the axes of a new figure; matplotlib, the extra ``majorant[plot]``, is imported by no one else before."""
    return needed("matplotlib.pyplot", "a plot", "plot").subplots(layout="constrained")[1]


SECTION = re.compile(r"^(Parameters\n-+\n)(.*?)(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
ENTRY = re.compile(r"^(?=\S)", re.MULTILINE)


def with_parameters_of(base: str | None, text: str | None) -> str | None:
    r"""Return a docstring whose Parameters are followed by those of another one that it does not list itself.

    Examples
    --------
    >>> base = "Base.\n\nParameters\n----------\na : int\n    Old.\nb : int\n    Another."
    >>> with_parameters_of(base, "Class.\n\nParameters\n----------\na : int\n    New.").splitlines()[4:]
    ['a : int', '    New.', 'b : int', '    Another.']
    """
    if base is None or text is None:  # as under python -OO
        return text
    text, theirs = cleandoc(text), SECTION.search(cleandoc(base))
    ours = SECTION.search(text)
    if ours is None or theirs is None:
        return text
    listed = {name for entry in _entries(ours[2]) for name in _names(entry)}
    more = [entry for entry in _entries(theirs[2]) if not listed & set(_names(entry))]
    return text[: ours.end()] + "".join(f"\n{entry}" for entry in more) + text[ours.end() :]


def _entries(section: str) -> list[str]:
    return [entry.rstrip() for entry in ENTRY.split(section) if entry]


def _names(entry: str) -> list[str]:
    return [name.strip() for name in entry.split("\n")[0].split(" : ")[0].split(",")]


T = TypeVar("T")


class lazy(Generic[T]):
    """An attribute that a method finds once, and that stays.

    Before Python 3.12 ``functools.cached_property`` lets one thread at a time find any of a class: fits that wait for
    each other (``majorant.core.remote``) would wait for ever.
    """

    def __init__(self, find: Callable[[Any], T]) -> None:
        self._find, self.__doc__ = find, find.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: Any, owner: type) -> Self | T:
        if instance is None:
            return self
        found = vars(instance)[self._name] = self._find(instance)
        return found
