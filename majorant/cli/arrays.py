"""Arrays of features and labels in files: one each, or several under names; a folder of shards is one array."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from majorant.cli.refusals import Refusal
from majorant.core.checks import needed

# Names of arrays of features and labels, where a file holds several and nobody says which.
USUAL = {
    "features": ("features", "embeddings", "feats", "X", "x", "data"),
    "labels": ("labels", "label", "targets", "target", "y"),
}
SUFFIXES = (".npy", ".npz", ".safetensors", ".parquet", ".pt", ".pth")
READABLE = ".npy, .npz, .safetensors, .parquet or .pt"


def features(path: str, name: str | None) -> Any:
    """Return the features in a file: rows and columns."""
    X = read(path, "features", name)
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
    y = read(labels, "labels", names[1])
    if tuple(y.shape) != (X.shape[0],):
        shape = f"{y.shape[0]} labels" if y.ndim == 1 else f"labels of shape {tuple(y.shape)}"
        raise Refusal(f"labels must be one for each row: {path} has {X.shape[0]} rows, but {labels} has {shape}")
    return X, y


# --- files -----------------------------------------------------------------------------------------------


def read(path: str, what: str, name: str | None) -> Any:
    """Return an array, or a tensor where a file holds such; shards of a folder are put together in order.

    It holds ``what``: features or labels. Where a file has several, it has this name, or one of the usual ones.
    """
    place = Path(path)
    if not place.is_dir():
        return read_file(place, what, name)
    shards = sorted(file for file in place.iterdir() if file.suffix in SUFFIXES and not file.name.startswith("."))
    kinds = sorted({shard.suffix for shard in shards})
    if len(kinds) != 1:
        held = " and ".join(kinds) if kinds else f"nothing that ends with {READABLE}"
        raise Refusal(f"the folder {path} must hold shards of one kind, got {held}")
    parts = [read_file(shard, what, name) for shard in shards]
    if not isinstance(parts[0], np.ndarray):
        return needed("torch", "a .pt file", "torch").cat(parts)
    widths = {part.shape[1:] for part in parts}
    if len(widths) > 1:
        raise Refusal(f"the shards in {path} must have rows of one shape, got {sorted(widths)}")
    return np.concatenate(parts)


def read_file(path: Path, what: str, name: str | None) -> Any:
    """Return an array, or a tensor, of a file."""
    kind = path.suffix
    if kind not in SUFFIXES:
        raise Refusal(f"{path}: {what} are read from {READABLE} files, or a folder of them")
    try:
        if kind == ".safetensors":
            return read_safetensors(path, what, name)
        if kind == ".parquet":
            return read_parquet(path, what, name)
        if kind == ".npy":
            return np.load(path, mmap_mode="r", allow_pickle=False)
        if kind == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                return archive[array_named(archive.files, path, what, name)]
        torch = needed("torch", "a .pt file", "torch")
        held = torch.load(path, map_location="cpu", weights_only=True)
        return held[array_named(list(held), path, what, name)] if isinstance(held, dict) else held
    except (FileNotFoundError, IsADirectoryError, PermissionError, ImportError, Refusal):
        raise
    except Exception as problem:  # NumPy, zipfile, zlib, struct and PyTorch have some of their own each
        holds = "tensors" if kind in (".pt", ".pth") else "numbers or strings"
        raise Refusal(f"{path} is not a {kind} file of {holds} ({str(problem).splitlines()[0]})") from None


def read_safetensors(path: Path, what: str, name: str | None) -> Any:
    """Return an array of a safetensors file; a tensor if it is of bfloat16, which NumPy does not have."""
    safetensors = needed("safetensors", str(path), "safetensors")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            found = array_named(list(file.keys()), path, what, name)
            if file.get_slice(found).get_dtype() != "BF16":
                return file.get_tensor(found)
        with safetensors.safe_open(path, framework="pt") as file:
            needed("torch", "bfloat16", "torch")
            return file.get_tensor(found)
    except safetensors.SafetensorError as problem:
        raise Refusal(f"{path} is not a safetensors file, or is incomplete ({problem})") from None


def read_parquet(path: Path, what: str, name: str | None) -> Any:
    """Return a column, one of lists as rows; or, for features that have no name, all columns of numbers."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        schema = parquet.read_schema(path)
    except pa.ArrowInvalid as problem:
        raise Refusal(f"{path} is not a Parquet file, or is incomplete ({problem})") from None
    if what == "features" and name is None and not set(USUAL[what]) & set(schema.names):
        types = {field.name: field.type for field in schema if field.name not in USUAL["labels"]}
        numbers = [name for name, of in types.items() if pa.types.is_floating(of) or pa.types.is_integer(of)]
        return np.column_stack([column.to_numpy() for column in parquet.read_table(path, columns=numbers).columns])
    found = array_named(schema.names, path, what, name)
    column = parquet.read_table(path, columns=[found]).column(0).combine_chunks()
    if not pa.types.is_nested(column.type):
        return column.to_numpy(zero_copy_only=False)
    values = column.flatten().to_numpy(zero_copy_only=False)
    if not len(column) or len(values) % len(column):
        raise Refusal(f"{path}: the lists of {what} must all have the same length")
    return values.reshape(len(column), -1)


def array_named(names: Sequence[str], path: Path, what: str, name: str | None) -> str:
    """Return the name of the array to read: the one given, a usual one, or the only one there is."""
    if name is not None:
        if name not in names:
            raise Refusal(f"{path} has no {name!r}; it has {', '.join(names)}")
        return name
    usual = [name for name in USUAL[what] if name in names]
    if not usual and len(names) != 1:
        raise Refusal(
            f"it is not said which array of {path} holds the {what}; it has {', '.join(names)}: say --{what}-name"
        )
    return usual[0] if usual else names[0]


def on_device(X: Any, device: str | None) -> Any:
    """Return features where they are to be worked on: as they are, or a tensor on a device."""
    if device is None:
        return X
    torch = needed("torch", "--device", "torch")
    try:
        return torch.as_tensor(np.ascontiguousarray(X) if isinstance(X, np.ndarray) else X).to(device)
    except RuntimeError as problem:
        raise Refusal(f"--device {device} cannot be used: {str(problem).splitlines()[0]}") from None
