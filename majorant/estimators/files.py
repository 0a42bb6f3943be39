"""Linear classifiers as files."""

from __future__ import annotations

import warnings
from copy import deepcopy
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from majorant._checks import Array
from majorant.estimators import storage
from majorant.estimators.saved import Notes, Saved, Written
from majorant.estimators.stream import Stream
from majorant.solvers.stream import ProximalStream

STREAM = "stream"


class Files(Saved):
    """``save`` and ``load``, for a linear classifier, its stream included if that is wished."""

    _fields = storage.linear_fields()

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
        self._save(path, notes, {STREAM: {"state": self._stream, "dtype": self._dtype.str}} if stream else {})

    def _written(self: Any, notes: Notes) -> Written:
        return storage.facts_of(self, notes), storage.arrays_of(self)

    def _restore(self: Any, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        storage.restore(self, facts, arrays)
        rebuild = storage.read_part(path, type(self).__name__, STREAM)
        if rebuild is not None:
            _take_up(self, rebuild())


def _take_up(model: Any, part: Any) -> None:
    """Give a loaded model its stream."""
    stream = part.get("state") if isinstance(part, dict) else None
    if not isinstance(stream, Stream) or not _suits(stream, *model.coef_.shape):
        raise ValueError("its stream is damaged: it is none of this model")
    model._stream, model._centre, model._dtype = stream, stream.centre, storage.precision(part.get("dtype"))
    _rehearse(model)


def _rehearse(model: Any) -> None:
    """Refuse a stream that could not go on, by a chunk of a row of each class that a copy learns."""
    classes, moments = model.classes_, model._stream.moments
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            where = np.zeros(model.n_features_in_) if moments is None else moments.mean
            copy = deepcopy(model).set_params(**model._stream.settings)
            copy.partial_fit(np.tile(where, (len(classes), 1)).astype(model._dtype), classes)
            goes_on = _suits(copy._stream, *model.coef_.shape) and bool(np.isfinite(copy.coef_).all())
    except Exception as problem:
        raise ValueError(
            f"its stream is damaged: it cannot go on ({type(problem).__name__}: {problem!s:.200})"
        ) from None
    if not goes_on:
        raise ValueError("its stream is damaged: it goes on to numbers that are not finite")


def _suits(stream: Stream, rows: int, columns: int) -> bool:
    """Return whether a stream has parameters, and is measured from a centre, as a model of this shape would."""
    if not isinstance(stream.learnt, ProximalStream) or not isinstance(stream.settings, dict):
        return False
    size = rows * (columns + bool(stream.settings.get("fit_intercept")))
    return _are_numbers(stream.learnt.theta, size) and (stream.centre is None or _are_numbers(stream.centre, columns))


def _are_numbers(values: Any, size: int) -> bool:
    is_vector = isinstance(values, np.ndarray) and values.dtype.kind == "f" and values.shape == (size,)
    return is_vector and bool(np.isfinite(values).all())
