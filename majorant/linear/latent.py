"""Multinomial logistic regression whose classes own hidden states, each with a coefficient vector of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from majorant.core import kernels
from majorant.core.checks import Array, one_of, whole
from majorant.core.kernels import partition
from majorant.core.kernels import partition as hidden
from majorant.core.kernels import partition as softmax
from majorant.core.labelled import Labelled
from majorant.core.model import Latent, Model, require_data, weigh, weighted_sum
from majorant.core.threads import empty
from majorant.linear.multinomial import Multinomial, covariance


@dataclass(frozen=True, init=False)
class LatentMultinomial(Latent[Labelled], Multinomial):
    """p(y|x) ∝ Σ_m exp(θ_{ym}ᵀx): class y owns ``states[y]`` rows of θ, which stand side by side.

    Parameters
    ----------
    states : sequence of int
        Hidden states of each class, at least one; classes are at least two. With one each this is
        :class:`Multinomial`.
    order : {"descending", "ascending", "given"}
        In which order the bound visits the states of a row.

    Notes
    -----
    Offsets of the data are those of states, (t, n) with n the states of all classes.

    Examples
    --------
    >>> from majorant import Labelled, Objective
    >>> F = Objective(LatentMultinomial((1, 2)), Labelled([[1.0], [-1.0]], [0, 1]), ridge=1.0)
    >>> round(F.value([0.0] * 3), 4)  # log 3 + log 3/2
    1.5041
    """

    n_classes: int = field(init=False, repr=False)  # states of all classes
    order: str = "descending"
    states: tuple[int, ...] = ()

    def __init__(self, states: Any, order: str = "descending") -> None:
        counts = tuple(whole("states", count, least=1) for count in states)
        if len(counts) < 2:
            raise ValueError(f"states must be given for at least two classes, got {counts}")
        for name, value in {"states": counts, "order": order, "n_classes": sum(counts)}.items():
            object.__setattr__(self, name, value)
        one_of("order", order, partition.ORDERS)

    @cached_property
    def first(self) -> Array:
        """The first state of each class, and one beyond the last."""
        return np.concatenate([[0], np.cumsum(self.states)])

    @cached_property
    def owner(self) -> Array:
        """The class of each state."""
        return np.repeat(np.arange(len(self.states)), self.states)

    def check(self, data: Labelled) -> None:
        """Raise if a label or an offset does not fit the classes and their states."""
        require_data(self, data, Labelled)
        if data.soft:
            raise ValueError("LatentMultinomial needs one label for each row, got distributions over classes")
        if data.y.max() >= len(self.states):
            raise ValueError(f"y must hold labels below {len(self.states)}, the classes, got {data.y.max()}")
        if data.offset is None:
            return
        if len(data.offset) != self.n_classes:
            raise ValueError(f"offset must have {self.n_classes} columns, one per state, got {len(data.offset)}")
        if np.isneginf(np.where(self._seen(data), data.offset, -np.inf).max(axis=0)).any():
            raise ValueError("offset is −inf (h = 0) for all states of a class that was observed")

    def posterior(self, scores: Array, batch: Labelled) -> Array:
        """Return q (n×t): of the states of the label."""
        return hidden.posterior(scores, self._seen(batch))[1]

    def complete(self, posterior: Array, batch: Labelled) -> tuple[Model[Any], Any]:
        """Return :class:`Multinomial` over states, and rows that are in each so often."""
        return Multinomial(self.n_classes, self.order), batch.relabelled(posterior)

    def loss(self, scores: Array, batch: Labelled) -> float:
        """Return Σ_j w_j (−log p_j(y_j))."""
        if self._compiles(batch):
            return self.loss_and_residual(scores, batch)[0]
        return weighted_sum(hidden.losses(scores, self._seen(batch)), batch.weight)

    def loss_and_residual(self, scores: Array, batch: Labelled) -> tuple[float, Array]:
        """Return the loss and w_j (p_j − q_j)."""
        if self._compiles(batch):
            R, weight = empty(scores.shape), np.empty(0) if batch.weight is None else batch.weight
            return kernels.softmax.hidden_loss_and_residual(scores, self.first, batch.y, weight, R), R
        losses, R = hidden.losses_and_residuals(scores, self._seen(batch))
        return weighted_sum(losses, batch.weight), weigh(R, batch.weight)

    def with_intercept(self, like: Labelled, penalised: Array) -> None:
        """Return None: the loss is not convex along an intercept either."""
        return

    def margins(self, scores: Array, batch: Labelled) -> Array:
        """Return the largest score of a state of the label minus the largest of all others."""
        seen = self._seen(batch)
        return np.where(seen, scores, -np.inf).max(axis=0) - np.where(seen, -np.inf, scores).max(axis=0)

    def hits(self, scores: Array, batch: Labelled) -> Array:
        """Return whether the label is the likeliest class, its states taken together."""
        return (self.class_scores(scores).argmax(axis=0) == batch.y).astype(np.float64)

    def class_scores(self, scores: Array) -> Array:
        """Return the log-sums of the scores of each class over its states (classes × t)."""
        return np.stack([softmax.log_partition(scores[a:b]) for a, b in pairwise(self.first)])

    def targets(self, batch: Labelled) -> Array:
        """Return one for states of the label, zero for others, flat; :meth:`row_target` makes frequencies of it."""
        return self._seen(batch).astype(np.float64).ravel()

    def between_classes_at(self, scores: Array, batch: Labelled) -> tuple[Array, Array]:
        """Return the Hessian of log Z between states, and w p(1 − p): residuals do not tell probabilities here."""
        return covariance(softmax.log_partition_and_probabilities(scores)[1], batch.weight)

    def _seen(self, batch: Labelled) -> Array:
        return self.owner[:, None] == batch.y
