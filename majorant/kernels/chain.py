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

``width`` is a tuple of zeros, one for every eight labels (:mod:`majorant.kernels.rows`). Compiling takes longer than
most fits, so kernels take the room to work in from Python, and call what is cheap to compile.
"""

from __future__ import annotations

from math import log
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from majorant._checks import Array
from majorant.kernels.compiler import compile_in_place, compile_inlined
from majorant.kernels.optional import scaled, value_of
from majorant.kernels.row_loops import add_square_products, scale_rows, transpose
from majorant.kernels.row_products import add_products, times
from majorant.kernels.rows import exp, largest, load, store, total
from majorant.kernels.sparse import Features

# A product of scales within these bounds can take one more before its logarithm has to be taken.
LEAST, MOST = 1e-100, 1e100

Width: TypeAlias = tuple[int, ...]


class Room(NamedTuple):
    """Where a sequence is worked on: a row for each of its tokens, and square matrices."""

    U: Array
    α: Array
    E: Array  # then γ
    P: Array
    T: Array
    transposed: Array
    N: Array  # sums of α ⊗ γ; zero at first


def room_for(starts: Array, width: int, dtype: Any = np.float64) -> Room:
    """Return room for the longest sequence."""
    longest = int(np.diff(starts).max(initial=0))
    return Room(*np.empty((4, longest, width), dtype), *np.zeros((3, width, width), dtype))


@compile_in_place
def look_up(attributes: Array, first: Array, label: Array, bits: int, codes: Array) -> None:
    """Write the codes of the parameters of each attribute, one after the other."""
    k = 0
    for a in attributes:
        for f in range(first[a], first[a + 1]):
            codes[k] = (f << bits) | label[f]
            k += 1


# --- one sequence -----------------------------------------------------------------------------------------


@compile_inlined
def project(x: Features, begin: int, m: int, θ: Array, table: Array, floor: Array, U: Array, width: Width) -> None:
    """Write the state scores of m tokens, on top of the first row of ``floor``."""
    for t in range(m):
        store(U, t, load(floor, 0, width))
        for e in range(x.starts[begin + t], x.starts[begin + t + 1]):
            code = x.codes[e]
            U[t, code & x.mask] += scaled(θ[code >> x.bits], x.values, e)
        u = load(U, t, width)
        for e in range(x.row_starts[begin + t], x.row_starts[begin + t + 1]):
            u = u + scaled(load(table, x.rows[e], width), x.row_values, e)
        store(U, t, u)


@compile_inlined
def lift(x: Features, begin: int, m: int, R: Array, G: Array, table: Array, width: Width) -> None:
    """Add what residuals on the state scores of m tokens make of the gradient, of tabled attributes to the table."""
    for t in range(m):
        r = load(R, t, width)
        for e in range(x.row_starts[begin + t], x.row_starts[begin + t + 1]):
            row = x.rows[e]
            store(table, row, load(table, row, width) + scaled(r, x.row_values, e))
        for e in range(x.starts[begin + t], x.starts[begin + t + 1]):
            code = x.codes[e]
            G[code >> x.bits] += scaled(R[t, code & x.mask], x.values, e)


@compile_inlined
def exponentiate(A: Array, floor: Array, room: Room, width: Width) -> float:
    """Write T and its transpose; return the largest score, which was taken off."""
    n, happens, never = len(A), load(floor, 1, width), load(floor, 0, width)
    top = largest(load(A, 0, width) + never)
    for i in range(1, n):
        if floor[1, i] > 0:
            highest = largest(load(A, i, width) + never)
            top = highest if highest > top else top
    for i in range(n):
        store(room.T, i, exp(load(A, i, width) - top) * happens * floor[1, i])
    transpose(room.T, room.transposed, width)
    return top


@compile_inlined
def sweep(m: int, floor: Array, room: Room, width: Width) -> tuple[float, float]:
    """Turn U into α, γ and the marginals P; take its largest score off each row of U.

    Return log Z of what is left, transitions less their largest, and what was taken off. The first row of γ means
    nothing, since nothing leads there.
    """
    happens, log_z, shifts, product = load(floor, 1, width), 0.0, 0.0, 1.0
    for t in range(m):
        u = load(room.U, t, width)
        shift = largest(u)
        store(room.U, t, u - shift)
        e = exp(u - shift) * happens
        a = e
        if t > 0:
            a = times(room.α, t - 1, room.T, width) * e
        c = total(a)
        store(room.α, t, a * (1 / c))
        store(room.E, t, e * (1 / c))
        shifts += shift
        product *= c
        if not LEAST < product < MOST:
            log_z += log(product)
            product = 1.0
    β = happens
    for k in range(m):
        t = m - 1 - k
        store(room.P, t, load(room.α, t, width) * β)
        store(room.E, t, load(room.E, t, width) * β)
        if t > 0:
            β = times(room.E, t, room.transposed, width)
    return log_z + log(product), shifts


# --- all of them ------------------------------------------------------------------------------------------


@compile_in_place
def scores(x: Features, θ: Array, table: Array, floor: Array, U: Array, width: Width) -> None:
    """Write the state scores of all tokens."""
    project(x, 0, len(U), θ, table, floor, U, width)


@compile_in_place
def lifted(x: Features, R: Array, G: Array, table: Array, width: Width) -> None:
    """Add what residuals on the state scores of all tokens make of the gradient."""
    lift(x, 0, len(R), R, G, table, width)


@compile_in_place
def marginals(
    U: Array, A: Array, starts: Array, weight: Array | None, floor: Array, room: Room, width: Width, P: Array, X: Array
) -> float:
    """Write w P(y_t), add Σ_t w P(y_{t−1}, y_t) to X, and return Σ_j w_j log Z_j."""
    top, loss = exponentiate(A, floor, room, width), 0.0
    for s in range(len(starts) - 1):
        begin, m = starts[s], starts[s + 1] - starts[s]
        if m > 0:
            w = value_of(weight, begin)
            for t in range(m):
                store(room.U, t, load(U, begin + t, width) + load(floor, 0, width))
            log_z, shifts = sweep(m, floor, room, width)
            loss += w * (log_z + shifts + (m - 1) * top)
            for t in range(m):
                store(P, begin + t, load(room.P, t, width) * w)
            scale_rows(room.α, m, w, width)
            add_products(room.α, room.E, 0, m - 1, room.N, width)
    add_square_products(X, room.N, room.T, width)
    return loss


@compile_in_place
def gradient(
    x: Features, starts: Array, y: Array, weight: Array | None, θ: Array, table: Array, A: Array, floor: Array,
    room: Room, width: Width, G: Array, G_table: Array, B: Array,
) -> float:  # fmt: skip
    """Return Σ_j w_j (−log p(y_j)), and add its gradient to G, G_table and B."""
    top, loss = exponentiate(A, floor, room, width), 0.0
    for s in range(len(starts) - 1):
        begin, m = starts[s], starts[s + 1] - starts[s]
        if m > 0:
            w = value_of(weight, begin)
            project(x, begin, m, θ, table, floor, room.U, width)
            seen = room.U[0, y[begin]]
            for t in range(1, m):
                seen += room.U[t, y[begin + t]] + A[y[begin + t - 1], y[begin + t]]
            log_z, shifts = sweep(m, floor, room, width)
            loss += w * (log_z + shifts + (m - 1) * top - seen)
            scale_rows(room.P, m, w, width)
            scale_rows(room.α, m, w, width)
            room.P[0, y[begin]] -= w
            for t in range(1, m):
                room.P[t, y[begin + t]] -= w
                B[y[begin + t - 1], y[begin + t]] -= w
            add_products(room.α, room.E, 0, m - 1, room.N, width)
            lift(x, begin, m, room.P, G, G_table, width)
    add_square_products(B, room.N, room.T, width)
    return loss
