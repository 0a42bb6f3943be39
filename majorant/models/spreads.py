"""How far apart the outcomes of a row are: max over j, y, y' of ‖Rᵀ(f_j(y) − f_j(y'))‖, which self-concordance needs.

Of several outcomes distances from their mean are found, and the two largest are added up: at most twice the truth, and
the truth of two outcomes. What is coarse takes every column for itself, Σ_i |f_i| ‖R_i‖, and a product with a vector
instead of a matrix.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from majorant._checks import Array
from majorant.data import Choices, Labelled

# Numbers of R-scaled rows that are written out at a time: they stay in cache.
CHUNK = 2**16


class Spreads(ABC):
    """The largest distance between outcomes of a row that counts, in the metric of a root R (d×k)."""

    @abstractmethod
    def exact(self, batch: Labelled | Choices) -> float:
        """Return it, or the two largest distances from the mean of more than two outcomes."""

    @abstractmethod
    def coarse(self, batch: Labelled | Choices) -> float:
        """Return an upper bound that takes about a pass over the rows."""


@dataclass(frozen=True, eq=False)
class ClassSpreads(Spreads):
    """Those of f(x, y) = e_y ⊗ x: one root for each class, less the mean of all, or one alone against zero."""

    roots: tuple[Array, ...]  # each p×k

    @classmethod
    def of(cls, root: Array, classes: int) -> ClassSpreads:
        """Return those of a root (np×k)."""
        if classes == 1:
            return cls((root,))
        by_class = root.reshape(classes, len(root) // classes, root.shape[1])
        return cls(tuple(by_class - by_class.mean(axis=0)))

    def exact(self, batch: Labelled) -> float:  # type: ignore[override]
        """Return the sum of the two largest ‖R_cᵀx‖ of a row, or the largest where there is one."""
        stored, roots = int(batch.design.density * batch.n_features), self.triangles
        width = max(max(root.shape[1] for root in roots), stored, 1)
        largest = 0.0
        for some in _slices(len(batch), CHUNK // width):
            design = batch.design.part(some)
            squares = np.stack([_squared_norms(design.project(root.T)) for root in roots])
            largest = max(largest, _largest(np.sqrt(squares), None if batch.weight is None else batch.weight[some]))
        return largest

    @cached_property
    def triangles(self) -> tuple[Array, ...]:
        """T_c of R_cᵀ = QT_c, with ‖R_cᵀx‖ = ‖T_c x‖: no more than p columns, and not np."""
        return self.roots if len(self.roots) == 1 else tuple(_triangle(each) for each in self.roots)

    def coarse(self, batch: Labelled) -> float:  # type: ignore[override]
        """Return the same of Σ_i |x_i| ‖R_ci‖."""
        sizes = np.stack([np.linalg.norm(root, axis=1) for root in self.roots])
        return _largest(batch.design.absolute()[0].project(sizes), batch.weight)


@dataclass(frozen=True, eq=False)
class ChoiceSpreads(Spreads):
    """Those of outcomes that are written out."""

    root: Array  # d×k

    def exact(self, batch: Choices) -> float:  # type: ignore[override]
        """Return the sum of the two largest distances from the mean of a set."""
        return max((self._exact(part) for part in self._parts(batch, self.root.shape[1])), default=0.0)

    def coarse(self, batch: Choices) -> float:  # type: ignore[override]
        """Return the largest Σ_i (max_y f_i − min_y f_i) ‖R_i‖."""
        return max((self._coarse(part) for part in self._parts(batch, self.root.shape[0])), default=0.0)

    def _exact(self, batch: Choices) -> float:
        V, possible = batch.design.times(self.root), _possible(batch)
        counts = np.maximum(np.add.reduceat(possible.astype(np.float64), batch.indptr[:-1]), 1.0)
        means = np.add.reduceat(np.where(possible[:, None], V, 0.0), batch.indptr[:-1]) / counts[:, None]
        off = np.sqrt(np.square(V - np.repeat(means, batch.sizes, axis=0)).sum(axis=1))
        off[~possible] = 0.0
        weight = batch.weight
        return max(
            _largest(off[at], None if weight is None else weight[sets], against_zero=False)
            for sets, at in batch.by_size
        )

    def _coarse(self, batch: Choices) -> float:
        X, sizes, whole = batch.design.dense(), np.linalg.norm(self.root, axis=1), batch.log_measure is None
        possible = _possible(batch)
        largest = 0.0
        for sets, at in batch.by_size:  # which is faster than reductions over sets of any size
            F, closed = X[at], None if whole else ~possible[at][:, :, None]
            highest = (F if closed is None else np.where(closed, -np.inf, F)).max(axis=0)
            lowest = (F if closed is None else np.where(closed, np.inf, F)).min(axis=0)
            weight = None if batch.weight is None else batch.weight[sets]
            largest = max(largest, _largest(((highest - lowest) @ sizes)[None], weight))
        return largest

    @staticmethod
    def _parts(batch: Choices, width: int) -> Iterator[Choices]:
        per_set = max(int(batch.indptr[-1]) * max(width, 1) // len(batch), 1)
        return iter(batch.batches(max(CHUNK // per_set, 1)))


def _possible(batch: Choices) -> Array:
    if batch.log_measure is None:
        return np.ones(int(batch.indptr[-1]), dtype=bool)
    return ~np.isneginf(batch.log_measure)


def _largest(distances: Array, weight: Array | None, *, against_zero: bool = True) -> float:
    """Return the largest sum of the two largest distances of a row that counts; one alone stands against zero."""
    if len(distances) == 1:
        each = distances[0] if against_zero else np.zeros(distances.shape[1])
    else:
        each = np.partition(distances, -2, axis=0)[-2:].sum(axis=0)
    return float((each if weight is None else each[weight > 0]).max(initial=0.0))


def _slices(rows: int, step: int) -> Iterator[slice]:
    step = max(step, 128)
    return (slice(start, start + step) for start in range(0, rows, step))


def _squared_norms(columns: Array) -> Array:
    return np.einsum("ij,ij->j", columns, columns)


def _triangle(root: Array) -> Array:
    if not root.shape[1]:
        return root
    R: Array = np.linalg.qr(root.T, mode="r")  # type: ignore[assignment]
    return R.T
