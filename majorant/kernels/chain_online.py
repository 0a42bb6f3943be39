"""One pass over sequences in a diagonal precision that grows as it goes.

The letters are those of :mod:`majorant.kernels.chain`; D and DA are the precision, of attributes and of transitions.
"""

from __future__ import annotations

import numpy as np

from majorant._checks import Array
from majorant.kernels.chain import Room, Width, exponentiate, sweep, value_of
from majorant.kernels.compiler import compile_sums
from majorant.kernels.sparse import Occurrences

# More than this a score does not move for one token or, of a transition, for one sequence.
LEAP = 8.0


@compile_sums
def online_pass(
    x: Occurrences, starts: Array, y: Array, weight: Array, order: Array, share: float, floor: Array,
    room: Room, width: Width, θ: Array, D: Array, A: Array, DA: Array,
) -> None:  # fmt: skip
    """Visit sequences in order: D gathers what a sequence says of the curvature, then θ moves by −g/D.

    A token with marginals p and attributes of values v adds share·‖v‖₁ |v_a| p(1 − p) to D, a transition that happens x
    times in T tokens 2·share·x(1 − x/T). A and DA hold the transitions and their part of the precision. Where a model
    is surely wrong p(1 − p) vanishes, so no step may move the score of a token by more than ``LEAP``.
    """
    for s in order:
        begin, m = starts[s], starts[s + 1] - starts[s]
        if m == 0:
            continue
        exponentiate(A, floor, room, width)
        state_scores(x, begin, m, θ, floor, room.U)
        sweep(m, floor, room, width)
        w, labels = weight[begin : begin + m], y[begin : begin + m]
        move_states(x, begin, room.P, labels, w, share, θ, D)
        move_transitions(room.α[:m], room.E[:m], room.T, labels, w, share, A, DA)


@compile_sums
def state_scores(x: Occurrences, begin: int, m: int, θ: Array, floor: Array, U: Array) -> None:
    """Write the state scores of m tokens from ``begin`` on."""
    for t in range(m):
        U[t] = floor[0]
        for e in range(x.indptr[begin + t], x.indptr[begin + t + 1]):
            v = value_of(x.values, e)
            for f in range(x.first[x.attributes[e]], x.first[x.attributes[e] + 1]):
                U[t, x.label[f]] += v * θ[f]


@compile_sums
def move_states(x: Occurrences, begin: int, P: Array, y: Array, w: Array, share: float, θ: Array, D: Array) -> None:
    """Move the parameters of the attributes of one sequence, whose tokens stand from ``begin`` on."""
    for t in range(len(y)):
        first, last = x.indptr[begin + t], x.indptr[begin + t + 1]
        total = 0.0
        for e in range(first, last):
            total += abs(value_of(x.values, e))
        for e in range(first, last):
            v = value_of(x.values, e)
            for f in range(x.first[x.attributes[e]], x.first[x.attributes[e] + 1]):
                p = P[t, x.label[f]]
                observed = 1.0 if x.label[f] == y[t] else 0.0
                D[f] += w[t] * share * total * abs(v) * p * (1 - p)
                slope = w[t] * v * (p - observed)
                θ[f] -= slope / max(D[f], abs(slope) * total / LEAP)


@compile_sums
def move_transitions(α: Array, γ: Array, T: Array, y: Array, w: Array, share: float, A: Array, DA: Array) -> None:
    """Move the transition parameters by what one sequence says."""
    m, n = α.shape
    X, total = np.zeros((n, n)), w.sum()
    for t in range(1, m):
        for i in range(n):
            for j in range(n):
                X[i, j] += w[t] * α[t - 1, i] * γ[t, j]
    for i in range(n):
        for j in range(n):
            x = X[i, j] * T[i, j]
            DA[i, j] += 2 * share * x * (1 - x / max(total, x, 1e-300))
            X[i, j] = x
    for t in range(1, m):
        X[y[t - 1], y[t]] -= w[t]
    for i in range(n):
        for j in range(n):
            A[i, j] -= X[i, j] / max(DA[i, j], abs(X[i, j]) / LEAP)
