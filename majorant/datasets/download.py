"""Where the file of a data set is: the folder MAJORANT_DATA, the cache of the user, or the publisher.

All places share one layout, for example ``mnist/t10k-images-idx3-ubyte.gz``. What is downloaded is checked against a
pinned sha256 and kept in the cache, written whole or not at all.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from majorant.callbacks import Line
from majorant.core.files import replacing

# Called with the name of a file, the bytes received and the bytes expected (0 if the publisher does not say).
Progress: TypeAlias = Callable[[str, int, int], None]


class MissingDataError(FileNotFoundError):
    """A data set is not on this machine and cannot be downloaded; the message says what to put where."""


@dataclass(frozen=True)
class DataFile:
    """A file of a data set.

    Parameters
    ----------
    path : str
        Its place in the layout.
    url : str
        The publisher's copy; empty if there is none of this form.
    sha256 : str
        Of the contents, unpacked if the publisher's copy is gzipped.
    origin : str
        For a file that was converted, where it comes from.
    """

    path: str
    url: str = ""
    sha256: str = ""
    origin: str = ""


def cache_folder() -> Path:
    """Return the cache of this user."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "majorant"


def find(file: DataFile) -> Path | None:
    """Return the path of a file in the folder MAJORANT_DATA or in the cache; None if it is in neither."""
    named = os.environ.get("MAJORANT_DATA")
    folders = [*([Path(named)] if named else []), cache_folder()]
    return next((folder / file.path for folder in folders if (folder / file.path).exists()), None)


def fetch(file: DataFile, progress: Progress | None = None) -> Path:
    """Return the path of a file; download it, check it and write it to the cache if it is not on this machine."""
    found = find(file)
    if found is not None:
        return found
    cache = cache_folder()
    shown = Path("~") / cache.relative_to(Path.home()) if cache.is_relative_to(Path.home()) else cache
    remedy = f"put it at {file.path} in the folder that MAJORANT_DATA names, or in {shown}"
    if not file.url:
        raise MissingDataError(f"{file.path} is missing: {remedy}; {file.origin}")
    path, received = cache / file.path, bytearray()
    try:
        with urllib.request.urlopen(file.url, timeout=30.0) as response:
            expected = int(response.headers.get("Content-Length") or 0)
            while part := response.read(2**16):
                received += part
                (progress or progress_line)(path.name, len(received), expected)
    except (urllib.error.URLError, OSError) as problem:
        reason = getattr(problem, "reason", problem)
        unreachable = f"{file.path} is missing and {file.url} cannot be reached ({reason})"
        raise MissingDataError(f"{unreachable}: {remedy}") from None
    packed = received[:2] == b"\x1f\x8b"
    checksum = hashlib.sha256(gzip.decompress(received) if packed else received).hexdigest()
    if checksum != file.sha256:
        raise ValueError(
            f"{file.url} is not the file it was: its sha256 is {checksum}, expected {file.sha256}; nothing was kept. "
            f"If you trust another copy, {remedy}"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_bytes(gzip.compress(received) if path.suffix == ".gz" and not packed else received)
    return path


def progress_line(name: str, received: int, expected: int) -> None:
    """Rewrite a line on the terminal; write nothing where standard error is no terminal."""
    line = Line(every=0.0)
    if not line.is_terminal:
        return
    share = f" of {expected / 1e6:.1f}" if expected else ""
    text = f"downloading {name}: {received / 1e6:.1f}{share} MB"
    if received == expected:
        line.finish(text)
    else:
        line.write(lambda now: text)
