"""The bound of Algorithm 1 over a chain, with one Σ shared by all states (erratum E4): factors of its curvature."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from majorant.chain import kernels
from majorant.chain.sequences import Sequences
from majorant.core.checks import Array
from majorant.core.curvature import FACTOR_BLOCK, Factors, refuse_large

# Bytes that the factors of one sequence may take: two gigabytes.
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
        return self.batch.universe.size

    def matrix(self) -> Array:
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
        """Yield Q_j, Φ_j and the weight of each sequence that has tokens."""
        if not self.batch.even:
            raise ValueError("a bound over a chain needs weights that are the same for all tokens of a sequence")
        n, starts, weight = self.batch.universe.n, self.batch.starts, self.batch.weight
        A = np.ascontiguousarray(self.A[:n, :n])
        for j in range(len(self.batch)):
            begin, end = starts[j], starts[j + 1]
            if begin < end:
                U = np.ascontiguousarray(self.U[begin:end, :n])
                of_sequence = 1.0 if weight is None else weight[begin]
                yield kernels.paths.bound_rows(U, A), score_features(self.batch, j), of_sequence


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
    n, attributes, values = universe.n, one.attributes, one.values
    token = np.repeat(np.arange(one.n_tokens), np.diff(one.indptr))
    value = np.ones(len(token)) if values is None else values
    first = universe.first[attributes].astype(np.int64)
    count = universe.first[attributes + 1].astype(np.int64) - first
    parameter = np.repeat(first - np.concatenate([[0], np.cumsum(count)[:-1]]), count) + np.arange(count.sum())
    score = np.repeat(token, count) * n + universe.label[parameter]
    rows = np.concatenate([score, one.n_tokens * n + universe.steps])
    columns = np.concatenate([parameter, np.arange(len(universe.label), universe.size)])
    entries = np.concatenate([np.repeat(value, count), np.ones(len(universe.steps))])
    return sp.csr_array((entries, (rows, columns)), shape=(one.n_tokens * n + n * n, universe.size))
