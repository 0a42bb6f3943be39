"""What a curvature is, and what it is made from.

Cholesky factors and solves of LAPACK, while other threads run: SciPy's own calls of it make them wait.

Solving with a positive definite matrix, also where rounding has made it indefinite: a factor that always exists.

Σ stored whole.

Σ ⪯ diag(D): the cheapest bound.

Σ with one block per class, each a curvature of its own.

C ⊗ diag(g): one matrix between classes, and a number for each feature.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from ctypes import CFUNCTYPE, PYFUNCTYPE, byref, c_char, c_char_p, c_int, c_void_p, py_object, pythonapi
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from scipy.linalg import LinAlgError, block_diag, cython_lapack, eigh
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs, dpstrf, dtrtri

from majorant.core.checks import Array
from majorant.core.rounding import CLEAR
from majorant.core.threads import all_for_blas

Solve: TypeAlias = Callable[[Array], Array]
# λ ↦ (Σ + diag(λ))⁻¹: a curvature that has been found, for whatever ridge there is
Factorize: TypeAlias = Callable[[Array], Solve]


class Curvature(ABC):
    """A positive semi-definite d×d operator Σ: the second-order term of a quadratic, or what steps are scaled by.

    ``majorizes`` says whether ½δᵀΣδ is guaranteed to dominate (a bound), or whether every step has to be checked.
    """

    majorizes: bool

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of parameters d."""

    @abstractmethod
    def matvec(self, v: Array) -> Array:
        """Return Σv."""

    @abstractmethod
    def factorized(self, ridge: float | Array = 0.0) -> Solve:
        """Return (Σ + diag(ridge))⁻¹ as a function, for many right-hand sides.

        Where that is singular it gives one of the solutions, for those in its range.
        """

    def solve(self, b: Array, ridge: float | Array = 0.0) -> Array:
        """Return (Σ + diag(ridge))⁻¹ b."""
        return self.factorized(ridge)(b)

    @abstractmethod
    def as_matrix(self) -> Array:
        """Return Σ as a d×d array."""

    def compact(self) -> Array:
        """Return Σ in the shape it is kept in: (d, d), (n, p, p) for blocks, or (d,) for a diagonal."""
        return self.as_matrix()

    @abstractmethod
    def __add__(self, other: Curvature) -> Curvature:
        """Return Σ + Σ'. Exact; only low-rank sums recompress (and still majorize)."""


class Factors(ABC):
    """The curvature of one batch before it has a shape: Σ = Σ_j w_j F_jᵀ B_j F_j, B_j from scores alone.

    Dense, low-rank, diagonal and Kronecker curvatures are different ways to absorb the same factors.
    ``majorizes`` is True when the B_j come from the bound, False when they are Hessians.
    """

    majorizes: bool

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of parameters d."""

    @abstractmethod
    def matrix(self) -> Array:
        """Return Σ itself (d×d)."""

    @abstractmethod
    def rows(self) -> Iterator[Array]:
        """Yield blocks of rows q (m×d) with Σ = Σ q qᵀ."""

    @abstractmethod
    def diagonal(self) -> Array:
        """Return ``Σ |q| ‖q‖₁`` over the rows q (d): as a diagonal matrix it dominates Σ."""

    @abstractmethod
    def kronecker(self, weigh: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Return (I_n, Σ_j w_j weigh(B_j) x_j x_jᵀ), where the model has that structure."""

    @abstractmethod
    def fixed(self) -> tuple[Array, Array]:
        """Return the factors (n×n, p×p) of Böhning's bound, which holds at every parameter at once."""


Form: TypeAlias = Callable[[Factors], Curvature]

# Rows of factors are written out so many scalars at a time.
FACTOR_BLOCK = 2**22


def ridge_vector(ridge: float | Array, size: int) -> Array:
    """Return the ridge as one non-negative number per parameter."""
    return np.broadcast_to(np.asarray(ridge, dtype=np.float64), (size,))


LOWER = c_char(b"L")


def potrf(A: Array) -> int:
    """Overwrite the lower triangle of a matrix, stored by columns, with its factor; return what went wrong, or zero."""
    size, trouble = c_int(len(A)), c_int()
    _function("dpotrf")(byref(LOWER), byref(size), A.ctypes.data, byref(size), byref(trouble))
    return trouble.value


def potrs(L: Array, b: Array) -> Array:
    """Return the solution of LLᵀx = b, with L in a lower triangle; it is copied unless it is stored by columns."""
    L, x = np.asarray(L, np.float64, order="F"), np.array(b, np.float64, order="F")
    size, many, trouble = c_int(len(L)), c_int(x.size // len(L)), c_int()
    _function("dpotrs")(
        byref(LOWER), byref(size), byref(many), L.ctypes.data, byref(size), x.ctypes.data, byref(size), byref(trouble)
    )
    return x


@cache
def _function(name: str) -> Any:
    """Return a function of SciPy's LAPACK, which takes addresses."""
    capsule = cython_lapack.__pyx_capi__[name]
    signature = PYFUNCTYPE(c_char_p, py_object)(("PyCapsule_GetName", pythonapi))(capsule)
    address = PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", pythonapi))(capsule, signature)
    return CFUNCTYPE(None, *[c_void_p] * (1 + signature.count(b",")))(address)


# What is added to the diagonal, relative to itself, where a factor does not exist: more each time.
JITTER = 1e-14
GROWTH = 100.0
# Factors of smaller matrices take one thread less than a second; with more, their last digits depend on how many.
LARGE = 2_000
# Of larger ones several may be worked on at once: other threads run meanwhile, which takes microseconds to arrange.
WORTH_SHARING = 256


@dataclass(frozen=True, eq=False)
class Factor:
    """A⁻¹ as a function, by a Cholesky factor L in a lower triangle; what stands above it is not read."""

    L: Array

    def __call__(self, b: Array) -> Array:
        """Return A⁻¹b."""
        return potrs(self.L, b) if len(self.L) >= WORTH_SHARING else dpotrs(self.L, b, lower=1)[0]

    def inverse(self) -> Array:
        """Return A⁻¹, both triangles."""
        lower = np.tril(dpotri(self.L, lower=1)[0])
        return lower + np.tril(lower, -1).T


@dataclass(frozen=True, eq=False)
class PseudoInverse:
    """A⁺ as a function, by a root R of it: A⁺ = RRᵀ."""

    root: Array

    def __call__(self, b: Array) -> Array:
        """Return a solution of Ax = b, if there is one."""
        return self.root @ (self.root.T @ b)


@dataclass(frozen=True, eq=False)
class NoInverse:
    """What is left of a matrix that is not finite; whoever steps there finds out."""

    def __call__(self, b: Array) -> Array:
        """Return NaN."""
        return np.full_like(b, np.nan)


def steady_factor(A: Array, classes: int = 1) -> Factor:
    """Return a Cholesky factor of A; a share of its diagonal is added until there is one.

    Only the lower triangle of A is read. Of several ``classes`` the direction in which all move together is grounded:
    nothing but the prior resists there, which is lost to rounding beside large columns; but no step goes there either.
    Where a parameter has nothing on the diagonal it is given the largest of others: no gradient goes there.
    """
    A = grounded(A, classes) if classes > 1 else A
    diagonal = np.diagonal(A)
    if (diagonal <= 0).any():
        A = A + np.diag(np.where(diagonal <= 0, max(float(diagonal.max()), 1.0), 0.0))
        diagonal = np.diagonal(A)
    share, jittered = 0.0, A
    while share < 1:
        try:
            with for_large(len(A)):
                return Factor(lower_factor(jittered))
        except LinAlgError:
            share, jittered = max(GROWTH * share, JITTER * len(A)), A.copy()
            jittered.flat[:: len(A) + 1] += share * np.maximum(diagonal, np.finfo(np.float64).tiny)
    return Factor(np.diag(np.sqrt(np.abs(diagonal))))


def lower_factor(A: Array, *, overwrite: bool = False, clean: bool = False) -> Array:
    """Return L with A = LLᵀ, whatever stands above it, or zeros if ``clean``; raise if there is none."""
    # SciPy's cho_factor and cho_solve look at what they are given for longer than a small system takes.
    if len(A) >= WORTH_SHARING and not clean:
        L = np.asarray(A, np.float64, order="F") if overwrite else np.array(A, np.float64, order="F")
        trouble = potrf(L)
    else:
        L, trouble = dpotrf(A, lower=1, clean=clean, overwrite_a=overwrite)
    if trouble:
        raise LinAlgError(f"the leading minor of order {trouble} is not positive")
    return L


def for_large(size: int) -> AbstractContextManager[Any]:
    """Return a context for factors: of a large matrix BLAS gets all threads."""
    return all_for_blas() if size >= LARGE else nullcontext()


# Eigenvalues and pivots below this share of the largest, coordinates scaled to a unit diagonal, are rounding noise.
FLAT = 1e-12


def inverse_root(A: Array) -> tuple[Array, Array]:
    """Return R (d×k) with a generalised inverse RRᵀ of A ⪰ 0, and the directions (d×m) in which A is flat.

    By a Cholesky factor if there is one, or else by pivots where it is plain which columns depend on others, a tenth of
    the price of eigenvalues. All in coordinates scaled to a unit diagonal: units of features do not matter.
    """
    scale = _units(A)
    scaled = A / np.outer(scale, scale)
    with for_large(len(A)):
        try:
            L = lower_factor(scaled.T, clean=True)  # as LAPACK stores it
        except LinAlgError:
            L = None
        if L is not None and np.diagonal(L).min() ** 2 >= FLAT:
            root, flat = dtrtri(L, lower=1, overwrite_c=True)[0].T, np.empty((len(A), 0))
        else:
            root, flat = root_by_pivots(scaled) or root_by_eigenvalues(scaled)
    return root / scale[:, None], flat / scale[:, None]


def root_by_pivots(A: Array) -> tuple[Array, Array] | None:
    """Return :func:`inverse_root` of a singular A from those columns I that the others depend on, A_{JI} A_{II}⁻¹ = C.

    Other solutions differ by flat directions, e_j − Σ_i C_ji e_i. None where pivots leave in doubt which columns depend
    on others.
    """
    L, places, rank, _ = dpstrf(A, tol=CLEAR, lower=1)
    kept, rest, below = places[:rank] - 1, places[rank:] - 1, L[rank:, :rank]
    if rank == 0 or (np.diagonal(A)[rest] - np.square(below).sum(axis=1)).max(initial=0.0) > FLAT:
        return None
    inverse = np.tril(dtrtri(L[:rank, :rank], lower=1)[0])
    root, flat = np.zeros((len(A), rank)), np.zeros((len(A), len(rest)))
    root[kept], flat[kept], flat[rest, np.arange(len(rest))] = inverse.T, -(below @ inverse).T, 1.0
    return root, flat


def root_by_eigenvalues(A: Array) -> tuple[Array, Array]:
    """Return :func:`inverse_root` of any A."""
    values, vectors = eigh(A, check_finite=False)
    kept = values > FLAT * max(values[-1], 1e-300)
    return vectors[:, kept] / np.sqrt(values[kept]), vectors[:, ~kept]


def pseudo_inverse(A: Array) -> PseudoInverse:
    """Return the solution of least norm of Ax = b for singular A ⪰ 0 and b in its range, in scaled coordinates."""
    scale = _units(A)
    return PseudoInverse(root_by_eigenvalues(A / np.outer(scale, scale))[0] / scale[:, None])


def _units(A: Array) -> Array:
    """Return √diag(A), one where that is zero: the units of parameters."""
    diagonal = np.diagonal(A)
    return np.sqrt(np.where(diagonal > 0, diagonal, 1.0))


def has_clear_pivots(L: Array, diagonal: Array) -> bool:
    """Return whether no pivot of a factor is noise: a column whose pivot keeps nothing depends on those before."""
    return bool((np.diagonal(L) ** 2 >= FLAT * diagonal).all())


def grounded(A: Array, classes: int, columns: Array | None = None) -> Array:
    """Return A with curvature along the direction in which the coefficients of a column move together in all classes.

    Softmax scores do not change along it, so a model has none there. All columns are grounded, or those given.
    """
    n, p = classes, len(A) // classes
    each = np.arange(p) if columns is None else columns
    strength = np.diagonal(A).reshape(n, p).mean(axis=0)[each] / n
    result = A.copy().reshape(n, p, n, p)
    result[:, each, :, each] += strength[:, None, None]
    return result.reshape(A.shape)


# 20,000² float64 numbers are 3.2 GB, and factorising them takes minutes.
LARGEST = 20_000


@dataclass(frozen=True, eq=False)
class Dense(Curvature):
    """A d×d matrix.

    Solving costs O(d³) by Cholesky; a singular matrix falls back to a pseudo-inverse, in coordinates scaled to a
    unit diagonal, so that the units of the features do not matter.

    Parameters
    ----------
    matrix : array of shape (d, d)
        Symmetric and positive semi-definite.
    majorizes : bool
        Whether it is known to dominate.

    Examples
    --------
    >>> import numpy as np
    >>> curvature = Dense(np.diag([1.0, 3.0]), majorizes=True)
    >>> curvature.solve(np.array([2.0, 2.0]), ridge=1.0)
    array([1. , 0.5])
    """

    matrix: Array
    majorizes: bool

    @classmethod
    def of(cls, factors: Factors) -> Dense:
        """Return what the factors of a batch add up to, by weighted Gram products."""
        return cls(factors.matrix(), factors.majorizes)

    @property
    def size(self) -> int:
        """Number of parameters d."""
        return len(self.matrix)

    def matvec(self, v: Array) -> Array:
        """Return Σv."""
        return self.matrix @ v

    def factorized(self, ridge: float | Array = 0.0) -> Solve:
        """Return (Σ + diag(ridge))⁻¹; where that is singular, solutions of least norm, coordinates scaled."""
        A = self._with_ridge(ridge)
        if not np.isfinite(A).all():
            return NoInverse()
        diagonal = np.diag(A).copy()
        try:  # as columns a symmetric matrix is the same, and LAPACK needs no copy of it
            with for_large(len(A)):
                L = lower_factor(A.T, overwrite=True)
        except LinAlgError:
            return pseudo_inverse(self._with_ridge(ridge))
        return Factor(L) if has_clear_pivots(L, diagonal) else pseudo_inverse(self._with_ridge(ridge))

    def steadied(self, ridge: float | Array = 0.0, classes: int = 1) -> Factor:
        """Return a factor of Σ + diag(ridge), or of one with so much more on its diagonal that it has one."""
        return steady_factor(self._with_ridge(ridge), classes)

    def as_matrix(self) -> Array:
        """Return Σ as a d×d array."""
        return self.matrix.copy()

    def compact(self) -> Array:
        """Return Σ itself."""
        return self.matrix

    def _with_ridge(self, ridge: float | Array) -> Array:
        A = self.matrix.copy()
        A.flat[:: len(A) + 1] += ridge
        return A

    def __add__(self, other: Curvature) -> Curvature:
        right = other.matrix if isinstance(other, Dense) else other.as_matrix()
        return Dense(self.matrix + right, self.majorizes and other.majorizes)


def refuse_large(size: int, what: str) -> None:
    """Raise before a d×d array is asked of a machine that cannot hold it."""
    if size > LARGEST:
        raise ValueError(
            f"{what} needs a {size}×{size} matrix ({8e-9 * size**2:.0f} GB); "
            "choose curvature='low-rank' or 'diagonal', or a solver without curvature such as LBFGS"
        )


def add_as_matrices(left: Curvature, right: Curvature) -> Curvature:
    """Return the sum of two curvatures of different kinds."""
    refuse_large(left.size, f"adding {type(left).__name__} and {type(right).__name__}")
    return Dense(left.as_matrix(), left.majorizes) + right


@dataclass(frozen=True, eq=False)
class Diagonal(Curvature):
    """A non-negative vector D; a term q qᵀ is dominated by ``diag(|q| ‖q‖₁)``.

    Parameters
    ----------
    entries : array of shape (d,)
    majorizes : bool
        Whether it is known to dominate.

    Examples
    --------
    >>> Diagonal(np.array([1.0, 3.0]), majorizes=True).solve(np.array([2.0, 2.0]), ridge=1.0)
    array([1. , 0.5])
    """

    entries: Array
    majorizes: bool

    @classmethod
    def of(cls, factors: Factors) -> Diagonal:
        """Return what dominates the factors of a batch: ``D = Σ |q| ‖q‖₁``."""
        return cls(factors.diagonal(), factors.majorizes)

    @property
    def size(self) -> int:
        """Number of parameters d."""
        return len(self.entries)

    def matvec(self, v: Array) -> Array:
        """Return Dv."""
        return self.entries * v

    def factorized(self, ridge: float | Array = 0.0) -> Solve:
        """Return the division by D + ridge."""
        return Quotient.by(self.entries + ridge_vector(ridge, self.size))

    def as_matrix(self) -> Array:
        """Return diag(D)."""
        return np.diag(self.entries)

    def compact(self) -> Array:
        """Return D."""
        return self.entries

    def __add__(self, other: Curvature) -> Curvature:
        if isinstance(other, Diagonal):
            return Diagonal(self.entries + other.entries, self.majorizes and other.majorizes)
        return other + self


@dataclass(frozen=True, eq=False)
class Quotient:
    """Divides by a diagonal, as a product with what is found once."""

    reciprocals: Array

    @classmethod
    def by(cls, entries: Array) -> Quotient:
        """Return the division by D, which gives zero where there is no curvature at all."""
        return cls(np.divide(1.0, entries, out=np.zeros_like(entries), where=entries > 0))

    def __call__(self, b: Array) -> Array:
        """Return b / D."""
        return b * self.reciprocals


@dataclass(frozen=True, eq=False)
class Block(Curvature):
    """A block-diagonal curvature; blocks are curvatures of any shape, of equal size."""

    parts: tuple[Curvature, ...]
    majorizes: bool = False

    @property
    def size(self) -> int:
        """Number of parameters, of all blocks together."""
        return sum(part.size for part in self.parts)

    def matvec(self, v: Array) -> Array:
        """Return Σv, block by block."""
        return np.concatenate([part.matvec(x) for part, x in self._with_parts(v)])

    def factorized(self, ridge: float | Array = 0.0) -> Solve:
        """Return (Σ + diag(ridge))⁻¹ as a function."""
        ridges = self._with_parts(ridge_vector(ridge, self.size))
        return BlockSolve(tuple(part.factorized(each) for part, each in ridges))

    def as_matrix(self) -> Array:
        """Return Σ as a d×d array."""
        return block_diag(*(part.as_matrix() for part in self.parts))

    def compact(self) -> Array:
        """Return the blocks, (n, p, p)."""
        return np.stack([part.as_matrix() for part in self.parts])

    def __add__(self, other: Curvature) -> Curvature:
        if isinstance(other, Block) and len(other.parts) == len(self.parts):
            parts = tuple(a + b for a, b in zip(self.parts, other.parts, strict=True))
            return Block(parts, self.majorizes and other.majorizes)
        return add_as_matrices(self, other)

    def _with_parts(self, v: Array) -> Iterator[tuple[Curvature, Array]]:
        return zip(self.parts, v.reshape(len(self.parts), -1), strict=True)


@dataclass(frozen=True, eq=False)
class BlockSolve:
    """Solves block by block."""

    parts: tuple[Solve, ...]

    def __call__(self, b: Array) -> Array:
        """Return Σ⁻¹b."""
        pairs = zip(self.parts, b.reshape(len(self.parts), -1), strict=True)
        return np.concatenate([solve(part) for solve, part in pairs])


@dataclass(frozen=True, eq=False)
class DiagonalByClass(Curvature):
    """A Kronecker product C ⊗ diag(g) of an n×n matrix and p numbers: classes hang together, features do not."""

    classes: Array
    features: Array
    majorizes: bool = False

    @property
    def size(self) -> int:
        """Number of parameters d = np."""
        return len(self.classes) * len(self.features)

    def matvec(self, v: Array) -> Array:
        """Return (C ⊗ diag(g))v."""
        return (self.classes @ v.reshape(len(self.classes), -1) * self.features).ravel()

    def factorized(self, ridge: float | Array = 0.0) -> Solve:
        """Return (C ⊗ diag(g) + diag(ridge))⁻¹ as a function."""
        λ = ridge_vector(ridge, self.size).reshape(len(self.classes), -1)
        if not (λ == λ[0]).all():
            raise ValueError("a curvature between classes needs the same ridge in each; use curvature='dense'")
        return self._rotated(λ[0], *eigh(self.classes, check_finite=False))

    def nearly_factorized(self, ridge: float | Array) -> Solve:
        """Return about (C ⊗ diag(g) + diag(ridge))⁻¹ as a function, to scale steps by.

        The ridge is the mean over classes, and where C has next to nothing its mean stands in.
        """
        λ = ridge_vector(ridge, self.size).reshape(len(self.classes), -1).mean(axis=0)
        return self._rotated(λ, *raised_eigenvalues(self.classes))

    def _rotated(self, ridge: Array, values: Array, basis: Array) -> RotatedQuotient:
        entries = np.multiply.outer(values, self.features) + ridge
        return RotatedQuotient(basis, np.divide(1.0, entries, out=np.zeros_like(entries), where=entries > 0))

    def as_matrix(self) -> Array:
        """Return C ⊗ diag(g) as a d×d array."""
        return np.kron(self.classes, np.diag(self.features))

    def __add__(self, other: Curvature) -> Curvature:
        return add_as_matrices(self, other)


@dataclass(frozen=True, eq=False)
class RotatedQuotient:
    """Rotates classes to where C is diagonal, and divides there."""

    basis: Array
    inverse: Array

    def __call__(self, b: Array) -> Array:
        """Return the solution."""
        rotated = self.basis.T @ b.reshape(self.inverse.shape)
        rotated *= self.inverse
        return (self.basis @ rotated).ravel()


# Of the largest eigenvalue of C: classes that were hardly ever likely have less, and would be moved too far.
LEAST = 1e-6


def raised_eigenvalues(C: Array) -> tuple[Array, Array]:
    """Return eigenvalues and eigenvectors of a matrix between classes, those of next to nothing raised.

    Scores may all move together, where C has none: the mean of the others stands there, since nothing goes there.
    """
    values, basis = np.linalg.eigh(C)  # of a few classes SciPy's takes longer to be called
    largest = max(float(values[-1]), np.finfo(np.float64).tiny)
    raised = np.maximum(values, LEAST * largest)
    if len(C) > 1:
        raised[0] = raised[1:].mean()
    return raised, basis
