"""What the command line refuses, how it ends when it is killed, and what it leaves behind."""

import dataclasses
import json
import os
import re
import signal
import string
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("typer")

import majorant
from majorant.cli import advice, refusals
from tests.commands import call, flowers, invoke, read, shell, shell_of_several, write


def test_failures_are_one_line(folder):
    data = write(folder / "t.csv", flowers())
    call("fit", data, "--target", "kind", "--drop", "id", "-m", "m.npz")
    assert "it has id, length, colour, width, weight, kind" in call("fit", data, "--target", "sort", code=1)
    assert "--target" in call("fit", data, code=1)
    assert "none.csv: No such file" in call("fit", "none.csv", "--target", "kind", code=1)
    assert "holds no .parquet files" in call("fit", folder, "--target", "kind", code=1)
    assert "--drop id" in call("fit", data, "--target", "kind", code=1)
    assert "no folder" in call("fit", data, "--target", "kind", "--drop", "id", "-m", "no/m.npz", code=1)
    assert "solver must be one of" in call("fit", data, "--target", "kind", "--drop", "id", "--solver", "x", code=1)
    assert "delimiter must be one character" in call("fit", data, "--target", "kind", "--delimiter", "ab", code=1)
    assert "--class-weight must be" in call("fit", data, "--target", "kind", "--class-weight", "x", code=2)
    one_class = write(folder / "o.csv", {"x": [1, 2], "y": [0, 0]})
    assert "at least two classes" in call("fit", one_class, "--target", "y", code=1)
    assert "'zz'" in call("fit", data, "--target", "kind", "--features", "length,zz", code=1)
    (folder / "empty.csv").write_text("")
    assert "empty.csv is empty" in call("fit", "empty.csv", "--target", "kind", code=1)
    assert "empty.csv is empty" in call("predict", "m.npz", "empty.csv", code=1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--solver", "sbm"], "--solver sbm penalises every parameter: say --penalize-intercept"),
        (["--solver", "sbm", "--C", "inf", "--penalize-intercept"], "--C inf works with 'auto'"),
        (["--C", "0"], "--C must be positive (inf for no penalty), got 0"),
        (["--C", "inf", "--stream"], "--stream needs a penalty to start from, got --C inf; use a large --C"),
        (["--class-weight", "balanced", "--stream"], "--class-weight balanced is not known in a stream; say --class-w"),
        (["--solver", "x"], "--solver must be one of"),
        (["--missing", "guess"], "--missing must be one of"),
        (["--decimal", "x"], "--decimal must be one of"),
        (["--seed", "-1"], ""),
    ],
)
def test_failures_speak_of_flags(folder, arguments, sentence):
    data = write(folder / "t.csv", flowers())
    said = call("fit", data, "--target", "kind", "--drop", "id", *arguments, code=1)
    assert sentence in said
    assert not re.search(r"np\.inf|\w+=(True|False|')|partial_fit|ridge > 0|should not happen", said)


def test_a_solver_without_its_penalty_speaks_of_flags(folder):
    data = write(folder / "t.csv", flowers())
    said = call("compare", data, "--target", "kind", "--drop", "id", "--solvers", "sbm", "--ridge", "0", code=1)
    assert "say --ridge with a number above 0" in said


def test_advice_speaks_of_what_a_refusal_knows():
    for kind, words in advice.ADVICE.items():
        known = {field.name for field in dataclasses.fields(kind)}
        assert {name for _, name, _, _ in string.Formatter().parse(words) if name is not None} <= known
    refusal = refusals.UnusableType("{day}", "t.parquet", "date32")
    assert advice.explain(refusal).endswith("neither numbers nor text; leave it out with --drop {day}")
    assert advice.explain(ValueError("{day}")) == "{day}"


def test_standard_input_that_is_closed(folder):
    call("fit", write(folder / "t.csv", flowers()), "--target", "kind", "--drop", "id", "-m", "m.npz")
    commands = ("fit - --target kind", "predict m.npz -", "crf train -")
    for code, said in shell_of_several(*commands, redirect="<&-")[1]:
        assert code == 1
        assert said.startswith("majorant: error: standard input is closed: pipe a file into it")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_full_disk_is_named(folder):
    data = write(folder / "t.csv", flowers())
    call("fit", data, "--target", "kind", "--drop", "id", "-m", "m.npz")
    assert "/dev/full: No space left on device" in call("predict", "m.npz", data, "-o", "/dev/full", code=1)
    command = f"{sys.executable} -m majorant predict m.npz t.csv > /dev/full"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.stderr == "majorant: error: standard output: No space left on device\n"


def test_standard_output_that_is_closed(folder):
    write(folder / "t.csv", flowers())
    commands = ("fit t.csv --target kind --drop id -m m.npz", "predict m.npz t.csv")
    fitted, predicted = shell_of_several(*commands, redirect=">&-")[1]
    assert fitted == (0, "")
    assert predicted == (1, "majorant: error: standard output is closed: name a file with --out\n")


def test_models_that_are_none(folder):
    data = write(folder / "t.csv", flowers())
    call("fit", data, "--target", "kind", "--drop", "id", "-m", "m.npz")
    whole = (folder / "m.npz").read_bytes()
    for share in (0.3, 0.9):
        (folder / "cut.npz").write_bytes(whole[: int(share * len(whole))])
        assert "incomplete" in call("predict", "cut.npz", data, code=1)
    assert "not a saved majorant model" in call("evaluate", data, data, code=1)
    majorant.LogisticRegression().fit([[0.0], [1.0]], [0, 1]).save("bare.npz")
    assert "majorant fit" in call("predict", "bare.npz", data, code=1)


@pytest.mark.parametrize("notes", [["schema"], {"schema": 3}, {"schema": {"encoding": {}}}, {"templates": 3}])
def test_models_with_notes_that_are_damaged(folder, notes):
    data = write(folder / "t.csv", flowers())
    majorant.LogisticRegression().fit([[0.0], [1.0]], [0, 1]).save("m.npz", notes=notes)
    assert "m.npz" in call("predict", "m.npz", data, code=1)
    majorant.ChainCRF().fit([[["a"], ["b"]]], [["x", "y"]]).save("c.npz", notes=notes)
    (folder / "t.conll").write_text("a x\n")
    assert "c.npz" in call("crf", "tag", "c.npz", "t.conll", code=1)
    choice = majorant.ConditionalLogit(C=1.0).fit([[0.0], [1.0], [1.0], [0.5]], [0, 1, 1, 0], [0, 0, 1, 1])
    choice.save("l.npz", notes=notes)
    assert "log-likelihood" in call("info", "l.npz")


def test_wrong_usage():
    assert "No such option" in call("fit", "x.csv", "--boo", code=2)
    assert "No such command" in call("train", code=2)
    assert "MODEL" in call("predict", code=2)


def test_a_failed_prediction_leaves_the_old_file(folder):
    columns = flowers(200)
    call("fit", write(folder / "t.csv", columns), "--target", "kind", "--drop", "id", "-m", "m.npz")
    columns["length"][150] = "long"
    write(folder / "bad.csv", columns)
    (folder / "p.csv").write_text("old")
    assert "row 151" in call("predict", "m.npz", "bad.csv", "--out", "p.csv", code=1)
    assert (folder / "p.csv").read_text() == "old"
    assert not [path for path in folder.iterdir() if ".part" in path.name]


@pytest.mark.parametrize("problem", [TypeError("a number is needed"), KeyError("C"), RuntimeError("no room")], ids=repr)
def test_what_nobody_foresaw_is_one_line_and_debug_shows_where(folder, monkeypatch, problem):
    def fit(*_, **__):
        raise problem

    command = ("fit", write(folder / "t.csv", flowers()), "--target", "kind", "--drop", "id", "-m", "m.npz")
    monkeypatch.setattr(majorant.LogisticRegression, "fit", fit)
    sentence = f"{type(problem).__name__}: {problem} (this should not happen; --debug shows where)"
    assert call(*command, code=1) == f"majorant: error: {sentence}\n"
    assert not (folder / "m.npz").exists()
    with pytest.raises(type(problem)):
        invoke(*command, "--debug", catch_exceptions=False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_killed_in_the_middle_of_writing(folder, number):
    """The chunks come from a pipe that is never closed, so the process is killed while it writes."""
    columns = flowers()
    call("fit", write(folder / "t.csv", columns), "--target", "kind", "--drop", "id", "-m", "m.npz")
    (folder / "p.csv").write_text("old")
    os.mkfifo(folder / "pipe.csv")
    command = [sys.executable, "-m", "majorant", "predict", "m.npz", "pipe.csv", "--out", "p.csv"]
    # Whoever runs tests in the background has them ignore interrupts, and what they start as well.
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(number, signal.SIG_DFL)
    )
    with open(folder / "pipe.csv", "w") as pipe:
        text = (folder / "t.csv").read_text()
        header, _, rows = text.partition("\n")
        pipe.write(header + "\n" + rows * 600)  # three chunks and a half
        pipe.flush()  # returns once all but the last 64 kB have been read
        assert list(folder.glob("p.*.part.csv"))
        process.send_signal(number)
        process.wait(60)
    assert process.returncode == 128 + number
    said = process.stderr.read().decode()
    process.stderr.close()
    assert said == f"majorant: error: {'interrupted' if number == signal.SIGINT else f'ended by {number.name}'}\n"
    assert (folder / "p.csv").read_text() == "old"
    assert not list(folder.glob("*.part.csv"))


def test_a_signal_that_is_ignored_stays_so(folder):
    """As nohup has it: a pipe is open, so the command waits, and then goes on."""
    call("fit", write(folder / "t.csv", flowers()), "--target", "kind", "--drop", "id", "-m", "m.npz")
    os.mkfifo(folder / "pipe.csv")
    command = f"trap '' HUP; exec {sys.executable} -m majorant predict m.npz pipe.csv --out p.csv"
    process = subprocess.Popen(["sh", "-c", command], stdout=subprocess.DEVNULL)
    with open(folder / "pipe.csv", "w") as pipe:  # opens once the command reads
        process.send_signal(signal.SIGHUP)
        pipe.write((folder / "t.csv").read_text())
    assert process.wait(60) == 0
    assert len(read(folder / "p.csv")) == 120


def test_the_input_may_have_any_name(folder):
    data = write(folder / "p.part.csv", flowers())
    before = data.read_bytes()
    call("fit", data, "--target", "kind", "--drop", "id", "-m", "m.npz")
    assert call("predict", "m.npz", data, "-o", "p.csv").startswith("120 predictions")
    assert data.read_bytes() == before


def test_a_reader_that_leaves_is_no_error(folder):
    columns = flowers(3000)
    call("fit", write(folder / "t.csv", columns), "--target", "kind", "--drop", "id", "-m", "m.npz")
    command = f"{sys.executable} -m majorant predict m.npz t.csv --proba | head -1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.stdout == "prediction,p(daisy),p(lily),p(rose)\n"
    assert done.stderr == ""


def test_a_fit_that_is_cut_short_warns_and_still_saves(folder):
    data = write(folder / "t.csv", flowers())
    done = shell("fit", data, "--target", "kind", "--drop", "id", "--max-iter", "1", "-m", "m.npz", "--json")
    assert done.stderr.startswith("majorant: warning: ")
    assert done.stderr.count("\n") == 1
    assert json.loads(done.stdout)["steps"] == 1
    assert (folder / "m.npz").exists()


def test_debug_shows_the_traceback(folder):
    done = shell("fit", "none.csv", "--target", "x", "--debug", code=1)
    assert "Traceback" in done.stderr
    assert "Traceback" not in call("fit", "none.csv", "--target", "x", code=1)
