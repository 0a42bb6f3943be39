"""Choices of people, read: who made which, and what is known of each person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from majorant._checks import Array, refuse_null_ending
from majorant.data.collapsing import Sample
from majorant.estimators.choice.basis import in_units, refuse_beyond, units
from majorant.estimators.choice.sets import Situations, named, refuse_missing
from majorant.models.latent_classes import Panel


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
        sets, T = in_units(self.panel.sample.sets, features)
        Z = self.panel.covariates[:, 1:]
        means = Z.mean(axis=0)
        of_known = units(np.abs(Z - means).max(axis=0, initial=0.0))
        M = np.diag(np.append(1.0, of_known))
        M[0, 1:] = -means * of_known
        covariates = np.column_stack([np.ones(len(Z)), (Z - means) * of_known])
        sample = replace(self.panel.sample, sets=sets)
        panel = replace(self.panel, sample=sample, covariates=covariates)
        return panel, np.ones(sets.n_features) if T is None else T, M


def read_people(
    table: Situations, y: Any, persons: Any, membership: Any, offset: Any, sample_weight: Any, covariates: Any = None
) -> People:
    """Return who chose what; situations of a person need not stand together. Who weighs nothing is left out."""
    ids = table.groups if persons is None else _read_persons(table, persons)
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
    """Return what is known of each row's person (rows × q), and names; none if nothing is given."""
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


def _read_persons(table: Situations, persons: Any) -> Array:
    refuse_null_ending("persons", persons)
    refuse_missing("persons", np.ravel(np.asarray(persons)), "who made each choice")
    return table.of_groups("persons", persons)


def _of_people(name: str, values: Array, first: Array, people: Array) -> Array:
    """Return values of situations that have to be the same for all of a person."""
    each = values[first]
    counts = np.diff(np.append(first, len(values)))
    unlike = values != np.repeat(each, counts, axis=0)
    unlike = unlike.any(axis=1) if unlike.ndim == 2 else unlike
    if unlike.any():
        who = named(np.repeat(people, counts)[int(unlike.argmax())])
        raise ValueError(f"{name} must be the same for all rows of a person, got several values for person {who}")
    return each
