"""NumPy archives that anybody may have written: every array is looked at before it is read.

A model says what its arrays are (a :class:`Field` for each). Their headers are compared with that, and with each other,
while nothing but headers has been read; then the arrays are read, and their values looked at. What is not asked for is
never read.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.lib import format as npy

from majorant._checks import Array

# Kinds of what names classes or people: numbers, strings, bytes, dates.
LABELS = "biufUSMm"
# Arrays of a file take at most this many times its size, which compressed ones might; of a small file, so many bytes.
MOST_TIMES, SMALL = 100, 2**24
ENDING = ".npy"
# Bytes of an entry of the directory of an archive, at least.
ENTRY = 46

# The length of an axis: a number, a name (all axes of one name are equally long), or what follows from the named ones.
Length: TypeAlias = int | str | Callable[[dict[str, int]], int]


class Header(NamedTuple):
    """The shape of an array, and what it holds."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def are_finite(values: Array) -> str:
    """Return what is wrong with numbers that have to be finite, nothing if they are."""
    return "" if np.isfinite(values).all() else "holds numbers that are not finite"


def are_counts(values: Array) -> str:
    """Return what is wrong with counts, or with bounds that may be unknown."""
    return "holds negative numbers" if (values < 0).any() else ""


def are_positive(values: Array) -> str:
    """Return what is wrong with numbers that have to be positive."""
    return "" if (values > 0).all() else "holds numbers that are not positive"


def are_rising(values: Array) -> str:
    """Return what is wrong with what has to be distinct and in order."""
    return "" if (values[1:] > values[:-1]).all() else "holds duplicates, or is not in rising order"


def are_any(values: Array) -> str:
    """Return nothing: whatever they are is right."""
    return ""


class Field(NamedTuple):
    """What an array of a model must be: its kinds of values, as NumPy abbreviates them, its shape, and the values."""

    kinds: str
    shape: tuple[Length, ...]
    values: Callable[[Array], str] = are_finite
    needed: bool = True


def check_headers(fields: Mapping[str, Field], found: Mapping[str, Header]) -> None:
    """Raise unless the arrays that there are have the kinds and shapes that fields ask for."""
    lengths: dict[str, int] = {}
    for name, field in fields.items():
        if name not in found:
            if field.needed:
                raise ValueError(f"the array {name!r} is missing")
            continue
        shape, dtype = found[name]
        # Labels may be of any kind; numbers that are computed with are in single or in double precision.
        if dtype.kind not in field.kinds or (field.kinds != LABELS and dtype.char in "eg"):
            raise ValueError(f"the array {name!r} holds values of the kind {dtype!s:.40}, which it cannot")
        if len(shape) != len(field.shape):
            raise ValueError(f"the array {name!r} must have {len(field.shape)} dimensions, got the shape {shape!s:.80}")
        asked = tuple(_asked(each, have, lengths) for each, have in zip(field.shape, shape, strict=True))
        if asked != shape:
            raise ValueError(
                f"the array {name!r} has the shape {shape!s:.80}, where the other arrays ask for {asked!s:.80}"
            )


def _asked(length: Length, have: int, lengths: dict[str, int]) -> int:
    if isinstance(length, str):
        return lengths.setdefault(length, have)
    return length if isinstance(length, int) else length(lengths)


def check_values(fields: Mapping[str, Field], arrays: Mapping[str, Array]) -> None:
    """Raise unless the values of arrays are what fields ask for."""
    for name, array in arrays.items():
        wrong = fields[name].values(array)
        if wrong:
            raise ValueError(f"the array {name!r} {wrong}")


def check_arrays(fields: Mapping[str, Field], arrays: Mapping[str, Array]) -> None:
    """Raise unless arrays that are in memory are what fields ask for."""
    check_headers(fields, {name: Header(array.shape, array.dtype) for name, array in arrays.items()})
    check_values(fields, arrays)


class Archive:
    """The arrays of an open archive by their names."""

    def __init__(self, file: zipfile.ZipFile, size: int) -> None:
        self._file, self._most = file, max(MOST_TIMES * size, SMALL)
        members = file.infolist()
        self._members = {each.filename.removesuffix(ENDING): each for each in members}
        if len(self._members) < len(members):
            raise ValueError("it holds two arrays of one name")
        for each in members:
            if each.comment or len(each.extra) >= ENTRY:  # which may be members that are not seen
                raise ValueError("its directory is damaged")
            file.open(each).close()  # which compares the name here with that in front of the member

    def names(self) -> list[str]:
        """Return the names of all arrays."""
        return list(self._members)

    def headers(self, names: Iterable[str]) -> dict[str, Header]:
        """Return the headers of those arrays that there are; together they may not be far larger than the file."""
        with readable():
            found = {name: self._header(name) for name in names if name in self._members}
        if sum(math.prod(shape) * dtype.itemsize for shape, dtype in found.values()) > self._most:
            raise ValueError(f"its arrays would take more than {MOST_TIMES} times the size of the file")
        return found

    def read(self, names: Iterable[str]) -> dict[str, Array]:
        """Return arrays, whose headers have been looked at."""
        found = {}
        for name in names:
            with readable(), self._file.open(self._members[name]) as member:
                array = npy.read_array(member, allow_pickle=False)
            found[name] = array.astype(array.dtype.newbyteorder("="), copy=False)
        return found

    def _header(self, name: str) -> Header:
        with self._file.open(self._members[name]) as member:
            version = npy.read_magic(member)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, _, dtype = read(member)
            begin = member.tell()
        if dtype.hasobject or not dtype.itemsize or min(shape, default=0) < 0:
            raise ValueError(f"the array {name!r} holds values of the kind {dtype!s:.40}")
        if self._members[name].file_size != begin + math.prod(shape) * dtype.itemsize:
            raise ValueError(f"the array {name!r} is not as long as it says")
        return Header(shape, dtype)


@contextmanager
def opened(path: str | Path) -> Iterator[Archive]:
    """Open an archive for reading."""
    with ExitStack() as stack:
        with readable():
            archive = Archive(stack.enter_context(zipfile.ZipFile(path)), os.path.getsize(path))
        yield archive


@contextmanager
def readable(what: str = "saved majorant model") -> Iterator[None]:
    """Say of whatever a damaged file makes others raise that it is not what it should be."""
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as problem:  # zipfile, zlib, struct, NumPy and JSON have some of their own each
        said = " ".join(str(problem).split()) or type(problem).__name__
        raise ValueError(f"it is not a {what}, or is incomplete ({said:.200})") from None
