"""What the command line refuses, how it ends when it is killed, and what it leaves behind."""

import gzip
import json
import os
import pickle
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer")

import majorant
from majorant.cli import readers
from majorant.cli.files import Refusal
from tests.commands import call, flowers, invoke, read, shell, shell_of_several, warned, write


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


def test_a_refusal_ends_with_what_to_do():
    refusal = Refusal("column '{day}' is of type date32, neither numbers nor text", "leave it out with --drop {day}")
    assert str(refusal).endswith("neither numbers nor text; leave it out with --drop {day}")
    assert str(Refusal("{day}")) == "{day}"
    travelled = pickle.loads(pickle.dumps(refusal))  # as from the workers of a cluster
    assert (str(travelled), travelled.hint) == (str(refusal), refusal.hint)


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


# --- cells, columns and names that are not what they seem -------------------------------------------------

FIT = ("--target", "kind", "--drop", "id")


@pytest.fixture(params=["pyarrow", "csv"])
def reader(request, monkeypatch):
    """Let CSV be read by pyarrow, or by the csv module."""
    if request.param == "csv":
        monkeypatch.setattr(readers, "arrow_columns", lambda *_: None)


def spoilt(name, *cells, rows=120):
    """Return flowers with other cells in a column: pairs of a row, counted from 1, and what it holds."""
    columns = flowers(rows)
    for row, cell in cells:
        columns[name][row - 1] = cell
    return columns


@pytest.mark.parametrize("word", ["unknown", "six", "-", "1e3x", "n/a", "größe", "5.1.2"])
@pytest.mark.parametrize("how", [[], ["--batches", "--chunk-rows", "9"], ["--stream", "--chunk-rows", "9"]], ids=str)
def test_one_stray_word_is_named_by_its_cell(folder, reader, word, how):
    write(folder / "t.csv", spoilt("length", (70, word)))
    said = call("fit", "t.csv", *FIT, *how, "-m", "m.npz", code=1)
    assert f"column 'length' of t.csv is numeric except for {word!r} in row 70; mend that cell, empty it" in said
    assert "say --categorical 'length'" in said
    assert not (folder / "m.npz").exists()


def test_stray_words_are_counted_and_do_not_make_names_of_rows(folder):
    write(folder / "t.csv", spoilt("length", *((row, "unknown") for row in (3, 5, 70))))
    said = call("fit", "t.csv", *FIT, "--features", "length,width", "--missing", "drop", code=1)
    assert "numeric except for 'unknown' in row 3 (3 such cells in all)" in said
    assert "numeric except for" in call("compare", "t.csv", *FIT, code=1)
    write(folder / "t.csv", spoilt("length", (2, ""), (70, "unknown")))
    assert "except for 'unknown' in row 70" in call("fit", "t.csv", *FIT, "--missing", "drop", code=1)
    write(folder / "t.csv", spoilt("weight", (70, "unknown")))  # 1, 2 and 3 in all other rows
    assert "column 'weight' of t.csv is numeric except for 'unknown'" in call("fit", "t.csv", *FIT, code=1)
    assert "which is not a number (row 70); mend" in call("fit", "t.csv", *FIT, "--weight", "weight", code=1)


@pytest.mark.parametrize(
    ("cells", "levels"),
    [
        (["1", "2", "3+"] * 40, 3),
        (["0", "1"] * 55 + ["2+"] * 10, 3),
        ([str(i % 8) for i in range(115)] + ["8 or more"] * 5, 9),
        ([str(i) for i in range(100)] + ["none"] * 20, 101),
        (["true", "false", "unknown"] * 40, 3),
    ],
    ids=lambda value: str(value)[-25:],
)
def test_honest_categories_are_no_stray_words(folder, cells, levels):
    write(folder / "t.csv", flowers() | {"size": cells})
    call("fit", "t.csv", *FIT, "--features", "length,size", "-m", "m.npz")
    assert json.loads(call("info", "m.npz", "--json"))["text_columns"] == {"size": levels}


@pytest.mark.parametrize("how", [[], ["--batches", "--chunk-rows", "9"], ["--stream"]], ids=str)
def test_what_somebody_calls_categories_are_such(folder, how):
    columns = spoilt("length", (70, "unknown")) | {"zone": [f"0{i % 3}" for i in range(120)]}
    write(folder / "t.csv", columns)
    assert "no column 'zon'" in call("fit", "t.csv", *FIT, *how, "--categorical", "zon", code=1)
    call("fit", "t.csv", *FIT, *how, "--categorical", "length,zone", "-m", "m.npz")
    told = json.loads(call("info", "m.npz", "--json"))["text_columns"]
    assert told == {"length": len(set(columns["length"])), "colour": 3, "zone": 3}
    assert call("predict", "m.npz", "t.csv").count("\n") == 121
    np.savez("t.npz", X=np.ones((2, 2)), y=np.ones(2))
    assert "leave out --target" in call("fit", "t.npz", "--categorical", "a", code=1)


def test_stray_words_of_a_test_share_and_of_later_files(folder):
    write(folder / "t.csv", spoilt("length", (70, "unknown")))
    for seed in range(6):  # the row is trained on, or tested on
        said = call("fit", "t.csv", *FIT, "--test-size", "0.5", "--seed", str(seed), code=1)
        assert re.search(
            r"numeric except for 'unknown' in row 70|'unknown', which is not a number \(row 70\); mend", said
        )
    call("fit", write(folder / "good.csv", flowers()), *FIT, "-m", "m.npz")
    for command in ("predict", "evaluate"):
        assert "holds 'unknown', which is not a number (row 70); mend" in call(command, "m.npz", "t.csv", code=1)
    said = call("fit", "t.csv", *FIT, "--stream", "--classes", "rose,lily,daisy", "--chunk-rows", "50", code=1)
    assert "(row 70); mend" in said


@pytest.mark.parametrize("how", [[], ["--batches"], ["--stream"]], ids=str)
@pytest.mark.parametrize(("name", "counting"), [("", True), ("", False), ("Unnamed: 0", True)])
def test_an_index_is_no_feature(folder, reader, how, name, counting):
    columns = flowers()
    write(folder / "plain.csv", columns)
    write(folder / "t.csv", {name: [i if counting else 7 * i % 120 for i in range(120)]} | columns)
    said = warned("fit", "t.csv", *FIT, *how, "-m", "m.npz")
    assert said.count("\n") == 1
    assert (f"column {name!r}" if name else "a column without a name") in said
    assert ("counts the rows, as an index that pandas wrote does" in said) == counting
    call("fit", "plain.csv", *FIT, *how, "-m", "plain.npz")
    assert [call("predict", model, data) for model in ("m.npz", "plain.npz") for data in ("t.csv", "plain.csv")] == [
        call("predict", "plain.npz", "plain.csv")
    ] * 4
    assert "it has id, length" in call("fit", "t.csv", code=1).replace("Unnamed: 0, ", "")


def test_an_index_of_parquet_and_columns_of_trailing_commas(folder):
    index = {"__index_level_0__": [7 * i % 120 for i in range(120)]}
    assert "'__index_level_0__'" in warned("fit", write(folder / "t.parquet", index | flowers()), *FIT, "-m", "m.npz")
    lines = write(folder / "t.csv", flowers()).read_text().splitlines()
    (folder / "t.csv").write_text("".join(f"{line},,\n" for line in lines))
    assert "a column without a name in t.csv is no feature" in warned("fit", "t.csv", *FIT, "-m", "n.npz")
    assert call("predict", "m.npz", "t.csv") == call("predict", "n.npz", "t.csv")
    call("fit", "t.csv", *FIT, "--features", "length", "-m", "n.npz")


@pytest.mark.parametrize("how", [[], ["--batches", "--chunk-rows", "9"], ["--stream"]], ids=str)
def test_a_column_that_is_empty_throughout(folder, reader, how):
    write(folder / "t.csv", flowers() | {"nothing": [""] * 120})
    said = warned("fit", "t.csv", *FIT, *how, "--missing", "mean", "-m", "m.npz")
    assert said == "majorant: warning: column 'nothing' of t.csv is empty in all 120 rows: it is left out\n"
    assert json.loads(call("info", "m.npz", "--json"))["features"] == 6
    assert call("predict", "m.npz", write(folder / "plain.csv", flowers())) == call("predict", "m.npz", "t.csv")
    said = call("fit", "t.csv", *FIT, *how, code=1)
    assert "column 'nothing' of t.csv is empty in all" in said
    assert "--drop 'nothing'" in said
    said = call("fit", "t.csv", *FIT, *how, "--missing", "drop", code=1)
    assert ("no rows to learn from" if how else "column 'nothing' of t.csv is empty in all 120 rows") in said
    assert "is empty in all" in call("fit", "t.csv", *FIT, "--features", "nothing", "--missing", "mean", code=1)


# --- names of files ---------------------------------------------------------------------------------------


def test_predictions_are_not_written_under_a_name_of_something_else(folder):
    data = write(folder / "t.csv", flowers())
    call("fit", data, *FIT, "-m", "m.npz")
    for name in ("p.xlsx", "p.json", "p.npz", "p.parquet.gz", "p.xlsx.gz"):
        said = call("predict", "m.npz", data, "-o", name, code=1)
        assert f"cannot write {name}: predictions are written as .csv, .tsv, .jsonl" in said
        assert not (folder / name).exists()
    for name in ("p", "p.CSV", "p.txt", "p.csv.gz", "p.tsv.bz2", "p.jsonl.xz"):
        assert "120 predictions" in call("predict", "m.npz", data, "-o", name)
    assert gzip.decompress((folder / "p.csv.gz").read_bytes()).decode() == call("predict", "m.npz", data)


@pytest.mark.parametrize("name", ["precious.txt", "precious.npz", "precious.csv"])
def test_what_is_no_model_is_not_written_over(folder, name):
    data = write(folder / "t.csv", flowers())
    (folder / "s.conll").write_text("a X B\nb Y O\n\n" * 3)
    (folder / name).write_text("my thesis")
    for command in (
        ["fit", data, *FIT, "-m", name],
        ["fit", data, *FIT, "-m", "m.npz", "--checkpoint", name],
        ["crf", "train", "s.conll", "-m", name],
        ["choice", data, "--group", "id", "--choice", "kind", "--features", "length", "-o", name],
    ):
        said = call(*command, code=1)
        assert f"cannot write {name}: the file exists and holds no majorant model; choose another name" in said
    assert (folder / name).read_text() == "my thesis"
    (folder / name).write_text("")  # as mktemp leaves it
    for _ in range(2):  # a model may be written over
        call("fit", data, *FIT, "-m", name)
    assert "models are written as .npz; choose" in call("fit", data, *FIT, "-m", "m.xlsx", code=1)


def test_a_model_of_another_kind_names_the_command(folder):
    data = write(folder / "t.csv", flowers())
    (folder / "s.conll").write_text("a X B\nb Y O\n\n" * 3)
    call("fit", data, *FIT, "-m", "m.npz")
    call("crf", "train", "s.conll", "-m", "c.npz")
    assert "c.npz holds a ChainCRF: use `majorant crf tag`" in call("predict", "c.npz", data, code=1)
    assert "c.npz holds a ChainCRF: use `majorant crf eval`" in call("evaluate", "c.npz", data, code=1)
    assert "holds a LogisticRegression: use `majorant predict`" in call("crf", "tag", "m.npz", "s.conll", code=1)
    assert "use `majorant evaluate`" in call("crf", "eval", "m.npz", "s.conll", code=1)
    majorant.LogisticRegressionCV(cv=2).fit([[0.0], [1.0]] * 4, [0, 1] * 4).save("cv.npz")
    for command in (["predict", "cv.npz", data], ["info", "cv.npz"], ["crf", "tag", "cv.npz", "s.conll"]):
        assert "use majorant.LogisticRegressionCV.load in Python" in call(*command, code=1)


def test_packed_files_are_read_or_said_to_be_such(folder):
    pa = pytest.importorskip("pyarrow")
    whole = write(folder / "t.csv", flowers()).read_bytes()
    with pa.CompressedOutputStream("t.csv.zst", "zstd") as file:
        file.write(whole)
    call("fit", "t.csv.zst", *FIT, "-m", "m.npz")
    assert call("predict", "m.npz", "t.csv.zst") == call("predict", "m.npz", "t.csv")
    call("predict", "m.npz", "t.csv.zst", "-o", "p.csv.zst")
    with pa.CompressedInputStream("p.csv.zst", "zstd") as file:
        assert file.read().decode() == call("predict", "m.npz", "t.csv")
    packed = (folder / "t.csv.zst").read_bytes()
    for data, name, tool in ((packed, "zstd", "unzstd"), (gzip.compress(whole), "gzip", "gunzip")):
        (folder / "u.csv").write_bytes(data)
        assert f"u.csv is packed by {name}; unpack it with {tool}" in call("fit", "u.csv", *FIT, code=1)
        assert f"is packed by {name}" in call("crf", "train", "u.csv", code=1)
        assert "standard input is packed" in call("fit", "-", *FIT, code=1, stdin=data)
    (folder / "cut.csv.zst").write_bytes(packed[:-200])
    assert "cut.csv.zst cannot be unpacked" in call("fit", "cut.csv.zst", *FIT, code=1)
    assert "none.csv.zst: No such file" in call("fit", "none.csv.zst", *FIT, code=1)


@pytest.mark.parametrize("mark", ["#", "%", "//"])
def test_comments_above_the_header_or_below_are_hinted_at(folder, mark):
    text = write(folder / "t.csv", flowers()).read_text()
    for spoilt in (f"{mark} of a garden\n{text}", text.replace("\nf7,", f"\n{mark} half\nf7,")):
        (folder / "t.csv").write_text(spoilt)
        assert f"say --comment '{mark}' if lines that begin so are comments" in call("fit", "t.csv", *FIT, code=1)
        call("fit", "t.csv", *FIT, "--comment", mark, "-m", "m.npz")


def test_commas_between_spaces(folder, reader):
    columns = flowers()
    columns["colour"] = [each.split(",")[0] for each in columns["colour"]]
    columns["length"][7] = "NA"
    plain = write(folder / "t.csv", columns)
    spaced = folder / "s.csv"
    spaced.write_text(plain.read_text().replace(",", " , ").replace("\n", " \n"))
    facts = [
        json.loads(call("fit", data, *FIT, "--missing", "mean", "-m", "m.npz", "--json")) for data in (plain, spaced)
    ]
    assert {key: facts[0][key] for key in ("rows", "features", "classes", "gap")} == {
        key: facts[1][key] for key in ("rows", "features", "classes", "gap")
    }
    assert call("predict", "m.npz", spaced, "--keep", "colour") == call("predict", "m.npz", plain, "--keep", "colour")
