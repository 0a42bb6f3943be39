"""The command line: ``majorant fit``, ``predict``, ``evaluate`` and so on; one file for each command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the application."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:
        sys.stderr.write("majorant: error: the command line needs two more packages: pip install 'majorant[cli]'\n")
        sys.exit(1)
    from majorant.cli.app import build

    build()()
