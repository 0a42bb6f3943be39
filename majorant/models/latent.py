"""Outcomes with hidden parts: p(y|x) = Σ_m p(y, m|x), of which y was seen and m was not.

With S_j the outcomes that agree with what was observed in row j, the loss is

    Σ_j w_j [ log Σ_k h_j(k) exp(θᵀf_j(k)) − log Σ_{k ∈ S_j} h_j(k) exp(θᵀf_j(k)) ],

a difference of log-partitions, and not convex. With posterior weights q_j(k) ∝ h_j(k) exp(θᵀf_j(k)) on S_j Jensen's
inequality bounds the second from below by a line that touches it at θ; Algorithm 1 bounds the first from above. The sum
touches the loss at θ and lies above it: it is the bound of the same model, had the frequencies q been observed. So the
curvature of a latent model is that of its log Z, in all its forms, and every step of a bound decreases the loss.

References
----------
Jebara & Choromanska, *Majorization for CRFs and latent likelihoods*, NIPS 2012.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from majorant._checks import Array
from majorant.data import Choices
from majorant.kernels import hidden
from majorant.models.base import Batch, Model, RowModel, require_data, weighted_sum
from majorant.models.enumerated import Enumerated

# Scores of a random start differ from row to row by about this much: enough for states to be told apart.
SPREAD = 1.0


class Latent(RowModel[Batch]):
    """What models with hidden parts share; it stands before the model of whole outcomes among the bases.

    Three methods make one of that: :meth:`loss_and_residual`, whose residual is w (p − q), :meth:`posterior`, and
    :meth:`complete`. Curvatures are those of log Z: the bound's majorizes, the Hessian's is positive where that of the
    loss need not be.
    """

    @abstractmethod
    def posterior(self, scores: Array, batch: Batch) -> Array:
        """Return q, shaped as scores are: the probabilities of outcomes given what was observed of them."""

    @abstractmethod
    def complete(self, posterior: Array, batch: Batch) -> tuple[Model[Any], Any]:
        """Return the model of whole outcomes, and data in which they were observed with these frequencies."""

    def convex(self, batch: Batch) -> bool:
        """Return False: the loss is a difference of convex functions."""
        return False

    def completed(self, theta: Array, batch: Batch) -> tuple[Model[Any], Any]:
        """Return the model and data of the bound by Jensen's inequality at θ."""
        return self.complete(self.posterior(self.scores(theta, batch), batch), batch)

    def loss_at_zero(self, batch: Batch) -> float | None:
        """Return None: that takes a look at what was observed."""
        return None

    def row_target(self, target: Array, scores: Array) -> Array:
        """Return q of one row, for targets that are positive where an outcome agrees with what was observed."""
        return hidden.posterior(scores[:, None], target[:, None] > 0)[1][:, 0]

    def first_params(self, like: Batch, seed: int) -> Array:
        """Return random parameters whose scores are about as large as one, on whatever scale columns are.

        At zero all states of a label are alike, and no gradient would ever tell them apart.
        """
        design, weight = self.design(like), self.score_weights(like)[: self.design(like).shape[0]]
        squares = design.pull_back_squares(weight[None])[0] / weight.sum()
        scale = np.divide(SPREAD, np.sqrt(squares * len(squares)), out=np.zeros_like(squares), where=squares > 0)
        W = np.random.default_rng(seed).normal(size=(self.n_parameters(like) // len(scale), len(scale)))
        return (W * scale).ravel()


@dataclass(frozen=True)
class LatentEnumerated(Latent[Choices], Enumerated):
    """p_j(y) ∝ Σ_m h_j(y, m) exp(θᵀf_j(y, m)), pairs (y, m) written out: any features, any measure.

    Data are :class:`~majorant.Choices` made with ``consistent``: which pairs agree with what was observed.

    Parameters
    ----------
    order : {"descending", "ascending", "given"}
        In which order the bound visits the outcomes of a set.

    Examples
    --------
    Of three outcomes the last two look the same:

    >>> import numpy as np
    >>> from majorant import Choices, Objective
    >>> data = Choices(np.eye(3), sizes=[3], consistent=[False, True, True])
    >>> F = Objective(LatentEnumerated(), data, ridge=1.0)
    >>> round(F.value([0.0, 0.0, 0.0]), 4)  # log 3 − log 2
    0.4055
    """

    def check(self, data: Choices) -> None:
        """Raise unless data say which outcomes agree with what was observed."""
        require_data(self, data, Choices)
        if not data.hidden:
            raise ValueError("LatentEnumerated needs data of which parts are hidden: give consistent= to Choices")

    def posterior(self, scores: Array, batch: Choices) -> Array:
        """Return q, flat."""
        q = np.empty_like(scores)
        for _, at in batch.by_size:
            q[at] = hidden.posterior(scores[at], batch.target[at] > 0)[1]
        return q

    def complete(self, posterior: Array, batch: Choices) -> tuple[Model[Any], Any]:
        """Return :class:`Enumerated` and these frequencies."""
        return Enumerated(self.order), batch.completed(posterior)

    def loss(self, scores: Array, batch: Choices) -> float:
        """Return Σ_j w_j (−log p_j(observed))."""
        losses = np.empty(len(batch))
        for sets, at in batch.by_size:
            losses[sets] = hidden.losses(scores[at], batch.target[at] > 0)
        return weighted_sum(losses, batch.weight)

    def loss_and_residual(self, scores: Array, batch: Choices) -> tuple[float, Array]:
        """Return the loss and w_j (p_j − q_j)."""
        losses, R = np.empty(len(batch)), np.empty_like(scores)
        for sets, at in batch.by_size:
            losses[sets], R[at] = hidden.losses_and_residuals(scores[at], batch.target[at] > 0)
        return weighted_sum(losses, batch.weight), R * self.score_weights(batch)

    def margins(self, scores: Array, batch: Choices) -> Array:
        """Return the largest score that agrees with what was observed minus the largest that does not."""
        margin = np.empty(len(batch))
        for sets, at in batch.by_size:
            S, seen = scores[at], batch.target[at] > 0
            margin[sets] = np.where(seen, S, -np.inf).max(axis=0) - np.where(seen, -np.inf, S).max(axis=0)
        return margin

    def hits(self, scores: Array, batch: Choices) -> Array:
        """Return whether the likeliest outcome, hidden part and all, agrees with what was observed."""
        hits = np.empty(len(batch))
        for sets, at in batch.by_size:
            likeliest = scores[at].argmax(axis=0)
            hits[sets] = batch.target[at[likeliest, np.arange(len(sets))]] > 0
        return hits
