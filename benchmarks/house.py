"""What there is to read in the package: files, lines, functions, classes, numbers.

    python -m benchmarks.house [FOLDER] [--folders]

FOLDER is `majorant` by default; `--folders` prints the same counts for each folder in it. All counts are taken from the
syntax trees. A line of code is neither blank, nor a comment, nor part of a docstring. A number is a name in capitals,
assigned at module level, whose value holds a numeric literal. A function has a name of its own if no other function of
the package has this name and it is not a special method; what refers to it is a use of the name, whatever the object:
imports and definitions are not counted. Bodies are lines of code, without the signature.
"""

from __future__ import annotations

import argparse
import ast
import statistics
from collections import Counter
from pathlib import Path
from typing import NamedTuple

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Module(NamedTuple):
    """Numbers of the lines of code, and the syntax tree."""

    lines: int
    code: set[int]
    tree: ast.Module


class Function(NamedTuple):
    """`kind` is method, function (of a module) or nested."""

    name: str
    kind: str
    body: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("majorant"))
    parser.add_argument("--folders", action="store_true")
    options = parser.parse_args()
    modules = {path: parse(path) for path in sorted(options.folder.rglob("*.py"))}
    if not modules:
        parser.error(f"FOLDER must hold Python files; {options.folder} has none")
    uses = references(list(modules.values()))
    names = Counter(function.name for module in modules.values() for function in functions(module))
    groups = {options.folder.name: list(modules.values())}
    if options.folders:
        for path, module in modules.items():
            parts = path.relative_to(options.folder).parts
            groups.setdefault(parts[0] if len(parts) > 1 else "(top level)", []).append(module)
    tables = [counts(group, names, uses) for group in groups.values()]
    width = max(map(len, tables[0]))
    print(" " * width, *(f"{name:>11}" for name in groups))
    for row in tables[0]:
        print(f"{row:{width}}", *(f"{table[row]:>11}" for table in tables))


def parse(path: Path) -> Module:
    """Return the lines of code and the syntax tree of a file."""
    text = path.read_text()
    tree, lines = ast.parse(text), text.splitlines()
    documented = {line for node in ast.walk(tree) for line in docstring_lines(node)}
    code = {k for k, line in enumerate(lines, 1) if line.strip() and not line.strip().startswith("#")}
    return Module(len(lines), code - documented, tree)


def docstring_lines(node: ast.AST) -> range:
    """Return the lines of the docstring of a module, a class or a function."""
    if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)) and ast.get_docstring(node, clean=False) is not None:
        return range(node.body[0].lineno, node.body[0].end_lineno + 1)
    return range(0)


def functions(module: Module) -> list[Function]:
    """Return the functions of a module, at any depth."""
    found: list[Function] = []

    def visit(node: ast.AST, kind: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, FUNCTIONS):
                lines = range(child.body[0].lineno, child.end_lineno + 1)
                found.append(Function(child.name, kind, len(module.code.intersection(lines))))
                visit(child, "nested")
            else:
                visit(child, "method" if isinstance(child, ast.ClassDef) else kind)

    visit(module.tree, "function")
    return found


def references(modules: list[Module]) -> Counter[str]:
    """Return how often each name is used."""
    found: Counter[str] = Counter()
    for node in (node for module in modules for node in ast.walk(module.tree)):
        if isinstance(node, ast.Attribute):
            found[node.attr] += 1
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found[node.id] += 1
    return found


def numbers(module: Module) -> int:
    """Return how many names in capitals are given a value with a numeric literal at module level."""
    total = 0
    for node in module.tree.body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        literals = (leaf.value for leaf in ast.walk(node.value) if isinstance(leaf, ast.Constant))
        if any(type(value) in (int, float) for value in literals):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            leaves = (leaf for target in targets for leaf in ast.walk(target))
            total += sum(isinstance(leaf, ast.Name) and leaf.id.isupper() for leaf in leaves)
    return total


def counts(modules: list[Module], names: Counter[str], uses: Counter[str]) -> dict[str, str]:
    """Return the rows of a column: what, and how much of it; `names` and `uses` are those of the whole package."""
    found = [function for module in modules for function in functions(module)]
    kinds = Counter(function.kind for function in found)
    bodies = [function.body for function in found] or [0]
    own = [f.name for f in found if names[f.name] == 1 and not f.name.startswith("__")]
    once = sum(uses[name] == 1 for name in own)
    classes = [node for module in modules for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]
    methods = Counter(sum(isinstance(part, FUNCTIONS) for part in node.body) for node in classes)
    return {
        "files": f"{len(modules):,}",
        "lines": f"{sum(module.lines for module in modules):,}",
        "lines of code": f"{sum(len(module.code) for module in modules):,}",
        "numbers at module level": f"{sum(map(numbers, modules)):,}",
        "functions": f"{len(found):,}",
        "  methods": f"{kinds['method']:,}",
        "  of a module": f"{kinds['function']:,}",
        "  nested": f"{kinds['nested']:,}",
        "mean body": f"{statistics.mean(bodies):.1f}",
        "median body": f"{statistics.median(bodies):g}",
        "longest body": f"{max(bodies)}",
        "with a name of their own": f"{len(own):,}",
        "  named in one place only": f"{once:,}",
        "  share of them": f"{once / max(len(own), 1):.0%}",
        "classes": f"{len(classes):,}",
        "  without a method": f"{methods[0]:,}",
        "  with one method": f"{methods[1]:,}",
    }


if __name__ == "__main__":
    main()
