"""Models as files: arrays and JSON in a NumPy archive, nothing that runs when it is read."""

from __future__ import annotations

import json
import zipfile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from majorant._atomic import replacing
from majorant._checks import Array
from majorant._solution import Outcome, Result

FORMAT = "majorant model"
VERSION = 1
# Settings that may be objects, which no file holds: they are then left to their defaults.
OBJECTS = ("random_state", "cv", "scoring")


def write(path: str | Path, kind: str, settings: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Write a model; the file appears whole or not at all."""
    if not isinstance(path, str | PathLike):
        raise TypeError(f"path must be the name of a file, got {path!r:.80}; pickle writes to open files")
    header = _as_json({"format": FORMAT, "version": VERSION, "kind": kind, "settings": settings})
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, header=np.array(header), allow_pickle=False, **arrays)


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
    is_array = isinstance(value, list | tuple) or hasattr(value, "__array__")
    return np.asarray(value).tolist() if is_array else value


def ending(n_iter: Any, result: Result) -> dict[str, Any]:
    """Return how a fit ended, as JSON can hold it."""
    return {
        "n_iter": int(np.max(n_iter)),
        "gap": float(result.gap),
        "outcome": result.outcome.value,
        "message": result.message,
    }


def result_of(extra: dict[str, Any]) -> Result:
    """Return how a fit ended."""
    return Result(Outcome(extra["outcome"]), extra["message"], extra["gap"])


def facts_of(model: Any, notes: dict[str, Any] | None) -> dict[str, Any]:
    """Return what JSON can hold of an estimator."""
    _refuse_unspeakable(notes)
    given = {name: value for name, value in model.get_params(deep=False).items() if name != "callbacks"}
    left_out = [name for name in OBJECTS if not isinstance(given.get(name), int | np.integer | str | None)]
    settings = {name: None if name in left_out else storable(value) for name, value in given.items()}
    return {"settings": settings, "notes": notes, **ending(model.n_iter_, model.result_)}


def arrays_of(model: Any) -> dict[str, Array]:
    """Return the arrays of a linear classifier."""
    coef = model.coef_.toarray() if sparse.issparse(model.coef_) else model.coef_
    arrays = {"coef": coef, "intercept": model.intercept_, "classes": _plain(model.classes_)}
    if hasattr(model, "feature_names_in_"):
        arrays["feature_names"] = _plain(model.feature_names_in_)
    return arrays


def packed(names: list[str]) -> dict[str, Array]:
    """Return names of any length as arrays; surrogates, which files may hold, included."""
    each = [name.encode(errors="surrogatepass") for name in names]
    lengths = np.array([len(name) for name in each], dtype=np.int64)
    return {"names": np.frombuffer(b"".join(each), dtype=np.uint8), "name_lengths": lengths}


def unpacked(arrays: dict[str, Array]) -> list[str]:
    """Return the names that :func:`packed` made arrays of."""
    text, ends = arrays["names"].tobytes(), np.cumsum(arrays["name_lengths"])
    starts = ends - arrays["name_lengths"]
    return [text[i:j].decode(errors="surrogatepass") for i, j in zip(starts, ends, strict=True)]


def settings_from(facts: dict[str, Any]) -> dict[str, Any]:
    """Return settings as an estimator takes them."""
    settings = dict(facts["settings"])
    if isinstance(settings.get("class_weight"), list):
        settings["class_weight"] = dict(settings["class_weight"])
    return settings


def restore(model: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Give a linear classifier what was learnt."""
    model.coef_, model.intercept_, model.classes_ = arrays["coef"], arrays["intercept"], arrays["classes"]
    model.n_features_in_ = model.coef_.shape[1]
    model.n_iter_, model.result_, model.notes_ = facts["n_iter"], result_of(facts), facts.get("notes")
    model.gap_ = model.result_.gap
    if "feature_names" in arrays:
        model.feature_names_in_ = arrays["feature_names"].astype(object)


def _plain(values: Array) -> Array:
    """Return labels or names as an array that needs no pickle."""
    if values.dtype != object:
        return values
    plain = np.array(values.tolist())
    if plain.dtype == object or len({isinstance(value, str) for value in values}) > 1:
        raise ValueError(f"only classes that are all numbers or all strings can be saved, got {values!r}")
    return plain


def _as_json(header: dict[str, Any]) -> str:
    try:
        return json.dumps(header)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"only settings that JSON can hold can be saved: {problem}") from None


def _refuse_unspeakable(notes: Any) -> None:
    try:
        json.dumps(notes)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"notes must be what JSON can hold: {problem}") from None
