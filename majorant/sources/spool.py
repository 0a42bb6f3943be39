"""A copy of rows on the local disk, as they are multiplied: far quicker to read again than a file is to decode."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from threading import Lock
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

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


class Spool:
    """Chunks of rows in a temporary file without a name, which vanishes with whoever made it, even if that is killed.

    Where the disk has no room to spare it keeps nothing, and rows are read from where they came.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = tempfile.TemporaryFile(prefix="majorant-")  # noqa: SIM115
        self._room = SHARE * shutil.disk_usage(tempfile.gettempdir()).free - LEAST_LEFT
        self._chunks: list[tuple[tuple[int, int], tuple[Place, ...]]] = []
        self._end, self._lock = 0, Lock()

    def __len__(self) -> int:
        return len(self._chunks)

    @property
    def is_open(self) -> bool:
        """Whether all chunks so far are here."""
        return self._file is not None

    def add(self, X: Any) -> None:
        """Write a chunk, or give up."""
        if self._file is None:
            return
        arrays = (X.data, X.indices, X.indptr) if sp.issparse(X) else (np.ascontiguousarray(X),)
        if self._end + sum(each.nbytes for each in arrays) > self._room:
            self.close()
            return
        try:
            self._chunks.append((X.shape, tuple([self._write(each) for each in arrays])))
        except OSError:  # no room after all
            self.close()

    def __getitem__(self, number: int) -> Array | sp.csr_array:
        """Return a chunk."""
        shape, places = self._chunks[number]
        arrays = [self._read(place) for place in places]
        if len(arrays) == 1:
            return arrays[0]
        data, indices, indptr = arrays
        rows = sp.csr_array((data, indices, indptr), shape=shape)
        rows.has_sorted_indices = rows.has_canonical_format = True  # as it was written
        return rows

    def close(self) -> None:
        """Give the disk back."""
        if self._file is not None:
            self._file.close()
        self._file, self._chunks = None, []

    def __del__(self) -> None:
        self.close()

    def _write(self, array: Array) -> Place:
        assert self._file is not None
        place = Place(self._end, array.dtype, array.shape)
        self._file.seek(self._end)
        self._file.write(_bytes_of(array))
        self._end += array.nbytes
        return place

    def _read(self, place: Place) -> Array:
        assert self._file is not None
        array = np.empty(place.shape, place.dtype)
        with self._lock:
            self._file.seek(place.offset)
            self._file.readinto(_bytes_of(array))  # type: ignore[attr-defined]
        return array


def _bytes_of(array: Array) -> Any:
    """Return the memory of an array."""
    return array.reshape(-1).view(np.uint8).data
