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
from reproduction import document, report, store
from reproduction.experiments import EXPERIMENTS, FIGURES, Experiment, Method
from reproduction.figures import compute_bound
from reproduction.runner import Options, cross_validated, run, tuned
from reproduction.study import read_studies, read_study
from tests.commands import invoke

ROOT = Path(__file__).parents[2]
SMALL = Experiment(
    "small", "Small", "ecoli", 0.1, (Method("LBFGS", LBFGS()), Method("SGD", SGD(gain=0.01, batch_size=10))), passes=2
)
NO_DATA = Path(tempfile.gettempdir()) / "majorant-tests-without-data"
SHORT = ("ecoli", "--runs", 2, "--passes", 2)


def entries(out, experiment):
    """Return what is kept of an experiment, line by line of its file, the plan left out."""
    file = store.file_of(out, experiment)
    lines = dict(line.rstrip(",").split(":", 1) for line in file.read_text().splitlines()[1:-1])
    return {json.loads(name): text for name, text in lines.items() if name != '"plan"'}


def plan_of(file):
    return store.read(file)["plan"]


@pytest.fixture
def here(monkeypatch):
    """Run the command in this process, without any data; return what it answered."""
    for name in ("MAJORANT_DATA", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(NO_DATA))
    return lambda *arguments: invoke("reproduce", *arguments)


def test_an_experiment_is_a_file_and_a_run_a_line_with_all_that_made_it(tmp_path):
    kept = store.read(run(SMALL, tmp_path, Options(runs=2)))
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["small.json"]
    assert len(kept["plan"]["entries"]) == 5  # the optimum, and two solvers twice
    found = kept[kept["plan"]["entries"][-1]]
    assert found["solver"] == "SGD"
    assert found["seed"] == found["settings"]["seed"] == 1
    assert found["settings"]["solver"]["gain"] == 0.01
    assert set(found["versions"]) == {"majorant", "numpy", "scipy", "python"}
    assert {"passes", "cpu_seconds", "objective", "test_log_likelihood", "test_error"} <= set(found["trace"])
    assert found["trace"]["passes"][-1] == pytest.approx(2)
    assert set(entries(tmp_path, "small")) == set(kept) - {"plan"}


def test_a_finished_run_is_never_computed_again_and_a_changed_setting_is_another_run(tmp_path):
    events = []
    run(SMALL, tmp_path, Options(runs=1), events.append)
    assert not any(event.reused for event in events)
    assert events[-1].done == events[-1].total == 3
    before = entries(tmp_path, "small")
    again = []
    run(SMALL, tmp_path, Options(runs=1), again.append)
    assert sum(event.reused for event in again) == 3
    assert entries(tmp_path, "small") == before
    run(replace(SMALL, ridge=1.0), tmp_path, Options(runs=1))
    assert len(entries(tmp_path, "small")) == 6
    assert len(plan_of(store.file_of(tmp_path, "small"))["entries"]) == 3  # of the latest run


def test_entries_are_kept_as_they_are_read_and_leftovers_are_not_read(tmp_path):
    file = store.file_of(tmp_path, "some")
    first = store.remember(file, "one", {"a": 1}, lambda: {"x": 0.1, "pair": (1, 2), "where": Path("there")})
    assert first.contents == store.read(file)[first.name]  # tuples are lists, paths are text
    text = file.read_text()
    again = store.remember(file, "one", {"a": 1}, lambda: pytest.fail("computed again"))
    assert again == (first.name, first.contents, True)
    assert file.read_text() == text
    other = store.remember(file, "one", {"a": 2}, lambda: {"x": 0.2})
    assert list(store.read(file)) == [first.name, other.name]
    store.put(file, "plan", {"k": 1})
    store.put(file, "plan", {"k": 2})
    assert store.read(file)["plan"] == {"k": 2}
    file.with_name("some.01234567.part.json").write_text('{"half')  # of a writer that was killed
    assert store.files(tmp_path) == [file]
    with pytest.raises(ValueError, match="JSON compliant"):
        store.put(file, "bad", {"x": float("nan")})
    assert "bad" not in store.read(file)


def test_what_another_process_has_kept_meanwhile_stays(tmp_path):
    file = store.file_of(tmp_path, "some")

    def slow():
        store.remember(file, "other", {}, lambda: {"x": 2})
        return {"x": 1}

    store.remember(file, "one", {}, slow)
    assert sorted(entry["x"] for entry in store.read(file).values()) == [1, 2]


def test_the_results_in_the_repository_are_whole_and_few():
    published = ROOT / "docs/reproduction"
    files = store.files(published) or pytest.skip("source distributions hold none")
    assert {file.stem for file in files} == {*EXPERIMENTS, "bound", "latent"}
    assert [path for path in (published / "results").rglob("*") if path not in files] == []
    for name, study in read_studies(published).items():
        assert study.missing or len(study.runs) == 1 + study.plan["runs"] * len(study.plan["methods"]), name
        for kept in store.read(store.file_of(published, name)):
            assert kept == "plan" or re.fullmatch(r".*-[0-9a-f]{10}", kept)


def test_runs_differ_by_seed_and_repeat_with_it(tmp_path):
    first, second = (read_study(run(SMALL, tmp_path / k, Options(runs=2))) for k in "ab")
    ends = first.final("SGD", "objective")
    assert ends[0] != ends[1]
    np.testing.assert_array_equal(ends, second.final("SGD", "objective"))
    np.testing.assert_array_equal(first.of("SGD")[0]["trace"]["passes"], second.of("SGD")[0]["trace"]["passes"])


def test_starts_are_close_to_the_origin_whatever_the_scale():
    for name in ("toy", "ecoli"):
        problem = EXPERIMENTS[name].problem()
        scores = problem.objective.model.scores(problem.start(3), problem.objective.data)
        assert 0.001 < np.std(scores) < 0.05


def test_missing_data_are_reported_not_raised(tmp_path, monkeypatch):
    monkeypatch.delenv("MAJORANT_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    plan = plan_of(run(EXPERIMENTS["text"], tmp_path, Options(runs=1)))
    assert "put it at ssl_benchmark/text.npz" in plan["missing"]
    text = report.write_report(tmp_path)[0].read_text()
    assert "**Missing.** ssl_benchmark/text.npz is missing" in text


# The command, which sends itself a signal once it has written five results.
INTERRUPTED = """
import os, sys
from majorant.cli import main
from reproduction import store

number, write, left = int(sys.argv.pop(1)), store.write, iter(range(4, -1, -1))

def write_and_signal(path, entries):
    write(path, entries)
    if next(left) == 0:
        os.kill(os.getpid(), number)

store.write = write_and_signal
main()
"""


def interrupted(out, with_signal):
    """Run the command, interrupted in the middle; return its code, what it said, and the runs it had finished."""
    call = [sys.executable, "-c", INTERRUPTED, str(int(with_signal)), "reproduce", *map(str, SHORT), "--out", str(out)]
    environment = {**os.environ, "MAJORANT_DATA": str(NO_DATA), "XDG_CACHE_HOME": str(NO_DATA)}
    done = subprocess.run(call, capture_output=True, text=True, timeout=120, check=False, env=environment)
    return done.returncode, done.stderr, entries(out, "ecoli")


def test_a_killed_run_is_resumed(here, tmp_path):
    code, _, finished = interrupted(tmp_path, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert not (tmp_path / "report.md").exists()
    assert len(finished) == 5
    for contents in finished.values():
        assert json.loads(contents)["trace"]  # nothing is half written
    done = here(*SHORT, "--out", tmp_path)
    assert done.exit_code == 0, done.stderr
    assert f"{len(finished)} runs were there already" in done.stderr
    kept = entries(tmp_path, "ecoli")
    assert {name: kept[name] for name in finished} == finished
    assert len(plan_of(store.file_of(tmp_path, "ecoli"))["entries"]) == 13


def test_an_interrupt_is_one_line(tmp_path):
    code, errors, _ = interrupted(tmp_path, signal.SIGINT)
    assert code == 130
    assert errors.strip().splitlines()[-1] == "majorant: error: interrupted"
    assert not list(tmp_path.rglob("*.part*"))


def test_cross_validation_and_tuning_are_kept(tmp_path, monkeypatch):
    problem = replace(EXPERIMENTS["ecoli"], rows=120).problem()
    file = store.file_of(tmp_path, "ecoli")
    choice = cross_validated(problem, file)
    assert choice["best"] == choice["ridges"][int(np.argmax(choice["scores"]))]
    assert choice["best"] <= 1.0  # the largest λ forget the data
    labels = {method.label: method.solver for method in tuned(problem, file)}
    assert labels["SGD tuned"].schedule == "constant"
    assert labels["ASGD tuned"].schedule != "constant"
    monkeypatch.setattr("reproduction.runner.tune", None)  # whoever tunes again fails
    monkeypatch.setattr("reproduction.runner.minimize", None)
    assert {method.label: method.solver for method in tuned(problem, file)} == labels
    assert cross_validated(problem, file) == choice


def test_the_ridge_of_ecoli_is_the_one_that_cross_validation_finds(tmp_path):
    choice = cross_validated(EXPERIMENTS["ecoli"].problem(), store.file_of(tmp_path, "ecoli"))
    assert choice["best"] == EXPERIMENTS["ecoli"].ridge == EXPERIMENTS["ecoli-updates"].ridge


def test_report_and_figures(tmp_path):
    experiment = replace(EXPERIMENTS["toy"], passes=2)
    run(experiment, tmp_path, Options(runs=1))
    compute_bound(tmp_path)
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
    for row in report.ERRATA:
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
    assert plan_of(store.file_of(tmp_path, "ecoli"))["cross_validation"]["ridges"]


def test_nothing_to_run_is_a_failure_that_names_what_is_missing(here, tmp_path):
    done = here("text", "--out", tmp_path)
    assert done.exit_code == 1
    assert "nothing could be run" in done.stderr
    assert "ssl_benchmark/text.npz is missing" in done.stderr


def test_the_command_refuses_what_it_does_not_know(here, tmp_path):
    done = here("iris", "--out", tmp_path)
    assert done.exit_code == 2
    assert "'iris' is none of bound, toy, ecoli" in done.stderr
