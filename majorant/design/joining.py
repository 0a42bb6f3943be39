"""Rows of several designs, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from majorant.design.base import Design
from majorant.design.constant import Constant
from majorant.design.csr import CsrDesign
from majorant.design.dense import DenseDesign


def joined(designs: Sequence[Design]) -> Design:
    """Return all rows as one matrix; what the designs have in common, such as a centre, is that of the first."""
    first = designs[0]
    if len(designs) == 1:
        return first
    if isinstance(first, Constant):
        parts = [each for each in designs if isinstance(each, Constant)]
        if any(not np.array_equal(each.centred, first.centred) for each in parts):
            return Constant(joined([each.uncentred().inner for each in parts]), first.origin)
        sources = [each.source for each in parts if each.source is not None]
        source = joined(sources) if sources else None
        return Constant(joined([each.inner for each in parts]), first.origin, first.centred, source)
    if first.is_sparse:
        return CsrDesign(sp.vstack([each.csr() for each in designs], format="csr"))
    return DenseDesign(np.concatenate([each.toarray() for each in designs]))
