"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; it takes its place once the block has ended well, and goes otherwise.

    What is no regular file (a pipe, a device) is yielded itself.

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
    if target.exists() and not target.is_file():  # a pipe or a device is written to, never replaced
        yield target
        return
    temporary = target.with_name(f"{target.stem}.part{target.suffix}")  # some writers look at the ending
    try:
        yield temporary
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
