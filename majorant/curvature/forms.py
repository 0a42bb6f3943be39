"""Forms by name."""

from __future__ import annotations

from functools import partial

from majorant._checks import one_of, whole
from majorant.curvature.base import Form
from majorant.curvature.dense import Dense
from majorant.curvature.diagonal import Diagonal
from majorant.curvature.kronecker import Kronecker
from majorant.curvature.low_rank import LowRank


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
