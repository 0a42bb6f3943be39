"""Compiled loops over the tokens of chains: scores of a token have the labels side by side.

Numba is slow to load, so a module is loaded when it is first asked for: ``from majorant.chain import kernels`` costs
nothing.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from majorant.chain.kernels import covariance, dual, forward_backward, latent, online, paths, rows

__all__ = ["covariance", "dual", "forward_backward", "latent", "online", "paths", "rows"]

if not TYPE_CHECKING:  # a type checker would believe in any name

    def __getattr__(name: str) -> ModuleType:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return import_module(f"{__name__}.{name}")
