"""The way of a fit through the package: functions, files, calls, and frames on the stack at a product with X.

    python -m benchmarks.hops [--only TEXT] [--stack]

Each of six fits is made twice on one thread, and the second is traced: frames of the package alone, in the main thread.
Comprehensions and lambda expressions belong to the function around them. A product with X is a product of matrices, one
of which has as many columns as X (or one more, a constant) and more rows than columns; a kernel is a compiled function.
`--stack` prints the frames at the deepest of both. Neither functions nor files are named in this file: the source of
the package is changed as it is imported, so that products say where they happen, and counts of versions compare.
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.machinery
import importlib.util
import operator
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PACKAGE = Path(importlib.util.find_spec("majorant").origin).parent
PRODUCTS = ("np.dot", "np.matmul", "np.einsum", "np.tensordot")
LOADED = (
    "import sys, majorant; majorant.LogisticRegression; "
    "print(sum(name.split('.')[0] == 'majorant' for name in sys.modules))"
)


class Trace:
    """What happened in a traced call; `product` and `kernel` are the frames of the deepest of each."""

    def __init__(self, columns: int | None) -> None:
        self.columns = columns
        self.codes: set[CodeType] = set()
        self.calls = self.deepest = 0
        self.product: list[str] = []
        self.kernel: list[str] = []

    def count(self, frame: FrameType, event: str, _: Any) -> None:
        """Count a call of a function of the package: what `sys.setprofile` calls."""
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)) and not code.co_name.startswith("<"):
            self.codes.add(code)
            self.calls += 1
            self.deepest = max(self.deepest, len(stack(frame)))

    def is_product(self, operands: tuple[Any, ...]) -> bool:
        """Return whether an operand has the shape of X, or of some of its rows."""
        shapes = [sorted(operand.shape) for operand in operands if np.ndim(operand) == 2]
        widths = () if self.columns is None else (self.columns, self.columns + 1)
        return any(narrow in widths and long > narrow for narrow, long in shapes)


LISTENING: list[Trace] = []  # the trace of the fit that is running


def stack(frame: FrameType | None) -> list[str]:
    """Return the frames of the package that lead to one, the outermost first."""
    found = []
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(str(PACKAGE)) and not code.co_name.startswith("<"):
            found.append(f"{Path(code.co_filename).relative_to(PACKAGE)}:{frame.f_lineno} {code.co_qualname}")
        frame = frame.f_back
    return found[::-1]


def multiply(function: Callable[..., Any], *operands: Any, **settings: Any) -> Any:
    """Return a product of matrices, and tell the trace of it."""
    for trace in LISTENING:
        if trace.is_product(operands):
            trace.product = max(trace.product, stack(sys._getframe(1)), key=len)
    return function(*operands, **settings)


class Kernel:
    """A compiled function that tells the trace of its calls."""

    def __init__(self, compiled: Callable[..., Any]) -> None:
        self.compiled = compiled

    def __call__(self, *arguments: Any) -> Any:
        for trace in LISTENING:
            trace.kernel = max(trace.kernel, stack(sys._getframe(1)), key=len)
        return self.compiled(*arguments)


class Products(ast.NodeTransformer):
    """Replaces products of matrices by calls of :func:`multiply`, but not in functions that are compiled."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        compiled = any("compile" in ast.unparse(decorator) for decorator in node.decorator_list)
        return node if compiled else self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.MatMult):
            return node
        return self._call(node, ast.Name("_matmul", ast.Load()), [node.left, node.right], [])

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if ast.unparse(node.func) not in PRODUCTS:
            return node
        return self._call(node, node.func, node.args, node.keywords)

    def _call(
        self, node: ast.expr, function: ast.expr, operands: list[ast.expr], settings: list[ast.keyword]
    ) -> ast.AST:
        called = ast.Call(ast.Name("_multiply", ast.Load()), [function, *operands], settings)
        return ast.copy_location(called, node)


class Loader(importlib.machinery.SourceFileLoader):
    """Loads a module of the package with its products replaced."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        tree = Products().visit(ast.parse(self.get_data(path)))
        return compile(ast.fix_missing_locations(tree), path, "exec")

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(_multiply=multiply, _matmul=operator.matmul)
        super().exec_module(module)


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of the package for :class:`Loader`."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname.split(".")[0] != PACKAGE.name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.origin is not None:
            spec.loader = Loader(fullname, spec.origin)
        return spec


@contextmanager
def kernels_told() -> Iterator[None]:
    """Put a :class:`Kernel` in the place of each compiled function that a module of the package names."""
    from numba.core.dispatcher import Dispatcher

    modules = [module for name, module in sys.modules.items() if name.split(".")[0] == PACKAGE.name]
    replaced = [
        (vars(m), name, value) for m in modules for name, value in vars(m).items() if isinstance(value, Dispatcher)
    ]
    for names, name, value in replaced:
        names[name] = Kernel(value)
    try:
        yield
    finally:
        for names, name, value in replaced:
            names[name] = value


def traced(fit: Callable[[], object], columns: int | None) -> Trace:
    """Return the trace of the second of two calls."""
    fit()
    trace = Trace(columns)
    with kernels_told():
        LISTENING.append(trace)
        sys.setprofile(trace.count)
        try:
            fit()
        finally:
            sys.setprofile(None)
            LISTENING.clear()
    return trace


def fits(folder: Path) -> dict[str, tuple[Callable[[], object], int | None]]:
    """Return by name each fit, and how many columns its X has."""
    import majorant

    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 20))
    y = (X[:, 0] + rng.logistic(size=2000) > 0).astype(int)
    X10 = rng.normal(size=(5000, 50))
    y10 = (X10[:, :10] + rng.gumbel(size=(5000, 10))).argmax(axis=1)
    tokens = [
        [{f"word={rng.integers(200)}": 1.0, f"shape={rng.integers(9)}": 1.0} for _ in range(12)] for _ in range(300)
    ]
    labels = [[f"label {int(next(iter(token)).split('=')[1]) % 5}" for token in sentence] for sentence in tokens]
    tall = rng.normal(size=(60_000, 2))
    table = {"a": tall[:, 0], "b": tall[:, 1], "y": (tall[:, 0] + rng.logistic(size=60_000) > 0).astype(int)}
    pq.write_table(pa.table(table), folder / "rows.parquet")
    utilities = rng.normal(size=(500, 4, 2))
    chosen = (utilities.sum(axis=2) + rng.gumbel(size=(500, 4))).argmax(axis=1)
    choices = utilities.reshape(-1, 2), np.eye(4, dtype=int)[chosen].ravel(), np.repeat(np.arange(500), 4)
    source = majorant.Parquet(folder / "rows.parquet", target="y")
    return {
        "binary, 2,000x20": (lambda: majorant.LogisticRegression(n_jobs=1).fit(X, y), 20),
        "10 classes, 5,000x50": (lambda: majorant.LogisticRegression(n_jobs=1).fit(X10, y10), 50),
        "chain, 300 sentences": (lambda: majorant.ChainCRF(n_jobs=1).fit(tokens, labels), None),
        "partial_fit, 2,000x20": (lambda: majorant.LogisticRegression(n_jobs=1).partial_fit(X, y, [0, 1]), 20),
        "Parquet, 60,000x2": (lambda: majorant.LogisticRegression(n_jobs=1).fit(source), 2),
        "choice, 500x4x2": (lambda: majorant.ConditionalLogit(n_jobs=1).fit(*choices), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="trace the fits whose name holds this text")
    parser.add_argument("--stack", action="store_true", help="print the frames at the deepest product and kernel")
    options = parser.parse_args()
    sys.meta_path.insert(0, Finder())
    head = ("functions", "files", "calls", "deepest stack", "at a product", "at a kernel")
    print(f"{'fit':22}", *(f"{name:>14}" for name in head))
    with tempfile.TemporaryDirectory() as folder:
        for name, (fit, columns) in fits(Path(folder)).items():
            if options.only not in name:
                continue
            trace = traced(fit, columns)
            files = {code.co_filename for code in trace.codes}
            row = (len(trace.codes), len(files), trace.calls, trace.deepest, len(trace.product), len(trace.kernel))
            print(f"{name:22}", *(f"{value or '-':>14}" for value in row))
            if options.stack:
                for what in ("product", "kernel"):
                    print("\n".join([f"  deepest {what}:", *(f"    {line}" for line in getattr(trace, what))]))
    loaded = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    print(f"modules loaded by `import majorant; majorant.LogisticRegression`: {loaded.stdout.strip()}")


if __name__ == "__main__":
    main()
