"""The table of problems that models and solvers are tested on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from majorant import Binary, Chain, Choices, Enumerated, Labelled, Multinomial, Objective, datasets
from majorant.chain.feature_index import Universe
from majorant.core.model import RowModel
from majorant.core.rows import LocalBlocks
from majorant.data import Sequences
from majorant.objective import Reducer


def design(rng, t=60, p=4):
    return np.column_stack([rng.normal(size=(t, p - 1)), np.ones(t)])


def binary(rng):
    X = design(rng)
    return Binary(), Labelled(X, (X[:, 0] + rng.logistic(size=60) > 0).astype(int)), 0.5


def binary_everything(rng):
    X = design(rng)
    y = (X[:, 0] + rng.logistic(size=60) > 0).astype(int)
    return Binary(), Labelled(sp.csr_array(X), y, rng.integers(0, 4, size=60), rng.normal(size=60)), 2.0


def two_rows(rng):
    X = design(rng)
    return Multinomial(2), Labelled(X, rng.integers(0, 2, size=60)), 1.0


def multinomial(rng):
    X = design(rng)
    return Multinomial(4), Labelled(X, rng.integers(0, 4, size=60)), 0.1


def multinomial_everything(rng):
    X = design(rng) * (rng.uniform(size=(60, 4)) < 0.4)
    y = rng.integers(0, 3, size=60)
    offset = rng.normal(size=(60, 3))
    offset[np.arange(60), (y + 1) % 3] = np.where(rng.uniform(size=60) < 0.3, -np.inf, 0.0)
    weight = rng.exponential(size=60)
    return Multinomial(3), Labelled(sp.csr_matrix(X), y, weight, offset), np.array([1.0, 2, 0.5, 0.1] * 3)


def binary_soft(rng):
    X, p = design(rng), rng.uniform(size=60)
    return Binary(), Labelled(X, np.column_stack([1 - p, p]), offset=rng.normal(size=60), constant=True), 1.0


def multinomial_soft(rng):
    X, target = design(rng), rng.dirichlet(np.ones(3), size=60)
    offset = np.zeros((60, 3))
    target[:9] = [0.0, 0.3, 0.7]
    offset[:9, 0] = -np.inf
    return Multinomial(3), Labelled(X, target, rng.exponential(size=60), offset), 0.5


def conditional_logit(rng):
    sizes = rng.integers(1, 6, size=40)
    F = rng.normal(size=(sizes.sum(), 5))
    return Enumerated(), Choices(F, sizes, chosen=rng.integers(0, sizes)), 0.3


def enumerated_everything(rng):
    sizes = rng.integers(2, 6, size=40)
    F = rng.normal(size=(sizes.sum(), 5)) * (rng.uniform(size=(sizes.sum(), 5)) < 0.5)
    chosen = rng.integers(0, sizes)
    log_h = rng.normal(size=sizes.sum())
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    log_h[starts + (chosen + 1) % sizes] = -np.inf
    return Enumerated(), Choices(sp.csr_array(F), sizes, chosen, None, rng.exponential(size=40), log_h), 1.0


def maximum_entropy(rng):
    F = rng.normal(size=(30, 4))
    return Enumerated(), Choices(F, [30], target=rng.dirichlet(np.ones(30)), weight=[50.0]), 0.05


def sequences(n=3, lengths=(4, 1, 0, 3), attributes=5, seed=0, *, values=False, weights=False, share=1.0):
    """Random sequences; a share of all pairs of attribute and label has a parameter."""
    rng = np.random.default_rng(seed)
    tokens = sum(lengths)
    counts = rng.integers(0, attributes, size=tokens)
    of_token = [np.sort(rng.choice(attributes, size=c, replace=False)) for c in counts]
    y = rng.integers(0, n, size=tokens).astype(np.int32)
    pairs = np.flatnonzero(rng.uniform(size=attributes * n) <= share)
    steps = np.flatnonzero(rng.uniform(size=n * n) <= max(share, 0.5))
    universe = Universe.of(pairs, steps, n, attributes)
    flat = np.concatenate([*of_token, np.empty(0, dtype=int)]).astype(np.uint32)
    return Sequences.of(
        universe,
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32),
        universe.number[flat],
        rng.normal(size=len(flat)) if values else None,
        y,
        np.repeat(rng.uniform(0.2, 2.0, size=len(lengths)), lengths) if weights else None,
    )


def chain(rng):
    return Chain(), sequences(lengths=(4, 1, 0, 3, 2), seed=rng), 0.5


def chain_everything(rng):
    return Chain(), sequences(2, (5, 2, 3, 1, 4), seed=rng, values=True, weights=True, share=0.6), 0.2


def ecoli(rng):
    X, y = datasets.load("ecoli")
    return Multinomial(8), Labelled(X, y), 1.0


MAKERS = [
    binary,
    binary_everything,
    two_rows,
    multinomial,
    multinomial_everything,
    binary_soft,
    multinomial_soft,
    conditional_logit,
    enumerated_everything,
    maximum_entropy,
    chain,
    chain_everything,
]


def _writes_rows_out(maker):
    return isinstance(maker(np.random.default_rng(0))[0], RowModel)


# Those whose rows have few enough outcomes to be written out, as a Hessian and stochastic solvers need.
ROW_MAKERS = [maker for maker in MAKERS if _writes_rows_out(maker)]


@dataclass(frozen=True)
class InBlocks(Reducer):
    """Blocks of so many rows, whatever the model would like."""

    rows: int

    def spread(self, data, rows):
        return LocalBlocks(data.blocks(self.rows))


def make(maker, seed=0, **settings):
    model, data, ridge = maker(np.random.default_rng(seed))
    return Objective(model, data, ridge=ridge, **settings)


every_problem = pytest.mark.parametrize("maker", MAKERS, ids=lambda m: m.__name__)
every_row_problem = pytest.mark.parametrize("maker", ROW_MAKERS, ids=lambda m: m.__name__)


def shared_data(relative):
    """Return a path under MAJORANT_DATA, or skip."""
    root = os.environ.get("MAJORANT_DATA")
    if not root or not (Path(root) / relative).exists():
        pytest.skip(f"MAJORANT_DATA does not hold {relative}")
    return Path(root) / relative
