"""Linear probes: a head on frozen features, its penalty chosen by a sweep."""

from majorant.estimators.probe.linear_probe import LinearProbe

__all__ = ["LinearProbe"]
