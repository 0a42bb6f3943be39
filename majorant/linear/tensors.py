"""``Multinomial`` and ``Binary`` where rows are tensors: everything of the size of the rows stays on their device.

What adds up over rows (losses, gradients, Gram matrices) are tensors too, in double precision: they are brought here
once they have been added up. Scores are class-major views of (t×n) tensors, whose rows softmax wants side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.functional import softplus

from majorant.core.class_model import LEAST_WEIGHT, ClassFactors, ClassModel
from majorant.core.curvature import Factors
from majorant.core.labelled import Labelled
from majorant.core.model import AlongIntercepts
from majorant.core.rounding import Magnitudes
from majorant.linear.multinomial import Binary, Multinomial

# Numbers of class-space matrices that are written out at a time.
CLASS_MATRICES = 2**25


class OnTensors(ClassModel):
    """Base class of the models on tensors."""

    def is_softmax(self) -> bool:
        return True

    def inner(self, a: Any, b: Any) -> Any:
        return (a * b).sum(dtype=torch.float64)

    def reads_once(self, batch: Labelled) -> bool:
        return False  # compiled loops are for arrays

    def along(self, scores: Any, slopes: Any, a: float) -> Any:
        return scores + a * slopes

    def along_intercepts(
        self, scores: Any, intercepts: Any, batch: Labelled, *, curved: bool
    ) -> tuple[AlongIntercepts, Any]:
        loss, residual = self.loss_and_residual(scores + intercepts[:, None].to(scores.dtype), batch)
        H, weights = self.between_classes(residual, batch) if curved else (None, self.class_variances(residual, batch))
        slope = _tensor(residual).sum(dim=1, dtype=torch.float64)
        return AlongIntercepts(loss, slope, H, self.inner(weights, weights)), residual

    def class_totals(self, batch: Labelled) -> Any:
        y: Any = batch.y
        if batch.soft:
            return y.sum(dim=1) if batch.weight is None else y @ batch.weight
        return torch.bincount(y, batch.weight, minlength=max(self.coefficient_rows, 2)).double()

    def lost_to_the_centre(self, theta: Any, batch: Labelled, epsilon: float) -> float:
        return super().lost_to_the_centre(theta.cpu().numpy(), batch, epsilon)

    def magnitudes(self, batch: Labelled) -> Magnitudes:
        offset: Any = batch.offset
        size = 0.0 if offset is None else float(torch.where(offset.isfinite(), offset, 0.0).norm())
        weight: Any = batch.weight
        return Magnitudes.of(batch.design, None if weight is None else weight.cpu().numpy(), size)

    def _class_means(self, scores: Any, batch: Labelled) -> tuple[Any, Any]:
        C, each = self._covariance(scores, batch)
        weight: Any = batch.weight
        total = float(len(batch)) if weight is None else weight.sum()
        least = LEAST_WEIGHT * each.sum() / max(total, np.finfo(np.float64).tiny)
        return C, torch.maximum(each, least * (torch.ones_like(each) if weight is None else weight))

    def _covariance(self, scores: Any, batch: Labelled) -> tuple[Any, Any]:
        """Return Σ_j B_j, and tr(B_j)/(n − 1) of every row."""
        raise NotImplementedError

    def least_margin(self, theta: Any, batch: Labelled) -> float:
        potentials = self.potentials(theta, batch)
        possible = torch.where(self.add_measure(potentials, batch) == -torch.inf, -torch.inf, potentials)
        margins: Any = self.margins(possible, batch)
        margins = margins if batch.weight is None else margins[_tensor(batch.weight) > 0]
        return float(margins.min()) if len(margins) else float("inf")

    def hessian_factors(self, scores: Any, batch: Labelled) -> Factors:
        empty = np.zeros((0, 0))
        return TensorFactors(scores, batch.design, batch.weight, self.row_hessians, _no_bound, empty, majorizes=False)

    def bound_factors(self, scores: Any, batch: Labelled) -> Factors:
        return _no_bound(scores)

    def row_hessians(self, scores: Any) -> Any:
        """Return the Hessian of every row in class space, (n, n, t)."""
        raise NotImplementedError


@dataclass(frozen=True)
class TensorMultinomial(OnTensors, Multinomial):
    """:class:`Multinomial` on tensors."""

    def loss(self, scores: Any, batch: Labelled) -> Any:
        return self._loss(torch.log_softmax(scores.T, dim=1), batch)

    def loss_and_residual(self, scores: Any, batch: Labelled) -> tuple[Any, Any]:
        log_p = torch.log_softmax(scores.T, dim=1)
        loss = self._loss(log_p, batch)
        R, y = log_p.exp_(), _tensor(batch.y)
        if batch.soft:
            R -= y.T
        else:
            R.scatter_add_(1, y[:, None], R.new_full((len(y), 1), -1.0))
        if batch.weight is not None:
            R *= _tensor(batch.weight)[:, None].to(R.dtype)
        return loss, R.T

    def _loss(self, log_p: Any, batch: Labelled) -> Any:
        y = _tensor(batch.y)
        if not batch.soft:
            return -_weighted_sum(log_p.gather(1, y[:, None])[:, 0], batch.weight)
        # 0 · (−∞) is a class that neither can happen nor did.
        return -_weighted_sum(torch.where(y.T > 0, y.T * log_p, 0.0).sum(dim=1), batch.weight)

    def between_classes(self, residual: Any, batch: Labelled) -> tuple[Any, Any]:
        P = self._probabilities(residual, batch)
        return _grounded(self._product(P, P, batch)), self._variances(P, batch)

    def class_variances(self, residual: Any, batch: Labelled) -> Any:
        return self._variances(self._probabilities(residual, batch), batch)

    def class_weights(self, scores: Any, batch: Labelled) -> Any:
        return self._variances(torch.softmax(scores.T, dim=1), batch)

    def _covariance(self, scores: Any, batch: Labelled) -> tuple[Any, Any]:
        P = torch.softmax(scores.T, dim=1)
        each = (1.0 - P.square().sum(dim=1)).double() / (self.n_classes - 1)
        return _grounded(self._product(P, P, batch)), each if batch.weight is None else each * _tensor(batch.weight)

    @staticmethod
    def _product(P: Any, Q: Any, batch: Labelled) -> Any:
        """Return Σ_j w_j p_j q_jᵀ."""
        weighted = P if batch.weight is None else P * _tensor(batch.weight)[:, None].to(P.dtype)
        return _tensor(batch.design).multiply(weighted.T, Q).double()

    @staticmethod
    def _variances(P: Any, batch: Labelled) -> Any:
        weights = P * (1.0 - P)
        return (weights if batch.weight is None else weights * _tensor(batch.weight)[:, None].to(P.dtype)).T

    @staticmethod
    def _probabilities(residual: Any, batch: Labelled) -> Any:
        """Return p (t×n), which residuals tell."""
        P, y = residual.T.clone(), _tensor(batch.y)
        if batch.weight is not None:
            w = _tensor(batch.weight)[:, None].to(P.dtype)
            P = torch.where(w > 0, P / w, 0.0)
        if batch.soft:
            return P + y.T
        return P.scatter_add_(1, y[:, None], P.new_ones((len(y), 1)))

    def hessian_weights(self, scores: Any, batch: Labelled) -> Any:
        return torch.softmax(scores.T, dim=1).T

    def apply_hessian(self, weights: Any, V: Any, batch: Labelled) -> Any:
        V = V * weights
        V -= weights * V.sum(dim=0)
        return V if batch.weight is None else V * _tensor(batch.weight).to(V.dtype)

    def margins(self, scores: Any, batch: Labelled) -> Any:
        S, y, never = scores.T, _tensor(batch.y), -torch.inf
        if batch.soft:
            observed = y.T > 0
            margin = S.masked_fill(~observed, torch.inf).amin(dim=1) - S.masked_fill(observed, never).amax(dim=1)
            return margin.masked_fill(observed.sum(dim=1) > 1, never)
        others = S.scatter(1, y[:, None], never)
        return S.gather(1, y[:, None])[:, 0] - others.amax(dim=1)

    def row_hessians(self, scores: Any) -> Any:
        """Return diag(p) − p pᵀ for each row."""
        P = torch.softmax(scores.double(), dim=0)
        H = -P[:, None] * P[None]
        diagonal = torch.arange(len(P), device=P.device)
        H[diagonal, diagonal] += P
        return H

    def hits(self, scores: Any, batch: Labelled) -> Any:
        likeliest, y = scores.argmax(dim=0), _tensor(batch.y)
        return y.gather(0, likeliest[None])[0] if batch.soft else (likeliest == y).double()


@dataclass(frozen=True)
class TensorBinary(OnTensors, Binary):
    """:class:`Binary` on tensors."""

    def loss(self, scores: Any, batch: Labelled) -> Any:
        u, one = scores[0], self.targets(batch).to(scores.dtype)
        return _weighted_sum((1.0 - one) * softplus(u) + one * softplus(-u), batch.weight)

    def loss_and_residual(self, scores: Any, batch: Labelled) -> tuple[Any, Any]:
        R = torch.sigmoid(scores[0]) - self.targets(batch).to(scores.dtype)
        weighted = R if batch.weight is None else R * _tensor(batch.weight).to(R.dtype)
        return self.loss(scores, batch), weighted[None]

    def targets(self, batch: Labelled) -> Any:
        return _tensor(batch.y)[1] if batch.soft else _tensor(batch.y).double()

    def between_classes(self, residual: Any, batch: Labelled) -> tuple[Any, Any]:
        weights = self.class_variances(residual, batch)
        return weights.sum(dim=1, keepdim=True, dtype=torch.float64), weights

    def class_variances(self, residual: Any, batch: Labelled) -> Any:
        w = torch.ones_like(residual[0]) if batch.weight is None else _tensor(batch.weight).to(residual.dtype)
        off = residual + w * _tensor(batch.y)[1].to(w.dtype) if batch.soft else residual.abs()
        return off * (1.0 - torch.where(w > 0, off / w, 0.0))

    def class_weights(self, scores: Any, batch: Labelled) -> Any:
        weights = torch.sigmoid(scores) * torch.sigmoid(-scores)
        return weights if batch.weight is None else weights * _tensor(batch.weight).to(weights.dtype)

    def apply_hessian(self, weights: Any, V: Any, batch: Labelled) -> Any:
        return weights * V

    def _covariance(self, scores: Any, batch: Labelled) -> tuple[Any, Any]:
        weights = self.class_weights(scores, batch).double()
        return weights.sum(dim=1, keepdim=True), weights[0]

    def margins(self, scores: Any, batch: Labelled) -> Any:
        towards = torch.where(self.targets(batch) > 0.5, scores[0], -scores[0])
        return towards.masked_fill(_tensor(batch.y).amin(dim=0) > 0, -torch.inf) if batch.soft else towards

    def row_hessians(self, scores: Any) -> Any:
        """Return p(1 − p) of each row."""
        u = scores.double()
        return (torch.sigmoid(u) * torch.sigmoid(-u))[None]

    def hits(self, scores: Any, batch: Labelled) -> Any:
        one = self.targets(batch)
        return torch.where(scores[0] > 0, one, 1.0 - one)


@dataclass(frozen=True)
class TensorFactors(ClassFactors):
    """Σ_j w_j B_j ⊗ x_j x_jᵀ of tensors: the matrix, which is brought here."""

    def matrix(self) -> Any:
        return _tensor(super().matrix()).cpu().numpy()

    def _parts(self, numbers: int = 0, most: int = CLASS_MATRICES) -> Any:
        return super()._parts(numbers, most)


def _tensor(value: Any) -> Any:
    """Return a tensor whose declared type is that of an array."""
    return value


def _weighted_sum(values: Any, weight: Any) -> Any:
    wide = values.double()
    return wide.sum() if weight is None else weight @ wide


def _grounded(products: Any) -> Any:
    """Return diag(Σ_j w_j p_j) − Σ_j w_j p_j p_jᵀ: rows sum to zero, where p − p² would lose what is left."""
    H = -products
    H.fill_diagonal_(0.0)
    H.diagonal().copy_(-H.sum(dim=1))
    return H


def _no_bound(scores: Any) -> Any:
    raise TypeError(
        "the bound is not found on tensors: use solver='auto', 'newton' or 'scipy-lbfgs', or give X as an array"
    )
