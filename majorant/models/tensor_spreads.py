"""Distances between the outcomes of a row where rows are tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from majorant.models.spreads import Spreads

# Distances of rows that are written out at a time.
CHUNK = 2**26


@dataclass(frozen=True, eq=False)
class TensorSpreads(Spreads):
    """:class:`ClassSpreads` of tensors."""

    roots: tuple[Any, ...]

    def exact(self, batch: Any) -> float:
        """Return the sum of the two largest ‖R_cᵀx‖ of a row, or the largest where there is one."""
        width, largest = max(batch.n_features, len(self.roots), 1), 0.0
        for some in batch.batches(max(CHUNK // width, 1)):
            squares = torch.stack([some.design.times(root).square().sum(dim=1) for root in self.roots])
            largest = max(largest, _largest(squares.sqrt(), some.weight))
        return largest

    def coarse(self, batch: Any) -> float:
        """Return the same of Σ_i |x_i| ‖R_ci‖."""
        sizes = torch.stack([root.norm(dim=1) for root in self.roots])
        return _largest(batch.design.absolute()[0].project(sizes), batch.weight)


def _largest(distances: Any, weight: Any) -> float:
    each = distances[0] if len(distances) == 1 else distances.topk(2, dim=0).values.sum(dim=0)
    each = each if weight is None else each[weight > 0]
    return float(each.max()) if len(each) else 0.0
