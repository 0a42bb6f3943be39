"""The log-likelihood of choices with sparse features, its gradient and its Hessian in one pass, compiled by Numba.

Outcomes of set j stand from ``sets[j]`` to ``sets[j + 1]``, their features are a CSR matrix, and ``amount`` says how
often each was observed. Of pairs of players, of which each outcome touches one, an outer product has a few entries,
where that of dense rows has d².
"""

from __future__ import annotations

import numpy as np

from majorant.core.checks import Array
from majorant.core.kernels.compiler import compile_strict, exp_of_negative, log1p_to_one


@compile_strict
def expansion(
    theta: Array,
    values: Array,
    columns: Array,
    rows: Array,
    sets: Array,
    amount: Array,
    log_p: Array,
    gradient: Array,
    H: Array,
) -> float:
    """Return Σ_y amount(y) (−log p(y)), add its gradient, and add to H half of its Hessian: that is H + Hᵀ.

    ``log_p`` are the log-probabilities at θ where they are known, which saves half of the work; else it is empty. Sets
    that nothing was observed of cost nothing. Of two outcomes the Hessian is p(1 − p) δδᵀ, δ the difference of
    their features; of more, features are measured from their mean, so that no digits cancel.
    """
    total, most, widest = 0.0, 0, 0
    for j in range(len(sets) - 1):
        most = max(most, sets[j + 1] - sets[j])
        widest = max(widest, rows[sets[j + 1]] - rows[sets[j]])
    p, place, touched = np.empty(most), np.full(len(theta), -1), np.empty(widest, dtype=np.int64)
    signed = np.empty(widest)
    for j in range(len(sets) - 1):
        first, last = sets[j], sets[j + 1]
        weight, top = 0.0, -np.inf
        for y in range(first, last):
            weight += amount[y]
        if weight == 0.0:
            continue
        n = last - first
        if n == 2:
            middle, score = rows[first + 1], 0.0
            if len(log_p):
                one = exp_of_negative(log_p[first])
                total -= amount[first] * log_p[first] + amount[first + 1] * log_p[first + 1]
                r, curved = weight * one - amount[first], 0.5 * weight * one * exp_of_negative(log_p[first + 1])
            else:
                for k in range(rows[first], middle):
                    score += values[k] * theta[columns[k]]
                for k in range(middle, rows[last]):
                    score -= values[k] * theta[columns[k]]
                e = exp_of_negative(-abs(score))
                less, more = e / (1.0 + e), 1.0 / (1.0 + e)
                total += weight * log1p_to_one(e) + (amount[first + 1] * score if score > 0 else -amount[first] * score)
                r = weight * (more if score > 0 else less) - amount[first]
                curved = 0.5 * weight * less * more
            begin = rows[first]
            for k in range(begin, rows[last]):
                signed[k - begin] = values[k] if k < middle else -values[k]
            for k in range(begin, rows[last]):
                at, value = columns[k], signed[k - begin]
                gradient[at] += r * value
                if len(H):
                    H[at, at] += curved * value * value
                    value *= 2.0 * curved
                    for m in range(begin, k):
                        H[at, columns[m]] += value * signed[m - begin]
            continue
        for y in range(first, last):
            score = 0.0
            for k in range(rows[y], rows[y + 1]):
                score += values[k] * theta[columns[k]]
            p[y - first] = score
            top = max(top, score)
        z = 0.0
        for y in range(n):
            z += np.exp(p[y] - top)
        log_z = top + np.log(z)
        for y in range(n):
            if amount[first + y] > 0:
                total += amount[first + y] * (log_z - p[y])
            p[y] = np.exp(p[y] - log_z)
        for y in range(n):
            r = weight * p[y] - amount[first + y]
            for k in range(rows[first + y], rows[first + y + 1]):
                gradient[columns[k]] += r * values[k]
        if len(H) == 0:
            continue
        u = 0
        for k in range(rows[first], rows[last]):
            if place[columns[k]] < 0:
                place[columns[k]] = u
                touched[u] = columns[k]
                u += 1
        F, mean = np.zeros((n, u)), np.zeros(u)
        for y in range(n):
            for k in range(rows[first + y], rows[first + y + 1]):
                F[y, place[columns[k]]] += values[k]
            for i in range(u):
                mean[i] += p[y] * F[y, i]
        for y in range(n):
            for i in range(u):
                one = 0.5 * weight * p[y] * (F[y, i] - mean[i])
                for m in range(u):
                    H[touched[i], touched[m]] += one * (F[y, m] - mean[m])
        for i in range(u):
            place[touched[i]] = -1
    return total


@compile_strict
def largest_spread(inverse: Array, values: Array, columns: Array, rows: Array, sets: Array, amount: Array) -> float:
    """Return a bound on max_j max_{y,y'} ‖f_j(y) − f_j(y')‖ in the norm of an inverse: exact for sets of two."""
    largest = 0.0
    for j in range(len(sets) - 1):
        first, last = sets[j], sets[j + 1]
        weight = 0.0
        for y in range(first, last):
            weight += amount[y]
        if weight == 0.0:
            continue
        one, two = 0.0, 0.0  # the two largest distances from the first outcome: their sum bounds all others
        middle = rows[first + 1]
        for y in range(first + 1, last):
            square, begin, end = 0.0, rows[y], rows[y + 1]
            for k in range(rows[first], middle):
                at = columns[k]
                square += values[k] * values[k] * inverse[at, at]
                for m in range(rows[first], k):
                    square += 2.0 * values[k] * values[m] * inverse[at, columns[m]]
            for k in range(begin, end):
                at = columns[k]
                square += values[k] * values[k] * inverse[at, at]
                for m in range(begin, k):
                    square += 2.0 * values[k] * values[m] * inverse[at, columns[m]]
                for m in range(rows[first], middle):
                    square -= 2.0 * values[k] * values[m] * inverse[at, columns[m]]
            far = np.sqrt(max(square, 0.0))
            if far > one:
                one, two = far, one
            elif far > two:
                two = far
        largest = max(largest, one + two)
    return largest


@compile_strict
def column_sums(
    values: Array, columns: Array, rows: Array, sets: Array, amount: Array, sums: Array, counts: Array
) -> None:
    """Add to each column the magnitudes of what was observed of it, and how many terms they are."""
    for j in range(len(sets) - 1):
        weight = 0.0
        for y in range(sets[j], sets[j + 1]):
            weight += amount[y]
        if weight == 0.0:
            continue
        for k in range(rows[sets[j]], rows[sets[j + 1]]):
            sums[columns[k]] += weight * abs(values[k])
            counts[columns[k]] += 1.0
