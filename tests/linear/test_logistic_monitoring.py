"""What LogisticRegression shows of a fit while it runs."""

import io
import re
import sys

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import majorant
from majorant import Checkpoint, EarlyStopping, LogisticRegression
from majorant.callbacks import ProgressLine
from tests.linear.test_logistic import objective_of, trees, two


@pytest.fixture(scope="module")
def three():
    return trees()


@pytest.mark.filterwarnings("ignore:stopped at the limit")
@pytest.mark.parametrize("solver", ["auto", "bbm", "scipy-lbfgs", "sgd", "proximal"])
def test_early_stopping_keeps_the_best_on_validation_data(three, solver):
    X, y = three
    stop = EarlyStopping(X[150:], y[150:], patience=2)
    model = LogisticRegression(C=1e4, solver=solver, callbacks=[stop], tol=0.0, max_iter=60, random_state=0)
    model.fit(X[:40], y[:40])
    assert "best on the validation data" in model.result_.message
    assert not model.result_.converged
    best = objective_of(LogisticRegression(C=1e4, tol=1e-12).fit(X[:40], y[:40]), X[:40], y[:40])
    reached = objective_of(model, X[:40], y[:40])
    assert model.gap_ >= (reached - best) / reached - 1e-12
    log_likelihood = model.predict_log_proba(X[150:])[np.arange(50), np.searchsorted(model.classes_, y[150:])].mean()
    assert log_likelihood == pytest.approx(stop.best_score, rel=1e-6)


@pytest.mark.parametrize("kind", ["step limit", "unbounded"])
def test_early_stopping_hides_no_warning_of_its_own_accord(three, kind):
    X, y = two(three)
    separable = np.where(X[:, 0] > 0, "cedar", "other")
    settings, labels = (dict(max_iter=1), y) if kind == "step limit" else (dict(C=np.inf), separable)
    model = LogisticRegression(callbacks=[EarlyStopping(X, y, patience=500)], **settings)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, labels)
    assert model.result_.outcome.value == kind
    assert LogisticRegression(callbacks=[EarlyStopping(X, y)]).fit(X, y).n_iter_ > 0


def test_checkpoints_can_be_loaded(three, tmp_path):
    X, y = three
    model = LogisticRegression(callbacks=[Checkpoint(tmp_path / "model.npz", every=0)]).fit(X, y)
    loaded = LogisticRegression.load(tmp_path / "model.npz")
    np.testing.assert_allclose(loaded.coef_, model.coef_, atol=1e-3)


def test_any_function_is_a_callback(three):
    X, y = three
    model = LogisticRegression(solver="scipy-lbfgs", callbacks=[lambda row, theta: row["step"] == 3]).fit(X, y)
    assert model.n_iter_ == 3
    assert model.result_.outcome is majorant.Outcome.STOPPED


def test_verbose_shows_a_line(three, capsys):
    LogisticRegression(verbose=1).fit(*three)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "objective" in shown.err
    assert "certified to be within" in shown.err


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.mark.parametrize("rich", [True, False])
def test_the_line_is_rewritten_on_a_terminal(three, monkeypatch, rich):
    if rich:
        pytest.importorskip("rich")
        monkeypatch.setenv("COLUMNS", "40")  # narrower than the line
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("NO_COLOR", raising=False)
    else:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    screen = Terminal()
    LogisticRegression(callbacks=[ProgressLine(screen, every=0)]).fit(*three)
    first, *lines = screen.getvalue().split("\r\x1b[2K")
    assert first == ""
    assert len(lines) > 3
    assert screen.getvalue().count("\n") == 1  # the line is never wrapped: only the last one ends
    assert ("\x1b[" in lines[0]) == rich
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    assert plain[0].startswith("step 0")
    assert all(len(line) <= 40 for line in plain[:-1]) == rich
    assert "of the optimum (relative)" in plain[-1]


def test_a_passing_line_leaves_nothing(three):
    screen = Terminal()
    LogisticRegression(callbacks=[ProgressLine(screen, every=0, transient=True)]).fit(*three)
    assert screen.getvalue().endswith("\r\x1b[2K")
    assert "certified" not in screen.getvalue()


def test_scikit_learns_own_callbacks(three):
    callback = pytest.importorskip("sklearn.callback")
    steps = []

    class Count(callback.FitCallback):
        def setup(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context, **kwargs):
            pass

        def on_fit_task_end(self, estimator, context, **kwargs):
            steps.append(context.task_name)

        def teardown(self, estimator, context):
            steps.append("teardown")

    model = LogisticRegression().set_callbacks(Count()).fit(*three)
    assert steps == ["iteration"] * (model.n_iter_[0] + 1) + ["fit", "teardown"]
