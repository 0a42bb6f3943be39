"""What tells data from others, at the price of a small share of a pass over them."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import numpy as np

from majorant._checks import Array
from majorant.data import Labelled, Sequences
from majorant.data.base import Data
from majorant.estimators.tensors import to_array
from majorant.kernels.sparse import Csr
from majorant.objective.elsewhere import Elsewhere

# Rows that are looked at, evenly spread over those that are here.
LOOKED_AT = 64
# Labels that are looked at at a time; all of them are.
STRETCH = 2**20
# What is told as it is; of the rest there are digests.
PLAIN = ("number of rows", "number of columns", "number of parameters", "kind of numbers")

Fingerprint = dict[str, Any]


def fingerprint(data: Data, names: Iterable[Any]) -> Fingerprint:
    """Return what tells data, and the names of what is in them, from others: in words, and how to tell."""
    like = data.like
    some = like.take(np.arange(min(LOOKED_AT, len(like))) * len(like) // min(LOOKED_AT, len(like)))
    of_kind = _of_sequences(some) if isinstance(some, Sequences) else _of_rows(some)
    named = {"names of classes or attributes": _digest_of_names(names)}
    return {"number of rows": len(data), **_of_labels(data), **of_kind, **named}


def difference(before: Fingerprint, now: Fingerprint) -> str:
    """Return in words what differs, nothing if they are the same."""
    for name, value in now.items():
        then = before.get(name, value)  # what workers hold is not looked at so closely
        if then != value:
            return f"the {name} was {then}, got {value}" if name in PLAIN else f"the {name} are others"
    return ""


def _of_rows(some: Labelled) -> Fingerprint:
    design = some.design
    stored, centre = design.stored(), [] if design.centre is None else [design.centre]
    rows = design.toarray() if stored is None else stored.rows
    arrays = list(rows)[:3] if isinstance(rows, Csr) else [np.asarray(rows)]
    return {
        "number of columns": design.shape[1],
        "kind of numbers": f"{'sparse' if design.is_sparse else 'dense'} {design.dtype}",
        "rows themselves": _digest([*arrays, *centre]),
    }


def _of_sequences(some: Sequences) -> Fingerprint:
    universe = some.universe
    arrays = [some.starts, some.indptr, some.attributes, universe.label, universe.transitions]
    return {
        "number of parameters": universe.size,
        "tokens themselves": _digest(arrays if some.values is None else [*arrays, some.values]),
    }


def _of_labels(data: Data) -> Fingerprint:
    """Return digests of labels, weights and offsets of all rows, which are here unless workers hold the rows."""
    if isinstance(data, Elsewhere):
        return {}
    digests = {name: sha256() for name in ("labels", "weights", "offsets", "lengths of chunks")}
    for block in data.outlines(STRETCH):
        found: Any = block
        is_chain = isinstance(found, Sequences)
        arrays = (found.y, found.weight, None if is_chain else found.offset, found.starts if is_chain else len(found))
        for digest, array in zip(digests.values(), arrays, strict=True):
            digest.update(b"" if array is None else _bytes(np.asarray(to_array(array))))
    return {name: digest.hexdigest() for name, digest in digests.items()}


def _digest(arrays: Iterable[Array]) -> str:
    digest = sha256()
    for array in arrays:
        digest.update(f"{array.shape} {array.dtype.str}".encode())
        digest.update(_bytes(array))
    return digest.hexdigest()


def _digest_of_names(names: Iterable[Any]) -> str:
    digest = sha256()
    for name in names:
        digest.update(f"{name!r}\n".encode(errors="surrogatepass"))
    return digest.hexdigest()


def _bytes(array: Array) -> bytes | memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
