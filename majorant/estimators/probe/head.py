"""A probe as a layer of PyTorch."""

from __future__ import annotations

from typing import Any

from majorant._extras import needed
from majorant.estimators.probe.files import two_sided


def linear_layer(probe: Any) -> Any:
    """Return ``torch.nn.Linear`` with the weights of a probe; no random numbers are drawn for them first."""
    torch = needed("torch", "head()", "torch")
    weight, bias = (torch.as_tensor(each) for each in two_sided(probe))
    classes, columns = weight.shape
    layer = torch.nn.utils.skip_init(
        torch.nn.Linear, columns, classes, bias=bool(probe.fit_intercept), dtype=weight.dtype
    )
    with torch.no_grad():
        layer.weight.copy_(weight)
        if probe.fit_intercept:
            layer.bias.copy_(bias)
    return layer
