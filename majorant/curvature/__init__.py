"""Curvature as an operator: matvec, solve with a ridge, as_matrix, +, and whether it majorizes.

Everything positive definite is one: bounds, Hessians, what quasi-Newton steps are scaled by, and what a stream
remembers. A *form* turns the factors of a batch into a curvature; solvers name one and never ask which they hold.
"""

from majorant.curvature.arrow import Arrow, Pattern
from majorant.curvature.base import Curvature, Factorize, Factors, Form, Solve
from majorant.curvature.block import Block
from majorant.curvature.by_class import DiagonalByClass
from majorant.curvature.centred import Centred, balanced
from majorant.curvature.dense import Dense
from majorant.curvature.diagonal import Diagonal
from majorant.curvature.forms import form
from majorant.curvature.growing import Growing
from majorant.curvature.kronecker import Kronecker
from majorant.curvature.low_rank import LowRank

__all__ = [
    "Arrow",
    "Block",
    "Centred",
    "Curvature",
    "Dense",
    "Diagonal",
    "DiagonalByClass",
    "Factorize",
    "Factors",
    "Form",
    "Growing",
    "Kronecker",
    "LowRank",
    "Pattern",
    "Solve",
    "balanced",
    "form",
]
