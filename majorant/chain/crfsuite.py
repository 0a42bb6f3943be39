"""Models as files of CRFsuite, which its taggers read in any language.

A file is little-endian: a header of twelve numbers, then six chunks, each with a name of four letters and its size.

======  ====================================================================================================
chunk   contents
======  ====================================================================================================
FEAT    features: kind (0 attribute and label, 1 label and next label), source, target, weight
CQDB    the labels, then the attributes: a constant database of strings, by number and by hash (Jenkins' lookup3)
LFRF    for each label, which features are its transitions
AFRF    for each attribute, which features are its weights
======  ====================================================================================================

A database has 256 hash tables. A string of hash h stands in table h mod 256, which has twice as many places as strings:
at place ⌊h/256⌋, or the next free one.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np

from majorant.core.checks import Array

MAGIC, KIND, VERSION = b"lCRF", b"FOMC", 100
HEADER = struct.Struct("<4sI4sIIIIIIIII")
DATABASE = struct.Struct("<4sIIIII")
# Tells a reader which byte comes first.
ORDER = 0x62445371
TABLES = 256
FEATURE = np.dtype([("kind", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])


class Tables(NamedTuple):
    """Weights of attributes (attribute, label) and of transitions (label, next label), by numbers of names."""

    labels: list[str]
    attributes: list[str]
    states: Array  # m×2
    state_weights: Array
    transitions: Array  # k×2
    transition_weights: Array


def to_bytes(tables: Tables) -> bytes:
    """Return the file; weights of zero are left out, since no score depends on them."""
    kept, steps = tables.state_weights != 0, tables.transition_weights != 0
    pairs, follow = tables.states[kept], tables.transitions[steps]
    by_attribute = np.argsort(pairs[:, 0], kind="stable")
    features = np.zeros(len(pairs) + len(follow), FEATURE)
    of_states, of_steps = features[: len(pairs)], features[len(pairs) :]
    of_states["source"], of_states["target"] = pairs[by_attribute].T
    of_states["weight"], of_steps["kind"] = tables.state_weights[kept][by_attribute], 1
    of_steps["source"], of_steps["target"] = follow.T
    of_steps["weight"] = tables.transition_weights[steps]

    out, offsets = bytearray(HEADER.size), []

    def add(chunk: bytes) -> None:
        offsets.append(len(out))
        out.extend(chunk)

    add(struct.pack("<4sII", b"FEAT", 12 + features.nbytes, len(features)) + features.tobytes())
    add(_database(tables.labels))
    add(_database(tables.attributes))
    # A table has room for two labels more, which stood for the ends of a sequence.
    out.extend(bytes(-len(out) % 4))
    add(_references(b"LFRF", of_steps["source"], len(pairs), len(tables.labels) + 2, len(out)))
    add(_references(b"AFRF", of_states["source"], 0, len(tables.attributes), len(out)))
    sizes = len(out), KIND, VERSION, 0, len(tables.labels), len(tables.attributes)
    HEADER.pack_into(out, 0, MAGIC, *sizes, *offsets)
    return bytes(out)


def _database(names: list[str]) -> bytes:
    """Return a chunk of strings that are found by number and by hash."""
    keys = [name.encode("utf-8", "surrogateescape") + b"\0" for name in names]
    bad = next((name for name, key in zip(names, keys, strict=True) if b"\0" in key[:-1]), None)
    if bad is not None:
        raise ValueError(f"a file of CRFsuite holds no names with a NUL character, got {bad!r}")
    lengths = np.array([len(key) for key in keys], dtype=np.uint32)
    first = DATABASE.size + 8 * TABLES
    ends = first + np.cumsum(8 + lengths.astype(np.int64))
    places = (ends - 8 - lengths).astype(np.uint32)
    records = b"".join(struct.pack("<II", number, len(key)) + key for number, key in enumerate(keys))

    hashes, of_table = hash_keys(keys), np.zeros((TABLES, 2), dtype="<u4")
    table = hashes % TABLES
    counts, at, slots = np.bincount(table, minlength=TABLES), first + len(records), []
    order = np.argsort(table, kind="stable")
    for number, some in enumerate(np.split(order, np.cumsum(counts)[:-1])):
        if len(some):
            size = 2 * len(some)
            filled = np.zeros((size, 2), dtype="<u4")
            for key in some.tolist():
                k = int(hashes[key] >> 8) % size
                while filled[k, 1]:
                    k = (k + 1) % size
                filled[k] = hashes[key], places[key]
            slots.append(filled.tobytes())
            of_table[number] = at, size
            at += filled.nbytes
    size = at + 4 * len(keys)
    head = DATABASE.pack(b"CQDB", size, 0, ORDER, len(keys), at)
    return b"".join([head, of_table.tobytes(), records, *slots, places.astype("<u4").tobytes()])


def _references(name: bytes, sources: Array, first: int, many: int, begin: int) -> bytes:
    """Return a chunk that lists the features of each source; features are numbered from ``first``, ordered or not."""
    order, counts = np.argsort(sources, kind="stable"), np.bincount(sources, minlength=many)
    sizes = 4 + 4 * counts.astype(np.int64)
    # Labels and attributes without features have an empty list; begin and end, behind the labels, may have none.
    named = many if name == b"AFRF" else many - 2
    sizes[named:][counts[named:] == 0] = 0
    ends = begin + 12 + 4 * many + np.cumsum(sizes)
    offsets = np.where(sizes > 0, ends - sizes, 0).astype("<u4")
    listed = np.insert(first + order, np.concatenate([[0], np.cumsum(counts)[:-1]])[sizes > 0], counts[sizes > 0])
    body = offsets.tobytes() + listed.astype("<u4").tobytes()
    return struct.pack("<4sII", name, 12 + len(body), many) + body


def from_bytes(data: bytes) -> Tables:
    """Return what a file holds, or raise a ValueError that says what is wrong with it."""
    if len(data) < HEADER.size or data[:4] != MAGIC:
        raise ValueError("this is no file of CRFsuite: it does not begin with 'lCRF'")
    _, size, kind, version, _, n, m, at, of_labels, of_attributes, _, _ = HEADER.unpack_from(data)
    if (kind, version) != (KIND, VERSION):
        raise ValueError(f"a chain of CRFsuite has kind b'FOMC' and version 100, got {kind!r} and {version}")
    if size != len(data):
        raise ValueError(f"the file is damaged: it has {len(data)} bytes, and should have {size}")
    try:
        name, _, many = struct.unpack_from("<4sII", data, at)
        features = np.frombuffer(data, FEATURE, many, at + 12)
        labels, attributes = _names(data, of_labels, n), _names(data, of_attributes, m)
    except (struct.error, ValueError) as problem:
        raise ValueError(f"the file is damaged: {problem}") from None
    steps = features["kind"] == 1
    states, follow = (np.column_stack([f["source"], f["target"]]) for f in (features[~steps], features[steps]))
    if name != b"FEAT" or (states >= [m, n]).any() or (follow >= n).any() or not np.isfinite(features["weight"]).all():
        raise ValueError("the file is damaged: features name labels or attributes that there are not")
    return Tables(labels, attributes, states, features["weight"][~steps], follow, features["weight"][steps])


def _names(data: bytes, begin: int, many: int) -> list[str]:
    """Return the strings of a database by number."""
    name, _, _, order, stored, places = DATABASE.unpack_from(data, begin)
    if (name, order) != (b"CQDB", ORDER) or stored < many:
        raise ValueError(f"no database of {many} names at byte {begin}")
    names = []
    for place in np.frombuffer(data, "<u4", many, begin + places).tolist():
        _, length = struct.unpack_from("<II", data, begin + place)
        key = data[begin + place + 8 : begin + place + 7 + length]
        if len(key) != length - 1:
            raise ValueError(f"a name is cut off at byte {begin + place}")
        names.append(key.decode("utf-8", "surrogateescape"))
    return names


def hash_keys(keys: list[bytes]) -> Array:
    """Return Jenkins' lookup3 of each key (``hashlittle`` with a seed of zero), of all keys of a length at once."""
    hashes, lengths = np.zeros(len(keys), dtype=np.uint32), np.array([len(key) for key in keys])
    for length in np.unique(lengths).tolist():
        which = np.flatnonzero(lengths == length)
        blocks = max(-(-length // 12), 1)
        padded = b"".join(keys[k].ljust(12 * blocks, b"\0") for k in which.tolist())
        words = np.frombuffer(padded, "<u4").astype(np.uint32).reshape(len(which), blocks, 3)
        a = b = c = np.full(len(which), (0xDEADBEEF + length) % 2**32, dtype=np.uint32)
        for block in range(blocks):
            a, b, c = (x + words[:, block, k] for k, x in enumerate((a, b, c)))
            if block + 1 < blocks:
                for turns in (4, 6, 8, 16, 19, 4):
                    a = (a - c) ^ _turned(c, turns)
                    c = c + b
                    a, b, c = b, c, a
        for turns in (14, 11, 25, 16, 4, 14, 24):
            c = (c ^ b) - _turned(b, turns)
            a, b, c = b, c, a
        hashes[which] = b
    return hashes


def _turned(x: Array, bits: int) -> Any:
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))
