"""How kernels are compiled: by Numba, once for all processes where there is a place to keep what was compiled.

No other module says how. Numba compares a kernel that it kept with that kernel's own file: one that calls into another
file is not compiled anew when only the other file changes, so whoever edits kernels clears ``__pycache__``.

exp and log1p as arithmetic alone, compiled by Numba: loops over them are vectorised, which calls of libm are not.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np
from llvmlite.binding import add_symbol
from numba.core import event
from numba.core.caching import FunctionCache
from numba.core.runtime import _nrt_python  # type: ignore[attr-defined]

# Versions of Numba whose kept kernels are known to need nothing of what is left out here.
KNOWN_VERSIONS = ((0, 61), (0, 68))


def compile_strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that adds in the order written."""
    return _compile(function)


def compile_sums(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function whose sums may be reordered, so that they vectorise; NaN and infinities keep their meaning."""
    return _compile(function, fastmath={"reassoc", "contract"})


def compile_exact(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function whose rounding is part of what it does; products may be added without rounding them before."""
    return _compile(function, fastmath={"contract"})


def compile_in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile sums that may be reordered, in a function that makes no arrays: nobody counts who uses those it has."""
    # A sixth of the time it takes to compile is for that.
    return _compile(function, fastmath={"reassoc", "contract"}, _nrt=False)


def compile_part(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a part of functions that make no arrays. Python does not call it, so it is not kept by itself."""
    # What would make it callable from Python takes longer to compile than most functions.
    unwrapped: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}
    return numba.njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"}, **unwrapped)(function)


def compile_inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a part of functions be compiled as if it were written out where it is called."""
    # Short parts, or those of short functions: of ever longer ones, the time that it takes grows faster than they do.
    return numba.njit(inline="always")(function)


def _compile(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    # NumPy's errors: what divides by zero is found where results are seen not to be finite, as it is everywhere else.
    # Nobody calls kernels from C: what would let them takes a few hundredths of the time it takes to compile.
    options |= {"error_model": "numpy", "no_cfunc_wrapper": True}
    compiled = numba.njit(cache=_can_keep(), nogil=True, **options)(function)
    if _can_keep() and KNOWN_VERSIONS[0] <= numba.version_info.short <= KNOWN_VERSIONS[1]:
        compiled._cache = KeptAlone(function)  # type: ignore[no-untyped-call]
    return compiled


class KeptAlone(FunctionCache):
    """Kept kernels, taken up without what only compiling needs: 0.2 s and 40 MB of the first fit of a process.

    Numba loads all that it could compile, and compiles how references are counted, before it looks for a kept kernel.
    That refers to none of it but by the names of a few functions in C. What is not kept is compiled as ever, which
    loads what it needs itself.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return a kept kernel, None if there is none.

        Numba reads what was kept before it compares files, and fails where another version of this package had types
        that are gone. Such kernels are dropped.
        """
        _name_helpers()
        with self._guard_against_spurious_io_errors():
            try:
                return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]
            except (AttributeError, EOFError, ImportError, pickle.UnpicklingError):
                self.flush()  # type: ignore[no-untyped-call]
        return None


@cache
def _name_helpers() -> None:
    """Let kernels find the functions in C by which references are counted and arrays made, as Numba does."""
    for name, address in _nrt_python.c_helpers.items():
        add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


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


class WithoutCollection(event.Listener):
    """Nobody looks for garbage while a kernel of this package compiles: an eighth of the time was for that.

    Numba compiles one kernel at a time, and those that it calls within.
    """

    def __init__(self) -> None:
        self._depth, self._collects = 0, False

    def on_start(self, event: Any) -> None:
        """Stop collecting, if a kernel of this package asks for it."""
        if self._depth or _is_ours(event):
            self._collects = gc.isenabled() if self._depth == 0 else self._collects
            self._depth += 1
            gc.disable()

    def on_end(self, event: Any) -> None:
        """Go on as before."""
        self._depth = max(self._depth - 1, 0)
        if self._depth == 0 and self._collects:
            self._collects = False
            gc.enable()


def _is_ours(event: Any) -> bool:
    dispatcher = event.data.get("dispatcher") if isinstance(event.data, dict) else None
    function = getattr(dispatcher, "py_func", None)
    return str(getattr(function, "__module__", "")).startswith("majorant.")


event.register("numba:compile", WithoutCollection())  # type: ignore[no-untyped-call]


@compile_exact
def exp_of_negative(x: float) -> float:
    """Return exp(x) for x ≤ 0, to about one unit in the last place: 2^k exp(r), |r| ≤ ½ ln 2, by Taylor's series."""
    least = -708.0  # exp of less is taken for 0
    whole = 1.5 * 2.0**52  # added to a number below 2^51 it leaves the nearest whole number, in the last bits
    y = x if x > least else least
    shifted = y * 1.4426950408889634 + whole  # 1 / ln 2
    k = shifted - whole
    r = (y - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10  # ln 2 as two numbers: k ln 2 is exact
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    two_to_the_k = np.int64((np.float64(shifted).view(np.int64) + 1023) << 52).view(np.float64)
    if x > least:
        return p * two_to_the_k
    return 0.0 if x == x else x


@compile_exact
def log1p_to_one(e: float) -> float:
    """Return log(1 + e) for 0 ≤ e ≤ 1, to a few units in the last place: 2 artanh(e / (2 + e)), by Taylor's series."""
    s = e / (2.0 + e)
    q = s * s
    p = 1.0 / 33.0
    p = p * q + 1.0 / 31.0
    p = p * q + 1.0 / 29.0
    p = p * q + 1.0 / 27.0
    p = p * q + 1.0 / 25.0
    p = p * q + 1.0 / 23.0
    p = p * q + 1.0 / 21.0
    p = p * q + 1.0 / 19.0
    p = p * q + 1.0 / 17.0
    p = p * q + 1.0 / 15.0
    p = p * q + 1.0 / 13.0
    p = p * q + 1.0 / 11.0
    p = p * q + 1.0 / 9.0
    p = p * q + 1.0 / 7.0
    p = p * q + 1.0 / 5.0
    p = p * q + 1.0 / 3.0
    return 2.0 * (s + s * q * p)
