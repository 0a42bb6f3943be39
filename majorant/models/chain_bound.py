"""The bound of Algorithm 1 over a chain, with one Σ shared by all states (erratum E4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from majorant import kernels
from majorant._checks import Array
from majorant.curvature import Factors
from majorant.curvature.base import FACTOR_BLOCK
from majorant.curvature.dense import refuse_large
from majorant.data.sequences import Sequences

# Bytes that the factors of one sequence may take.
LARGEST_FACTORS = 2**31


@dataclass(frozen=True, eq=False)
class ChainFactors(Factors):
    """Σ_j w_j Φ_jᵀ Q_jᵀ Q_j Φ_j: Q_j from the scores of a sequence alone, Φ_j its features.

    A score of a sequence is one of its (token, label) pairs or one of the label pairs of A. The sweep over a sequence
    of T tokens makes about T n² rows of T n + n² numbers, so this is for short sequences and few labels.
    """

    U: Array
    A: Array
    batch: Sequences
    majorizes: bool = True

    def __post_init__(self) -> None:
        refuse_long(self.batch)

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.batch.universe.size

    def matrix(self) -> Array:
        """Return Σ."""
        refuse_large(self.size, "a dense curvature")
        return sum((q.T @ q for q in self.rows()), np.zeros((self.size, self.size)))

    def rows(self) -> Iterator[Array]:
        """Yield √w Q_j Φ_j, a block of rows at a time."""
        for Q, Φ, weight in self._sequences():
            step = max(FACTOR_BLOCK // self.size, 1)
            for start in range(0, len(Q), step):
                yield np.sqrt(weight) * (Q[start : start + step] @ Φ)

    def diagonal(self) -> Array:
        """Return Σ |q| ‖q‖₁ with q = |Q_j| |Φ_j|, which is no less than with Q_j Φ_j: both factors are summed apart."""
        D = np.zeros(self.size)
        for Q, Φ, weight in self._sequences():
            size, magnitude = np.abs(Q), abs(Φ)
            D += weight * (magnitude.T @ (size.T @ (size @ (magnitude @ np.ones(self.size)))))
        return D

    def kronecker(self, weigh: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Raise: a chain has no such structure."""
        raise TypeError("Chain has no Kronecker curvature; use 'dense', 'low-rank' or 'diagonal'")

    def fixed(self) -> tuple[Array, Array]:
        """Raise: a chain has no such structure."""
        raise TypeError("Chain has no Böhning bound; use 'dense', 'low-rank' or 'diagonal'")

    def _sequences(self) -> Iterator[tuple[Array, Array, float]]:
        if not self.batch.even:
            raise ValueError("a bound over a chain needs weights that are the same for all tokens of a sequence")
        n, starts, weight = self.batch.universe.n, self.batch.starts, self.batch.weight
        A = np.ascontiguousarray(self.A[:n, :n])
        for j in range(len(self.batch)):
            if starts[j] < starts[j + 1]:
                U = np.ascontiguousarray(self.U[starts[j] : starts[j + 1], :n])
                yield (
                    kernels.chain_paths.bound_rows(U, A),
                    score_features(self.batch, j),
                    1.0 if weight is None else weight[starts[j]],
                )


def refuse_long(batch: Sequences) -> None:
    """Raise before factors are asked of a machine that cannot hold them."""
    n, T = batch.universe.n, int(np.diff(batch.starts).max(initial=0))
    size = 8 * (T * n * (n - 1)) * (T * n + n * n)
    if size > LARGEST_FACTORS:
        raise ValueError(
            f"the bound over a chain needs {size / 1e9:.0f} GB for a sequence of {T} tokens with {n} labels: "
            "choose another solver than 'bbm' or 'sbm', such as 'auto', or cut the sequences"
        )


def score_features(batch: Sequences, j: int):  # type: ignore[no-untyped-def]
    """Return Φ_j (scores × d), sparse: which parameters make up each score of sequence j."""
    import scipy.sparse as sp

    universe, one = batch.universe, batch.part(j, j + 1)
    n = universe.n
    token = np.repeat(np.arange(one.n_tokens), np.diff(one.indptr))
    value = np.ones(len(token)) if one.values is None else one.values
    first, last = universe.first[one.attributes].astype(np.int64), universe.first[one.attributes + 1].astype(np.int64)
    count = last - first
    parameter = np.repeat(first - np.concatenate([[0], np.cumsum(count)[:-1]]), count) + np.arange(count.sum())
    score = np.repeat(token, count) * n + universe.label[parameter]
    steps = one.n_tokens * n + universe.transitions[:, 0] * n + universe.transitions[:, 1]
    rows = np.concatenate([score, steps])
    columns = np.concatenate([parameter, np.arange(len(universe.label), universe.size)])
    values = np.concatenate([np.repeat(value, count), np.ones(len(steps))])
    return sp.csr_array((values, (rows, columns)), shape=(one.n_tokens * n + n * n, universe.size))
