"""scikit-learn's own callbacks (1.9 and later, experimental): one task for the fit, one for each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from majorant._checks import Array

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""

    def with_callbacks(method: Any) -> Any:
        """Return the method as it is."""
        return method


class StepTasks:
    """Reports the steps of a fit to the callbacks that ``set_callbacks`` registered, if there are any."""

    def __init__(self, estimator: Any, data: tuple[Any, Any], attributes: Callable[[Array], dict[str, Array]]) -> None:
        self._estimator, self._data, self._attributes = estimator, data, attributes
        self._fit: Any = None
        if getattr(estimator, "_skl_callbacks", None):
            self._fit = estimator._init_callback_context(max_subtasks=None)
            self._fit.call_on_fit_task_begin(estimator=estimator, X=data[0], y=data[1])

    def __call__(self, row: Mapping[str, float], theta: Array) -> bool:
        """Report one step."""
        if self._fit is not None:
            X, y = self._data
            step = self._fit.subcontext(task_name="step")
            step.call_on_fit_task_begin(estimator=self._estimator, X=X, y=y)
            attributes = self._attributes(theta)
            step.call_on_fit_task_end(estimator=self._estimator, X=X, y=y, reconstruction_attributes=attributes)
        return False

    def finish(self) -> None:
        """Report the end of the fit."""
        if self._fit is not None:
            self._fit.call_on_fit_task_end(estimator=self._estimator, X=self._data[0], y=self._data[1])


__all__ = ["CallbackSupportMixin", "StepTasks", "with_callbacks"]
