"""The command line, run in the process of the tests."""

import inspect

from typer.testing import CliRunner

from majorant.cli.app import build

# Before click 8.2 a runner mixed what was said on standard error into standard output, unless told not to.
APART = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner.__init__).parameters else {}


def invoke(*arguments, **options):
    """Run a command; return what it said, where, and how it ended."""
    return CliRunner(**APART).invoke(build(), list(map(str, arguments)), **options)
