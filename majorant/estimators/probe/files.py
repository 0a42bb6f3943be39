"""Probes as files: a NumPy archive, or safetensors under the names that a layer of PyTorch has for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from majorant._atomic import replacing
from majorant._checks import Array
from majorant._extras import needed
from majorant.estimators import storage
from majorant.estimators.probe.table import Row, SweepTable

if TYPE_CHECKING:
    from majorant.estimators.probe.linear_probe import LinearProbe

FORMAT = "majorant probe"
ENDING = ".safetensors"
# Settings that may be arrays or functions, which no file holds: they are then left to their defaults.
OBJECTS = ("validation", "metric")


def write(probe: LinearProbe, path: Any, notes: dict[str, Any] | None) -> None:
    """Write a fitted probe, in the form that the name of the file asks for."""
    facts, arrays = storage.facts_of(probe, notes), storage.arrays_of(probe)
    table = {"sweep": np.array(probe.scores_.rows), "best": np.array(probe.scores_.best)}
    if Path(path).suffix != ENDING:
        storage.write(path, type(probe).__name__, facts, arrays | table)
        return
    beside = {name: each for name, each in (arrays | table).items() if name not in ("coef", "intercept")}
    header = {"facts": facts, **{name: [each.dtype.str, each.tolist()] for name, each in beside.items()}}
    weight, bias = two_sided(probe)
    tensors = {"weight": np.ascontiguousarray(weight), "bias": bias.astype(weight.dtype)}
    with replacing(path) as temporary:
        _safetensors().save_file(tensors, temporary, {"format": FORMAT, "probe": json.dumps(header)})


def read(cls: type[LinearProbe], path: Any) -> LinearProbe:
    """Return the probe of a file, whichever form it has."""
    facts, arrays = _read_safetensors(path) if Path(path).suffix == ENDING else storage.read(path, cls.__name__)
    given = storage.settings_from(facts)
    probe = cls(**{name: value for name, value in given.items() if name not in OBJECTS or value is not None})
    storage.restore(probe, facts, arrays)
    probe.scores_ = SweepTable([Row(*row) for row in arrays["sweep"].tolist()], int(arrays["best"]))
    return probe


def two_sided(probe: Any) -> tuple[Array, Array]:
    """Return weights and biases with a row for each class: of two classes, half of the difference for each."""
    W = probe.coef_.toarray() if sparse.issparse(probe.coef_) else probe.coef_
    b = probe.intercept_
    return (np.vstack([-W / 2, W / 2]), np.append(-b / 2, b / 2)) if len(probe.classes_) == 2 else (W, b)


def _one_sided(weight: Array, bias: Array) -> dict[str, Array]:
    if len(weight) == 2:
        weight, bias = weight[1:] - weight[:1], bias[1:] - bias[:1]
    return {"coef": weight, "intercept": bias.astype(np.float64)}


def _read_safetensors(path: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    _safetensors()
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {}).get("probe", "null"))
            if header is None:
                raise ValueError(f"{path} holds tensors, but no probe that majorant has saved")
            found = _one_sided(file.get_tensor("weight"), file.get_tensor("bias"))
    except SafetensorError as problem:
        raise ValueError(f"{path} is not a safetensors file, or is incomplete ({problem})") from None
    facts = header.pop("facts")
    return facts, found | {name: np.array(values, dtype=dtype) for name, (dtype, values) in header.items()}


def _safetensors() -> Any:
    return needed("safetensors.numpy", f"a {ENDING} file", "safetensors")
