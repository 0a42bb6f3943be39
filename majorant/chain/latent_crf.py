"""Where chains with hidden states start: at zero all states of a label are alike, and would stay so.

``LatentChainCRF``: chains whose labels own hidden states, with the interface of :class:`~majorant.ChainCRF`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from majorant.callbacks import Checkpoint, Fit, ProgressLine
from majorant.chain.crf import ChainEstimator, apart
from majorant.chain.feature_index import Universe
from majorant.chain.latent import DECODINGS, LatentChain
from majorant.chain.model import Chain
from majorant.chain.sequences import Sequences
from majorant.chain.source import Prepared, chunkwise
from majorant.core.checks import Array, one_of, whole
from majorant.core.objective import Objective
from majorant.core.policy import QuasiNewton
from majorant.core.result import Fitted, Progress
from majorant.core.rows import Threads
from majorant.core.run import best_of, minimize, with_spread
from majorant.core.solver import LBFGS, Solver
from majorant.core.threads import sharing, threads
from majorant.estimators.base import check_jobs, fit_threads
from majorant.estimators.fitting import is_disappointing, is_unwanted, run, warn
from majorant.estimators.saving import Saving, resumed

# How well the chain without hidden states is solved that states start from.
TOLERANCE = 1e-2
# How much states of a label differ at first: of a copy, and where there is nothing to copy.
NOISE, NOISE_ALONE = 0.01, 0.1


def starts(objective: Objective, seed: int, many: int) -> list[Array]:
    """Return so many parameters to start from.

    Sequences that are in memory are first fitted without hidden states, which takes far less time; every state starts
    as a copy of its label, with noise. From a source, and with workers, there is the noise alone.
    """
    assert isinstance(objective.like, Sequences)
    data, scale = objective.whole, noise_scale(objective.like)
    noise = [scale * np.random.default_rng([seed, k]).normal(size=objective.size) for k in range(many)]
    if not isinstance(data, Sequences):
        return [NOISE_ALONE * each for each in noise]
    copy = copied_from_labels(objective, data, seed)
    return [copy + NOISE * each for each in noise]


def noise_scale(like: Sequences) -> Array:
    """Return by how much less the parameters of attributes with large values have to differ for as much of scores."""
    scale, universe = np.ones(like.universe.size), like.universe
    if like.values is not None:
        largest = np.ones(universe.n_attributes)
        np.maximum.at(largest, like.attributes, np.abs(like.values))
        scale[: len(universe.label)] = 1 / largest[universe.attribute]
    return scale


def copied_from_labels(objective: Objective, data: Sequences, seed: int) -> Array:
    """Return parameters in which all states of a label are alike: those of a chain of labels."""
    model = objective.model
    assert isinstance(model, LatentChain)
    of_chain = of_labels(data, model.owner)
    visible = Objective(Chain(), of_chain, ridge=objective.penalty.as_prior()[0], reducer=objective.reducer)
    solution = minimize(visible, QuasiNewton(seed=seed), tol=TOLERANCE, threads=None)
    return copied(solution.params, of_chain.universe, data.universe, model.owner)


def of_labels(data: Sequences, owner: Array) -> Sequences:
    """Return the same sequences with labels in the place of the states that they own."""
    states = data.universe
    n, owner = int(owner[-1]) + 1, owner.astype(np.int64)
    pairs, steps = np.unique(_of_owner(states.pairs, states.n, owner)), _steps_of_owners(states, owner)
    universe = Universe.of(pairs, np.unique(steps), n, states.n_attributes)
    before = np.empty(states.n_attributes, dtype=np.int64)
    before[states.number] = universe.number
    attributes = before[data.attributes].astype(data.attributes.dtype)
    return Sequences.of(universe, data.starts, data.indptr, attributes, data.values, data.y, data.weight)


def copied(theta: Array, labels: Universe, states: Universe, owner: Array) -> Array:
    """Return the parameters of labels for each of their states."""
    owner = owner.astype(np.int64)
    order = np.argsort(labels.pairs)
    places = order[np.searchsorted(labels.pairs, _of_owner(states.pairs, states.n, owner), sorter=order)]
    steps = np.searchsorted(labels.steps, _steps_of_owners(states, owner))
    return np.concatenate([theta[places], theta[len(labels.label) + steps]])


def _of_owner(pairs: Array, n: int, owner: Array) -> Array:
    """Return pairs something·n + state as pairs something·labels + label."""
    return pairs // n * (owner[-1] + 1) + owner[pairs % n]


def _steps_of_owners(states: Universe, owner: Array) -> Array:
    before, after = states.transitions.T
    return owner[before] * (owner[-1] + 1) + owner[after]


SOLVERS = ("auto", "lbfgs")
# States start nearly alike, which is nearly stationary: so many saddles are left.
SADDLES = 2
# A fit of states that are not hidden that can get no further is worth a warning above this gap.
STUCK = 1e-2


class LatentChainCRF(ChainEstimator):
    """Latent-dynamic conditional random field: a chain over hidden states, of which every label owns some.

    p(y|x) = Σ p(s|x) over the paths of states s whose states belong to the labels y. Minimises
    Σ_j w_j (−log p(y_j|x_j)) + c2‖θ‖² over a weight for every attribute and state, and for every state and next state,
    whose labels have one in :class:`~majorant.ChainCRF`. That is not convex: the fit ends at a stationary point, no
    saddle as far as a dozen gradients tell, which nothing certifies to be the best. With one state for each label it is
    :class:`~majorant.ChainCRF`, certificate included.

    Parameters
    ----------
    n_latent : int, or dict of labels to int
        States of each label; a label that is not in the dict has one, and so has the only label of y, whose states
        nothing tells apart. More states than a label has tokens do no harm but to the time that a pass takes.
    c2 : float
        Penalty: c2 times the sum of squared weights.
    decoding : {"viterbi", "marginal"}
        What ``predict`` returns: the labels that own the states of the likeliest path, or for each token the label
        whose states are likeliest together, which is right most often if the model is. Neither is the likeliest
        sequence of labels, which is hard to find.
    n_init : int
        Starts. The fit with the lowest objective is kept. Where fits take seconds, several are worth it: what they
        reach may differ by far.
    solver : {"auto", "lbfgs"}
        "auto": quasi-Newton steps, scaled. "lbfgs": SciPy's, for comparison.
    tol : float
        Stop when the gradient promises to gain less than ``tol`` of the objective, in the metric of its curvature. With
        one state for each label as in :class:`~majorant.ChainCRF`.
    max_iter : int
        Steps from each start.
    min_freq, all_possible_states, all_possible_transitions, n_jobs, verbose
        As in :class:`~majorant.ChainCRF`.
    random_state : int, RandomState or None
        How states of a label differ at first.
    callbacks : list, optional
        As in :class:`~majorant.ChainCRF`. They follow the fits from all starts, one after the other; a checkpoint is of
        one, so it needs ``n_init=1``.

    Attributes
    ----------
    classes_ : array
        The labels.
    n_states_ : array
        How many states each of them owns.
    restarts_ : array
        The objective that was reached from each start.
    state_features_, transition_features_ : dict
        Weights by (attribute, (label, k)) and by ((label, k), (next label, k)), with k the number of a state.
    trace_, result_, n_iter_
        As in :class:`~majorant.ChainCRF`, of the fit that was kept.

    References
    ----------
    Morency, Quattoni & Darrell, *Latent-dynamic discriminative models for continuous gesture recognition*, CVPR 2007.

    Examples
    --------
    >>> from majorant import LatentChainCRF
    >>> X = [[["low"], ["high"], ["low"]], [["high"], ["high"]], [["low"], ["low"], ["high"]]] * 5
    >>> y = [["rest", "move", "rest"], ["move", "move"], ["rest", "rest", "move"]] * 5
    >>> model = LatentChainCRF(n_latent=2, c2=0.1).fit(X, y)
    >>> model.predict([[["low"], ["high"]]])
    [['rest', 'move']]
    >>> model.result_.outcome.value
    'stationary'
    >>> {label for label, state in model.predict_latent([[["low"], ["high"]]])[0]} == {"rest", "move"}
    True
    """

    def __init__(
        self,
        n_latent: Any = 2,
        *,
        c2: float = 1.0,
        decoding: str = "viterbi",
        n_init: int = 1,
        solver: str = "auto",
        tol: float = 1e-4,
        max_iter: int = 10_000,
        min_freq: float = 0,
        all_possible_states: bool = False,
        all_possible_transitions: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = None,
        callbacks: Any = None,
    ) -> None:
        self.n_latent = n_latent
        self.c2 = c2
        self.decoding = decoding
        self.n_init = n_init
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

    @chunkwise
    def predict_latent(self, X: Any, lengths: Any = None) -> list[list[tuple[Any, int]]]:
        """Return for each token the state of the likeliest path: its label, and its number among those of the label.

        Parameters
        ----------
        X, lengths
            Sequences as for :meth:`fit`, or a source.

        Returns
        -------
        list of lists of pairs (label, number)
        """
        data, scores = self._scored(X, lengths)
        names, path = self._state_names(), self._model().decode_states(scores, data)
        return apart([names[state] for state in path.tolist()], data)

    # --- what a chain is made of --------------------------------------------------------------------------

    n_states_: Array
    restarts_: Array

    def _model(self) -> LatentChain:
        return LatentChain(tuple(self.n_states_.tolist()), self.decoding)

    def _many_states(self, classes: Array) -> Array:
        labels = classes.tolist()
        known = self.n_latent if isinstance(self.n_latent, Mapping) else dict.fromkeys(labels, self.n_latent)
        unknown = sorted(set(known) - set(labels), key=repr)
        if unknown:
            raise ValueError(f"n_latent names labels that y does not hold: {unknown}")
        if len(labels) == 1:  # whose states nothing tells apart
            return np.ones(1, dtype=np.int64)
        return np.array([known.get(label, 1) for label in labels], dtype=np.int64)

    def _take_up(self, states: Array) -> None:
        self.n_states_ = states

    def _state_names(self) -> list[Any]:
        many = zip(self.classes_.tolist(), self.n_states_.tolist(), strict=True)
        return [(label, k) for label, states in many for k in range(states)]

    def _check_settings(self) -> None:
        super()._check_settings()
        each = self.n_latent.values() if isinstance(self.n_latent, Mapping) else [self.n_latent]
        for many in each:
            whole("n_latent", many, least=1)
        whole("n_init", self.n_init, least=1)
        check_jobs(self.n_jobs)
        one_of("solver", self.solver, SOLVERS)
        one_of("decoding", self.decoding, DECODINGS)
        if self.n_init > 1 and any(isinstance(each, Checkpoint) for each in self.callbacks or ()):
            raise ValueError(f"a Checkpoint follows one fit: n_init must be 1, got {self.n_init}; run the others apart")

    # --- fitting ------------------------------------------------------------------------------------------

    def _fit(self, ready: Prepared, resume_from: Any) -> None:
        self.n_states_ = self._many_states(ready.classes)
        with sharing(fit_threads(self.n_jobs, ready.tokens * ready.universe.n**2)):
            reducer = ready.reducer or Threads(threads())
            model = self._model() if self.n_states_.max() > 1 else Chain()
            objective = Objective(model, ready.data, ridge=2 * self.c2, reducer=reducer)
            saving = Saving(self, objective, lambda: chain(self.classes_.tolist(), self._vocabulary.names()))
            each = [self._followed(objective, start, saving) for start in self._starts(objective, resume_from, saving)]
        best, self.restarts_ = best_of(each, _objective_of)
        self._publish(replace(best, result=with_spread(best.result, self.restarts_)))
        if is_unwanted(best.result, STUCK) if objective.convex else is_disappointing(objective, best):
            warn(self.result_)

    def _starts(self, objective: Objective, resume_from: Any, saving: Saving) -> list[Any]:
        """Return where fits begin: in a checkpoint, at zero where nothing is hidden, or where states differ."""
        if resume_from is not None and self.n_init > 1:
            raise ValueError(f"resume_from goes on with one fit: n_init must be 1, got {self.n_init}")
        before = resumed(resume_from, self, saving)
        if before is not None:
            return [before]
        return [None] if isinstance(objective.model, Chain) else list(starts(objective, self._seed(), self.n_init))

    def _followed(self, objective: Objective, start: Any, saving: Saving) -> Fitted:
        return run(
            objective,
            start.solver if isinstance(start, Progress) else self._make_solver(),
            Fit(objective.model, self._read_more, saving),
            [*(self.callbacks or ()), *([ProgressLine()] if self.verbose else ())],
            start=start,
            tol=self.tol,
            max_steps=self.max_iter,
            saddles=SADDLES if isinstance(objective.model, LatentChain) else 0,
        )

    def _make_solver(self) -> Solver[Any]:
        return LBFGS() if self.solver == "lbfgs" else QuasiNewton(seed=self._seed())


def _objective_of(fitted: Fitted) -> float:
    """Return the objective that a fit has reached: infinite if it was not finite where the fit began."""
    return float(fitted.trace["objective"][-1]) if fitted.trace else np.inf
