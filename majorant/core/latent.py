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
from typing import Any

import numpy as np

from majorant.core.checks import Array
from majorant.core.kernels import partition
from majorant.core.model import Batch, Model, RowModel

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
        return partition.posterior(scores[:, None], target[:, None] > 0)[1][:, 0]

    def first_params(self, like: Batch, seed: int) -> Array:
        """Return random parameters whose scores are about as large as one, on whatever scale columns are.

        At zero all states of a label are alike, and no gradient would ever tell them apart.
        """
        design, weight = self.design(like), self.score_weights(like)[: self.design(like).shape[0]]
        squares = design.pull_back_squares(weight[None])[0] / weight.sum()
        scale = np.divide(SPREAD, np.sqrt(squares * len(squares)), out=np.zeros_like(squares), where=squares > 0)
        W = np.random.default_rng(seed).normal(size=(self.n_parameters(like) // len(scale), len(scale)))
        return (W * scale).ravel()
