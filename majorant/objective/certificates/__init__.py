"""How far from the optimum a point is at most: every way to know, of which the best answer is kept.

==============  ============================================================================================
strong          ½‖∇F‖² in the metric of the penalty: costs next to nothing, and is loose
concordant      a Hessian and the largest leverage of a row: tight, with or without a penalty
==============  ============================================================================================
"""

from majorant.objective.certificates.base import Certificate
from majorant.objective.certificates.best import better, certify
from majorant.objective.certificates.concordant import KnownHessian

__all__ = ["Certificate", "KnownHessian", "better", "certify"]
