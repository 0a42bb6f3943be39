"""Rows that are PyTorch tensors: read where they are, and answered in kind. PyTorch is imported by who brings one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from majorant._checks import Array

if TYPE_CHECKING:
    from majorant.design.tensor import TensorDesign
    from majorant.estimators.placing import Placed

# Numbers that are looked through at a time.
STRETCH = 2**27


def is_tensor(value: Any) -> bool:
    """Return whether something is a tensor of PyTorch, without importing it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def to_array(value: Any) -> Any:
    """Return a tensor as an array, anything else as it is."""
    return value.detach().cpu().numpy() if is_tensor(value) else value


def read_tensor(estimator: Any, X: Any, *, reset: bool) -> TensorDesign:
    """Return rows as a design, or refuse what cannot be fitted; ``reset`` remembers how many columns there are."""
    from majorant.design.tensor import TensorDesign

    kind = str(X.dtype).removeprefix("torch.")
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"X must be a tensor of shape (n_samples, n_features), not empty, got {tuple(X.shape)}")
    if not X.dtype.is_floating_point:
        raise TypeError(f"X must be a tensor of floating-point numbers, got {kind}: convert it, e.g. X.float()")
    if X.layout is not sys.modules["torch"].strided:
        raise TypeError(f"X must be a dense tensor, got layout {X.layout}; sparse rows are SciPy matrices here")
    X = X.detach()
    _refuse_non_finite(X, kind)
    _check_columns(estimator, X.shape[1], reset=reset)
    return TensorDesign.of(X)


def placed_on_device(data: Any, scores: int) -> Placed:
    """Return data whose rows are tensors, and who adds up over them."""
    from majorant.estimators.placing import Placed
    from majorant.objective.device import OnDevice

    return Placed(data, OnDevice(data.design.device, scores))


def check_rows(name: str, value: Any, rows: int) -> Any:
    """Return labels, weights or offsets here, one for every row."""
    found = None if value is None else np.asarray(to_array(value))
    if found is not None and len(found) != rows:
        raise ValueError(f"{name} must have one entry for each of the {rows} rows of X, got {len(found)}")
    return found


def decision(classifier: Any, X: Any, offset: Any) -> Any:
    """Return the scores of rows, as a tensor on their device."""
    design = read_tensor(classifier, X, reset=False)
    coef, intercept = _dense(classifier.coef_), classifier.intercept_
    rows = max(STRETCH // (design.shape[1] + len(coef)), 1)
    torch = sys.modules["torch"]
    with torch.no_grad():
        parts = [design.part(slice(first, first + rows)).project(coef).T for first in range(0, len(X), rows)]
        scores = torch.cat(parts) + design.beside(intercept).to(design.kind)
    scores = scores[:, 0] if len(classifier.classes_) == 2 else scores
    if offset is None:
        return scores
    if tuple(offset.shape) != tuple(scores.shape):
        raise ValueError(f"offset must have shape {tuple(scores.shape)}, got {tuple(offset.shape)}")
    return scores + design.beside(offset).to(design.kind)


def named(classes: Array, scores: Any) -> Any:
    """Return the likeliest class of each row: a tensor where classes are numbers, an array where they are not."""
    likeliest = (scores > 0).long() if scores.ndim == 1 else scores.argmax(dim=1)
    if classes.dtype.kind not in "iufb":
        return classes[likeliest.cpu().numpy()]
    return sys.modules["torch"].as_tensor(classes).to(scores.device)[likeliest]


def probabilities(scores: Any, *, log: bool) -> Any:
    """Return the probabilities of the classes, or their logarithms."""
    torch = sys.modules["torch"]
    both = torch.stack([torch.zeros_like(scores), scores], dim=1) if scores.ndim == 1 else scores
    return torch.log_softmax(both, dim=1) if log else torch.softmax(both, dim=1)


def _refuse_non_finite(X: Any, kind: str) -> None:
    step = max(STRETCH // X.shape[1], 1)
    for first in range(0, len(X), step):
        finite = X[first : first + step].isfinite().all(dim=1)
        if not bool(finite.all()):
            row = first + int((~finite).long().argmax())
            hint = "; float16 ends at 65504, use bfloat16 or float32 features" if kind == "float16" else ""
            raise ValueError(f"X must be finite, got NaN or infinity in row {row}{hint}")


def _check_columns(estimator: Any, columns: int, *, reset: bool) -> None:
    if reset:
        estimator.n_features_in_ = columns
        estimator.__dict__.pop("feature_names_in_", None)
    elif columns != estimator.n_features_in_:
        raise ValueError(
            f"X has {columns} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} "
            "features as input"
        )


def _dense(coef: Any) -> Array:
    return coef.toarray() if hasattr(coef, "toarray") else coef
