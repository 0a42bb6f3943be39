"""The command line as a person uses it: real files in a folder, what is printed, what is left behind."""

import csv
import dataclasses
import json
import os
import re
import signal
import string
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer")

import majorant
from majorant.cli import advice, output, refusals
from majorant.cli.tables import Schema, Source, Wanted
from tests.commands import invoke

CONTROL = re.compile(r"[\x1b┃│╭┏]")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*arguments, code=0, stdin=None):
    """Run a command in this process; return its standard output, or its error where it should fail."""
    result = invoke(*arguments, input=stdin)
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    if code == 0:
        return result.stdout
    assert result.stdout == ""
    assert re.fullmatch(r"majorant: error: [^\n]+\n", result.stderr), result.stderr
    return result.stderr


def warned(*arguments):
    """Run a command; return what it says on standard error, a warning a line."""
    result = invoke(*arguments)
    assert result.exit_code == 0, (result.stdout, result.stderr, result.exception)
    assert all(line.startswith("majorant: warning: ") for line in result.stderr.splitlines())
    return result.stderr


def shell(*arguments, code=0, **options):
    """Run a command as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "majorant", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )
    assert done.returncode == code, done.stderr
    return done


def flowers(rows=120, seed=0):
    """Return columns of a small problem with numbers, a category, a weight and labels that are text."""
    rng = np.random.default_rng(seed)
    length, width = rng.normal(5, 2, rows).round(3), rng.normal(0, 1, rows).round(3)
    colour = rng.choice(["red", "white", "blue, dark"], rows)
    score = length - 5 + 2 * width + 2 * (colour == "red") + rng.normal(0, 1, rows)
    kind = np.select([score > 2, score > 0], ["rose", "lily"], "daisy")
    return {
        "id": [f"f{i}" for i in range(rows)],
        "length": length.tolist(),
        "colour": colour.tolist(),
        "width": width.tolist(),
        "weight": rng.integers(1, 4, rows).tolist(),
        "kind": kind.tolist(),
    }


def write(path, columns, delimiter=","):
    if path.suffix == ".parquet":
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet

        pyarrow.parquet.write_table(pa.table(columns), path)
        return path
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def write_svmlight(path):
    columns = flowers()
    rows = zip(columns["length"], columns["width"], columns["kind"], strict=True)
    path.write_text("".join(f"{len(kind)} 1:{a} 3:{b}\n" for a, b, kind in rows))
    return path


# --- round trips ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet"])
def test_fit_predict_evaluate(folder, name):
    columns = flowers()
    data = write(folder / name, columns, delimiter="\t" if name == "t.tsv" else ",")
    said = call("fit", data, "--target", "kind", "--drop", "id,weight", "--model", "m.npz")
    assert "trained on 120 rows, 5 features, 3 classes" in said
    assert "certified to be within" in said
    assert call("predict", "m.npz", data, "--out", "p.csv", "--keep", "id", "--proba").startswith("120 predictions")
    rows = read("p.csv")
    assert [row["id"] for row in rows] == columns["id"]
    assert list(rows[0]) == ["id", "prediction", "p(daisy)", "p(lily)", "p(rose)"]
    right = np.mean([row["prediction"] == kind for row, kind in zip(rows, columns["kind"], strict=True)])
    metrics = json.loads(call("evaluate", "m.npz", data, "--json"))
    assert metrics["accuracy"] == pytest.approx(right)
    assert right > 0.7
    assert np.sum(metrics["confusion"]) == 120
    chance = [float(row[f"p({kind})"]) for row, kind in zip(rows, columns["kind"], strict=True)]
    assert metrics["log_loss"] == pytest.approx(-np.log(chance).mean())


def test_the_model_is_that_of_the_estimator(folder):
    columns = flowers()
    data = write(folder / "t.csv", columns)
    call(
        "fit", data, "--target", "kind", "--features", "length,width", "--weight", "weight", "--C", "0.3", "-m", "m.npz"
    )
    X = np.column_stack([columns["length"], columns["width"]])
    direct = majorant.LogisticRegression(C=0.3).fit(X, columns["kind"], sample_weight=columns["weight"])
    loaded = majorant.LogisticRegression.load("m.npz")
    np.testing.assert_allclose(loaded.coef_, direct.coef_, atol=1e-6)
    assert loaded.predict(X).tolist() == direct.predict(X).tolist()
    assert loaded.gap_ <= 1e-8


def test_svmlight_and_npz(folder):
    data = write_svmlight(folder / "t.svm")
    call("fit", data, "-m", "m.npz")
    assert json.loads(call("evaluate", "m.npz", data, "--json"))["rows"] == 120
    assert {row["prediction"] for row in csv.DictReader(call("predict", "m.npz", data).splitlines())} <= {"4", "5"}
    columns = flowers()
    np.savez("t.npz", X=np.column_stack([columns["length"], columns["width"]]), y=np.array(columns["kind"]))
    call("fit", "t.npz", "-m", "n.npz")
    assert json.loads(call("evaluate", "n.npz", "t.npz", "--json"))["accuracy"] > 0.6
    assert "leave out --target" in call("fit", data, "--target", "kind", code=1)


def test_predictions_as_parquet(folder):
    parquet = pytest.importorskip("pyarrow.parquet")
    data = write(folder / "t.csv", flowers())
    call("fit", data, "--target", "kind", "--drop", "id", "-m", "m.npz")
    call("predict", "m.npz", data, "--out", "p.parquet", "--proba")
    table = parquet.read_table("p.parquet").to_pydict()
    assert table["prediction"] == [
        row["prediction"] for row in csv.DictReader(call("predict", "m.npz", data).splitlines())
    ]
    np.testing.assert_allclose(np.sum([table[f"p({k})"] for k in ("daisy", "lily", "rose")], axis=0), 1)


def test_standard_input_and_output(folder):
    text = write(folder / "t.csv", flowers()).read_text()
    shell("fit", "-", "--target", "kind", "--drop", "id", "-m", "m.npz", input=text)
    out = shell("predict", "m.npz", "-", "--keep", "id", input=text).stdout
    assert out.splitlines()[0] == "id,prediction"
    assert len(out.splitlines()) == 121


def test_two_classes_have_an_auc_and_weights(folder):
    columns = flowers()
    columns["kind"] = [int(kind == "rose") for kind in columns["kind"]]
    data = write(folder / "t.csv", columns)
    call("fit", data, "--target", "kind", "--drop", "id", "--class-weight", "0=1,1=3", "--standardize", "-m", "m.npz")
    metrics = json.loads(call("evaluate", "m.npz", data, "--json"))
    assert 0.8 < metrics["auc"] <= 1
    assert [row["class"] for row in metrics["classes"]] == [0, 1]
    assert majorant.LogisticRegression.load("m.npz").class_weight == {0: 1.0, 1: 3.0}
    call("fit", data, "--target", "kind", "--drop", "id", "--class-weight", "balanced", "-m", "b.npz")


def test_held_out_rows_are_not_trained_on(folder):
    data = write(folder / "t.csv", flowers())
    settings = ["fit", data, "--target", "kind", "--drop", "id", "--test-size", "0.25", "-m", "m.npz", "--json"]
    first = json.loads(call(*settings, "--seed", "3"))
    assert first["rows"] + first["test"]["rows"] == 120
    assert 25 <= first["test"]["rows"] <= 30
    assert first["gap"] <= 1e-8
    again, other = (json.loads(call(*settings, "--seed", seed)) for seed in (3, 4))
    assert first["test"] == again["test"] != other["test"]


def test_missing_values(folder):
    columns = flowers()
    columns["width"][7] = ""
    data = write(folder / "t.csv", columns)
    fit = ["fit", data, "--target", "kind", "--drop", "id", "-m", "m.npz"]
    assert "column 'width' of" in (said := call(*fit, code=1))
    assert "in row 8" in said
    assert not (folder / "m.npz").exists()
    assert "trained on 120 rows" in call(*fit, "--missing", "mean")
    assert len(call("predict", "m.npz", data).splitlines()) == 121
    assert "trained on 119 rows" in call(*fit, "--missing", "drop")
    predicted = [row["prediction"] for row in csv.DictReader(call("predict", "m.npz", data).splitlines())]
    assert [i for i, kind in enumerate(predicted) if not kind] == [7]
    assert json.loads(call("evaluate", "m.npz", data, "--json"))["left_out"] == 1
    assert call("predict", "m.npz", data, "--missing", "mean").splitlines()[8] != ""


def test_a_file_for_prediction_needs_the_columns_but_not_their_order(folder):
    columns = flowers()
    call("fit", write(folder / "t.csv", columns), "--target", "kind", "--drop", "id,weight", "-m", "m.npz")
    turned = {name: columns[name] for name in ("width", "id", "colour", "length")}
    expected = call("predict", "m.npz", "t.csv")
    assert call("predict", "m.npz", write(folder / "u.csv", turned)) == expected
    del turned["colour"]
    assert "lacks the column 'colour'" in call("predict", "m.npz", write(folder / "v.csv", turned), code=1)


def test_info(folder):
    call("fit", write(folder / "t.csv", flowers()), "--target", "kind", "--drop", "id", "-m", "m.npz")
    said = call("info", "m.npz")
    assert "daisy, lily, rose" in said
    facts = json.loads(call("info", "m.npz", "--json"))
    assert facts["target"] == "kind"
    assert facts["trained_on"] == "t.csv"
    assert list(facts["coefficients"][0]["weights"])[:2] == ["length", "colour=blue, dark"]


def test_info_of_a_model_saved_from_python(folder):
    rng = np.random.default_rng(0)
    majorant.LogisticRegression().fit(rng.normal(size=(30, 2)), np.arange(30) % 2).save("bare.npz")
    facts = json.loads(call("info", "bare.npz", "--json"))
    assert list(facts["coefficients"][0]["weights"]) == ["x0", "x1"]
    assert "certified" in facts["result"]


def test_a_weight_for_no_class_is_named(folder):
    data = write(folder / "t.csv", flowers())
    said = call("fit", data, "--target", "kind", "--drop", "id", "--class-weight", "rose=2,tulip=1", code=1)
    assert "tulip" in said


def test_what_is_read_is_not_overwritten(folder):
    data = write(folder / "t.csv", flowers())
    before = Path(data).read_bytes()
    assert "it is the file to be read" in call("fit", data, "--target", "kind", "--drop", "id", "-m", data, code=1)
    call("fit", data, "--target", "kind", "--drop", "id", "-m", "m.npz")
    assert "it is the file to be read" in call("predict", "m.npz", data, "-o", data, code=1)
    assert Path(data).read_bytes() == before


def test_a_link_stays_a_link_and_a_pipe_a_pipe(folder):
    data = write(folder / "t.csv", flowers())
    call("fit", data, "--target", "kind", "--drop", "id", "-m", "m.npz")
    Path("real.csv").write_text("old")
    Path("link.csv").symlink_to("real.csv")
    call("predict", "m.npz", data, "-o", "link.csv")
    assert Path("link.csv").is_symlink()
    assert len(read("real.csv")) == 120
    os.mkfifo("pipe.csv")
    reader = os.open("pipe.csv", os.O_RDONLY | os.O_NONBLOCK)
    call("predict", "m.npz", data, "-o", "pipe.csv")
    assert os.read(reader, 10) == b"prediction"
    os.close(reader)
    assert Path("pipe.csv").is_fifo()


def test_decimal_commas(folder):
    columns = flowers()
    plain = write(folder / "t.csv", columns)
    columns["length"] = [str(x).replace(".", ",") for x in columns["length"]]
    data = write(folder / "comma.csv", columns, delimiter=";")
    assert "column 'length'" in (said := call("fit", data, "--target", "kind", "--drop", "id", code=1))
    assert "--decimal ," in said
    columns["width"] = [str(x).replace(".", ",") for x in columns["width"]]
    write(data, columns, delimiter=";")
    call("fit", plain, "--target", "kind", "--drop", "id", "-m", "plain.npz")
    call("fit", data, "--target", "kind", "--drop", "id", "-m", "m.npz", "--decimal", ",")
    expected = json.loads(call("evaluate", "plain.npz", plain, "--json"))
    assert json.loads(call("evaluate", "m.npz", data, "--json", "--decimal", ","))["log_loss"] == expected["log_loss"]
    assert call("predict", "m.npz", data, "--decimal", ",") == call("predict", "m.npz", plain)


def test_encodings_and_comments(folder):
    data = write(folder / "t.csv", flowers())
    odd = folder / "odd.csv"
    odd.write_text("#made by hand\n" + data.read_text().replace("red", "röd"), encoding="latin-1")
    reading = ["--encoding", "latin-1", "--comment", "#"]
    call("fit", odd, "--target", "kind", "--drop", "id", "-m", "m.npz", *reading)
    assert json.loads(call("info", "m.npz", "--json"))["coefficients"][0]["weights"]["colour=röd"]
    assert json.loads(call("evaluate", "m.npz", odd, "--json", *reading))["rows"] == 120
    assert "--encoding must be" in call("fit", odd, "--target", "kind", "--encoding", "klingon", code=1)
    assert "--encoding" in call("fit", odd, "--target", "kind", code=1)


def test_values_that_were_not_trained_on_are_told_of(folder):
    columns = flowers()
    call("fit", write(folder / "t.csv", columns), "--target", "kind", "--drop", "id", "-m", "m.npz")
    assert warned("predict", "m.npz", "t.csv") == ""
    columns["colour"][:5] = ["pink", "pink", "teal", "mauve", "grey"]
    new = write(folder / "new.csv", columns)
    for command in ("predict", "evaluate"):
        said = warned(command, "m.npz", new)
        assert "column 'colour' of" in said
        assert "in 5 rows" in said
        assert "'pink' (2), 'teal' (1), 'mauve' (1) and 1 more values" in said
    stream = ["fit", new, "--target", "kind", "--drop", "id", "--stream", "--chunk-rows", "60", "-m", "s.npz"]
    assert warned(*stream) == ""
    columns["colour"][100] = "late"
    write(new, columns)
    assert "'late' (1)" in warned(*stream, "--classes", "daisy,lily,rose")
    columns["colour"] = [f"c{i // 2}" for i in range(120)]
    write(new, columns)
    said = warned("fit", new, "--target", "kind", "--drop", "id", "--features", "colour", "--test-size", "0.5")
    assert "to test on holds in" in said


def test_booleans_agree_between_formats(folder):
    columns = flowers()
    columns["big"] = [x > 5 for x in columns["length"]]
    call("fit", write(folder / "t.csv", columns), "--target", "kind", "--features", "big,width", "-m", "m.npz")
    expected = call("predict", "m.npz", "t.csv", "--proba")
    assert call("predict", "m.npz", write(folder / "t.parquet", columns), "--proba") == expected


def test_info_names_the_columns_of_text(folder):
    call("fit", write(folder / "t.csv", flowers()), "--target", "kind", "--drop", "id", "-m", "m.npz")
    assert json.loads(call("info", "m.npz", "--json"))["text_columns"] == {"colour": 3}
    assert re.search(r"text columns +colour=3", call("info", "m.npz"))
    call("fit", "t.csv", "--target", "kind", "--features", "width", "-m", "n.npz")
    assert re.search(r"text columns +none", call("info", "n.npz"))


def test_what_is_kept_is_not_lost(folder):
    columns = flowers()
    call("fit", write(folder / "t.csv", columns), "--target", "kind", "--drop", "id", "-m", "m.npz")
    data = write(folder / "u.csv", columns | {"prediction": columns["kind"], "p(rose)": columns["width"]})
    assert "named 'prediction'" in call("predict", "m.npz", data, "--keep", "id,prediction", code=1)
    assert "named 'p(rose)'" in call("predict", "m.npz", data, "--keep", "p(rose)", "--proba", code=1)
    assert call("predict", "m.npz", data, "--keep", "p(rose)").startswith("p(rose),prediction\n")


# --- streams ----------------------------------------------------------------------------------------------


def test_a_stream_is_partial_fit_on_the_same_chunks(folder):
    data = write(folder / "t.csv", flowers())
    said = call("fit", data, "--target", "kind", "--drop", "id", "--stream", "--chunk-rows", "50", "-m", "m.npz")
    assert "one pass over 120 rows in 3 chunks" in said
    source = Source(str(data))
    schema, classes = Schema.learn(source, Wanted("kind", drop=["id"]))
    expected = majorant.LogisticRegression()
    for part in source.chunks(50):
        expected.partial_fit(schema.features(part), schema.labels(part, classes), classes=classes)
    streamed = majorant.LogisticRegression.load("m.npz")
    np.testing.assert_allclose(streamed.coef_, expected.coef_, rtol=1e-9)
    np.testing.assert_allclose(streamed.intercept_, expected.intercept_, rtol=1e-9)


@pytest.mark.parametrize("name", ["t.parquet", "t.svm"])
def test_streams_of_other_formats(folder, name):
    data = write_svmlight(folder / name) if name == "t.svm" else write(folder / name, flowers())
    target = [] if name == "t.svm" else ["--target", "kind", "--drop", "id"]
    call("fit", data, *target, "--stream", "--chunk-rows", "40", "-m", "m.npz")
    assert json.loads(call("evaluate", "m.npz", data, "--json"))["accuracy"] > 0.6


def test_named_classes_save_the_first_pass(folder):
    data = write(folder / "t.csv", flowers())
    stream = ["fit", data, "--target", "kind", "--drop", "id", "--stream", "--chunk-rows", "100", "-m", "m.npz"]
    call(*stream, "--classes", "daisy,lily,rose,tulip")
    assert majorant.LogisticRegression.load("m.npz").classes_.tolist() == ["daisy", "lily", "rose", "tulip"]
    assert "none of the classes daisy, lily" in call(*stream, "--classes", "daisy,lily", code=1)
    assert "--stream" in call("fit", data, "--target", "kind", "--classes", "a,b", code=2)
    assert "evaluate" in call(*stream, "--test-size", "0.2", code=2)


# --- comparing --------------------------------------------------------------------------------------------


def test_compare_on_ecoli(folder):
    said = call("compare", "ecoli", "--solvers", "proximal,bbm,lbfgs,sgd", "--passes", "2", "--runs", "2", "--out", "c")
    rows = {line.split()[0]: line.split() for line in said.splitlines() if line}
    assert float(rows["proximal"][6]) < 1e-3 < float(rows["lbfgs"][6])
    assert "Tuning, not counted above" in said
    results = json.loads((folder / "c" / "results.json").read_text())
    assert len(results["runs"]) == 8
    assert results["summary"][3]["tuning"]["settings"] > 50
    assert (folder / "c" / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in (folder / "c").iterdir()) == ["curves.png", "results.json"]


def test_no_run_is_longer_than_asked_for(folder):
    """A step of bbm takes two passes and a look back of proximal one more, so these end before."""
    names = "proximal,sbm,lbfgs,bbm"
    answer = json.loads(call("compare", "ecoli", "--solvers", names, "--passes", "3", "--runs", "1", "--json"))
    assert all(2 <= row["passes"] <= 3 + 1e-9 for row in answer["solvers"])


def test_compare_on_a_file_of_ones_own(folder):
    data = write(folder / "t.csv", flowers())
    answer = json.loads(
        call(
            "compare", data, "--target", "kind", "--drop", "id", "--solvers", "proximal,auto", "--ridge", "2", "--json"
        )
    )
    assert answer["ridge"] == 2
    assert [row["solver"] for row in answer["solvers"]] == ["proximal", "auto"]
    assert all(row["above_optimum"] < 1e-3 for row in answer["solvers"])
    assert answer["solvers"][0]["test_log_likelihood"] < 0


def test_a_solver_that_cannot_run_is_told_of(folder):
    wide = {f"x{i}": np.random.default_rng(i).normal(size=30).tolist() for i in range(3)} | {
        "y": list("abcabcabca" * 3)
    }
    data = write(folder / "t.csv", wide)
    said = call(
        "compare", data, "--target", "y", "--solvers", "sbm,lbfgs", "--ridge", "0", "--passes", "2", "--runs", "1"
    )
    assert "sbm did not run" in said
    assert "lbfgs" in said
    assert "no solver ran" in call("compare", data, "--target", "y", "--solvers", "sbm", "--ridge", "0", code=1)
    assert "--solvers must be of" in call("compare", data, "--target", "y", "--solvers", "adam", code=2)
    assert "either" in call("compare", data, "--target", "y", "--C", "1", "--ridge", "1", code=2)


# --- failures ---------------------------------------------------------------------------------------------


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
    for command in ("fit - --target kind", "predict m.npz -", "crf train -"):
        done = subprocess.run(
            ["sh", "-c", f"{sys.executable} -m majorant {command} <&-"], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 1
        assert done.stderr.startswith("majorant: error: standard input is closed: pipe a file into it")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_full_disk_is_named(folder):
    data = write(folder / "t.csv", flowers())
    call("fit", data, "--target", "kind", "--drop", "id", "-m", "m.npz")
    assert "/dev/full: No space left on device" in call("predict", "m.npz", data, "-o", "/dev/full", code=1)
    command = f"{sys.executable} -m majorant predict m.npz t.csv > /dev/full"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.stderr == "majorant: error: standard output: No space left on device\n"


def test_standard_output_that_is_closed(folder):
    data = write(folder / "t.csv", flowers())
    fit = f"{sys.executable} -m majorant fit t.csv --target kind --drop id -m m.npz >&-"
    assert subprocess.run(["sh", "-c", fit], capture_output=True, timeout=60).returncode == 0
    predict = f"{sys.executable} -m majorant predict m.npz {data} >&-"
    done = subprocess.run(["sh", "-c", predict], capture_output=True, text=True, timeout=60)
    assert done.stderr == "majorant: error: standard output is closed: name a file with --out\n"


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
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
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
    assert "Traceback" not in shell("fit", "none.csv", "--target", "x", code=1).stderr


# --- the look of it ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["", "fit", "predict", "evaluate", "choice", "compare", "info"])
def test_help_is_plain_when_piped(command):
    said = call(*command.split(), "--help")
    assert "majorant " + (command or "fit") in said
    assert not CONTROL.search(said)


def test_piped_output_is_plain(folder):
    data = write(folder / "t.csv", flowers())
    fit = shell("fit", data, "--target", "kind", "--drop", "id", "--test-size", "0.2", "-m", "m.npz")
    for done in (fit, shell("evaluate", "m.npz", data), shell("info", "m.npz")):
        assert not CONTROL.search(done.stdout)
        assert done.stderr == ""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_terminal_gets_tables(folder):
    import pty

    data = write(folder / "t.csv", flowers())
    call("fit", data, "--target", "kind", "--drop", "id", "-m", "m.npz")
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "majorant", "evaluate", "m.npz", str(data)]
    process = subprocess.Popen(command, stdout=follower, stderr=follower, env={**os.environ, "TERM": "xterm"})
    os.close(follower)
    shown = b""
    try:
        while part := os.read(leader, 2**16):
            shown += part
    except OSError:  # how Linux says that the other side has closed
        pass
    os.close(leader)
    assert process.wait(60) == 0
    assert "┏━━━" in shown.decode()
    assert "rose" in shown.decode()


def test_help_lists_the_solvers_there_are():
    from majorant.cli import options
    from majorant.estimators import chain_crf, named

    assert (options.SOLVERS, options.CHAIN_SOLVERS) == (named.SOLVERS, chain_crf.SOLVERS)
    for command, names in (("fit", named.SOLVERS), ("compare", named.SOLVERS), ("crf train", chain_crf.SOLVERS)):
        said = " ".join(call(*command.split(), "--help").split())
        assert ", ".join(names[:-1]) in said


def test_commands_that_read_tables_share_their_options():
    shared = ["--format", "--delimiter", "--no-header", "--decimal", "--encoding", "--comment", "--missing"]
    for command, more in (("fit", ["--drop"]), ("compare", ["--drop"]), ("predict", []), ("evaluate", [])):
        said = call(command, "--help")
        assert all(option in said for option in (*shared, *more))


def test_a_bar_moves_on_a_terminal_and_nothing_elsewhere(monkeypatch, capsys):
    with output.progress("one") as move:
        move(1, 2, "two")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(output, "on_terminal", lambda stream: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with output.progress("one", stays=True) as move:
        move(1, 2, "[two]")
    shown = capsys.readouterr().err
    assert "[two]" in shown
    assert "1/2" in shown


def test_version():
    assert shell("--version").stdout == f"majorant {majorant.__version__}\n"
    assert call() == call("--help")


def test_help_is_quick_since_it_loads_nothing():
    code = (
        "import sys; sys.argv = ['majorant', '--help']\n"
        "from majorant.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "sys.stderr.write(str(sorted({'scipy', 'sklearn', 'numba', 'matplotlib', 'pyarrow'} & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr == "[]"


def test_without_typer_one_sentence():
    code = "import sys; sys.modules['typer'] = None\nfrom majorant.cli import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "majorant: error: the command line needs two more packages: pip install 'majorant[cli]'\n"
