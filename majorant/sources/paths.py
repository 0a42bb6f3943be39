"""Which files somebody means."""

from __future__ import annotations

from collections.abc import Iterable
from glob import glob, has_magic
from pathlib import Path
from typing import Any


def found_files(path: Any, ending: str = "") -> list[Path]:
    """Return the files of a path, a folder, a pattern, or a list of those, in the order of their names."""
    if isinstance(path, str | Path):
        return _files_of(path, ending)
    if not isinstance(path, Iterable):
        raise TypeError(f"path must be a path, a pattern or a list of paths, got {path!r:.80}")
    found = [file for each in path for file in _files_of(each, ending)]
    if not found:
        raise FileNotFoundError("path must name at least one file, got an empty list")
    return found


def _files_of(path: str | Path, ending: str) -> list[Path]:
    target = Path(path)
    if target.is_dir():
        files = (each for each in target.rglob(f"*{ending}") if each.is_file())
        # Other writers leave marks beside their files.
        found = sorted(each for each in files if not each.name.startswith(("_", ".")))
        if not found:
            raise FileNotFoundError(f"{path} holds no {ending or 'readable'} files")
        return found
    if target.exists():
        return [target]
    found = sorted(Path(each) for each in glob(str(path), recursive=True)) if has_magic(str(path)) else []
    if not found:
        raise FileNotFoundError(f"no file is called, or matches, {path}")
    return found
