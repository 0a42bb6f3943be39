"""The design matrix X, dense or sparse, with or without a constant column: the only thing that sees what is in it."""

from majorant.core.affine import Absent, Centre, Constant, Moments, far_means, joined, read_design, with_constant
from majorant.core.matrix import CsrDesign, DenseDesign, Design, laid_out

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
