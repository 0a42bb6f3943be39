"""Chains whose labels own hidden states: sums over the paths of states that are compatible with observed labels.

The letters are those of :mod:`majorant.chain.kernels.forward_backward`, which sums over all paths; here states stand in
the place of labels.
Few states are compatible with a label: what is added here are small loops over these alone.
"""

from __future__ import annotations

from math import exp, log
from typing import NamedTuple

import numpy as np

from majorant.chain.kernels.forward_backward import LEAST, MOST, Width, exponentiate, laid_out, lift, project, sweep
from majorant.chain.kernels.rows import add_products, add_square_products, bare, scale_rows, value_of
from majorant.core.checks import Array
from majorant.core.kernels import Features
from majorant.core.kernels.compiler import compile_in_place, compile_part


class Owned(NamedTuple):
    """Which states a label owns, what steps between them weigh, and room for the longest sequence."""

    first: Array  # label l owns the states first[l] … first[l + 1] − 1
    top: Array  # the largest score of a step from states of a label to states of another
    T: Array  # exp(A), shifted by these
    α: Array
    γ: Array


def owned_by(first: Array, A: Array, starts: Array) -> Owned:
    """Return what is needed of the states that labels own, from transition scores A between states."""
    n, counts = first[-1], np.diff(first)
    between, begin = A[:n, :n], first[:-1]
    top = np.maximum.reduceat(np.maximum.reduceat(between, begin, axis=0), begin, axis=1)
    owner = np.repeat(np.arange(len(counts)), counts)
    longest = int(np.diff(starts).max(initial=0))
    room = np.empty((2, longest, int(counts.max())))
    return Owned(first, top, np.exp(between - top[np.ix_(owner, owner)]), *room)


@compile_part
def forth(U: Array, row: int, m: int, y: Array, begin: int, own: Owned) -> float:
    """Write α and the exponentials that become γ, of the states that m observed labels own; return log Z of these."""
    log_z, product, before, earlier = 0.0, 1.0, 0, 0
    for t in range(m):
        label = y[begin + t]
        first, many = own.first[label], own.first[label + 1] - own.first[label]
        shift, c = U[row + t, first], 0.0
        for j in range(1, many):
            u = U[row + t, first + j]
            shift = u if u > shift else shift
        for j in range(many):
            e, a = exp(U[row + t, first + j] - shift), 1.0
            if t > 0:
                a = 0.0
                for i in range(earlier):
                    a += own.α[t - 1, i] * own.T[own.first[before] + i, first + j]
            own.γ[t, j], own.α[t, j] = e, a * e
            c += a * e
        for j in range(many):
            own.γ[t, j] /= c
            own.α[t, j] /= c
        log_z += shift if t == 0 else shift + own.top[before, label]
        product *= c
        if not LEAST < product < MOST:
            log_z += log(product)
            product = 1.0
        before, earlier = label, many
    return log_z + log(product)


@compile_part
def back(row: int, m: int, y: Array, begin: int, w: float, own: Owned, R: Array, B: Array) -> None:
    """Take w times the probabilities of states, and of steps between them, off R and B: those given the labels."""
    label = y[begin + m - 1]
    for j in range(own.first[label + 1] - own.first[label]):
        R[row + m - 1, own.first[label] + j] -= w * own.α[m - 1, j]
    for k in range(1, m):
        t = m - k
        before, label = y[begin + t - 1], y[begin + t]
        for i in range(own.first[before + 1] - own.first[before]):
            state, a, β = own.first[before] + i, w * own.α[t - 1, i], 0.0
            for j in range(own.first[label + 1] - own.first[label]):
                γ = own.T[state, own.first[label] + j] * own.γ[t, j]
                B[state, own.first[label] + j] -= a * γ
                β += γ
            R[row + t - 1, state] -= a * β
            own.γ[t - 1, i] *= β


@compile_in_place
def take_off(U: Array, starts: Array, y: Array, weight: Array | None, own: Owned, R: Array, B: Array) -> float:
    """Take what states are, given the labels, off R and B; return Σ_j w_j log Z_j, of compatible paths alone."""
    total = 0.0
    for s in range(len(starts) - 1):
        begin, m = starts[s], starts[s + 1] - starts[s]
        if m > 0:
            w = value_of(weight, begin)
            total += w * forth(U, begin, m, y, begin, own)
            back(begin, m, y, begin, w, own, R, B)
    return total


@compile_in_place
def gradient(
    x: Features, starts: Array, y: Array, weight: Array | None, θ: Array, table: Array, A: Array, floor: Array,
    space: Array, own: Owned, width: Width, G: Array, G_table: Array, B: Array,
) -> float:  # fmt: skip
    """Return Σ_j w_j (−log p(y_j)): log Z of all paths less that of compatible ones; add its gradient to G … B."""
    room, many = laid_out(space, width), len(starts) - 1
    x, θ, table, A, floor = bare((x, θ, table, A, floor), width)
    G, G_table, B = bare((G, G_table, B), width)
    top, loss = exponentiate(A, floor, room), 0.0
    for s in range(many):
        begin, m = starts[s], starts[s + 1] - starts[s]
        if m > 0:
            w = value_of(weight, begin)
            project(x, begin, m, θ, table, None, floor, room.U)
            log_z, _ = sweep(m, floor, room)
            # What a sweep has taken off the rows of U is the same for both sums.
            loss += w * (log_z + (m - 1) * top - forth(room.U, 0, m, y, begin, own))
            scale_rows(room.P, m, w)
            scale_rows(room.α, m, w)
            back(0, m, y, begin, w, own, room.P, B)
            add_products(room.α, room.E, 0, m - 1, room.N)
            lift(x, begin, m, room.P, G, G_table)
    add_square_products(B, room.N, room.T)
    return loss
