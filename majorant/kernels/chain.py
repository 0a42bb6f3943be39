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

``width`` is a tuple of zeros, one for every eight labels (:mod:`majorant.kernels.rows`).
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from majorant._checks import Array
from majorant.kernels.compiler import compile_strict, compile_sums
from majorant.kernels.rows import add_products, exp, largest, load, store, times, total
from majorant.kernels.sparse import Features

# A product of scales within these bounds can take one more before its logarithm has to be taken.
LEAST, MOST = 1e-100, 1e100

Width: TypeAlias = tuple[int, ...]


class Steps(NamedTuple):
    """T = exp(A − top), zero where nothing can happen, and Tᵀ."""

    T: Array
    transposed: Array
    top: float


@compile_strict
def look_up(attributes: Array, first: Array, label: Array, bits: int, codes: Array) -> None:
    """Write the codes of the parameters of each attribute, one after the other."""
    k = 0
    for a in attributes:
        for f in range(first[a], first[a + 1]):
            codes[k] = (f << bits) | label[f]
            k += 1


@compile_sums
def value_of(values: Array | None, e: int) -> float:
    """Return the value of an occurrence; a function, since Numba drops a branch on None only for an argument."""
    return 1.0 if values is None else values[e]


@compile_sums
def scaled(a: float, values: Array | None, e: int) -> float:
    """Return a times the value of an occurrence, in a's own precision where all values are one."""
    return a if values is None else a * values[e]


@compile_sums
def project(x: Features, begin: int, m: int, θ: Array, table: Array, floor: Array, U: Array, width: Width) -> None:
    """Write the state scores of m tokens, and the first row of ``floor`` where nothing can happen."""
    for t in range(m):
        store(U, t, load(floor, 0, width))
        for e in range(x.starts[begin + t], x.starts[begin + t + 1]):
            code = x.codes[e]
            U[t, code & x.mask] += scaled(θ[code >> x.bits], x.values, e)
        u = load(U, t, width)
        for e in range(x.row_starts[begin + t], x.row_starts[begin + t + 1]):
            u = u + scaled(load(table, x.rows[e], width), x.row_values, e)
        store(U, t, u)


@compile_sums
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


@compile_sums
def exponentials(A: Array, floor: Array, T: Array, transposed: Array, width: Width) -> Steps:
    """Write exp(A − its largest entry), zero where nothing can happen, and that transposed."""
    happens, n = load(floor, 1, width), len(A)
    top = largest(load(A, 0, width) + load(floor, 0, width))
    for i in range(1, n):
        if floor[1, i] > 0:
            top = max(top, largest(load(A, i, width) + load(floor, 0, width)))
    for i in range(n):
        store(T, i, exp(load(A, i, width) - top) * happens * floor[1, i])
        for k in range(n):
            transposed[k, i] = T[i, k]
    return Steps(T, transposed, top)


@compile_sums
def forward(U: Array, m: int, steps: Steps, floor: Array, α: Array, E: Array, width: Width) -> tuple[float, float]:
    """Write α, and E divided by the same sums; take its largest score off each row of U.

    Return log Z of what is left, transitions less ``top``, and what was taken off.
    """
    happens, log_z, shifts, product = load(floor, 1, width), 0.0, (m - 1) * steps.top, 1.0
    for t in range(m):
        u = load(U, t, width)
        shift = largest(u)
        store(U, t, u - shift)
        e = exp(u - shift) * happens
        a = e
        if t > 0:
            a = times(α, t - 1, steps.T, width) * e
        c = total(a)
        store(α, t, a * (1 / c))
        store(E, t, e * (1 / c))
        shifts += shift
        product *= c
        if not LEAST < product < MOST:
            log_z += np.log(product)
            product = 1.0
    return log_z + np.log(product), shifts


@compile_sums
def backward(m: int, steps: Steps, floor: Array, α: Array, E: Array, P: Array, width: Width) -> None:
    """Write the marginals, and γ in the place of E, but for the first token: nothing leads there."""
    β = load(floor, 1, width)
    for k in range(m):
        t = m - 1 - k
        store(P, t, load(α, t, width) * β)
        if t > 0:
            store(E, t, load(E, t, width) * β)
            β = times(E, t, steps.transposed, width)


@compile_sums
def marginals(U: Array, A: Array, starts: Array, weight: Array | None, floor: Array, X: Array, width: Width) -> float:
    """Turn state scores into w P(y_t), all in place; add Σ_t w P(y_{t−1}, y_t) to X; return Σ_j w_j log Z_j."""
    steps = exponentials(A, floor, np.empty_like(A), np.empty_like(A), width)
    α, E = room_for(starts, len(A)), room_for(starts, len(A))
    products, loss = np.zeros_like(A), 0.0
    for s in range(len(starts) - 1):
        begin, m = starts[s], starts[s + 1] - starts[s]
        if m > 0:
            loss += sums(U[begin : begin + m], m, value_of(weight, begin), steps, floor, α, E, products, width)
    add_pairs(products, steps, X, width)
    return loss


@compile_sums
def gradient(
    x: Features, starts: Array, y: Array, weight: Array | None, θ: Array, table: Array, A: Array,
    floor: Array, width: Width, G: Array, G_table: Array, B: Array,
) -> float:  # fmt: skip
    """Return Σ_j w_j (−log p(y_j)), and add its gradient to G, G_table and B."""
    steps = exponentials(A, floor, np.empty_like(A), np.empty_like(A), width)
    U, α, E = room_for(starts, len(A)), room_for(starts, len(A)), room_for(starts, len(A))
    products, loss = np.zeros_like(A), 0.0
    for s in range(len(starts) - 1):
        begin, m = starts[s], starts[s + 1] - starts[s]
        if m > 0:
            w, labels = value_of(weight, begin), y[begin : begin + m]
            project(x, begin, m, θ, table, floor, U, width)
            loss -= w * score_of(labels, U, A)
            loss += sums(U, m, w, steps, floor, α, E, products, width)
            subtract_seen(labels, w, U, B)
            lift(x, begin, m, U, G, G_table, width)
    add_pairs(products, steps, B, width)
    return loss


@compile_sums
def sums(
    U: Array, m: int, w: float, steps: Steps, floor: Array, α: Array, E: Array, products: Array, width: Width
) -> float:
    """Turn the scores of one sequence into w P(y_t), add w Σ α ⊗ γ to ``products``, and return w log Z."""
    log_z, shifts = forward(U, m, steps, floor, α, E, width)
    backward(m, steps, floor, α, E, U, width)
    if w != 1.0:
        for t in range(m):
            store(U, t, load(U, t, width) * w)
            store(α, t, load(α, t, width) * w)
    add_products(α, E, 0, m - 1, products, width)
    return w * (log_z + shifts)


@compile_sums
def room_for(starts: Array, width: int) -> Array:
    """Return an array for the longest sequence."""
    longest = 0
    for s in range(len(starts) - 1):
        longest = max(longest, starts[s + 1] - starts[s])
    return np.empty((longest, width))


@compile_sums
def score_of(y: Array, U: Array, A: Array) -> float:
    """Return the score of what was observed of one sequence."""
    score = U[0, y[0]]
    for t in range(1, len(y)):
        score += U[t, y[t]] + A[y[t - 1], y[t]]
    return score


@compile_sums
def subtract_seen(y: Array, w: float, P: Array, B: Array) -> None:
    """Subtract what was observed of one sequence."""
    P[0, y[0]] -= w
    for t in range(1, len(y)):
        P[t, y[t]] -= w
        B[y[t - 1], y[t]] -= w


@compile_sums
def add_pairs(products: Array, steps: Steps, B: Array, width: Width) -> None:
    """Add T ∘ Σ α ⊗ γ: the expected transitions."""
    for i in range(len(B)):
        store(B, i, load(B, i, width) + load(products, i, width) * load(steps.T, i, width))
