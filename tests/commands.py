"""The command line, run in the process of the tests or in one of its own, and the files it is run on."""

import csv
import inspect
import re
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from majorant.cli.app import build

# Before click 8.2 a runner mixed what was said on standard error into standard output, unless told not to.
APART = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner.__init__).parameters else {}

# What a terminal is told, and frames: none of it where output is piped.
CONTROL = re.compile(r"[\x1b┃│╭┏]")


def invoke(*arguments, **options):
    """Run a command; return what it said, where, and how it ended."""
    return CliRunner(**APART).invoke(build(), list(map(str, arguments)), **options)


def call(*arguments, code=0, stdin=None):
    """Run a command in this process; return its standard output, or its error where it should fail."""
    result = invoke(*arguments, input=stdin)
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    if code == 0:
        return result.stdout
    assert result.stdout == ""
    assert re.fullmatch(r"majorant: error: [^\n]+\n", result.stderr), result.stderr
    return result.stderr


def warned(*arguments):
    """Run a command; return what it says on standard error, a warning a line."""
    result = invoke(*arguments)
    assert result.exit_code == 0, (result.stdout, result.stderr, result.exception)
    assert all(line.startswith("majorant: warning: ") for line in result.stderr.splitlines())
    return result.stderr


def shell(*arguments, code=0, **options):
    """Run a command as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "majorant", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )
    assert done.returncode == code, done.stderr
    return done


SEVERAL = """
import sys
from majorant.cli import main

for arguments in map(str.split, sys.argv[1:]):
    sys.argv = ["majorant", *arguments]
    try:
        main()
    except SystemExit as end:
        sys.stderr.write(f"exit {end.code or 0}\\n")
"""


def shell_of_several(*commands, redirect=""):
    """Run commands one after another in one process; return its output, and the code and the complaint of each."""
    call = ["sh", "-c", f'exec "$@" {redirect}', "sh", sys.executable, "-c", SEVERAL, *commands]
    done = subprocess.run(call, capture_output=True, text=True, timeout=120)
    *said, rest = re.split(r"exit (\d)\n", done.stderr)
    assert (rest, len(said)) == ("", 2 * len(commands)), done.stderr
    return done.stdout, list(zip(map(int, said[1::2]), said[::2], strict=True))


def flowers(rows=120, seed=0):
    """Return columns of a small problem with numbers, a category, a weight and labels that are text."""
    rng = np.random.default_rng(seed)
    length, width = rng.normal(5, 2, rows).round(3), rng.normal(0, 1, rows).round(3)
    colour = rng.choice(["red", "white", "blue, dark"], rows)
    score = length - 5 + 2 * width + 2 * (colour == "red") + rng.normal(0, 1, rows)
    kind = np.select([score > 2, score > 0], ["rose", "lily"], "daisy")
    return {
        "id": [f"f{i}" for i in range(rows)],
        "length": length.tolist(),
        "colour": colour.tolist(),
        "width": width.tolist(),
        "weight": rng.integers(1, 4, rows).tolist(),
        "kind": kind.tolist(),
    }


def write(path, columns, delimiter=","):
    if path.suffix == ".parquet":
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet

        pyarrow.parquet.write_table(pa.table(columns), path)
        return path
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def write_svmlight(path):
    columns = flowers()
    rows = zip(columns["length"], columns["width"], columns["kind"], strict=True)
    path.write_text("".join(f"{len(kind)} 1:{a} 3:{b}\n" for a, b, kind in rows))
    return path
