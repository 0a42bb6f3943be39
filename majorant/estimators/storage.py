"""Models as files: arrays and JSON in a NumPy archive, nothing that runs when it is read.

A file may hold *parts* besides the model, for those who ask for them: where a fit has come to, or a stream. They are
objects of this package, written as ``majorant._codec`` does it.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Callable, Mapping
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from majorant._atomic import replacing
from majorant._checks import Array
from majorant._codec import decode, encode
from majorant._solution import Outcome, Result

FORMAT = "majorant model"
VERSION = 1
PART_VERSION = 1
# Settings that may be objects, which no file holds: they are then left to their defaults.
OBJECTS = ("random_state", "cv", "scoring", "validation", "metric")
# Settings that are functions.
FUNCTIONS = ("callbacks", "callback")
# Settings that may be dicts, which are written as pairs.
PAIRS = ("class_weight", "n_latent")
# What is known of the error of a linear classifier, of a fit that was not a stream.
ERRORS = ("coef_error", "intercept_error")
# Between the name of a part and what it consists of.
BETWEEN = "."
# What archives raise that are damaged, wherever that is.
BROKEN = (
    OSError,
    ValueError,
    KeyError,
    EOFError,
    TypeError,
    MemoryError,
    OverflowError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)


def write(
    path: str | Path,
    kind: str,
    settings: dict[str, Any],
    arrays: dict[str, Array],
    parts: Mapping[str, Any] | None = None,
) -> None:
    """Write a model, and parts by their names; the file appears whole or not at all."""
    if not isinstance(path, str | PathLike):
        raise TypeError(f"path must be the name of a file, got {path!r:.80}; pickle writes to open files")
    trees = {}
    for name, part in (parts or {}).items():
        trees[name], of_part = encode(part)
        arrays = arrays | {f"{name}{BETWEEN}{number}": each for number, each in enumerate(of_part)}
    versions = dict.fromkeys(trees, PART_VERSION)
    header = _as_json({"format": FORMAT, "version": VERSION, "kind": kind, "settings": settings, "parts": versions})
    arrays = arrays | {f"{name}{BETWEEN}tree": _packed_text(_as_json(tree)) for name, tree in trees.items()}
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, header=np.array(header), allow_pickle=False, **arrays)


def read(path: str | Path, kind: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return settings and arrays of a model of that kind; parts are left alone."""
    header, arrays = _open(path, lambda name: BETWEEN not in name)
    _check_kind(path, header, kind)
    return header["settings"], arrays


def read_part(path: str | Path, kind: str, name: str) -> Callable[[], Any] | None:
    """Return what rebuilds a part of the file of a model of that kind, None if it has no such part."""
    header, arrays = _open(path, lambda each: each.startswith(f"{name}{BETWEEN}"))
    _check_kind(path, header, kind)
    version = header.get("parts", {}).get(name)
    if version is None:
        return None
    if version > PART_VERSION:
        raise ValueError(f"{path} holds a {name} of format {version}; this version reads up to format {PART_VERSION}")

    def rebuild() -> Any:
        try:
            tree = json.loads(arrays[f"{name}{BETWEEN}tree"].tobytes())
            return decode(tree, [arrays[f"{name}{BETWEEN}{number}"] for number in range(len(arrays) - 1)])
        except (KeyError, RecursionError, ValueError) as problem:
            raise ValueError(f"the {name} in {path} cannot be read ({problem})") from None

    return rebuild


def kind_of(path: str | Path) -> str:
    """Return the name of the estimator that a file holds."""
    return str(_open(path, lambda name: False)[0]["kind"])


def _check_kind(path: str | Path, header: dict[str, Any], kind: str) -> None:
    if header["version"] > VERSION or header["kind"] != kind:
        raise ValueError(
            f"{path} holds a {header['kind']} of format {header['version']}; this is {kind}, format {VERSION}"
        )


def _open(path: str | Path, wanted: Callable[[str], bool]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the header and those arrays that are wanted."""
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file), np.load(file, allow_pickle=False) as archive:
            header = json.loads(str(archive["header"]))
            arrays = {name: archive[name] for name in archive.files if name != "header" and wanted(name)}
    except FileNotFoundError:
        raise
    except BROKEN as problem:
        raise ValueError(f"{path} is not a saved majorant model, or is incomplete ({problem})") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"{path} is a NumPy archive, but not a saved majorant model")
    return header, arrays


def _packed_text(text: str) -> Array:
    return np.frombuffer(text.encode(errors="surrogatepass"), dtype=np.uint8)


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
    return {"settings": settings_of(model), "notes": notes, **ending(model.n_iter_, model.result_)}


def settings_of(model: Any) -> dict[str, Any]:
    """Return the settings of an estimator as JSON can hold them."""
    given = {name: value for name, value in model.get_params(deep=False).items() if name not in FUNCTIONS}
    left_out = [name for name in OBJECTS if not isinstance(given.get(name), Real | str | None)]
    return {name: None if name in left_out else storable(value) for name, value in given.items()}


def arrays_of(model: Any) -> dict[str, Array]:
    """Return the arrays of a linear classifier."""
    coef = model.coef_.toarray() if sparse.issparse(model.coef_) else model.coef_
    arrays = {"coef": coef, "intercept": model.intercept_, "classes": plain(model.classes_)}
    if hasattr(model, "feature_names_in_"):
        arrays["feature_names"] = plain(model.feature_names_in_)
    return arrays | {name: getattr(model, f"{name}_") for name in ERRORS if hasattr(model, f"{name}_")}


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


def names_of(names: list[str]) -> Array:
    """Return names of columns as scikit-learn keeps them."""
    return np.array(names, dtype=object)


def settings_from(facts: dict[str, Any]) -> dict[str, Any]:
    """Return settings as an estimator takes them."""
    settings = dict(facts["settings"])
    for name in PAIRS:
        value = settings.get(name)
        if isinstance(value, list) and all(isinstance(each, list) for each in value):
            settings[name] = dict(value)
    return settings


def precision(name: str) -> np.dtype[Any]:
    """Return the precision of data by its name."""
    if name not in ("<f4", "<f8", ">f4", ">f8"):
        raise TypeError(f"data are in single or in double precision, got {name!r:.80}")
    return np.dtype(name)


def restore(model: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Give a linear classifier what was learnt."""
    model.coef_, model.intercept_, model.classes_ = arrays["coef"], arrays["intercept"], arrays["classes"]
    model.n_features_in_ = model.coef_.shape[1]
    model.n_iter_, model.result_, model.notes_ = facts["n_iter"], result_of(facts), facts.get("notes")
    model.gap_ = model.result_.gap
    for name in ERRORS:
        if name in arrays:
            setattr(model, f"{name}_", arrays[name])
    if "feature_names" in arrays:
        model.feature_names_in_ = arrays["feature_names"].astype(object)


def plain(values: Array) -> Array:
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
