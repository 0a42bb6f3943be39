"""What all chains share for people: sequences in, labels out, and the weights in between."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from itertools import chain
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from majorant._checks import Array, refuse_null_ending, whole
from majorant._solution import Fitted, Result
from majorant.data import Sequences
from majorant.data.tokens import Tokens, encode, split_rows
from majorant.data.vocabulary import Vocabulary
from majorant.estimators.atomic import all_or_nothing
from majorant.estimators.chain_chunkwise import chunkwise, share_right
from majorant.estimators.chain_features import observed_pairs, sequences
from majorant.estimators.chain_files import ChainFiles
from majorant.estimators.chain_source import Prepared, from_source, in_memory, is_source
from majorant.estimators.chain_survey import Wanted
from majorant.estimators.chain_weights import FittedWeights, StreamedWeights
from majorant.estimators.fitting import publish
from majorant.estimators.notebook import InNotebooks
from majorant.estimators.placing import check_executor, refuse_beside
from majorant.estimators.settings import check_callbacks, check_number
from majorant.models import Chain, LatentChain


class ChainEstimator(ChainFiles, InNotebooks, BaseEstimator):  # type: ignore[misc]
    """Labels of sequences: everything but how weights are found, and what labels are made of."""

    c2: float
    tol: float
    max_iter: int
    min_freq: float
    all_possible_states: bool
    all_possible_transitions: bool
    random_state: Any
    callbacks: Any
    classes_: Array
    n_iter_: int
    result_: Result
    notes_: dict[str, Any] | None  # of a loaded model
    _vocabulary: Vocabulary
    _weights: FittedWeights | StreamedWeights

    # --- what makes one -----------------------------------------------------------------------------------

    @abstractmethod
    def _model(self) -> Chain | LatentChain:
        """Return the model that is fitted."""

    @abstractmethod
    def _fit(self, ready: Prepared, resume_from: Any) -> None:
        """Find weights and publish them."""

    def _many_states(self, classes: Array) -> Array:
        """Return how many states each label has."""
        return np.ones(len(classes), dtype=np.int64)

    def _take_up(self, states: Array) -> None:
        """Go on with states from a file."""

    def _state_names(self) -> list[Any]:
        """Return what states are called where weights are shown."""
        return self.classes_.tolist()

    # --- fitting ------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        lengths: Any = None,
        *,
        executor: Any = None,
        resume_from: Any = None,
    ) -> Self:
        """Fit to sequences.

        Parameters
        ----------
        X : iterable of sequences, or a source
            A sequence is a list of tokens, a token a dict, a list of strings or a string; or a sequence is a matrix
            with a row for each token, and as many columns as all others. With ``lengths``, one matrix with the rows of
            all sequences. A generator is read once. A source (:class:`~majorant.Chunks` of sequences, a Dask bag of
            pairs (tokens, labels)) brings its own labels and weights, and may be larger than memory: it is read once,
            and its numbers again at every pass.
        y : iterable of sequences of labels
        sample_weight : array, or list of arrays, optional
            Of each sequence, or of each of its tokens. Tokens that weigh differently make the loss
            Σ_t w_t (−log p(y_t | y_1 … y_{t−1}, x)), which is not convex: then nothing is certified. Where states are
            hidden, tokens of a sequence have to weigh the same.
        lengths : array, optional
            Of the sequences, if X is one matrix.
        executor : concurrent.futures.Executor or dask.distributed.Client, optional
            Whose workers add up over the sequences; each reads its pieces of a source for itself.
        resume_from : str or Path, optional
            A file of :class:`~majorant.Checkpoint` to go on from, as in :class:`~majorant.LogisticRegression`.

        Returns
        -------
        estimator
            Fitted.
        """
        self._check_settings()
        check_executor(executor)
        ready = self._prepared(X, y, sample_weight, lengths, executor)
        with all_or_nothing(self):
            zero = np.broadcast_to(0.0, ready.universe.size)  # which takes no memory
            self._keep(FittedWeights(ready.universe, zero), ready.classes, ready.vocabulary)
            self._fit(ready, resume_from)
        return self

    def _prepared(self, X: Any, y: Any, sample_weight: Any, lengths: Any, executor: Any) -> Prepared:
        if not is_source(X):
            return in_memory(X, y, sample_weight, lengths, self._observed, self._many_states, executor)
        refuse_beside(y=y, sample_weight=sample_weight, lengths=lengths)
        return from_source(X, Wanted(**self._wanted(), states=self._many_states), executor)

    def _publish(self, fitted: Fitted) -> None:
        publish(self, fitted)
        self._keep(FittedWeights(self._weights.whole().universe, fitted.params), self.classes_, self._vocabulary)

    def _read_more(self, X: Any, y: Any) -> Sequences:
        """Return sequences with the features that are fitted; attributes that are not known count for nothing."""
        labels = list(chain.from_iterable(y))
        refuse_null_ending("validation labels", labels)
        tokens, names = encode(X, self._vocabulary), np.asarray(labels)
        unknown = np.setdiff1d(names, self.classes_)
        if len(unknown):
            raise ValueError(f"validation labels hold classes that are not trained on: {unknown}")
        if len(names) != len(tokens.indptr) - 1:
            raise ValueError(f"validation data have {len(tokens.indptr) - 1} tokens but {len(names)} labels")
        numbers = np.searchsorted(self.classes_, names).astype(np.int32)
        return sequences(self._weights.whole().universe, tokens, numbers, None)

    # --- prediction ---------------------------------------------------------------------------------------

    @chunkwise
    def predict(self, X: Any, lengths: Any = None) -> list[list[Any]]:
        """Return the likeliest labels of each sequence, which may come from a source: it is read chunk by chunk.

        Attributes that are not known count for nothing; matrices must have the columns of those of the fit.

        Parameters
        ----------
        X, lengths
            Sequences as for :meth:`fit`, or a source.

        Returns
        -------
        list of lists of labels
        """
        data, scores = self._scored(X, lengths)
        return apart(self.classes_[self._model().decode(scores, data)].tolist(), data)

    @chunkwise
    def predict_marginals(self, X: Any, lengths: Any = None) -> list[list[dict[Any, float]]]:
        """Return for each token the probability of each label.

        Parameters
        ----------
        X, lengths
            Sequences as for :meth:`fit`, or a source.

        Returns
        -------
        list of lists of dicts
            ``result[j][t][label]`` for token t of sequence j.

        Examples
        --------
        >>> from majorant import ChainCRF
        >>> X = [[["the"], ["cat"], ["sat"]], [["a"], ["dog"]]]
        >>> y = [["DET", "NOUN", "VERB"], ["DET", "NOUN"]]
        >>> marginals = ChainCRF(c2=0.1).fit(X, y).predict_marginals(X)
        >>> round(marginals[0][1]["NOUN"], 1)  # of the second word of the first sentence
        0.9
        """
        data, scores = self._scored(X, lengths)
        names = self.classes_.tolist()
        return apart([dict(zip(names, p, strict=True)) for p in self._model().marginals(scores, data).tolist()], data)

    def predict_single(self, tokens: Any) -> list[Any]:
        """Return the likeliest labels of one sequence.

        Parameters
        ----------
        tokens : one sequence as for :meth:`fit`

        Returns
        -------
        list of labels

        Examples
        --------
        >>> from majorant import ChainCRF
        >>> X = [[["the"], ["cat"], ["sat"]], [["a"], ["dog"]]]
        >>> y = [["DET", "NOUN", "VERB"], ["DET", "NOUN"]]
        >>> ChainCRF(c2=0.1).fit(X, y).predict_single([["a"], ["cat"], ["sat"]])
        ['DET', 'NOUN', 'VERB']
        """
        return self.predict([tokens])[0]

    def predict_marginals_single(self, tokens: Any) -> list[dict[Any, float]]:
        """Return for each token of one sequence the probability of each label.

        Parameters
        ----------
        tokens : one sequence as for :meth:`fit`

        Returns
        -------
        list of dicts
            A probability for each label.

        Examples
        --------
        >>> from majorant import ChainCRF
        >>> X = [[["the"], ["cat"], ["sat"]], [["a"], ["dog"]]]
        >>> y = [["DET", "NOUN", "VERB"], ["DET", "NOUN"]]
        >>> marginals = ChainCRF(c2=0.1).fit(X, y).predict_marginals_single([["a"], ["dog"]])
        >>> max(marginals[1], key=marginals[1].get)
        'NOUN'
        """
        return self.predict_marginals([tokens])[0]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None, lengths: Any = None) -> float:
        """Return the share of tokens labelled right. A label that was not trained on is never right.

        Parameters
        ----------
        X, y, sample_weight, lengths
            As for :meth:`fit`; weights of sequences or tokens count here as well.

        Returns
        -------
        float
            Between 0 and 1.

        Examples
        --------
        >>> from majorant import ChainCRF
        >>> X = [[["the"], ["cat"], ["sat"]], [["a"], ["dog"]]]
        >>> y = [["DET", "NOUN", "VERB"], ["DET", "NOUN"]]
        >>> round(ChainCRF(c2=0.1).fit(X, y).score([[["the"], ["dog"], ["ran"]]], [["DET", "NOUN", "ADV"]]), 2)
        0.67
        """
        return share_right(self, X, y, sample_weight, lengths)

    @cached_property
    def state_features_(self) -> dict[tuple[str, Any], float]:
        """The weight of each pair of attribute and label."""
        check_is_fitted(self, "_weights")
        return self._weights.whole().states(self._vocabulary.names(), self._state_names())

    @cached_property
    def transition_features_(self) -> dict[tuple[Any, Any], float]:
        """The weight of each pair of label and next label."""
        check_is_fitted(self, "_weights")
        return self._weights.whole().transitions(self._state_names())

    # --- what the methods above are made of ---------------------------------------------------------------

    def _keep(self, weights: FittedWeights | StreamedWeights, classes: Array, vocabulary: Vocabulary) -> None:
        """Set what a model is made of, and forget what was read off the one before."""
        for name in ("state_features_", "transition_features_"):
            self.__dict__.pop(name, None)
        self._weights, self.classes_, self._vocabulary = weights, classes, vocabulary

    def _check_settings(self) -> None:
        if not (isinstance(self.c2, Real) and 0 < self.c2 < np.inf):
            raise ValueError(f"c2 must be a positive number, got {self.c2!r}")
        whole("max_iter", self.max_iter, least=0)
        check_number("tol", self.tol, least=0.0)
        check_number("min_freq", self.min_freq, least=0.0)
        check_callbacks(self.callbacks)

    def _seed(self) -> int:
        if self.random_state is None:
            return 0
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.randint(2**31))
        return whole("random_state", self.random_state, least=0)

    def _observed(self, tokens: Tokens, y: Array, n: int, n_attributes: int) -> tuple[Array, Array]:
        return observed_pairs(tokens, y, n, n_attributes, **self._wanted())

    def _wanted(self) -> dict[str, Any]:
        return {
            "min_freq": self.min_freq,
            "all_states": self.all_possible_states,
            "all_transitions": self.all_possible_transitions,
        }

    def _scored(self, X: Any, lengths: Any) -> tuple[Sequences, Array]:
        check_is_fitted(self, "_weights")
        given = encode(X if lengths is None else split_rows(X, lengths), self._vocabulary)
        (universe, theta, _), tokens = self._weights.for_tokens(given)
        data = sequences(universe, tokens, np.zeros(len(tokens.indptr) - 1, dtype=np.int32), None)
        return data, self._model().scores(theta, data)


def apart(each: list[Any], data: Sequences) -> list[list[Any]]:
    """Return what there is of each token, sequence by sequence."""
    return [each[i:j] for i, j in zip(data.starts[:-1], data.starts[1:], strict=True)]
