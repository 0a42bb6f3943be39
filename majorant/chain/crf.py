"""What all chains share for people: sequences in, labels out, and the weights in between.

``ChainCRF``: linear-chain conditional random fields, in the conventions of sklearn-crfsuite, without a step size.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from itertools import chain
from numbers import Real
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from majorant.callbacks import Fit, ProgressLine
from majorant.chain import crfsuite, labellings
from majorant.chain.constraints import allowed_table, refuse_impossible
from majorant.chain.dense import DenseChain, DenseSequences, InSingle
from majorant.chain.feature_index import Universe
from majorant.chain.features import (
    ChainFiles,
    FittedWeights,
    StreamedWeights,
    by_lengths,
    from_tables,
    observed_pairs,
    read_sequences,
    sequences,
    token_weights,
)
from majorant.chain.labellings import (
    SEVERAL,
    PartialChain,
    PartialSequences,
    best_labellings,
    is_partial,
    span_probabilities,
)
from majorant.chain.latent import LatentChain
from majorant.chain.matrices import Matrices
from majorant.chain.model import Chain, constrained, refuse_long, split_scores
from majorant.chain.sequences import Sequences
from majorant.chain.source import Prepared, Wanted, chunkwise, from_source, in_memory, is_source, share_right
from majorant.chain.tokens import Tokens, Vocabulary, encode, split_rows
from majorant.core.ascent import OnlineMajorization
from majorant.core.checks import Array, one_of, refuse_null_ending, whole
from majorant.core.files import replacing
from majorant.core.matrix import DenseDesign
from majorant.core.objective import Objective
from majorant.core.penalty import ElasticNet, Ridge
from majorant.core.policy import QuasiNewton
from majorant.core.proximal_quasi_newton import ProximalQuasiNewton
from majorant.core.result import Fitted, Outcome, Result, stream_result
from majorant.core.rows import Threads
from majorant.core.solver import LBFGS, BatchMajorization, Solver
from majorant.core.threads import numerics, sharing, threads
from majorant.estimators import saving
from majorant.estimators.base import Estimator, check_callbacks, check_number, fit_threads
from majorant.estimators.fitting import is_unwanted, publish, run, warn
from majorant.estimators.saving import Saving, all_or_nothing, resumed
from majorant.estimators.source import check_executor, refuse_beside

# What names of CRFsuite's files end in.
CRFSUITE = ".crfsuite"


class ChainEstimator(ChainFiles, Estimator):
    """Labels of sequences: everything but how weights are found, and what labels are made of."""

    c1: float = 0.0
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

    def _completed(self, universe: Universe, classes: Array) -> Universe:
        """Return the universe of labels with what else is known of it."""
        return universe.with_states(self._many_states(classes))

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
            with a row for each token, and as many columns as all others. ``ChainCRF`` also takes tensors of PyTorch,
            and pairs of a matrix and a list of tokens. With ``lengths``, one matrix with the rows of all sequences. A
            generator is read once. A source (:class:`~majorant.Chunks` of sequences, a Dask bag of pairs (tokens,
            labels)) brings its own labels and weights, and may be larger than memory: it is read once, and its numbers
            again at every pass.
        y : iterable of sequences of labels
            With ``lengths`` also the labels of all tokens in a row. In a list of :class:`~majorant.ChainCRF` a label
            may be known in part: a set of labels that a token may have, or None for any. Then all labellings that agree
            are trained on, the loss is not convex, and the result
            says "stationary".
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
            return in_memory(X, y, sample_weight, lengths, self._observed, self._completed, executor)
        refuse_beside(y=y, sample_weight=sample_weight, lengths=lengths)
        return from_source(X, Wanted(**self._wanted(), completed=self._completed), executor)

    def _publish(self, fitted: Fitted) -> None:
        publish(self, fitted)
        weights, vocabulary = FittedWeights(self._weights.whole().universe, fitted.params), self._vocabulary
        if self.c1 and (fitted.params == 0).any():
            weights, vocabulary = weights.without_zeros(vocabulary)
        self._keep(weights, self.classes_, vocabulary)

    def _read_more(self, X: Any, y: Any) -> Sequences:
        """Return sequences with the features that are fitted; attributes that are not known count for nothing."""
        labels = list(chain.from_iterable(y))
        part = [label for label in labels if label is None or isinstance(label, SEVERAL)]
        if part:
            raise ValueError(f"validation labels must each be known, got {part[0]!r}: leave such sequences out")
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

    @property
    def attributes_(self) -> list[str]:
        """The attributes that have a weight."""
        check_is_fitted(self, "_weights")
        universe, names = self._weights.whole().universe, self._vocabulary.names()
        return [names[k] for k in np.unique(universe.pairs // universe.n).tolist()]

    @property
    def num_attributes_(self) -> int:
        """How many attributes have a weight."""
        return len(self.attributes_)

    @property
    def size_(self) -> int:
        """The bytes of the model as a file of CRFsuite."""
        return len(self._as_crfsuite())

    def save(self, path: Any, notes: Any = None) -> None:
        """Write the fitted model to a file that holds data only; a path that ends in .crfsuite is a file of CRFsuite.

        Taggers of CRFsuite in any language read such a file, and label as this model does.

        Parameters
        ----------
        path : str or Path
        notes : dict, optional
            Anything that JSON can hold; it travels with the model and comes back as ``notes_``. Not with .crfsuite.

        Examples
        --------
        >>> import tempfile
        >>> from majorant import ChainCRF
        >>> X = [[["the"], ["cat"], ["sat"]], [["a"], ["dog"]]]
        >>> y = [["DET", "NOUN", "VERB"], ["DET", "NOUN"]]
        >>> model, path = ChainCRF(c2=0.1).fit(X, y), tempfile.mkdtemp() + "/model.crfsuite"
        >>> model.save(path)
        >>> ChainCRF.load(path).predict(X) == y
        True
        """
        if not self._is_crfsuite(path):
            super().save(path, notes)
            return
        if notes is not None:
            raise ValueError("a file of CRFsuite holds no notes: save a ChainCRF to a name that ends in .npz")
        content = self._as_crfsuite()
        with replacing(path) as temporary:
            temporary.write_bytes(content)

    @classmethod
    def load(cls, path: Any) -> Self:
        """Return the model that :meth:`save` wrote, or CRFsuite, or :class:`~majorant.Checkpoint`.

        All of the file is checked: one that is damaged, or that was made by hand, is a ValueError that says what is
        wrong with it.

        Parameters
        ----------
        path : str or Path
            A name that ends in .crfsuite is a file of CRFsuite; how its model was fitted is not in it.

        Returns
        -------
        estimator
            Fitted, with its ``notes_``.

        Examples
        --------
        >>> import tempfile
        >>> from majorant import ChainCRF
        >>> model, path = ChainCRF().fit([[["a"], ["b"]]], [["x", "y"]]), tempfile.mkdtemp() + "/model.npz"
        >>> model.save(path)
        >>> ChainCRF.load(path).state_features_ == model.state_features_
        True
        """
        if not cls._is_crfsuite(path):
            return super().load(path)
        with saving.naming(path):
            tables = crfsuite.from_bytes(Path(path).read_bytes())
            weights, classes, vocabulary = from_tables(tables)
        model = cls()
        if len(model._many_states(classes)) != weights.universe.n:
            raise TypeError(f"a file of CRFsuite holds a ChainCRF, not a {cls.__name__}")
        model.result_ = Result(Outcome.STOPPED, "read from a file of CRFsuite", np.nan)
        model.gap_, model.notes_ = np.nan, None
        model._keep(weights, classes, vocabulary)
        return model

    # --- what the methods above are made of ---------------------------------------------------------------

    @classmethod
    def _is_crfsuite(cls, path: Any) -> bool:
        """Return whether a file is one of CRFsuite, by its name."""
        return str(path).endswith(CRFSUITE)

    def _as_crfsuite(self) -> bytes:
        check_is_fitted(self, "_weights")
        weights = self._weights.whole()
        if weights.universe.n > len(self.classes_):
            raise ValueError(f"a file of CRFsuite holds no hidden states, so no {type(self).__name__}")
        if weights.universe.allowed is not None:
            raise ValueError("a file of CRFsuite holds no constraints on transitions: its taggers would not obey them")
        return crfsuite.to_bytes(weights.tables([str(label) for label in self.classes_], self._vocabulary.names()))

    def _losses(self, X: Any, y: Any) -> Array:
        """Return −log p(y_j|x_j) of each sequence."""
        data = self._read_more(X, y)
        return Chain().sequence_losses(Chain().scores(self._weights.whole().theta, data), data)

    def _keep(self, weights: FittedWeights | StreamedWeights, classes: Array, vocabulary: Vocabulary) -> None:
        """Set what a model is made of, and forget what was read off the one before."""
        for name in ("state_features_", "transition_features_"):
            self.__dict__.pop(name, None)
        self._weights, self.classes_, self._vocabulary = weights, classes, vocabulary

    def _check_settings(self) -> None:
        if not (isinstance(self.c2, Real) and (0 < self.c2 < np.inf or (self.c2 == 0 and self.c1 != 0))):
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
        refuse_impossible(data)
        return data, self._model().scores(theta, data)


def apart(each: list[Any], data: Sequences) -> list[list[Any]]:
    """Return what there is of each token, sequence by sequence."""
    return [each[i:j] for i, j in zip(data.starts[:-1], data.starts[1:], strict=True)]


SOLVERS = ("auto", "proximal", "sbm", "bbm", "lbfgs")
ONE_PASS = ("proximal", "sbm")
# Those that see matrices as matrices; others see attributes.
DENSE = ("auto", "lbfgs")
BOUNDED = ("sbm", "bbm")
# A fit that can get no further is worth a warning above this gap.
STUCK = 1e-2
# The bound is kept as a d×d matrix up to here, as a diagonal above.
LARGEST_DENSE = 1_500


class ChainCRF(ChainEstimator):
    """Linear-chain conditional random field with an ℓ1 and an ℓ2 penalty.

    Minimises Σ_j w_j (−log p(y_j|x_j)) + c1‖θ‖₁ + c2‖θ‖², CRFsuite's objective, over CRFsuite's features: a weight for
    every pair of attribute and label, and of label and next label, that occurs in the training data.

    Parameters
    ----------
    c2 : float
        Penalty: c2 times the sum of squared weights. It may be zero where c1 is not.
    c1 : float
        Penalty: c1 times the sum of absolute weights. Weights that it makes zero are not stored. For ``fit`` with
        ``solver="auto"``. Where c2 is zero the distance to the optimum is estimated, not certified, as a rule.
    solver : {"auto", "proximal", "sbm", "bbm", "lbfgs"}
        "auto": dual ascent, a sequence at a time, and quasi-Newton steps; an online pass first where tokens of a
        sequence weigh differently or sequences are few. "proximal": that pass only. "sbm": one pass with the curvature
        of the bound over a chain. "bbm": batch majorization with that bound, monotone by construction; both are for
        short sequences and few labels. "lbfgs": for comparison. None has a step size.
    tol : float
        Certified relative suboptimality at which to stop: (F − F*)/F ≤ tol. The certificate is loose: at 1e-3 the
        objective is typically within 1e-4 of its minimum. Where nothing can be certified, the share of its norm at zero
        to which the gradient has to fall.
    max_iter : int
        Most steps. The default is there for fits that ``tol`` would never end: the fewer attributes there are for many
        tokens, and the smaller ``c2``, the more steps a certificate takes, which may be thousands.
    transitions : None, "BIO", "BIOES", list of pairs, or callable
        Which labels may follow each other, in training and in tagging: the schemes of chunks, the pairs (label, next
        label) that are allowed, or a function of both that says so. None in the place of a label stands for the
        beginning or the end of a sequence. For solvers "auto", "lbfgs" and "proximal".
    min_freq : float
        Pairs are left out whose values sum to less, as in CRFsuite: with values of one, those that occur less often.
        One difference: at 0 no pair is left out that occurs, where CRFsuite leaves out those whose values sum to less
        than 0. The smallest positive number leaves these out, and pairs of sum 0, which CRFsuite keeps.
    all_possible_states, all_possible_transitions : bool
        Whether pairs that do not occur have weights too; their values sum to 0, so not where ``min_freq`` is above.
    n_jobs : int or None
        Threads over sequences, as in :class:`~majorant.LogisticRegression`. With a number above one, threads share dual
        ascent as well, without locks: fits end within ``tol`` of the same optimum, but differ in the last digits from
        run to run. With 1 or None they are the same to the bit.
    verbose : int
        1 shows a line of progress on standard error.
    random_state : int, RandomState or None
        Order in which sequences are visited.
    callbacks : list, optional
        As in :class:`~majorant.LogisticRegression`; validation data of :class:`~majorant.EarlyStopping` are sequences.

    Attributes
    ----------
    classes_ : array
        The labels.
    state_features_, transition_features_ : dict
        Weights by (attribute, label) and by (label, next label).
    gap_, trace_, result_, n_iter_
        As in :class:`~majorant.LogisticRegression`.

    Examples
    --------
    >>> from majorant import ChainCRF
    >>> X = [[["word=the"], ["word=cat"], ["word=sat"]], [["word=a"], ["word=dog"]]]
    >>> y = [["DET", "NOUN", "VERB"], ["DET", "NOUN"]]
    >>> ChainCRF(c2=0.1).fit(X, y).predict([[["word=a"], ["word=cat"]]])
    [['DET', 'NOUN']]
    """

    def __init__(
        self,
        *,
        c2: float = 1.0,
        c1: float = 0.0,
        solver: str = "auto",
        tol: float = 1e-3,
        max_iter: int = 10_000,
        transitions: Any = None,
        min_freq: float = 0,
        all_possible_states: bool = False,
        all_possible_transitions: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = None,
        callbacks: Any = None,
    ) -> None:
        self.c2 = c2
        self.c1 = c1
        self.transitions = transitions
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.min_freq = min_freq
        self.all_possible_states = all_possible_states
        self.all_possible_transitions = all_possible_transitions
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state
        self.callbacks = callbacks

    # --- more than labels ---------------------------------------------------------------------------------

    def predict_nbest(self, X: Any, n: int = 5, lengths: Any = None) -> list[list[tuple[list[Any], float]]]:
        """Return the likeliest labellings of each sequence and their probabilities, the likeliest first.

        Parameters
        ----------
        X, lengths
            Sequences as for :meth:`fit`.
        n : int
            How many; a sequence that has fewer has all.

        Returns
        -------
        list of lists of pairs (labels, probability)

        Examples
        --------
        >>> from majorant import ChainCRF
        >>> X = [[["the"], ["cat"], ["sat"]], [["a"], ["dog"]]]
        >>> y = [["DET", "NOUN", "VERB"], ["DET", "NOUN"]]
        >>> best, second = ChainCRF(c2=0.1).fit(X, y).predict_nbest([[["a"], ["cat"]]], n=2)[0]
        >>> best[0], best[1] > second[1]
        (['DET', 'NOUN'], True)
        """
        whole("n", n, least=1)
        data, scores = self._scored(X, lengths)
        (U, A), k = constrained(scores, data), data.universe.n
        found: list[list[tuple[list[Any], float]]] = []
        for begin, end, log_z in zip(
            data.starts[:-1], data.starts[1:], Chain().log_partitions(scores, data), strict=True
        ):
            if begin == end:
                found.append([([], 1.0)])
                continue
            labels, values = best_labellings(U[begin:end, :k], A[:k, :k], n)
            named = self.classes_[labels].tolist()
            found.append(list(zip(named, np.exp(values - log_z).tolist(), strict=True)))
        return found

    def predict_span_marginals(self, tokens: Any, spans: Any) -> list[float]:
        """Return how likely spans of one sequence have certain labels.

        Parameters
        ----------
        tokens : one sequence as for :meth:`fit`
        spans : list of (begin, end, labels)
            Tokens begin … end − 1, and a label for each; a set stands for any of its labels, None for any at all.

        Returns
        -------
        list of floats
            Probabilities.

        Examples
        --------
        >>> from majorant import ChainCRF
        >>> X = [[["the"], ["cat"], ["sat"]], [["a"], ["dog"]]]
        >>> y = [["DET", "NOUN", "VERB"], ["DET", "NOUN"]]
        >>> model = ChainCRF(c2=0.1).fit(X, y)
        >>> one, either = model.predict_span_marginals(X[0], [(0, 2, ["DET", "NOUN"]), (0, 1, [{"DET", "NOUN"}])])
        >>> 0.7 < one < either <= 1
        True
        """
        if not isinstance(spans, Iterable):
            raise TypeError(f"spans must be a list of (begin, end, labels), got {spans!r:.80}")
        data, scores = self._scored([tokens], None)
        U, A = split_scores(scores, data)
        return span_probabilities(U, A, data.universe, list(spans), self.classes_)

    # --- fitting ------------------------------------------------------------------------------------------

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, lengths: Any = None) -> Self:
        """Learn from one more chunk of sequences in one pass, without keeping them.

        The vocabulary grows with what is new, and old weights keep their meaning; a chunk costs what it holds, however
        much is known. After ``fit`` a stream starts afresh.

        Parameters
        ----------
        X, y, lengths
            Sequences and their labels, as for :meth:`fit`.
        classes : list of labels, optional
            All that will ever come, at the first call; without it those of the first chunk are all.
        sample_weight : array, or list of arrays, optional
            Of sequences or of tokens. Those of tokens scale what each token teaches: roughly, not exactly, the loss
            that ``fit`` minimises.

        Returns
        -------
        estimator
            As far as it has learnt.

        Examples
        --------
        >>> from majorant import ChainCRF
        >>> X = [[["the"], ["cat"], ["sat"]], [["a"], ["dog"]]]
        >>> y = [["DET", "NOUN", "VERB"], ["DET", "NOUN"]]
        >>> model = ChainCRF(c2=0.1).partial_fit(X, y, classes=["ADV", "DET", "NOUN", "VERB"])
        >>> model = model.partial_fit([[["dog"], ["ran"], ["fast"]]], [["NOUN", "VERB", "ADV"]])
        >>> model.predict([[["a"], ["dog"], ["ran"]]])
        [['DET', 'NOUN', 'VERB']]
        """
        self._check_settings()
        if self.transitions is not None:
            raise ValueError("partial_fit knows no transitions that are not allowed: use fit")
        if self.c1:
            raise ValueError(f"partial_fit minimises with an ℓ2 penalty alone (c1=0), got c1={self.c1:g}: use fit")
        before = getattr(self, "_weights", None)
        stream = before if isinstance(before, StreamedWeights) else None
        known = self._stream_classes(classes, first=stream is None)
        vocabulary = Vocabulary() if stream is None else self._vocabulary
        chunks = 1 if stream is None else 1 + self.n_iter_
        with vocabulary.all_or_nothing(), all_or_nothing(self), numerics(1):
            tokens, labels, classes = read_sequences(X, y, lengths, vocabulary, known)
            weight, stream = token_weights(sample_weight, tokens.starts), stream or StreamedWeights(len(classes))
            with stream.all_or_nothing():
                stream.learn(tokens, labels, weight, self._observed, len(vocabulary), prior=2.0 * self.c2)
                self._keep(stream, classes, vocabulary)
                publish(self, Fitted(np.empty(0), stream_result(chunks), chunks, {}))
        return self

    def _stream_classes(self, classes: Any, first: bool) -> Array | None:
        listed = None if classes is None else list(classes)
        refuse_null_ending("classes", listed)
        named = None if listed is None else np.unique(np.asarray(listed))
        if first:
            return named
        if named is not None and not np.array_equal(named, self.classes_):
            raise ValueError(f"classes={named} differ from those of the first call, {self.classes_}")
        return self.classes_

    def _prepared(self, X: Any, y: Any, sample_weight: Any, lengths: Any, executor: Any) -> Prepared:
        labels = by_lengths(y, lengths)
        if is_partial(labels):
            if self.c1 or self.min_freq or self.solver not in DENSE or executor is not None:
                raise ValueError(
                    "labels that are known in part take solver 'auto' or 'lbfgs', c1=0, min_freq=0 and no executor"
                )
            every = self.all_possible_states, self.all_possible_transitions
            return labellings.prepared(X, labels, sample_weight, lengths, *every, self._completed)
        given, X = (None, X) if is_source(X) else Matrices.of(X, lengths)
        if given is not None:
            seen = self.transitions is None and self.solver in DENSE and executor is None
            if seen and (self.min_freq == 0 or not isinstance(given.design, DenseDesign | InSingle)):
                return given.prepared(y, sample_weight, self._wanted())
            if given.attributes is not None:
                raise ValueError(
                    "a matrix beside attributes takes solver 'auto' or 'lbfgs', no executor and no transitions: give "
                    "dicts, with a name for each column"
                )
            X, lengths = given.written_out(), None
        return super()._prepared(X, labels, sample_weight, lengths, executor)

    def _read_more(self, X: Any, y: Any) -> Sequences:
        given, X = Matrices.of(X)
        if given is None or not given.suits(self._weights.whole().universe, self._vocabulary):
            return super()._read_more(X, y)
        return DenseSequences.beside(super()._read_more(given.tokens, y), given.design)

    def _scored(self, X: Any, lengths: Any) -> tuple[Sequences, Array]:
        check_is_fitted(self, "_weights")
        given, X = Matrices.of(X, lengths)
        if given is None:
            return super()._scored(X, lengths)
        data, scores = super()._scored(given.tokens, None)
        given.add_scores(scores, self._weights.whole(), self._vocabulary, data)
        return data, scores

    def _fit(self, ready: Prepared, resume_from: Any) -> None:
        if self.solver in BOUNDED and isinstance(ready.data, Sequences):
            refuse_long(ready.data)
        dense = ready.data if isinstance(ready.data, DenseSequences) else None
        columns = 0 if dense is None else dense.design.shape[1]
        with sharing(fit_threads(self.n_jobs, ready.tokens * ready.universe.n * (ready.universe.n + columns))):
            reducer = ready.reducer or Threads(threads())
            if dense is not None and dense.design.place is not None:
                from majorant.device.blocks import OnDevice

                reducer = OnDevice(dense.design.place, ready.universe.n)
            model, size = self._model() if dense is None else DenseChain(), ready.universe.size
            model = PartialChain() if isinstance(ready.data, PartialSequences) else model
            if self.n_jobs is not None and type(model) is Chain:  # who asks for threads lets them ascend together
                model = Chain(threads())
            penalty = ElasticNet(self.c1, 2 * self.c2, size) if self.c1 else Ridge(2 * self.c2, size)
            objective = Objective(model, ready.data, ridge=penalty, reducer=reducer)
            saving = Saving(self, objective, lambda: chain(self.classes_.tolist(), self._vocabulary.names()))
            before = resumed(resume_from, self, saving)
            fitted = run(
                objective,
                self._make_solver(objective.size) if before is None else before.solver,
                Fit(objective.model, self._read_more, saving),
                [*(self.callbacks or ()), *([ProgressLine()] if self.verbose else ())],
                start=before,
                tol=self.tol,
                gradient_tol=self.tol,
                max_steps=min(self.max_iter, 1) if self.solver in ONE_PASS else self.max_iter,
            )
        one_pass = self.solver in ONE_PASS and fitted.result.outcome is Outcome.STEP_LIMIT and fitted.steps == 1
        self._publish(_as_asked(fitted) if one_pass else fitted)
        if _rose(fitted) if one_pass else is_unwanted(fitted.result, STUCK):
            warn(fitted.result)

    # --- what the methods above are made of ---------------------------------------------------------------

    def _model(self) -> Chain:
        return Chain()

    def _completed(self, universe: Universe, classes: Array) -> Universe:
        return replace(universe, allowed=allowed_table(self.transitions, classes))

    def __copy__(self) -> Self:
        """Return a model that learns on its own: a stream is changed in place."""
        twin = type(self)(**self.get_params(deep=False))
        twin.__dict__.update(vars(self))
        if isinstance(getattr(self, "_weights", None), StreamedWeights):
            twin._weights, twin._vocabulary = deepcopy(self._weights), deepcopy(self._vocabulary)
        return twin

    def _check_settings(self) -> None:
        super()._check_settings()
        check_number("c1", self.c1, least=0.0)
        if isinstance(self.transitions, Iterator):  # which could be read only once
            self.transitions = list(self.transitions)
        one_of("solver", self.solver, SOLVERS)
        if self.transitions is not None and self.solver in BOUNDED:
            raise ValueError(f"transitions need a solver without bounds, such as 'auto', got {self.solver!r}")
        if self.c1 and self.solver != "auto":
            raise ValueError(
                f"c1={self.c1:g} needs solver='auto', got {self.solver!r}: the others are for smooth penalties"
            )

    def _make_solver(self, size: int) -> Solver[Any]:
        if self.solver in ONE_PASS:
            return OnlineMajorization(seed=self._seed(), curvature="bound" if self.solver == "sbm" else "share")
        if self.solver == "bbm":
            return BatchMajorization(curvature="dense" if size <= LARGEST_DENSE else "diagonal")
        if self.c1:
            return ProximalQuasiNewton(seed=self._seed())
        return LBFGS() if self.solver == "lbfgs" else QuasiNewton(seed=self._seed())


def _rose(fitted: Fitted) -> bool:
    return bool(fitted.trace["objective"][-1] > fitted.trace["objective"][0])


def _as_asked(fitted: Fitted) -> Fitted:
    """Return a fit of one pass with a result that says so, instead of a limit that was reached."""
    result = Result(Outcome.STOPPED, "stopped after one pass, as was asked", fitted.result.gap)
    return replace(fitted, result=result)
