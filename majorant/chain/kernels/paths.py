"""What is found label by label on linear chains: the likeliest labels, conditionals, and the bound of Algorithm 1.

The letters are those of :mod:`majorant.chain.kernels.forward_backward`.
"""

from __future__ import annotations

import numpy as np

from majorant.core.checks import Array
from majorant.core.kernels.compiler import compile_sums
from majorant.core.kernels.stochastic import absorb


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
def viterbi(U: Array, A: Array, starts: Array, n: int, M: Array, y: Array) -> None:
    """Write the likeliest labels; of equally likely ones the first.

    M (tokens × n) holds the score of the best way to each label. Where that came from is looked up on the way back, at
    one label of each token: so that the way forth is sums and maxima alone, which vectorise. M comes from Python, and
    arrays are copied by loops: what NumPy's way takes to compile is longer than most predictions.
    """
    for s in range(len(starts) - 1):
        begin, end = starts[s], starts[s + 1]
        for t in range(begin, end):
            here, before = M[t], M[max(t - 1, begin)]
            for j in range(n):
                here[j] = before[0] + A[0, j] if t > begin else 0.0
            for i in range(1, n if t > begin else 0):
                score, row = before[i], A[i]
                for j in range(n):
                    through = score + row[j]
                    here[j] = through if through > here[j] else here[j]
            for j in range(n):
                here[j] += U[t, j]
        last = 0
        for j in range(1, n if end > begin else 0):
            last = j if M[end - 1, j] > M[end - 1, last] else last
        for t in range(end - 1, begin - 1, -1):
            y[t] = last
            j, last = last, 0
            for i in range(1, n if t > begin else 0):
                if M[t - 1, i] + A[i, j] > M[t - 1, last] + A[last, j]:
                    last = i


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
