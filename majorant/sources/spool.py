"""A copy of what was read on the local disk, as arrays: far quicker to read again than a file is to decode."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from threading import Lock
from typing import IO, Any

import numpy as np

from majorant._buffers import Spare
from majorant._checks import Array

# The share of the free disk that it may take.
SHARE = 0.25
# It is given up before that if so little would be left.
LEAST_LEFT = 2**28


@dataclass(frozen=True)
class Place:
    """Where an array stands in the file."""

    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """How many it takes."""
        return prod(self.shape) * self.dtype.itemsize

    def part(self, some: slice) -> Place:
        """Return where some of its entries along the first axis stand."""
        each = prod(self.shape[1:])
        return Place(
            self.offset + some.start * each * self.dtype.itemsize, self.dtype, (some.stop - some.start, *self.shape[1:])
        )


class Spool:
    """Chunks in a temporary file without a name, which vanishes with whoever made it, even if that is killed.

    A chunk is some arrays, of which any may be None. Where the disk has no room to spare nothing is kept, and all is
    read from where it came.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = tempfile.TemporaryFile(prefix="majorant-")  # noqa: SIM115
        self.room = SHARE * shutil.disk_usage(tempfile.gettempdir()).free - LEAST_LEFT
        self._chunks: list[tuple[Place | None, ...]] = []
        self._end, self._lock = 0, Lock()
        # Chunks come and go pass after pass: fresh memory for each would be left in pieces that nobody can use.
        self._spare = Spare()

    def __len__(self) -> int:
        return len(self._chunks)

    @property
    def is_open(self) -> bool:
        """Whether all chunks so far are here."""
        return self._file is not None

    def add(self, arrays: Sequence[Array | None]) -> None:
        """Write a chunk, or give up."""
        if self._file is None:
            return
        if self._end + sum(each.nbytes for each in arrays if each is not None) > self.room:
            self.close()
            return
        try:
            self._chunks.append(tuple([None if each is None else self._write(each) for each in arrays]))
        except OSError:  # no room after all
            self.close()

    def replace(self, number: int, arrays: Sequence[Array]) -> None:
        """Write arrays of the same shapes in the place of a chunk; if that fails, give up."""
        try:
            for place, array in zip(self._chunks[number], arrays, strict=True):
                assert place is not None
                self._put(array, place.offset)
        except OSError:
            self.close()

    def __getitem__(self, number: int) -> list[Any]:
        """Return the arrays of a chunk."""
        return [None if place is None else self._read(place) for place in self._chunks[number]]

    def part(self, number: int, array: int, some: slice) -> Array:
        """Return some entries of an array of a chunk, along its first axis; nothing else is read."""
        place = self._chunks[number][array]
        assert place is not None
        return self._read(place.part(some))

    def close(self) -> None:
        """Give the disk back."""
        if self._file is not None:
            self._file.close()
        self._file, self._chunks = None, []
        self._spare.close()

    def __del__(self) -> None:
        self.close()

    def _write(self, array: Array) -> Place:
        place = Place(self._end, array.dtype, array.shape)
        self._put(array, self._end)
        self._end += array.nbytes
        return place

    def _put(self, array: Array, offset: int) -> None:
        assert self._file is not None
        with self._lock:
            self._file.seek(offset)
            self._file.write(_bytes_of(np.ascontiguousarray(array)))

    def _read(self, place: Place) -> Array:
        assert self._file is not None
        array = self._memory(place.bytes).view(place.dtype).reshape(place.shape)
        with self._lock:
            self._file.seek(place.offset)
            self._file.readinto(_bytes_of(array))  # type: ignore[attr-defined]
        return array

    def _memory(self, size: int) -> Array:
        """Return so many bytes, of one of a few sizes: whatever has been used once can be used again."""
        return self._spare.empty((1 << (size - 1).bit_length(),), np.uint8)[:size] if size else np.empty(0, np.uint8)


def _bytes_of(array: Array) -> Any:
    """Return the memory of an array."""
    return array.reshape(-1).view(np.uint8).data
