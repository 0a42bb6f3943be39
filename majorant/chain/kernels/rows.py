"""Rows of numbers that stay in registers: a Numba type for a few LLVM vectors, and what can be done with it.

LLVM does not vectorise loops over labels by itself: arrays may overlap, and it does not know how many labels there are.
A row says both. Its length, a multiple of ``LANES``, is part of its type, so kernels take it as the type of a tuple:
``width`` is a tuple of zeros, one for every ``LANES`` labels, which Numba's cache knows by its length.

Of arrays, kernels keep where they begin (``bare``): Numba would carry all it knows of an array, and of every array of a
tuple, to wherever one of them is mentioned, and LLVM would take that apart again: a sixth of the time to compile.

=======================  =======================================================================================
``bare(A, width)``       where a C-contiguous matrix begins, or a vector, or each of a tuple of them
``A[t]``, ``A[t] = a``   row t of a matrix, of float32 or float64; ``A[t, k]`` is a number of it
``from_row(A, t)``       the matrix without its first t rows
``breadth(A)``           how many columns there are
``zeros(A)``             a row of zeros, of the precision of a matrix
``chosen(a, M, t)``      a, or zero where the bit of a place is not set in row t of a matrix of bytes, one a block
``a + b``, ``a * b``…    place by place; either may be a number
``exp(a)``, ``log(a)``   to the last digits of the type; of what is below −87 as of that, in double precision below
                         −708 zero
``at_least(a, x)``       a, or the number x where a is below
``total(a)``             the sum
``largest(a)``           the largest
=======================  =======================================================================================

What kernels may be given or not: values of occurrences, weights of tokens, ridges. Left out, all are ones.

Numba compiles what is written for the one that it is given, and nothing for the other. Emitted, as rows are
(:mod:`majorant.chain.kernels.rows`): functions so small are compiled in less time than it takes to call them.

Loops over rows of matrices that do one thing, written out: Numba takes far longer to compile a loop than a call.

Matrices and vectors are bare (:mod:`majorant.chain.kernels.rows`).

Rows in registers times matrices: the two sums over labels that the time on chains goes to.

Written out as loops over vectors, since LLVM would neither keep sums in registers nor interleave them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import impl_ret_borrowed, lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, models, register_model

LANES = 8
# Sums may be reordered and products contracted with sums, as in ``compile_sums``.
FLAGS = ("reassoc", "contract")


def emitted(function: Callable[..., Any]) -> Any:
    """Return what Numba types by calling ``function`` and emits by what that returns; kernels call it as they like."""
    return intrinsic(function)


class Row(types.Type):
    """A row of ``blocks`` · ``LANES`` numbers."""

    def __init__(self, number: Any, blocks: int) -> None:
        self.number, self.blocks = number, blocks
        super().__init__(name=f"Row({number}, {blocks})")


@register_model(Row)
class _RowModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Row) -> None:
        vector = ir.VectorType(scalar_of(kind), LANES)
        super().__init__(manager, kind, ir.ArrayType(vector, kind.blocks))


class Rows(types.Type):
    """Where a matrix of such rows begins."""

    def __init__(self, row: Row) -> None:
        self.row = row
        super().__init__(name=f"Rows({row.number}, {row.blocks})")


@register_model(Rows)
class _RowsModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Rows) -> None:
        super().__init__(manager, kind, scalar_of(kind.row).as_pointer())


class Entries(types.Type):
    """Where a vector begins, or a matrix of what is no float."""

    def __init__(self, number: Any) -> None:
        self.number = number
        super().__init__(name=f"Entries({number})")


@register_model(Entries)
class _EntriesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Entries) -> None:
        super().__init__(manager, kind, manager.lookup(kind.number).get_data_type().as_pointer())


# --- reading and writing ----------------------------------------------------------------------------------


@emitted
def bare(context: Any, what: Any, width: Any) -> Any:
    """Return where an array begins, or each of a tuple of arrays; what is no contiguous array stays as it is."""
    kind = _bare_kind(what, len(width))

    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return _bare(context, builder, what, kind, arguments[0])

    return kind(what, width), emit


def _bare_kind(kind: Any, blocks: int) -> Any:
    if _is_tuple(kind):
        each = [_bare_kind(inner, blocks) for inner in kind.types]
        return types.BaseTuple.from_types(each, getattr(kind, "instance_class", None))
    if not isinstance(kind, types.Array) or kind.layout != "C":
        return kind
    return Rows(Row(kind.dtype, blocks)) if kind.ndim == 2 and kind.dtype in types.real_domain else Entries(kind.dtype)


def _is_tuple(kind: Any) -> bool:
    return isinstance(kind, types.BaseTuple)


def _bare(context: Any, builder: Any, kind: Any, into: Any, value: Any) -> Any:
    if _is_tuple(kind):
        each = zip(kind.types, into.types, cgutils.unpack_tuple(builder, value, len(kind)), strict=True)
        return context.make_tuple(builder, into, [_bare(context, builder, *inner) for inner in each])
    if into == kind:
        return impl_ret_borrowed(context, builder, kind, value)
    return field_of(context, builder, kind, value, "data")


@emitted
def from_row(context: Any, A: Any, t: Any) -> Any:
    """Return a matrix without its first t rows."""

    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return place_of(context, builder, A, arguments[0], arguments[1], sig.args[1])

    return A(A, t), emit


@emitted
def breadth(context: Any, A: Any) -> Any:
    """Return the number of columns."""
    return types.intp(A), lambda context, builder, sig, arguments: size(A.row.blocks * LANES)


@emitted
def zeros(context: Any, A: Any) -> Any:
    """Return a row of zeros of the precision of a matrix."""
    row = A.row

    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return packed(builder, row, [_constants(row)(0.0)] * row.blocks)

    return row(A), emit


@infer_global(operator.getitem)
class _Reading(AbstractTemplate):
    metadata = {"target": "cpu"}  # noqa: RUF012

    def generic(self, args: Any, kws: Any) -> Any:
        what, index = args
        found = _read_from(what, index)
        return None if found is None else signature(found, what, index)


@infer_global(operator.setitem)
class _Writing(AbstractTemplate):
    metadata = {"target": "cpu"}  # noqa: RUF012

    def generic(self, args: Any, kws: Any) -> Any:
        what, index, _ = args
        found = _read_from(what, index)
        return None if found is None else signature(types.none, what, index, found)


def _read_from(what: Any, index: Any) -> Any:
    """Return the type of what stands at an index, None if that is not for this module to say."""
    if isinstance(what, Rows):
        return what.row.number if isinstance(index, types.BaseTuple) else what.row
    return what.number if isinstance(what, Entries) else None


@lower_builtin(operator.getitem, Rows, types.Integer)
def _read_row(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    row, (A, t) = sig.return_type, arguments
    at = place_of(context, builder, sig.args[0], A, t, sig.args[1])
    return packed(builder, row, [load_vector(builder, at, k, row) for k in range(row.blocks)])


@lower_builtin(operator.setitem, Rows, types.Integer, Row)
def _write_row(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    A, t, row = arguments
    at = place_of(context, builder, sig.args[0], A, t, sig.args[1])
    for k, vector in enumerate(parts_of(builder, sig.args[2], row)):
        store_vector(builder, at, k, sig.args[2], vector)
    return context.get_dummy_value()


@lower_builtin(operator.getitem, Rows, types.BaseTuple)
@lower_builtin(operator.getitem, Entries, types.Integer)
def _read_number(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    return builder.load(_number_at(context, builder, *sig.args, *arguments))


@lower_builtin(operator.setitem, Rows, types.BaseTuple, types.Float)
@lower_builtin(operator.setitem, Entries, types.Integer, types.Number)
def _write_number(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    builder.store(arguments[2], _number_at(context, builder, *sig.args[:2], *arguments[:2]))
    return context.get_dummy_value()


def _number_at(context: Any, builder: Any, kind: Any, index: Any, A: Any, k: Any) -> Any:
    if isinstance(kind, Entries):
        return builder.gep(A, [context.cast(builder, k, index, types.intp)])
    t, k = (builder.extract_value(k, which) for which in (0, 1))
    at = place_of(context, builder, kind, A, t, index.types[0])
    return builder.gep(at, [context.cast(builder, k, index.types[1], types.intp)])


@emitted
def chosen(context: Any, a: Any, M: Any, t: Any) -> Any:
    """Return a where bits of row t are set, the lowest of a byte for the first place of its block; zero elsewhere."""

    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        first = builder.mul(context.cast(builder, arguments[2], t, types.intp), size(a.blocks))
        at = builder.gep(arguments[1], [first])
        bits, none = ir.VectorType(ir.IntType(8), LANES), _constants(a)(0.0)
        found = []
        for k, part in enumerate(parts_of(builder, a, arguments[0])):
            byte = repeated(builder, builder.load(builder.gep(at, [size(k)])))
            lanes = builder.and_(byte, bits([1 << lane for lane in range(LANES)]))
            found.append(builder.select(builder.icmp_unsigned("!=", lanes, bits([0] * LANES)), part, none))
        return packed(builder, a, found)

    return a(a, M, t), emit


# --- arithmetic -------------------------------------------------------------------------------------------


def _add_operator(function: Any, emit: str) -> None:
    """Let Numba know ``function`` on rows, and on a row and a number."""

    @infer_global(function)
    class Template(AbstractTemplate):
        # What is of this target is asked first: a tenth of the time to compile was for those that know no rows.
        metadata = {"target": "cpu"}  # noqa: RUF012

        def generic(self, args: Any, kws: Any) -> Any:
            rows = [each for each in args if isinstance(each, Row)]
            if not rows or len(args) != 2:
                return None
            return signature(rows[0], *(each if isinstance(each, Row) else rows[0].number for each in args))

    def lower(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        row = sig.return_type
        parts = [_operand(builder, row, kind, each) for kind, each in zip(sig.args, arguments, strict=True)]
        found = [getattr(builder, emit)(a, b, flags=FLAGS) for a, b in zip(*parts, strict=True)]
        return packed(builder, row, found)

    for kinds in ((Row, Row), (Row, types.Float), (types.Float, Row)):
        lower_builtin(function, *kinds)(lower)


for _function, _emit in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _add_operator(_function, _emit)


def _operand(builder: Any, row: Row, kind: Any, value: Any) -> list[Any]:
    return parts_of(builder, row, value) if isinstance(kind, Row) else [repeated(builder, value)] * row.blocks


@emitted
def at_least(context: Any, a: Any, x: Any) -> Any:
    """Return x where a is below."""

    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        least = repeated(builder, arguments[1])
        return packed(builder, a, [_larger(builder, part, least) for part in parts_of(builder, a, arguments[0])])

    return a(a, a.number), emit


def _reduction(combine: Callable[[Any, Any, Any], Any]) -> Callable[..., Any]:
    """Return what emits the combination of all numbers of a row: of vectors first, then of ever smaller halves."""

    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        parts = parts_of(builder, sig.args[0], arguments[0])
        while len(parts) > 1:
            pairs = [combine(builder, a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
            parts = pairs + parts[2 * len(pairs) :]
        vector, lanes = parts[0], LANES
        while lanes > 1:
            lanes //= 2
            low, high = (_some(builder, vector, begin, lanes) for begin in (0, lanes))
            vector = combine(builder, low, high)
        return builder.extract_element(vector, ir.IntType(32)(0))

    return emit


@emitted
def total(context: Any, a: Any) -> Any:
    """Return the sum."""
    return a.number(a), _reduction(lambda builder, x, y: builder.fadd(x, y, flags=FLAGS))


@emitted
def largest(context: Any, a: Any) -> Any:
    """Return the largest."""
    return a.number(a), _reduction(_larger)


# --- exponentials and logarithms --------------------------------------------------------------------------


@emitted
def exp(context: Any, a: Any) -> Any:
    """Return e^a: 2^k e^r with k whole and |r| ≤ ½ log 2, where a polynomial is exact to the last digits."""

    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        parts = parts_of(builder, a, arguments[0])
        return packed(builder, a, [_exp(builder, a, x) for x in parts])

    return a(a), emit


@emitted
def log(context: Any, a: Any) -> Any:
    """Return the logarithm of a > 0: k log 2 + log m with ½√2 ≤ m < √2, by the series of the inverse tanh."""

    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        parts = parts_of(builder, a, arguments[0])
        return packed(builder, a, [_log(builder, a, x) for x in parts])

    return a(a), emit


def _exp(builder: Any, row: Row, x: Any) -> Any:
    digits, lowest, degree = _facts(row)
    constant, given = _constants(row), x
    x = _larger(builder, x, constant(lowest))
    # Adding 1.5·2^digits leaves k in the last digits of the sum, ready to become an exponent.
    magic = constant(1.5 * 2.0**digits)
    shifted = builder.fadd(builder.fmul(x, constant(1 / np.log(2))), magic)
    k = builder.fsub(shifted, magic)
    high = _rounded_off(np.log(2), row)
    r = builder.fsub(x, builder.fmul(k, constant(high), flags=FLAGS), flags=("contract",))
    r = builder.fsub(r, builder.fmul(k, constant(np.log(2) - high), flags=FLAGS), flags=("contract",))
    p = _polynomial(builder, row, r, 1 / np.cumprod([1.0, *range(1, degree + 1)]))
    whole = _integers(row)
    bits = builder.shl(builder.bitcast(shifted, whole), whole([digits] * LANES))
    power = builder.bitcast(builder.add(builder.bitcast(p, whole), bits), p.type)
    if row.number != types.float64:
        return power
    # Certificates are of sums over paths: one that is left out makes them looser, one that is too likely false.
    return builder.select(builder.fcmp_ordered("<", given, constant(lowest)), constant(0.0), power)


def _log(builder: Any, row: Row, x: Any) -> Any:
    digits, _, degree = _facts(row)
    constant, whole = _constants(row), _integers(row)
    shift = whole([digits] * LANES)
    # The exponent is counted from ½√2, so that m is as close to one as it can be.
    root = int(np.asarray(np.sqrt(0.5), _dtype(row)).view(f"i{bytes_of(row)}"))
    above = builder.sub(builder.bitcast(x, whole), whole([root] * LANES))
    exponent = builder.ashr(above, shift)
    m = builder.bitcast(builder.sub(builder.bitcast(x, whole), builder.shl(exponent, shift)), x.type)
    s = builder.fdiv(builder.fsub(m, constant(1.0)), builder.fadd(m, constant(1.0)))
    square = builder.fmul(s, s)
    series = _polynomial(builder, row, square, [2 / (2 * k + 1) for k in range(degree - 1)])
    k = builder.sitofp(exponent, x.type)
    return builder.fadd(builder.fmul(k, constant(np.log(2))), builder.fmul(s, series), flags=FLAGS)


def _polynomial(builder: Any, row: Row, x: Any, coefficients: Any) -> Any:
    constant = _constants(row)
    value = constant(coefficients[-1])
    for c in coefficients[-2::-1]:
        value = builder.fadd(builder.fmul(value, x, flags=FLAGS), constant(c), flags=FLAGS)
    return value


def _facts(row: Row) -> tuple[int, float, int]:
    """Return the digits of a mantissa, the least logarithm, and the degree of a polynomial that is exact."""
    return (23, -87.0, 6) if row.number == types.float32 else (52, -708.0, 12)


def _rounded_off(x: float, row: Row) -> float:
    """Return x with so few digits that its products with small whole numbers are exact."""
    bits = 12 if row.number == types.float32 else 32
    return float(np.round(x * 2.0**bits) / 2.0**bits)


# --- what these are made of -------------------------------------------------------------------------------


def _dtype(row: Row) -> Any:
    return np.dtype(np.float32 if row.number == types.float32 else np.float64)


def bytes_of(row: Row) -> int:
    """Return the size of a number."""
    return int(_dtype(row).itemsize)


def scalar_of(row: Row) -> Any:
    """Return LLVM's type of a number."""
    return ir.FloatType() if row.number == types.float32 else ir.DoubleType()


def _integers(row: Row) -> Any:
    return ir.VectorType(ir.IntType(8 * bytes_of(row)), LANES)


def size(k: int) -> Any:
    """Return a whole number, as sizes are."""
    return ir.IntType(64)(k)


def _constants(row: Row) -> Callable[[float], Any]:
    vector = ir.VectorType(scalar_of(row), LANES)
    return lambda x: vector([float(x)] * LANES)


def parts_of(builder: Any, row: Row, value: Any) -> list[Any]:
    """Return the vectors of a row."""
    return [builder.extract_value(value, k) for k in range(row.blocks)]


def packed(builder: Any, row: Row, parts: list[Any]) -> Any:
    """Return a row of these vectors."""
    value = ir.Constant(ir.ArrayType(ir.VectorType(scalar_of(row), LANES), row.blocks), ir.Undefined)
    for k, part in enumerate(parts):
        value = builder.insert_value(value, part, k)
    return value


def repeated(builder: Any, x: Any) -> Any:
    """Return a vector with x in every place."""
    vector = ir.VectorType(x.type, LANES)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), x, ir.IntType(32)(0))
    return builder.shuffle_vector(
        first, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    )


def _some(builder: Any, vector: Any, begin: int, count: int) -> Any:
    which = ir.Constant(ir.VectorType(ir.IntType(32), count), list(range(begin, begin + count)))
    return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), which)


def _larger(builder: Any, x: Any, y: Any) -> Any:
    """Return the larger number; if x is none, that."""
    return builder.select(builder.fcmp_ordered("<", x, y), y, x)


def place_of(context: Any, builder: Any, kind: Any, A: Any, t: Any, index: Any) -> Any:
    """Return where row t of a matrix stands."""
    t = context.cast(builder, t, index, types.intp)
    return builder.gep(A, [builder.mul(t, size(kind.row.blocks * LANES))])


def field_of(context: Any, builder: Any, kind: Any, A: Any, name: str) -> Any:
    """Return what is known of an array under a name."""
    return context.data_model_manager[kind].get(builder, A, name)


def load_vector(builder: Any, at: Any, k: int, row: Row) -> Any:
    """Return vector k of the row that stands at a place."""
    vector = ir.VectorType(scalar_of(row), LANES)
    return builder.load(builder.bitcast(builder.gep(at, [size(k * LANES)]), vector.as_pointer()), align=bytes_of(row))


def store_vector(builder: Any, at: Any, k: int, row: Row, value: Any) -> None:
    """Write it."""
    vector = ir.VectorType(scalar_of(row), LANES)
    place = builder.bitcast(builder.gep(at, [size(k * LANES)]), vector.as_pointer())
    builder.store(value, place, align=bytes_of(row))


@emitted
def value_of(context: Any, values: Any, e: Any) -> Any:
    """Return value e, or one."""
    if isinstance(values, types.NoneType):
        return types.float64(values, e), lambda context, *_: context.get_constant(types.float64, 1.0)

    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return _read(context, builder, sig.args[0], arguments[0], sig.args[1], arguments[1])

    return _number(values)(values, e), emit


@emitted
def scaled(context: Any, a: Any, values: Any, e: Any) -> Any:
    """Return value e times a number or a row a, in the precision of a."""
    if isinstance(values, types.NoneType):
        return a(a, values, e), lambda context, builder, sig, arguments: arguments[0]
    number = a.number if isinstance(a, Row) else a

    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        value = _read(context, builder, values, arguments[1], sig.args[2], arguments[2])
        value = context.cast(builder, value, _number(values), number)
        if not isinstance(a, Row):
            return builder.fmul(arguments[0], value, flags=FLAGS)
        factor = repeated(builder, value)
        return packed(builder, a, [builder.fmul(x, factor, flags=FLAGS) for x in parts_of(builder, a, arguments[0])])

    return a(a, values, e), emit


@emitted
def shrunk(context: Any, a: Any, threshold: Any) -> Any:
    """Return sign(a)·max(|a| − threshold, 0), the soft threshold of a number or a row; without a threshold a itself."""
    if isinstance(threshold, types.NoneType):
        return a(a, threshold), lambda context, builder, sig, arguments: arguments[0]

    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        t = context.cast(builder, arguments[1], threshold, a.number if isinstance(a, Row) else a)
        less, none = builder.fneg(t), ir.Constant(t.type, 0.0)
        if isinstance(a, Row):
            less, none = repeated(builder, less), _constants(a)(0.0)
        parts = parts_of(builder, a, arguments[0]) if isinstance(a, Row) else [arguments[0]]
        found = [builder.fadd(x, _larger(builder, builder.fsub(none, _larger(builder, x, less)), less)) for x in parts]
        return packed(builder, a, found) if isinstance(a, Row) else found[0]

    return a(a, threshold), emit


@emitted
def moved(context: Any, raw: Any, before: Any, after: Any, ridge: Any, threshold: Any) -> Any:
    """Return λ(after − before) of thresholded parameters, numbers or rows; without a threshold that is ``raw``."""
    if isinstance(threshold, types.NoneType):
        return raw(raw, before, after, ridge, threshold), lambda context, builder, sig, arguments: arguments[0]

    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        row = raw if isinstance(raw, Row) else None
        number = raw.number if isinstance(raw, Row) else raw
        factor = context.cast(builder, arguments[3], ridge, number)
        if row is None:
            return builder.fmul(builder.fsub(arguments[2], arguments[1]), factor)
        each = zip(parts_of(builder, row, arguments[2]), parts_of(builder, row, arguments[1]), strict=True)
        return packed(builder, row, [builder.fmul(builder.fsub(a, b), repeated(builder, factor)) for a, b in each])

    return raw(raw, before, after, ridge, threshold), emit


@emitted
def scaled_by_row(context: Any, a: Any, A: Any, t: Any) -> Any:
    """Return a row times row t of a matrix, place by place."""
    if isinstance(A, types.NoneType):
        return a(a, A, t), lambda context, builder, sig, arguments: arguments[0]

    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        at = place_of(context, builder, A, arguments[1], arguments[2], sig.args[2])
        parts = enumerate(parts_of(builder, a, arguments[0]))
        return packed(builder, a, [builder.fmul(x, load_vector(builder, at, k, a), flags=FLAGS) for k, x in parts])

    return a(a, A, t), emit


def _number(values: Any) -> Any:
    return values.number if isinstance(values, Entries) else values.dtype


def _read(context: Any, builder: Any, kind: Any, values: Any, index: Any, e: Any) -> Any:
    """Return what stands at place e of a vector."""
    place = context.cast(builder, e, index, types.intp)
    if isinstance(kind, Entries):
        return builder.load(builder.gep(values, [place]))
    array = context.make_array(kind)(context, builder, values)
    at = cgutils.get_item_pointer(context, builder, kind, array, [place])
    return builder.load(at)


@emitted
def clear_rows(context: Any, A: Any, count: Any) -> Any:
    """Write zeros to the first rows of a matrix."""
    row = A.row
    zero = ir.VectorType(scalar_of(row), LANES)([0.0] * LANES)

    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        with _each_row(context, builder, sig, arguments, 1) as t:
            at = place_of(context, builder, A, arguments[0], t, types.intp)
            for k in range(row.blocks):
                store_vector(builder, at, k, row, zero)
        return context.get_dummy_value()

    return types.void(A, count), emit


@emitted
def scale_rows(context: Any, A: Any, count: Any, a: Any) -> Any:
    """Multiply the first rows of a matrix by a number."""
    row = A.row

    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        factor = repeated(builder, arguments[2])
        with _each_row(context, builder, sig, arguments, 1) as t:
            at = place_of(context, builder, A, arguments[0], t, types.intp)
            for k in range(row.blocks):
                product = builder.fmul(load_vector(builder, at, k, row), factor, flags=FLAGS)
                store_vector(builder, at, k, row, product)
        return context.get_dummy_value()

    return types.void(A, count, A.row.number), emit


@emitted
def add_rows(context: Any, A: Any, first: Any, count: Any, B: Any, a: Any) -> Any:
    """Add a times the first rows of B to the rows of A from ``first`` on."""
    row = A.row

    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        begin, factor = context.cast(builder, arguments[1], first, types.intp), repeated(builder, arguments[4])
        with _each_row(context, builder, sig, arguments, 2) as t:
            to = place_of(context, builder, A, arguments[0], builder.add(begin, t), types.intp)
            of = place_of(context, builder, B, arguments[3], t, types.intp)
            for k in range(row.blocks):
                product = builder.fmul(load_vector(builder, of, k, row), factor, flags=FLAGS)
                store_vector(builder, to, k, row, builder.fadd(load_vector(builder, to, k, row), product, flags=FLAGS))
        return context.get_dummy_value()

    return types.void(A, first, count, B, A.row.number), emit


@emitted
def add_square_products(context: Any, A: Any, B: Any, C: Any) -> Any:
    """Add B times C to A, place by place; all are square."""
    row = A.row

    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        with cgutils.for_range(builder, size(row.blocks * LANES)) as loop:
            to, b, c = (place_of(context, builder, A, each, loop.index, types.intp) for each in arguments[:3])
            for k in range(row.blocks):
                factors = [load_vector(builder, at, k, row) for at in (b, c)]
                product = builder.fmul(*factors, flags=FLAGS)
                store_vector(builder, to, k, row, builder.fadd(load_vector(builder, to, k, row), product, flags=FLAGS))
        return context.get_dummy_value()

    return types.void(A, B, C), emit


@emitted
def transpose(context: Any, A: Any, B: Any) -> Any:
    """Write the transpose of a square matrix to another."""
    many = size(A.row.blocks * LANES)

    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        of, to = arguments[:2]
        with cgutils.for_range(builder, many) as rows, cgutils.for_range(builder, many) as columns:
            i, j = rows.index, columns.index
            number = builder.load(builder.gep(of, [builder.add(builder.mul(i, many), j)]))
            builder.store(number, builder.gep(to, [builder.add(builder.mul(j, many), i)]))
        return context.get_dummy_value()

    return types.void(A, B), emit


@emitted
def fetch_rows(context: Any, A: Any, first: Any, count: Any) -> Any:
    """Ask for rows of a matrix from ``first`` on, a line of the cache each, before they are needed."""

    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        begin = context.cast(builder, arguments[1], first, types.intp)
        with _each_row(context, builder, sig, arguments, 2) as t:
            _ask_for(builder, place_of(context, builder, A, arguments[0], builder.add(begin, t), types.intp))
        return context.get_dummy_value()

    return types.void(A, first, count), emit


@emitted
def fetch_places(context: Any, v: Any, codes: Any, begin: Any, end: Any, bits: Any) -> Any:
    """Ask for the places of a vector that codes name, less their last bits, before they are needed."""

    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        data, named = arguments[:2]
        start, stop = (context.cast(builder, arguments[k], sig.args[k], types.intp) for k in (2, 3))
        shift = context.cast(builder, arguments[4], bits, codes.number)
        with cgutils.for_range_slice(builder, start, stop, size(1)) as (e, _):
            place = builder.lshr(builder.load(builder.gep(named, [e])), shift)
            _ask_for(builder, builder.gep(data, [context.cast(builder, place, codes.number, types.intp)]))
        return context.get_dummy_value()

    return types.void(v, codes, begin, end, bits), emit


# --- what these are made of -------------------------------------------------------------------------------


@contextmanager
def _each_row(context: Any, builder: Any, sig: Any, arguments: Any, which: int) -> Iterator[Any]:
    """Emit a loop over as many rows as one of the arguments says."""
    count = context.cast(builder, arguments[which], sig.args[which], types.intp)
    with cgutils.for_range(builder, count) as loop:
        yield loop.index


def _ask_for(builder: Any, at: Any) -> None:
    byte, whole = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, whole, whole, whole])
    prefetch = builder.module.declare_intrinsic("llvm.prefetch", (byte,), kind)
    builder.call(prefetch, [builder.bitcast(at, byte), whole(0), whole(3), whole(1)])


# Numbers, in bytes, that are summed up at a time: what a processor adds in parallel, and has registers for.
AT_ONCE = 12 * 32


@emitted
def times(context: Any, A: Any, t: Any, T: Any) -> Any:
    """Return Σ_i A_ti T_i for a square matrix T, by several sums that do not wait for each other."""
    row = A.row
    chains = max(min(_at_once(row) // row.blocks, 4), 1)

    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        a = place_of(context, builder, sig.args[0], arguments[0], arguments[1], sig.args[1])
        found: list[Any] = []
        for some in _panels(row):
            found += _sum_of_rows(builder, row, a, arguments[2], some, chains)
        return packed(builder, row, found)

    return row(A, t, T), emit


def _sum_of_rows(builder: Any, row: Row, a: Any, T: Any, some: range, chains: int) -> list[Any]:
    """Return the given vectors of Σ_i a_i T_i; there are ``LANES`` · blocks rows, a multiple of ``chains``."""
    width, step = row.blocks * LANES, chains
    while (row.blocks * LANES) % step:
        step -= 1
    sums = [[_slot(builder, row) for _ in some] for _ in range(step)]
    with cgutils.for_range_slice(builder, size(0), size(width), size(step)) as (i, _):
        for chain, slots in enumerate(sums):
            line = builder.add(i, size(chain))
            factor = repeated(builder, builder.load(builder.gep(a, [line])))
            at = builder.gep(T, [builder.mul(line, size(width))])
            for k, slot in zip(some, slots, strict=True):
                _accumulate(builder, slot, factor, load_vector(builder, at, k, row))
    return [_tree_sum(builder, [builder.load(slots[k]) for slots in sums]) for k in range(len(some))]


@emitted
def add_products(context: Any, A: Any, C: Any, begin: Any, end: Any, X: Any) -> Any:
    """Add Σ_t A_t ⊗ C_{t+1} for begin ≤ t < end to the square matrix X."""
    row = A.row

    def emit(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        data = [arguments[k] for k in (0, 1, 4)]
        begin, end = (context.cast(builder, arguments[k], sig.args[k], types.intp) for k in (2, 3))
        for some in _panels(row):
            _add_products(builder, row, data, (begin, end), some)
        return context.get_dummy_value()

    return types.void(A, C, begin, end, X), emit


def _add_products(builder: Any, row: Row, data: list[Any], span: tuple[Any, Any], some: range) -> None:
    """Add the given vectors of the products, a few rows of X at a time: they stay in registers."""
    (A, C, X), width = data, row.blocks * LANES
    lines = next(k for k in (4, 2, 1) if k * len(some) <= _at_once(row) or k == 1)
    with cgutils.for_range_slice(builder, size(0), size(width), size(lines)) as (i, _):
        places = [builder.gep(X, [builder.mul(builder.add(i, size(k)), size(width))]) for k in range(lines)]
        sums = [[_slot(builder, row, load_vector(builder, place, k, row)) for k in some] for place in places]
        with cgutils.for_range_slice(builder, *span, size(1)) as (t, _):
            a = builder.gep(A, [builder.add(builder.mul(t, size(width)), i)])
            c = builder.gep(C, [builder.mul(builder.add(t, size(1)), size(width))])
            rights = [load_vector(builder, c, k, row) for k in some]
            for line, slots in enumerate(sums):
                factor = repeated(builder, builder.load(builder.gep(a, [size(line)])))
                for slot, right in zip(slots, rights, strict=True):
                    _accumulate(builder, slot, factor, right)
        for place, slots in zip(places, sums, strict=True):
            for k, slot in zip(some, slots, strict=True):
                store_vector(builder, place, k, row, builder.load(slot))


# --- what these are made of -------------------------------------------------------------------------------


def _at_once(row: Row) -> int:
    return AT_ONCE // (LANES * bytes_of(row))


def _panels(row: Row) -> list[range]:
    """Return the vectors of a row, as many at a time as there are registers for."""
    return [range(k, min(k + _at_once(row), row.blocks)) for k in range(0, row.blocks, _at_once(row))]


def _slot(builder: Any, row: Row, value: Any = None) -> Any:
    """Return a variable, zero if nothing else is given; LLVM keeps it in a register."""
    vector = ir.VectorType(scalar_of(row), LANES)
    slot = cgutils.alloca_once(builder, vector)
    builder.store(ir.Constant(vector, [0.0] * LANES) if value is None else value, slot)
    return slot


def _accumulate(builder: Any, slot: Any, a: Any, b: Any) -> None:
    builder.store(builder.fadd(builder.load(slot), builder.fmul(a, b, flags=FLAGS), flags=FLAGS), slot)


def _tree_sum(builder: Any, parts: list[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = builder.fadd(total, part, flags=FLAGS)
    return total
