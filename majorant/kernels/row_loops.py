"""Loops over rows of matrices that do one thing, written out: Numba takes far longer to compile a loop than a call.

Matrices and vectors are bare (:mod:`majorant.kernels.rows`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from majorant.kernels.rows import (
    FLAGS,
    LANES,
    emitted,
    load_vector,
    place_of,
    repeated,
    scalar_of,
    size,
    store_vector,
)


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
