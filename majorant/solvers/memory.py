"""What the proximal solver remembers of the rows it has seen: the precision of a sequential Laplace approximation.

For each mini-batch b it solves argmin ½‖θ' − θ‖²_A + ℓ_b(θ'), then adds the Hessian of ℓ_b at the new point to A, as
far as the shape of A allows: whole, one block per class, or the diagonal. The solution is looked for among parameters
or among scores (``majorant.solvers.inner``), whichever are fewer.

==============  ==================  ========================================================
memory          curvature           best where
==============  ==================  ========================================================
``Whole``       Dense               a batch has at least d scores
``WholeByRow``  Growing             batches are small
``ByClass``     Block of Growing    d×d is too much, p×p is not; nearly as good
``ByColumn``    Diagonal            data are too wide for matrices
==============  ==================  ========================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from majorant._checks import Array
from majorant.curvature import Block, Curvature, Dense, Diagonal, Growing
from majorant.solvers.inner import solve_in_parameters, solve_in_scores

if TYPE_CHECKING:  # solvers call the surface of a model, whichever it is
    from majorant.models import RowModel
    from majorant.models.class_space import ClassModel


class Memory(ABC):
    """A positive definite precision A that grows with every mini-batch. Each visit makes a new one."""

    precision: Curvature
    level: ClassVar[int] = 1  # to scale steps by: that of a diagonal

    @abstractmethod
    def learn(self, model: Any, theta: Array, batches: Iterable[Any]) -> tuple[Array, Memory]:
        """Return parameters and memory after proximal steps on some mini-batches."""

    @abstractmethod
    def of(self, A: Array) -> Memory:
        """Return a memory of this kind of another precision, shaped as ``precision.compact()`` is."""

    @property
    def movable(self) -> bool:
        """Whether columns can be measured from elsewhere without a loss: a diagonal has nothing between them."""
        return True


@dataclass(frozen=True, eq=False)
class Whole(Memory):
    """A itself, d×d. The inner problem is solved for parameters."""

    precision: Dense
    classes: int = 1
    level: ClassVar[int] = 3  # that of the Hessian of some rows

    def learn(self, model: Any, theta: Array, batches: Iterable[Any]) -> tuple[Array, Memory]:
        """Step in parameter space."""
        A = self.precision.matrix
        for part in batches:
            complete, batch = model.completed(theta, part)
            theta = solve_in_parameters(complete, batch, theta, A, self.classes)
            A = A + complete.hessian_factors(complete.scores(theta, batch), batch).matrix()
        return theta, self.of(A)

    def of(self, A: Array) -> Memory:
        """Return the memory of another matrix."""
        return Whole(Dense(A, majorizes=False), self.classes)


@dataclass(frozen=True, eq=False)
class WholeByRow(Memory):
    """The whole A and its inverse, d×d. The inner problem is solved for scores."""

    precision: Growing
    level: ClassVar[int] = 3  # that of the Hessian of some rows

    def learn(self, model: Any, theta: Array, batches: Iterable[Any]) -> tuple[Array, Memory]:
        """Step in score space."""
        A = self.precision
        for part in batches:
            complete, batch = model.completed(theta, part)
            theta, A = self._step(complete, batch, theta, A)
        return theta, WholeByRow(A)

    @staticmethod
    def _step(model: RowModel[Any], batch: Any, theta: Array, A: Growing) -> tuple[Array, Growing]:
        Φ = model.score_rows(batch)
        V, G = A.through(Φ, lambda M: model.through(M, batch))
        scores = model.scores(theta, batch)
        a = solve_in_scores(model, batch, scores, G)
        u = scores.ravel() + G @ a
        Q, QM = (model.hessian_root_times(u, batch, rows) for rows in (Φ, V))
        growth = model.hessian_root_times(u, batch, model.hessian_root_times(u, batch, G).T)
        return theta + a @ V, A.grown(Q, QM, growth)

    def of(self, A: Array) -> Memory:
        """Return the memory of another matrix."""
        return WholeByRow(Growing(A, self.precision.classes))


@dataclass(frozen=True, eq=False)
class ByClass(Memory):
    """One p×p matrix A_c per class, with weights p_c(1 − p_c): n times cheaper than the whole, nearly as good.

    The inner problem still couples the classes.
    """

    precision: Block

    def learn(self, model: Any, theta: Array, batches: Iterable[Any]) -> tuple[Array, Memory]:
        """Step in score space, with a block-diagonal Gram matrix."""
        parts: Any = self.precision.parts
        for part in batches:
            complete, batch = model.completed(theta, part)
            theta, parts = self._step(complete, batch, theta, parts)
        return theta, ByClass(self.precision.with_parts(parts))

    @staticmethod
    def _step(
        model: ClassModel, batch: Any, theta: Array, parts: tuple[Growing, ...]
    ) -> tuple[Array, tuple[Growing, ...]]:
        X = model.design(batch).dense()
        through = [part.through(X, lambda M: X @ M) for part in parts]
        V, G = (np.stack(each) for each in zip(*through, strict=True))
        scores = model.scores(theta, batch)
        a = solve_in_scores(model, batch, scores, block_diagonal(G)).reshape(len(G), -1)
        root = np.sqrt(model.class_weights(scores + np.einsum("cij,cj->ci", G, a), batch))
        each = zip(parts, root[:, :, None], V, G, strict=True)
        grown = tuple(part.grown(r * X, r * v, r * g * r.T) for part, r, v, g in each)
        return theta + np.einsum("cj,cjp->cp", a, V).ravel(), grown

    def of(self, A: Array) -> Memory:
        """Return the memory of other blocks."""
        return ByClass(Block(tuple(Growing(part) for part in A)))


@dataclass(frozen=True, eq=False)
class ByColumn(Memory):
    """A diagonal A. Only the columns that occur in a batch are touched."""

    precision: Diagonal

    @property
    def movable(self) -> bool:
        """Return False."""
        return False

    def learn(self, model: Any, theta: Array, batches: Iterable[Any]) -> tuple[Array, Memory]:
        """Step in score space, on the columns that occur."""
        n = model.coefficient_rows
        A, W = self.precision.entries.reshape(n, -1).copy(), theta.reshape(n, -1).copy()
        for part in batches:
            complete, batch = model.completed(W.ravel(), part)
            self._step(complete, batch, W, A)
        return W.ravel(), self.of(A.ravel())

    @staticmethod
    def _step(model: ClassModel, batch: Any, W: Array, A: Array) -> None:
        """Change W and A in place: a batch may touch few of many columns."""
        X, columns = model.design(batch).occurring()
        V = X / A[:, columns][:, None]
        G = V @ X.T
        scores = model.scores(W.ravel(), batch)
        a = solve_in_scores(model, batch, scores, block_diagonal(G)).reshape(len(W), -1)
        weights = model.class_weights(scores + np.einsum("cij,cj->ci", G, a), batch)
        A[:, columns] += weights @ X**2
        W[:, columns] += np.einsum("cj,cjp->cp", a, V)

    def of(self, A: Array) -> Memory:
        """Return the memory of another diagonal."""
        return ByColumn(Diagonal(A, majorizes=False))


def block_diagonal(G: Array) -> Array:
    """Return the (n, m, m) blocks as one matrix."""
    n, m = G.shape[:2]
    if n == 1:
        return G[0]
    whole = np.zeros((n, m, n, m))
    whole[np.arange(n), :, np.arange(n), :] = G
    return whole.reshape(n * m, n * m)
