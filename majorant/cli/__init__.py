"""The command line: ``majorant fit``, ``predict``, ``evaluate`` and so on; one file for each command."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from majorant.core.checks import missing, needed


def main() -> None:
    """Run the application."""
    try:
        for module in ("rich", "typer"):
            needed(module, "the command line", "cli")
        if find_spec("pyarrow") is None:  # which help does not load
            raise ImportError(missing("the command line", "cli"))
    except ImportError as problem:
        sys.stderr.write(f"majorant: error: {problem}\n")
        sys.exit(1)
    from majorant.cli.app import build

    build()()
