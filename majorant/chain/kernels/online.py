"""One pass over sequences in a diagonal precision that grows as it goes.

The letters are those of :mod:`majorant.chain.kernels.forward_backward`; D and DA are the precision, of attributes and
of transitions.
"""

from __future__ import annotations

from majorant.chain.kernels.forward_backward import Room, Width, exponentiate, laid_out, sweep
from majorant.chain.kernels.rows import add_products, bare, breadth, clear_rows, value_of
from majorant.core.checks import Array
from majorant.core.kernels import Occurrences
from majorant.core.kernels.compiler import compile_in_place, compile_part

# More than this a score does not move for one token or, of a transition, for one sequence.
LEAP = 8.0


@compile_in_place
def online_pass(
    x: Occurrences, starts: Array, y: Array, weight: Array, order: Array, share: float, floor: Array,
    space: Array, width: Width, θ: Array, D: Array, A: Array, DA: Array,
) -> None:  # fmt: skip
    """Visit sequences in order: D gathers what a sequence says of the curvature, then θ moves by −g/D.

    A token with marginals p and attributes of values v adds share·‖v‖₁ |v_a| p(1 − p) to D, a transition that happens x
    times in T tokens 2·share·x(1 − x/T). A and DA hold the transitions and their part of the precision. Where a model
    is surely wrong p(1 − p) vanishes, so no step may move the score of a token by more than ``LEAP``.
    """
    room, many = laid_out(space, width), len(order)
    x, starts, y, weight, order, floor = bare((x, starts, y, weight, order, floor), width)
    θ, D, A, DA = bare((θ, D, A, DA), width)
    for k in range(many):
        begin, m = starts[order[k]], starts[order[k] + 1] - starts[order[k]]
        if m > 0:
            exponentiate(A, floor, room)
            state_scores(x, begin, m, θ, floor, room.U)
            sweep(m, floor, room)
            move_states(x, begin, m, room.P, y, weight, share, θ, D)
            move_transitions(begin, m, room, y, weight, share, A, DA)


@compile_part
def state_scores(x: Occurrences, begin: int, m: int, θ: Array, floor: Array, U: Array) -> None:
    """Write the state scores of m tokens from ``begin`` on."""
    for t in range(m):
        U[t] = floor[0]
        for e in range(x.indptr[begin + t], x.indptr[begin + t + 1]):
            v = value_of(x.values, e)
            for f in range(x.first[x.attributes[e]], x.first[x.attributes[e] + 1]):
                U[t, x.label[f]] += v * θ[f]


@compile_part
def move_states(
    x: Occurrences, begin: int, m: int, P: Array, y: Array, weight: Array, share: float, θ: Array, D: Array
) -> None:
    """Move the parameters of the attributes of one sequence, whose m tokens stand from ``begin`` on."""
    for t in range(m):
        first, last, w = x.indptr[begin + t], x.indptr[begin + t + 1], weight[begin + t]
        total = 0.0
        for e in range(first, last):
            total += abs(value_of(x.values, e))
        for e in range(first, last):
            v = value_of(x.values, e)
            for f in range(x.first[x.attributes[e]], x.first[x.attributes[e] + 1]):
                p = P[t, x.label[f]]
                observed = 1.0 if x.label[f] == y[begin + t] else 0.0
                D[f] += w * share * total * abs(v) * p * (1 - p)
                slope = w * v * (p - observed)
                least = abs(slope) * total / LEAP
                θ[f] -= slope / (least if least > D[f] else D[f])  # max() takes long to compile


@compile_part
def move_transitions(
    begin: int, m: int, room: Room, y: Array, weight: Array, share: float, A: Array, DA: Array
) -> None:
    """Move the transition parameters by what one sequence says; α is written over."""
    n, X, total = breadth(A), room.N, weight[begin]
    clear_rows(X, n)
    for t in range(1, m):
        total += weight[begin + t]
        room.α[t - 1] = room.α[t - 1] * weight[begin + t]
    add_products(room.α, room.E, 0, m - 1, X)
    for i in range(n):
        for j in range(n):
            x = X[i, j] * room.T[i, j]
            most = x if x > total else total
            DA[i, j] += 2 * share * x * (1 - x / (most if most > 1e-300 else 1e-300))
            X[i, j] = x
    for t in range(1, m):
        X[y[begin + t - 1], y[begin + t]] -= weight[begin + t]
    for i in range(n):
        for j in range(n):
            least = abs(X[i, j]) / LEAP
            A[i, j] -= X[i, j] / (least if least > DA[i, j] else DA[i, j])
