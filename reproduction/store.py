"""Result files: a JSON file for each experiment, and in it a line for each finished computation.

An entry is named after a hash of its settings. With each entry the file is written anew, whole or not at all: an
interrupted run loses nothing that was finished. The entry ``plan`` names the entries of the latest run, which figures
and report read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from majorant.core.files import replacing
from majorant.plotting import versions

PLAN = "plan"
DIGITS = 7
LATER = 100  # entries that are kept beyond the passes that are compared


class Kept(NamedTuple):
    """An entry: its name, its contents, and whether it was in the file before."""

    name: str
    contents: dict[str, Any]
    reused: bool


def digest(settings: Mapping[str, Any]) -> str:
    """Return ten hexadecimal digits that change with any setting."""
    canonical = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:10]


def file_of(out: Path, experiment: str) -> Path:
    """Return the path of the results of an experiment."""
    return out / "results" / f"{experiment}.json"


def files(out: Path) -> list[Path]:
    """Return the files of all experiments, without the temporary files of writers that were killed."""
    return [path for path in sorted((out / "results").glob("*.json")) if ".part" not in path.suffixes]


def remember(path: Path, name: str, settings: Mapping[str, Any], compute: Callable[[], Mapping[str, Any]]) -> Kept:
    """Return the entry with these settings; ``compute`` is called for its contents if the file has none."""
    name = f"{name}-{digest(settings)}"
    contents = read(path).get(name)
    if contents is not None:
        return Kept(name, contents, True)
    return Kept(name, put(path, name, {"settings": settings, "versions": versions(), **compute()}), False)


def put(path: Path, name: str, contents: Mapping[str, Any]) -> dict[str, Any]:
    """Add an entry to a file, or replace it; return the contents as they are read back.

    The file is read again first: entries that another process has added in the meantime stay.
    """
    entry: dict[str, Any] = json.loads(_line(contents))
    write(path, {**read(path), name: entry})
    return entry


def write(path: Path, entries: Mapping[str, Any]) -> None:
    """Write a JSON object, whole or not at all, with a line for each entry, so that a diff shows the changed ones."""
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
    """Return the entries of a file by name; none if there is no file."""
    entries: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return entries


def thin(trace: Mapping[str, Any], columns: tuple[str, ...], dense_until: float) -> dict[str, list[float]]:
    """Return the named columns of a trace, as far as it has them, with seven digits.

    Beyond ``dense_until`` passes a hundred entries are kept, ever further apart, and the last.
    """
    entries = len(trace["passes"])
    beyond = int(np.searchsorted(trace["passes"], dense_until + 1e-6))
    sparse = np.geomspace(max(beyond, 1), max(entries - 1, 1), LATER).round().astype(int)
    kept = np.unique([*range(beyond), *sparse[sparse < entries], entries - 1]).astype(int)
    return {name: [float(f"{v:.{DIGITS}g}") for v in trace[name][kept]] for name in columns if name in trace}
