"""What public names say of themselves: ``python -m tests.docstrings`` exits with 1 if something is left unsaid.

Public are the names of ``majorant`` and those that ``docs/api`` shows. Each has a docstring, all its parameters,
inherited ones included, what it returns, and an example; of an abstract class that is one that derives from it, in
``CONTRIBUTING.md``. Each public method, inherited ones included, says what it takes and returns. Below the estimators
that may be said once for all methods, in ``docs/api/names.md``, and by a sentence that begins with *Return*; a method
that is another one for its class need not say again what that one takes. And each is called in an example: its own,
that of its class or of one that this derives from, or, of what parts of a fit ask each other, in ``docs/api/parts.md``,
under a heading that names such a class.
"""

import inspect
import re
import sys
from enum import Enum
from pathlib import Path

import majorant

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "docs" / "_ext"))

from argument_names import meaning, meanings, part_of  # noqa: E402

SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)
SELF = ("self", "cls")
# Where methods are for people rather than for other parts: nothing is left to names that are explained elsewhere.
FOR_PEOPLE = (
    "majorant.chain.crf",
    "majorant.chain.features",
    "majorant.chain.latent_crf",
    "majorant.chain.source",
    "majorant.choice.conditional_logit",
    "majorant.choice.frames",
    "majorant.choice.inference",
    "majorant.choice.latent_class",
    "majorant.core.bound",
    "majorant.core.result",
    "majorant.core.run",
    "majorant.device.estimators",
    "majorant.estimators.",
    "majorant.linear.classifier",
    "majorant.linear.held_out",
    "majorant.linear.inference",
    "majorant.linear.latent_logistic",
    "majorant.linear.logistic",
    "majorant.linear.path",
    "majorant.linear.probe",
    "majorant.linear.stream",
    "majorant.plotting",
)


def sections(text):
    """Return the sections of a docstring by their titles.

    Examples
    --------
    >>> sections("One line." + chr(10) * 2 + "Returns" + chr(10) + "-------" + chr(10) + "int")
    {'': 'One line.', 'Returns': 'int'}
    """
    parts = SECTION.split(text)
    return {"": parts[0].strip(), **{parts[k]: parts[k + 1].strip() for k in range(1, len(parts), 2)}}


def documented(section):
    """Return the names that a section of parameters lists.

    Examples
    --------
    >>> sorted(documented("a, b : int" + chr(10) + "    Two: of them." + chr(10) + "**more" + chr(10) + "    Others."))
    ['a', 'b', 'more']
    """
    heads = (line.split(" : ")[0] for line in section.splitlines() if line and not line[0].isspace())
    return {name.strip(" *`") for head in heads for name in head.split(",")}


def parameters(thing):
    """Return the names of what is passed to a function or to the constructor of a class."""
    if isinstance(thing, type) and issubclass(thing, Enum):
        return []
    return [name for name in inspect.signature(thing).parameters if name not in SELF]


def public():
    """Return public names and what they are: those of the package and those that pages of the API show."""
    pages = "\n".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / "api").glob("*.md")))
    shown = re.findall(r"^   ([\w.]+)$", pages, re.MULTILINE)
    exported = [name for name in majorant.__all__ if not inspect.ismodule(getattr(majorant, name))]
    missing = [f"{name} is on no page of docs/api" for name in exported if name not in shown]
    return {name: found(name) for name in dict.fromkeys([*exported, *shown])}, missing


def found(name):
    """Return what a name such as ``models.Model`` stands for."""
    thing = majorant
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


def faults(name, thing, guide):
    """Return what the docstring of a public function or class leaves unsaid."""
    said = sections(inspect.getdoc(thing) or "")
    if not said[""]:
        return [f"{name} has no docstring"]
    listed = documented(said.get("Parameters", ""))
    found = [f"{name}: parameter {each} is not documented" for each in parameters(thing) if each not in listed]
    found += [f"{name}: {each} is documented, and no parameter" for each in listed - set(parameters(thing))]
    shown = "Examples" in said or (inspect.isabstract(thing) and thing.__name__ in guide)
    found += [f"{name} has no example"] * (not shown)
    if inspect.isfunction(thing) and returns(thing):
        found += [f"{name} does not say what it returns"] * ("Returns" not in said)
    return found


def returns(function):
    """Return whether a function returns anything."""
    return inspect.signature(function).return_annotation not in ("None", None, "NoReturn")


def methods(kind):
    """Yield the public methods of a class that are ours, by name, the ones of its bases that they stand for first."""
    for name in dir(kind):
        static = [vars(base)[name] for base in reversed(kind.__mro__) if name in vars(base)]
        defined = [getattr(each, "__func__", each) for each in static]
        ours = [each for each in defined if (getattr(each, "__module__", None) or "").startswith("majorant")]
        if not name.startswith("_") and ours and all(map(inspect.isfunction, ours)):
            yield name, ours


def parts():
    """Return what ``docs/api/parts.md`` shows of each class that its headings name."""
    page = (ROOT / "docs" / "api" / "parts.md").read_text(encoding="utf-8")
    titled = re.findall(r"^## (.*)\n((?:(?!## ).*\n?)*)", page, re.MULTILINE)
    of_classes = {name: "" for title, _ in titled for name in re.findall(r"`(\w+)`", title)}
    return {name: "".join(text for title, text in titled if f"`{name}`" in title) for name in of_classes}


def is_shown(name, defined, kind, pages):
    """Return whether an example calls a method of a class: its own, or one of a class that it belongs to.

    Examples
    --------
    >>> class Half:
    ...     def of(self, x): ...
    >>> is_shown("of", [Half.of], Half, {}), is_shown("of", [Half.of], Half, {"Half": ">>> Half().of(2)"})
    (False, True)
    """
    ours = [each for each in (*defined, *kind.__mro__) if each.__module__.startswith("majorant")]
    examples = [sections(inspect.getdoc(each) or "").get("Examples", "") for each in ours]
    examples += [pages.get(each.__name__, "") for each in kind.__mro__]
    return any(f".{name}(" in text for text in examples)


def method_faults(name, defined, used):
    """Return what a method leaves unsaid; ``used`` gathers names whose meaning was looked up."""
    method, text = defined[-1], inspect.getdoc(defined[-1])
    if not text:
        return [f"{name} has no docstring"]
    said = sections(text)
    listed = documented(said.get("Parameters", ""))
    people = method.__module__.startswith(FOR_PEOPLE)
    told_once = not people and "Parameters" not in said
    unsaid = [each for each in parameters(method) if told_once and meaning(method, each)]
    used.update((part_of(method), each) for each in unsaid)
    left = set(parameters(method)) - listed - set(unsaid)
    before = [sections(inspect.getdoc(other) or "").get("Parameters", "") for other in defined[:-1]]
    left -= {each for section in before for each in documented(section)}
    found = [f"{name}: parameter {each} is not documented" for each in sorted(left)]
    found += [f"{name}: {each} is documented, and no parameter" for each in sorted(listed - set(parameters(method)))]
    sentence = not people and said[""].startswith(("Return", "Yield"))
    if returns(method) and not sentence and not {"Returns", "Yields"} & set(said):
        found.append(f"{name} does not say what it returns")
    return found


def main():
    """Print what is left unsaid; return whether anything is."""
    names, found = public()
    guide, pages, used = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), parts(), set()
    for name, thing in names.items():
        found += faults(name, thing, guide)
        for method, defined in methods(thing) if isinstance(thing, type) else ():
            found += method_faults(f"{name}.{method}", defined, used)
            found += [f"{name}.{method} is called in no example"] * (not is_shown(method, defined, thing, pages))
    found += [f"docs/api/names.md explains {name} of {part}, which no method takes" for part, name in unused(used)]
    print("\n".join(dict.fromkeys(found)) or f"{len(names)} public names say what they are")
    return bool(found)


def unused(used):
    """Return the names that are explained for nobody."""
    known = meanings()
    takers = {(where if name in known.get(where, {}) else "everywhere", name) for where, name in used}
    return [(part, name) for part, of_part in known.items() for name in of_part if (part, name) not in takers]


if __name__ == "__main__":
    sys.exit(main())
