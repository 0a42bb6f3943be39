"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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
