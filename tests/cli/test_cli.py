"""The command line as a person uses it: real files in a folder, what is printed, what is left behind."""

import csv
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer")

import majorant
from majorant.cli.readers import Source
from majorant.cli.schema import Schema, Wanted
from tests.commands import call, flowers, read, shell, warned, write, write_svmlight

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
    assert loaded.gap_ <= 1e-6


def test_svmlight_and_npz(folder):
    data = write_svmlight(folder / "t.svm")
    call("fit", data, "-m", "m.npz")
    measured = call("evaluate", "m.npz", data, "--json")
    assert json.loads(measured)["rows"] == 120
    assert (
        call("evaluate", "m.npz", data, "--target", "kind", "--json") == measured
    )  # its labels have a place of their own
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
    call("fit", "-", "--target", "kind", "--drop", "id", "-m", "m.npz", stdin=text)
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
    assert first["gap"] <= 1e-6
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
    said = call(
        "compare", "ecoli", "--solvers", "proximal,bbm,scipy-lbfgs,sgd", "--passes", "2", "--runs", "2", "--out", "c"
    )
    rows = {line.split()[0]: line.split() for line in said.splitlines() if line}
    assert float(rows["proximal"][6]) < 1e-3 < float(rows["scipy-lbfgs"][6])
    assert "Tuning, not counted above" in said
    assert "default: auto,proximal,sbm,scipy-lbfgs,sgd,asgd" in " ".join(call("compare", "--help").split())
    results = json.loads((folder / "c" / "results.json").read_text())
    assert len(results["runs"]) == 8
    assert results["summary"][3]["tuning"]["settings"] > 50
    assert (folder / "c" / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in (folder / "c").iterdir()) == ["curves.png", "results.json"]


def test_no_run_is_longer_than_asked_for(folder):
    """A step of bbm takes two passes and a look back of proximal one more, so these end before."""
    names = "proximal,sbm,scipy-lbfgs,bbm"
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
        "compare", data, "--target", "y", "--solvers", "sbm,scipy-lbfgs", "--ridge", "0", "--passes", "2", "--runs", "1"
    )
    assert "sbm did not run" in said
    assert "scipy-lbfgs" in said
    assert "no solver ran" in call("compare", data, "--target", "y", "--solvers", "sbm", "--ridge", "0", code=1)
    assert "--solvers must be of" in call("compare", data, "--target", "y", "--solvers", "adam", code=2)
    assert "either" in call("compare", data, "--target", "y", "--C", "1", "--ridge", "1", code=2)
