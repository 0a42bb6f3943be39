"""Where the file of a data set is: the folder MAJORANT_DATA, the cache of the user, or the publisher.

All places share one layout, for example ``mnist/t10k-images-idx3-ubyte.gz``. What is downloaded is checked against a
pinned sha256 and kept in the cache, written whole or not at all.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import sys
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

CHUNK = 2**16
TIMEOUT = 30.0


class MissingDataError(FileNotFoundError):
    """A data set is neither here nor to be had; the message says what to put where."""


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
    """Return the path of a file that is in the folder of the user's, or in the cache."""
    named = os.environ.get("MAJORANT_DATA")
    folders = [*([Path(named)] if named else []), cache_folder()]
    return next((folder / file.path for folder in folders if (folder / file.path).exists()), None)


def fetch(file: DataFile, progress: Progress | None = None) -> Path:
    """Return the path of a file; it is downloaded, checked and written to the cache unless it is here."""
    here = find(file)
    if here is not None:
        return here
    if not file.url:
        raise MissingDataError(f"{file.path} is missing: {_where_to_put(file)}; {file.origin}")
    name, parts, count = Path(file.path).name, [], 0
    try:
        with urllib.request.urlopen(file.url, timeout=TIMEOUT) as response:
            expected = int(response.headers.get("Content-Length") or 0)
            while part := response.read(CHUNK):
                parts.append(part)
                count += len(part)
                (progress or progress_line)(name, count, expected)
    except (urllib.error.URLError, OSError) as problem:
        reason = getattr(problem, "reason", problem)
        raise MissingDataError(
            f"{file.path} is missing and {file.url} cannot be reached ({reason}): {_where_to_put(file)}"
        ) from None

    received = b"".join(parts)
    packed = received[:2] == b"\x1f\x8b"
    found = hashlib.sha256(gzip.decompress(received) if packed else received).hexdigest()
    if found != file.sha256:
        raise ValueError(
            f"{file.url} is not the file it was: its sha256 is {found}, expected {file.sha256}; nothing was kept. "
            f"If you trust another copy, {_where_to_put(file)}"
        )

    path = cache_folder() / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    contents = gzip.compress(received) if path.suffix == ".gz" and not packed else received
    with replacing(path) as temporary:
        temporary.write_bytes(contents)
    return path


def progress_line(name: str, received: int, expected: int) -> None:
    """Rewrite a line on the terminal; say nothing elsewhere."""
    if not sys.stderr.isatty():
        return
    share = f" of {expected / 1e6:.1f}" if expected else ""
    text, line = f"downloading {name}: {received / 1e6:.1f}{share} MB", Line(sys.stderr)
    if received == expected:
        line.finish(text)
    else:
        line.write(text)


def _where_to_put(file: DataFile) -> str:
    cache = cache_folder()
    shown = Path("~") / cache.relative_to(Path.home()) if cache.is_relative_to(Path.home()) else cache
    return f"put it at {file.path} in the folder that MAJORANT_DATA names, or in {shown}"
