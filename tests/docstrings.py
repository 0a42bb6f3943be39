"""What public names say of themselves: ``python -m tests.docstrings`` exits with 1 if something is left unsaid.

Every public name has a docstring; every parameter of a function or class, inherited ones included, is among its
Parameters; a function that returns something has Returns; every class and function has an example. Methods have a
docstring, and those with Parameters have all of them.
"""

import inspect
import re
import sys
from enum import Enum

import majorant

SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)
SELF = ("self", "cls")


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


def faults(name, thing):
    """Return what the docstring of a public function or class leaves unsaid."""
    said = sections(inspect.getdoc(thing) or "")
    if not said[""]:
        return [f"{name} has no docstring"]
    listed = documented(said.get("Parameters", ""))
    found = [f"{name}: parameter {each} is not documented" for each in parameters(thing) if each not in listed]
    found += [f"{name}: {each} is documented, and no parameter" for each in listed - set(parameters(thing))]
    found += [f"{name} has no example"] * ("Examples" not in said)
    if inspect.isfunction(thing) and inspect.signature(thing).return_annotation not in ("None", None):
        found += [f"{name} does not say what it returns"] * ("Returns" not in said)
    return found + (method_faults(name, thing) if isinstance(thing, type) else [])


def method_faults(name, kind):
    """Return what public methods leave unsaid."""
    found = []
    for method, function in inspect.getmembers(kind, inspect.isroutine):
        if method.startswith("_") or not (getattr(function, "__module__", None) or "").startswith("majorant"):
            continue
        text = inspect.getdoc(function) or ""
        unsaid = [each for each in parameters(function) if not re.search(rf"\b{each}\b", text)]
        found += [f"{name}.{method} has no docstring"] * (not text)
        if "Parameters" in sections(text):
            found += [f"{name}.{method}: parameter {each} is not documented" for each in unsaid]
    return found


def main():
    """Print what is left unsaid; return whether anything is."""
    public = {name: getattr(majorant, name) for name in majorant.__all__}
    found = [fault for name, thing in public.items() if not inspect.ismodule(thing) for fault in faults(name, thing)]
    print("\n".join(found) or f"{len(public)} public names say what they are")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
