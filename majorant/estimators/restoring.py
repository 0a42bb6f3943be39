"""Fits that are refused or fail leave an estimator as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def restoring(estimator: object) -> Iterator[None]:
    """Put all attributes back if the block fails, also where it is interrupted or a warning is an error.

    What attributes refer to is not copied: the block must make new objects rather than change old ones.

    Examples
    --------
    >>> class Counter:
    ...     pass
    >>> counter = Counter()
    >>> counter.value = 1
    >>> try:
    ...     with restoring(counter):
    ...         counter.value, counter.more = 2, 3
    ...         raise ValueError
    ... except ValueError:
    ...     vars(counter)
    {'value': 1}
    """
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
