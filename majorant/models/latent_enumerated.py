"""Log-linear models of pairs (y, m) written out, of which y was seen and m was not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from majorant._checks import Array
from majorant.data import Choices
from majorant.kernels import hidden
from majorant.models.base import Model, require_data, weighted_sum
from majorant.models.enumerated import Enumerated
from majorant.models.latent import Latent


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
