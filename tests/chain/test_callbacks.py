"""Callbacks that follow the fit of a ChainCRF."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from majorant import ChainCRF, Checkpoint, EarlyStopping
from majorant.callbacks import Callback, ProgressLine
from tests.chain.test_crf import X, Y


def test_callbacks_follow_a_fit_and_may_end_it(tmp_path):
    steps = []
    until = [lambda row, theta: steps.append(row["step"]) or row["step"] >= 2]
    model = ChainCRF(tol=1e-12, callbacks=until).fit(X, Y)
    assert steps == [0, 1, 2]
    assert model.result_.message.startswith("stopped by the callback")
    saved = Checkpoint(tmp_path / "chain.npz", every=0)
    model = ChainCRF(callbacks=[saved]).fit(X, Y)
    loaded = ChainCRF.load(tmp_path / "chain.npz")
    assert loaded.state_features_ == model.state_features_
    assert loaded.result_ == model.result_
    assert loaded.callbacks is None


def test_a_checkpoint_leaves_the_model_that_is_fitted_alone(tmp_path):
    """A fit that is broken off after a save is as it was, and the file is a model of its own."""
    model = ChainCRF().fit(X, Y)
    before = dict(vars(model))

    def fail(row, theta):
        if row["step"] == 1:
            raise RuntimeError

    path = tmp_path / "half.npz"
    with pytest.raises(RuntimeError):
        model.set_params(callbacks=[Checkpoint(path, every=0), fail], tol=1e-12).fit(X[:1], Y[:1])
    model.set_params(callbacks=None, tol=before["tol"])
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items() if name != "callbacks")
    assert "of a fit that went on" in str(ChainCRF.load(path).result_)


def test_early_stopping_keeps_the_best_step_of_validation_sequences():
    rng = np.random.default_rng(0)
    words = [[[f"w{rng.integers(30)}", f"v{rng.integers(30)}"] for _ in range(6)] for _ in range(40)]
    tags = [[("A", "B")[int(token[0][1:]) % 2] if rng.random() < 0.7 else "B" for token in each] for each in words]
    stopping = EarlyStopping(words[20:], tags[20:], patience=2)
    model = ChainCRF(c2=1e-3, tol=1e-6, callbacks=[stopping]).fit(words[:20], tags[:20])
    assert stopping.best_step < model.n_iter_
    assert f"kept those of step {stopping.best_step:.0f}" in model.result_.message
    np.testing.assert_array_equal(model._weights.theta, stopping.best_params)
    with pytest.raises(ValueError, match="validation labels hold classes that are not trained on"):
        ChainCRF(callbacks=[EarlyStopping([[["a"]]], [["C"]])]).fit(words[:20], tags[:20])
    with pytest.raises(ValueError, match="validation data have 2 tokens but 1 labels"):
        ChainCRF(callbacks=[EarlyStopping([[["a"], ["b"]]], [["A"]])]).fit(words[:20], tags[:20])
    with pytest.raises(ValueError, match="callbacks must be a list"):
        ChainCRF(callbacks=print).fit(X, Y)


def test_answers_of_callbacks_need_not_be_booleans():
    class Silent(Callback):
        def __call__(self, row, theta):
            return None

    assert ChainCRF(callbacks=[Silent(), Silent()]).fit(X, Y).result_.converged


@pytest.mark.parametrize("solver", ["auto", "lbfgs", "bbm"])
def test_values_that_overflow_are_told_of(solver):
    huge = [[{"a": 1e308, "b": 1e308}, {"a": -1e308}], [{"b": 1e308}]]
    with pytest.warns(ConvergenceWarning):
        ChainCRF(solver=solver).fit(huge, [["x", "y"], ["y"]])


def test_a_line_of_progress_does_not_keep_a_model_from_being_copied(capsys):
    for model in (ChainCRF(callbacks=[ProgressLine()]).fit(X, Y), ChainCRF(verbose=1).fit(X, Y)):
        pickle.loads(pickle.dumps(model))
        clone(model).fit(X, Y)
    assert "converged" in capsys.readouterr().err
