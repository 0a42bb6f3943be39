"""Results are files first: one JSON file for each finished computation, named after a hash of its settings.

A file is written whole or not at all, so whatever interrupts a run loses only what was not finished. The plan of an
experiment (``plan.json``) names the files that belong to its latest run; figures and report read those.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from majorant._atomic import replacing

DIGITS = 7
LATER = 100  # entries kept of what comes after the comparison


def digest(settings: Mapping[str, Any]) -> str:
    """Return ten hexadecimal digits that change with any setting."""
    canonical = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:10]


def versions() -> dict[str, str]:
    """Return what the numbers may depend on."""
    return {
        "majorant": version("majorant"),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
    }


def remember(
    folder: Path, name: str, settings: Mapping[str, Any], compute: Callable[[], Mapping[str, Any]]
) -> tuple[Path, bool]:
    """Return the file that holds what ``compute`` gives for these settings, and whether it was there already."""
    path = folder / f"{name}-{digest(settings)}.json"
    if path.exists():
        return path, True
    write(path, {"settings": settings, "versions": versions(), **compute()})
    return path, False


def write(path: Path, contents: Mapping[str, Any]) -> None:
    """Write a JSON file, whole or not at all."""
    write_text(path, json.dumps(contents, default=str, separators=(",", ":"), allow_nan=False))


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read(path: Path) -> dict[str, Any]:
    """Read a JSON file."""
    contents: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return contents


def thin(trace: Mapping[str, Any], columns: tuple[str, ...], dense_until: float) -> dict[str, list[float]]:
    """Return the named columns, those there are, with seven digits.

    Beyond ``dense_until`` passes only a hundred entries are kept, the last among them, ever further apart.
    """
    entries = len(trace["passes"])
    beyond = int(np.searchsorted(trace["passes"], dense_until + 1e-6))
    sparse = np.geomspace(max(beyond, 1), max(entries - 1, 1), LATER).round().astype(int)
    kept = np.unique([*range(beyond), *sparse[sparse < entries], entries - 1]).astype(int)
    return {name: [float(f"{v:.{DIGITS}g}") for v in trace[name][kept]] for name in columns if name in trace}
