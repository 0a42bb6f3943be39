"""Estimators as files: NumPy archives of arrays and JSON, in which nothing runs when they are read.

An estimator says what its file holds by one class attribute, ``_fields``: a :class:`Field` for each array, which is the
attribute of that name with an underscore at its end. Anybody may have written a file. The headers of its arrays are
compared with the fields, and with each other, while nothing but headers has been read; then the arrays are read, and
their values are checked. An array that no field names is never read.

A file may hold *parts* besides the model: a checkpoint, or a stream. Parts are objects of this package, as
``majorant.core.files`` writes them, and are read on request only.

Whatever is wrong with a file is a ValueError of one sentence, which says "it" of the file; :func:`naming` puts the name
of the file in front.
"""

from __future__ import annotations

import json
import math
import os
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
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
from majorant.core.line_search import Point
from majorant.core.objective import Objective
from majorant.core.remote import RemoteBlocks, RemoteRows
from majorant.core.result import Fitted, Outcome, Progress, Result
from majorant.core.rows import Data
from majorant.core.solver import Solver, State
from majorant.device.estimators import to_array


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
        # scikit-learn needs these to tear its callbacks down after a failure; it takes them away itself.
        of_callbacks = ("_callback_fit_ctx", "_skl_callbacks_to_teardown")
        kept = {name: value for name, value in vars(estimator).items() if name in of_callbacks}
        vars(estimator).clear()
        vars(estimator).update(before | kept)
        raise


# --- what an array must be ----------------------------------------------------------------------------------

# Kinds of labels and names: numbers, strings, bytes, dates.
LABELS = "biufUSMm"

# The length of an axis: a number, a name (all axes of one name are equally long), or what follows from the named ones.
Length: TypeAlias = int | str | Callable[[dict[str, int]], int]


def are_finite(values: Array) -> str:
    """Return the fault of numbers that have to be finite, nothing if they are."""
    return "" if np.isfinite(values).all() else "holds numbers that are not finite"


def are_counts(values: Array) -> str:
    """Return the fault of counts, or of bounds, which may be unknown."""
    return "holds negative numbers" if (values < 0).any() else ""


def are_positive(values: Array) -> str:
    """Return the fault of numbers that have to be positive."""
    return "" if (values > 0).all() else "holds numbers that are not positive"


def are_rising(values: Array) -> str:
    """Return the fault of values that have to be distinct and in order."""
    return "" if (values[1:] > values[:-1]).all() else "holds duplicates, or is not in rising order"


def are_any(values: Array) -> str:
    """Return no fault: any values are right."""
    return ""


class Field(NamedTuple):
    """The specification of an array in a file: kinds of values, as NumPy abbreviates them, shape, and values."""

    kinds: str
    shape: tuple[Length, ...]
    values: Callable[[Array], str] = are_finite
    needed: bool = True
    attribute: str = ""  # of the estimator; if not given, the name of the array and an underscore


class Header(NamedTuple):
    """The shape of an array, and the kind of its values."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def check_headers(fields: Mapping[str, Field], headers: Mapping[str, Header]) -> None:
    """Raise unless the arrays that there are have the kinds and shapes that fields ask for."""
    lengths: dict[str, int] = {}
    for name, field in fields.items():
        if name not in headers:
            if field.needed:
                raise ValueError(f"the array {name!r} is missing")
            continue
        shape, dtype = headers[name]
        # Labels may be of any kind; numbers that are computed with are in single or in double precision.
        if dtype.kind not in field.kinds or (field.kinds != LABELS and dtype.char in "eg"):
            raise ValueError(f"the array {name!r} holds values of the kind {dtype!s:.40}, which it cannot")
        if len(shape) != len(field.shape):
            raise ValueError(f"the array {name!r} must have {len(field.shape)} dimensions, got the shape {shape!s:.80}")
        asked = []
        for length, have in zip(field.shape, shape, strict=True):
            if isinstance(length, str):
                length = lengths.setdefault(length, have)
            asked.append(length if isinstance(length, int) else length(lengths))
        if tuple(asked) != shape:
            raise ValueError(
                f"the array {name!r} has the shape {shape!s:.80}, where the other arrays ask for {tuple(asked)!s:.80}"
            )


def check_arrays(fields: Mapping[str, Field], arrays: Mapping[str, Array]) -> None:
    """Raise unless arrays that are in memory are what fields ask for, and so are their values."""
    check_headers(fields, {name: Header(array.shape, array.dtype) for name, array in arrays.items()})
    for name, array in arrays.items():
        if wrong := fields[name].values(array):
            raise ValueError(f"the array {name!r} {wrong}")


def coefficient_rows(lengths: dict[str, int]) -> int:
    """Return the number of rows of the coefficients of a linear classifier: two classes share one."""
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
        "feature_names": Field("U", ("columns",), are_any, needed=False, attribute="feature_names_in_"),
    }


def names_fields(count: Length) -> dict[str, Field]:
    """Return the arrays that :func:`packed` makes of so many names."""
    return {"name_lengths": Field("i", (count,), are_counts), "names": Field("u", ("letters",))}


# --- the archive --------------------------------------------------------------------------------------------

FORMAT = "majorant model"
# The newest format of files, and of the parts in them, that is read.
VERSION = 1
# How to do without a part.
WITHOUT = {
    "checkpoint": "the file is a model that load() reads, and fit without resume_from begins afresh",
    "stream": "load the model there, and save it with stream=False",
}


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
    versions = dict.fromkeys(parts or {}, VERSION)
    header = {"format": FORMAT, "version": VERSION, "kind": kind, "settings": settings, "parts": versions}
    for name, part in (parts or {}).items():
        tree, of_part = encode(part)
        text = as_json(tree).encode(errors="surrogatepass")
        arrays = arrays | {f"{name}.{number}": array for number, array in enumerate(of_part)}
        arrays |= {f"{name}.tree": np.frombuffer(text, dtype=np.uint8)}
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, header=np.array(as_json(header)), allow_pickle=False, **arrays)


def as_json(value: Any, what: str = "only settings that JSON can hold can be saved") -> str:
    """Return a value as JSON, or say why that cannot be."""
    try:
        return json.dumps(value)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"{what}: {problem}") from None


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Let what is said of a file begin with its name."""
    try:
        yield
    except ValueError as problem:  # which may repeat what the file holds
        raise ValueError(f"{path} cannot be read: {' '.join(str(problem).split()):.400}") from None


@contextmanager
def readable(what: str = "saved majorant model") -> Iterator[None]:
    """Say of whatever a damaged file makes others raise that it is not what it should be."""
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as problem:  # zipfile, zlib, struct, NumPy and JSON have some of their own each
        reason = " ".join(str(problem).split()) or type(problem).__name__
        raise ValueError(f"it is not a {what}, or is incomplete ({reason:.200})") from None


class Archive:
    """A saved model that is open for reading: its header, and its arrays by their names."""

    def __init__(self, file: zipfile.ZipFile, size: int) -> None:
        # Arrays take at most 100 times the size of the file, which compressed ones might, or 16 MB.
        self._file, self._most = file, max(100 * size, 2**24)
        members = file.infolist()
        self._members = {member.filename.removesuffix(".npy"): member for member in members}
        if len(self._members) < len(members):
            raise ValueError("it holds two arrays of one name")
        for member in members:
            # An extra field as long as an entry of the directory may be members that are not seen.
            if member.comment or len(member.extra) >= zipfile.sizeCentralDir:  # type: ignore[attr-defined]
                raise ValueError("its directory is damaged")
            file.open(member).close()  # which compares the name here with that in front of the member

    @staticmethod
    @contextmanager
    def opened(path: str | Path) -> Iterator[Archive]:
        """Open a saved model; any other file is refused."""
        with readable():
            file = zipfile.ZipFile(path)
        with file:
            with readable():
                archive = Archive(file, os.path.getsize(path))
            header = archive.headers(["header"]).get("header")
            if header is None or header.dtype.kind != "U" or header.shape:
                raise ValueError("it is an archive, but not a saved majorant model")
            text = str(archive.read(["header"])["header"])
            with readable():
                archive.header = json.loads(text)
            if not isinstance(archive.header, dict) or archive.header.get("format") != FORMAT:
                raise ValueError("it is a NumPy archive, but not a saved majorant model")
            yield archive

    header: dict[str, Any]

    def facts(self, kind: str) -> dict[str, Any]:
        """Return the facts of a model, if it is of that kind and of a format that is known."""
        kind_here, version = fact(self.header, "kind", str), whole_fact(self.header, "version")
        if version > VERSION or kind_here != kind:
            raise ValueError(f"it holds a {kind_here:.80} of format {version}; this is {kind}, format {VERSION}")
        return fact(self.header, "settings", dict)

    def headers(self, names: Iterable[str]) -> dict[str, Header]:
        """Return the headers of those arrays that there are; together they may not be far larger than the file."""
        headers = {}
        with readable():
            for name in names:
                if name in self._members:
                    headers[name] = self._header(name, self._members[name])
        if sum(math.prod(shape) * dtype.itemsize for shape, dtype in headers.values()) > self._most:
            raise ValueError("its arrays would take more than 100 times the size of the file")
        return headers

    def _header(self, name: str, info: zipfile.ZipInfo) -> Header:
        with self._file.open(info) as member:
            version = npy.read_magic(member)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, _, dtype = read(member)
            begin = member.tell()
        if dtype.hasobject or not dtype.itemsize or min(shape, default=0) < 0:
            raise ValueError(f"the array {name!r} holds values of the kind {dtype!s:.40}")
        if info.file_size != begin + math.prod(shape) * dtype.itemsize:
            raise ValueError(f"the array {name!r} is not as long as it says")
        return Header(shape, dtype)

    def read(self, names: Iterable[str]) -> dict[str, Array]:
        """Return arrays, whose headers have been checked."""
        arrays = {}
        for name in names:
            with readable(), self._file.open(self._members[name]) as member:
                array = npy.read_array(member, allow_pickle=False)
            arrays[name] = array.astype(array.dtype.newbyteorder("="), copy=False)
        return arrays

    def part(self, name: str) -> Callable[[], Any] | None:
        """Return a function that rebuilds a part, None if there is no such part; its arrays are read at once."""
        versions = fact(self.header, "parts", dict) if "parts" in self.header else {}
        if name not in versions:
            return None
        version = whole_fact(versions, name)
        if version > VERSION:
            raise ValueError(f"it holds a {name} of format {version}; this version reads up to format {VERSION}")
        arrays = self.read(self.headers(member for member in self._members if member.startswith(f"{name}.")))

        def rebuild() -> Any:
            try:
                tree = json.loads(arrays[f"{name}.tree"].tobytes())
                return decode(tree, [arrays[f"{name}.{number}"] for number in range(len(arrays) - 1)])
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
    with naming(path), Archive.opened(path) as archive:
        return fact(archive.header, "kind", str)


def fact(facts: Mapping[str, Any], name: str, *kinds: type) -> Any:
    """Return a fact that a file holds, if it is of one of these kinds."""
    if name not in facts:
        raise ValueError(f"it does not say what {name!r} is")
    value = facts[name]
    is_kind = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
    if not is_kind or (isinstance(value, int) and abs(value) >= 2**63):
        raise ValueError(f"it says that {name!r} is {value!r:.80}, which it cannot be")
    return value


def whole_fact(facts: Mapping[str, Any], name: str) -> int:
    """Return a count that a file holds, which is no larger than an int32 can be."""
    value: int = fact(facts, name, int)
    if not 0 <= value <= np.iinfo(np.int32).max:
        raise ValueError(f"it says that {name!r} is {value!r:.80}, which it cannot be")
    return value


# --- settings, and how a fit ended --------------------------------------------------------------------------

# Settings that may be objects, which no file holds: they are then left to their defaults.
OBJECTS = ("random_state", "cv", "scoring", "validation", "metric")
# Those of them whose default is not None, which is what is written in their place.
NEVER_NONE = ("validation", "metric")
# Settings that are functions.
FUNCTIONS = ("callbacks", "callback")
# Settings that may be dicts, which are written as pairs.
PAIRS = ("class_weight", "n_latent")


def storable(value: Any) -> Any:
    """Return a setting as JSON can hold it; a dict as pairs, since its keys may be numbers."""
    if isinstance(value, dict):
        return [[storable(key), storable(entry)] for key, entry in value.items()]
    if isinstance(value, np.generic):
        return value.item()
    is_array = isinstance(value, list | tuple) or hasattr(value, "__array__")
    return np.asarray(value).tolist() if is_array else value


def settings_of(model: Any) -> dict[str, Any]:
    """Return the settings of an estimator as JSON can hold them."""
    given = {name: value for name, value in model.get_params(deep=False).items() if name not in FUNCTIONS}
    left_out = [name for name in OBJECTS if not isinstance(given.get(name), Real | str | None)]
    return {name: None if name in left_out else storable(value) for name, value in given.items()}


def facts_of(model: Any, notes: dict[str, Any] | None) -> dict[str, Any]:
    """Return the facts of an estimator for JSON: its settings, notes, and how its fit ended."""
    as_json(notes, "notes must be what JSON can hold")
    result = model.result_
    ending = {"n_iter": int(np.max(model.n_iter_)), "gap": float(result.gap)}
    ending |= {"outcome": result.outcome.value, "message": result.message}
    return {"settings": settings_of(model), "notes": notes, **ending}


def restore_ending(model: Any, facts: dict[str, Any]) -> None:
    """Give a model what is known of how its fit ended, and its notes."""
    outcome = Outcome(fact(facts, "outcome", str))
    model.result_ = Result(outcome, fact(facts, "message", str), float(fact(facts, "gap", float, int)))
    model.n_iter_, model.notes_ = whole_fact(facts, "n_iter"), facts.get("notes")


def built(cls: Any, facts: dict[str, Any]) -> Any:
    """Return an estimator with the settings of a file, all of which it must know and could have."""
    settings = dict(fact(facts, "settings", dict))
    for name in PAIRS:
        value = settings.get(name)
        # Counts of hidden states may be a list with a number for each class.
        if not isinstance(value, list) or (name == "n_latent" and all(isinstance(entry, int) for entry in value)):
            continue
        if not all(
            isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str | int | float) for entry in value
        ):
            raise ValueError(f"it says that the setting {name!r} is {value!r:.80}, which it cannot be")
        settings[name] = dict(value)
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


# --- names, which may be of any length ----------------------------------------------------------------------


def packed(names: list[str]) -> dict[str, Array]:
    """Return names of any length as arrays; surrogates, which files may hold, included."""
    encoded = [name.encode(errors="surrogatepass") for name in names]
    lengths = np.array([len(name) for name in encoded], dtype=np.int64)
    return {"names": np.frombuffer(b"".join(encoded), dtype=np.uint8), "name_lengths": lengths}


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


def plain(values: Array) -> Array:
    """Return labels or names as an array that needs no pickle."""
    if values.dtype != object:
        return values
    plain = np.array(values.tolist())
    if plain.dtype == object or len({isinstance(value, str) for value in values}) > 1:
        raise ValueError(f"only classes that are all numbers or all strings can be saved, got {values!r}")
    refuse_null_ending("what is saved", values)
    return plain


# --- estimators ---------------------------------------------------------------------------------------------

Notes = dict[str, Any] | None
Written = tuple[dict[str, Any], dict[str, Array]]  # what JSON holds, and arrays


class Saved:
    """``save`` and ``load``, for an estimator whose ``_fields`` says which arrays its file holds."""

    _learnt: ClassVar[str] = "coef_"  # what a fitted one has
    _fields: ClassVar[Mapping[str, Field]]

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
        write(path, type(self).__name__, *self._checked(notes))

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
            with Archive.opened(path) as archive:
                facts, headers = archive.facts(cls.__name__), archive.headers(cls._fields)
                check_headers(cls._fields, headers)
                arrays = archive.read(headers)
            check_arrays(cls._fields, arrays)
            return cls._rebuilt(path, facts, arrays)

    @classmethod
    def _rebuilt(cls, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """Return the model of the facts and arrays of a file."""
        model: Self = built(cls, facts)
        model._restore(path, facts, arrays)
        return model

    def _checked(self, notes: Notes) -> Written:
        """Return facts and arrays that can be read again: numbers and settings may have been changed since the fit."""
        facts, arrays = self._written(notes)
        try:
            check_settings_of(self)
            check_arrays(self._fields, arrays)
        except ValueError as problem:
            raise ValueError(f"this {type(self).__name__} cannot be saved: {problem}") from None
        return facts, arrays

    def _written(self, notes: Notes) -> Written:
        """Return facts and arrays for a file."""
        return facts_of(self, notes), arrays_of(self, self._fields)

    def _restore(self, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Take up the facts and arrays of a file."""
        restore_ending(self, facts)
        vars(self)["gap_"] = vars(self)["result_"].gap
        for name, field in self._fields.items():
            if name in arrays:
                setattr(self, field.attribute or f"{name}_", arrays[name])


def arrays_of(model: Any, fields: Mapping[str, Field]) -> dict[str, Array]:
    """Return the attributes that fields name, as far as a model has them, as arrays that a file can hold."""
    arrays = {}
    for name, field in fields.items():
        values = getattr(model, field.attribute or f"{name}_", None)
        if values is not None:
            arrays[name] = plain(values.toarray() if sparse.issparse(values) else values)
    return arrays


# Scores that a checkpoint holds, at most.
MOST_SCORES = 2**24
PART = "checkpoint"
# Settings that a fit may go on with another value of: the problem, and the way to its solution, are the same.
FREE = ("tol", "max_iter", "verbose", "n_jobs", "warm_start", "dual", "multi_class", "callbacks")
# What older code writes for the penalty that is meant anyway.
ALIKE = {"deprecated": "elasticnet", "l2": "elasticnet"}  # l1_ratio tells the rest

Fingerprint = dict[str, Any]


def fingerprint(data: Data, names: Iterable[Any]) -> Fingerprint:
    """Return facts and digests by which data, and the names of what is in them, are told from others."""
    prints: Fingerprint = {"number of rows": len(data)}
    # Labels, weights and offsets of all rows, which are in this process unless workers hold the rows.
    if not isinstance(data, RemoteRows):
        digests = {name: sha256() for name in ("labels", "weights", "offsets", "lengths of chunks")}
        for rows in data.outlines(2**20):
            block: Any = rows
            arrays = (block.y, block.weight, getattr(block, "offset", None), getattr(block, "starts", len(block)))
            for digest, array in zip(digests.values(), arrays, strict=True):
                digest.update(b"" if array is None else _bytes(np.asarray(to_array(array))))
        prints |= {name: digest.hexdigest() for name, digest in digests.items()}
    # Up to 64 rows, evenly spread; of all rows, labels.
    like = data.like
    count = min(64, len(like))
    facts, parts = like.take(np.arange(count) * len(like) // count)._identity()
    prints |= facts
    for name, of_rows in parts.items():
        digest = sha256()
        for array in of_rows:
            digest.update(f"{array.shape} {array.dtype.str}".encode())
            digest.update(_bytes(array))
        prints[name] = digest.hexdigest()
    # Names.
    digest = sha256()
    for name in names:
        digest.update(f"{name!r}\n".encode(errors="surrogatepass"))
    return prints | {"names of classes or attributes": digest.hexdigest()}


def _bytes(array: Array) -> bytes | memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


@dataclass(frozen=True, eq=False)
class Saving:
    """How the fit of an estimator is written to a file, at any step of it."""

    estimator: Any
    objective: Objective
    names: Callable[[], Iterable[Any]]  # of classes, and of what features are by name

    def __call__(self, path: str | Path, fitted: Fitted, progress: Progress | None = None) -> None:
        """Write the model as it would be if the fit had ended so; the one that is fitted is left alone."""
        model, parts = copy(self.estimator), dict[str, Any]()
        model._publish(fitted)
        if progress is not None:
            scores = None if progress.state.point is None else progress.state.point.scores
            arrays = isinstance(scores, list) and all(isinstance(array, np.ndarray) for array in scores)
            # Scores that are not in this process, or too many for a file, are computed again.
            if scores is not None and not (arrays and sum(array.size for array in scores) <= MOST_SCORES):
                progress = without_scores(progress)
            parts = {PART: {"data": self.fingerprint, "progress": progress}}
        facts, arrays = model._written(None)
        write(path, type(model).__name__, facts, arrays, parts)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint of the data."""
        return fingerprint(self.objective.data, self.names())


def resumed(path: Any, estimator: Any, saving: Saving) -> Progress | None:
    """Return the progress in a checkpoint of this problem; a checkpoint of another one is refused."""
    if path is None:
        return None
    with naming(path):
        with Archive.opened(path) as archive:
            facts, rebuild = archive.facts(type(estimator).__name__), archive.part(PART)
        settings = fact(facts, "settings", dict)
    if rebuild is None:
        raise ValueError(f"resume_from={str(path)!r} holds a model, but no checkpoint: only callbacks write those")
    for name, value in settings_of(estimator).items():
        before, now = (
            ALIKE.get(setting, setting) if isinstance(setting, str) else storable(setting)
            for setting in (settings.get(name, value), value)
        )
        if name not in FREE and before != now:
            raise ValueError(
                f"{name} was {settings[name]!r} in the fit that is to be resumed, got {value!r}; only "
                "tol, max_iter, verbose, n_jobs and callbacks may change"
            )
    with naming(path):
        part = rebuild()
    if not _is_whole(part):
        raise ValueError(f"resume_from={str(path)!r} holds a checkpoint that this package did not write")
    progress: Progress = part["progress"]
    for name, value in saving.fingerprint.items():
        before = part["data"].get(name, value)  # workers' rows have fewer digests
        if before != value:
            plain = ("number of rows", "number of columns", "number of parameters", "kind of numbers")
            differs = f"the {name} was {before}, got {value}" if name in plain else f"the {name} are others"
            raise ValueError(f"resume_from={str(path)!r} is a checkpoint of other data: {differs}")
    # Scores may now be kept otherwise than they were, or not at all.
    kept = saving.objective.keeps_scores and not isinstance(saving.objective.blocks, RemoteBlocks)
    return progress if progress.state.point is None or kept else without_scores(progress)


def without_scores(progress: Progress) -> Progress:
    """Return the progress without the scores of rows, which are computed again, for a pass over the data."""
    return replace(progress, state=replace(progress.state, point=replace(progress.state.point, scores=None)))


def _is_whole(part: Any) -> bool:
    """Return whether this is a checkpoint as it is written."""
    progress, data = (part.get("progress"), part.get("data")) if isinstance(part, dict) else (None, None)
    if not isinstance(progress, Progress) or not isinstance(data, dict):
        return False
    if not all(isinstance(name, str) and isinstance(value, str | int) for name, value in data.items()):
        return False
    state: Any = progress.state
    if not isinstance(state, State) or not isinstance(progress.solver, Solver):
        return False
    most = np.iinfo(np.int32).max  # steps, which are counted in an int32
    steps = progress.trace.get("step", np.zeros(0)) if isinstance(progress.trace, dict) else None
    counted = type(progress.steps) is int and 0 <= progress.steps <= most
    if not counted or not isinstance(steps, np.ndarray) or steps.dtype.kind != "f" or not (steps <= most).all():
        return False
    memories = progress.memories
    if not isinstance(memories, tuple) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in memories):
        return False
    has_theta = isinstance(state.theta, np.ndarray) and state.theta.ndim == 1 and state.theta.dtype.kind == "f"
    return has_theta and isinstance(state.point, Point | None)
