"""Curvature as an operator: matvec, solve with a ridge, as_matrix, +, and whether it majorizes.

Everything positive definite is one: bounds, Hessians, what quasi-Newton steps are scaled by, and what a stream
remembers. A *form* turns the factors of a batch into a curvature; solvers name one and never ask which they hold.
"""

from majorant.core.curvature import Block, Curvature, Dense, Diagonal, DiagonalByClass, Factorize, Factors, Form, Solve
from majorant.core.structured import Arrow, Growing, Kronecker, LowRank, Pattern, balanced, form

__all__ = [
    "Arrow",
    "Block",
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
