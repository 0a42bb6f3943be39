"""What is in a release: ``python -m tests.release_contents dist`` exits with 1 if anything is there that should not be.

The wheel holds the package and nothing else: no tests, no experiments, no results, nothing compiled. The source
distribution holds the experiments (``reproduction/``), but not what they found.
"""

import re
import sys
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
DATA = {"majorant/py.typed", "majorant/datasets/ecoli.data"}
ABOUT = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
SOURCE_FILES = {"CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "Makefile", "PKG-INFO", "README.md"}
SOURCE_FILES |= {"SECURITY.md", "conftest.py", "pyproject.toml", ".gitignore"}
SOURCE_FOLDERS = {"majorant", "reproduction", "tests", "examples", "benchmarks", "docs", "recipe"}
SOURCE_ENDINGS = {".py", ".md", ".rst", ".png", ".svg", ".html", ".css", ".js", ".txt", ".ipynb", ".json", ".yaml"}
MEGABYTES = {".whl": 1.0, ".gz": 6.0}


def package_files() -> set[str]:
    """Return what the wheel should hold of the package."""
    return DATA | {path.relative_to(ROOT).as_posix() for path in (ROOT / "majorant").rglob("*.py")}


def odd_in_wheel(names: list[str]) -> list[str]:
    """Return what should not be in a wheel, and what should be and is not."""
    about = next(name.split("/")[0] for name in names if ".dist-info/" in name)
    expected = package_files() | {f"{about}/{name}" for name in ABOUT}
    return sorted(set(names) ^ expected)


def odd_in_source(names: list[str]) -> list[str]:
    """Return what should not be in a source distribution, and what of the package is not."""
    inside = {name.split("/", 1)[1] for name in names}
    missing = (package_files() | SOURCE_FILES) - inside
    return sorted(missing | {name for name in inside - package_files() - SOURCE_FILES if not _is_source(name)})


def _is_source(name: str) -> bool:
    path = Path(name)
    is_result = name.startswith("docs/reproduction/results")
    return path.parts[0] in SOURCE_FOLDERS and path.suffix in SOURCE_ENDINGS and not is_result


def contents(path: Path) -> list[str]:
    """Return the names of the files in a wheel or a source distribution."""
    if path.suffix == ".whl":
        return zipfile.ZipFile(path).namelist()
    with tarfile.open(path) as archive:
        return [member.name for member in archive if member.isfile()]


def odd_in_description(wheel: Path) -> list[str]:
    """Return links and pictures of the description that lead nowhere on the page of an index."""
    with zipfile.ZipFile(wheel) as archive:
        about = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        text = archive.read(about).decode()
    return [f"{target} in the description" for target in re.findall(r"\]\(((?!https?:)[^)]*)\)", text)]


def main(folder: str) -> int:
    """Print what is in the files of a folder by folders; return 1 if anything is odd."""
    paths = sorted(Path(folder).iterdir())
    if [path.suffix for path in paths] != [".whl", ".gz"]:
        print(f"{folder} should hold a wheel and a source distribution, got {[path.name for path in paths]}")
        return 1
    problems = []
    for path in paths:
        names, size = contents(path), path.stat().st_size / 1e6
        print(f"{path.name}: {len(names)} files, {size:.2f} MB")
        for place, count in sorted(Counter(str(Path(name).parent) for name in names).items()):
            print(f"  {count:4d} {place}")
        problems += odd_in_wheel(names) if path.suffix == ".whl" else odd_in_source(names)
        problems += odd_in_description(path) if path.suffix == ".whl" else []
        problems += [f"{path.name} is larger than {MEGABYTES[path.suffix]} MB"] * (size > MEGABYTES[path.suffix])
    print("\n".join(f"unexpected or missing: {problem}" for problem in problems) or "nothing unexpected")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
