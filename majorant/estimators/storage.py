"""Models as files: arrays and JSON in a NumPy archive, nothing that runs when it is read."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from majorant._checks import Array
from majorant._solution import Outcome, Result
from majorant.files.atomic import replacing

FORMAT = "majorant model"
VERSION = 1


def write(path: str | Path, kind: str, settings: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Write a model; the file appears whole or not at all."""
    header = {"format": FORMAT, "version": VERSION, "kind": kind, "settings": settings}
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, header=np.array(json.dumps(header)), allow_pickle=False, **arrays)


def read(path: str | Path, kind: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return settings and arrays of a model of that kind."""
    header, arrays = _open(path)
    if header["version"] > VERSION or header["kind"] != kind:
        raise ValueError(
            f"{path} holds a {header['kind']} of format {header['version']}; this is {kind}, format {VERSION}"
        )
    return header["settings"], arrays


def kind_of(path: str | Path) -> str:
    """Return the name of the estimator that a file holds."""
    return str(_open(path)[0]["kind"])


def _open(path: str | Path) -> tuple[dict[str, Any], dict[str, Array]]:
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file), np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(str(arrays.pop("header")))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as problem:
        raise ValueError(f"{path} is not a saved majorant model, or is incomplete ({problem})") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"{path} is a NumPy archive, but not a saved majorant model")
    return header, arrays


def storable(value: Any) -> Any:
    """Return a setting as JSON can hold it; a dict as pairs, since its keys may be numbers."""
    if isinstance(value, dict):
        return [[storable(key), storable(each)] for key, each in value.items()]
    if isinstance(value, np.generic):
        return value.item()
    return np.asarray(value).tolist() if isinstance(value, np.ndarray | list | tuple) else value


def ending(n_iter: int, result: Result) -> dict[str, Any]:
    """Return how a fit ended, as JSON can hold it."""
    return {"n_iter": n_iter, "gap": float(result.gap), "outcome": result.outcome.value, "message": result.message}


def result_of(extra: dict[str, Any]) -> Result:
    """Return how a fit ended."""
    return Result(Outcome(extra["outcome"]), extra["message"], extra["gap"])
