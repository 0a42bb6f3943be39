"""A line of a terminal that is rewritten in place."""

from __future__ import annotations

from typing import Any, TextIO

# Back to the start of the line, and nothing on it.
ERASE = "\r\x1b[2K"


class Line:
    """The last line of a terminal; rich, if it is installed, cuts what would wrap, for that cannot be rewritten.

    Parameters
    ----------
    stream : file
        A terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console = _rich_console(stream)

    def write(self, text: str) -> None:
        """Let the line say something else."""
        if self._console is None:
            self._stream.write(f"{ERASE}{text}")
        else:
            self._stream.write(ERASE)
            self._console.print(text, end="", no_wrap=True, overflow="ellipsis", markup=False)
        self._stream.flush()

    def finish(self, text: str = "") -> None:
        """Say the last, whole and with the end of the line; or leave nothing."""
        self._stream.write(f"{ERASE}{text}\n" if text else ERASE)
        self._stream.flush()


def _rich_console(stream: TextIO) -> Any:
    """Return a console of rich, or None if rich is not installed."""
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(file=stream)
