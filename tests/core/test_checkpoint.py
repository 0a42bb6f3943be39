"""Fits that are interrupted, wherever and however, go on as if nothing had happened, or say why they cannot."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from majorant import ChainCRF, Checkpoint, Chunks, EarlyStopping, LogisticRegression, Objective, QuasiNewton, minimize
from majorant.callbacks import Callback
from majorant.chain import crf
from majorant.core.files import remove_leftovers
from majorant.data import Labelled
from majorant.estimators import fitting
from majorant.models import Binary
from majorant.solvers import LBFGS, SGD
from tests.killed_fits import chunks, dense, difference, found, sparse_classes, tagged

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X, Y = dense()
PENALISED = {"penalize_intercept": True, "max_iter": 4}
SETTINGS = {"sbm": PENALISED, "sbm-lowrank": PENALISED, "sgd": {"max_iter": 2}, "asgd": {"max_iter": 2}}
OF_CHAINS = {"bbm": {"max_iter": 3}, "auto": {"tol": 1e-7}}


class EveryStep(Callback):
    """Keeps a copy of the checkpoint of each step."""

    def __init__(self, path):
        self.path, self.kept = path, []

    def __call__(self, row, theta):
        self.kept.append(self.path.with_name(f"step-{row['step']:.0f}.npz"))
        shutil.copy(self.path, self.kept[-1])
        return False


class Interrupted(Exception):
    pass


def interrupt_at(step):
    def callback(row, theta):
        if row["step"] == step:
            raise Interrupted

    return callback


def assert_same(model, whole):
    assert difference(found(model), found(whole)) == ""
    assert str(model.result_) == str(whole.result_)


def assert_goes_on_from_every_step(make, data, tmp_path):
    """The checkpoint of any step leads to the end of a run without checkpoints, and so does that of the end."""
    whole, path = make().fit(*data), tmp_path / "checkpoint.npz"
    every = EveryStep(path)
    make(callbacks=[Checkpoint(path, every=0), every]).fit(*data)
    assert len(every.kept) == whole.trace_["step"].size > 1
    for kept in [*every.kept, path]:
        assert_same(make().fit(*data, resume_from=kept), whole)


@pytest.fixture
def untuned(monkeypatch):
    """Gains as they come: tuning takes far longer than what is tested."""

    def tune(objective, schedules, **_):
        return SimpleNamespace(best=SGD(gain=0.01, schedule=schedules[-1], seed=3))

    monkeypatch.setattr("majorant.tuning.tune", tune)


# --- to the last bit --------------------------------------------------------------------------------------


def three_classes():
    rng = np.random.default_rng(1)
    return X, (X[:, :3] + rng.gumbel(size=(len(X), 3))).argmax(axis=1)


def narrow_sparse():
    X, y = sparse_classes()
    return X[:, :40], y


@pytest.mark.unwatched
@pytest.mark.parametrize("data", [dense, three_classes, narrow_sparse], ids=lambda data: data.__name__)
@pytest.mark.usefixtures("untuned")
@pytest.mark.parametrize("solver", fitting.SOLVERS)
def test_every_solver_goes_on_from_every_step(solver, data, tmp_path):
    make = lambda **more: LogisticRegression(solver=solver, **SETTINGS.get(solver, {}), **more)  # noqa: E731
    assert_goes_on_from_every_step(make, data(), tmp_path)


@pytest.mark.parametrize("solver", crf.SOLVERS)
def test_chains_go_on_from_every_step(solver, tmp_path):
    few = solver in crf.BOUNDED
    make = lambda **more: ChainCRF(solver=solver, **OF_CHAINS.get(solver, {}), **more)  # noqa: E731
    assert_goes_on_from_every_step(make, tagged(*((10, 3) if few else (40, 5))), tmp_path)


def test_chains_with_an_l1_penalty_go_on_from_every_step(tmp_path):
    assert_goes_on_from_every_step(lambda **more: ChainCRF(c1=0.1, c2=0.1, **more), tagged(), tmp_path)


def test_rounds_and_steps_of_a_chain_go_on(tmp_path):
    """A small penalty makes dual ascent slow, so that steps and rounds take turns."""
    make = lambda **more: ChainCRF(c2=0.01, tol=1e-3, max_iter=45, **more)  # noqa: E731
    whole, path = make().fit(*tagged()), tmp_path / "checkpoint.npz"
    every = EveryStep(path)
    make(callbacks=[Checkpoint(path, every=0), every]).fit(*tagged())
    for kept in every.kept[::9]:
        assert_same(make().fit(*tagged(), resume_from=kept), whole)


@pytest.mark.usefixtures("untuned")
@pytest.mark.parametrize("solver", ["auto", "scipy-lbfgs", "proximal", "sgd"])
def test_sources_go_on_from_every_step(solver, tmp_path):
    make = lambda **more: LogisticRegression(solver=solver, **SETTINGS.get(solver, {}), **more)  # noqa: E731
    assert_goes_on_from_every_step(make, (Chunks(chunks),), tmp_path)


def wide_sparse():
    """Dual coordinate descent makes the start."""
    return sparse_classes()


def tall():
    """A sample makes the start."""
    return dense(20_000, 10)


def single():
    X, y = dense()
    return X.astype(np.float32), y


def far():
    return X + 1e4, Y


@pytest.mark.parametrize("data", [wide_sparse, tall, single, far], ids=lambda data: data.__name__)
def test_data_of_all_kinds_go_on_from_every_step(data, tmp_path):
    tol = 1e-5 if data is single else 1e-10
    assert_goes_on_from_every_step(lambda **more: LogisticRegression(tol=tol, **more), data(), tmp_path)


@pytest.mark.parametrize("settings", [{"C": np.inf}, {"class_weight": "balanced"}, {"fit_intercept": False}], ids=str)
def test_settings_of_all_kinds_go_on_from_every_step(settings, tmp_path):
    assert_goes_on_from_every_step(lambda **more: LogisticRegression(**settings, **more), (X, Y), tmp_path)


def test_weights_offsets_and_soft_labels_go_on(tmp_path):
    rng = np.random.default_rng(0)
    weight, offset, path = rng.integers(3, size=len(X)), rng.normal(size=len(X)), tmp_path / "checkpoint.npz"
    P = np.column_stack([1 - (share := rng.random(len(X))), share])
    for method, given in (("fit", (X, Y)), ("fit_soft", (X, P))):
        whole = getattr(LogisticRegression(), method)(*given, weight, offset)
        model = LogisticRegression(callbacks=[Checkpoint(path, every=0), interrupt_at(2)])
        with pytest.raises(Interrupted):
            getattr(model, method)(*given, weight, offset)
        assert_same(getattr(LogisticRegression(), method)(*given, weight, offset, resume_from=path), whole)


def test_fits_survive_being_killed(tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.killed_fits", str(tmp_path / "fits"), "9"]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert all(count >= 1 for count in json.loads(done.stdout)["killed"].values())


def test_a_fit_that_is_interrupted_again_and_again_goes_on(tmp_path):
    path, resume = tmp_path / "checkpoint.npz", {}
    whole = LogisticRegression(solver="scipy-lbfgs", tol=1e-12).fit(X, Y)
    for step in range(whole.n_iter_[0] + 1):
        callbacks = [Checkpoint(path, every=0), interrupt_at(step)]
        with pytest.raises(Interrupted):
            LogisticRegression(solver="scipy-lbfgs", tol=1e-12, callbacks=callbacks).fit(X, Y, **resume)
        resume = {"resume_from": path}
    assert_same(LogisticRegression(solver="scipy-lbfgs", tol=1e-12).fit(X, Y, **resume), whole)


# --- what a checkpoint is besides -------------------------------------------------------------------------


def save_third_step(path):
    with pytest.raises(Interrupted):
        LogisticRegression(tol=1e-12, callbacks=[Checkpoint(path, every=0), interrupt_at(3)]).fit(X, Y)
    return path


@pytest.fixture
def saved(tmp_path):
    return save_third_step(tmp_path / "checkpoint.npz")


def test_it_is_the_model_as_it_was_then(saved):
    model = LogisticRegression.load(saved)
    assert model.n_iter_[0] == 3
    assert "saved at step 3 of a fit that went on" in str(model.result_)
    assert not hasattr(model, "_stream")
    at_third = LogisticRegression(tol=0.0, max_iter=3).fit(X, Y)
    np.testing.assert_allclose(model.coef_, at_third.coef_, rtol=1e-9)


def test_one_that_is_finished_is_the_answer_and_goes_on_if_more_is_asked_for(tmp_path):
    path, rows = tmp_path / "checkpoint.npz", []
    LogisticRegression(solver="bbm", tol=1e-3, callbacks=[Checkpoint(path)]).fit(X, Y)
    watch = [lambda row, theta: rows.append(row["step"])]
    rough = LogisticRegression(solver="bbm", tol=1e-3, callbacks=watch).fit(X, Y, resume_from=path)
    assert rows == [rough.n_iter_[0]]
    fine = LogisticRegression(solver="bbm", tol=1e-13).fit(X, Y, resume_from=path)
    assert fine.n_iter_ > rough.n_iter_
    assert difference(found(fine), found(LogisticRegression(solver="bbm", tol=1e-13).fit(X, Y))) == ""
    assert LogisticRegression(solver="bbm", max_iter=1).fit(X, Y, resume_from=path).n_iter_ == rough.n_iter_


def test_early_stopping_remembers(tmp_path):
    path, validation = tmp_path / "checkpoint.npz", dense(50, 6, 9)
    make = lambda *more: LogisticRegression(  # noqa: E731
        C=100.0, solver="scipy-lbfgs", callbacks=[EarlyStopping(*validation, patience=3), *more], tol=0.0
    )
    whole = make().fit(X, Y)
    assert whole.result_.message.startswith("stopped after")
    every = EveryStep(path)
    make(Checkpoint(path, every=0), every).fit(X, Y)
    for kept in every.kept:
        assert_same(make().fit(X, Y, resume_from=kept), whole)


def test_scores_that_are_too_many_are_found_again(tmp_path, monkeypatch):
    monkeypatch.setattr("majorant.estimators.saving.MOST_SCORES", 0)
    path = tmp_path / "checkpoint.npz"
    whole = LogisticRegression(tol=1e-12).fit(X, Y)
    with pytest.raises(Interrupted):
        LogisticRegression(tol=1e-12, callbacks=[Checkpoint(path, every=0), interrupt_at(2)]).fit(X, Y)
    model = LogisticRegression(tol=1e-12).fit(X, Y, resume_from=path)
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-9)
    assert model.n_iter_ == whole.n_iter_


def test_a_long_run_of_scipy_starts_afresh_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("majorant.core.solver.MOST_TOLD", 20)
    path = tmp_path / "checkpoint.npz"
    with pytest.raises(Interrupted):
        LogisticRegression(solver="scipy-lbfgs", callbacks=[Checkpoint(path, every=0), interrupt_at(4)]).fit(X, Y)
    model = LogisticRegression(solver="scipy-lbfgs").fit(X, Y, resume_from=path)
    assert "started afresh" in str(model.result_)
    np.testing.assert_allclose(model.coef_, LogisticRegression(tol=1e-12).fit(X, Y).coef_, rtol=1e-3, atol=1e-4)
    assert model.result_.converged
    assert model.trace_["step"].tolist() == list(range(model.n_iter_[0] + 1))


def test_minimize_goes_on_from_the_progress_of_a_run():
    F = Objective(Binary(), Labelled(X, Y), ridge=1.0)

    class Watch:
        kept = ()

        def follow(self, progress):
            self.progress = progress

        def __call__(self, row, theta):
            self.kept = (*self.kept, self.progress())

    watch = Watch()
    whole = minimize(F, QuasiNewton(), callback=watch)
    for progress in watch.kept:
        again = minimize(F, start=progress)
        np.testing.assert_array_equal(again.params, whole.params)
        np.testing.assert_array_equal(again.trace["passes"], whole.trace["passes"])
    with pytest.raises(ValueError, match="with the solver it began with"):
        minimize(F, LBFGS(), start=watch.kept[0])
    with pytest.raises(ValueError, match="the data differ"):
        minimize(Objective(Binary(), Labelled(X, 1 - Y), ridge=1.0), start=watch.kept[-1])
    with pytest.raises(ValueError, match="the run had 6 parameters, got data of 5"):
        minimize(Objective(Binary(), Labelled(X[:, 1:], Y), ridge=1.0), start=watch.kept[-1])


# --- disks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_disk_that_fails_is_reported_once_and_the_fit_goes_on(code, where, tmp_path, monkeypatch):
    path, whole = tmp_path / "checkpoint.npz", LogisticRegression(tol=1e-12).fit(X, Y)

    def fail(*_):
        raise OSError(code, os.strerror(code))

    def break_disk(row, theta):
        if row["step"] == 1:
            monkeypatch.setattr(os, where, fail)

    with pytest.warns(UserWarning, match=f"was not written .{os.strerror(code)}.; the fit goes on") as said:
        model = LogisticRegression(tol=1e-12, callbacks=[Checkpoint(path, every=0), break_disk]).fit(X, Y)
    assert len(said) == 1
    assert_same(model, whole)
    monkeypatch.undo()
    assert [each.name for each in tmp_path.iterdir()] == ["checkpoint.npz"]
    assert LogisticRegression.load(path).n_iter_[0] == 1
    assert_same(LogisticRegression(tol=1e-12).fit(X, Y, resume_from=path), whole)


def test_a_folder_that_vanishes_is_reported_once(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()

    def remove(row, theta):
        if row["step"] == 1:
            shutil.rmtree(folder)

    with pytest.warns(UserWarning, match="the fit goes on") as said:
        model = LogisticRegression(callbacks=[Checkpoint(folder / "checkpoint.npz", every=0), remove]).fit(X, Y)
    assert len(said) == 1
    assert model.result_.converged
    with pytest.raises(FileNotFoundError, match="in a folder that exists"):
        model.fit(X, Y)


def test_the_folder_is_flushed_after_the_file(tmp_path, monkeypatch):
    events, fsync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: events.append(Path(f"/proc/self/fd/{fd}").resolve()) or fsync(fd))
    monkeypatch.setattr(os, "replace", lambda a, b: events.append("rename") or replace(a, b))
    LogisticRegression().fit(X, Y).save(tmp_path / "model.npz")
    assert [events[0].parent, *events[1:]] == [tmp_path, "rename", tmp_path]


def test_what_killed_writers_left_is_removed_and_nothing_else(tmp_path):
    others = ["model.npz", "model.0123456.part.npz", "other.01234567.part.npz", "model.01234567.part.txt"]
    for name in [*others, "model.01234567.part.npz"]:
        (tmp_path / name).touch()
    remove_leftovers(tmp_path / "model.npz")
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(others)


@pytest.mark.usefixtures("untuned")
def test_slow_disks_are_written_to_less_often(tmp_path, monkeypatch):
    clock, times = [0.0], []
    monkeypatch.setattr("time.monotonic", lambda: clock[0])

    def write(*_):
        times.append(clock[0])
        clock[0] += 2.0

    monkeypatch.setattr("majorant.estimators.saving.write", write)

    def tick(row, theta):
        clock[0] += 1.0
        return row["step"] == 49

    callbacks = [Checkpoint(tmp_path / "model.npz", every=1), tick]
    LogisticRegression(solver="sgd", callbacks=callbacks, tol=0.0).fit(X, Y)
    assert times[:3] == [0.0, 22.0, 44.0]


# --- streams ----------------------------------------------------------------------------------------------


def stream(seed, columns=6, classes=2, rows=60, shift=0.0):
    rng = np.random.default_rng(seed)
    for k in range(6):
        X = rng.normal(size=(rows, columns)) + shift * (k > 1)
        yield X, (X[:, :classes] + rng.gumbel(size=(rows, classes))).argmax(axis=1)


STREAMS = {
    "by row": {"columns": 80},
    "whole": {},
    "by class": {"columns": 260, "classes": 4},
    "by column": {"columns": 2001, "classes": 3, "rows": 20},
    "moving": {"shift": 1e3},
}


@pytest.mark.filterwarnings("ignore:rows were foreseen worse")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", STREAMS)
def test_a_saved_stream_goes_on_to_the_last_bit(kind, dtype, tmp_path):
    path, classes = tmp_path / "stream.npz", np.arange(STREAMS[kind].get("classes", 2))
    never, saved = LogisticRegression(C=0.5), LogisticRegression(C=0.5)
    for X, y in stream(0, **STREAMS[kind]):
        for model in (never, saved):
            model.partial_fit(X.astype(dtype), y, classes=classes)
        assert difference({"coef": never.coef_}, {"coef": saved.coef_}) == ""
        np.testing.assert_array_equal(never.intercept_, saved.intercept_)
        assert str(saved.result_) == str(never.result_)
        assert saved.coef_.dtype == dtype
        saved.save(path, stream=True)
        saved = LogisticRegression.load(path)
    if kind == "whole":
        np.testing.assert_array_equal(saved.posterior_covariance(), never.posterior_covariance())
    with pytest.raises(ValueError, match=r"C was 0\.5 when the stream began"):
        saved.set_params(C=2.0).partial_fit(X.astype(dtype), y)


def test_without_its_stream_a_model_starts_afresh(tmp_path):
    model = LogisticRegression().partial_fit(X, Y, classes=[0, 1])
    model.save(tmp_path / "model.npz")
    assert not hasattr(LogisticRegression.load(tmp_path / "model.npz"), "_stream")
    with pytest.raises(ValueError, match="no stream to save"):
        LogisticRegression().fit(X, Y).save(tmp_path / "model.npz", stream=True)
