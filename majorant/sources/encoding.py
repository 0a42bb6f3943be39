"""How rows that were read become rows that are fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from majorant._checks import Array
from majorant.data import Labelled
from majorant.design import Centre, CsrDesign, DenseDesign, Design, laid_out
from majorant.sources.base import Chunk


@dataclass(frozen=True, eq=False)
class Encoding:
    """What every chunk has to be told: which classes there are, how many columns, and where these are measured from."""

    classes: Array
    class_weights: Array | None  # of each class
    columns: int
    dtype: np.dtype[Any]
    constant: bool
    centre: Centre | None
    total: int  # rows of all chunks

    def __call__(self, chunk: Chunk) -> Labelled:
        """Return the rows of a chunk, labelled."""
        assert chunk.labels is not None
        codes = np.searchsorted(self.classes, chunk.labels.names)[chunk.labels.codes]
        weight = self.weight_of(codes, chunk.weight)
        center: Any = False if self.centre is None else self.centre
        return Labelled(self.design(chunk), codes, weight, constant=self.constant, center=center).as_some_of(self.total)

    def design(self, chunk: Chunk) -> Design:
        """Return the rows of a chunk as a matrix; columns beyond those of the fit were zero there."""
        if not sp.issparse(chunk.X):
            return DenseDesign(laid_out(chunk.X, self.dtype))
        X = sp.csr_array(chunk.X)
        arrays = laid_out(X.data, self.dtype), laid_out(X.indices), laid_out(X.indptr)
        return CsrDesign(sp.csr_array(arrays, shape=(X.shape[0], self.columns)))

    def weight_of(self, codes: Array, weight: Array | None) -> Array | None:
        """Return the weights of rows times those of their classes."""
        if self.class_weights is None:
            return weight
        of_class = self.class_weights[codes]
        return of_class if weight is None else of_class * weight
