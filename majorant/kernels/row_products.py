"""Rows in registers times matrices: the two sums over labels that the time on chains goes to.

Written out as loops over vectors, since LLVM would neither keep sums in registers nor interleave them.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from majorant.kernels.rows import (
    FLAGS,
    LANES,
    Row,
    bytes_of,
    emitted,
    load_vector,
    packed,
    place_of,
    repeated,
    scalar_of,
    size,
    store_vector,
)

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
