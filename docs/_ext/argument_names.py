"""Methods whose arguments are worded once for all of them: their pages say what ``docs/api/names.md`` says.

A docstring that lists a parameter itself is left to it. ``tests/docstrings.py`` sees that no argument is left unsaid.
"""

from __future__ import annotations

import inspect
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

NAMES = Path(__file__).parents[1] / "api" / "names.md"
SELF = ("self", "cls")


def setup(app: Sphinx) -> dict[str, Any]:
    """Add parameters before numpydoc reads the docstring."""
    app.connect("autodoc-process-docstring", _add_parameters, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


# Of each heading of names.md: the modules whose methods take these names.
PARTS = {
    "models": (
        *("chain.dual", "chain.latent", "chain.model", "choice.enumerated", "choice.latent_classes"),
        *("core.class_model", "core.model", "linear.multinomial"),
    ),
    "data": ("chain.sequences", "chain.tokens", "core.choices", "core.labelled", "core.rows"),
    "objective": ("core.line_search", "core.objective", "core.penalty", "core.remote"),
    "solvers": (
        *("core.ascent", "core.policy", "core.proximal", "core.proximal_newton", "core.quasi_newton"),
        *("core.solver", "core.stochastic"),
    ),
    "curvature": ("core.curvature", "core.structured"),
    "design": ("core.affine", "core.matrix", "device.matrix"),
}


@cache
def meanings() -> dict[str, dict[str, str]]:
    """Return what arguments mean, by the part of the package ("everywhere" for all), and by name."""
    found: dict[str, dict[str, str]] = {}
    for line in NAMES.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            of_part = found.setdefault(line[3:].lower(), {})
        elif line.startswith("| `"):
            names, meaning = line.strip("| ").split(" | ", 1)
            of_part.update(dict.fromkeys(re.findall(r"`(\w+)`", names), meaning))
    return found


def part_of(function: Any) -> str:
    """Return the heading of names.md under which names of a method are explained."""
    module = function.__module__.removeprefix("majorant.")
    found = (part for part, modules in PARTS.items() if module in modules)
    return next(found, module.split(".")[0])


def meaning(function: Any, name: str) -> str | None:
    """Return what a parameter of a method means, if it is among the names that are explained."""
    return meanings().get(part_of(function), {}).get(name) or meanings()["everywhere"].get(name)


def _add_parameters(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    if what != "method" or "Parameters" in lines or not thing.__module__.startswith("majorant."):
        return
    told = {each: meaning(thing, each) for each in inspect.signature(thing).parameters if each not in SELF}
    if not told or None in told.values():
        return
    sections = [k for k in range(len(lines) - 1) if lines[k + 1].startswith("---")]
    place = min([*sections, len(lines)])
    entries = [line for each, text in told.items() for line in (each, f"    {_as_rst(text)}")]
    lines[place:place] = ["", "Parameters", "----------", *entries, ""]


def _as_rst(text: str | None) -> str:
    """Return MyST's roles as those of reStructuredText, and code as code."""
    return re.sub(r"(?<![`:])`(\w+\(\))`", r"``\1``", re.sub(r"\{(\w+)\}`", r":\1:`", text or ""))
