"""Sequences that people give as matrices: a row of numbers for each token, and perhaps attributes beside it.

A sequence is an array or a tensor of shape (tokens, columns), or a pair of one and a list of tokens with attributes.
With ``lengths`` all sequences are one matrix. The weights are those of attributes 0, 1, … with these values: only how
weights and scores are found is another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np

from majorant.chain.dense import DenseSequences, InSingle
from majorant.chain.feature_index import Universe
from majorant.chain.features import (
    Weights,
    by_lengths,
    label_names,
    observed_pairs,
    read_sequences,
    sequences,
    token_weights,
)
from majorant.chain.model import split_scores
from majorant.chain.sequences import Sequences
from majorant.chain.source import Prepared
from majorant.chain.tokens import Tokens, Vocabulary, is_matrix, is_pair
from majorant.core.checks import Array, refuse_null_ending
from majorant.core.matrix import DenseDesign, Design
from majorant.core.threads import as_array
from majorant.device.estimators import is_tensor, refuse_non_finite, to_array

# Arrays of which a larger share is zero are read as attributes: most of their columns say nothing of most labels.
MOST_ZEROS = 0.5


@dataclass(frozen=True, eq=False)
class Matrices:
    """The matrix of all tokens, how many of them each sequence has, and their attributes besides."""

    design: Design
    lengths: Array
    attributes: list[Any] | None  # a list of tokens for each sequence; None if there are no attributes

    @classmethod
    def of(cls, X: Any, lengths: Any = None) -> tuple[Matrices | None, Any]:
        """Return what was given as matrices, None if it was not; and X again, which may have been an iterator."""
        if isinstance(X, Design) or is_matrix(X):
            if lengths is None:
                return None, X
            counts = np.asarray(to_array(lengths), dtype=np.int64)
            if counts.ndim != 1 or (counts < 0).any() or counts.sum() != X.shape[0]:
                raise ValueError(
                    f"lengths must be non-negative and sum to the {X.shape[0]} rows of X, got {lengths!r:.80}"
                )
            return cls._dense(X, counts, None), X
        if lengths is not None or not hasattr(X, "__iter__"):
            return None, X
        if not isinstance(X, list | tuple):
            given = iter(X)
            first = next(given, None)
            X = chain([] if first is None else [first], given)
            if not (is_pair(first) or is_matrix(first)):
                return None, X
            X = list(X)
        pairs = len(X) > 0 and all(map(is_pair, X))
        each = [matrix for matrix, _ in X] if pairs else X
        if not len(each) or not all(map(is_matrix, each)):
            return None, X
        attributes = [list(tokens) for _, tokens in X] if pairs else None
        columns = {matrix.shape[1] for matrix in each if len(matrix)}
        if len(columns) > 1 and (pairs or is_tensor(each[0])):
            raise ValueError(f"all matrices must have equally many columns, got {sorted(columns)}")
        if len(columns) != 1:
            return None, X
        for j, tokens in enumerate(attributes or ()):
            if len(tokens) != len(each[j]):
                raise ValueError(f"sequence {j} has a matrix of {len(each[j])} rows but {len(tokens)} tokens")
        counts = np.array([len(matrix) for matrix in each], dtype=np.int64)
        some = [matrix for matrix in each if len(matrix)]
        if is_tensor(some[0]):
            import torch

            return cls._dense(torch.cat(some), counts, attributes), X
        return cls._dense(np.concatenate(some), counts, attributes), X

    @classmethod
    def _dense(cls, X: Any, lengths: Array, attributes: list[Any] | None) -> Matrices | None:
        """Return matrices whose rows are one array or tensor; None of arrays that are better read as attributes."""
        if isinstance(X, Design) or (is_tensor(X) and X.device.type != "cpu"):
            from majorant.chain.tensors import TensorRows

            rows = TensorRows.of_rows(X)
            refuse_non_finite(rows.rows)
            return cls(rows, lengths, attributes)
        tensor, X = is_tensor(X), to_array(X)
        if not np.isfinite(X).all():
            if tensor or attributes is not None:
                raise ValueError("X must be finite, got NaN or infinity")
            return None  # whoever reads attributes says where
        if not tensor and attributes is None and np.count_nonzero(X) <= MOST_ZEROS * X.size:
            return None
        if X.dtype == np.float64:
            return cls(DenseDesign(np.ascontiguousarray(X)), lengths, attributes)
        return cls(InSingle(np.ascontiguousarray(X, dtype=np.float32)), lengths, attributes)

    @property
    def tokens(self) -> Iterator[Any]:
        """The attributes of each sequence, a list for each of its tokens."""
        return iter(([()] * m for m in self.lengths.tolist()) if self.attributes is None else self.attributes)

    def prepared(self, y: Any, sample_weight: Any, wanted: dict[str, Any]) -> Prepared:
        """Return sequences ready to be fitted: every column has a weight with every label."""
        if y is None:
            raise TypeError("fit needs y, the labels of each sequence: only a source (majorant.Chunks) brings its own")
        columns, vocabulary = self.design.shape[1], Vocabulary()
        vocabulary.check_columns(columns, grow=True)
        names = list(map(str, range(columns)))
        list(vocabulary.numbers(names, grow=True))
        flat = y if is_tensor(y) or isinstance(y, np.ndarray) else None
        if flat is not None and flat.ndim == 1 and flat.dtype != object and self.attributes is None:
            tokens, labels, classes = self._labelled(as_array(flat))
        else:
            tokens, labels, classes = read_sequences(self.tokens, by_lengths(y, self.lengths), None, vocabulary)
        if len(tokens.attributes) and tokens.attributes.min() < columns:
            name = names[int(tokens.attributes.min())]
            raise ValueError(f"the attribute {name!r} is called as a column of the matrix: give it another name")
        n, m = len(classes), len(vocabulary)
        universe = Universe.of(*observed_pairs(tokens, labels, n, m, columns=columns, **wanted), n, m)
        data = sequences(universe, tokens, labels, token_weights(sample_weight, tokens.starts))
        return Prepared(universe, classes, vocabulary, DenseSequences.beside(data, self.design), len(labels))

    def _labelled(self, y: Array) -> tuple[Tokens, Array, Array]:
        """Return tokens without attributes, and labels that are one array."""
        if len(y) != self.lengths.sum():
            raise ValueError(f"X has {self.lengths.sum()} tokens but y {len(y)} labels")
        least, most = (int(y.min()), int(y.max())) if y.dtype.kind in "iu" else (0, 2**16)
        if most - least < 2**16:
            counts = np.bincount(y - least)
            classes, codes = np.flatnonzero(counts) + least, (np.cumsum(counts > 0) - 1)[y - least]
        else:
            classes, codes = np.unique(y, return_inverse=True)
        names = Vocabulary()
        list(names.numbers(classes.tolist(), grow=True))  # type: ignore[arg-type]
        refuse_null_ending("y", classes.tolist())
        starts = np.append(0, np.cumsum(self.lengths))
        tokens = Tokens(starts, np.zeros(len(y) + 1, np.uint32), np.empty(0, np.uint32), None)
        return tokens, codes.astype(np.int32), label_names(names)

    def add_scores(self, flat: Array, weights: Weights, vocabulary: Vocabulary, data: Sequences) -> None:
        """Add what columns make of state scores; a column may lack the weight of a label under an ℓ1 penalty."""
        p, universe = self.design.shape[1], weights.universe
        vocabulary.check_columns(p, grow=False)
        place = universe.number[list(vocabulary.numbers(map(str, range(p)), grow=False))]
        W = np.zeros((universe.n, p))
        for column, (begin, end) in enumerate(zip(universe.first[place], universe.first[place + 1], strict=True)):
            W[universe.label[begin:end], column] = weights.theta[begin:end]
        split_scores(flat, data)[0][:, : universe.n] += as_array(self.design.project(W)).T

    def suits(self, universe: Universe, vocabulary: Vocabulary) -> bool:
        """Return whether the first weights of a model are those of columns, each with every label."""
        vocabulary.check_columns(self.design.shape[1], grow=False)
        p = self.design.shape[1]
        first = universe.first[: p + 1]
        full = len(first) == p + 1 and bool((np.diff(first.astype(np.int64)) == universe.n).all())
        return full and bool((universe.number[:p] == np.arange(p)).all())

    def written_out(self) -> list[Array]:
        """Return a matrix for each sequence, to be read as attributes."""
        X, ends = self.design.toarray(), np.append(0, np.cumsum(self.lengths)).tolist()
        return [X[begin:end] for begin, end in pairwise(ends)]
