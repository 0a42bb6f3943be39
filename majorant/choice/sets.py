"""Choice sets in long format, one row for each available alternative, and panels: the choices of each person.

Every refusal names the group and the column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

from majorant.choice.basis import in_units, refuse_beyond, units
from majorant.choice.latent_classes import NEGLIGIBLE, Panel
from majorant.core.checks import Array, refuse_null_ending
from majorant.core.choices import Choices, Sample
from majorant.core.matrix import CsrDesign, DenseDesign


@dataclass(frozen=True, eq=False)
class Situations:
    """Rows of choice situations, situation by situation.

    ``order`` says where each row stood; ``groups`` names the situations, in the order in which they stand here.
    """

    X: Any
    order: Array | None
    sizes: Array
    groups: Array

    @classmethod
    def read(cls, estimator: Any, X: Any, groups: Any, *, reset: bool) -> Situations:
        """Return the rows sorted by group; a group need not stand together."""
        X = validate_data(
            estimator,
            X,
            accept_sparse="csr",
            dtype=np.float64,  # in single precision gradients do not reach the default tolerance
            order="C",
            ensure_all_finite=False,
            reset=reset,
        )
        return cls.arranged(X, groups, getattr(estimator, "feature_names_in_", None))

    @classmethod
    def arranged(cls, X: Any, groups: Any, names: Any = None) -> Situations:
        """Return rows, whose columns may have names, sorted by group."""
        if groups is None:
            raise ValueError("groups must name the choice situation of each row, got None: fit(X, y, groups)")
        refuse_null_ending("groups", groups)
        values = np.asarray(groups)
        if values.shape != (X.shape[0],):
            raise ValueError(f"groups must have one entry per row of X ({X.shape[0]}), got shape {values.shape}")
        refuse_missing("groups", values, "the choice situation of each row")
        _refuse_non_finite(X, names, values)
        if values.dtype != object and (values[1:] >= values[:-1]).all():
            starts = np.concatenate(([0], np.flatnonzero(values[1:] != values[:-1]) + 1))
            return cls(X, None, np.diff(starts, append=len(values)), values[starts])
        try:
            ids, numbers = np.unique(values, return_inverse=True)
        except TypeError:
            raise ValueError("groups must be of one type, such as numbers or strings, got a mixture") from None
        order = None if (np.diff(numbers) >= 0).all() else np.argsort(numbers, kind="stable")
        return cls(X if order is None else X[order], order, np.bincount(numbers), ids)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.sizes.sum())

    @property
    def starts(self) -> Array:
        """The first row of each situation."""
        return np.concatenate(([0], np.cumsum(self.sizes)[:-1]))

    def sorted(self, values: Array) -> Array:
        """Return values of rows as the rows stand here."""
        return values if self.order is None else values[self.order]

    def as_given(self, values: Array) -> Array:
        """Return values of rows as the rows stood."""
        if self.order is None:
            return values
        back = np.empty_like(values)
        back[self.order] = values
        return back

    def choices(self, y: Any, offset: Any, sample_weight: Any) -> Choices:
        """Return the choices, checked."""
        if y is None:
            raise ValueError("y must say which row of each group was chosen (1 or True, 0 for the others), got None")
        flags = _numbers("y", y, self.rows)
        bad = ~((flags >= 0) & (flags <= 1))
        if bad.any():
            row, missing = int(np.argmax(bad)), np.isnan(flags)
            if missing.any():
                got = f"(1, else 0), got a missing value at row {missing.argmax()}"
            else:
                got = f"(1, else 0) or hold shares, got {flags[row]} at row {row}"
            raise ValueError(f"y must flag the chosen row of each group {got}")
        target, log_h = self.sorted(flags), self.read_offset(offset)
        sums = np.add.reduceat(target, self.starts)
        none, wrong = np.flatnonzero(sums == 0), np.flatnonzero(np.abs(sums - 1.0) > NEGLIGIBLE)
        if len(wrong):  # groups without a chosen row first
            which = none if len(none) else wrong
            count = np.count_nonzero(target[self.starts[which[0]] :][: self.sizes[which[0]]])
            what = f"has {count} chosen rows (y sums to {sums[which[0]]:g})" if count else "has no chosen row"
            more = f" (and {len(which) - 1} more)" if len(which) > 1 else ""
            raise ValueError(
                f"group {named(self.groups[which[0]])} {what}{more}: y has to be 1 at exactly one of its rows, or "
                "shares that sum to one"
            )
        if log_h is not None and (target[np.isneginf(log_h)] > 0).any():
            row = int(np.argmax((target > 0) & np.isneginf(log_h)))
            raise ValueError(
                f"group {named(self.sorted_ids[row])} chose an alternative that is not available: its offset is -inf"
            )
        weight = None if sample_weight is None else self.read_weight(sample_weight)
        return Choices(self.design(), self.sizes, target=target, weight=weight, log_measure=log_h)

    def unobserved(self, offset: Any) -> Choices:
        """Return the sets, of which nothing is known to be chosen; targets are even."""
        log_h = self.read_offset(offset)
        possible = np.ones(self.rows) if log_h is None else (log_h > -np.inf).astype(float)
        per_set = np.add.reduceat(possible, self.starts)
        if not per_set.all():
            group = self.groups[int(np.argmin(per_set))]
            raise ValueError(f"offset must leave an alternative possible: all are -inf in group {named(group)}")
        return Choices(self.design(), self.sizes, target=possible / np.repeat(per_set, self.sizes), log_measure=log_h)

    def design(self) -> Any:
        """Return the rows as a design; they were looked through already."""
        if not issparse(self.X):
            return DenseDesign(np.ascontiguousarray(self.X))
        csr = self.X.tocsr()
        csr.sum_duplicates()
        return CsrDesign(csr)

    @property
    def sorted_ids(self) -> Array:
        """The group of each row, as rows stand here."""
        return np.repeat(self.groups, self.sizes)

    def read_offset(self, offset: Any) -> Array | None:
        """Return one number for each row, -inf for an alternative that cannot be chosen."""
        if offset is None:
            return None
        values = self.sorted(_numbers("offset", offset, self.rows))
        if np.isnan(values).any() or np.isposinf(values).any():
            group = self.sorted_ids[int(np.argmax(np.isnan(values) | np.isposinf(values)))]
            raise ValueError(
                f"offset must be finite, or -inf where an alternative is not available: see group {named(group)}"
            )
        return values

    def read_weight(self, sample_weight: Any) -> Array:
        """Return the weight of each group."""
        weights = _numbers("sample_weight", sample_weight, self.rows)
        if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
            raise ValueError(
                "sample_weight must be non-negative, finite and not zero everywhere, "
                f"got numbers from {weights.min():g} to {weights.max():g}"
            )
        return self.of_groups("sample_weight", weights)

    def of_groups(self, name: str, values: Any) -> Array:
        """Return values of rows that have to be the same within each group, one for each group."""
        of_rows = self.sorted(np.asarray(values))
        if of_rows.shape[:1] != (self.rows,):
            raise ValueError(f"{name} must have one entry per row ({self.rows}), got shape {of_rows.shape}")
        first = of_rows[self.starts]
        unlike = of_rows != np.repeat(first, self.sizes, axis=0)
        unlike = unlike.any(axis=1) if unlike.ndim == 2 else unlike
        if unlike.any():
            group = self.sorted_ids[int(np.argmax(unlike))]
            raise ValueError(
                f"{name} must be the same for all rows of a group, got several values in group {named(group)}"
            )
        return first


def refuse_nothing_to_choose(sets: Choices) -> None:
    """Refuse to fit to groups of one available alternative each; some of them are taken, and change nothing."""
    log_h = sets.log_measure
    open_ = sets.sizes if log_h is None else np.add.reduceat((log_h > -np.inf).astype(int), sets.indptr[:-1])
    if (open_ < 2).all():
        raise ValueError("every group has one available alternative only: there is nothing to choose")


def flagged_largest(p: Array, starts: Array, sizes: Array) -> Array:
    """Return 1 for the first of the largest numbers of each group, and 0 for the others."""
    is_largest = p == np.repeat(np.maximum.reduceat(p, starts), sizes)
    place = np.where(is_largest, np.arange(len(p)), len(p))
    flags = np.zeros(len(p), dtype=int)
    flags[np.minimum.reduceat(place, starts)] = 1
    return flags


def named(value: Any) -> str:
    """Return a group, or whatever else, as Python would write it."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def is_missing(values: Array) -> Array:
    """Return a mask of the missing ones among names."""
    if values.dtype != object:
        return values != values if values.dtype.kind in "fcmM" else np.zeros(len(values), dtype=bool)
    # NaN is unlike itself; what is missing in pandas compares neither as equal nor as unlike.
    unlike = (value is None or value != value for value in values)
    return np.array([not isinstance(answer, bool | np.bool_) or bool(answer) for answer in unlike], dtype=bool)


def refuse_missing(name: str, values: Array, what: str, unit: str = "row") -> None:
    """Refuse names of which some are missing."""
    absent = is_missing(values)
    if absent.any():
        raise ValueError(f"{name} must name {what}, got a missing value at {unit} {absent.argmax()}")


def _numbers(name: str, values: Any, rows: int) -> Array:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"{name} must be numeric: {problem}") from None
    if array.shape != (rows,):
        raise ValueError(f"{name} must have one entry per row of X ({rows}), got shape {array.shape}")
    return array


def _refuse_non_finite(X: Any, names: Any, groups: Array) -> None:
    values = X.data if issparse(X) else X
    if np.isfinite(values.sum(dtype=np.float64)) or np.isfinite(values).all():
        return
    if issparse(X):
        at = int(np.argmin(np.isfinite(values)))
        row, column, value = int(np.searchsorted(X.indptr, at, side="right") - 1), int(X.indices[at]), values[at]
    else:
        row, column = (int(i) for i in np.argwhere(~np.isfinite(X))[0])
        value = X[row, column]
    name = repr(str(names[column])) if names is not None else str(column)
    raise ValueError(
        f"X must be finite: Input X contains NaN or infinity: got {value} in column {name} at row {row} "
        f"(group {named(groups[row])})"
    )


@dataclass(frozen=True, eq=False)
class People:
    """A panel, and the names of the people and of what is known of them."""

    panel: Panel
    names: Array
    covariates: list[str]
    situations: int

    def in_units(self, features: Sequence[str]) -> tuple[Panel, Array, Array]:
        """Return the panel with columns XT and covariates ZM of about one, T as a vector, and M as a matrix.

        Covariates are centred as well, which changes nothing but the constants of membership.
        """
        sets, T = in_units(self.panel.choices.sets, features)
        Z = self.panel.covariates[:, 1:]
        means = Z.mean(axis=0)
        of_known = units(np.abs(Z - means).max(axis=0, initial=0.0))
        M = np.diag(np.append(1.0, of_known))
        M[0, 1:] = -means * of_known
        covariates = np.column_stack([np.ones(len(Z)), (Z - means) * of_known])
        sample = replace(self.panel.choices, sets=sets)
        panel = replace(self.panel, choices=sample, covariates=covariates)
        return panel, np.ones(sets.n_features) if T is None else T, M


def read_people(
    table: Situations, y: Any, persons: Any, membership: Any, offset: Any, sample_weight: Any, covariates: Any = None
) -> People:
    """Return who chose what; situations of a person need not stand together. Who weighs nothing is left out."""
    ids = table.groups
    if persons is not None:
        refuse_null_ending("persons", persons)
        refuse_missing("persons", np.ravel(np.asarray(persons)), "who made each choice")
        ids = table.of_groups("persons", persons)
    weight = None if sample_weight is None else table.read_weight(sample_weight)
    data = table.choices(y, offset, None)
    Z, names = read_covariates(membership, table.rows, covariates)
    of_situation = table.of_groups("membership", Z)
    order, (people, first) = np.argsort(ids, kind="stable"), np.unique(np.sort(ids, kind="stable"), return_index=True)
    if weight is not None:
        order = order[weight[order] > 0]
        people, first = np.unique(ids[order], return_index=True)
    z = _of_people("membership", of_situation[order], first, people)
    w = np.ones(len(people)) if weight is None else _of_people("sample_weight", weight[order], first, people)
    sample = Sample.of(data.take(order))
    return People(Panel(sample, first, w, np.column_stack([np.ones(len(z)), z])), people, names, len(order))


def read_covariates(membership: Any, rows: int, known: list[str] | None) -> tuple[Array, list[str]]:
    """Return the covariates of each row's person (rows × q), and their names; none if nothing is given."""
    if membership is None:
        if known:
            raise ValueError(f"membership must be given as in the fit: {', '.join(known)}")
        return np.zeros((rows, 0)), []
    names = [str(name) for name in membership.columns] if hasattr(membership, "columns") else None
    try:
        Z = np.asarray(membership, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"membership must be numeric: {problem}") from None
    Z = Z[:, None] if Z.ndim == 1 else Z
    if Z.ndim != 2 or len(Z) != rows or not np.isfinite(Z).all():
        raise ValueError(
            f"membership must hold finite numbers, one row for each row of X ({rows}), got shape {Z.shape}"
        )
    numbered = [f"z{i}" for i in range(Z.shape[1])]
    if known is None:
        return Z, numbered if names is None else names
    if len(known) != Z.shape[1]:
        raise ValueError(f"membership must have the {len(known)} columns of the fit, got {Z.shape[1]}")
    if names is not None and known not in (names, numbered):  # a fit to an array knows no names
        raise ValueError(f"membership must have the columns of the fit in their order, {known}, got {names}")
    return Z, known


def refuse_constant(people: People) -> None:
    """Refuse what is known of people if it is the same for all, or follows from the rest."""
    Z = people.panel.covariates
    for column, name in enumerate(people.covariates, start=1):
        if np.ptp(Z[:, column]) == 0:
            raise ValueError(
                f"membership column {name!r} is the same for all people: constants are there anyway; drop it"
            )
    refuse_beyond(np.abs(Z[:, 1:]).max(axis=0, initial=0.0), people.covariates, "membership column")
    centred = Z[:, 1:] - Z[:, 1:].mean(axis=0)
    scaled = centred / np.abs(centred).max(axis=0)
    if Z.shape[1] > 1 and np.linalg.matrix_rank(scaled) < Z.shape[1] - 1:
        raise ValueError(f"membership columns are collinear: drop one of {', '.join(people.covariates)}")


def _of_people(name: str, values: Array, first: Array, people: Array) -> Array:
    """Return values of situations that have to be the same for all of a person."""
    of_people = values[first]
    counts = np.diff(np.append(first, len(values)))
    unlike = values != np.repeat(of_people, counts, axis=0)
    unlike = unlike.any(axis=1) if unlike.ndim == 2 else unlike
    if unlike.any():
        who = named(np.repeat(people, counts)[int(unlike.argmax())])
        raise ValueError(f"{name} must be the same for all rows of a person, got several values for person {who}")
    return of_people
