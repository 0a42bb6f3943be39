"""Loss and gradient of linear chains, sequence by sequence, with the labels of a token in registers.

========  ==================================================================================================
letter    meaning
========  ==================================================================================================
U         state scores, a row per token, a column per label, padded with columns that never happen
A         transition scores from label to label
E, T      exp(U) shifted row by row, exp(A) shifted; zero where nothing can happen
α, γ      forward messages scaled to sum to one; E∘β scaled, so that α_{t−1,i} T_ij γ_tj is P(y_{t−1} = i, y_t = j)
P         marginals, or what is made of them on the way to a gradient
========  ==================================================================================================

``width`` is a tuple of zeros, one for every eight labels (:mod:`majorant.chain.kernels.rows`). Compiling takes longer
than most fits, so kernels take their work arrays from Python, and call what is cheap to compile.
"""

from __future__ import annotations

from math import log
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from majorant.chain.kernels.rows import (
    add_products,
    add_square_products,
    bare,
    breadth,
    exp,
    from_row,
    largest,
    scale_rows,
    scaled,
    shrunk,
    times,
    total,
    transpose,
    value_of,
)
from majorant.core.checks import Array
from majorant.core.kernels import Features
from majorant.core.kernels.compiler import compile_in_place, compile_inlined

# A product of scales within these bounds can take one more before its logarithm has to be taken.
LEAST, MOST = 1e-100, 1e100

Width: TypeAlias = tuple[int, ...]


class Room(NamedTuple):
    """Where a sequence is worked on, in one matrix: a row for each of its tokens, four times, and square matrices."""

    U: Array
    α: Array
    E: Array  # then γ
    P: Array
    T: Array
    transposed: Array
    N: Array  # sums of α ⊗ γ; zero at first


def room_for(starts: Array, width: int, dtype: Any = np.float64) -> Array:
    """Return room for the longest sequence, as one matrix: Python hands it over faster than many."""
    return np.zeros((4 * int(np.diff(starts).max(initial=0)) + 3 * width, width), dtype)


@compile_inlined
def laid_out(space: Array, width: Width) -> Room:
    """Return what stands in the room of kernels."""
    U = bare(space, width)
    n = breadth(U)
    longest = (len(space) - 3 * n) >> 2
    α, T = from_row(U, longest), from_row(U, 4 * longest)
    E, transposed = from_row(α, longest), from_row(T, n)
    return Room(U, α, E, from_row(E, longest), T, transposed, from_row(transposed, n))


@compile_in_place
def look_up(attributes: Array, first: Array, label: Array, bits: int, codes: Array) -> None:
    """Write the codes of the parameters of each attribute, one after the other."""
    k = 0
    for a in attributes:
        for f in range(first[a], first[a + 1]):
            codes[k] = (f << bits) | label[f]
            k += 1


@compile_in_place
def add_squares_of_sums(places: Array, bits: int, values: Array | None, ends: Array, sums: Array, out: Array) -> None:
    """Add for each place the squares of Σ|v| within each of the stretches; ``sums`` are zero before and after."""
    for s in range(len(ends) - 1):
        for e in range(ends[s], ends[s + 1]):
            sums[places[e] >> bits] += abs(value_of(values, e))
        for e in range(ends[s], ends[s + 1]):
            out[places[e] >> bits] += sums[places[e] >> bits] ** 2
            sums[places[e] >> bits] = 0.0


# --- one sequence -----------------------------------------------------------------------------------------


@compile_inlined
def project(
    x: Features, begin: int, m: int, θ: Array, table: Array, threshold: float | None, floor: Array, U: Array
) -> None:
    """Write the state scores of m tokens by the soft threshold of θ, on top of the first row of ``floor``."""
    for t in range(m):
        U[t] = floor[0]
        for e in range(x.starts[begin + t], x.starts[begin + t + 1]):
            code = x.codes[e]
            U[t, code & x.mask] += scaled(shrunk(θ[code >> x.bits], threshold), x.values, e)
        u = U[t]
        for e in range(x.row_starts[begin + t], x.row_starts[begin + t + 1]):
            u = u + scaled(shrunk(table[x.rows[e]], threshold), x.row_values, e)
        U[t] = u


@compile_inlined
def lift(x: Features, begin: int, m: int, R: Array, G: Array, table: Array) -> None:
    """Add what residuals on the state scores of m tokens make of the gradient, of tabled attributes to the table."""
    for t in range(m):
        r = R[t]
        for e in range(x.row_starts[begin + t], x.row_starts[begin + t + 1]):
            row = x.rows[e]
            table[row] = table[row] + scaled(r, x.row_values, e)
        for e in range(x.starts[begin + t], x.starts[begin + t + 1]):
            code = x.codes[e]
            G[code >> x.bits] += scaled(R[t, code & x.mask], x.values, e)


@compile_inlined
def exponentiate(A: Array, floor: Array, room: Room) -> float:
    """Write T and its transpose; return the largest score, which was taken off."""
    n, never = breadth(A), floor[0]
    top = largest(A[0] + never)
    for i in range(1, n):
        if floor[1, i] > 0:
            highest = largest(A[i] + never)
            top = highest if highest > top else top
    for i in range(n):
        room.T[i] = exp(A[i] - top) * floor[4 + i]
    transpose(room.T, room.transposed)
    return top


@compile_inlined
def sweep(m: int, floor: Array, room: Room) -> tuple[float, float]:
    """Turn U into α, γ and the marginals P; take its largest score off each row of U.

    Return log Z of what is left, transitions less their largest, and what was taken off. The first row of γ means
    nothing, since nothing leads there.
    """
    happens, log_z, shifts, product = floor[1], 0.0, 0.0, 1.0
    for t in range(m):
        u = room.U[t]
        if t == 0:
            u = u + floor[2]
        if t == m - 1:
            u = u + floor[3]
        shift = largest(u)
        room.U[t] = u - shift
        e = exp(u - shift) * happens
        a = e
        if t > 0:
            a = times(room.α, t - 1, room.T) * e
        c = total(a)
        room.α[t] = a * (1 / c)
        room.E[t] = e * (1 / c)
        shifts += shift
        product *= c
        if not LEAST < product < MOST:
            log_z += log(product)
            product = 1.0
    β = happens
    for k in range(m):
        t = m - 1 - k
        room.P[t] = room.α[t] * β
        room.E[t] = room.E[t] * β
        if t > 0:
            β = times(room.E, t, room.transposed)
    return log_z + log(product), shifts


# --- all of them ------------------------------------------------------------------------------------------


@compile_in_place
def scores(x: Features, θ: Array, table: Array, floor: Array, U: Array, width: Width) -> None:
    """Write the state scores of all tokens."""
    m = len(U)
    x, θ, table, floor, U = bare((x, θ, table, floor, U), width)
    project(x, 0, m, θ, table, None, floor, U)


@compile_in_place
def lifted(x: Features, R: Array, G: Array, table: Array, width: Width) -> None:
    """Add what residuals on the state scores of all tokens make of the gradient."""
    m = len(R)
    x, R, G, table = bare((x, R, G, table), width)
    lift(x, 0, m, R, G, table)


@compile_in_place
def marginals(
    U: Array, A: Array, starts: Array, weight: Array | None, floor: Array, space: Array, width: Width,
    P: Array, X: Array,
) -> float:  # fmt: skip
    """Write w P(y_t), add Σ_t w P(y_{t−1}, y_t) to X, and return Σ_j w_j log Z_j."""
    room, many = laid_out(space, width), len(starts) - 1
    U, A, starts, floor, P, X = bare((U, A, starts, floor, P, X), width)
    top, loss = exponentiate(A, floor, room), 0.0
    for s in range(many):
        begin, m = starts[s], starts[s + 1] - starts[s]
        if m > 0:
            w = value_of(weight, begin)
            for t in range(m):
                room.U[t] = U[begin + t] + floor[0]
            log_z, shifts = sweep(m, floor, room)
            loss += w * (log_z + shifts + (m - 1) * top)
            for t in range(m):
                P[begin + t] = room.P[t] * w
            scale_rows(room.α, m, w)
            add_products(room.α, room.E, 0, m - 1, room.N)
    add_square_products(X, room.N, room.T)
    return loss


@compile_in_place
def log_partitions(U: Array, A: Array, starts: Array, floor: Array, space: Array, width: Width, out: Array) -> None:
    """Write log Z_j of each sequence that has tokens."""
    room, many = laid_out(space, width), len(starts) - 1
    U, A, starts, floor, out = bare((U, A, starts, floor, out), width)
    top = exponentiate(A, floor, room)
    for s in range(many):
        begin, m = starts[s], starts[s + 1] - starts[s]
        if m > 0:
            for t in range(m):
                room.U[t] = U[begin + t] + floor[0]
            log_z, shifts = sweep(m, floor, room)
            out[s] = log_z + shifts + (m - 1) * top


@compile_in_place
def gradient(
    x: Features, starts: Array, y: Array, weight: Array | None, θ: Array, table: Array, A: Array, floor: Array,
    space: Array, width: Width, G: Array, G_table: Array, B: Array,
) -> float:  # fmt: skip
    """Return Σ_j w_j (−log p(y_j)), and add its gradient to G, G_table and B."""
    room, many = laid_out(space, width), len(starts) - 1
    x, starts, y, θ, table, A, floor = bare((x, starts, y, θ, table, A, floor), width)
    G, G_table, B = bare((G, G_table, B), width)
    top, loss = exponentiate(A, floor, room), 0.0
    for s in range(many):
        begin, m = starts[s], starts[s + 1] - starts[s]
        if m > 0:
            w = value_of(weight, begin)
            project(x, begin, m, θ, table, None, floor, room.U)
            seen = room.U[0, y[begin]]
            for t in range(1, m):
                seen += room.U[t, y[begin + t]] + A[y[begin + t - 1], y[begin + t]]
            log_z, shifts = sweep(m, floor, room)
            loss += w * (log_z + shifts + (m - 1) * top - seen)
            scale_rows(room.P, m, w)
            scale_rows(room.α, m, w)
            room.P[0, y[begin]] -= w
            for t in range(1, m):
                room.P[t, y[begin + t]] -= w
                B[y[begin + t - 1], y[begin + t]] -= w
            add_products(room.α, room.E, 0, m - 1, room.N)
            lift(x, begin, m, room.P, G, G_table)
    add_square_products(B, room.N, room.T)
    return loss
