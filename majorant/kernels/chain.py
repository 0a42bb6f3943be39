"""Linear chains: scores of tokens, forward–backward, Viterbi, compiled by Numba.

========  ==================================================================================================
letter    meaning
========  ==================================================================================================
U         state scores, a row per token, a column per label, padded with columns that never happen
A         transition scores from label to label
E, T      exp(U) shifted row by row, exp(A)
α, γ      forward messages scaled to sum to one; E∘β scaled, so that α_{t−1,i} T_ij γ_tj is P(y_{t−1} = i, y_t = j)
========  ==================================================================================================
"""

from __future__ import annotations

import numpy as np

from majorant._checks import Array
from majorant.kernels.compiler import compile_sums
from majorant.kernels.partition_compiled import absorb
from majorant.kernels.sparse import Placements


@compile_sums
def value_of(values: Array | None, e: int) -> float:
    """Return the value of an occurrence; a function, since Numba drops a branch on None only for an argument."""
    return 1.0 if values is None else values[e]


@compile_sums
def project(x: Placements, θ: Array, table: Array, U: Array) -> None:
    """Write the state scores of every token."""
    for t in range(len(U)):
        row = U[t]
        row[:] = 0.0
        for e in range(x.indptr[t], x.indptr[t + 1]):
            v = value_of(x.values, e)
            if x.counts[e] == 0:
                of_attribute = table[x.where[e]]
                for i in range(table.shape[1]):
                    row[i] += v * of_attribute[i]
            else:
                for f in range(x.where[e], x.where[e] + x.counts[e]):
                    row[x.label[f]] += v * θ[f]


@compile_sums
def lift(x: Placements, R: Array, table: Array, G: Array) -> None:
    """Add what residuals on state scores make of the gradient, of tabled attributes to the table."""
    for t in range(len(R)):
        row = R[t]
        for e in range(x.indptr[t], x.indptr[t + 1]):
            v = value_of(x.values, e)
            if x.counts[e] == 0:
                of_attribute = table[x.where[e]]
                for i in range(table.shape[1]):
                    of_attribute[i] += v * row[i]
            else:
                for f in range(x.where[e], x.where[e] + x.counts[e]):
                    G[f] += v * row[x.label[f]]


@compile_sums
def shift(U: Array, n: int, E: Array, largest: Array) -> None:
    """Write the largest of n scores of each row, and the row less that."""
    for t in range(len(U)):
        top = U[t, 0]
        for i in range(1, n):
            top = max(top, U[t, i])
        for i in range(U.shape[1]):
            E[t, i] = U[t, i] - top
        largest[t] = top


@compile_sums
def forward(E: Array, T: Array, starts: Array, α: Array, scale: Array) -> None:
    """Write α and the sums it was divided by: Σ_t log scale_t is log Z, but for the shift."""
    n = E.shape[1]
    for s in range(len(starts) - 1):
        for t in range(starts[s], starts[s + 1]):
            here = α[t]
            if t == starts[s]:
                here[:] = E[t]
            else:
                before = α[t - 1]
                here[:] = 0.0
                for i in range(n):
                    a, row = before[i], T[i]
                    for j in range(n):
                        here[j] += a * row[j]
                for j in range(n):
                    here[j] *= E[t, j]
            c = here.sum()
            for j in range(n):
                here[j] /= c
            scale[t] = c


@compile_sums
def backward(E: Array, transposed: Array, starts: Array, α: Array, scale: Array, P: Array, γ: Array) -> None:
    """Write the marginals P and γ; rows of γ that begin a sequence are zero, since nothing leads there."""
    n = E.shape[1]
    β = np.empty(n)
    for s in range(len(starts) - 1):
        β[:] = 1.0
        for t in range(starts[s + 1] - 1, starts[s] - 1, -1):
            for i in range(n):
                P[t, i] = α[t, i] * β[i]
            if t == starts[s]:
                γ[t] = 0.0
                break
            here = γ[t]
            for j in range(n):
                here[j] = E[t, j] * β[j] / scale[t]
            β[:] = 0.0
            for j in range(n):
                g, row = here[j], transposed[j]
                for i in range(n):
                    β[i] += g * row[i]


@compile_sums
def conditionals(
    E: Array, T: Array, starts: Array, y: Array, weight: Array, largest: Array, P: Array, pairs: Array
) -> float:
    """Return Σ_t w_t [log of what p(y_t | y_{t−1}, x) is divided by], where weights differ within a sequence.

    Its derivatives are written to P and added to pairs. They are those of a Markov chain that moves by the conditionals
    and gains the mass w_t − w_{t−1} at the observed label y_{t−1}: so one sweep finds them.
    """
    n, total = E.shape[1], 0.0
    β = np.empty((len(E), n))
    into = np.empty(n)
    for s in range(len(starts) - 1):
        begin, end = starts[s], starts[s + 1]
        if begin == end:
            continue
        β[end - 1] = 1.0
        for t in range(end - 1, begin, -1):
            for i in range(n):
                β[t - 1, i] = (T[i] * E[t] * β[t]).sum()
            β[t - 1] /= β[t - 1].max()
        into = E[begin] * β[begin]
        total += weight[begin] * (np.log(into.sum()) - np.log(β[begin, y[begin]]) + largest[begin])
        P[begin] = weight[begin] * into / into.sum()
        for t in range(begin + 1, end):
            P[t] = 0.0
            for i in range(n):
                mass = P[t - 1, i] + (weight[t] - weight[t - 1] if i == y[t - 1] else 0.0)
                into = T[i] * E[t] * β[t]
                out = into.sum()
                if i == y[t - 1]:
                    total += weight[t] * (np.log(out) - np.log(β[t, y[t]]) + largest[t])
                if mass != 0.0 and out > 0.0:
                    into *= mass / out
                    P[t] += into
                    pairs[i] += into
    return total


@compile_sums
def viterbi(U: Array, A: Array, starts: Array, n: int, y: Array) -> None:
    """Write the likeliest labels; of equally likely ones the first.

    M holds the score of the best way to each label. Where that came from is looked up on the way back, at one label of
    each token: so that the way forth is sums and maxima alone, which vectorise.
    """
    M = np.empty((len(U), n))
    for s in range(len(starts) - 1):
        begin, end = starts[s], starts[s + 1]
        if begin == end:
            continue
        M[begin] = U[begin, :n]
        for t in range(begin + 1, end):
            before, here = M[t - 1], M[t]
            for j in range(n):
                here[j] = before[0] + A[0, j]
            for i in range(1, n):
                score, row = before[i], A[i]
                for j in range(n):
                    through = score + row[j]
                    here[j] = through if through > here[j] else here[j]
            for j in range(n):
                here[j] += U[t, j]
        y[end - 1] = np.argmax(M[end - 1])
        for t in range(end - 1, begin, -1):
            before, j = M[t - 1], y[t]
            best = 0
            for i in range(1, n):
                if before[i] + A[i, j] > before[best] + A[best, j]:
                    best = i
            y[t - 1] = best


@compile_sums
def bound_rows(U: Array, A: Array) -> Array:
    """Return Q with log Z ≤ … + ½ δᵀQᵀQδ for every change δ of the scores of one sequence: T n states, n² transitions.

    Z_t(j) = Σ_i Z_{t−1}(i) exp(A_ij + u_tj) keeps its own mean of scores g for every label j, but all labels share one
    Σ: that of Z_{t−1} is a common factor and enters once, and so do the increments Σ_i β l lᵀ of every j. (The printed
    form adds the Σ of every state i to every state j, and doubles at each token.)
    """
    T, n = U.shape
    m = T * n + n * n
    Q = np.zeros(((T - 1) * n * (n - 1) + n - 1, m))
    log_z, g = U[0].copy(), np.zeros((n, m))
    for j in range(n):
        g[j, j] = 1.0
    k = 0
    for t in range(1, T):
        new_z, new_g = np.empty(n), np.zeros((n, m))
        for j in range(n):
            rows = Q[k : k + n - 1]
            new_z[j] = U[t, j] + absorb_labels(log_z + A[:, j], g, T * n + j, new_g[j], rows)
            new_g[j, t * n + j] += 1.0
            k += n - 1
        log_z, g = new_z, new_g
    absorb_labels(log_z, g, m, np.zeros(m), Q[k:])
    return Q


@compile_sums
def absorb_labels(scores: Array, g: Array, step: int, mean: Array, Q: Array) -> float:
    """Sum over the label of a token by Algorithm 1: write the rows √β l to Q, add the mean to ``mean``, return log z.

    Label i has the features g[i] and one more, of the step that leaves it: at ``step`` for the first label, n further
    for each of the others. A step beyond all features leads nowhere: after the last token.
    """
    n, log_z, k = len(scores), -np.inf, -1  # the first label has β = 0, and no row
    for i in np.argsort(-scores):
        β, κ, log_z = absorb(log_z, scores[i])
        own = step + i * n
        for f in range(len(mean)):
            direction = g[i, f] - mean[f] + (1.0 if f == own else 0.0)
            if k >= 0:
                Q[k, f] = np.sqrt(β) * direction
            mean[f] += κ * direction
        k += 1
    return log_z
