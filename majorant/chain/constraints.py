"""Which labels may follow each other: lists, functions, and the schemes BIO and BIOES of chunks.

A constraint is a table of truths, (n + 1) × (n + 1) for n labels: the last row says which labels a sequence may begin
with, the last column with which it may end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from majorant.chain.sequences import Sequences, inner_tokens
from majorant.core.checks import Array

# What an outer token, or the end of a sequence, a label that goes on, and one that ends, may be preceded by.
SCHEMES = {"BIO": ("O", "B", "I"), "BIOES": ("O", "B", "I", "E", "S")}


def allowed_table(given: Any, classes: Array) -> Array | None:
    """Return the table of a constraint on some classes, None if there is none.

    Parameters
    ----------
    given : None, "BIO", "BIOES", callable, or iterable of pairs
        A function of a label and the next one, or the pairs that are allowed. None in the place of a label stands for
        the beginning or the end of a sequence; a list that names no beginning, or no end, allows every one.
    classes : array
        The labels.
    """
    if given is None:
        return None
    labels = [*classes.tolist(), None]
    if not (given in SCHEMES if isinstance(given, str) else callable(given) or isinstance(given, Iterable)):
        raise ValueError(f"transitions must be 'BIO', 'BIOES', pairs of labels or a function, got {given!r}")
    if isinstance(given, str):
        given = _scheme(given, classes)
    if callable(given):
        table = np.array([[bool(given(a, b)) for b in labels] for a in labels])
        table[-1, -1] = True
    else:
        table = _listed(given, labels)
    if not table[-1, :-1].any() or not table[:-1, -1].any() or not table[:-1].any(axis=1).all():
        raise ValueError("transitions leave a label that nothing may follow, or no label to begin or to end with")
    return table


def _scheme(name: str, classes: Array) -> Callable[[Any, Any], bool]:
    """Return whether one label may follow another in a scheme, or raise if a label is none of it."""
    kinds = SCHEMES[name]
    for label in classes.tolist():
        if not (isinstance(label, str) and (label == "O" or (label[:1] in kinds[1:] and label[1:2] == "-"))):
            raise ValueError(f"transitions={name!r} takes labels such as 'O' and 'B-X', got {label!r}")

    def may_follow(before: str | None, after: str | None) -> bool:
        begun = before is not None and before[0] in "BI"
        goes_on = after is not None and after[0] in "IE"
        if goes_on:
            return begun and before is not None and after is not None and before[1:] == after[1:]
        return not begun or name == "BIO"  # in BIOES what has begun has to end

    return may_follow


def _listed(pairs: Iterable[Any], labels: list[Any]) -> Array:
    """Return the table of pairs that are allowed."""
    number = {label: k for k, label in enumerate(labels)}
    table = np.zeros((len(labels), len(labels)), dtype=bool)
    for pair in pairs:
        if not (isinstance(pair, list | tuple) and len(pair) == 2 and all(label in number for label in pair)):
            raise ValueError(f"transitions must be pairs of labels of y, or None for an end, got {pair!r}")
        table[number[pair[0]], number[pair[1]]] = True
    for end in (table[-1, :-1], table[:-1, -1]):
        if not end.any():
            end[:] = True
    return table


def refuse_violations(data: Sequences, classes: Array) -> None:
    """Raise if labels follow each other that must not."""
    table = data.universe.allowed
    if table is None:
        return
    before, after, at = steps_and_ends(data.starts, data.y, len(classes))
    bad = np.flatnonzero(~table[before, after])
    if len(bad):
        sequence = int(np.searchsorted(data.starts, at[bad[0]], side="right")) - 1
        raise ValueError(violation(classes, before[bad[0]], after[bad[0]], sequence))


def steps_and_ends(starts: Array, y: Array, end: int) -> tuple[Array, Array, Array]:
    """Return each label and the next one, with ``end`` before the first and after the last, and the token of a pair."""
    filled = np.diff(starts) > 0
    inner, first, last = inner_tokens(starts), starts[:-1][filled], starts[1:][filled] - 1
    before = np.concatenate([y[inner - 1], np.full(len(first), end), y[last]])
    after = np.concatenate([y[inner], y[first], np.full(len(last), end)])
    return before, after, np.concatenate([inner, first, last])


def violation(classes: Array, before: int, after: int, sequence: int) -> str:
    """Return the sentence about a label that must not follow another."""
    labels, n = classes.tolist(), len(classes)
    if before == n:
        what = f"a sequence to begin with {labels[after]!r}"
    elif after == n:
        what = f"a sequence to end with {labels[before]!r}"
    else:
        what = f"{labels[after]!r} after {labels[before]!r}"
    return f"transitions do not allow {what}, as y of sequence {sequence} has it"


def refuse_impossible(data: Sequences) -> None:
    """Raise if transitions allow no labelling of a sequence, which is then too short or too long."""
    table = data.universe.allowed
    if table is None:
        return
    lengths = np.diff(data.starts.astype(np.int64))
    possible, may_be = np.ones(lengths.max(initial=0) + 1, dtype=bool), table[-1, :-1]
    for m in range(1, len(possible)):
        possible[m] = (may_be & table[:-1, -1]).any()
        may_be = may_be @ table[:-1, :-1]
    impossible = ~possible[lengths]
    if impossible.any():
        j = int(impossible.argmax())
        raise ValueError(f"transitions allow no labelling of sequence {j}, which has {lengths[j]} token(s)")
