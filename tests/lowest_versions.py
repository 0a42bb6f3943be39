"""Print the oldest versions that ``pyproject.toml`` allows, of what the package runs on, as constraints for pip.

``numpy>=2.0`` becomes ``numpy==2.0.*``. Of the tools of development only those are of the same age that scikit-learn
knows: what runs its checks, and data frames that are not of pandas.
"""

import re
import sys
import tomllib

EXTRAS = ("cli", "plot", "files", "frames")
KNOWN = ("polars", "pytest")


def lowest(requirement):
    """Return the constraint, or nothing where no least version is named."""
    found = re.match(r"([\w-]+)(?:\[[^]]*\])?>=(\d+)(?:\.(\d+))?", requirement)
    return f"{found[1]}=={found[2]}.{found[3] or 0}.*" if found else None


def constraints(project):
    needed = [*project["dependencies"], *(each for name in EXTRAS for each in project["optional-dependencies"][name])]
    known = [each for each in project["optional-dependencies"]["dev"] if each.split(">")[0] in KNOWN]
    return [pin for pin in map(lowest, needed + known) if pin]


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        sys.stdout.write("\n".join(constraints(tomllib.load(file)["project"])) + "\n")
