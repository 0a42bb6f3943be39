"""Covariances of sums along the paths of chains: blocks of the Hessian, without exponentials of new scores.

A path y of a sequence has the statistics s(y) = Σ_t x_t e_{y_t} and, for pairs of labels, how often it takes each.
Their covariance under p(y) is the Hessian of log Z with respect to the weights that they have.

========  ==================================================================================================
letter    meaning
========  ==================================================================================================
α, v      forward messages scaled to sum to one; v with α_{t−1,i} E_ij v_tj = P(y_{t−1} = i, y_t = j)
f_t(j)    the mean of s over the tokens up to t, given y_t = j
b_t(j)    the mean of s over what comes after t, given y_t = j
========  ==================================================================================================

Tsuboi, Unno, Kashima & Okazaki, *Fast Newton-CG method for batch learning of conditional random fields*, AAAI 2011.
"""

from __future__ import annotations

from math import exp
from typing import NamedTuple

import numpy as np

from majorant.core.checks import Array
from majorant.core.kernels.compiler import compile_in_place

TINY = 1e-300


class Room(NamedTuple):
    """Where a sequence is worked on."""

    α: Array  # tokens × labels
    v: Array
    P: Array
    f: Array  # tokens × labels × statistics
    b: Array  # labels × statistics
    before: Array
    mean: Array  # statistics


def room_for(starts: Array, labels: int, statistics: int) -> Room:
    """Return room for the longest sequence."""
    longest = int(np.diff(starts).max(initial=0))
    α, v, P = np.empty((3, longest, labels))
    b, before = np.empty((2, labels, statistics))
    return Room(α, v, P, np.empty((longest, labels, statistics)), b, before, np.empty(statistics))


@compile_in_place
def add_covariance(
    U: Array, E: Array, starts: Array, weight: Array, x: Array, number: Array, room: Room, H: Array
) -> None:
    """Add Σ_j w_j Cov(s) to H, of n statistics of tokens and those of pairs of labels.

    ``E`` are exponentials of transition scores, ``number`` says which statistic a pair of labels is, −1 if none.
    """
    n, k = len(E), len(H)
    for s in range(len(starts) - 1):
        begin, m = starts[s], starts[s + 1] - starts[s]
        if m == 0:
            continue
        # Forward: α, and f.
        for t in range(m):
            highest = U[begin + t, 0]
            for j in range(1, n):
                highest = max(highest, U[begin + t, j])
            c = 0.0
            for j in range(n):
                e, into = exp(U[begin + t, j] - highest), 1.0
                for q in range(k):
                    room.f[t, j, q] = 0.0
                if t > 0:
                    into = TINY
                    for i in range(n):
                        into += room.α[t - 1, i] * E[i, j]
                    for i in range(n):
                        share = room.α[t - 1, i] * E[i, j] / into
                        for q in range(k):
                            room.f[t, j, q] += share * room.f[t - 1, i, q]
                        if number[i, j] >= 0:
                            room.f[t, j, number[i, j]] += share
                room.f[t, j, j] += x[begin + t]
                room.v[t, j], room.α[t, j] = e, into * e
                c += into * e
            for j in range(n):
                room.α[t, j] /= c
                room.v[t, j] /= c
        # Backward: v, P and b; sums of both sides are covariances.
        for q in range(k):
            room.mean[q] = 0.0
        for j in range(n):
            for q in range(k):
                room.mean[q] += room.α[m - 1, j] * room.f[m - 1, j, q]
                room.b[j, q] = 0.0
            room.P[m - 1, j] = room.α[m - 1, j]
        for back in range(m):
            t = m - 1 - back
            for j in range(n):
                share = weight[s] * x[begin + t] * room.P[t, j]
                for q in range(k):
                    H[j, q] += share * (room.f[t, j, q] + room.b[j, q] - room.mean[q])
            if t == 0:
                break
            for i in range(n):
                beyond = TINY
                for q in range(k):
                    room.before[i, q] = 0.0
                for j in range(n):
                    beyond += E[i, j] * room.v[t, j]
                for j in range(n):
                    share = E[i, j] * room.v[t, j] / beyond
                    for q in range(k):
                        room.before[i, q] += share * room.b[j, q]
                    room.before[i, j] += share * x[begin + t]
                    both = number[i, j]
                    if both >= 0:
                        room.before[i, both] += share
                        pair = weight[s] * room.α[t - 1, i] * E[i, j] * room.v[t, j]
                        for q in range(k):
                            H[both, q] += pair * (room.f[t - 1, i, q] + room.b[j, q] - room.mean[q])
                        H[both, j] += pair * x[begin + t]
                        H[both, both] += pair
                room.P[t - 1, i] = room.α[t - 1, i] * beyond
                room.v[t - 1, i] *= beyond
            for i in range(n):
                for q in range(k):
                    room.b[i, q] = room.before[i, q]
