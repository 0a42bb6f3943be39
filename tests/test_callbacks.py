"""Callbacks of the estimators: how patient they are, and what is left of a fit that was killed."""

import copy
import signal
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

from majorant import Binary, Checkpoint, EarlyStopping, Labelled, LogisticRegression, Objective, Outcome, minimize
from majorant.callbacks import ProgressLine

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
Y = (X[:, 0] + RNG.logistic(size=80) > 0).astype(int)


@pytest.mark.parametrize("patience", [1, 3])
@pytest.mark.parametrize("solver", ["scipy-lbfgs", "newton", "sgd"])
def test_patience_runs_out_after_as_many_steps_without_improvement(patience, solver):
    """Labels turned round make every step worse than none."""
    stop = EarlyStopping(X, 1 - Y, patience=patience)
    model = LogisticRegression(solver=solver, callbacks=[stop], tol=0.0, random_state=0).fit(X, Y)
    assert stop.best_step == 0
    assert model.n_iter_[0] == patience
    assert model.result_.outcome is Outcome.STOPPED
    assert np.abs(model.coef_).max() == 0


# A fit that saves at each step, and is killed before the fourth; with "writing", while it writes.
FIT = """
import os, signal, sys
import numpy as np
from majorant import Checkpoint, LogisticRegression

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def die_writing(file, **arrays):
    file.write(b"half of it")
    file.flush()
    die()

def callback(row, theta):
    if row["step"] == 2 and sys.argv[1] == "writing":
        np.savez = die_writing
    elif row["step"] == 3:
        die()

rng = np.random.default_rng(0)
X = rng.normal(size=(80, 3))
y = (X[:, 0] + rng.logistic(size=80) > 0).astype(int)
LogisticRegression(solver="scipy-lbfgs", callbacks=[Checkpoint("model.npz", every=0), callback], tol=0.0).fit(X, y)
"""


@pytest.mark.parametrize("when", ["between", "writing"])
def test_a_killed_fit_leaves_its_last_checkpoint(when, tmp_path):
    done = subprocess.run([sys.executable, "-c", FIT, when], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr
    saved = LogisticRegression.load(tmp_path / "model.npz")
    step = 3 if when == "between" else 2
    assert saved.n_iter_ == step
    assert saved.result_.outcome is Outcome.STOPPED
    assert saved.result_.message == f"saved at step {step} of a fit that went on"
    whole = LogisticRegression(solver="scipy-lbfgs", callbacks=[lambda row, theta: row["step"] == step], tol=0.0).fit(
        X, Y
    )
    reached = whole.predict_proba(X)[:, 1]
    # The end of a fit moves a free intercept to its best; a checkpoint holds the step as it was.
    np.testing.assert_allclose(saved.coef_, whole.coef_, rtol=1e-9)
    assert np.corrcoef(saved.predict_proba(X)[:, 1], reached)[0, 1] > 0.999


def test_checkpoints_are_as_far_apart_as_they_are_told(tmp_path, monkeypatch):
    """The clock goes on by a second with each step."""
    times, clock = [], [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])

    class Watched(LogisticRegression):
        def _written(self, notes):
            times.append(clock[0])
            return super()._written(notes)

    def tick(row, theta):
        clock[0] += 1.0
        return row["step"] == 7

    Watched(solver="scipy-lbfgs", callbacks=[Checkpoint(tmp_path / "model.npz", every=3), tick], tol=0.0).fit(X, Y)
    assert times == [0.0, 3.0, 6.0, 8.0]  # and at the end


@pytest.mark.parametrize("callback", [ProgressLine(), Checkpoint("unused"), EarlyStopping([[0.0]], [0])])
def test_what_follows_a_fit_cannot_follow_minimize(callback):
    F = Objective(Binary(), Labelled(X, Y), ridge=1.0)
    with pytest.raises(TypeError, match="follows the fit of an estimator"):
        minimize(F, callback=callback)


def test_a_fit_that_fails_leaves_callbacks_that_can_be_copied():
    def fail(row, theta):
        raise RuntimeError

    model = LogisticRegression(callbacks=[ProgressLine(), fail])
    with pytest.raises(RuntimeError):
        model.fit(X, Y)
    clone(model)
    copy.deepcopy(model)
