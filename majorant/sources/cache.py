"""Reading sooner and reading less: a thread that reads ahead, and a copy of chunks on the local disk."""

from __future__ import annotations

import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import prod
from threading import Lock
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np

from majorant.core.checks import Array
from majorant.core.threads import Spare

T = TypeVar("T")

# The share of the free disk that a copy may take.
SHARE = 0.25


def prefetch(iterate: Callable[[], Iterator[T]], ahead: int = 2) -> Iterator[T]:
    """Yield the items of the iterator that a function returns; a thread of its own reads a few of them ahead.

    Its errors are passed on. When the consumer stops before the end, the thread stops as well.
    """
    reader = ThreadPoolExecutor(1, "majorant reader")
    end: Any = object()
    try:
        items = reader.submit(iterate).result()
        ready = deque(reader.submit(next, items, end) for _ in range(ahead))
        while (item := ready.popleft().result()) is not end:
            ready.append(reader.submit(next, items, end))
            yield item
            del item  # its memory is free while the next one is read
    finally:
        reader.shutdown(wait=False, cancel_futures=True)


class Place(NamedTuple):
    """The place of an array in the file."""

    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class ChunkCache:
    """Chunks as arrays in a temporary file, which are far quicker to read again than a file is to decode.

    A chunk is a sequence of arrays, of which any may be None. The file has no name, so that it vanishes with the
    process even if that is killed. Where the disk has no room to spare the cache is closed, and chunks have to be read
    from where they came.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = tempfile.TemporaryFile(prefix="majorant-")  # noqa: SIM115
        self.room = SHARE * shutil.disk_usage(tempfile.gettempdir()).free
        self._chunks: list[tuple[Place | None, ...]] = []
        self._end, self._lock = 0, Lock()
        # Chunks come and go in every pass: fresh memory for each would leave gaps that nothing fits into.
        self._memory = Spare()

    def __len__(self) -> int:
        return len(self._chunks)

    @property
    def is_open(self) -> bool:
        """Whether all chunks that were added are in the file."""
        return self._file is not None

    def add(self, arrays: Sequence[Array | None]) -> None:
        """Write a chunk, or close the cache if there is no room for it."""
        if self._file is None:
            return
        places, end = [], self._end
        for array in arrays:
            places.append(None if array is None else Place(end, array.dtype, array.shape))
            end += 0 if array is None else array.nbytes
        if end > self.room:
            self.close()
            return
        self._chunks.append(tuple(places))
        self._end = end
        self.replace(len(self._chunks) - 1, arrays)

    def replace(self, number: int, arrays: Sequence[Array | None]) -> None:
        """Write arrays of the same shapes in the place of a chunk; close the cache if that fails."""
        try:
            for place, array in zip(self._chunks[number], arrays, strict=True):
                if place is not None and array is not None:
                    self._write(np.ascontiguousarray(array), place.offset)
        except OSError:  # the disk is full after all
            self.close()

    def __getitem__(self, number: int) -> list[Any]:
        """Return the arrays of a chunk."""
        return [None if place is None else self._read(place) for place in self._chunks[number]]

    def part(self, number: int, array: int, rows: slice) -> Array:
        """Return entries of an array of a chunk, along its first axis; nothing else is read."""
        place = self._chunks[number][array]
        assert place is not None
        width, shape = prod(place.shape[1:]) * place.dtype.itemsize, (rows.stop - rows.start, *place.shape[1:])
        return self._read(Place(place.offset + rows.start * width, place.dtype, shape))

    def close(self) -> None:
        """Give the disk back."""
        if self._file is not None:
            self._file.close()
        self._file, self._chunks = None, []
        self._memory.close()

    def __del__(self) -> None:
        self.close()

    def _write(self, array: Array, offset: int) -> None:
        assert self._file is not None
        with self._lock:
            self._file.seek(offset)
            self._file.write(array.reshape(-1).view(np.uint8).data)

    def _read(self, place: Place) -> Array:
        assert self._file is not None
        size = prod(place.shape) * place.dtype.itemsize
        # Memory comes in powers of two: what one chunk has used then fits most others.
        memory = self._memory.empty((1 << (size - 1).bit_length(),), np.uint8)[:size] if size else np.empty(0, np.uint8)
        with self._lock:
            self._file.seek(place.offset)
            self._file.readinto(memory.data)  # type: ignore[attr-defined]
        return memory.view(place.dtype).reshape(place.shape)
