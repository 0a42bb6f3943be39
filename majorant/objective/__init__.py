"""F(θ) = loss of a model on data + penalty: all a solver ever sees."""

from majorant.objective.certificates import Certificate
from majorant.objective.objective import Objective, Work
from majorant.objective.penalty import Penalty, Ridge
from majorant.objective.ray import Point
from majorant.objective.reduce import Blocks, Reducer, Threads

__all__ = ["Blocks", "Certificate", "Objective", "Penalty", "Point", "Reducer", "Ridge", "Threads", "Work"]
