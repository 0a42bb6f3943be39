"""Names of attributes and their numbers, and how they wait in little memory while nobody asks for any."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count, islice, repeat
from threading import Lock
from typing import Any

# Python writes numbers without a sign to arrays twice as fast as those with one.
UNKNOWN = 2**32 - 1
# Fewer names take next to no memory.
FEW = 10_000
# Stands between names that wait.
BETWEEN = "\0"


class Vocabulary:
    """Attributes and their numbers, in the order in which they were met."""

    def __init__(self, names: Iterable[str] = (), columns: int | None = None) -> None:
        self.columns = columns  # of the matrices that were met, if any were
        self._found: defaultdict[str, int] = defaultdict()
        self._found.default_factory = self._found.__len__
        self._texts = _TextsByName(self._found)
        self._packed: bytes | None = None  # all names, while the dict is empty
        self._lock = Lock()
        for name in names:
            self._found[name]

    @property
    def _numbers(self) -> defaultdict[str, int]:
        if self._packed is not None:
            self._unpack()
        return self._found

    def __len__(self) -> int:
        packed = self._packed
        return len(self._found) if packed is None else packed.count(BETWEEN.encode()) + 1

    def pack(self) -> None:
        """Let many names wait in a fifth of the memory until one is asked for: a fit has no use for them."""
        if len(self._numbers) < FEW:
            return
        text = BETWEEN.join(self._found)
        if text.count(BETWEEN) == len(self._found) - 1:  # no name holds what stands between names
            self._packed = text.encode(errors="surrogatepass")
            self._found.clear()
            self._texts.clear()
            if gc.isenabled():
                gc.collect()  # empty tuples, which Python keeps to use again, stand all over where names stood

    def _unpack(self) -> None:
        with self._lock:  # threads that tag may all be the first to ask
            if self._packed is not None:
                self._found.update(zip(_names_in(self._packed), count(), strict=False))
                self._packed = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Vocabulary, (self.names(), self.columns)  # the dict refers to itself

    def names(self) -> list[str]:
        """Return the attributes, each at its number."""
        packed = self._packed
        return list(self._found) if packed is None else _names_in(packed)

    def names_from(self, number: int) -> list[str]:
        """Return the attributes from that number on, without a look at those before."""
        return list(islice(reversed(self._numbers), len(self) - number))[::-1]

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Forget what is met in the block if it fails."""
        known, columns = len(self), self.columns
        try:
            yield
        except BaseException:
            self.columns = columns
            while len(self) > known:
                self._numbers.popitem()
            raise

    def check_columns(self, columns: int, grow: bool) -> None:
        """Refuse a matrix whose width is not that of those before, whose columns are called 0, 1, ….

        A vocabulary from a file knows names alone: so many of these as follow each other.
        """
        known = self.columns or next(number for number in count() if str(number) not in self._numbers) or None
        if known is None and not grow:
            raise ValueError(f"a matrix with {columns} columns, but the model was fitted to attributes that have names")
        if known not in (None, columns):
            raise ValueError(
                f"a matrix with {columns} columns, but {'those before it have' if grow else 'the model was fitted to'} "
                f"{known}"
            )
        self.columns = columns

    def numbers(self, names: Iterable[str], grow: bool) -> Iterator[int]:
        """Return the number of each name; new names get one if the vocabulary may grow."""
        return map(self._numbers.__getitem__, names) if grow else map(self._numbers.get, names, repeat(UNKNOWN))

    def numbers_of_items(self, tokens: Iterable[dict[str, Any]], grow: bool) -> list[int]:
        """Return the number of each item of dicts of strings and numbers: of ``name:text``, or of ``name``."""
        if grow:
            known = self._numbers
            return [known[f"{name}:{v}"] if type(v) is str else known[name] for t in tokens for name, v in t.items()]
        texts, get = self._texts, self._numbers.get
        return [texts[name][v] if type(v) is str else get(name, UNKNOWN) for t in tokens for name, v in t.items()]


class _TextsByName(dict[str, "_Texts"]):
    """The numbers of attributes ``name:text`` by name, then text: tagging need not write them side by side again."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self._numbers = numbers

    def __missing__(self, name: str) -> _Texts:
        if type(name) is not str:  # 1 and 1.0 are one key, but not one name
            raise TypeError(f"attributes must be strings, got {name!r}")
        self[name] = texts = _Texts(name, self._numbers)
        return texts


class _Texts(dict[str, int]):
    """The numbers of ``name:text`` of one name. Only those that are known are kept, so there are never more of them."""

    def __init__(self, name: str, numbers: dict[str, int]) -> None:
        self._name, self._numbers = name, numbers

    def __missing__(self, text: str) -> int:
        number = self._numbers.get(f"{self._name}:{text}", UNKNOWN)
        if number != UNKNOWN:
            self[text] = number
        return number


def _names_in(packed: bytes) -> list[str]:
    return packed.decode(errors="surrogatepass").split(BETWEEN)
