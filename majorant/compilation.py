"""Loops compiled for all processes that come after, by fits of every kind.

Numba compiles a loop when it is first called with arrays of a kind, and keeps it. Fits of fewer than 2²¹ stored numbers
times classes call none (``majorant.core.kernels.worth_compiling``); larger ones wait for seconds the first time that a
machine makes them, and for a fifth of a second in each process. Here all kinds are fitted on a few rows, so that an
image for a server has what it needs before it answers.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from majorant.chain.crf import ChainCRF
from majorant.core import kernels
from majorant.estimators.fitting import warn_outside
from majorant.linear.logistic import LogisticRegression


def warm_up(tell: Callable[[str], object] = lambda name: None) -> float:
    """Compile the loops that large fits use, for every process that comes after; return the seconds it took.

    Numba keeps them beside the package, or where ``NUMBA_CACHE_DIR`` says: an image for a server runs this once, and no
    fit waits. Where no folder can be written to, loops are compiled anew in each process, and a warning says so. Small
    fits use none of them.

    Parameters
    ----------
    tell : callable
        Called with the name of each kind of fit before it is compiled for.

    Returns
    -------
    float

    Examples
    --------
    >>> import majorant
    >>> kinds = []
    >>> majorant.warm_up(kinds.append) > 0, kinds[0]
    (True, 'two classes')
    """
    if not kernels.compiler._can_keep():
        warn_outside("no folder can be written to: loops are kept for this process alone; set NUMBA_CACHE_DIR to one")
    rng, begun = np.random.default_rng(0), time.perf_counter()
    X, labels = rng.normal(size=(600, 8)), rng.integers(3, size=600)
    wide = sp.random(600, 1_300, density=0.01, format="csr", random_state=0)
    sentences = [[[f"w={rng.integers(30)}", "bias"] for _ in range(6)] for _ in range(40)]
    tags = [[str(int(word[0][2:]) % 3) for word in sentence] for sentence in sentences]

    def rows(X: Any, *several: Any) -> None:
        for y in several:
            LogisticRegression(max_iter=20).fit(X, y)
            LogisticRegression(solver="newton", max_iter=3).fit(X, y)

    kinds: dict[str, Callable[[], object]] = {
        "two classes": partial(rows, X, labels > 0),
        "several classes": partial(rows, X, labels),
        "single precision": partial(rows, X.astype(np.float32), labels > 0, labels),
        "sparse rows": partial(rows, sp.csr_matrix(X), labels > 0, labels),
        "wide sparse rows": partial(rows, wide, labels > 0, labels),
        "sequences": partial(ChainCRF(max_iter=20).fit, sentences, tags),
    }
    before, kernels.WORTH_COMPILING = kernels.WORTH_COMPILING, 0
    try:
        for name, compiled in kinds.items():
            tell(name)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compiled()
    finally:
        kernels.WORTH_COMPILING = before
    return time.perf_counter() - begun
