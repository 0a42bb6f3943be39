"""``ChainCRF``: linear-chain conditional random fields, in the conventions of sklearn-crfsuite, without a step size."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from itertools import chain
from typing import Any, Self

import numpy as np

from majorant._checks import Array, one_of, refuse_null_ending
from majorant._solution import Fitted, Outcome, Result, stream_result
from majorant._threads import numerics, sharing, threads
from majorant.callbacks import Fit, ProgressLine
from majorant.data import Sequences
from majorant.data.vocabulary import Vocabulary
from majorant.estimators.atomic import all_or_nothing
from majorant.estimators.chain_base import ChainEstimator
from majorant.estimators.chain_features import read_sequences, token_weights
from majorant.estimators.chain_source import Prepared
from majorant.estimators.chain_weights import StreamedWeights
from majorant.estimators.fitting import is_unwanted, publish, run, warn
from majorant.estimators.resuming import Saving, resumed
from majorant.estimators.threads import fit_threads
from majorant.models import Chain
from majorant.models.chain_bound import refuse_long
from majorant.objective import Objective, Threads
from majorant.solvers import LBFGS, BatchMajorization, OnlineMajorization, QuasiNewton, Solver

SOLVERS = ("auto", "proximal", "sbm", "bbm", "lbfgs")
ONE_PASS = ("proximal", "sbm")
BOUNDED = ("sbm", "bbm")
# A fit that can get no further is worth a warning above this gap.
STUCK = 1e-2
# The bound is kept as a d×d matrix up to here, as a diagonal above.
LARGEST_DENSE = 1_500


class ChainCRF(ChainEstimator):
    """Linear-chain conditional random field with an ℓ2 penalty.

    Minimises Σ_j w_j (−log p(y_j|x_j)) + c2‖θ‖², CRFsuite's objective, over CRFsuite's features: a weight for every
    pair of attribute and label, and of label and next label, that occurs in the training data.

    Parameters
    ----------
    c2 : float
        Penalty: c2 times the sum of squared weights.
    c1 : float
        Accepted for sklearn-crfsuite's sake; only 0 is done here.
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
    min_freq : float
        Pairs are left out whose values sum to less, as in CRFsuite: with values of one, those that occur less often.
        One difference: at 0 no pair is left out that occurs, where CRFsuite leaves out those whose values sum to less
        than 0. The smallest positive number leaves these out, and pairs of sum 0, which CRFsuite keeps.
    all_possible_states, all_possible_transitions : bool
        Whether pairs that do not occur have weights too; their values sum to 0, so not where ``min_freq`` is above.
    n_jobs : int or None
        Threads over sequences, as in :class:`~majorant.LogisticRegression`. Dual ascent is the work of one.
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

    def _fit(self, ready: Prepared, resume_from: Any) -> None:
        if self.solver in BOUNDED and isinstance(ready.data, Sequences):
            refuse_long(ready.data)
        with sharing(fit_threads(self.n_jobs, ready.tokens * ready.universe.n**2)):
            reducer = ready.reducer or Threads(threads())
            objective = Objective(self._model(), ready.data, ridge=2 * self.c2, reducer=reducer)
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

    def __copy__(self) -> Self:
        """Return a model that learns on its own: a stream is changed in place."""
        twin = type(self)(**self.get_params(deep=False))
        twin.__dict__.update(vars(self))
        if isinstance(getattr(self, "_weights", None), StreamedWeights):
            twin._weights, twin._vocabulary = deepcopy(self._weights), deepcopy(self._vocabulary)
        return twin

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.c1 != 0:
            raise ValueError(f"only the ℓ2 penalty is done here (c1=0), got c1={self.c1!r}")
        one_of("solver", self.solver, SOLVERS)

    def _make_solver(self, size: int) -> Solver[Any]:
        if self.solver in ONE_PASS:
            return OnlineMajorization(seed=self._seed(), curvature="bound" if self.solver == "sbm" else "share")
        if self.solver == "bbm":
            return BatchMajorization(curvature="dense" if size <= LARGEST_DENSE else "diagonal")
        return LBFGS() if self.solver == "lbfgs" else QuasiNewton(seed=self._seed())


def _rose(fitted: Fitted) -> bool:
    return bool(fitted.trace["objective"][-1] > fitted.trace["objective"][0])


def _as_asked(fitted: Fitted) -> Fitted:
    """Return a fit of one pass with a result that says so, instead of a limit that was reached."""
    result = Result(Outcome.STOPPED, "stopped after one pass, as was asked", fitted.result.gap)
    return replace(fitted, result=result)
