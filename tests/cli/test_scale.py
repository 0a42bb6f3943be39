"""The command line on files larger than memory: pass by pass, on clusters, killed and resumed, in little memory."""

import csv
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer")

from majorant import LogisticRegression, callbacks
from majorant.cli import predict
from majorant.cli.readers import files_of
from majorant.cli.schema import Schema
from tests.commands import call, flowers, invoke, read, shell, warned, write, write_svmlight

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

COLUMNS = ("--target", "kind", "--drop", "id")
EXACT = ("--tol", "1e-12")


def in_parts(columns, into, ending, parts=3, **settings):
    """Write a table as several files; return the folder."""
    into.mkdir(exist_ok=True)
    for number, some in enumerate(np.array_split(np.arange(len(columns["id"])), parts)):
        part = {name: [values[i] for i in some] for name, values in columns.items()}
        path = into / f"part-{number}.{ending}"
        if ending == "parquet":
            parquet.write_table(pa.table(part), path, **settings)
        else:
            write(path, part)
    return into


def names(model):
    return Schema.from_json(model.notes_["schema"]).encoding.names


def same_models(ours, theirs, atol=5e-6):  # gaps allow no less
    ours, theirs = LogisticRegression.load(ours), LogisticRegression.load(theirs)
    assert ours.classes_.tolist() == theirs.classes_.tolist()
    assert names(ours) == names(theirs)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=atol)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=10 * atol)
    return ours


# --- pass by pass -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        ("--weight", "weight"),
        ("--features", "length,width", "--standardize"),
        ("--class-weight", "balanced", "--C", "0.3"),
        ("--no-intercept", "--solver", "newton"),
    ],
    ids=["weights and categories", "numbers", "class weights", "newton"],
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_batches_find_what_memory_finds(folder, ending, more):
    columns = flowers()
    data = write(folder / f"whole.{ending}", columns)
    in_parts(columns, folder / "parts", ending, **({"row_group_size": 11} if ending == "parquet" else {}))
    call("fit", data, *COLUMNS, *EXACT, *more, "-m", "memory.npz")
    parts = "parts" if ending == "parquet" else "parts/*.csv"
    said = json.loads(call("fit", parts, *COLUMNS, *EXACT, *more, "--batches", "--chunk-rows", "17", "--json"))
    assert said["rows"] == 120
    assert said["passes"] >= 1
    assert said["seconds"] > 0
    assert said["gap"] <= 1e-12 or "--no-intercept" in more
    assert Path(said["model"]).name == ("parts.model.npz" if ending == "parquet" else "part-0.model.npz")
    ours = same_models(said["model"], "memory.npz")
    assert ours.notes_["rows"] == 120
    call("predict", said["model"], data, "-o", "ours.csv")
    call("predict", "memory.npz", data, "-o", "theirs.csv")
    assert read("ours.csv") == read("theirs.csv")


def test_batches_of_svmlight(folder):
    data = write_svmlight(folder / "t.svm")
    lines = data.read_text().splitlines(keepends=True)
    (folder / "a.svm").write_text("".join(lines[:70]))
    with gzip.open(folder / "b.svm.gz", "wt") as file:
        file.write("".join(lines[70:]))
    call("fit", data, *EXACT, "-m", "memory.npz")
    call("fit", "a.svm", "b.svm.gz", *EXACT, "--batches", "--chunk-rows", "32", "-m", "ours.npz")
    same_models("ours.npz", "memory.npz")


def test_batches_leave_out_rows_and_settle_types(folder):
    """A column that is numbers in the first chunks and words later on is text; rows that lack a value are no rows."""
    columns = flowers()
    columns["grade"] = [str(i % 3) for i in range(100)] + ["good"] * 20
    columns["width"][7] = columns["kind"][90] = ""
    data = write(folder / "t.csv", columns)
    common = (*COLUMNS, *EXACT, "--missing", "drop")
    call("fit", data, *common, "-m", "memory.npz")
    assert "trained on 118 rows" in call("fit", data, *common, "--batches", "--chunk-rows", "9", "-m", "ours.npz")
    ours = same_models("ours.npz", "memory.npz")
    assert ours.n_features_in_ == 3 + 3 + 4


def test_several_files_are_one_table(folder):
    """Columns in another order, and files without rows, as some writers leave them, do not matter."""
    columns = flowers()
    whole = write(folder / "whole.csv", columns)
    parts = in_parts(columns, folder / "parts", "csv")
    other = read(parts / "part-1.csv")
    write(parts / "part-1.csv", {name: [row[name] for row in other] for name in reversed(other[0])})
    write(parts / "part-3.csv", {name: [] for name in columns})
    call("fit", whole, *COLUMNS, "-m", "one.npz")
    said = call("fit", *sorted(parts.iterdir()), *COLUMNS, "-m", "many.npz")
    assert "trained on 120 rows" in said
    assert same_models("many.npz", "one.npz", atol=1e-10).notes_["trained_on"] == "part-0.csv and 3 more files"
    assert "120 predictions" in call("predict", "one.npz", "parts/*.csv", "-o", "p.csv")
    assert json.loads(call("evaluate", "one.npz", parts / "part-0.csv", parts / "part-1.csv", "--json"))["rows"] == 80
    chunked = ("--stream", "--chunk-rows", "40")
    call("fit", whole, *COLUMNS, *chunked, "-m", "one.npz")
    assert "one pass over 120 rows in 3 chunks" in call("fit", "parts/*.csv", *COLUMNS, *chunked, "-m", "many.npz")
    same_models("many.npz", "one.npz", atol=1e-9)


def test_files_that_do_not_go_together(folder):
    columns = flowers()
    write(folder / "a.csv", columns)
    write(folder / "b.csv", {name: values for name, values in columns.items() if name != "width"})
    for how in ((), ("--batches",), ("--stream",)):
        assert "b.csv has no column 'width'" in call("fit", "a.csv", "b.csv", *COLUMNS, *how, code=1)
    write_svmlight(folder / "c.svm")
    assert "c.svm is svmlight" in call("fit", "a.csv", "c.svm", *COLUMNS, "--batches", code=1)
    (folder / "empty").mkdir()
    assert "holds no .parquet files" in call("fit", "empty", *COLUMNS, code=1)
    assert "no file matches none*.csv" in call("fit", "none*.csv", *COLUMNS, code=1)
    (folder / "nothing.csv").write_text("")
    assert "nothing.csv is empty" in call("fit", "nothing.csv", "nothing.csv", *COLUMNS, "--batches", code=1)


def test_folders_of_folders(folder):
    columns = flowers()
    for year in ("2023", "2024"):
        in_parts(columns, folder / year, "parquet", parts=2)
    (folder / "2024" / "_SUCCESS").write_text("")
    assert len(files_of(".")) == len(files_of("20*")) == len(files_of("20*/*.parquet")) == 4
    assert "trained on 240 rows" in call("fit", "20*", *COLUMNS, "--batches", "-m", "m.npz")


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        ({"width": None}, "column 'width' of parts/part-1.parquet lacks a value in row 32 (1 in all); say --missing"),
        ({"width": np.inf}, "column 'width' of parts/part-1.parquet is infinite in row 32"),
        ({"weight": -2}, "column 'weight' of parts/part-1.parquet holds the weight -2 in row 32, below zero"),
        ({"kind": None}, "row 32 of parts/part-1.parquet has no label"),
    ],
)
def test_what_is_wrong_is_named_by_file_and_row(folder, spoil, sentence):
    columns = flowers()
    for name, value in spoil.items():
        columns[name][40 + 31] = value
    in_parts(columns, folder / "parts", "parquet", row_group_size=10)
    arguments = ("fit", "parts", *COLUMNS, "--weight", "weight", "-m", "m.npz")
    for how in ("--batches", "--stream"):
        assert sentence in call(*arguments, how, code=1)
    assert not (folder / "m.npz").exists()


def test_bad_files_are_named(folder):
    data = in_parts(flowers(), folder / "parts", "parquet", row_group_size=10, use_dictionary=False, compression="gzip")
    path = data / "part-2.parquet"
    group = parquet.ParquetFile(path).metadata.row_group(2).column(1)
    spoilt = bytearray(path.read_bytes())
    begin = group.data_page_offset
    spoilt[begin : begin + group.total_compressed_size] = b"\xff" * group.total_compressed_size
    path.write_bytes(spoilt)
    said = call("fit", "parts", *COLUMNS, "--batches", "-m", "m.npz", code=1)
    assert re.search(r"parts/part-2.parquet, row group \d cannot be read", said)
    (folder / "t.svm").write_text("1 1:2\n0 1:3\n1 1:x\n")
    assert "t.svm is not svmlight text, in row 3" in call("fit", "t.svm", "--batches", code=1)
    assert sorted(each.name for each in folder.iterdir()) == ["parts", "t.svm"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--batches", "--stream"), "choose one"),
        (("--batches", "--test-size", "0.2"), "majorant evaluate"),
        (("--batches", "--classes", "a,b"), "--classes goes with --stream"),
        (("--resume",), "--resume needs --checkpoint"),
        (("--every", "3"), "--every needs --checkpoint"),
        (("--stream", "--checkpoint", "c.npz"), "not for --stream"),
        (("--checkpoint", "m.npz"), "must be two files"),
        (("--scheduler", "local", "--solver", "sgd"), "--scheduler goes with --solver auto"),
    ],
)
def test_options_that_do_not_go_together(folder, arguments, sentence):
    data = write(folder / "t.csv", flowers())
    assert sentence in call("fit", data, *COLUMNS, *arguments, "-m", "m.npz", code=2)


def test_standard_input_is_read_once(folder):
    data = write(folder / "t.csv", flowers())
    text = data.read_text()
    assert "name a file" in call("fit", "-", *COLUMNS, "--batches", code=2, stdin=text)
    assert "one pass" in call("fit", "-", *COLUMNS, "--stream", stdin=text)


def test_a_cut_short_fit_of_batches_says_so(folder):
    data = write(folder / "t.csv", flowers())
    assert "limit" in warned("fit", data, *COLUMNS, "--batches", "--max-iter", "1", "-m", "m.npz")


# --- checkpoints ------------------------------------------------------------------------------------------


def many_rows(path, rows=30_000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 12)) * np.geomspace(0.01, 10, 12)
    y = (X @ rng.normal(size=(12, 3)) + rng.gumbel(size=(rows, 3))).argmax(axis=1)
    table = pa.table({f"x{i}": X[:, i] for i in range(12)} | {"y": y})
    parquet.write_table(table, path, row_group_size=rows // 6)
    return path


def killed_once_saved(*arguments, checkpoint):
    """Start a fit and kill it as soon as it has written a checkpoint."""
    process = subprocess.Popen([sys.executable, "-m", "majorant", *map(str, arguments)], stdout=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not Path(checkpoint).exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.002)
    process.kill()
    return process.wait(60)


@pytest.mark.parametrize("how", [("--batches", "--chunk-rows", "7000"), ()], ids=["batches", "memory"])
def test_a_killed_fit_is_resumed_to_the_same_model(folder, how):
    data = many_rows(folder / "t.parquet")
    fit = ("fit", data, "--target", "y", "--tol", "1e-13", "--solver", "bbm", *how)
    call(*fit, "-m", "whole.npz")
    keep = ("--checkpoint", "c.npz", "--every", "0", "--resume", "-m", "m.npz")
    started = warned_of(*fit, *keep, "--max-iter", "3")
    assert "there is no checkpoint c.npz yet: the fit starts from the beginning" in started
    Path("c.npz").unlink()
    assert killed_once_saved(*fit, *keep, checkpoint="c.npz") == -signal.SIGKILL
    steps = LogisticRegression.load("c.npz").n_iter_[0]
    resumed = warned_of(*fit, *keep)
    assert resumed == ""
    ours, theirs = LogisticRegression.load("m.npz"), LogisticRegression.load("whole.npz")
    assert steps < ours.n_iter_[0] == theirs.n_iter_[0]
    np.testing.assert_array_equal(ours.coef_, theirs.coef_)
    np.testing.assert_array_equal(ours.intercept_, theirs.intercept_)
    assert ours.notes_["schema"] == theirs.notes_["schema"]


def warned_of(*arguments):
    """Run a command that should succeed; return what it says on standard error but for fits that were cut short."""
    result = invoke(*arguments)
    assert result.exit_code == 0, (result.stdout, result.stderr, result.exception)
    return "".join(line for line in result.stderr.splitlines(keepends=True) if "limit" not in line)


@pytest.mark.parametrize("room", [True, False])
def test_a_fit_in_batches_parses_a_file_once(folder, monkeypatch, room):
    """Where there is room for a copy; the model is the same without."""
    from majorant.cli import readers
    from majorant.sources import cache

    data = write(folder / "t.csv", flowers())
    fit = ("fit", data, *COLUMNS, "--batches", "--chunk-rows", "50", "--standardize")
    call(*fit, "-m", "m.npz")
    read = []
    monkeypatch.setattr(readers, "read_csv", lambda *given, real=readers.read_csv: read.append(1) or real(*given))
    monkeypatch.setattr(cache, "SHARE", cache.SHARE if room else 0.0)
    call(*fit, "-m", "n.npz")
    read = len(read)  # a row for the names of the columns, and all of them
    assert read == 1 if room else read > 2
    same_models("m.npz", "n.npz", atol=0)


def test_other_fits_are_not_resumed(folder):
    data = write(folder / "t.csv", flowers())
    keep = ("--batches", "--checkpoint", "c.npz", "-m", "m.npz")
    call("fit", data, *COLUMNS, *keep)
    assert "--C was 1.0 in the fit that is to be resumed, got 2.0; only --tol and --max-iter" in call(
        "fit", data, *COLUMNS, *keep, "--resume", "--C", "2", code=1
    )
    other = write(folder / "o.csv", flowers(seed=1))
    assert "--resume: c.npz is a checkpoint of other data" in call("fit", other, *COLUMNS, *keep, "--resume", code=1)
    keep = ("--batches", "--checkpoint", "m.npz", "-m", "n.npz")
    assert "holds a model, but no checkpoint" in call("fit", data, *COLUMNS, *keep, "--resume", code=1)
    assert "there is no folder" in call("fit", data, *COLUMNS, "--checkpoint", "no/c.npz", code=1)


# --- predictions and scores -------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [None, "drop"])
@pytest.mark.parametrize("target", ["kind", "weight"])
def test_predictions_are_the_same_in_every_format(folder, target, missing, monkeypatch):
    monkeypatch.setattr("majorant.cli.predict.ROW_GROUP", 50)
    monkeypatch.setattr("majorant.cli.readers.Source.chunks.__defaults__", (16,))
    columns = flowers()
    data = write(folder / "t.csv", columns)
    call("fit", data, "--target", target, "--features", "length,colour", "-m", "m.npz")
    columns["length"][:20] = [""] * 20 if missing else columns["length"][:20]
    data = write(folder / "new.csv", columns)
    for ending in ("csv", "tsv", "jsonl", "parquet"):
        more = () if missing is None else ("--missing", missing)
        call("predict", "m.npz", data, "-o", f"p.{ending}", "--keep", "id,width", "--proba", *more)
    rows = read("p.csv")
    assert [row["id"] for row in rows] == columns["id"]
    with open("p.tsv", newline="") as file:
        assert list(csv.DictReader(file, delimiter="\t")) == rows
    from_json = [json.loads(line) for line in Path("p.jsonl").read_text().splitlines()]
    written = parquet.ParquetFile("p.parquet")
    assert written.metadata.num_row_groups == 2
    assert written.read().to_pylist() == from_json
    as_text = [{name: "" if value is None else str(value) for name, value in row.items()} for row in from_json]
    assert as_text == rows
    assert (rows[0]["prediction"] == "") == (missing == "drop")


def test_scores_add_up():
    from sklearn import metrics

    rng = np.random.default_rng(0)
    for n in (2, 4):
        classes, P = np.arange(n) * 3, rng.dirichlet(np.ones(n), 200).round(2)
        y = classes[rng.integers(n, size=200)]
        P = np.maximum(P, 0.005)
        predicted = classes[P.argmax(axis=1)]
        tally = predict.Tally(classes)
        for some in np.array_split(np.arange(200), 7):
            tally.add(y[some], P[some])
        found = tally.metrics()
        assert found["rows"] == 200
        assert found["accuracy"] == pytest.approx(metrics.accuracy_score(y, predicted))
        assert found["log_loss"] == pytest.approx(-np.log(P[np.arange(200), y // 3]).mean())
        np.testing.assert_array_equal(found["confusion"], metrics.confusion_matrix(y, predicted))
        theirs = metrics.precision_recall_fscore_support(y, predicted, labels=classes, zero_division=0)
        ours = [[row[name] for row in found["classes"]] for name in ("precision", "recall", "f1", "rows")]
        np.testing.assert_allclose(ours, theirs)
        auc = metrics.roc_auc_score(y == 3, P[:, 1]) if n == 2 else None
        assert found["auc"] == (None if auc is None else pytest.approx(auc))


# --- memory and progress ----------------------------------------------------------------------------------


def write_large(path, groups):
    """Write so many times 8 MB."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, 100))
    y = np.where(X[:, 0] + rng.logistic(size=len(X)) > 0, "yes", "no")
    table = pa.table({f"x{i}": X[:, i] for i in range(100)} | {"y": y})
    with parquet.ParquetWriter(path, table.schema, compression="none", use_dictionary=["y"]) as writer:
        for _ in range(groups):
            writer.write_table(table)
    return path


PEAKS = """
import contextlib, json, resource, sys
from majorant.cli.app import build

for arguments in json.loads(sys.argv[1]):
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(None):
        build()(arguments)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peaks(*commands):
    """Run commands in one process; return the most memory that it had after each, in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", PEAKS, json.dumps(commands)], capture_output=True, text=True, timeout=300
    )
    assert done.stderr == ""
    return [int(line) * (1 if sys.platform == "darwin" else 1024) for line in done.stdout.split()]


@pytest.mark.skipif(sys.platform == "win32", reason="needs getrusage")
def test_memory_does_not_grow_with_the_file(folder):
    write_large("small.parquet", 6)
    write_large("large.parquet", 26)
    size = os.path.getsize("large.parquet")
    assert size > 200e6
    fit = ("--target", "y", "--batches", "-m", "m.npz", "--tol", "1e-2")
    predict = ("predict", "m.npz", "large.parquet", "--proba", "-o", "p.parquet")
    before, predicted, fitted = peaks(("fit", "small.parquet", *fit), predict, ("fit", "large.parquet", *fit))
    assert predicted - before < size / 6  # a few chunks may be read ahead, or not
    assert fitted - before < size / 3
    assert LogisticRegression.load("m.npz").notes_["rows"] == 26 * 10_000
    assert parquet.ParquetFile("p.parquet").metadata.num_rows == 26 * 10_000


class Terminal:
    """What is written to a terminal."""

    def __init__(self):
        self.text = ""

    def isatty(self):
        return True

    def write(self, text):
        self.text += re.sub(r"\x1b\[[\d;]*m", "", text)  # without colours

    def flush(self):
        pass


def test_a_line_says_how_fast_and_how_long(monkeypatch):
    monkeypatch.setattr(callbacks, "EVERY", 0.0)
    monkeypatch.setattr(callbacks.time, "monotonic", lambda: clock)
    clock = 100.0
    terminal = Terminal()
    line = callbacks.PassLine(terminal)
    line.begin("first pass")
    clock = 102.0
    line.watch(500)
    assert "first pass: 500 rows  250 rows/s" in terminal.text
    line.begin("fitting", 1_000)
    line({"step": 1, "objective": 0.5, "gradient_norm": 0.1}, None)
    assert "fitting  step 1  objective 0.5" in terminal.text
    clock = 103.0
    line.watch(1_000)
    clock = 108.0
    line.watch(100)
    assert terminal.text.endswith("fitting, pass 2: 10%  step 1  objective 0.5  gradient 1.0e-01")
    clock = 112.0
    line.watch(400)
    assert "fitting, pass 2: 50%  100 rows/s  5 s left  step 1" in terminal.text
    line.end()
    assert terminal.text.endswith("\x1b[2K")


def test_progress_is_for_terminals_alone(folder):
    data = write(folder / "t.csv", flowers())
    assert shell("fit", data, *COLUMNS, "--batches", "-m", "m.npz").stderr == ""
