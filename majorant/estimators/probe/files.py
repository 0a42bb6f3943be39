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
from majorant.estimators.archive import Field, are_any, are_counts, check_arrays, readable
from majorant.estimators.probe.table import Row, SweepTable
from majorant.estimators.saved import check_savable

if TYPE_CHECKING:
    from majorant.estimators.probe.linear_probe import LinearProbe

FORMAT = "majorant probe"
ENDING = ".safetensors"
WHAT = "safetensors file of a probe"
FIELDS = {
    **storage.linear_fields(),
    "sweep": Field("f", ("sweep", len(Row._fields)), are_any),
    "best": Field("iu", (), are_counts),
}


def write(probe: LinearProbe, path: Any, notes: dict[str, Any] | None) -> None:
    """Write a fitted probe, in the form that the name of the file asks for."""
    facts, arrays = storage.facts_of(probe, notes), storage.arrays_of(probe)
    table = {"sweep": np.array(probe.scores_.rows), "best": np.array(probe.scores_.best)}
    check_savable(probe, FIELDS, arrays | table)
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
    with storage.naming(path):
        if Path(path).suffix == ENDING:
            facts, arrays = _read_safetensors(path)
        else:
            facts, arrays = storage.read(path, cls.__name__, FIELDS)
        probe: LinearProbe = storage.built(cls, facts)
        storage.restore(probe, facts, arrays)
        rows, best = [Row(*row) for row in arrays["sweep"].tolist()], int(arrays["best"])
        if not 0 <= best < len(rows) or not all(row.C > 0 for row in rows):
            raise ValueError(f"the array 'sweep' has {len(rows)} rows, of which row {best} cannot be the best")
        probe.scores_ = SweepTable(rows, best)
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
    from safetensors import safe_open

    with readable(WHAT):
        file: Any = safe_open(path, framework="numpy")
    with file:
        with readable(WHAT):
            header = json.loads((file.metadata() or {}).get("probe", "null"))
        if header is None:
            raise ValueError("it holds tensors, but no probe that majorant has saved")
        with readable(WHAT):
            found = _one_sided(file.get_tensor("weight"), file.get_tensor("bias"))
            beside = {name: _array(*header[name]) for name in FIELDS if name in header}
    arrays = found | beside
    check_arrays(FIELDS, arrays)
    return storage.fact(header, "facts", dict), arrays


def _array(dtype: str, values: Any) -> Array:
    """Return an array from JSON. Strings are as long as they are, whatever the file says."""
    kind = np.dtype(dtype).kind
    return np.array(values, dtype=str if kind == "U" else bytes if kind == "S" else dtype)


def _safetensors() -> Any:
    return needed("safetensors.numpy", f"a {ENDING} file", "safetensors")
