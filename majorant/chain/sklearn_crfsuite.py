"""The constructor, the attributes and the tagger of sklearn-crfsuite, with fits that are certified."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
from sklearn.exceptions import NotFittedError

from majorant.chain.crf import ChainCRF
from majorant.chain.features import check_lengths
from majorant.core.checks import one_of

ALGORITHMS = ("lbfgs", "l2sgd")
# Settings of CRFsuite's perceptrons.
OF_PERCEPTRONS = ("pa_type", "c", "error_sensitive", "averaging", "variance", "gamma")
# What a file of CRFsuite says of a model.
FITTED = ("_weights", "_vocabulary", "classes_")


class CRF(ChainCRF):
    """Linear-chain CRF with the constructor, the methods and the attributes of ``sklearn_crfsuite.CRF``.

    Fits are those of :class:`~majorant.ChainCRF`: they end at the optimum, certified, not after some iterations.

    Parameters
    ----------
    algorithm : {"lbfgs", "l2sgd"}, optional
        Both minimise one objective, and so does this. The perceptrons "ap", "pa" and "arow" are refused.
    min_freq, all_possible_states, all_possible_transitions, c1, c2 : optional
        As in :class:`~majorant.ChainCRF`; None stands for the default, which is CRFsuite's. "l2sgd" has no ``c1``.
    max_iterations : int, optional
        Most steps, no limit if not given. Fits seldom take a hundred.
    num_memories, epsilon, period, delta, linesearch, max_linesearch : optional
        Accepted; there is nothing that they would change.
    calibration_eta, calibration_rate, calibration_samples, calibration_candidates, calibration_max_trials : optional
        Accepted; there is no learning rate.
    pa_type, c, error_sensitive, averaging, variance, gamma : optional
        Refused: settings of perceptrons.
    verbose : bool
        Whether to show a line of progress.
    model_filename : str, optional
        Where ``fit`` writes the model as a file of CRFsuite. A model that is not fitted reads it from there. ``save``
        and ``load`` have CRFsuite's format as well, whatever the name ends in.
    keep_tempfiles : bool
        Accepted; there are no temporary files.
    trainer_cls : None
        Refused: models are not trained by python-crfsuite.

    Attributes
    ----------
    classes_ : array
        The labels.
    attributes_, num_attributes_
        The attributes that have a weight, and their number.
    size_ : int
        The bytes of the model as a file of CRFsuite.
    training_log_ : object
        ``iterations``, a list of dicts with "num", "loss", "time" and, where there were sequences to hold out,
        "item_accuracy" and "instance_accuracy" of the last; and ``last_iteration``.
    tagger_ : object
        ``tag``, ``labels``, ``set``, ``probability`` and ``marginal``, as ``pycrfsuite.Tagger`` has them.

    Examples
    --------
    >>> from majorant import CRF
    >>> X = [[{"word": "the"}, {"word": "cat"}, {"word": "sat"}], [{"word": "a"}, {"word": "dog"}]]
    >>> y = [["DET", "NOUN", "VERB"], ["DET", "NOUN"]]
    >>> crf = CRF(algorithm="lbfgs", c1=0.1, c2=0.1, max_iterations=100, all_possible_transitions=True).fit(X, y)
    >>> crf.predict_single([{"word": "a"}, {"word": "cat"}])
    ['DET', 'NOUN']
    >>> crf.num_attributes_, crf.tagger_.labels()
    (5, ['DET', 'NOUN', 'VERB'])
    """

    def __init__(
        self,
        algorithm: str | None = None,
        min_freq: Any = None,
        all_possible_states: Any = None,
        all_possible_transitions: Any = None,
        c1: Any = None,
        c2: Any = None,
        max_iterations: int | None = None,
        num_memories: int | None = None,
        epsilon: float | None = None,
        period: int | None = None,
        delta: float | None = None,
        linesearch: str | None = None,
        max_linesearch: int | None = None,
        calibration_eta: float | None = None,
        calibration_rate: float | None = None,
        calibration_samples: int | None = None,
        calibration_candidates: int | None = None,
        calibration_max_trials: int | None = None,
        pa_type: int | None = None,
        c: float | None = None,
        error_sensitive: bool | None = None,
        averaging: bool | None = None,
        variance: float | None = None,
        gamma: float | None = None,
        verbose: bool = False,
        model_filename: str | None = None,
        keep_tempfiles: bool = False,
        trainer_cls: Any = None,
    ) -> None:
        self.algorithm = algorithm
        self.min_freq = min_freq
        self.all_possible_states = all_possible_states
        self.all_possible_transitions = all_possible_transitions
        self.c1 = c1
        self.c2 = c2
        self.max_iterations = max_iterations
        self.num_memories = num_memories
        self.epsilon = epsilon
        self.period = period
        self.delta = delta
        self.linesearch = linesearch
        self.max_linesearch = max_linesearch
        self.calibration_eta = calibration_eta
        self.calibration_rate = calibration_rate
        self.calibration_samples = calibration_samples
        self.calibration_candidates = calibration_candidates
        self.calibration_max_trials = calibration_max_trials
        self.pa_type = pa_type
        self.c = c
        self.error_sensitive = error_sensitive
        self.averaging = averaging
        self.variance = variance
        self.gamma = gamma
        self.verbose = verbose
        self.model_filename = model_filename
        self.keep_tempfiles = keep_tempfiles
        self.trainer_cls = trainer_cls

    def fit(self, X: Any, y: Any, X_dev: Any = None, y_dev: Any = None) -> Self:  # type: ignore[override]
        """Fit to sequences.

        Parameters
        ----------
        X : iterable of sequences
            As for :meth:`majorant.ChainCRF.fit`.
        y : iterable of sequences of labels
        X_dev, y_dev : optional
            Sequences to hold out and their labels; ``training_log_`` has the accuracy on them.

        Returns
        -------
        CRF
            Fitted.
        """
        if (X_dev is None) != (y_dev is None):
            raise ValueError("X_dev and y_dev go together: pass both or none")
        if X_dev is not None:
            X_dev, y_dev = list(X_dev), [list(labels) for labels in y_dev]
            check_lengths(X_dev, y_dev, ("X_dev", "y_dev"))
        if self.model_filename is not None and not Path(self.model_filename).absolute().parent.is_dir():
            raise FileNotFoundError(f"the folder of model_filename={str(self.model_filename)!r} is missing: make it")
        self._take(self._chain().fit(X, y))
        self._write_log(X_dev, y_dev)
        if self.model_filename is not None:
            self.save(self.model_filename)
        return self

    def _chain(self) -> ChainCRF:
        """Return the chain with these settings, or raise a sentence that says what to do."""
        if self.algorithm in ("ap", "pa", "arow"):
            raise ValueError(
                f"algorithm={self.algorithm!r} trains a perceptron, which has another objective and no probabilities: "
                "use 'lbfgs', or stay with sklearn-crfsuite"
            )
        one_of("algorithm", self.algorithm or "lbfgs", ALGORITHMS)
        given = [name for name in OF_PERCEPTRONS if getattr(self, name) is not None]
        if given:
            raise ValueError(f"{given[0]} is a setting of perceptrons, got {getattr(self, given[0])!r}: leave it out")
        if self.trainer_cls is not None:
            raise ValueError("trainer_cls is of python-crfsuite, which does not train here: leave it out")
        if self.c1 and self.algorithm == "l2sgd":
            raise ValueError(f"algorithm='l2sgd' has no c1, got c1={self.c1!r}: use 'lbfgs'")
        settings: dict[str, Any] = {
            "c1": self.c1,
            "c2": self.c2,
            "min_freq": self.min_freq,
            "all_possible_states": self.all_possible_states,
            "all_possible_transitions": self.all_possible_transitions,
            "max_iter": self.max_iterations,
            "verbose": int(self.verbose),
        }
        return ChainCRF(**{name: value for name, value in settings.items() if value is not None})

    def _write_log(self, X_dev: Any, y_dev: Any) -> None:
        seconds = np.diff(self.trace_["seconds"], prepend=0.0)
        iterations: list[dict[str, Any]] = [
            {"num": k + 1, "loss": float(loss), "time": float(time)}
            for k, (loss, time) in enumerate(zip(self.trace_["objective"], seconds, strict=True))
        ]
        if X_dev is not None:
            right = [
                [a == b for a, b in zip(*pair, strict=True)] for pair in zip(self.predict(X_dev), y_dev, strict=True)
            ]
            iterations[-1]["item_accuracy"] = float(np.mean(np.concatenate([*map(np.array, right), np.empty(0)])))
            iterations[-1]["instance_accuracy"] = float(np.mean([all(each) for each in right]))
        self.training_log_ = SimpleNamespace(iterations=iterations, last_iteration=iterations[-1])

    def _take(self, chain: ChainCRF) -> None:
        """Become a chain that is fitted."""
        self.__dict__.update({name: value for name, value in vars(chain).items() if name not in chain.get_params()})
        self._keep(chain._weights, chain.classes_, chain._vocabulary)

    def __getattr__(self, name: str) -> Any:
        """Return a part of a model that is not fitted from ``model_filename``, if there is such a file."""
        path = vars(self).get("model_filename")
        if name not in FITTED or name in vars(self) or path is None or not Path(path).exists():
            return super().__getattribute__(name)  # which raises what it has raised before
        self._take(type(self).load(path))
        return vars(self)[name]

    @classmethod
    def _is_crfsuite(cls, path: Any) -> bool:
        return True

    def partial_fit(self, *arguments: Any, **named: Any) -> Self:
        """Raise: a stream is fitted by :class:`~majorant.ChainCRF`.

        Parameters
        ----------
        arguments, named
            Of :meth:`majorant.ChainCRF.partial_fit`.

        Returns
        -------
        CRF
            Never.
        """
        raise TypeError("sklearn_crfsuite.CRF has no partial_fit, and neither has this: use majorant.ChainCRF")

    @property
    def tagger_(self) -> Tagger:
        """The fitted model with the methods of ``pycrfsuite.Tagger``."""
        if not hasattr(self, "_weights"):
            raise NotFittedError("this CRF is not fitted yet: call fit first")
        return Tagger(self)


class Tagger:
    """A fitted chain with the methods of ``pycrfsuite.Tagger``."""

    def __init__(self, crf: ChainCRF) -> None:
        self._crf, self._tokens = crf, []  # type: ignore[var-annotated]

    def labels(self) -> list[Any]:
        """Return the labels."""
        labels: list[Any] = self._crf.classes_.tolist()
        return labels

    def tag(self, tokens: Any = None) -> list[Any]:
        """Return the likeliest labels of a sequence, of the one that was set if none is given."""
        self._tokens = self._tokens if tokens is None else tokens
        return self._crf.predict_single(self._tokens)

    def set(self, tokens: Any) -> None:
        """Set the sequence that the other methods are about."""
        self._tokens = tokens

    def probability(self, labels: Any) -> float:
        """Return the probability of a labelling of the sequence that was set."""
        return float(np.exp(-self._crf._losses([self._tokens], [labels])[0]))

    def marginal(self, label: Any, position: int) -> float:
        """Return the probability of a label at a position of the sequence that was set."""
        return self._crf.predict_marginals_single(self._tokens)[position][label]
