"""Calls that succeed, or leave an estimator as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# What scikit-learn needs to tear its callbacks down after a failure as well; it takes them away itself.
OF_CALLBACKS = ("_callback_fit_ctx", "_skl_callbacks_to_teardown")


@contextmanager
def all_or_nothing(estimator: Any) -> Iterator[None]:
    """Give the estimator its attributes back if what is done within fails.

    The attributes are not copied: what is done within may replace them, not write into them.
    """
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        kept = {name: value for name, value in vars(estimator).items() if name in OF_CALLBACKS}
        vars(estimator).clear()
        vars(estimator).update(before | kept)
        raise
