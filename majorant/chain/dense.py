"""Chains whose tokens have a row of a matrix each, such as embeddings, and perhaps attributes as well.

Every column has a weight with every label: these p×n weights W are the first of θ, column by column. Those of
attributes and transitions follow, as in any chain. State scores are XW plus those of attributes. They are kept, so that
a line search takes one product with X for the direction and one for the gradient.

**The metric of steps** (:class:`KroneckerWithBlock`). With XᵀX = Q diag(e) Qᵀ and S = Σ_t w_t (diag(p_t) − p_t p_tᵀ)/N
= R diag(σ) Rᵀ the Hessian of W is about XᵀX ⊗ S, whose inverse takes two products with Q and two with R, whatever the
ridge. One eigenvector of XᵀX is nearly the mean of the columns, a bias; bias and transitions are coupled through the
chain, which no Kronecker product has. Their block of the Hessian is found exactly, from some of the sequences
(``kernels.covariance``). S and the block are found anew every few steps, Q once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigh

from majorant.chain import kernels
from majorant.chain.feature_index import Universe
from majorant.chain.model import Chain, split_scores
from majorant.chain.sequences import Sequences
from majorant.core.checks import Array
from majorant.core.curvature import Factor, Factorize, Factors, Solve, steady_factor
from majorant.core.line_search import Point
from majorant.core.matrix import DenseDesign, Design
from majorant.core.model import Model
from majorant.core.objective import Objective
from majorant.core.preconditioners import LARGEST_GRAM, STEP, Level, Preconditioner
from majorant.core.rounding import Magnitudes
from majorant.core.threads import as_array, even_parts, mapped

# Tokens that threads take at a time.
TOKENS = 2**12
# Rows for each column, from which XᵀX is found at most.
ROWS_PER_COLUMN = 100
# Parts of a sample that threads take.
PARTS = 16
# Weights of the exact block at most. It is found from this share of the sequences, but from so many at least, and from
# no more than take so many operations.
LARGEST_BLOCK, SHARE, LEAST_SEQUENCES, OPERATIONS = 128, 0.2, 50, 4e8


@dataclass(frozen=True, eq=False)
class DenseSequences(Sequences):
    """Sequences whose tokens have a row of a matrix each, and attributes that may be none.

    Parameters
    ----------
    design : Design
        The matrix, a row for each token. Its columns are the first attributes of the universe, each with all labels.
    known : dict
        What was found of these rows, which copies in another precision share.
    """

    design: Design
    known: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def beside(cls, tokens: Sequences, design: Design) -> DenseSequences:
        """Return sequences with a row of the matrix for each of their tokens."""
        return cls(**{name: getattr(tokens, name) for name in Sequences.__dataclass_fields__}, design=design)

    @property
    def n_dense(self) -> int:
        """How many parameters columns have."""
        return self.design.shape[1] * self.universe.n

    def part(self, begin: int, end: int) -> DenseSequences:
        """Return sequences ``begin`` … ``end`` − 1, as views."""
        rows = slice(int(self.starts[begin]), int(self.starts[end]))
        return DenseSequences.beside(super().part(begin, end), self.design.part(rows))

    def take(self, rows: Array) -> DenseSequences:
        """Return a copy of the given sequences, in that order, repeats included."""
        lengths = np.diff(self.starts)[rows].astype(np.int64)
        ends = np.cumsum(lengths)
        first = self.starts[rows].astype(np.int64) - (ends - lengths)
        tokens = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first, lengths)
        return DenseSequences.beside(super().take(rows), self.design.part(tokens))

    def blocks(self, rows: int) -> tuple[Any, ...]:
        """Return the sequences in blocks; on a device all are one block, whose products are found piece by piece."""
        return (self,) if self.design.place is not None else super().blocks(rows)

    def widened(self) -> DenseSequences:
        """Return the same with the matrix in double precision."""
        return replace(self, design=self.design.widened())

    def narrowed(self) -> DenseSequences:
        """Return the same with the matrix in a lower precision, itself if there is none."""
        narrow = self.design.narrowed()
        return self if narrow is self.design else replace(self, design=narrow)

    def _identity(self) -> tuple[dict[str, Any], dict[str, list[Array]]]:
        facts, arrays = super()._identity()
        return facts, arrays | {"columns": [self.design.toarray()]}


class InSingle(Design):
    """An array in single precision that is multiplied in double precision, some rows at a time; by steps, as it is."""

    dtype = np.dtype(np.float64)

    def __init__(self, array: Array) -> None:
        self._array = array

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._array.shape[0], self._array.shape[1]

    @property
    def narrowing(self) -> int:
        """Numbers that a lower precision copies: none."""
        return 0

    def narrowed(self) -> Design:
        """Return the array as it is."""
        return DenseDesign(self._array)

    def widened(self) -> Design:
        """Return the same: products are in double precision."""
        return self

    def project(self, W: Array) -> Array:
        """Return W Xᵀ."""
        scores = np.empty((len(W), len(self._array)))
        for some in self.chunks():
            scores[:, some] = W @ self._array[some].astype(np.float64).T
        return scores

    def pull_back(self, R: Array) -> Array:
        """Return R X."""
        total = np.zeros((len(R), self.shape[1]))
        for some in self.chunks():
            total += R[:, some] @ self._array[some].astype(np.float64)
        return total

    def part(self, rows: slice | Array) -> Design:
        """Return some rows."""
        return InSingle(self._array[rows])

    def toarray(self) -> Array:
        """Return the array, in its own precision."""
        return self._array


@dataclass(frozen=True)
class DenseChain(Chain):
    """:class:`Chain` over tokens with a row of a matrix each.

    Examples
    --------
    >>> import numpy as np
    >>> import majorant
    >>> from majorant.chain.dense import DenseChain, dense_sequences
    >>> X = np.random.default_rng(0).normal(size=(30, 4))
    >>> y, starts = (X[:, 0] > 0).astype(np.int32), np.array([0, 10, 30])
    >>> data = dense_sequences(X, y, starts, n=2)
    >>> F = majorant.Objective(DenseChain(), data, ridge=1.0)
    >>> majorant.minimize(F, majorant.QuasiNewton()).result.converged
    True
    """

    keeps_scores: ClassVar[bool] = True

    def on_tensors(self) -> Model[Any]:
        """Return the model that does the same where rows are tensors."""
        from majorant.chain.tensors import TensorChain

        return TensorChain()

    def design(self, like: Sequences) -> Design:
        """Return the matrix."""
        return rows_of(like)

    def ascends(self, data: Any) -> bool:
        """Return False: ascent moves sparse attributes, and columns are in no metric of its own."""
        return False

    def learns_online(self) -> bool:
        """Return False: an online pass is far from the optimum where columns are correlated."""
        return False

    def block_rows(self, like: Sequences, rows: int) -> int:
        """Return a thirty-second of the sequences, but enough for so many tokens that a product is worth its call."""
        of_tokens = rows * TOKENS / max(like.n_tokens, 1)
        return int(max(-(-rows // 32), of_tokens, 1))

    def potentials(self, theta: Array, batch: Sequences) -> Array:
        """Return state scores and transition scores."""
        flat, X, n = super().potentials(theta, batch), rows_of(batch), batch.universe.n
        W = theta[: n * X.shape[1]].reshape(-1, n)
        split_scores(flat, batch)[0][:, :n] += X.project(np.ascontiguousarray(W.T)).T
        return flat

    def loss_and_gradient(self, theta: Array, batch: Sequences) -> tuple[float, Array]:
        """Return the loss and its gradient."""
        return self.evaluate(theta, batch)[0]

    def lift(self, residual: Array, batch: Sequences) -> Array:
        """Return the gradient."""
        gradient, X, n = super().lift(residual, batch), rows_of(batch), batch.universe.n
        R = np.ascontiguousarray(split_scores(residual, batch)[0][:, :n].T)
        gradient[: n * X.shape[1]] = X.pull_back(R).T.ravel()
        return gradient

    def hessian_diagonal(self, scores: Array, batch: Sequences) -> Array:
        """Return Σ_t x² p(1 − p), as if tokens were independent: to scale steps by."""
        entries, X, P = super().hessian_diagonal(scores, batch), rows_of(batch), self.marginals(scores, batch)
        P = P * (1 - P) if batch.weight is None else P * (1 - P) * batch.weight[:, None]
        entries[: P.shape[1] * X.shape[1]] = X.pull_back_squares(np.ascontiguousarray(P.T)).T.ravel()
        return entries

    def bound_factors(self, scores: Array, batch: Sequences) -> Factors:
        """Raise: the bound visits the scores of a token one after the other."""
        self._has_no("bound")

    def label_curvature(self, scores: Array, batch: Sequences) -> tuple[Array, Array]:
        """Return Σ_t w_t (diag(p_t) − p_t p_tᵀ), and a diagonal for attributes and transitions."""
        P = self.marginals(scores, batch)
        weighted = P if batch.weight is None else P * batch.weight[:, None]
        S = np.diag(weighted.sum(axis=0)) - weighted.T @ P
        return S, super().hessian_diagonal(scores, batch)[P.shape[1] * rows_of(batch).shape[1] :]

    def magnitudes(self, batch: Sequences) -> Magnitudes:
        """Return how large the numbers are that log Z and marginals are found from; columns are terms as well."""
        of_attributes, columns = super().magnitudes(batch), rows_of(batch).shape[1]
        longest = int(np.diff(batch.starts).max(initial=0))
        squares = float(np.square(self._sizes(batch)).sum()) * batch.universe.n
        norm = float(np.sqrt(of_attributes.norm**2 + squares))
        return replace(of_attributes, norm=norm, terms=of_attributes.terms + longest * columns)

    def column_squares(self, batch: Sequences) -> Array:
        """Return for each parameter the squares of what its feature may be in a sequence at most."""
        squares, sizes = super().column_squares(batch), self._sizes(batch)
        squares[: len(sizes) * batch.universe.n] = np.repeat(sizes**2, batch.universe.n)
        return squares

    @staticmethod
    def _sizes(batch: Sequences) -> Array:
        """Return a bound on the norm of Σ_t |x_t| over sequences: by Cauchy's inequality that of √T x."""
        lengths = np.diff(batch.starts).astype(np.int64)
        each = np.repeat(lengths, lengths).astype(np.float64)[None]
        return np.sqrt(np.maximum(as_array(rows_of(batch).pull_back_squares(each))[0], 0.0))

    def preconditioner(self, like: Sequences) -> Preconditioner | None:
        """Return the metric of steps, unless there are too many columns for a matrix of all their products."""
        return KroneckerWithBlock() if rows_of(like).shape[1] <= LARGEST_GRAM else None


def rows_of(batch: Sequences) -> Design:
    """Return the matrix of sequences that have one."""
    assert isinstance(batch, DenseSequences)
    return batch.design


def dense_sequences(
    X: Any, y: Array, starts: Array, n: int, *, weight: Array | None = None, steps: Array | None = None
) -> DenseSequences:
    """Return sequences of tokens that have a row of X each and no attributes; all steps are possible if not given."""
    design = X if isinstance(X, Design) else InSingle(X) if X.dtype == np.float32 else DenseDesign(X)
    steps = np.arange(n * n) if steps is None else steps
    universe = Universe.of(np.arange(design.shape[1] * n), steps, n, design.shape[1])
    indptr, none = np.zeros(len(y) + 1, np.uint32), np.empty(0, np.uint32)
    return DenseSequences.beside(Sequences.of(universe, starts, indptr, none, None, y, weight), design)


# --- the metric of steps ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KroneckerWithBlock(Preconditioner):
    """XᵀX ⊗ S in the eigenbasis of XᵀX, with the exact Hessian of its first eigenvector and of transitions."""

    name: ClassVar[str] = "a Gram matrix, and the Hessian of bias and transitions"
    level: ClassVar[int] = Level.GRAM

    def price(self, objective: Objective) -> tuple[float, float]:
        """Return that of a step."""
        return STEP, 0.0

    def at(self, objective: Objective, point: Point) -> Factorize:
        """Return the curvature at a point; what does not depend on it is found once for its data."""
        objective.spend(curvatures=1)
        data, model = objective.whole, objective.model
        assert isinstance(model, DenseChain)
        if "basis" not in data.known:
            data.known["basis"] = Basis.of(data)
        basis: Basis = data.known["basis"]
        S, diagonal = objective.blocks.total(model.label_curvature, objective.scores(point))
        of_steps = len(diagonal) - len(data.universe.transitions) + basis.steps
        block = basis.block(as_array(point.theta))
        return KroneckerBlock(basis.values, basis.Q, S / data.n_tokens, diagonal, block, of_steps).factorized


@dataclass(frozen=True, eq=False)
class Basis:
    """Eigenvectors Q and eigenvalues of XᵀX, in rising order, and the sequences that the exact block is found from."""

    values: Array
    Q: Array
    sample: DenseSequences
    x: Array  # tokens of the sample along the last eigenvector
    share: float  # of all tokens that are in the sample
    steps: Array  # which transitions are in the block

    @classmethod
    def of(cls, data: DenseSequences) -> Basis:
        """Return those of sequences."""
        columns, n, tokens = data.design.shape[1], data.universe.n, data.n_tokens
        rows = data.design.part(slice(None, None, max(tokens // (ROWS_PER_COLUMN * columns), 1)))
        gram = as_array(rows.gram(np.ones((1, 1, rows.shape[0])), np.float32)) * (tokens / rows.shape[0])
        values, Q = eigh(gram, driver="evd")

        # Of many transitions those that were observed most often are in the block.
        inner = data.inner_tokens()
        observed = np.bincount(data.y[inner - 1].astype(np.int64) * n + data.y[inner], minlength=n * n)
        often = np.argsort(-data.universe.from_matrix(observed.reshape(n, n)), kind="stable")
        steps = np.sort(often[: max(LARGEST_BLOCK - n, 0)])
        of_token = 8.0 * n * n * (n + len(steps))
        many = min(SHARE * len(data), OPERATIONS / of_token * len(data) / max(tokens, 1))
        sample = data.sample(int(max(many, LEAST_SEQUENCES)), seed=0)
        x = as_array(sample.design.project(np.ascontiguousarray(Q[:, -1:].T)))[0].astype(np.float64)
        return cls(np.maximum(values, 0.0), Q, sample, x, sample.n_tokens / tokens, steps)

    def block(self, theta: Array) -> Array:
        """Return the Hessian of the loss for the last eigenvector with every label, and for transitions."""
        data, n = self.sample, self.sample.universe.n
        X, rest = data.design, Chain().potentials(theta, data)
        U = split_scores(rest, data)[0][:, :n]
        W = theta[: data.n_dense].reshape(-1, n)
        U = U + as_array(X.project(np.ascontiguousarray(W.T))).T
        A, number = data.universe.transition_matrix(theta)[:n, :n], np.full((n, n), -1)
        before, after = data.universe.transitions[self.steps].T
        number[before, after] = n + np.arange(len(self.steps))
        first = data.starts[:-1][np.diff(data.starts) > 0]
        weight = np.zeros(len(data))
        weight[np.diff(data.starts) > 0] = 1.0 if data.weight is None else data.weight[first]
        U, E, size = np.ascontiguousarray(U), np.exp(A - A.max()), n + len(self.steps)

        def covariance(some: slice) -> Array:
            begin, end = data.starts[[some.start, some.stop]]
            H, starts = np.zeros((size, size)), data.starts[some.start : some.stop + 1].astype(np.int64) - begin
            kernels.covariance.add_covariance(
                U[begin:end], E, starts, weight[some], self.x[begin:end], number,
                kernels.covariance.room_for(starts, n, size), H,
            )  # fmt: skip
            return H

        H = sum(mapped(covariance, even_parts(len(data), PARTS)), np.zeros((size, size)))
        return 0.5 * (H + H.T) / self.share


@dataclass(frozen=True, eq=False)
class KroneckerBlock:
    """The metric at a point, without the data."""

    values: Array
    Q: Array
    S: Array
    diagonal: Array  # of attributes and transitions
    block: Array
    of_steps: Array  # which of these are in the block

    def factorized(self, ridge: Array) -> Solve:
        """Return the inverse for a ridge, of which columns have the mean."""
        n, n_dense = len(self.S), len(self.S) * len(self.values)
        λ, others = float(ridge[:n_dense].mean()), ridge[n_dense:]
        σ, R = eigh(self.S)
        H = self.block + np.diag(np.append(np.full(n, λ), others[self.of_steps]))
        H.flat[:: len(H) + 1] += 1e-10 * np.trace(H)
        curvature = self.values[:, None] * np.maximum(σ, 0.0) + λ
        return BlockSolve(self.Q, R, curvature, self.diagonal + others, self.of_steps, steady_factor(H))


@dataclass(frozen=True, eq=False)
class BlockSolve:
    """Its inverse as a function."""

    Q: Array
    R: Array
    curvature: Array  # of each eigenvector of columns with each of labels
    diagonal: Array
    of_steps: Array  # which of these are in the block
    block: Factor

    def __call__(self, b: Array) -> Array:
        """Return the solution."""
        return self.several(b[None])[0]

    def several(self, B: Array) -> Array:
        """Return the solutions of k rows: Q is read once for all of them."""
        (p, n), k = self.curvature.shape, len(B)
        of_columns = (self.Q.T @ B[:, : p * n].reshape(k, p, n).swapaxes(0, 1).reshape(p, k * n)).reshape(p, k, n)
        others = B[:, p * n :] / self.diagonal
        exact = self.block(np.column_stack([of_columns[-1], B[:, p * n :][:, self.of_steps]]).T).T
        solved = ((of_columns @ self.R) / self.curvature[:, None]) @ self.R.T
        solved[-1], others[:, self.of_steps] = exact[:, :n], exact[:, n:]
        back = (self.Q @ solved.reshape(p, k * n)).reshape(p, k, n).swapaxes(0, 1).reshape(k, p * n)
        return np.column_stack([back, others])
