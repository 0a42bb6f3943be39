"""Results are files first: one JSON file for each experiment, one line of it for each finished computation.

An entry is named after a hash of its settings. With each one the file is written anew, whole or not at all, so whatever
interrupts a run loses only what was not finished. The entry ``plan`` names those that belong to the latest run; figures
and report read them.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy

from majorant import __version__
from majorant._atomic import replacing

PLAN = "plan"
DIGITS = 7
LATER = 100  # entries kept of what comes after the comparison


class Kept(NamedTuple):
    """An entry: its name, what it says, and whether it was there already."""

    name: str
    contents: dict[str, Any]
    reused: bool


def digest(settings: Mapping[str, Any]) -> str:
    """Return ten hexadecimal digits that change with any setting."""
    canonical = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:10]


def versions() -> dict[str, str]:
    """Return what the numbers may depend on."""
    return {
        "majorant": __version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
    }


def file_of(out: Path, experiment: str) -> Path:
    """Return where the results of an experiment are kept."""
    return out / "results" / f"{experiment}.json"


def files(out: Path) -> list[Path]:
    """Return the files of all experiments; what a killed writer has left behind is none."""
    return [path for path in sorted((out / "results").glob("*.json")) if ".part" not in path.suffixes]


def remember(path: Path, name: str, settings: Mapping[str, Any], compute: Callable[[], Mapping[str, Any]]) -> Kept:
    """Return the entry that holds what ``compute`` gives for these settings; it is computed if it is not there."""
    name = f"{name}-{digest(settings)}"
    there = read(path).get(name)
    if there is not None:
        return Kept(name, there, True)
    return Kept(name, put(path, name, {"settings": settings, "versions": versions(), **compute()}), False)


def put(path: Path, name: str, contents: Mapping[str, Any]) -> dict[str, Any]:
    """Add an entry to a file, or replace it; return what a reader will find.

    The file is read again first: what another process has finished in the meantime stays.
    """
    entry: dict[str, Any] = json.loads(_line(contents))
    write(path, {**read(path), name: entry})
    return entry


def write(path: Path, entries: Mapping[str, Any]) -> None:
    """Write a JSON object, whole or not at all, with one line for each entry: what changed can be seen."""
    lines = (f"{json.dumps(name)}:{_line(contents)}" for name, contents in entries.items())
    write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")


def _line(contents: Any) -> str:
    return json.dumps(contents, default=str, separators=(",", ":"), allow_nan=False)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Return the entries of a file by name, none if it is not there yet."""
    entries: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return entries


def thin(trace: Mapping[str, Any], columns: tuple[str, ...], dense_until: float) -> dict[str, list[float]]:
    """Return the named columns, those there are, with seven digits.

    Beyond ``dense_until`` passes only a hundred entries are kept, the last among them, ever further apart.
    """
    entries = len(trace["passes"])
    beyond = int(np.searchsorted(trace["passes"], dense_until + 1e-6))
    sparse = np.geomspace(max(beyond, 1), max(entries - 1, 1), LATER).round().astype(int)
    kept = np.unique([*range(beyond), *sparse[sparse < entries], entries - 1]).astype(int)
    return {name: [float(f"{v:.{DIGITS}g}") for v in trace[name][kept]] for name in columns if name in trace}
