"""The experiments of the paper: run writes files, figures and report read them."""

from majorant.experiments.runner import Event, Options, run
from majorant.experiments.table import EXPERIMENTS, FIGURES, Experiment, Method

__all__ = ["EXPERIMENTS", "FIGURES", "Event", "Experiment", "Method", "Options", "run"]
