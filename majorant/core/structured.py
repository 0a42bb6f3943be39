"""Blocks of parameters that never meet in an outcome, some that all of them meet, and one direction for each row.

The Hessian of log Z_j is Σ_y p(y) f(y) f(y)ᵀ − f̄ f̄ᵀ with f̄ = Σ_y p(y) f(y). Where an outcome touches few parameters,
those of its own block and those that all share, the first part is an *arrow*: blocks on the diagonal, with a border.
The second is one direction for each row. With A the arrow and M the rows √w_j f̄_j (Woodbury's identity)

    (A − MᵀM)⁻¹ = A⁻¹ + N (I − MN)⁻¹ Nᵀ,      N = A⁻¹Mᵀ,

so that t rows of d parameters take t²d operations and no d×d matrix.

C ⊗ G: one matrix between classes, one between features.

Woodbury's identity through a Cholesky factor: (M⁻¹ + QᵀQ)⁻¹ = M − WᵀW.

Σ ⪯ VᵀSV + D in O(kd) memory, absorbing one rank-one term at a time.

A matrix that grows row by row, with products with its inverse at hand at every moment.

Forms by name.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np
from scipy.linalg import LinAlgError, eigh, solve_triangular
from scipy.linalg.blas import dgemm, dsymv, dsyrk, dtrsm
from scipy.linalg.lapack import dpotrf, dtrtrs

from majorant.core import kernels
from majorant.core.checks import Array, one_of, whole
from majorant.core.curvature import (
    GROWTH,
    JITTER,
    LARGE,
    WORTH_SHARING,
    Curvature,
    Dense,
    Diagonal,
    Factor,
    Factors,
    Form,
    Quotient,
    Solve,
    add_as_matrices,
    lower_factor,
    raised_eigenvalues,
    refuse_large,
    ridge_vector,
    steady_factor,
)
from majorant.core.threads import for_each, mapped


@dataclass(frozen=True, eq=False)
class Pattern:
    """Which parameters all outcomes may share (k), and which belong to each of m blocks.

    ``blocks`` (m×b) holds parameters by number; where a block has fewer than b, the number d fills it up.
    """

    size: int
    shared: Array
    blocks: Array

    @property
    def missing(self) -> Array:
        """Where blocks have been filled up."""
        return self.blocks == self.size

    def split(self, V: Array) -> tuple[Array, Array]:
        """Return the rows of V (d×r) that are shared (k×r), and those of the blocks (m×b×r)."""
        filled = np.concatenate([V, np.zeros((1, V.shape[1]))])
        return V[self.shared], filled[self.blocks]

    def joined(self, shared: Array, blocks: Array) -> Array:
        """Return what :meth:`split` has split (d×r)."""
        V = np.zeros((self.size + 1, blocks.shape[2]))
        V[self.shared], V[self.blocks.ravel()] = shared, blocks.reshape(-1, blocks.shape[2])
        return V[:-1]


@dataclass(frozen=True, eq=False)
class Arrow(Curvature):
    """Σ = A − MᵀM, with A an arrow: ``shared`` (k×k), ``cross`` (m×k×b) and ``blocks`` (m×b×b); ``rows`` are M (t×d).

    It is positive semi-definite as a whole, as Hessians are.
    """

    pattern: Pattern
    shared: Array
    cross: Array
    blocks: Array
    rows: Array
    majorizes: bool = False

    @property
    def size(self) -> int:
        """Number of parameters d."""
        return self.pattern.size

    def matvec(self, v: Array) -> Array:
        """Return Σv."""
        s, b = self.pattern.split(v[:, None])
        of_shared = self.shared @ s + (self.cross @ b).sum(axis=0)
        of_blocks = np.swapaxes(self.cross, 1, 2) @ s + self.blocks @ b
        return self.pattern.joined(of_shared, of_blocks)[:, 0] - self.rows.T @ (self.rows @ v)

    def diagonal(self) -> Array:
        """Return the diagonal of A."""
        shared, blocks = np.diagonal(self.shared), np.diagonal(self.blocks, axis1=1, axis2=2)
        return self.pattern.joined(shared[:, None], blocks[:, :, None])[:, 0]

    def factorized(self, ridge: float | Array = 0.0) -> ArrowSolve:
        """Return (Σ + diag(ridge))⁻¹, or that of one with so much more on its diagonal that it has a factor."""
        λ, A = ridge_vector(ridge, self.size), self.diagonal()
        scale = np.sqrt(np.where(A + λ > 0, A + λ, 1.0))
        scaled = self._scaled_by(scale, λ)
        share = 0.0
        while True:
            try:
                return _factorized(scaled, scale, share)
            except LinAlgError:  # columns of a block that depend on each other
                share = max(GROWTH * share, JITTER * self.pattern.blocks.shape[1])

    def as_matrix(self) -> Array:
        """Return Σ as a d×d array."""
        refuse_large(self.size, "an arrow written out")
        d, pattern = self.size, self.pattern
        A = np.zeros((d + 1, d + 1))
        A[np.ix_(pattern.shared, pattern.shared)] = self.shared
        A[pattern.shared[None, :, None], pattern.blocks[:, None]] = self.cross
        A[pattern.blocks[:, None], pattern.shared[None, :, None]] = self.cross
        A[pattern.blocks[:, :, None], pattern.blocks[:, None]] = self.blocks
        return A[:d, :d] - self.rows.T @ self.rows

    def __add__(self, other: Curvature) -> Curvature:
        if not isinstance(other, Arrow) or other.pattern is not self.pattern:
            return add_as_matrices(self, other)
        return replace(
            self,
            shared=self.shared + other.shared,
            cross=self.cross + other.cross,
            blocks=self.blocks + other.blocks,
            rows=np.concatenate([self.rows, other.rows]),
        )

    def _scaled_by(self, scale: Array, ridge: Array) -> Arrow:
        """Return the same, ridge included, with a unit diagonal of A; what fills blocks up gets one as well."""
        s, b = (each[..., 0] for each in self.pattern.split(scale[:, None]))
        λ_s, λ_b = (each[..., 0] for each in self.pattern.split(ridge[:, None]))
        b = np.where(self.pattern.missing, 1.0, b)
        blocks = self.blocks / (b[:, :, None] * b[:, None])
        empty = np.diagonal(blocks, axis1=1, axis2=2) + λ_b / b**2 == 0
        blocks[:, range(b.shape[1]), range(b.shape[1])] += λ_b / b**2 + empty
        shared = self.shared / np.outer(s, s) + np.diag(λ_s / s**2)
        cross = self.cross / (s[None, :, None] * b[:, None])
        return replace(self, shared=shared, cross=cross, blocks=blocks, rows=self.rows / scale)


def _factorized(scaled: Arrow, scale: Array, share: float) -> ArrowSolve:
    """Return the inverse of an arrow with a unit diagonal, of which a share is added to that of its blocks."""
    b = scaled.blocks.shape[1]
    L = np.linalg.cholesky(scaled.blocks + share * np.eye(b))
    roots = np.linalg.solve(L, np.broadcast_to(np.eye(b), L.shape))
    inverses = np.swapaxes(roots, 1, 2) @ roots
    through = scaled.cross @ inverses
    border = steady_factor(scaled.shared - (through @ np.swapaxes(scaled.cross, 1, 2)).sum(axis=0))
    of_arrow = ArrowSolve(scaled.pattern, scale, inverses, through, border, scaled.rows, np.empty(0), None)
    if not len(scaled.rows):
        return of_arrow
    N = of_arrow.without_rows(scaled.rows.T)
    left = np.eye(len(scaled.rows)) - scaled.rows @ N
    return replace(of_arrow, beyond=N, left=steady_factor(left))


@dataclass(frozen=True, eq=False)
class ArrowSolve:
    """(A − MᵀM)⁻¹ as a function, coordinates scaled."""

    pattern: Pattern
    scale: Array
    inverses: Array  # of the blocks
    through: Array  # cross · inverses
    border: Factor  # of what is left of the shared part
    rows: Array
    beyond: Array  # N
    left: Factor | None  # of I − MN

    def __call__(self, b: Array) -> Array:
        """Return Σ⁻¹b."""
        y = self.without_rows((b / self.scale)[:, None])[:, 0]
        if self.left is not None:
            y = y + self.beyond @ self.left(self.rows @ y)
        return y / self.scale

    def without_rows(self, V: Array) -> Array:
        """Return A⁻¹V, coordinates scaled."""
        s, b = self.pattern.split(V)
        of_shared = self.border(s - (self.through @ b).sum(axis=0)) if len(s) else s
        of_blocks = self.inverses @ b - np.swapaxes(self.through, 1, 2) @ of_shared
        return self.pattern.joined(of_shared, of_blocks)

    def inverse_diagonal(self) -> Array:
        """Return the diagonal of Σ⁻¹: variances, if Σ is a Hessian."""
        k = len(self.pattern.shared)
        border = self.border.inverse() if k else np.zeros((0, 0))
        of_blocks = np.diagonal(self.inverses, axis1=1, axis2=2).copy()
        of_blocks += np.einsum("mkb,kl,mlb->mb", self.through, border, self.through, optimize=True)
        found = self.pattern.joined(np.diagonal(border)[:, None], of_blocks[:, :, None])[:, 0]
        if self.left is not None:
            found += np.square(dtrtrs(self.left.L, self.beyond.T, lower=1)[0]).sum(axis=0)
        return found / self.scale**2


@dataclass(frozen=True, eq=False)
class Kronecker(Curvature):
    """A Kronecker product C ⊗ G of an n×n and a p×p matrix.

    It majorizes only if built so: by :meth:`of` from the largest eigenvalue of each B_j, or by :meth:`boehning`.

    Parameters
    ----------
    classes : array of shape (n, n)
    features : array of shape (p, p)
    majorizes : bool
        Whether it is known to dominate.

    Examples
    --------
    >>> curvature = Kronecker(np.eye(2), np.diag([1.0, 3.0]), majorizes=False)
    >>> curvature.matvec(np.ones(4))
    array([1., 3., 1., 3.])
    """

    classes: Array
    features: Array
    majorizes: bool

    @classmethod
    def of(cls, factors: Factors) -> Kronecker:
        """Return I ⊗ Σ_j w_j λmax(B_j) x_j x_jᵀ, which dominates the factors of a batch."""
        largest = lambda B: np.linalg.eigvalsh(np.moveaxis(B, 2, 0))[:, -1]  # noqa: E731
        return cls(*factors.kronecker(largest), factors.majorizes)

    @classmethod
    def boehning(cls, factors: Factors) -> Kronecker:
        """Return Böhning's ½(I − 11ᵀ/n) ⊗ XᵀWX, which holds whatever the scores are.

        References
        ----------
        Böhning, *Multinomial logistic regression algorithm*, Ann. Inst. Stat. Math. 44, 1992.
        """
        return cls(*factors.fixed(), majorizes=True)

    @property
    def size(self) -> int:
        """Number of parameters d = np."""
        return len(self.classes) * len(self.features)

    def matvec(self, v: Array) -> Array:
        """Return (C ⊗ G)v."""
        return (self.classes @ self._by_class(v) @ self.features).ravel()

    def factorized(self, ridge: float | Array = 0.0) -> Solve:
        """Return (C ⊗ G + diag(ridge))⁻¹ as a function, with one p×p factor for each distinct eigenvalue of C."""
        penalty = self._by_class(ridge_vector(ridge, self.size))
        if not (penalty == penalty[0]).all():
            raise ValueError("a Kronecker curvature needs the same ridge in every class; use curvature='dense'")
        if np.array_equal(self.classes, np.eye(len(self.classes))):
            whole = np.ones(len(self.classes), dtype=bool)
            return KroneckerSolve(None, ((whole, self._feature_solve(1.0, penalty[0])),))
        values, basis = eigh(self.classes)
        scale = max(np.abs(values).max(), 1e-300)
        distinct, of_row = np.unique((values / scale).round(12), return_inverse=True)
        solves = (self._feature_solve(value, penalty[0]) for value in distinct * scale)
        return KroneckerSolve(basis, tuple((of_row == k, solve) for k, solve in enumerate(solves)))

    def nearly_factorized(self, ridge: float | Array) -> Solve:
        """Return about (C ⊗ G + diag(ridge))⁻¹ as a function, to scale steps by.

        The ridge is the mean over classes. Eigenvalues of C within a factor of two share a p×p factor, and where C has
        none its mean stands in.
        """
        λ = self._by_class(ridge_vector(ridge, self.size)).mean(axis=0)
        if len(self.classes) == 1:
            return KroneckerSolve(None, ((np.ones(1, dtype=bool), self._feature_solve(self.classes[0, 0], λ)),))
        values, basis = raised_eigenvalues(self.classes)
        level = np.round(np.log2(values))
        groups = [level == each for each in np.unique(level)]
        among = None if WORTH_SHARING <= len(self.features) < LARGE else 1  # those of large ones are BLAS's
        solves = mapped(lambda rows: self._feature_solve(float(values[rows].mean()), λ), groups, among)
        return KroneckerSolve(basis, tuple(zip(groups, solves, strict=True)))

    def as_matrix(self) -> Array:
        """Return C ⊗ G as a d×d array."""
        return np.kron(self.classes, self.features)

    def __add__(self, other: Curvature) -> Curvature:
        if isinstance(other, Kronecker) and np.array_equal(self.classes, other.classes):
            return Kronecker(self.classes, self.features + other.features, self.majorizes and other.majorizes)
        return add_as_matrices(self, other)

    def _by_class(self, v: Array) -> Array:
        return v.reshape(len(self.classes), len(self.features))

    def _feature_solve(self, value: float, ridge: Array) -> Solve:
        return Dense(self.features if value == 1.0 else value * self.features, self.majorizes).factorized(ridge)


@dataclass(frozen=True, eq=False)
class KroneckerSolve:
    """Rotates classes to where C is diagonal, and solves for features there; those that are apart stay as they are."""

    basis: Array | None
    groups: tuple[tuple[Array, Solve], ...]

    def __call__(self, b: Array) -> Array:
        """Return the solution."""
        return self.several(b[None])[0]

    def several(self, B: Array) -> Array:
        """Return the solutions of several rows: factors are read once for all of them, which is most of what it takes.

        Cost O(kp²n) for k of them.
        """
        n, k = len(self.groups[0][0]), len(B)
        R = B.reshape(k, n, -1).swapaxes(0, 1)
        p = R.shape[-1]
        if self.basis is not None:
            R = (self.basis.T @ R.reshape(n, -1)).reshape(n, k, p)

        def solve_group(group: tuple[Array, Solve]) -> None:
            rows, solve = group
            R[rows] = solve(R[rows].reshape(-1, p).T).T.reshape(-1, k, p)

        if len(self.groups) == 1:
            R = self.groups[0][1](R.reshape(-1, p).T).T.reshape(n, k, p)
        else:  # of several eigenvalues there is a basis, so that R is not B
            for_each(solve_group, self.groups, None if p >= WORTH_SHARING else 1)
        if self.basis is not None:
            R = (self.basis @ R.reshape(n, -1)).reshape(n, k, p)
        return R.swapaxes(0, 1).reshape(k, -1)


def balanced(C: Array, features: Array) -> tuple[Array, Array]:
    """Return the class matrix with a trace of n − 1: how much there is in all, the features say."""
    n = len(C)
    if n == 1:
        return np.ones((1, 1)), features
    total = float(np.trace(C)) / (n - 1)
    return C / total if total > 0 else np.eye(n), features


def whiten(Q: Array, QM: Array) -> Array:
    """Return W with (M⁻¹ + QᵀQ)⁻¹ = M − WᵀW, given QM."""
    return whiten_with(QM @ Q.T, QM)


def whiten_with(growth: Array, QM: Array) -> Array:
    """Do what :func:`whiten` does, given QMQᵀ, which is overwritten."""
    growth.flat[:: len(growth) + 1] += 1.0
    # LAPACK directly: on matrices this small SciPy's checks cost more than the work. It wants columns, we have rows;
    # so it solves W^T U = (QM)^T for growth = U^T U, and no array has to be turned.
    U, failed = dpotrf(growth.T, lower=0, overwrite_a=1)
    if failed:
        raise FloatingPointError("the curvature lost its positivity to rounding; scale the features down")
    return dtrsm(1.0, U, QM.T, side=1, lower=0).T


@dataclass(frozen=True, eq=False)
class LowRank(Curvature):
    """VᵀSV + diag(D) with V (k×d) of orthonormal rows, S (k×k), D ≥ 0.

    Two corrections to the published formulas are needed. Jebara & Choromanska (NIPS 2012) drop the cross
    terms between V and the residual of a new direction, and lose the bound; here the smallest eigenpair of
    the exact (k+1)×(k+1) matrix leaves for the diagonal. And Woodbury's identity, printed with a plus sign in
    the 2013 paper, has a minus. ``tests/reproduction/test_errata.py`` shows both printed forms failing.

    Parameters
    ----------
    V : array of shape (k, d)
    S : array of shape (k, k)
    D : array of shape (d,)
    majorizes : bool
        Whether it is known to dominate.

    Examples
    --------
    >>> curvature = LowRank.empty(rank=1, size=2, majorizes=True).absorb(np.array([[1.0, 0.0], [0.0, 2.0]]))
    >>> curvature.as_matrix()
    array([[1., 0.],
           [0., 4.]])
    """

    V: Array
    S: Array
    D: Array
    majorizes: bool

    @classmethod
    def empty(cls, rank: int, size: int, *, majorizes: bool) -> LowRank:
        """Return the zero curvature, ready to absorb."""
        k = min(whole("rank", rank, least=0), size)
        return cls(np.eye(k, size), np.zeros((k, k)), np.zeros(size), majorizes)

    @classmethod
    def of(cls, factors: Factors, rank: int) -> LowRank:
        """Return what dominates the factors of a batch, absorbed row by row, keeping ``rank`` directions."""
        total = cls.empty(rank, factors.size, majorizes=factors.majorizes)
        for rows in factors.rows():
            total = total.absorb(rows)
        return total

    def absorb(self, rows: Array) -> LowRank:
        """Return a curvature that dominates this one plus Σ q qᵀ over ``rows`` (m×d)."""
        V, S, D = self.V.copy(), self.S.copy(), self.D.copy()
        kernels.stochastic.absorb_rows(V, S, D, np.ascontiguousarray(rows, dtype=np.float64))
        return LowRank(V, S, D, self.majorizes)

    @property
    def size(self) -> int:
        """Number of parameters d."""
        return len(self.D)

    def matvec(self, v: Array) -> Array:
        """Return (VᵀSV + D)v."""
        return self.V.T @ (self.S @ (self.V @ v)) + self.D * v

    def factorized(self, ridge: float | Array = 0.0) -> Solve:
        """Return (VᵀSV + D + ridge)⁻¹ as a function, by Woodbury's identity, O(k²d).

        With E = D + ridge and S = CCᵀ the inverse is E⁻¹ − E⁻¹VᵀC (I + CᵀVE⁻¹VᵀC)⁻¹ CᵀVE⁻¹, which never inverts S.
        Where E has zeros there is no such formula, and the matrix is written out.
        """
        E = self.D + ridge_vector(ridge, self.size)
        if not (E > 0).all():
            refuse_large(self.size, "a low-rank curvature with an unpenalised parameter")
            return Dense(self.as_matrix(), self.majorizes).factorized(ridge)
        if not len(self.S):  # which older versions of SciPy cannot factorise
            return Quotient.by(E)
        Q = self._root()
        QE = Q / E
        return LowRankSolve(E, Q, QE, Factor(lower_factor(np.eye(len(Q)) + QE @ Q.T)))

    def as_matrix(self) -> Array:
        """Return VᵀSV + D as a d×d array."""
        return self.V.T @ self.S @ self.V + np.diag(self.D)

    def __add__(self, other: Curvature) -> Curvature:
        both = self.majorizes and other.majorizes
        if isinstance(other, Diagonal):
            return LowRank(self.V, self.S, self.D + other.entries, both)
        if isinstance(other, LowRank):
            return LowRank(self.V, self.S, self.D + other.D, both).absorb(other._root())
        return add_as_matrices(self, other)

    def _root(self) -> Array:
        """Return Q (k×d) with QᵀQ = VᵀSV."""
        values, basis = eigh(self.S) if len(self.S) else (np.zeros(0), np.zeros((0, 0)))
        return np.ascontiguousarray((np.sqrt(np.maximum(values, 0.0))[:, None] * basis.T) @ self.V)


@dataclass(frozen=True, eq=False)
class LowRankSolve:
    """E⁻¹ − (QE⁻¹)ᵀ (I + QE⁻¹Qᵀ)⁻¹ QE⁻¹, with QᵀQ = VᵀSV."""

    E: Array
    Q: Array
    QE: Array
    small: Factor

    def __call__(self, b: Array) -> Array:
        """Return the solution."""
        x = b / self.E
        return x - self.QE.T @ self.small(self.Q @ x)


# Rows that are left pending on M, which every product has to pass, and on A, which nothing does.
PENDING, PENDING_ON_A = 96, 512


class Growing(Curvature):
    """A growing matrix A and products with its inverse M.

    M is kept by Woodbury's identity and found afresh now and then. A few rows are left pending, A = A₀ + QᵀQ and
    M = M₀ − WᵀW, so that a single row costs one product with M₀ and no d×d array is written for it. Where A is
    ill-conditioned an explicit inverse has no digits left for the directions that have been seen most, and a Cholesky
    factor of A takes its place: slower for small batches, but G is then positive semi-definite by construction.

    Growing makes another one: arrays are replaced, never written to, and a shallow copy is a copy. Only the lower
    triangle of A is kept.

    Parameters
    ----------
    A : array of shape (d, d)
        What it starts from, positive definite: a diagonal prior, or a matrix.
    classes : int
        Of several classes the direction in which all move together is grounded where a factor is needed.
    """

    majorizes = False

    _M: Array | None
    _Q: tuple[Array, ...]
    _factor_of_all: Factor | None

    def __init__(self, A: Array, classes: int = 1) -> None:
        self._A, self.classes = np.ascontiguousarray(A), classes
        self._diagonal, self._smallest = np.diagonal(A), float(np.diagonal(A).min())
        self._Q, self._W, self._factor_of_all = (), np.empty((0, len(A))), None
        if np.count_nonzero(A) > len(A):
            self._renew()
        else:  # a prior
            self._absorbed, self._M = 0, np.diag(1 / np.diagonal(A))

    @property
    def size(self) -> int:
        """Number of parameters d."""
        return len(self._A)

    def through(self, Φ: Array, apply: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Return V = ΦM and G = ΦMΦᵀ; ``apply`` multiplies Φ by a d×d matrix, as fast as it can."""
        if self._M is not None:
            # A symmetric matrix is half read for one row.
            V = dsymv(1.0, self._M.T, Φ[0])[None] if len(Φ) == 1 else apply(self._M)
            if len(self._W):
                V = V - (Φ @ self._W.T) @ self._W
            return V, V @ Φ.T
        L = self._factor.L
        T = solve_triangular(L, Φ.T, lower=True, check_finite=False)
        return solve_triangular(L, T, lower=True, trans=1, check_finite=False).T, T.T @ T

    def grown(self, Q: Array, QM: Array, growth: Array) -> Self:
        """Return A + QᵀQ, given QM and QMQᵀ (overwritten)."""
        other = copy(self)
        other._Q, other._factor_of_all = (*other._Q, Q), None
        other._absorbed += len(Q)
        other._diagonal = other._diagonal + np.einsum("ij,ij->j", Q, Q)
        # An eigenvalue that grows by 10⁶ at once costs M as many digits; rounding errors build up besides.
        at_once = not np.diagonal(growth).max() <= 1e6
        if other._M is None or at_once or other._absorbed > 16 * len(other._A) or not other._is_trusted:
            other._renew()
            return other
        try:
            other._W = np.concatenate([other._W, whiten_with(growth, QM)])
        except FloatingPointError:  # M has lost too many digits
            other._renew()
        if len(other._W) >= PENDING:
            assert other._M is not None
            other._M, other._W = dgemm(-1.0, other._W.T, other._W.T, 1.0, other._M.T, trans_b=1).T, other._W[:0]
        if sum(map(len, other._Q)) >= PENDING_ON_A:
            other._A, other._Q = other._lower(), ()
        return other

    def matvec(self, v: Array) -> Array:
        """Return Av."""
        return self.as_matrix() @ v

    def factorized(self, ridge: float | Array = 0.0) -> Solve:
        """Return (A + diag(ridge))⁻¹ as a function; without a ridge the factor is kept until A grows again."""
        if np.ndim(ridge) or ridge != 0:
            return Dense(self.as_matrix(), majorizes=False).factorized(ridge)
        if self._factor_of_all is None:
            self._factor_of_all = steady_factor(self._lower(), self.classes)
        return self._factor_of_all

    def as_matrix(self) -> Array:
        """Return A, both triangles."""
        lower = self._lower()
        return np.tril(lower) + np.tril(lower, -1).T

    def __add__(self, other: Curvature) -> Curvature:
        return add_as_matrices(self, other)

    def _lower(self) -> Array:
        if not self._Q:
            return self._A
        # Rows are columns to BLAS, its upper triangle our lower one.
        return dsyrk(1.0, np.concatenate(self._Q).T, 1.0, self._A.T, overwrite_c=0).T

    def _renew(self) -> None:
        self._A, self._Q, self._W, self._absorbed = self._lower(), (), self._W[:0], 0
        self._factor = steady_factor(self._A, self.classes)
        self._M = self._factor.inverse() if self._is_trusted else None

    @property
    def _is_trusted(self) -> bool:
        # max diag(A) / min diag(A₀) beyond which an explicit inverse is not to be trusted.
        return bool(self._diagonal.max() <= 1e9 * self._smallest)


def form(curvature: str | Form, rank: int = 10) -> Form:
    """Return the form of that name; a form itself is returned as it is.

    ==============  ======================================================  ==================
    name            curvature, each a bound                                 storage
    ==============  ======================================================  ==================
    ``dense``       Σ of Algorithm 1                                        d²
    ``low-rank``    VᵀSV + D, corrected so that it dominates Σ              (rank + 1) d
    ``diagonal``    ``Σ |q| ‖q‖₁`` over the rows q of the factors           d
    ``kronecker``   I ⊗ Σ_j λmax(B_j) x_j x_jᵀ                              p²
    ``boehning``    ½(I − 11ᵀ/n) ⊗ XᵀWX (¼ XᵀWX for one row)                p²
    ==============  ======================================================  ==================

    Parameters
    ----------
    curvature : str or callable
        One of these names, or a function from factors to a curvature.
    rank : int
        Directions that "low-rank" keeps.

    Returns
    -------
    callable
        A function from factors to a curvature.

    Examples
    --------
    >>> form("boehning").__qualname__
    'Kronecker.boehning'
    """
    if callable(curvature):
        return curvature
    forms: dict[str, Form] = {
        "dense": Dense.of,
        "low-rank": partial(LowRank.of, rank=whole("rank", rank, least=0)),
        "diagonal": Diagonal.of,
        "kronecker": Kronecker.of,
        "boehning": Kronecker.boehning,
    }
    return forms[one_of("curvature", curvature, tuple(forms))]
