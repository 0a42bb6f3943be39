"""Curvature as an operator: matvec, solve with a ridge, as_matrix, +, and whether it majorizes.

A *form* turns the factors of a batch into a curvature; solvers name one and never ask which they hold.
"""

from majorant.curvature.base import Curvature, Factors, Form
from majorant.curvature.dense import Dense
from majorant.curvature.diagonal import Diagonal
from majorant.curvature.forms import form
from majorant.curvature.kronecker import Kronecker
from majorant.curvature.low_rank import LowRank

__all__ = ["Curvature", "Dense", "Diagonal", "Factors", "Form", "Kronecker", "LowRank", "form"]
