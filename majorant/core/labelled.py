"""What problems over the same rows, or some of them, have in common whatever their labels: products of columns.

Rows x_j, each with a label out of a fixed set of classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from majorant.core.affine import Centre, joined, read_design, with_constant
from majorant.core.checks import Array, finite_array, row_weights
from majorant.core.kernels import Csr
from majorant.core.matrix import Design
from majorant.core.rows import InMemory


@dataclass(frozen=True, eq=False)
class MeanProducts:
    """The mean of x_j x_jᵀ.

    Parameters
    ----------
    gram : array or tensor of shape (p, p)
        Wherever the rows are.
    rows : float
        How many rows it was made from.
    centred : bool
        Whether columns are measured from their means: then it says how other rows vary around theirs.
    """

    gram: Any
    rows: float
    centred: bool


@dataclass(frozen=True, eq=False)
class CommonGram:
    """The mean of x_j x_jᵀ, in each precision in which it was asked for: who needs it first leaves it to the others."""

    known: dict[Any, MeanProducts] = field(default_factory=dict)

    def learn(self, dtype: Any, found: MeanProducts) -> None:
        """Keep what was found, unless that of more rows is known."""
        before = self.known.get(dtype)
        if before is None or before.rows <= found.rows:
            self.known[dtype] = found


@dataclass(frozen=True, eq=False, init=False)
class Labelled(InMemory):
    """Rows x_j with labels y_j in 0 … n−1, for :class:`~majorant.Multinomial` and :class:`~majorant.Binary`.

    Parameters
    ----------
    X : array, sparse matrix or Design of shape (t, p)
        float32 is kept, everything else becomes float64; sparse becomes CSR. See :class:`majorant.design.Design`.
    y : array of integers, shape (t,), or of floats, shape (t, n)
        Labels 0 … n−1, or a distribution over the classes for each row (soft labels).
    weight : array of shape (t,), optional
        Non-negative; a weight of 2 is the same as the row twice.
    offset : array of shape (t, n) or (t,), optional
        log h_j(y), added to the scores: (t, n) for ``Multinomial``, (t,) for ``Binary``. −∞ forbids a class.
    constant : bool
        Whether to add a last column of ones, for an intercept; X is not copied for it.
    center : bool or array of shape (p,)
        With a constant column: measure columns that are far from zero from their means, or all from what is given. The
        intercept is then that of the centred columns (``centre`` says where they are measured from). If it is not
        penalised this is the same problem, with far smaller rounding errors.

    Examples
    --------
    >>> data = Labelled([[1.0, 0.5], [1.0, -0.5]], [0, 2])
    >>> len(data), data.n_features
    (2, 2)
    """

    design: Design
    y: Array  # (t,), or class-major (n, t) if soft
    weight: Array | None
    offset: Array | None  # class-major, (n, t)
    constant: bool
    total: int  # rows of the data that these are some of
    soft: bool  # whether labels are distributions over classes
    n_features: int  # columns p
    common: CommonGram | None = None  # with other problems over the same rows

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        constant: bool = False,
        center: bool | ArrayLike | Centre = False,
    ) -> None:
        design = read_design("X", X)
        rows, labels, log_h = design.shape[0], np.asarray(y), None
        if rows == 0:
            raise ValueError("X must have at least one row")
        if center is not False and not constant:
            raise ValueError("center needs a constant column to take up what is subtracted: set constant=True")

        # Labels, or a distribution over classes for each row.
        if labels.ndim == 2:
            target = finite_array("y", labels, ndim=2).astype(np.float64)
            if len(target) != rows:
                raise ValueError(f"y must have one row per row of X ({rows}), got {len(target)}")
            if (target < 0).any() or np.abs(target.sum(axis=1) - 1).max() > 1e-6:
                raise ValueError("y with two dimensions must hold distributions: non-negative rows that sum to one")
            labels = np.ascontiguousarray((target / target.sum(axis=1, keepdims=True)).T)
        else:
            if labels.shape != (rows,):
                raise ValueError(f"y must have one label per row of X ({rows}), got an array of shape {labels.shape}")
            are_whole = labels.dtype.kind in "iub" or (
                labels.dtype.kind == "f" and np.isfinite(labels).all() and (labels == labels.round()).all()
            )
            if not are_whole:
                raise ValueError(
                    f"y must hold the class numbers 0 … n−1, got dtype {labels.dtype}; "
                    "encode labels first, e.g. classes, y = np.unique(labels, return_inverse=True)"
                )
            labels = labels.astype(np.intp)
            if labels.min() < 0:
                raise ValueError(f"y must hold the class numbers 0 … n−1, got {labels.min()}; encode −1/+1 as 0/1")

        if offset is not None:
            values = finite_array("offset", offset, ndim=(1, 2), allow="-inf").astype(np.float64)
            if len(values) != rows:
                raise ValueError(f"offset must have one row per row of X ({rows}), got {len(values)}")
            log_h = np.ascontiguousarray(values.reshape(rows, -1).T)
        weights = row_weights("weight", weight, rows)
        design = with_constant(design, weights, center) if constant else design
        beside = [None if each is None else design.beside(each) for each in (labels, weights, log_h)]
        self._store(design, *beside, constant, rows)

    def _store(self, design: Design, y: Any, *values: Any) -> None:
        """Set the attributes, in the order in which they stand above."""
        rest = zip(("weight", "offset", "constant", "total"), values, strict=True)
        vars(self).update(rest, design=design, y=y, soft=y.ndim == 2, n_features=design.shape[1])

    def __len__(self) -> int:
        return self.design.shape[0]

    @property
    def centre(self) -> Array | None:
        """Where columns are measured from, if not from zero."""
        return self.design.centre

    def class_totals(self, n: int) -> Array:
        """Return the weight of all rows of each of n classes."""
        if self.soft:
            return self.y.sum(axis=1) if self.weight is None else self.y @ self.weight
        return np.bincount(self.y, weights=self.weight, minlength=n).astype(np.float64)

    def with_rows(self, X: Array) -> Labelled:
        """Return the same labels, weights and offsets of other rows, which are measured from zero.

        Parameters
        ----------
        X : array of shape (t, q)

        Returns
        -------
        Labelled
        """
        design, other = read_design("X", X), object.__new__(Labelled)
        design = with_constant(design, self.weight, False) if self.constant else design
        other._store(design, self.y, self.weight, self.offset, self.constant, self.total)
        return other

    def part(self, begin: int, end: int) -> Labelled:
        """Return rows ``begin`` … ``end`` − 1, as views."""
        return self._with(self.design.part(slice(begin, end)), slice(begin, end))

    def _identity(self) -> tuple[dict[str, Any], dict[str, list[Array]]]:
        """Return facts about the rows, and the arrays that they are, which tell them from other rows."""
        design = self.design
        stored, centre = design.stored(), [] if design.centre is None else [design.centre]
        rows = design.toarray() if stored is None else stored.rows
        arrays = list(rows)[:3] if isinstance(rows, Csr) else [np.asarray(rows)]
        kind = f"{'sparse' if design.is_sparse else 'dense'} {design.dtype}"
        facts = {"number of columns": design.shape[1], "kind of numbers": kind}
        return facts, {"rows themselves": [*arrays, *centre]}

    def take(self, rows: Array) -> Labelled:
        """Return a copy of the given rows, in that order, repeats included."""
        return self._with(self.design.part(rows), rows)

    def here(self) -> Labelled:
        """Return the rows in the memory of this process, if they are on a device."""
        design = self.design.here()
        if design is self.design:
            return self
        other = object.__new__(Labelled)
        tensors: list[Any] = [self.y, self.weight, self.offset]
        other._store(
            design, *(each if each is None else each.cpu().numpy() for each in tensors), self.constant, self.total
        )
        return other

    def widened(self) -> Labelled:
        """Return the rows in double precision."""
        return self if self.design.dtype == np.float64 else self._with(self.design.widened(), slice(None))

    def narrowed(self) -> Labelled:
        """Return the rows in a lower precision, if there is one."""
        return self if self.design.narrowing is None else self._with(self.design.narrowed(), slice(None))

    def relabelled(self, y: Array) -> Labelled:
        """Return the rows with other labels: numbers, or distributions, class-major."""
        other = object.__new__(Labelled)
        other._store(self.design, y, self.weight, self.offset, self.constant, self.total)
        return other

    def reweighed(self, weight: Array) -> Labelled:
        """Return the rows with other weights, which are taken as they are."""
        other = object.__new__(Labelled)
        other._store(self.design, self.y, weight, self.offset, self.constant, self.total)
        return other

    def as_some_of(self, total: int) -> Labelled:
        """Return the rows as some of so many, which are not all here."""
        return self._with(self.design, slice(None), total)

    @staticmethod
    def joined(parts: Sequence[Labelled]) -> Labelled:
        """Return the rows of several parts, one after the other, as all there are."""
        rows, first, weights = sum(len(part) for part in parts), parts[0], None
        if any(part.weight is not None for part in parts):
            weights = np.concatenate([np.ones(len(part)) if part.weight is None else part.weight for part in parts])
        whole = object.__new__(Labelled)
        whole._store(
            joined([part.design for part in parts]),
            np.concatenate([part.y for part in parts], axis=-1),
            weights,
            None if first.offset is None else np.concatenate([part.offset for part in parts], axis=1),
            first.constant,
            rows,
        )
        return whole

    def _with(self, design: Design, rows: Any, total: int | None = None) -> Labelled:
        part = object.__new__(Labelled)
        part._store(
            design,
            self.y[..., rows],
            None if self.weight is None else self.weight[rows],
            None if self.offset is None else self.offset[:, rows],
            self.constant,
            self.total if total is None else total,
        )
        vars(part)["common"] = self.common
        return part


def with_common(data: Labelled, common: CommonGram | None) -> Labelled:
    """Return the same rows, which have products of columns in common with other problems, or not."""
    other = copy(data)
    vars(other)["common"] = common
    return other
