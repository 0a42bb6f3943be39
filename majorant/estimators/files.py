"""Linear classifiers as files."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from majorant._checks import Array
from majorant.estimators import storage
from majorant.estimators.saved import Notes, Saved, Written

STREAM = "stream"


class Files(Saved):
    """``save`` and ``load``, for a linear classifier, its stream included if that is wished."""

    def save(self: Any, path: Any, notes: Notes = None, stream: bool = False) -> None:
        """Write the fitted model to a file that holds data only.

        Callbacks and a random state that is not a number are left out.

        Parameters
        ----------
        path : str or Path
        notes : dict, optional
            Anything that JSON can hold; it travels with the model and comes back as ``notes_``.
        stream : bool
            Whether to write what ``partial_fit`` has gathered as well: the loaded model then goes on as this one would,
            to the last bit. Without it a stream starts afresh there.
        """
        check_is_fitted(self, "coef_")
        if stream and not hasattr(self, "_stream"):
            raise ValueError("stream=True needs a model that has learnt by partial_fit; there is no stream to save")
        self._write(path, notes, {STREAM: {"state": self._stream, "dtype": self._dtype.str}} if stream else {})

    def _written(self: Any, notes: Notes) -> Written:
        return storage.facts_of(self, notes), storage.arrays_of(self)

    def _restore(self: Any, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        storage.restore(self, facts, arrays)
        rebuild = storage.read_part(path, type(self).__name__, STREAM)
        if rebuild is not None:
            _take_up(self, path, rebuild())


def _take_up(model: Any, path: Any, part: Any) -> None:
    """Give a loaded model its stream."""
    try:
        model._stream, model._centre = part["state"], part["state"].centre
        model._dtype = storage.precision(part["dtype"])
    except (AttributeError, KeyError, TypeError) as problem:
        raise ValueError(f"the stream in {path} cannot be read ({problem})") from None
