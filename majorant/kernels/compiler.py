"""How kernels are compiled: by Numba, once for all processes where there is a place to keep what was compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba


def compiler(**options: Any) -> Callable[..., Any]:
    """Return a decorator that compiles a function to run without Python's lock."""
    return numba.njit(cache=_can_keep(), nogil=True, **options)


@cache
def _can_keep() -> bool:
    """Return whether Numba finds a folder to write to; it refuses to compile for its cache where it finds none."""
    try:
        numba.njit(cache=True)(_nothing)
    except RuntimeError:
        return False
    return True


def _nothing() -> None:
    """Stand for the functions of this package: Numba looks beside their file first."""
