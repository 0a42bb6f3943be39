"""Calls that succeed, or leave an estimator as it was.

NumPy archives that anybody may have written: every array is looked at before it is read.

A model says what its arrays are (a :class:`Field` for each). Their headers are compared with that, and with each other,
while nothing but headers has been read; then the arrays are read, and their values looked at. What is not asked for is
never read.

Models as files: arrays and JSON in a NumPy archive, nothing that runs when it is read.

A file may hold *parts* besides the model, for those who ask for them: where a fit has come to, or a stream. They are
objects of this package, written as ``majorant.core.files`` does it.

Whatever is wrong with a file is a ValueError of one sentence. Here it says "it" of the file; whoever was given the name
of the file puts it in front (:func:`naming`).

Estimators as files: what all of them share.
"""

from __future__ import annotations

import json
import math
import os
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.lib import format as npy
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from majorant.core.checks import Array, refuse_null_ending
from majorant.core.files import OtherVersionError, decode, encode, replacing
from majorant.core.result import Outcome, Result
from majorant.estimators.base import read_feature_penalty

# What scikit-learn needs to tear its callbacks down after a failure as well; it takes them away itself.
OF_CALLBACKS = ("_callback_fit_ctx", "_skl_callbacks_to_teardown")


@contextmanager
def all_or_nothing(estimator: object) -> Iterator[None]:
    """Put all attributes back if the block fails, also where it is interrupted or a warning is an error.

    What attributes refer to is not copied: the block must make new objects rather than change old ones.

    Examples
    --------
    >>> class Counter:
    ...     pass
    >>> counter = Counter()
    >>> counter.value = 1
    >>> try:
    ...     with all_or_nothing(counter):
    ...         counter.value, counter.more = 2, 3
    ...         raise ValueError
    ... except ValueError:
    ...     vars(counter)
    {'value': 1}
    """
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        kept = {name: value for name, value in vars(estimator).items() if name in OF_CALLBACKS}
        vars(estimator).clear()
        vars(estimator).update(before | kept)
        raise


# Kinds of what names classes or people: numbers, strings, bytes, dates.
LABELS = "biufUSMm"
# Arrays of a file take at most this many times its size, which compressed ones might; of a small file, so many bytes.
MOST_TIMES, SMALL = 100, 2**24
ENDING = ".npy"
# Bytes of an entry of the directory of an archive, at least.
ENTRY = 46

# The length of an axis: a number, a name (all axes of one name are equally long), or what follows from the named ones.
Length: TypeAlias = int | str | Callable[[dict[str, int]], int]


class Header(NamedTuple):
    """The shape of an array, and what it holds."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def are_finite(values: Array) -> str:
    """Return what is wrong with numbers that have to be finite, nothing if they are."""
    return "" if np.isfinite(values).all() else "holds numbers that are not finite"


def are_counts(values: Array) -> str:
    """Return what is wrong with counts, or with bounds that may be unknown."""
    return "holds negative numbers" if (values < 0).any() else ""


def are_positive(values: Array) -> str:
    """Return what is wrong with numbers that have to be positive."""
    return "" if (values > 0).all() else "holds numbers that are not positive"


def are_rising(values: Array) -> str:
    """Return what is wrong with what has to be distinct and in order."""
    return "" if (values[1:] > values[:-1]).all() else "holds duplicates, or is not in rising order"


def are_any(values: Array) -> str:
    """Return nothing: whatever they are is right."""
    return ""


class Field(NamedTuple):
    """What an array of a model must be: its kinds of values, as NumPy abbreviates them, its shape, and the values."""

    kinds: str
    shape: tuple[Length, ...]
    values: Callable[[Array], str] = are_finite
    needed: bool = True


def check_headers(fields: Mapping[str, Field], found: Mapping[str, Header]) -> None:
    """Raise unless the arrays that there are have the kinds and shapes that fields ask for."""
    lengths: dict[str, int] = {}
    for name, field in fields.items():
        if name not in found:
            if field.needed:
                raise ValueError(f"the array {name!r} is missing")
            continue
        shape, dtype = found[name]
        # Labels may be of any kind; numbers that are computed with are in single or in double precision.
        if dtype.kind not in field.kinds or (field.kinds != LABELS and dtype.char in "eg"):
            raise ValueError(f"the array {name!r} holds values of the kind {dtype!s:.40}, which it cannot")
        if len(shape) != len(field.shape):
            raise ValueError(f"the array {name!r} must have {len(field.shape)} dimensions, got the shape {shape!s:.80}")
        asked = tuple(_asked(each, have, lengths) for each, have in zip(field.shape, shape, strict=True))
        if asked != shape:
            raise ValueError(
                f"the array {name!r} has the shape {shape!s:.80}, where the other arrays ask for {asked!s:.80}"
            )


def _asked(length: Length, have: int, lengths: dict[str, int]) -> int:
    if isinstance(length, str):
        return lengths.setdefault(length, have)
    return length if isinstance(length, int) else length(lengths)


def check_values(fields: Mapping[str, Field], arrays: Mapping[str, Array]) -> None:
    """Raise unless the values of arrays are what fields ask for."""
    for name, array in arrays.items():
        wrong = fields[name].values(array)
        if wrong:
            raise ValueError(f"the array {name!r} {wrong}")


def check_arrays(fields: Mapping[str, Field], arrays: Mapping[str, Array]) -> None:
    """Raise unless arrays that are in memory are what fields ask for."""
    check_headers(fields, {name: Header(array.shape, array.dtype) for name, array in arrays.items()})
    check_values(fields, arrays)


class Archive:
    """The arrays of an open archive by their names."""

    def __init__(self, file: zipfile.ZipFile, size: int) -> None:
        self._file, self._most = file, max(MOST_TIMES * size, SMALL)
        members = file.infolist()
        self._members = {each.filename.removesuffix(ENDING): each for each in members}
        if len(self._members) < len(members):
            raise ValueError("it holds two arrays of one name")
        for each in members:
            if each.comment or len(each.extra) >= ENTRY:  # which may be members that are not seen
                raise ValueError("its directory is damaged")
            file.open(each).close()  # which compares the name here with that in front of the member

    def names(self) -> list[str]:
        """Return the names of all arrays."""
        return list(self._members)

    def headers(self, names: Iterable[str]) -> dict[str, Header]:
        """Return the headers of those arrays that there are; together they may not be far larger than the file."""
        with readable():
            found = {name: self._header(name) for name in names if name in self._members}
        if sum(math.prod(shape) * dtype.itemsize for shape, dtype in found.values()) > self._most:
            raise ValueError(f"its arrays would take more than {MOST_TIMES} times the size of the file")
        return found

    def read(self, names: Iterable[str]) -> dict[str, Array]:
        """Return arrays, whose headers have been looked at."""
        found = {}
        for name in names:
            with readable(), self._file.open(self._members[name]) as member:
                array = npy.read_array(member, allow_pickle=False)
            found[name] = array.astype(array.dtype.newbyteorder("="), copy=False)
        return found

    def _header(self, name: str) -> Header:
        with self._file.open(self._members[name]) as member:
            version = npy.read_magic(member)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, _, dtype = read(member)
            begin = member.tell()
        if dtype.hasobject or not dtype.itemsize or min(shape, default=0) < 0:
            raise ValueError(f"the array {name!r} holds values of the kind {dtype!s:.40}")
        if self._members[name].file_size != begin + math.prod(shape) * dtype.itemsize:
            raise ValueError(f"the array {name!r} is not as long as it says")
        return Header(shape, dtype)


@contextmanager
def opened(path: str | Path) -> Iterator[Archive]:
    """Open an archive for reading."""
    with ExitStack() as stack:
        with readable():
            archive = Archive(stack.enter_context(zipfile.ZipFile(path)), os.path.getsize(path))
        yield archive


@contextmanager
def readable(what: str = "saved majorant model") -> Iterator[None]:
    """Say of whatever a damaged file makes others raise that it is not what it should be."""
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as problem:  # zipfile, zlib, struct, NumPy and JSON have some of their own each
        said = " ".join(str(problem).split()) or type(problem).__name__
        raise ValueError(f"it is not a {what}, or is incomplete ({said:.200})") from None


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


Notes = dict[str, Any] | None
Written = tuple[dict[str, Any], dict[str, Array]]  # what JSON holds, and arrays


class Saved:
    """``save`` and ``load``, for an estimator that says what it writes (``_written``) and takes up what was read."""

    _learnt: ClassVar[str] = "coef_"  # what a fitted one has
    _fields: ClassVar[Mapping[str, Field]]  # what its arrays are

    def save(self, path: Any, notes: Notes = None) -> None:
        """Write the fitted model to a file that holds data only, and none of the rows.

        What a chain has gathered by ``partial_fit``, and standard errors of choice models, are in it. Left out are
        callbacks, and settings that are objects: a random state, a splitter, a scorer.

        Parameters
        ----------
        path : str or Path
        notes : dict, optional
            Anything that JSON can hold; it travels with the model and comes back as ``notes_``.

        Examples
        --------
        >>> import tempfile
        >>> import majorant
        >>> X, y = majorant.datasets.load("ecoli")
        >>> path = tempfile.mkdtemp() + "/model.npz"
        >>> majorant.LogisticRegression().fit(X, y).save(path, notes={"trained": "in November"})
        >>> majorant.LogisticRegression.load(path).notes_
        {'trained': 'in November'}
        """
        check_is_fitted(self, self._learnt)
        self._save(path, notes, {})

    @classmethod
    def load(cls, path: Any) -> Self:
        """Return the model that :meth:`save` wrote, or :class:`~majorant.Checkpoint`.

        All of the file is checked: one that is damaged, or that was made by hand, is a ValueError that says what is
        wrong with it.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        estimator
            Fitted, with its ``notes_``.

        Examples
        --------
        >>> import tempfile
        >>> import majorant
        >>> X, y = majorant.datasets.load("ecoli")
        >>> model, path = majorant.LogisticRegression().fit(X, y), tempfile.mkdtemp() + "/model.npz"
        >>> model.save(path)
        >>> bool((majorant.LogisticRegression.load(path).predict(X) == model.predict(X)).all())
        True
        """
        with naming(path):
            facts, arrays = read(path, cls.__name__, cls._fields)
            model: Self = built(cls, facts)
            model._restore(path, facts, arrays)
        return model

    def _save(self, path: Any, notes: Notes, parts: Mapping[str, Any]) -> None:
        """Write a model that can be read again."""
        facts, arrays = self._written(notes)
        check_savable(self, self._fields, arrays)
        write(path, type(self).__name__, facts, arrays, parts)

    def _write(self, path: Any, notes: Notes, parts: Mapping[str, Any]) -> None:
        write(path, type(self).__name__, *self._written(notes), parts)

    def _written(self, notes: Notes) -> Written:
        raise NotImplementedError

    def _restore(self, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        raise NotImplementedError


def check_savable(model: Any, fields: Mapping[str, Field], arrays: Mapping[str, Array]) -> None:
    """Raise if a file of a model could not be read again: its numbers or settings have been changed since the fit."""
    try:
        check_settings_of(model)
        read_feature_penalty(getattr(model, "feature_penalty", None), getattr(model, "n_features_in_", 0))
        check_arrays(fields, arrays)
    except ValueError as problem:
        raise ValueError(f"this {type(model).__name__} cannot be saved: {problem}") from None
