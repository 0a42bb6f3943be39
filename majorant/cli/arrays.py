"""Features and labels in files: one array each, or several under names; a folder of shards is one array."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from majorant._extras import needed

# Names by which features and labels are known, where a file holds several arrays and nobody says which.
FEATURES = ("features", "embeddings", "feats", "X", "x", "data")
LABELS = ("labels", "label", "targets", "target", "y")
READABLE = ".npy, .npz, .safetensors, .parquet or .pt"


@dataclass(frozen=True)
class Wanted:
    """Which of the arrays of a file: the one of this name, or of the usual ones."""

    name: str | None
    usual: tuple[str, ...]
    what: str  # they are to users

    def of(self, names: Sequence[str], path: Path) -> str:
        """Return the name of the array to read, where there are several."""
        if self.name is not None:
            if self.name not in names:
                raise ValueError(f"{path} has no {self.name!r}; it has {', '.join(names)}")
            return self.name
        usual = [name for name in self.usual if name in names]
        if not usual and len(names) != 1:
            raise ValueError(
                f"it is not said which array of {path} holds the {self.what}; it has {', '.join(names)}: "
                f"say --{self.what}-name"
            )
        return usual[0] if usual else names[0]


def read(path: str, wanted: Wanted) -> Any:
    """Return an array, or a tensor where a file holds such; shards of a folder are put together in order."""
    place = Path(path)
    if not place.is_dir():
        return _read_file(place, wanted)
    shards = sorted(each for each in place.iterdir() if each.suffix in READERS and not each.name.startswith("."))
    kinds = sorted({each.suffix for each in shards})
    if len(kinds) != 1:
        held = " and ".join(kinds) if kinds else f"nothing that ends with {READABLE}"
        raise ValueError(f"the folder {path} must hold shards of one kind, got {held}")
    return _joined([_read_file(each, wanted) for each in shards], path)


def features(path: str, name: str | None) -> Any:
    """Return the features in a file: rows and columns."""
    X = read(path, Wanted(name, FEATURES, "features"))
    if X.ndim != 2:
        raise ValueError(f"features must have rows and columns, got shape {tuple(X.shape)} from {path}")
    if not X.shape[0]:
        raise ValueError(f"{path} holds no rows")
    return X


def rows(path: str, labels: str, names: tuple[str | None, str | None]) -> tuple[Any, Any]:
    """Return features and a label for each of their rows, of two files or of one, by these names where it has many."""
    X = features(path, names[0])
    if labels == path and Path(path).suffix == ".npy":
        raise ValueError(f"no labels are given, and {path} holds one array only: name a file of labels after it")
    y = read(labels, Wanted(names[1], LABELS, "labels"))
    if tuple(y.shape) != (X.shape[0],):
        shape = f"{y.shape[0]} labels" if y.ndim == 1 else f"labels of shape {tuple(y.shape)}"
        raise ValueError(f"labels must be one for each row: {path} has {X.shape[0]} rows, but {labels} has {shape}")
    return X, y


def _read_file(path: Path, wanted: Wanted) -> Any:
    if path.suffix not in READERS:
        raise ValueError(f"{path}: {wanted.what} are read from {READABLE} files, or a folder of them")
    try:
        return READERS[path.suffix](path, wanted)
    except (EOFError, TypeError) as problem:
        raise ValueError(f"{path} cannot be read ({problem})") from None


def _joined(parts: list[Any], path: str) -> Any:
    if isinstance(parts[0], np.ndarray):
        widths = {part.shape[1:] for part in parts}
        if len(widths) > 1:
            raise ValueError(f"the shards in {path} must have rows of one shape, got {sorted(widths)}")
        return np.concatenate(parts)
    return needed("torch", "a .pt file", "torch").cat(parts)


def _npy(path: Path, wanted: Wanted) -> Any:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as problem:
        raise ValueError(f"{path} is not a .npy file of numbers or strings ({problem})") from None


def _npz(path: Path, wanted: Wanted) -> Any:
    with _whole(path):
        archive = np.load(path, allow_pickle=False)
    with archive:
        name = wanted.of(archive.files, path)
        with _whole(path):
            return archive[name]


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Say of what a broken archive raises which file it is."""
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as problem:  # zipfile, zlib, struct and NumPy have some of their own each
        raise ValueError(f"{path} is not a .npz file of numbers or strings ({problem})") from None


def _safetensors(path: Path, wanted: Wanted) -> Any:
    safetensors = needed("safetensors", str(path), "safetensors")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            name = wanted.of(list(file.keys()), path)
            if file.get_slice(name).get_dtype() != "BF16":
                return file.get_tensor(name)
        with safetensors.safe_open(path, framework="pt") as file:  # NumPy has no bfloat16
            needed("torch", "bfloat16", "torch")
            return file.get_tensor(name)
    except safetensors.SafetensorError as problem:
        raise ValueError(f"{path} is not a safetensors file, or is incomplete ({problem})") from None


def _parquet(path: Path, wanted: Wanted) -> Any:
    """Return a column, one of lists as rows; or, for features that have no name, all columns of numbers."""
    pa, pq = (needed(module, str(path), "files") for module in ("pyarrow", "pyarrow.parquet"))
    try:
        schema = pq.read_schema(path)
    except pa.ArrowInvalid as problem:
        raise ValueError(f"{path} is not a Parquet file, or is incomplete ({problem})") from None
    usual = any(name in schema.names for name in wanted.usual)
    if wanted.usual == FEATURES and wanted.name is None and not usual:
        numbers = [each.name for each in schema if _is_number(pa, each.type) and each.name not in LABELS]
        return np.column_stack([each.to_numpy() for each in pq.read_table(path, columns=numbers).columns])
    column = pq.read_table(path, columns=[wanted.of(schema.names, path)]).column(0).combine_chunks()
    if not pa.types.is_nested(column.type):
        return column.to_numpy(zero_copy_only=False)
    values = column.flatten().to_numpy(zero_copy_only=False)
    if not len(column) or len(values) % len(column):
        raise ValueError(f"{path}: the lists of {wanted.what} must all have the same length")
    return values.reshape(len(column), -1)


def _is_number(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _pt(path: Path, wanted: Wanted) -> Any:
    torch = needed("torch", "a .pt file", "torch")
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as problem:  # whatever a file that is none makes it say
        if isinstance(problem, OSError):
            raise
        raise ValueError(f"{path} is not a file of tensors ({str(problem).splitlines()[0]})") from None
    return found[wanted.of(list(found), path)] if isinstance(found, dict) else found


def on_device(X: Any, device: str | None) -> Any:
    """Return features where they are to be worked on: as they are, or a tensor on a device."""
    if device is None:
        return X
    torch = needed("torch", "--device", "torch")
    try:
        return torch.as_tensor(np.ascontiguousarray(X) if isinstance(X, np.ndarray) else X).to(device)
    except RuntimeError as problem:
        raise ValueError(f"--device {device} cannot be used: {str(problem).splitlines()[0]}") from None


READERS: dict[str, Callable[[Path, Wanted], Any]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".safetensors": _safetensors,
    ".parquet": _parquet,
    ".pt": _pt,
    ".pth": _pt,
}
