"""Files that appear whole or not at all.

Objects of this package as JSON and arrays, and back: nothing runs when they are read.

What is written is a tree of numbers, strings, tuples, lists, dicts, arrays, and instances of classes of this package by
the names of their attributes. What is read back is rebuilt from the modules named below and from no others, without a
call of anything that the classes define: attributes are put where they were. An array that stands in two places is
written once, and is one array again: a state knows its point by that. Arrays that are of the data are not written
(``LEFT_OUT`` of a class); whoever reads such an object has to give them back. What is on a device is written as what it
is here (``as_written`` of a class, tensors as arrays).
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from types import MethodType
from typing import Any

import numpy as np

from majorant.core.checks import Array

# What a disk without room says; Python does not say of which file.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Of the name of a file, so that what is added to it does not make it too long.
KEPT_OF_NAME = 40


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; it takes its place once the block has ended well, and goes otherwise.

    The path is one that nobody had before: no file is in its way, and of two writers the last one to finish wins. What
    is no regular file (a pipe, a device) is yielded itself.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "answer.txt"
    >>> with replacing(target) as temporary:
    ...     _ = temporary.write_text("42")
    >>> target.read_text()
    '42'
    """
    target = Path(path).resolve()  # a link stays one
    with _named(path):
        if target.exists() and not target.is_file():  # a pipe or a device is written to, never replaced
            yield target
            return
        temporary = _reserve(target)
        try:
            yield temporary
            _flush(temporary)
            if target.exists():
                shutil.copymode(target, temporary)
            os.replace(temporary, target)
            _flush_folder(target.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _flush(temporary: Path) -> None:
    """Bring the contents to the disk before the name: a crash then leaves the old file or the new one, none empty."""
    with open(temporary, "r+b") as file:
        os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    """Bring the name to the disk as well, where folders can be flushed: a crash would else bring the old file back."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_leftovers(path: str | Path) -> None:
    """Remove what writers of a file have left beside it who were killed; there must be none at work."""
    target = Path(path).resolve()
    ours = re.compile(rf"{re.escape(target.stem)}\.[0-9a-f]{{8}}\.part{re.escape(target.suffix)}")
    with suppress(OSError):
        for beside in target.parent.iterdir():
            if ours.fullmatch(beside.name):
                beside.unlink(missing_ok=True)


def _reserve(target: Path) -> Path:
    """Make an empty file beside another, under a new name that ends alike: some writers look at the ending."""
    while True:
        unique = f"{target.stem[:KEPT_OF_NAME]}.{secrets.token_hex(4)}.part{target.suffix}"
        temporary = target.with_name(unique)
        try:
            with open(temporary, "xb"):
                return temporary
        except FileExistsError:
            continue
        except OSError as problem:
            problem.filename = str(target)
            raise


@contextmanager
def _named(path: str | Path) -> Iterator[None]:
    """Let a lack of room be told of the file that was to be written."""
    try:
        yield
    except OSError as problem:
        if problem.errno in NO_ROOM:
            problem.filename = str(path)
        raise


MODULES = frozenset(
    {
        "majorant.chain.dual",
        "majorant.chain.kernels.dual",
        "majorant.core.affine",
        "majorant.core.ascent",
        "majorant.core.bound",
        "majorant.core.curvature",
        "majorant.core.descent",
        "majorant.core.dual",
        "majorant.core.line_search",
        "majorant.core.online",
        "majorant.core.policy",
        "majorant.core.preconditioners",
        "majorant.core.proximal",
        "majorant.core.quasi_newton",
        "majorant.core.result",
        "majorant.core.separation",
        "majorant.core.solver",
        "majorant.core.starts",
        "majorant.core.stochastic",
        "majorant.core.structured",
        "majorant.linear.multinomial",
        "majorant.linear.stream",
    }
)
# Classes other than dataclasses and named tuples, whose attributes are all that they are.
PLAIN = ("AscentInBlocks", "ChainAscent", "Cuts", "Growing")
# Methods that stand for what they are bound to: curvatures as functions of a ridge.
METHODS = ("factorized", "nearly_factorized", "steadied")


class OtherVersionError(ValueError):
    """An object of a class that has other attributes by now: another version of this package wrote it."""


def encode(value: Any) -> tuple[Any, list[Array]]:
    """Return what JSON can hold of a value, and its arrays.

    Examples
    --------
    >>> tree, arrays = encode({"name": ("x", 1.5), "numbers": np.arange(3)})
    >>> decode(tree, arrays)
    {'name': ('x', 1.5), 'numbers': array([0, 1, 2])}
    """
    encoder = Encoder()
    return encoder.tree(value), encoder.arrays


def decode(tree: Any, arrays: Sequence[Array]) -> Any:
    """Return the value; raise ValueError if there is none, or one that this package would not have written."""
    try:
        return Decoder(arrays).value(tree)
    except OtherVersionError:
        raise
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as problem:
        raise ValueError(f"it holds what this version does not write: {problem}") from None


class Encoder:
    """Gathers arrays while it goes through a value."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self._places: dict[int, int] = {}

    def tree(self, value: Any) -> Any:
        """Return what JSON can hold of a value."""
        if type(value).__module__ == "torch":
            value = np.asarray(value.cpu())
        if isinstance(value, np.generic):
            value = value if value.dtype == np.float32 else value.item()
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.ndarray):
            return ["array", self._place(value)]
        if isinstance(value, np.float32):
            return ["single", float(value)]
        if isinstance(value, dict):
            return ["dict", [[self.tree(key), self.tree(each)] for key, each in value.items()]]
        if type(value) in (tuple, list):
            return [type(value).__name__, [self.tree(each) for each in value]]
        return self._of_ours(value)

    def _of_ours(self, value: Any) -> Any:
        if isinstance(value, MethodType):
            return ["method", _known_method(value.__name__), self.tree(value.__self__)]
        if hasattr(value, "as_written"):
            return self.tree(value.as_written())
        name = _name_of(type(value))
        if isinstance(value, tuple):
            return ["named", name, [self.tree(each) for each in value]]
        left_out = getattr(value, "LEFT_OUT", ())
        known = [each.name for each in fields(value)] if is_dataclass(value) else list(vars(value))
        kept = (each for each in known if each not in left_out)
        return ["object", name, {each: self.tree(getattr(value, each)) for each in kept}]

    def _place(self, array: Array) -> int:
        if array.dtype.hasobject:
            raise TypeError("arrays of objects are not written to files")
        if id(array) not in self._places:
            self._places[id(array)] = len(self.arrays)
            self.arrays.append(array)  # which keeps it, and so its id
        return self._places[id(array)]


class Decoder:
    """Rebuilds values from trees."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        self._arrays = arrays

    def value(self, tree: Any) -> Any:
        """Return the value of a tree."""
        if not isinstance(tree, list):
            return tree
        kind, *rest = tree
        return getattr(self, f"_{kind}" if kind in KINDS else "unknown")(*rest)

    def _array(self, place: int) -> Array:
        return self._arrays[place]

    def _single(self, number: float) -> np.float32:
        return np.float32(number)

    def _dict(self, items: list[Any]) -> dict[Any, Any]:
        return {self.value(key): self.value(each) for key, each in items}

    def _list(self, items: list[Any]) -> list[Any]:
        return [self.value(each) for each in items]

    def _tuple(self, items: list[Any]) -> tuple[Any, ...]:
        return tuple(self._list(items))

    def _method(self, name: str, owner: Any) -> Any:
        return getattr(self.value(owner), _known_method(name))

    def _named(self, name: str, items: list[Any]) -> Any:
        found: Any = _class_of(name)
        if not issubclass(found, tuple) or len(items) != len(found._fields):
            raise OtherVersionError(f"it holds what this version does not write: another {name}")
        return tuple.__new__(found, self._tuple(items))

    def _object(self, name: str, attributes: dict[str, Any]) -> Any:
        found: Any = _class_of(name)
        if is_dataclass(found):
            expected = {each.name for each in fields(found)} - set(getattr(found, "LEFT_OUT", ()))
            if attributes.keys() != expected:
                raise OtherVersionError(f"it holds what this version does not write: another {name}")
        value = object.__new__(found)
        vars(value).update({each: self.value(tree) for each, tree in attributes.items()})
        return value


KINDS = ("array", "dict", "list", "method", "named", "object", "single", "tuple")


def _name_of(kind: type) -> str:
    """Return how a class is written, if it is one that would be read."""
    if not _is_ours(kind):
        raise TypeError(f"a {kind.__module__}.{kind.__qualname__} cannot be written to a file")
    return f"{kind.__module__}:{kind.__qualname__}"


def _class_of(name: str) -> type:
    module, _, qualified = name.partition(":")
    if module not in MODULES:
        raise ValueError(f"{name} is not among what is read from files")
    found = vars(import_module(module)).get(qualified)
    if not isinstance(found, type) or not _is_ours(found):
        raise ValueError(f"{name} is not among what is read from files")
    return found


def _is_ours(kind: type) -> bool:
    readable = is_dataclass(kind) or issubclass(kind, tuple) or kind.__name__ in PLAIN
    return kind.__module__ in MODULES and readable


def _known_method(name: str) -> str:
    if name not in METHODS:
        raise ValueError(f"a method {name} is not among what is read from files")
    return name
