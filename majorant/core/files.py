"""Files that appear whole or not at all, and objects of this package as JSON and arrays.

An encoded object is a tree of numbers, strings, tuples, lists, dicts, arrays, and instances of classes of this package
by the names of their attributes. Nothing runs when it is read: it is rebuilt from the modules in ``MODULES`` and from
no others, without a call of anything that the classes define; attributes are put where they were. An array that stands
in two places is written once, and is one array again: a state knows its point by that. Arrays of the data are not
written (``LEFT_OUT`` of a class); the reader of such an object has to give them back. What is on a device is written as
arrays (tensors), or as the object that ``as_written`` of its class returns.
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

# --- files that are replaced --------------------------------------------------------------------------------

# Errors of a disk without room; Python does not say of which file.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; it takes its place once the block has ended well, and goes otherwise.

    The path is a new one: no file is in its way, and of two writers the last one to finish wins. A path that is no
    regular file (a pipe, a device) is yielded itself. A crash leaves the old file or the new one, and none empty.

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
    try:
        if target.exists() and not target.is_file():  # a pipe or a device is written to, never replaced
            yield target
            return
        temporary = _new_file_beside(target)
        try:
            yield temporary
            with open(temporary, "r+b") as file:
                os.fsync(file.fileno())  # the contents are on the disk before the name is
            if target.exists():
                shutil.copymode(target, temporary)
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        with suppress(OSError):  # folders cannot be flushed everywhere
            folder = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError as problem:
        if problem.errno in NO_ROOM:
            problem.filename = str(path)
        raise


def _new_file_beside(target: Path) -> Path:
    """Return an empty file beside another, under a new name that ends alike: some writers look at the ending."""
    while True:
        # Of a long name only the beginning: file systems take 255 bytes.
        temporary = target.with_name(f"{target.stem[:40]}.{secrets.token_hex(4)}.part{target.suffix}")
        try:
            with open(temporary, "xb"):
                return temporary
        except FileExistsError:
            continue
        except OSError as problem:
            problem.filename = str(target)
            raise


def remove_leftovers(path: str | Path) -> None:
    """Remove temporary files that writers of a file left beside it when they were killed; no writer may be at work."""
    target = Path(path).resolve()
    ours = re.compile(rf"{re.escape(target.stem)}\.[0-9a-f]{{8}}\.part{re.escape(target.suffix)}")
    with suppress(OSError):
        for file in target.parent.iterdir():
            if ours.fullmatch(file.name):
                file.unlink(missing_ok=True)


# --- objects as JSON and arrays -----------------------------------------------------------------------------

MODULES = frozenset(
    {
        "majorant.chain.dense",
        "majorant.chain.dual",
        "majorant.chain.kernels.dual",
        "majorant.core.affine",
        "majorant.core.ascent",
        "majorant.core.bound",
        "majorant.core.certificates",
        "majorant.core.curvature",
        "majorant.core.dual",
        "majorant.core.line_search",
        "majorant.core.policy",
        "majorant.core.preconditioners",
        "majorant.core.proximal",
        "majorant.core.proximal_newton",
        "majorant.core.proximal_quasi_newton",
        "majorant.core.quasi_newton",
        "majorant.core.result",
        "majorant.core.small",
        "majorant.core.solver",
        "majorant.core.stochastic",
        "majorant.core.structured",
        "majorant.linear.multinomial",
        "majorant.linear.stream",
    }
)
# Classes other than dataclasses and named tuples, whose attributes are all that they are.
PLAIN = ("AscentInBlocks", "ChainAscent", "Cuts", "Growing", "SharedAscent")
# Methods that stand for what they are bound to: curvatures as functions of a ridge.
METHODS = ("factorized", "nearly_factorized", "steadied")


class OtherVersionError(ValueError):
    """An object of a class that has other attributes by now: another version of this package wrote it."""


def encode(value: Any) -> tuple[Any, list[Array]]:
    """Return a value as JSON and a list of arrays.

    Examples
    --------
    >>> tree, arrays = encode({"name": ("x", 1.5), "numbers": np.arange(3)})
    >>> decode(tree, arrays)
    {'name': ('x', 1.5), 'numbers': array([0, 1, 2])}
    """
    arrays: list[Array] = []
    places: dict[int, int] = {}  # of arrays, by id

    def tree(value: Any) -> Any:
        if type(value).__module__ == "torch":
            value = np.asarray(value.cpu())
        if isinstance(value, np.generic):
            value = value if value.dtype == np.float32 else value.item()
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject:
                raise TypeError("arrays of objects are not written to files")
            if id(value) not in places:
                places[id(value)] = len(arrays)
                arrays.append(value)  # which keeps it, and so its id
            return ["array", places[id(value)]]
        if isinstance(value, np.float32):
            return ["single", float(value)]
        if isinstance(value, dict):
            return ["dict", [[tree(key), tree(item)] for key, item in value.items()]]
        if type(value) in (tuple, list):
            return [type(value).__name__, list(map(tree, value))]
        if isinstance(value, MethodType):
            return ["method", _known_method(value.__name__), tree(value.__self__)]
        if hasattr(value, "as_written"):
            return tree(value.as_written())
        kind = type(value)
        if not _is_known(kind):
            raise TypeError(f"a {kind.__module__}.{kind.__qualname__} cannot be written to a file")
        name = f"{kind.__module__}:{kind.__qualname__}"
        if isinstance(value, tuple):
            return ["named", name, list(map(tree, value))]
        left_out = getattr(value, "LEFT_OUT", ())
        attributes = [field.name for field in fields(value)] if is_dataclass(value) else list(vars(value))
        return ["object", name, {each: tree(getattr(value, each)) for each in attributes if each not in left_out}]

    return tree(value), arrays


def decode(tree: Any, arrays: Sequence[Array]) -> Any:
    """Return the value of a tree; raise ValueError if it is none that this package would have written."""

    def value(tree: Any) -> Any:
        match tree:
            case ["array", place]:
                return arrays[place]
            case ["single", number]:
                return np.float32(number)
            case ["dict", items]:
                return {value(key): value(item) for key, item in items}
            case ["list", items]:
                return list(map(value, items))
            case ["tuple", items]:
                return tuple(map(value, items))
            case ["method", name, owner]:
                return getattr(value(owner), _known_method(name))
            case ["named", name, items]:
                kind: Any = _class_of(name)
                if not issubclass(kind, tuple) or len(items) != len(kind._fields):
                    raise OtherVersionError(f"it holds what this version does not write: another {name}")
                return tuple.__new__(kind, map(value, items))
            case ["object", name, attributes]:
                kind = _class_of(name)
                if is_dataclass(kind):
                    expected = {field.name for field in fields(kind)} - set(getattr(kind, "LEFT_OUT", ()))
                    if attributes.keys() != expected:
                        raise OtherVersionError(f"it holds what this version does not write: another {name}")
                rebuilt = object.__new__(kind)
                vars(rebuilt).update({each: value(part) for each, part in attributes.items()})
                return rebuilt
            case list():
                raise ValueError(f"{tree[:1]} is not among what is read from files")
        return tree

    try:
        return value(tree)
    except OtherVersionError:
        raise
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as problem:
        raise ValueError(f"it holds what this version does not write: {problem}") from None


def _class_of(name: str) -> type:
    """Return the class of a name, if it is one that is written."""
    module, _, qualified = name.partition(":")
    kind = vars(import_module(module)).get(qualified) if module in MODULES else None
    if not isinstance(kind, type) or not _is_known(kind):
        raise ValueError(f"{name} is not among what is read from files")
    return kind


def _is_known(kind: type) -> bool:
    """Return whether instances of a class are written: their attributes are all that they are."""
    readable = is_dataclass(kind) or issubclass(kind, tuple) or kind.__name__ in PLAIN
    return kind.__module__ in MODULES and readable


def _known_method(name: str) -> str:
    if name not in METHODS:
        raise ValueError(f"a method {name} is not among what is read from files")
    return name
