"""Cholesky factors and solves of LAPACK, while other threads run: SciPy's own calls of it make them wait."""

from __future__ import annotations

from ctypes import CFUNCTYPE, PYFUNCTYPE, byref, c_char, c_char_p, c_int, c_void_p, py_object, pythonapi
from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import cython_lapack

from majorant._checks import Array

LOWER = c_char(b"L")


def potrf(A: Array) -> int:
    """Overwrite the lower triangle of a matrix, stored by columns, with its factor; return what went wrong, or zero."""
    size, trouble = c_int(len(A)), c_int()
    _function("dpotrf")(byref(LOWER), byref(size), A.ctypes.data, byref(size), byref(trouble))
    return trouble.value


def potrs(L: Array, b: Array) -> Array:
    """Return the solution of LLᵀx = b, with L in a lower triangle; it is copied unless it is stored by columns."""
    L, x = np.asarray(L, np.float64, order="F"), np.array(b, np.float64, order="F")
    size, many, trouble = c_int(len(L)), c_int(x.size // len(L)), c_int()
    _function("dpotrs")(
        byref(LOWER), byref(size), byref(many), L.ctypes.data, byref(size), x.ctypes.data, byref(size), byref(trouble)
    )
    return x


@cache
def _function(name: str) -> Any:
    """Return a function of SciPy's LAPACK, which takes addresses."""
    capsule = cython_lapack.__pyx_capi__[name]
    signature = PYFUNCTYPE(c_char_p, py_object)(("PyCapsule_GetName", pythonapi))(capsule)
    address = PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", pythonapi))(capsule, signature)
    return CFUNCTYPE(None, *[c_void_p] * (1 + signature.count(b",")))(address)
