"""X as a PyTorch tensor, on whatever device: products are found there, in a precision that is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch

from majorant.core.affine import ENOUGH_ROWS, far_means, given_centre
from majorant.core.checks import Array
from majorant.core.matrix import DenseDesign, Design

Precision = Literal["double", "single", "fast"]

# Numbers of X that are converted at a time where a whole design is looked through.
CHUNK = 2**26


@dataclass(frozen=True, eq=False)
class TensorDesign(Design):
    """A tensor of shape (t, p), as it is stored: rows are converted, and measured from a centre, as they are needed.

    What is rows × something (scores, residuals) is a tensor on the device, class-major like everywhere, with the scores
    of a row side by side in memory. Gradients and Gram matrices are tensors in double precision.

    Parameters
    ----------
    rows : tensor of shape (t, p)
        float64, float32, float16 or bfloat16, on the device or, if that is too small for them, in host memory.
    device : torch.device
        Where they are multiplied.
    precision : {"double", "single", "fast"}
        How; "fast" uses the TF32 units of a GPU, for ten bits of every factor.
    constant : bool
        Whether there is a last column of ones, which is not stored.
    origin : array of shape (p,), optional
        Where columns are measured from.
    """

    rows: torch.Tensor
    device: torch.device
    precision: Precision
    constant: bool = False
    origin: Array | None = None

    @classmethod
    def of(cls, rows: torch.Tensor, device: torch.device | None = None) -> TensorDesign:
        """Return the design of a tensor: float64 is multiplied as it is, anything narrower if that costs no more.

        Elsewhere that is multiplied in single precision.
        """
        where = rows.device if device is None else device
        # GPUs of data centres (A100, H100) multiply double precision as fast as single precision.
        as_fast = where.type == "cuda" and torch.cuda.get_device_capability(where) in ((8, 0), (9, 0))
        precision: Precision = "double" if rows.dtype == torch.float64 or as_fast else "single"
        return cls(rows.detach(), where, precision)

    def with_constant(self, weight: Any = None, center: Any = False) -> TensorDesign:
        """Return the design with a column of ones, and columns that are far from zero measured from their means."""
        if center is False:
            return replace(self, constant=True)
        if center is not True:
            centre = given_centre(center).origin
        else:
            rows, count = self.shape[0], min(ENOUGH_ROWS, self.shape[0])
            sample = np.arange(count) * rows // count
            share = np.ones(count) if weight is None else self.beside(weight)[sample].double().cpu().numpy()
            share = share if share.any() else np.ones(count)
            centre = far_means(*DenseDesign(self.part(sample).dense()).moments(share)).origin
            if self.rows.dtype != torch.float64:
                centre = centre.astype(np.float32).astype(np.float64)  # what is subtracted, in single precision too
        return replace(self, constant=True, origin=centre if centre.any() else None)

    # --- what it is ---------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.shape[0], self.rows.shape[1] + self.constant

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64 if self.precision == "double" else np.float32)

    @property
    def place(self) -> torch.device:
        return self.device

    @property
    def epsilon(self) -> float:
        if self.precision == "fast":
            return 2.0**-11  # TF32 units keep ten bits of every factor
        return float(np.finfo(self.dtype).eps)

    @property
    def centre(self) -> Array | None:
        return self.origin

    @property
    def kind(self) -> torch.dtype:
        """The type that rows are converted to."""
        return torch.float64 if self.precision == "double" else torch.float32

    def beside(self, array: Any) -> torch.Tensor:
        return torch.as_tensor(array).to(self.device)

    def here(self) -> DenseDesign:
        return DenseDesign(self.toarray())

    def part(self, rows: Any) -> TensorDesign:
        if not isinstance(rows, slice):
            rows = torch.as_tensor(rows).to(self.rows.device)
        return replace(self, rows=self.rows[rows])

    def widened(self) -> TensorDesign:
        return replace(self, precision="double")

    def narrowed(self) -> TensorDesign:
        lower = self._lower
        return self if lower is None else replace(self, precision=lower)

    @property
    def narrowing(self) -> int | None:
        return None if self._lower is None else 0

    @property
    def _lower(self) -> Precision | None:
        # Compute capability 8.0 (A100) is the oldest with TF32 units.
        on_gpu = self.device.type == "cuda" and torch.cuda.get_device_capability(self.device) >= (8, 0)
        if self.precision != "fast" and on_gpu:
            return "fast"
        return "single" if self.precision == "double" else None

    @property
    def gram_slowness(self) -> float:
        return 8.0 if self.precision == "fast" else 1.0

    def uncentred(self) -> TensorDesign:
        return replace(self, origin=None)

    def toarray(self) -> Array:
        X = self._matrix()
        if self.constant:
            X = torch.cat([X, X.new_ones(len(X), 1)], dim=1)
        return X.cpu().numpy()

    def chunks(self) -> Iterator[slice]:
        step = max(CHUNK // self.shape[1], 1)
        return (slice(start, start + step) for start in range(0, self.shape[0], step))

    # --- products -----------------------------------------------------------------------------------------

    def project(self, W: Any) -> Any:
        V = self.beside(W)
        coefficients = V[:, :-1] if self.constant else V
        W_there = coefficients.T.to(self.kind)
        if not self.constant:
            return self.multiply(self._matrix(), W_there).T
        with units(self.kind, self.device, fast=self.precision == "fast"):
            return torch.addmm(V[:, -1].to(self.kind), self._matrix(), W_there).T

    def pull_back(self, R: Any) -> Any:
        S = self.beside(R)
        return self._bordered(self.multiply(S.to(self.kind), self._matrix()).double(), S)

    def pull_back_squares(self, R: Any) -> Any:
        S = self.beside(R).to(self.kind)
        total = S.new_zeros(len(S), self.rows.shape[1], dtype=torch.float64)
        for rows in self.chunks():
            total += multiplied(S[:, rows], self.part(rows)._matrix() ** 2, fast=False)
        return self._bordered(total, S)

    def times(self, M: Any) -> Any:
        return self.project(self.beside(M).T).T

    def gram(self, B: Any, dtype: Any = np.float64) -> Any:
        """Return Σ_j B[:, :, j] ⊗ x_j x_jᵀ. Never in less than single precision, which would not be positive."""
        n, p = len(B), self.shape[1]
        kind = torch.float32 if n == 1 and dtype == np.float32 else torch.float64
        full = torch.zeros((n, p, n, p), dtype=torch.float64, device=self.device)
        for rows in self.chunks():
            X = replace(self, rows=self.rows[rows])._matrix().to(kind)
            X = torch.cat([X, X.new_ones(len(X), 1)], dim=1) if self.constant else X
            for c in range(n):
                for e in range(c, n):
                    weight = self.beside(B[c, e, rows]).to(kind)
                    full[c, :, e] += multiplied((X * weight[:, None]).T, X, fast=False)
        for c in range(n):
            for e in range(c):
                full[c, :, e] = full[e, :, c]
        return full.reshape(n * p, n * p)

    def multiply(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Return ab in the precision that was chosen."""
        return multiplied(a, b, fast=self.precision == "fast")

    def column_norms(self) -> Array:
        """Return the norm of each column, less its centre: that is subtracted before anything is multiplied."""
        origin = 0.0 if self.origin is None else self.beside(self.origin)
        squares = sum(((self._stored(rows) - origin).square().sum(dim=0) for rows in self.chunks()), torch.zeros(()))
        norms = squares.sqrt().cpu().numpy()
        return np.append(norms, np.sqrt(self.shape[0])) if self.constant else norms

    def frobenius_norm(self) -> float:
        return float(np.linalg.norm(self.column_norms()))

    def absolute(self) -> tuple[TensorDesign, Any]:
        magnitude = self._matrix().abs()
        sums = magnitude.sum(dim=1, dtype=torch.float64) + float(self.constant)
        return replace(self, rows=magnitude, origin=None), sums

    def moments(self, weight: Array) -> tuple[Array, Array]:
        share, weighs = self.beside(weight / weight.sum()), int(np.argmax(weight > 0))
        first = self._stored(slice(weighs, weighs + 1))[0]
        off = sum((share[rows] @ (self._stored(rows) - first) for rows in self.chunks()), torch.zeros(()))
        mean = first + off
        squares = sum((share[rows] @ (self._stored(rows) - mean) ** 2 for rows in self.chunks()), torch.zeros(()))
        return mean.cpu().numpy(), squares.cpu().numpy()

    def _matrix(self) -> torch.Tensor:
        """Return X − 1cᵀ on the device, without the constant column."""
        if self.origin is None:
            return self.rows.to(self.device, self.kind)
        # In the precision of the rows, if that is more: of numbers far from zero single precision keeps few digits.
        kind = torch.promote_types(self.rows.dtype, self.kind)
        return (self.rows.to(self.device, kind) - self.beside(self.origin).to(kind)).to(self.kind)

    def _stored(self, rows: slice) -> torch.Tensor:
        return self.rows[rows].to(self.device, torch.float64)

    def _bordered(self, products: torch.Tensor, R: torch.Tensor) -> torch.Tensor:
        if not self.constant:
            return products
        # Where factors have ten bits, sums of a block may have twenty-three.
        total = R.sum(dim=1).double() if self.precision == "fast" else R.sum(dim=1, dtype=torch.float64)
        return torch.cat([products, total[:, None]], dim=1)


def multiplied(a: torch.Tensor, b: torch.Tensor, *, fast: bool) -> torch.Tensor:
    """Return ab, in single precision by fast units or not, whatever is set elsewhere."""
    with units(a.dtype, a.device, fast=fast):
        return a @ b


def units(kind: torch.dtype, device: torch.device, *, fast: bool) -> AbstractContextManager[None]:
    """Return a context in which products in single precision use fast units, or do not."""
    chosen = kind == torch.float32 and device.type == "cuda"
    return _units("tf32" if fast else "ieee") if chosen else nullcontext()


@contextmanager
def _units(which: str) -> Iterator[None]:
    """Choose how PyTorch multiplies in single precision, and leave its settings as they were."""
    products: Any = torch.backends.cuda.matmul
    name, value = ("fp32_precision", which) if hasattr(products, "fp32_precision") else ("allow_tf32", which == "tf32")
    before = getattr(products, name)
    setattr(products, name, value)
    try:
        yield
    finally:
        setattr(products, name, before)
