"""Arrays of features and labels in files: one each, or several under names; a folder of shards is one array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from majorant.cli.files import Refusal
from majorant.core.checks import needed

# Names by which features and labels are known, where a file holds several arrays and nobody says which.
FEATURES = ("features", "embeddings", "feats", "X", "x", "data")
LABELS = ("labels", "label", "targets", "target", "y")
READABLE = ".npy, .npz, .safetensors, .parquet or .pt"


@dataclass(frozen=True)
class ArrayName:
    """The name of an array in a file of several, or the usual ones."""

    name: str | None
    usual: tuple[str, ...]
    what: str  # it holds

    def among(self, names: Sequence[str], path: Path) -> str:
        """Return the name of the array to read."""
        if self.name is not None:
            if self.name not in names:
                raise Refusal(f"{path} has no {self.name!r}; it has {', '.join(names)}")
            return self.name
        usual = [name for name in self.usual if name in names]
        if not usual and len(names) != 1:
            raise Refusal(
                f"it is not said which array of {path} holds the {self.what}; it has {', '.join(names)}: "
                f"say --{self.what}-name"
            )
        return usual[0] if usual else names[0]


def read(path: str, wanted: ArrayName) -> Any:
    """Return an array, or a tensor where a file holds such; shards of a folder are put together in order."""
    place = Path(path)
    if not place.is_dir():
        return _read_file(place, wanted)
    shards = sorted(file for file in place.iterdir() if file.suffix in READERS and not file.name.startswith("."))
    kinds = sorted({shard.suffix for shard in shards})
    if len(kinds) != 1:
        held = " and ".join(kinds) if kinds else f"nothing that ends with {READABLE}"
        raise Refusal(f"the folder {path} must hold shards of one kind, got {held}")
    parts = [_read_file(shard, wanted) for shard in shards]
    if not isinstance(parts[0], np.ndarray):
        return needed("torch", "a .pt file", "torch").cat(parts)
    widths = {part.shape[1:] for part in parts}
    if len(widths) > 1:
        raise Refusal(f"the shards in {path} must have rows of one shape, got {sorted(widths)}")
    return np.concatenate(parts)


def features(path: str, name: str | None) -> Any:
    """Return the features in a file: rows and columns."""
    X = read(path, ArrayName(name, FEATURES, "features"))
    if X.ndim != 2:
        raise Refusal(f"features must have rows and columns, got shape {tuple(X.shape)} from {path}")
    if not X.shape[0]:
        raise Refusal(f"{path} holds no rows")
    return X


def rows(path: str, labels: str, names: tuple[str | None, str | None]) -> tuple[Any, Any]:
    """Return features and a label for each of their rows, of two files or of one, by these names where it has many."""
    X = features(path, names[0])
    if labels == path and Path(path).suffix == ".npy":
        raise Refusal(f"no labels are given, and {path} holds one array only: name a file of labels after it")
    y = read(labels, ArrayName(names[1], LABELS, "labels"))
    if tuple(y.shape) != (X.shape[0],):
        shape = f"{y.shape[0]} labels" if y.ndim == 1 else f"labels of shape {tuple(y.shape)}"
        raise Refusal(f"labels must be one for each row: {path} has {X.shape[0]} rows, but {labels} has {shape}")
    return X, y


def _read_file(path: Path, wanted: ArrayName) -> Any:
    if path.suffix not in READERS:
        raise Refusal(f"{path}: {wanted.what} are read from {READABLE} files, or a folder of them")
    try:
        return READERS[path.suffix](path, wanted)
    except (EOFError, TypeError) as problem:
        raise Refusal(f"{path} cannot be read ({problem})") from None


def _npy(path: Path, wanted: ArrayName) -> Any:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as problem:
        raise Refusal(f"{path} is not a .npy file of numbers or strings ({problem})") from None


def _npz(path: Path, wanted: ArrayName) -> Any:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return archive[wanted.among(archive.files, path)]
    except (FileNotFoundError, Refusal):
        raise
    except Exception as problem:  # zipfile, zlib, struct and NumPy have some of their own each
        raise Refusal(f"{path} is not a .npz file of numbers or strings ({problem})") from None


def _safetensors(path: Path, wanted: ArrayName) -> Any:
    safetensors = needed("safetensors", str(path), "safetensors")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            name = wanted.among(list(file.keys()), path)
            if file.get_slice(name).get_dtype() != "BF16":
                return file.get_tensor(name)
        with safetensors.safe_open(path, framework="pt") as file:  # NumPy has no bfloat16
            needed("torch", "bfloat16", "torch")
            return file.get_tensor(name)
    except safetensors.SafetensorError as problem:
        raise Refusal(f"{path} is not a safetensors file, or is incomplete ({problem})") from None


def _parquet(path: Path, wanted: ArrayName) -> Any:
    """Return a column, one of lists as rows; or, for features that have no name, all columns of numbers."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        schema = parquet.read_schema(path)
    except pa.ArrowInvalid as problem:
        raise Refusal(f"{path} is not a Parquet file, or is incomplete ({problem})") from None
    usual = any(name in schema.names for name in wanted.usual)
    if wanted.usual == FEATURES and wanted.name is None and not usual:
        types = {field.name: field.type for field in schema if field.name not in LABELS}
        numbers = [name for name, of in types.items() if pa.types.is_floating(of) or pa.types.is_integer(of)]
        return np.column_stack([column.to_numpy() for column in parquet.read_table(path, columns=numbers).columns])
    column = parquet.read_table(path, columns=[wanted.among(schema.names, path)]).column(0).combine_chunks()
    if not pa.types.is_nested(column.type):
        return column.to_numpy(zero_copy_only=False)
    values = column.flatten().to_numpy(zero_copy_only=False)
    if not len(column) or len(values) % len(column):
        raise Refusal(f"{path}: the lists of {wanted.what} must all have the same length")
    return values.reshape(len(column), -1)


def _pt(path: Path, wanted: ArrayName) -> Any:
    torch = needed("torch", "a .pt file", "torch")
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as problem:  # whatever a file that is none makes it say
        if isinstance(problem, OSError):
            raise
        raise Refusal(f"{path} is not a file of tensors ({str(problem).splitlines()[0]})") from None
    return found[wanted.among(list(found), path)] if isinstance(found, dict) else found


def on_device(X: Any, device: str | None) -> Any:
    """Return features where they are to be worked on: as they are, or a tensor on a device."""
    if device is None:
        return X
    torch = needed("torch", "--device", "torch")
    try:
        return torch.as_tensor(np.ascontiguousarray(X) if isinstance(X, np.ndarray) else X).to(device)
    except RuntimeError as problem:
        raise Refusal(f"--device {device} cannot be used: {str(problem).splitlines()[0]}") from None


READERS: dict[str, Callable[[Path, ArrayName], Any]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".safetensors": _safetensors,
    ".parquet": _parquet,
    ".pt": _pt,
    ".pth": _pt,
}
