"""Which model a file holds, the command that reads it, and where a model may be written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from majorant.cli.output import check_writable

TENSORS = ".safetensors"
CHOICES = ("ConditionalLogit", "LatentClassLogit")
# What majorant predict and majorant evaluate read.
KINDS = ("LogisticRegression", "LinearProbe", *CHOICES)
# The commands that predict with a model, and that measure it.
READ_BY = {
    **dict.fromkeys(KINDS, ("majorant predict", "majorant evaluate")),
    "ChainCRF": ("majorant crf tag", "majorant crf eval"),
}
PREDICT, EVALUATE = 0, 1


def kind_saved(path: str) -> str:
    """Return the name of the estimator that a file holds; what is no model is refused."""
    from majorant.estimators.storage import kind_of

    return _kind_of_tensors(path) if Path(path).suffix == TENSORS else kind_of(path)


def refuse_other_kinds(path: str, kinds: tuple[str, ...], purpose: int) -> None:
    """Refuse a model of another kind, and say what reads it; what is no model is left to who loads it."""
    try:
        kind = kind_saved(path)
    except ValueError:
        return
    if kind not in kinds:
        command = READ_BY[kind][purpose] if kind in READ_BY else ""
        raise ValueError(
            f"{path} holds a {kind}: use " + (f"`{command}`" if command else f"majorant.{kind}.load in Python")
        )


def refuse_options(path: str, kind: str, given: Mapping[str, Any]) -> None:
    """Refuse options that do not go with a model of this kind, where they are given."""
    for name, value in given.items():
        if value is not None:
            flag = "--" + name.replace("_", "-")
            raise typer.BadParameter(f"{flag} does not go with {path}, which holds a {kind}: leave it out")


def check_model_path(path: str | None, *inputs: str, suffixes: tuple[str, ...] = (".npz",)) -> None:
    """Refuse to write a model where that is not possible, over what is none, or under a name that promises another."""
    check_writable(path, *inputs)
    if path is None:
        return
    place = Path(path)
    if place.is_file() and place.stat().st_size:
        try:
            kind_saved(path)
        except ValueError:
            raise ValueError(
                f"cannot write {path}: the file exists and holds no majorant model; choose another name, or remove it"
            ) from None
    elif not place.exists() and place.suffix.lower() not in ("", *suffixes):
        known = " or ".join(suffixes)
        raise ValueError(f"cannot write {path}: models are written as {known}; choose a name that ends so")


def _kind_of_tensors(path: str) -> str:
    """Return the kind of model in a safetensors file, by the text that such a file begins with."""
    from majorant.estimators.probe.files import FORMAT

    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        try:
            header = json.loads(file.read(min(length, Path(path).stat().st_size)))
            found = header["__metadata__"]["format"]
        except (ValueError, KeyError, TypeError):
            found = None
    if found != FORMAT:
        raise ValueError(f"{path} is not a saved majorant model")
    return "LinearProbe"
