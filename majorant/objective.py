"""F(θ) = loss of a model on data + penalty: all a solver ever sees."""

from majorant.core.certificates import Certificate
from majorant.core.line_search import Point
from majorant.core.objective import Objective, Work
from majorant.core.penalty import ElasticNet, Penalty, Ridge
from majorant.core.rows import Blocks, Reducer, Threads

__all__ = [
    "Blocks",
    "Certificate",
    "ElasticNet",
    "Objective",
    "Penalty",
    "Point",
    "Reducer",
    "Ridge",
    "Threads",
    "Work",
]
