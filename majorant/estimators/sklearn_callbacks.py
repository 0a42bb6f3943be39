"""scikit-learn's own callbacks (1.9 and later, experimental): one task for the fit, one for each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from majorant._checks import Array
from majorant.callbacks import Callback

Method = TypeVar("Method", bound=Callable[..., Any])

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as followed
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""

    def followed(method: Any) -> Any:
        """Return the method as it is."""
        return method


def with_callbacks(method: Method) -> Method:
    """Let callbacks follow a method; its types, which scikit-learn does not have, stay visible."""
    decorated: Method = followed(method)
    return decorated


class WithCallbacks(CallbackSupportMixin):  # type: ignore[misc]
    """What an estimator needs for scikit-learn's callbacks to follow it."""


class StepTasks(Callback):
    """Reports the steps of a fit to the callbacks that ``set_callbacks`` registered, if there are any.

    As in scikit-learn, the task of a step begins with the parameters before it and ends with those after it; whether a
    step is the last is known only when it is, so one task is begun too many, and ends empty.
    """

    def __init__(
        self, estimator: Any, X: Any, labels: Callable[[], Array], attributes: Callable[[Array], dict[str, Array]]
    ) -> None:
        self._estimator, self._attributes = estimator, attributes
        self._fit: Any = None
        self._step: Any = None
        if getattr(estimator, "_skl_callbacks", None):
            self._data = X, labels()
            self._fit = estimator._init_callback_context(max_subtasks=None)
            self._fit.call_on_fit_task_begin(estimator=estimator, X=X, y=self._data[1])

    @property
    def follows(self) -> bool:
        """Whether there are any."""
        return self._fit is not None

    def __call__(self, row: Mapping[str, float], theta: Array) -> bool:
        """Report the end of one step and the beginning of the next; return whether a callback asks to stop."""
        if self._fit is None:
            return False
        X, y = self._data
        known = dict(estimator=self._estimator, X=X, y=y, reconstruction_attributes=self._attributes(theta))
        stop = self._step is not None and bool(self._step.call_on_fit_task_end(**known))
        self._step = self._fit.subcontext(task_name="iteration")
        self._step.call_on_fit_task_begin(**known)
        return stop

    def end(self) -> None:
        """Report the end of the fit, once it has been published."""
        if self._fit is None:
            return
        if self._step is not None:
            self._step.call_on_fit_task_end(estimator=self._estimator)
        self._fit.call_on_fit_task_end(estimator=self._estimator, X=self._data[0], y=self._data[1])


def hand_over(owner: Any, model: Any) -> None:
    """Let the callbacks that were set on one estimator follow the fit of another, which stands for it."""
    if getattr(owner, "_skl_callbacks", None):
        model.set_callbacks(*owner._skl_callbacks)
        if hasattr(owner, "_parent_callback_ctx"):
            model._parent_callback_ctx = owner._parent_callback_ctx


__all__ = ["StepTasks", "WithCallbacks", "hand_over", "with_callbacks"]
