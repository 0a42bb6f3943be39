"""``majorant probe``: a linear probe of features, and the files of arrays that hold them.

A file has one array or several under names; a folder of shards is one array.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from majorant.cli.files import Refusal
from majorant.cli.model_file import TENSORS, check_model_path
from majorant.cli.options import AsJson, FeaturesName, LabelsName, Verbose, argument, option
from majorant.cli.output import check_writable, progress, show, show_json, show_sweep, spoken_warnings
from majorant.core.checks import needed

if TYPE_CHECKING:
    from majorant.linear.probe import Row

# Names by which features and labels are known, where a file holds several arrays and nobody says which.
FEATURES = ("features", "embeddings", "feats", "X", "x", "data")
LABELS = ("labels", "label", "targets", "target", "y")
READABLE = ".npy, .npz, .safetensors, .parquet or .pt"
SUFFIXES = {
    ".npy": "a .npy file of numbers or strings",
    ".npz": "a .npz file of numbers or strings",
    ".safetensors": "a safetensors file",
    ".parquet": "a Parquet file",
    ".pt": "a file of tensors",
    ".pth": "a file of tensors",
}


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
                f"choose the array of {path} that holds the {self.what} with --{self.what}-name; "
                f"it has {', '.join(names)}"
            )
        return usual[0] if usual else names[0]


def read(path: str, wanted: ArrayName) -> Any:
    """Return an array, or a tensor where a file holds such; shards of a folder are put together in order."""
    place = Path(path)
    if not place.is_dir():
        return _read_file(place, wanted)
    shards = sorted(file for file in place.iterdir() if file.suffix in SUFFIXES and not file.name.startswith("."))
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
        raise Refusal(f"no labels are given, and {path} holds features only: name a file of labels after it")
    y = read(labels, ArrayName(names[1], LABELS, "labels"))
    if tuple(y.shape) != (X.shape[0],):
        shape = f"{y.shape[0]} labels" if y.ndim == 1 else f"labels of shape {tuple(y.shape)}"
        raise Refusal(f"labels must be one for each row: {path} has {X.shape[0]} rows, but {labels} has {shape}")
    return X, y


def _read_file(path: Path, wanted: ArrayName) -> Any:
    """Return the array of a file, or a tensor; whatever the library says of a damaged file becomes a refusal."""
    if path.suffix not in SUFFIXES:
        raise Refusal(f"{path}: {wanted.what} are read from {READABLE} files, or a folder of them")
    try:
        if path.suffix == ".npy":
            return np.load(path, mmap_mode="r", allow_pickle=False)
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                return archive[wanted.among(archive.files, path)]
        if path.suffix == ".parquet":
            return _parquet(path, wanted)
        if path.suffix in (".pt", ".pth"):
            found = needed("torch", "a .pt file", "torch").load(path, map_location="cpu", weights_only=True)
            return found[wanted.among(list(found), path)] if isinstance(found, dict) else found
        safetensors = needed("safetensors", str(path), "safetensors")
        with safetensors.safe_open(path, framework="numpy") as file:
            name = wanted.among(list(file.keys()), path)
            if file.get_slice(name).get_dtype() != "BF16":
                return file.get_tensor(name)
        with safetensors.safe_open(path, framework="pt") as file:  # NumPy has no bfloat16
            needed("torch", "bfloat16", "torch")
            return file.get_tensor(name)
    except (OSError, ImportError, MemoryError, Refusal):
        raise
    except Exception as problem:  # each library has errors of its own
        reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise Refusal(f"{path} is not {SUFFIXES[path.suffix]}, or is incomplete ({reason})") from None


def _parquet(path: Path, wanted: ArrayName) -> Any:
    """Return a column, one of lists as rows; or, for features that have no name, all columns of numbers."""
    import pyarrow as pa
    from pyarrow import parquet

    schema = parquet.read_schema(path)
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


scoring = functools.partial(option, panel="Choosing C")


def probe(
    features: Annotated[str, argument(".npy, .npz, .safetensors, .parquet, .pt or a folder of shards.", "FEATURES")],
    labels: Annotated[str | None, argument("The same; by default in the file of the features.", "[LABELS]")] = None,
    model: Annotated[str | None, option("The probe to write: .npz or .safetensors.", "FILE", "--model", "-m")] = None,
    plot: Annotated[str | None, option("Draw score and loss over C.", "FILE")] = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    cs: Annotated[str, scoring("Points between 1e-6 and 1e5, or 0.1,1,10.", "COUNT|LIST")] = "45",
    test_size: Annotated[float, scoring("Share of each class to score on.", "SHARE")] = 0.1,
    validation: Annotated[
        tuple[str, str] | None, scoring("Score on these instead of a share.", "FEATURES LABELS")
    ] = None,
    test: Annotated[tuple[str, str] | None, option("Say how good the probe is on these.", "FEATURES LABELS")] = None,
    metric: Annotated[str, scoring("accuracy, balanced_accuracy or loss.", "NAME")] = "accuracy",
    patience: Annotated[int, scoring("Scores clearly below the best that end the sweep; 0 for all.", "N")] = 3,
    seed: Annotated[int, scoring("Which rows score.", "N")] = 0,
    standardize: Annotated[bool, option("Let every column count alike.", None, "--standardize")] = False,
    tol: Annotated[float, option("Certified relative suboptimality of the probe.", "X")] = 1e-6,
    device: Annotated[str | None, option("Such as cuda, with PyTorch; NumPy if not given.", "NAME")] = None,
    features_name: FeaturesName = None,
    labels_name: LabelsName = None,
) -> None:
    """Train a linear probe on frozen features.

    Finds the best C of a sweep, and a head that is certified: fits every C of a grid, from the strongest penalty on,
    scores each on rows that are held out, stops when scores have clearly turned, and fits all rows with the best. There
    is no learning rate.

    \b
    majorant probe features.npy labels.npy --model head.safetensors
    majorant probe train.npz --validation val.npz val.npz --plot sweep.png
    majorant probe shards/ labels.npy --device cuda --json
    """
    from majorant import LinearProbe
    from majorant.linear.probe import probe_grid

    def read(features: str, labels: str) -> tuple[Any, Any]:
        X, y = rows(features, labels, (features_name, labels_name))
        if device is None:
            return X, y
        torch = needed("torch", "--device", "torch")
        try:
            return torch.as_tensor(np.ascontiguousarray(X) if isinstance(X, np.ndarray) else X).to(device), y
        except RuntimeError as problem:
            raise Refusal(f"--device {device} cannot be used: {str(problem).splitlines()[0]}") from None

    try:
        grid: Any = int(cs) if cs.strip().isdecimal() else [float(word) for word in cs.split(",") if word.strip()]
    except ValueError:
        raise typer.BadParameter(f"--cs must be a number of points or such as 0.1,1,10, got {cs}") from None
    check_model_path(model, features, *([labels] if labels else []), suffixes=(".npz", TENSORS))
    check_writable(plot, features)
    X, y = read(features, labels or features)
    held = test_size if validation is None else read(*validation)
    settings: dict[str, Any] = dict(Cs=grid, validation=held, metric=metric, patience=patience or None)
    settings |= dict(random_state=seed, standardize=standardize, tol=tol)
    done, started = 0, time.perf_counter()
    with spoken_warnings(), progress("sweeping") as move:
        total = len(probe_grid(settings["Cs"]))

        def follow(row: Row) -> None:
            nonlocal done
            done += 1
            move(done, total, f"C = {row.C:.2g}, score {row.score:.4g}")

        found = LinearProbe(**settings, callback=follow).fit(X, y)
    seconds = time.perf_counter() - started
    tested = None if test is None else found.score(*read(*test))
    if model is not None:
        found.save(model, notes={"trained_on": Path(features).name, "rows": len(y)})
    if plot is not None:
        from majorant.plotting import pyplot, save

        figure, axis = pyplot().subplots(figsize=(6, 4), layout="constrained")
        found.plot(axis)
        save(figure, plot)
    table = found.scores_
    best = table.rows[table.best]
    facts = {"C": found.C_, "score": best.score, "metric": found.metric, "loss": best.loss, "test_accuracy": tested}
    facts |= {"rows": len(y), "features": found.n_features_in_, "classes": len(found.classes_)}
    facts |= {"result": str(found.result_), "gap": found.gap_, "steps": int(found.n_iter_[0]), "seconds": seconds}
    written = {"model": model, "plot": plot}
    if as_json:
        show_json({**facts, **written, "sweep": [row._asdict() for row in table.rows]})
        return
    show_sweep(table, verbose)
    show(f"\nbest C = {found.C_:.4g}, held-out {found.metric} {best.score:.4f}, loss {best.loss:.4f}")
    show(f"head of {len(y)} rows, {facts['features']} features, {facts['classes']} classes: {found.result_}")
    if tested is not None:
        show(f"accuracy on the test rows {tested:.4f}")
    for what, path in written.items():
        if path is not None:
            show(f"{what} written to {path}")
    show(f"{seconds:.1f} s in all")
