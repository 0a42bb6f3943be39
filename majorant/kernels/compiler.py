"""How kernels are compiled: by Numba, once for all processes where there is a place to keep what was compiled.

No other module says how. Numba compares a kernel that it kept with that kernel's own file: one that calls into another
file is not compiled anew when only the other file changes, so whoever edits kernels clears ``__pycache__``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba


def compile_strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function to run without Python's lock, sums in the order written, with Python's errors."""
    return _compile(function)


def compile_sums(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function whose sums may be reordered, so that they vectorise; dividing by zero is no error.

    NaN and infinities keep their meaning.
    """
    return _compile(function, error_model="numpy", fastmath={"reassoc", "contract"})


def _compile(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return numba.njit(cache=_can_keep(), nogil=True, **options)(function)


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
