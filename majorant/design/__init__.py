"""The design matrix X, dense or sparse, with or without a constant column: the only thing that sees what is in it."""

from majorant.design.absent import Absent
from majorant.design.base import Design
from majorant.design.constant import Constant
from majorant.design.csr import CsrDesign
from majorant.design.dense import DenseDesign, laid_out
from majorant.design.joining import joined
from majorant.design.moments import Moments
from majorant.design.reading import Centre, far_means, read_design, with_constant

__all__ = [
    "Absent",
    "Centre",
    "Constant",
    "CsrDesign",
    "DenseDesign",
    "Design",
    "Moments",
    "far_means",
    "joined",
    "laid_out",
    "read_design",
    "with_constant",
]
