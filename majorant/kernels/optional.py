"""What kernels may be given or not: values of occurrences, weights of tokens, ridges. Left out, all are ones.

Numba compiles what is written for the one that it is given, and nothing for the other. Emitted, as rows are
(:mod:`majorant.kernels.rows`): functions so small are compiled in less time than it takes to call them.
"""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types

from majorant.kernels.rows import (
    FLAGS,
    Entries,
    Row,
    emitted,
    load_vector,
    packed,
    parts_of,
    place_of,
    repeated,
)


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
    at = cgutils.get_item_pointer(context, builder, kind, array, [place])  # type: ignore[no-untyped-call]
    return builder.load(at)
