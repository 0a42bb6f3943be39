"""Experiments: result files, runs that are killed and resumed, figures and report, the command."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from majorant import LBFGS, SGD
from majorant.experiments import (
    EXPERIMENTS,
    FIGURES,
    Experiment,
    Method,
    Options,
    bound,
    document,
    report,
    run,
    store,
    texts,
)
from majorant.experiments.problem import prepare
from majorant.experiments.selection import cross_validated, tuned
from majorant.experiments.study import read_studies, read_study
from tests.commands import invoke

ROOT = Path(__file__).parent.parent
SMALL = Experiment(
    "small", "Small", "ecoli", 0.1, (Method("LBFGS", LBFGS()), Method("SGD", SGD(gain=0.01, batch_size=10))), passes=2
)
NO_DATA = Path(tempfile.gettempdir()) / "majorant-tests-without-data"
SHORT = ("ecoli", "--runs", 2, "--passes", 2)


def result_files(folder):
    found = (path for path in folder.rglob("*.json") if path.name != "plan.json")
    return sorted(path for path in found if ".part" not in path.name)


@pytest.fixture
def here(monkeypatch):
    """Run the command in this process, without any data; return what it answered."""
    for name in ("MAJORANT_DATA", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(NO_DATA))
    return lambda *arguments: invoke("reproduce", *arguments)


def test_a_run_is_a_file_with_all_that_made_it(tmp_path):
    plan = store.read(run(SMALL, tmp_path, Options(runs=2)))
    assert len(plan["files"]) == 5  # the optimum, and two solvers twice
    file = store.read(tmp_path / "results/small" / plan["files"][-1])
    assert file["solver"] == "SGD"
    assert file["seed"] == file["settings"]["seed"] == 1
    assert file["settings"]["solver"]["gain"] == 0.01
    assert set(file["versions"]) == {"majorant", "numpy", "scipy", "python"}
    assert {"passes", "cpu_seconds", "objective", "test_log_likelihood", "test_error"} <= set(file["trace"])
    assert file["trace"]["passes"][-1] == pytest.approx(2)


def test_a_finished_run_is_never_computed_again_and_a_changed_setting_is_another_file(tmp_path):
    events = []
    run(SMALL, tmp_path, Options(runs=1), events.append)
    assert not any(event.reused for event in events)
    assert events[-1].done == events[-1].total == 3
    before = {path: path.stat().st_mtime_ns for path in result_files(tmp_path)}
    again = []
    run(SMALL, tmp_path, Options(runs=1), again.append)
    assert sum(event.reused for event in again) == 3
    assert {path: path.stat().st_mtime_ns for path in result_files(tmp_path)} == before
    run(replace(SMALL, ridge=1.0), tmp_path, Options(runs=1))
    assert len(result_files(tmp_path)) == 6
    assert len(store.read(tmp_path / "results/small/plan.json")["files"]) == 3  # of the latest run


def test_runs_differ_by_seed_and_repeat_with_it(tmp_path):
    first, second = (read_study(run(SMALL, tmp_path / k, Options(runs=2)).parent) for k in "ab")
    ends = first.final("SGD", "objective")
    assert ends[0] != ends[1]
    np.testing.assert_array_equal(ends, second.final("SGD", "objective"))
    np.testing.assert_array_equal(first.of("SGD")[0]["trace"]["passes"], second.of("SGD")[0]["trace"]["passes"])


def test_starts_are_close_to_the_origin_whatever_the_scale():
    for name in ("toy", "ecoli"):
        problem = prepare(EXPERIMENTS[name])
        scores = problem.objective.model.scores(problem.start(3), problem.objective.data)
        assert 0.001 < np.std(scores) < 0.05


def test_missing_data_are_reported_not_raised(tmp_path, monkeypatch):
    monkeypatch.delenv("MAJORANT_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    plan = store.read(run(EXPERIMENTS["text"], tmp_path, Options(runs=1)))
    assert "put it at ssl_benchmark/text.npz" in plan["missing"]
    text = report.write_report(tmp_path)[0].read_text()
    assert "**Missing.** ssl_benchmark/text.npz is missing" in text


# The command, which sends itself a signal once it has written five results.
INTERRUPTED = """
import os, sys
from majorant.cli import main
from majorant.experiments import store

number, write, left = int(sys.argv.pop(1)), store.write, iter(range(4, -1, -1))

def write_and_signal(path, contents):
    write(path, contents)
    if next(left) == 0:
        os.kill(os.getpid(), number)

store.write = write_and_signal
main()
"""


def interrupted(out, with_signal):
    """Run the command, interrupted in the middle; return its code, what it said, and the files it had finished."""
    call = [sys.executable, "-c", INTERRUPTED, str(int(with_signal)), "reproduce", *map(str, SHORT), "--out", str(out)]
    environment = {**os.environ, "MAJORANT_DATA": str(NO_DATA), "XDG_CACHE_HOME": str(NO_DATA)}
    done = subprocess.run(call, capture_output=True, text=True, timeout=120, check=False, env=environment)
    return done.returncode, done.stderr, {path: path.read_bytes() for path in result_files(out)}


def test_a_killed_run_is_resumed(here, tmp_path):
    code, _, finished = interrupted(tmp_path, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert not (tmp_path / "report.md").exists()
    assert len(finished) == 5
    for contents in finished.values():
        assert json.loads(contents)["trace"]  # no half-written file has the name of a finished one
    done = here(*SHORT, "--out", tmp_path)
    assert done.exit_code == 0, done.stderr
    assert f"{len(finished)} runs were there already" in done.stderr
    assert {path: path.read_bytes() for path in finished} == finished
    assert len(store.read(tmp_path / "results/ecoli/plan.json")["files"]) == 13


def test_an_interrupt_is_one_line(tmp_path):
    code, errors, _ = interrupted(tmp_path, signal.SIGINT)
    assert code == 130
    assert errors.strip().splitlines()[-1] == "majorant: error: interrupted"
    assert not list(tmp_path.rglob("*.part*"))


def test_cross_validation_and_tuning_are_kept(tmp_path, monkeypatch):
    problem = prepare(replace(EXPERIMENTS["ecoli"], rows=120))
    choice = store.read(cross_validated(problem, tmp_path))
    assert choice["best"] == choice["ridges"][int(np.argmax(choice["scores"]))]
    assert choice["best"] <= 1.0  # the largest λ forget the data
    labels = {method.label: method.solver for method in tuned(problem, tmp_path)}
    assert labels["SGD tuned"].schedule == "constant"
    assert labels["ASGD tuned"].schedule != "constant"
    monkeypatch.setattr("majorant.experiments.selection.tune", None)  # whoever tunes again fails
    monkeypatch.setattr("majorant.experiments.selection.minimize", None)
    assert {method.label: method.solver for method in tuned(problem, tmp_path)} == labels
    assert store.read(cross_validated(problem, tmp_path)) == choice


def test_the_ridge_of_ecoli_is_the_one_that_cross_validation_finds(tmp_path):
    choice = store.read(cross_validated(prepare(EXPERIMENTS["ecoli"]), tmp_path))
    assert choice["best"] == EXPERIMENTS["ecoli"].ridge == EXPERIMENTS["ecoli-updates"].ridge


def test_report_and_figures(tmp_path):
    experiment = replace(EXPERIMENTS["toy"], passes=2)
    run(experiment, tmp_path, Options(runs=1))
    bound.run(tmp_path)
    paths = report.write_report(tmp_path)
    assert {path.name for path in paths} == {"report.md", "report.html", "bound.png", "toy-passes.png", "toy-data.png"}
    text, page = (tmp_path / "report.md").read_text(), (tmp_path / "report.html").read_text()
    for image in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text):
        assert (tmp_path / image).stat().st_size > 5_000
    assert page.count("data:image/png;base64,") == 3
    assert 'src="http' not in page
    assert 'name="viewport"' in page
    assert "a single pass suffices" in text
    assert "E7" in text
    assert read_studies(tmp_path)["toy"].plan["size"] == 6


def test_long_runs_are_thinned_after_the_comparison():
    trace = {"passes": np.arange(0, 500, 0.5), "objective": np.arange(1000.0)}
    kept = store.thin(trace, ("passes", "objective"), dense_until=30)
    assert kept["passes"][:62] == trace["passes"][:62].tolist()
    assert kept["passes"][-1] == 499.5
    assert 140 < len(kept["passes"]) < 170
    short = store.thin({"passes": np.array([0.0, 1.0])}, ("passes",), dense_until=30)
    assert short == {"passes": [0.0, 1.0]}


def test_first_order_methods_run_as_long_as_the_others_take():
    experiment = EXPERIMENTS["text"]
    lengths = {method.label: experiment.passes_of(method) for method in experiment.methods}
    assert lengths == {"LBFGS": 30, "SGD": 500, "ASGD": 500, "SBM": 30, "proximal": 30}


def test_the_evidence_of_the_errata_exists():
    for row in texts.ERRATA:
        path, test = row[-1].strip("`").split("::")
        assert f"def {test}(" in (ROOT / path).read_text()


def test_the_errata_are_worded_once():
    assert (ROOT / "docs" / "errata.md").read_text() == report.errata_page()
    said = document.to_markdown(report.errata(level=2)).strip()
    assert said in (ROOT / "docs" / "reproduction" / "report.md").read_text()


def test_the_table_is_that_of_the_paper():
    gains = {
        name: {m.label: m.solver.gain for m in EXPERIMENTS[name].methods if isinstance(m.solver, SGD)}
        for name in ("toy", "ecoli", "secstr", "mnist", "digit1", "text", "gisette")
    }
    assert gains == {
        "toy": {"SGD": 1e-8, "ASGD": 1e-5},
        "ecoli": {"SGD": 1e-2, "ASGD": 1e-1},
        "secstr": {"SGD": 1e-4, "ASGD": 1e-1},
        "mnist": {"SGD": 1e-1, "ASGD": 1e-1},
        "digit1": {"SGD": 1e-4, "ASGD": 1e-3},
        "text": {"SGD": 1e-4, "ASGD": 1e-2},
        "gisette": {"SGD": 1e-3, "ASGD": 1e-1},
    }
    assert [EXPERIMENTS[name].ridge for name in ("toy", "secstr", "mnist", "digit1", "text", "gisette")] == [
        10.0, 10.0, 0.01, 10.0, 10.0, 1.0,
    ]  # fmt: skip
    sbm = next(m for m in EXPERIMENTS["digit1"].methods if m.label == "SBM").solver_for(0, 1350, 0.2)
    assert (sbm.rank, sbm.step_size, sbm.restart) == (1, 50 / 1350, False)
    assert {name for names in FIGURES.values() for name in names} == set(EXPERIMENTS)


def test_the_command_speaks_json(here, tmp_path):
    done = here("bound", "--out", tmp_path, "--json")
    assert done.exit_code == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["claims"] == []
    assert str(tmp_path / "report.md") in answer["files"]


def test_the_command_shows_tables_and_says_what_it_wrote(here, tmp_path):
    done = here("ecoli", "--runs", 1, "--passes", 1, "--cv", "--out", tmp_path)
    assert done.exit_code == 0, done.stderr
    assert "1 runs of 1 passes" in done.stdout
    assert "Claims of the paper" in done.stdout
    assert str(tmp_path / "report.md") in done.stdout
    assert store.read(tmp_path / "results/ecoli/plan.json")["cross_validation"]["ridges"]


def test_nothing_to_run_is_a_failure_that_names_what_is_missing(here, tmp_path):
    done = here("text", "--out", tmp_path)
    assert done.exit_code == 1
    assert "nothing could be run" in done.stderr
    assert "ssl_benchmark/text.npz is missing" in done.stderr


def test_the_command_refuses_what_it_does_not_know(here, tmp_path):
    done = here("iris", "--out", tmp_path)
    assert done.exit_code == 2
    assert "'iris' is none of bound, toy, ecoli" in done.stderr
