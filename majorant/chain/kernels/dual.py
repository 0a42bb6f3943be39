"""Dual ascent on linear chains, a sequence at a time, in single precision.

Sequence j has node marginals μ and summed pair marginals X of its own, and z = Σ_j w_j (observed − expected by μ_j)/λ
follows them. With an ℓ1 penalty c the parameters are the soft threshold θ = S(z, c/λ), without one θ = z. A visit finds
the marginals ν, N of the model at θ and moves μ towards ν, as far as the dual objective Σ_j w_j H(μ_j) − ½‖θ‖²_λ rises:

========  ==================================================================================================
letter    meaning
========  ==================================================================================================
d, D      ν − μ, N − X
lin       θᵀEᵀd: how the score of the sequence changes along d
H, Ĥ      the entropy of the model's labellings, and of μ's as far as it is known
K         Σ_t KL(μ_t‖ν_t)
c         the share of c·Σ_t KL(μ_t + g d_t‖ν_t) that is the divergence of labellings: they are not independent
q         w‖Eᵀd‖²/λ, guessed to be r times what it would be if no attribute occurred twice and nothing were thresholded
g         how far to go: the root of c Σ d (log ν − log(μ + g d)) = g q
========  ==================================================================================================

On the way from μ to ν, entropy plus score rise by exactly KL(μ‖ν) of labellings and are flat at ν; only the shape in
between is borrowed from independent tokens, and ‖Eᵀd‖² is known exactly once θ has moved.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from majorant.chain.kernels.forward_backward import Room, Width, exponentiate, laid_out, project, sweep
from majorant.chain.kernels.rows import (
    add_products,
    add_rows,
    at_least,
    bare,
    breadth,
    chosen,
    clear_rows,
    fetch_places,
    fetch_rows,
    log,
    moved,
    scaled,
    scaled_by_row,
    shrunk,
    total,
    value_of,
    zeros,
)
from majorant.core.checks import Array
from majorant.core.kernels import Features
from majorant.core.kernels.compiler import compile_in_place, compile_inlined, compile_part

# The least probability of which a logarithm is taken.
TINY = np.float32(1e-30)
# A step is known well enough to this share of itself; evaluations that it may take.
CLOSE, ATTEMPTS = 0.1, 30
# A curvature that was off by more is worth a second look; one that small a share of the slope, or of so small a move
# (in nats), is lost in rounding errors.
OFF, SEEN, VISIBLE = 1.3, 1e-2, 1e-3
# Steps that a visit tries, each by the curvature along the one before, and the least ratio: with ℓ1 there may be none.
TRIALS, LEAST_RATIO = 3, 0.02
# The divergence of a sequence above which it tells how far tokens are from independent.
TELLING = 1.0
# Rounding errors of entropies and divergences.
NOISE = 1e-6
# The share is at least this much of what independent tokens make it.
LEAST_SHARE = 0.2


class Weights(NamedTuple):
    """z in parts (as :class:`~majorant.core.kernels.Features`) and 1/λ for each; zero without a parameter."""

    states: Array
    table: Array
    A: Array
    shrunk_A: Array  # θ of transitions; the others are thresholded when they are read
    inverse: Array | None  # of states; None where all are ``same``
    inverse_table: Array | None
    inverse_A: Array
    there: Array  # which places of the table have a parameter, a bit for each
    same: Any  # a number of their precision, and λ
    ridge: Any
    threshold: Any  # of all parameters, None if there is none; then 1/λ is the same for all


class Marginals(NamedTuple):
    """What is kept of every sequence, all changed in place."""

    nodes: Array  # μ, a row for each token
    pairs: Array  # X, as many rows for each sequence as labels
    norms: Array  # Σ v² of each token
    entropy: Array  # Ĥ
    ratio: Array  # r
    step: Array  # g
    gain: Array  # what the last visit is thought to have brought, or one now would
    totals: Array  # ‖θ‖²_λ, and the sums whose ratio corrects the share of independent tokens


@compile_in_place
def ascend(
    x: Features, starts: Array, weight: Array | None, order: Array, θ: Weights, kept: Marginals, floor: Array,
    space: Array, width: Width, alone: bool,
) -> bool:  # fmt: skip
    """Visit sequences in order; return whether all numbers stayed finite.

    Where others move θ meanwhile, who is not ``alone`` cannot tell ‖Eᵀd‖² from how ‖θ‖² has changed: r stays as it is.
    """
    room, many = laid_out(space, width), len(order)
    x, starts, order, θ, kept, floor = bare((x, starts, order, θ, kept, floor), width)
    n = breadth(θ.A)
    for k in range(many):
        j, after = order[k], order[k + 1 if k + 1 < many else k]
        # What the next visit reads first is asked for long before: it stands anywhere.
        fetch_rows(kept.pairs, after * n, n)
        fetch_rows(kept.nodes, starts[after], starts[after + 1] - starts[after])
        fetch_places(θ.states, x.codes, x.starts[starts[after]], x.starts[starts[after + 1]], x.bits)
        begin, m = starts[j], starts[j + 1] - starts[j]
        w = value_of(weight, begin) if m > 0 else 0.0
        if w == 0.0:
            kept.gain[j] = 0.0
            continue
        top = exponentiate(θ.shrunk_A, floor, room)
        project(x, begin, m, θ.states, θ.table, θ.threshold, floor, room.U)
        log_z = sweep(m, floor, room)[0]
        of_pairs, slope, D2 = compare_pairs(j, m, top, θ, kept, room)
        H, lin, K, apart, d2 = compare_nodes(begin, m, kept, room)
        H, lin, d2 = H + log_z + of_pairs, lin + slope, d2 * θ.same + D2
        if not isfinite(H + lin + K):
            return False
        c, r = share_of_nodes(K, H, apart, H + lin - kept.entropy[j], kept.totals), kept.ratio[j]
        g, gone, added, left, curve, least = kept.step[j], 0.0, 0.0, 0.0, 0.0, LEAST_RATIO * d2
        for attempt in range(TRIALS):  # a loop, since what is called once is compiled once
            g, left, curve = best_step(begin, m, kept.nodes, room, c, w * r * d2, g)
            added += move(x, begin, m, (gone - g) * w, θ, room)
            gone = g
            if not alone:
                break
            Q = (added + 2 * g * w * lin) / (g * w * g * w)
            Q = Q if least < Q else least
            if not (K > VISIBLE and Q * g * w > SEEN * abs(lin) and d2 > 0):
                break
            off, r = Q / (r * d2), Q / d2
            if attempt + 1 == TRIALS or 1 / OFF < off < OFF:
                break
        add_rows(kept.nodes, begin, m, room.U, g)
        add_rows(kept.pairs, j * n, n, room.N, g)
        kept.totals[0] += added
        kept.entropy[j], kept.ratio[j], kept.step[j] = H + lin - c * left - g * lin, r, g
        kept.gain[j] = 0.5 * g * g * w * (c * curve + w * r * d2)
    return True


@compile_inlined
def compare_pairs(j: int, m: int, top: float, θ: Weights, kept: Marginals, room: Room) -> tuple[float, float, float]:
    """Write D; return −⟨A − top, N⟩, ⟨A, D⟩ and ‖D‖²/λ."""
    n, none = breadth(θ.A), zeros(θ.A)
    clear_rows(room.N, n)
    add_products(room.α, room.E, 0, m - 1, room.N)
    of_entropy, slope, squares = none, none, none
    for i in range(n):
        A, N = θ.shrunk_A[i], room.N[i] * room.T[i]
        D = N - kept.pairs[j * n + i]
        room.N[i] = D
        of_entropy = of_entropy - (A - top) * N
        slope = slope + A * D
        squares = squares + D * D * θ.inverse_A[i]
    return total(of_entropy), total(slope), total(squares)


@compile_part
def compare_nodes(begin: int, m: int, kept: Marginals, room: Room) -> tuple[float, float, float, float, float]:
    """Write d and log ν; return −⟨u, ν⟩, ⟨u, d⟩, K, Σ_t H(ν_t) and Σ_t ‖x_t‖²‖d_t‖²."""
    of_entropy, slope, K, apart, squares = 0.0, 0.0, 0.0, 0.0, 0.0
    for t in range(m):
        u, ν, μ = room.U[t], room.P[t], kept.nodes[begin + t]
        d, log_ν = ν - μ, log(at_least(ν, TINY))
        room.U[t] = d
        room.P[t] = log_ν
        of_entropy -= total(u * ν)
        slope += total(u * d)
        K += total(μ * (log(at_least(μ, TINY)) - log_ν))
        apart -= total(ν * log_ν)
        squares += kept.norms[begin + t] * total(d * d)
    return of_entropy, slope, K, apart, squares


@compile_inlined
def share_of_nodes(K: float, H: float, apart: float, tracked: float, totals: Array) -> float:
    """Return c: what Ĥ says of the divergence where it is large, what independent tokens say where it is small."""
    K, H, apart = (K if K > NOISE else NOISE), (H if H > 0 else 0.0) + NOISE, (apart if apart > 0 else 0.0) + NOISE
    local = K * H / apart if apart > H else K
    if K > TELLING:
        totals[1] += tracked
        totals[2] += local
    if 0 < totals[1] < totals[2]:
        local *= totals[1] / totals[2]
    share, least = (tracked + local / K) / (K + 1), LEAST_SHARE * local / K
    share = share if share > least else least
    return share if share < 1 else 1.0


@compile_part
def best_step(begin: int, m: int, nodes: Array, room: Room, c: float, q: float, g: float) -> tuple[float, float, float]:
    """Return g, Σ_t KL(μ_t + g d_t‖ν_t) and Σ d²/(μ + g d), by Newton's method within a bracket."""
    low, high, none = 0.0, 1.0, zeros(nodes)
    for _ in range(ATTEMPTS):
        slopes, curves, lefts, at = none, none, none, np.float32(g)
        for t in range(m):
            d, log_ν = room.U[t], room.P[t]
            z = nodes[begin + t] + d * at
            z = at_least(z, TINY)  # rounding may have left less than nothing
            less = log_ν - log(z)
            slopes = slopes + d * less
            lefts = lefts - z * less
            curves = curves + d * d / z
        slope, curve, left = total(slopes), total(curves), total(lefts)
        ahead = c * slope - g * q
        low, high = (g, high) if ahead > 0 else (low, g)
        new = g + ahead / (c * curve + q + 1e-30)
        if not low < new < high:
            new = 0.5 * (low + high)
        δ = new - g
        g = new
        if abs(δ) <= CLOSE * g:
            break
    return g, left - δ * slope + 0.5 * δ * δ * curve, curve


@compile_part
def move(x: Features, begin: int, m: int, length: float, θ: Weights, room: Room) -> float:
    """Add so many times Eᵀd/λ to z; return how much that adds to ‖θ‖²_λ."""
    added, s, none = 0.0, np.float32(length), zeros(θ.A)
    sums = none
    for i in range(breadth(θ.A)):
        raw, old = room.N[i] * s, θ.A[i]
        new = old + raw * θ.inverse_A[i]
        θ.A[i] = new
        before, after = shrunk(old, θ.threshold), shrunk(new, θ.threshold)
        θ.shrunk_A[i] = after
        sums = sums + moved(raw, before, after, θ.ridge, θ.threshold) * (before + after)
    added += total(sums)
    for t in range(m):
        d = room.U[t] * s
        sums = none
        for e in range(x.row_starts[begin + t], x.row_starts[begin + t + 1]):
            row, raw = x.rows[e], scaled(d, x.row_values, e)
            old = θ.table[row]
            new = old + chosen(scaled_by_row(raw * θ.same, θ.inverse_table, row), θ.there, row)
            θ.table[row] = new
            before, after = shrunk(old, θ.threshold), shrunk(new, θ.threshold)
            sums = sums + moved(raw, before, after, θ.ridge, θ.threshold) * (before + after)
        added += total(sums) + move_singles(x, begin + t, t, s, θ, room.U)
    return added


@compile_inlined
def move_singles(x: Features, token: int, t: int, s: float, θ: Weights, d: Array) -> Any:
    """The same for the parameters of one token that are no rows of the table."""
    added = np.float32(0.0)
    for e in range(x.starts[token], x.starts[token + 1]):
        code = x.codes[e]
        f, raw = code >> x.bits, scaled(s * d[t, code & x.mask], x.values, e)
        old = θ.states[f]
        new = old + scaled(raw * θ.same, θ.inverse, f)
        θ.states[f] = new
        before, after = shrunk(old, θ.threshold), shrunk(new, θ.threshold)
        added += moved(raw, before, after, θ.ridge, θ.threshold) * (before + after)
    return added
