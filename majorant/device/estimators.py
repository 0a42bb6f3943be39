"""Rows that are PyTorch tensors: read where they are, and answered in kind. PyTorch is imported by who brings one."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from majorant.core.checks import Array, needed
from majorant.core.matrix import Design

if TYPE_CHECKING:
    from majorant.device.matrix import TensorDesign

# Numbers that are looked through at a time.
STRETCH = 2**27
# What features may be.
KINDS = ("float64", "float32", "float16", "bfloat16")
ROW_BY_ROW = ("bbm", "sbm", "sbm-lowrank", "proximal", "sgd", "asgd")


def is_tensor(value: Any) -> bool:
    """Return whether something is a tensor of PyTorch, without importing it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_on_device(X: Any) -> bool:
    """Return whether rows are a tensor, or what :func:`on_device` made of an array."""
    return is_tensor(X) or isinstance(X, Design)


def on_device(X: Any, device: Any = None) -> Design:
    """Return rows in host memory, or in a memory-mapped file, that are multiplied on a device, some at a time.

    For embeddings that are larger than the memory of the device: what is rows × something is there, the rows come when
    they are needed, as they are stored.

    Parameters
    ----------
    X : array or tensor of shape (n_samples, n_features)
        float64, float32, float16 or bfloat16 (as ``ml_dtypes`` has it); a ``numpy.memmap`` is read as it is needed.
    device : str or torch.device, optional
        A GPU if PyTorch has one.

    Returns
    -------
    Design
        For ``fit`` and ``predict`` of :class:`~majorant.LogisticRegression`, and all that builds on it.

    Examples
    --------
    Embeddings in a file, of which some rows at a time are on the GPU::

        X = np.load("embeddings.npy", mmap_mode="r")
        head = majorant.LogisticRegression().fit(majorant.on_device(X), y)
    """
    torch = needed("torch", "on_device", "torch")
    from majorant.device.matrix import TensorDesign

    try:
        where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.empty(0, device=where)
    except (AssertionError, RuntimeError) as problem:  # PyTorch without that device, or one that is not there
        raise ValueError(f"device={device!r} cannot be used: {str(problem).splitlines()[0]}") from None
    if is_tensor(X):
        return TensorDesign.of(X, where)
    array = np.asarray(X)
    brief = array.dtype.name == "bfloat16"  # which NumPy does not know itself
    if not brief and array.dtype.kind != "f":
        raise TypeError(f"X must be an array of floating-point numbers, got {array.dtype}: convert it")
    with warnings.catch_warnings():  # the tensor shares memory with the array, and nothing is written to it
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        rows = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16) if brief else torch.from_numpy(array)
    return TensorDesign.of(rows, where)


def to_array(value: Any) -> Any:
    """Return a tensor as an array, which may have to be wider, anything else as it is."""
    if isinstance(value, Design):
        return value.toarray()
    if not is_tensor(value):
        return value
    value = value.detach().cpu()
    return (value.float() if value.dtype == sys.modules["torch"].bfloat16 else value).numpy()


def check_device_solver(solver: str) -> None:
    """Refuse solvers that go from row to row, or look into rows."""
    if solver in ROW_BY_ROW:
        raise ValueError(
            f"solver={solver!r} looks into single rows, which a device is slow at: use 'auto', 'newton' or "
            "'scipy-lbfgs', or give X as an array"
        )


def read_tensor(estimator: Any, X: Any, *, reset: bool) -> TensorDesign:
    """Return rows as a design, or refuse what cannot be fitted; ``reset`` remembers how many columns there are."""
    from majorant.device.matrix import TensorDesign

    torch, rows = sys.modules["torch"], X.rows if isinstance(X, TensorDesign) else X.detach()
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"X must be a tensor of shape (n_samples, n_features), not empty, got {tuple(rows.shape)}")
    kind, columns = str(rows.dtype).removeprefix("torch."), rows.shape[1]
    if kind not in KINDS:
        raise TypeError(f"X must be a tensor of one of {', '.join(KINDS)}, got {kind}: convert it, e.g. X.float()")
    if rows.device.type == "meta":
        raise ValueError("X must be a tensor with numbers in it, got one on device 'meta'")
    if rows.layout is not torch.strided:
        raise TypeError(f"X must be a dense tensor, got layout {rows.layout}: give sparse rows as a SciPy matrix")
    refuse_non_finite(rows)
    if reset:
        estimator.n_features_in_ = columns
        vars(estimator).pop("feature_names_in_", None)
    elif columns != estimator.n_features_in_:
        raise ValueError(
            f"X has {columns} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} "
            "features as input"
        )
    return X if isinstance(X, TensorDesign) else TensorDesign.of(rows)


def refuse_non_finite(rows: Any) -> None:
    """Raise where a tensor holds NaN or infinity, and say in which row."""
    step = max(STRETCH // rows.shape[1], 1)
    for first in range(0, len(rows), step):
        finite = rows[first : first + step].isfinite().all(dim=1)
        if not bool(finite.all()):
            row, half = first + int((~finite).long().argmax()), rows.dtype == sys.modules["torch"].float16
            hint = "; float16 ends at 65504, use bfloat16 or float32 features" if half else ""
            raise ValueError(f"X must be finite, got NaN or infinity in row {row}{hint}")


def read_tensors(estimator: Any, X: Any, y: Any, *, reset: bool) -> tuple[TensorDesign, Array]:
    """Return rows as a design on their device, and their labels here."""
    design = read_tensor(estimator, X, reset=reset)
    if y is None:
        raise ValueError("y must be given: a tensor brings no labels")
    labels = np.asarray(y)
    if labels.shape != (design.shape[0],):
        raise ValueError(f"y must hold one label for each of the {design.shape[0]} rows of X, got shape {labels.shape}")
    return design, labels


def decision(classifier: Any, X: Any, offset: Any, *, wide: bool) -> Any:
    """Return the scores of rows, as a tensor on their device, in double precision if they are to be ``wide``."""
    design = read_tensor(classifier, X, reset=False)
    design = design.widened() if wide else design
    coef, intercept = classifier.coef_, classifier.intercept_
    coef = coef.toarray() if hasattr(coef, "toarray") else coef
    rows = max(STRETCH // (design.shape[1] + len(coef)), 1)
    torch = sys.modules["torch"]
    with torch.no_grad():
        firsts = range(0, design.shape[0], rows)
        parts = [design.part(slice(first, first + rows)).project(coef).T for first in firsts]
        scores = torch.cat(parts) + design.beside(intercept).to(design.kind)
    scores = scores[:, 0] if len(classifier.classes_) == 2 else scores
    if offset is None:
        return scores
    if np.shape(offset) != tuple(scores.shape):
        raise ValueError(f"offset must have shape {tuple(scores.shape)}, got {np.shape(offset)}")
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
