"""Models as files: arrays and JSON in a NumPy archive, nothing that runs when it is read.

A file may hold *parts* besides the model, for those who ask for them: where a fit has come to, or a stream. They are
objects of this package, written as ``majorant._codec`` does it.

Whatever is wrong with a file is a ValueError of one sentence. Here it says "it" of the file; whoever was given the name
of the file puts it in front (:func:`naming`).
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from majorant._atomic import replacing
from majorant._checks import Array, refuse_null_ending
from majorant._codec import OtherVersionError, decode, encode
from majorant._solution import Outcome, Result
from majorant.estimators.archive import (
    LABELS,
    Archive,
    Field,
    Length,
    are_any,
    are_counts,
    are_rising,
    check_headers,
    check_values,
    opened,
    readable,
)
from majorant.estimators.settings import read_feature_penalty

FORMAT = "majorant model"
VERSION = 1
PART_VERSION = 1
# Settings that may be objects, which no file holds: they are then left to their defaults.
OBJECTS = ("random_state", "cv", "scoring", "validation", "metric")
# Those of them whose default is not None, which is what is written in their place.
NEVER_NONE = ("validation", "metric")
# Settings that are functions.
FUNCTIONS = ("callbacks", "callback")
# Settings that may be dicts, which are written as pairs.
PAIRS = ("class_weight", "n_latent")
# What is known of the error of a linear classifier, of a fit that was not a stream.
ERRORS = ("coef_error", "intercept_error")
# How to do without a part.
WITHOUT = {
    "checkpoint": "the file is a model that load() reads, and fit without resume_from begins afresh",
    "stream": "load the model there, and save it with stream=False",
}
# Between the name of a part and what it consists of.
BETWEEN = "."


def coefficient_rows(lengths: dict[str, int]) -> int:
    """Return how many rows the coefficients of a linear classifier have: two classes share one."""
    if lengths["classes"] < 2:
        raise ValueError(f"a classifier has at least two classes, got {lengths['classes']}")
    return 1 if lengths["classes"] == 2 else lengths["classes"]


def linear_fields(rows: Length = coefficient_rows) -> dict[str, Field]:
    """Return the arrays of a linear classifier with so many rows of coefficients."""
    return {
        "classes": Field(LABELS, ("classes",), are_rising),
        "coef": Field("fiu", (rows, "columns")),
        "intercept": Field("fiu", (rows,)),
        "coef_error": Field("f", (rows, "columns"), are_counts, needed=False),
        "intercept_error": Field("f", (rows,), are_counts, needed=False),
        "feature_names": Field("U", ("columns",), are_any, needed=False),
    }


def names_fields(count: Length) -> dict[str, Field]:
    """Return the arrays that :func:`packed` makes of so many names."""
    return {"name_lengths": Field("i", (count,), are_counts), "names": Field("u", ("letters",))}


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


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Let what is said of a file begin with its name."""
    try:
        yield
    except ValueError as problem:  # which may repeat what the file holds
        raise ValueError(f"{path} cannot be read: {' '.join(str(problem).split()):.400}") from None


def read(path: str | Path, kind: str, fields: Mapping[str, Field]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the facts of a model of that kind, and the arrays that its fields ask for; no other array is read."""
    with opened(path) as archive:
        facts = _checked_kind(_header(archive), kind)
        found = archive.headers(fields)
        check_headers(fields, found)
        arrays = archive.read(found)
    check_values(fields, arrays)
    return facts, arrays


def read_facts(path: str | Path, kind: str) -> dict[str, Any]:
    """Return the facts of a model of that kind."""
    with opened(path) as archive:
        return _checked_kind(_header(archive), kind)


def read_part(path: str | Path, kind: str, name: str) -> Callable[[], Any] | None:
    """Return what rebuilds a part of the file of a model of that kind, None if it has no such part."""
    with opened(path) as archive:
        header = _header(archive)
        _checked_kind(header, kind)
        versions = fact(header, "parts", dict) if "parts" in header else {}
        if name not in versions:
            return None
        version = whole_fact(versions, name)
        if version > PART_VERSION:
            raise ValueError(f"it holds a {name} of format {version}; this version reads up to format {PART_VERSION}")
        arrays = archive.read(archive.headers(each for each in archive.names() if each.startswith(f"{name}{BETWEEN}")))

    def rebuild() -> Any:
        try:
            tree = json.loads(arrays[f"{name}{BETWEEN}tree"].tobytes())
            return decode(tree, [arrays[f"{name}{BETWEEN}{number}"] for number in range(len(arrays) - 1)])
        except OtherVersionError:
            raise ValueError(
                f"its {name} was written by another version of this package: go on with that version, or "
                f"do without it: {WITHOUT.get(name, 'save the model anew there')}"
            ) from None
        except (KeyError, RecursionError, ValueError) as problem:
            raise ValueError(f"its {name} is damaged ({problem!s:.200})") from None

    return rebuild


def kind_of(path: str | Path) -> str:
    """Return the name of the estimator that a file holds."""
    with naming(path), opened(path) as archive:
        return fact(_header(archive), "kind", str)


def _header(archive: Archive) -> dict[str, Any]:
    found = archive.headers(["header"]).get("header")
    if found is None or found.dtype.kind != "U" or found.shape:
        raise ValueError("it is an archive, but not a saved majorant model")
    text = str(archive.read(["header"])["header"])
    with readable():
        header = json.loads(text)
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError("it is a NumPy archive, but not a saved majorant model")
    return header


def _checked_kind(header: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the facts of a model, if it is of that kind and of a format that is known."""
    found, version = fact(header, "kind", str), whole_fact(header, "version")
    if version > VERSION or found != kind:
        raise ValueError(f"it holds a {found:.80} of format {version}; this is {kind}, format {VERSION}")
    return fact(header, "settings", dict)


def fact(facts: Mapping[str, Any], name: str, *kinds: type) -> Any:
    """Return what a file says of something, if that is of one of these kinds."""
    if name not in facts:
        raise ValueError(f"it does not say what {name!r} is")
    value = facts[name]
    is_kind = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
    if not is_kind or (isinstance(value, int) and abs(value) >= 2**63):
        raise ValueError(f"it says that {name!r} is {value!r:.80}, which it cannot be")
    return value


def whole_fact(facts: Mapping[str, Any], name: str) -> int:
    """Return a count that a file holds."""
    value: int = fact(facts, name, int)
    if not 0 <= value < 2**31:
        raise ValueError(f"it says that {name!r} is {value!r:.80}, which it cannot be")
    return value


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


def restore_ending(model: Any, facts: dict[str, Any]) -> None:
    """Give a model what is known of how its fit ended, and its notes."""
    outcome = Outcome(fact(facts, "outcome", str))
    model.result_ = Result(outcome, fact(facts, "message", str), float(fact(facts, "gap", float, int)))
    model.n_iter_, model.notes_ = whole_fact(facts, "n_iter"), facts.get("notes")


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
    text, lengths = arrays["names"].tobytes(), arrays["name_lengths"]
    if lengths.max(initial=0) > len(text) or lengths.sum() != len(text):
        raise ValueError("the array 'name_lengths' does not sum to the length of 'names'")
    ends = np.cumsum(lengths)
    with readable():
        return [text[i:j].decode(errors="surrogatepass") for i, j in zip(ends - lengths, ends, strict=True)]


def names_of(names: list[str]) -> Array:
    """Return names of columns as scikit-learn keeps them."""
    return np.array(names, dtype=object)


def built(cls: Any, facts: dict[str, Any]) -> Any:
    """Return an estimator with the settings of a file, all of which it must know and could have."""
    settings = {name: _as_given(name, value) for name, value in fact(facts, "settings", dict).items()}
    unknown = set(settings) - set(cls._get_param_names())
    if unknown:
        raise ValueError(f"it has a setting {min(unknown)!r:.80}, which {cls.__name__} does not know")
    model = cls(**{name: value for name, value in settings.items() if value is not None or name not in NEVER_NONE})
    check_settings_of(model)
    return model


def check_settings_of(model: Any) -> None:
    """Raise a ValueError if an estimator has settings with which it could not be fitted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model._check_settings()
        except (AttributeError, OverflowError, TypeError) as problem:
            raise ValueError(f"its settings are none that {type(model).__name__} can have ({problem!s:.200})") from None


def _as_given(name: str, value: Any) -> Any:
    """Return a setting as an estimator takes it: pairs are those of a dict."""
    if name not in PAIRS or not isinstance(value, list) or (name == "n_latent" and _are_counts(value)):
        return value
    if not all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str | int | float) for pair in value):
        raise ValueError(f"it says that the setting {name!r} is {value!r:.80}, which it cannot be")
    return dict(value)


def _are_counts(values: list[Any]) -> bool:
    return all(isinstance(each, int) for each in values)


def precision(name: Any) -> np.dtype[Any]:
    """Return the precision of data by its name."""
    if name not in ("<f4", "<f8", ">f4", ">f8"):
        raise ValueError(f"data are in single or in double precision, got {name!r:.80}")
    return np.dtype(name)


def restore(model: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Give a linear classifier what was learnt."""
    restore_ending(model, facts)
    read_feature_penalty(getattr(model, "feature_penalty", None), arrays["coef"].shape[1])
    model.coef_, model.intercept_, model.classes_ = arrays["coef"], arrays["intercept"], arrays["classes"]
    model.n_features_in_, model.gap_ = model.coef_.shape[1], model.result_.gap
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
    refuse_null_ending("what is saved", values)
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
