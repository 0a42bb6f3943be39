"""Calls that succeed, or leave an estimator as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# What scikit-learn needs to tear its callbacks down after a failure as well; it takes them away itself.
OF_CALLBACKS = ("_callback_fit_ctx", "_skl_callbacks_to_teardown")


@contextmanager
def all_or_nothing(estimator: object) -> Iterator[None]:
    """Put all attributes back if the block fails, also where it is interrupted or a warning is an error.

    What attributes refer to is not copied: the block must make new objects rather than change old ones.

    Examples
    --------
    >>> class Counter:
    ...     pass
    >>> counter = Counter()
    >>> counter.value = 1
    >>> try:
    ...     with all_or_nothing(counter):
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
        kept = {name: value for name, value in vars(estimator).items() if name in OF_CALLBACKS}
        vars(estimator).clear()
        vars(estimator).update(before | kept)
        raise
