"""Dense chains where rows are tensors: products and forward–backward stay on their device.

Sequences are packed: the longest come first, and the tokens that they have at a time stand side by side. One product
with the transitions takes all of them a token further.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from majorant.chain.dense import DenseChain, DenseSequences
from majorant.chain.model import Chain, split_scores
from majorant.core.checks import Array
from majorant.device.matrix import TensorDesign

# Numbers of X that are converted at a time: 4 GB in double precision.
PIECE = 2**29


class TensorRows(TensorDesign):
    """A tensor of which products are found some rows at a time: in double precision, and for steps in single.

    The few labels of a chain make products that wait for memory, so a lower precision than that gains nothing.
    """

    @classmethod
    def of_rows(cls, X: Any) -> TensorRows:
        """Return that of a tensor, or of what ``on_device`` made of one."""
        rows, device = (X.rows, X.device) if isinstance(X, TensorDesign) else (X.detach(), X.device)
        return cls(rows, device, "double")

    def project(self, W: Any) -> Any:
        """Return W Xᵀ in double precision."""
        V, (t, p) = self.beside(W).to(self.kind), self.shape
        scores = torch.empty((t, len(V)), dtype=torch.float64, device=self.device)
        for begin in range(0, t, max(PIECE // p, 1)):
            some = slice(begin, begin + max(PIECE // p, 1))
            scores[some] = self.multiply(self.part(some)._matrix(), V.T)
        return scores.T

    def pull_back(self, R: Any) -> Any:
        """Return R X."""
        S, (t, p) = self.beside(R), self.shape
        total = torch.zeros((len(S), p), dtype=torch.float64, device=self.device)
        for begin in range(0, t, max(PIECE // p, 1)):
            some = slice(begin, begin + max(PIECE // p, 1))
            total += self.multiply(S[:, some].to(self.kind), self.part(some)._matrix())
        return total

    def narrowed(self) -> TensorRows:
        """Return the same rows, to be multiplied in single precision, if they are not in double precision."""
        return self if self.narrowing is None else replace(self, precision="single")

    @property
    def narrowing(self) -> int | None:
        """Numbers that are copied for that: none."""
        return None if self.precision == "single" or self.rows.dtype == torch.float64 else 0


class Packing(NamedTuple):
    """Where tokens stand when sequences are packed, and what is known of them."""

    order: Any  # the token at each place
    sizes: list[int]  # how many sequences have a token at each time
    ends: list[int]  # where the tokens of a time begin
    before: Any  # the place of the token before, of each that follows another
    y: Any  # labels, by place
    weight: Any  # of tokens, by place; None if all are ones

    @classmethod
    def of(cls, batch: DenseSequences) -> Packing:
        """Return that of sequences, which is found once."""
        if "packing" not in batch.known:
            beside = batch.design.beside
            lengths = np.diff(batch.starts).astype(np.int64)
            ranked = np.argsort(-lengths, kind="stable")
            longest = int(lengths.max(initial=0))
            sizes = np.searchsorted(-lengths[ranked], -np.arange(longest), side="left")
            ends = np.append(0, np.cumsum(sizes))
            time = np.repeat(np.arange(longest), sizes)
            rank = np.arange(len(time)) - ends[time]
            order = batch.starts[:-1].astype(np.int64)[ranked[rank]] + time
            follows = time > 0
            before = ends[time[follows] - 1] + rank[follows]
            batch.known["packing"] = cls(
                beside(order),
                sizes.tolist(),
                ends.tolist(),
                beside(before),
                beside(batch.y[order].astype(np.int64)),
                None if batch.weight is None else beside(batch.weight[order]),
            )
        found: Packing = batch.known["packing"]
        return found


@dataclass(frozen=True)
class TensorChain(DenseChain):
    """:class:`~majorant.chain.dense.DenseChain` on tensors. Scores are the tokens' and then A, without padding."""

    def on_tensors(self) -> TensorChain:
        """Return the model itself."""
        return self

    def inner(self, a: Any, b: Any) -> Any:
        """Return Σ a b."""
        return (a * b).sum()

    def along(self, scores: Any, slopes: Any, a: float) -> Any:
        """Return the scores so far along a ray."""
        return scores + a * slopes

    def potentials(self, theta: Any, batch: Any) -> Any:
        """Return state scores and transition scores."""
        X, universe = batch.design, batch.universe
        n, steps = universe.n, X.beside(universe.transitions)
        A = torch.zeros((n, n), dtype=torch.float64, device=X.place)
        A[steps[:, 0], steps[:, 1]] = theta[len(universe.label) :]
        U = X.project(theta[: batch.n_dense].reshape(-1, n).T).T
        if len(batch.features.codes) or len(batch.features.rows):  # attributes are looked up by this processor
            U = U + X.beside(split_scores(Chain().potentials(theta.cpu().numpy(), batch), batch)[0][:, :n])
        return torch.cat([U.reshape(-1), A.reshape(-1)])

    def loss_and_residual(self, scores: Any, batch: Any) -> tuple[Any, Any]:
        """Return the loss and w (marginals − what was observed), shaped as the scores are."""
        packed, n = Packing.of(batch), batch.universe.n
        U, A = scores[: -n * n].reshape(-1, n)[packed.order], scores[-n * n :].reshape(n, n)
        P, pairs, log_z = forward_backward(U, A, packed)
        if packed.weight is not None:
            P, log_z = P * packed.weight[:, None], log_z * packed.weight
        each = torch.ones_like(log_z) if packed.weight is None else packed.weight
        follows = slice(packed.sizes[0] if packed.sizes else 0, None)
        seen = A.new_zeros(n * n)
        seen.index_add_(0, packed.y[packed.before] * n + packed.y[follows], each[follows])
        observed = (each * U.gather(1, packed.y[:, None])[:, 0]).sum() + (seen * A.reshape(-1)).sum()
        P.scatter_add_(1, packed.y[:, None], -each[:, None])
        R = torch.empty_like(P)
        R[packed.order] = P
        return log_z.sum() - observed, torch.cat([R.reshape(-1), pairs.reshape(-1) - seen])

    def lift(self, residual: Any, batch: Any) -> Any:
        """Return the gradient."""
        X, universe, n = batch.design, batch.universe, batch.universe.n
        R, B = residual[: -n * n].reshape(-1, n), residual[-n * n :].reshape(n, n)
        steps = X.beside(universe.transitions)
        gradient = torch.zeros(universe.size, dtype=torch.float64, device=X.place)
        if len(batch.features.codes) or len(batch.features.rows):
            width = universe.width
            flat = np.zeros((batch.n_tokens + width, width))
            flat[: batch.n_tokens, :n] = R.cpu().numpy()
            gradient += X.beside(Chain().lift(flat.ravel(), batch))
        gradient[: batch.n_dense] = X.pull_back(R.T).T.reshape(-1)
        gradient[len(universe.label) :] = B[steps[:, 0], steps[:, 1]]
        return gradient

    def label_curvature(self, scores: Any, batch: Any) -> tuple[Any, Any]:
        """Return Σ_t w_t (diag(p_t) − p_t p_tᵀ), and a diagonal for attributes and transitions."""
        if len(batch.features.codes) or len(batch.features.rows):
            return super().label_curvature(padded(scores, batch), batch)
        packed, n, steps = Packing.of(batch), batch.universe.n, batch.universe.transitions
        P = forward_backward(scores[: -n * n].reshape(-1, n)[packed.order], scores[-n * n :].reshape(n, n), packed)[0]
        weighted = P if packed.weight is None else P * packed.weight[:, None]
        S = torch.diag(weighted.sum(dim=0)) - weighted.T @ P
        before, after = weighted[packed.before], P[packed.sizes[0] :]
        B = before.T @ after - (before * P[packed.before]).T @ after.square()
        return S, B[steps[:, 0], steps[:, 1]]

    def hessian_diagonal(self, scores: Any, batch: Any) -> Any:
        """Return Σ_t x² p(1 − p), as if tokens were independent: to scale steps by."""
        return super().hessian_diagonal(padded(scores, batch), batch)

    def hits(self, scores: Any, batch: Any) -> Array:
        """Return for each token whether its label is that of the likeliest sequence."""
        return super().hits(padded(scores, batch), batch)


def padded(scores: Any, batch: Any) -> Array:
    """Return scores as this processor's kernels want them."""
    n, width = batch.universe.n, batch.universe.width
    flat, here = np.zeros((batch.n_tokens + width, width)), scores.cpu().numpy()
    flat[: batch.n_tokens, :n] = here[: -n * n].reshape(-1, n)
    flat[batch.n_tokens : batch.n_tokens + n, :n] = here[-n * n :].reshape(n, n)
    return flat.ravel()


def forward_backward(U: Any, A: Any, packed: Packing) -> tuple[Any, Any, Any]:
    """Return P(y_t) by place, Σ_t w P(y_{t−1}, y_t), and terms of log Z by place, from scores by place."""
    sizes, ends = packed.sizes, packed.ends
    top, shift = A.max(), U.amax(dim=1)
    e, E = torch.exp(U - shift[:, None]), torch.exp(A - top)
    α, c, β = torch.empty_like(e), torch.empty_like(shift), torch.ones_like(e)
    for t, m in enumerate(sizes):
        here = slice(ends[t], ends[t] + m)
        a = e[here] if t == 0 else torch.mm(α[ends[t - 1] : ends[t - 1] + m], E) * e[here]
        c[here] = a.sum(dim=1)
        torch.div(a, c[here][:, None], out=α[here])
    v = e.div_(c[:, None])
    for t in range(len(sizes) - 1, 0, -1):
        here, earlier = slice(ends[t], ends[t] + sizes[t]), slice(ends[t - 1], ends[t - 1] + sizes[t])
        v[here] *= β[here]
        torch.mm(v[here], E.T, out=β[earlier])
    first = sizes[0] if sizes else 0
    log_z = c.log() + shift
    log_z[first:] += top
    from_before = α[packed.before]
    if packed.weight is not None:
        from_before = from_before * packed.weight[first:, None]
    return α.mul_(β), E * (from_before.T @ v[first:]), log_z
