"""``majorant probe``: files of features, what it says, and what it says of wrong ones."""

import json
import sys

import numpy as np
import pytest

pytest.importorskip("typer")

from majorant import LinearProbe
from majorant.cli.probe import FEATURES, LABELS, ArrayName, read
from tests.commands import CONTROL, call
from tests.linear.test_probe import embeddings

X, Y = embeddings(classes=3, rows=150, columns=5)
OF_FEATURES, OF_LABELS = ArrayName(None, FEATURES, "features"), ArrayName(None, LABELS, "labels")
QUICK = ("--cs", "0.01,0.1,1", "--json")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", X)
    np.save("y.npy", Y)
    return tmp_path


def probed(*arguments):
    return json.loads(call("probe", *arguments, *QUICK))


def test_a_probe_is_that_of_the_library(folder):
    found = probed("X.npy", "y.npy", "-m", "probe.npz", "--standardize", "--metric", "loss", "--seed", "3")
    alone = LinearProbe([0.01, 0.1, 1.0], standardize=True, metric="loss", random_state=3).fit(X, Y)
    assert found["C"] == alone.C_
    assert [row["score"] for row in found["sweep"]] == pytest.approx(alone.scores_["score"].tolist())
    assert np.array_equal(LinearProbe.load("probe.npz").coef_, alone.coef_)
    assert (found["rows"], found["features"], found["classes"]) == (150, 5, 3)


def test_it_prints_a_table_and_writes_what_it_is_asked_for(folder):
    pytest.importorskip("safetensors")
    said = call(
        "probe", "X.npy", "y.npy", "--cs", "5", "--plot", "p.png", "-m", "h.safetensors", "--test", "X.npy", "y.npy"
    )
    assert not CONTROL.search(said)
    assert sum(line.startswith("*") for line in said.splitlines()) == 1
    assert "certified" in said
    assert "accuracy on the test rows" in said
    assert (folder / "p.png").stat().st_size > 5_000
    assert LinearProbe.load("h.safetensors").notes_ == {"trained_on": "X.npy", "rows": 150}


def test_info_says_what_is_in_a_probe(folder):
    probed("X.npy", "y.npy", "-m", "probe.npz")
    assert json.loads(call("info", "probe.npz", "--json"))["kind"] == "LinearProbe"
    said = call("info", "probe.npz")
    assert "Sweep over C" in said
    assert "trained on" in said


def test_rows_around_the_best_are_shown_and_all_if_asked(folder):
    few = call("probe", "X.npy", "y.npy", "-m", "probe.npz")
    every = call("probe", "X.npy", "y.npy", "--verbose")
    assert few.count("\n") < every.count("\n")
    assert "rows in all: --verbose shows the others" in few
    assert "--verbose" not in every
    assert call("info", "probe.npz").count("\n") < call("info", "probe.npz", "--verbose").count("\n")


def test_rows_of_their_own_score(folder):
    np.savez("val.npz", X=X[:40], y=Y[:40])
    found = probed("X.npy", "y.npy", "--validation", "val.npz", "val.npz")
    alone = LinearProbe([0.01, 0.1, 1.0]).fit(X, Y, X[:40], Y[:40])
    assert found["C"] == alone.C_
    assert found["score"] == alone.scores_["score"][alone.scores_.best]


# --- files ------------------------------------------------------------------------------------------------


def test_every_kind_of_file_holds_the_same_rows(folder):
    pa, codes = pytest.importorskip("pyarrow"), np.unique(Y, return_inverse=True)[1]
    save_file = pytest.importorskip("safetensors.numpy").save_file
    import pyarrow.parquet as pq

    np.savez("both.npz", features=X, labels=Y)
    save_file({"X": X, "y": codes}, "both.safetensors")
    pq.write_table(pa.table({"embeddings": list(X), "label": Y}), "lists.parquet")
    pq.write_table(pa.table({f"f{i}": X[:, i] for i in range(5)} | {"label": Y}), "columns.parquet")
    (folder / "shards").mkdir()
    for k in range(3):
        np.save(f"shards/{k}.npy", X[50 * k : 50 * (k + 1)])
    files = ("X.npy", "both.npz", "both.safetensors", "lists.parquet", "columns.parquet", "shards")
    for file in files:
        assert np.array_equal(read(file, OF_FEATURES), X), file
    for file in ("y.npy", "both.npz", "lists.parquet", "columns.parquet"):
        assert np.array_equal(read(file, OF_LABELS), Y), file
    assert np.array_equal(read("both.safetensors", OF_LABELS), codes)
    assert probed("both.npz")["C"] == probed("shards", "y.npy")["C"]


def test_arrays_are_told_apart_by_name(folder):
    np.savez("several.npz", a=X, b=X + 1, c=Y)
    assert "with --features-name; it has a, b, c" in call("probe", "several.npz", code=1)
    assert "has no 'd'; it has a, b, c" in call("probe", "several.npz", "--features-name", "d", code=1)
    assert probed("several.npz", "--features-name", "b", "--labels-name", "c")["rows"] == 150


def test_what_cannot_be_read_is_said_in_a_line(folder):
    pytest.importorskip("safetensors")
    (folder / "bad.npy").write_bytes(b"nothing")
    (folder / "bad.npz").write_bytes(b"nothing")
    (folder / "bad.safetensors").write_bytes(b"nothing")
    (folder / "bad.parquet").write_bytes(b"nothing")
    (folder / "mixed").mkdir()
    np.save("mixed/a.npy", X)
    np.savez("mixed/b.npz", X=X)
    np.save("objects.npy", np.array([{}, {}]), allow_pickle=True)
    for file in ("bad.npy", "bad.npz", "bad.safetensors", "bad.parquet", "objects.npy"):
        assert file in call("probe", file, "y.npy", code=1)
    assert "shards of one kind, got .npy and .npz" in call("probe", "mixed", "y.npy", code=1)
    assert "are read from .npy, .npz" in call("probe", "X.csv", "y.npy", code=1)
    assert "No such file" in call("probe", "none.npy", "y.npy", code=1)
    for labels in ("X.npy", None):
        said = call("probe", "X.npy", *([labels] if labels else []), code=1)
        assert "no labels are given, and X.npy holds features only" in said
    np.save("few.npy", Y[:20])
    said = call("probe", "X.npy", "few.npy", code=1)
    assert "one for each row: X.npy has 150 rows, but few.npy has 20 labels" in said
    assert "must have rows and columns" in call("probe", "y.npy", "y.npy", code=1)


def test_wrong_flags_are_named_as_flags(folder):
    both = "X.npy", "y.npy"
    for flag in ("--test-size", "--share"):  # the second is its old name
        assert "--test-size must lie between 0 and 1, got 2.0" in call("probe", *both, flag, "2", code=1)
    assert "--metric must be one of" in call("probe", *both, "--metric", "speed", code=1)
    assert "--cs must be a number of points or such as 0.1,1,10" in call("probe", *both, "--cs", "a", code=2)
    assert "there is no folder" in call("probe", *both, "-m", "nowhere/p.npz", code=1)


def test_tensors_need_pytorch(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "majorant[torch]" in call("probe", "X.npy", "y.npy", "--device", "cuda", code=1)
    (folder / "X.pt").write_bytes(b"")
    assert "majorant[torch]" in call("probe", "X.pt", "y.npy", code=1)


# --- what a saved probe is for ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["probe.npz", "probe.safetensors"])
def test_a_saved_probe_predicts_and_is_measured(folder, name):
    if name.endswith(".safetensors"):
        pytest.importorskip("safetensors")
    probed("X.npy", "y.npy", "-m", name)
    model = LinearProbe.load(name)
    said = call("predict", name, "X.npy", "--proba").splitlines()
    assert said[0] == ",".join(["prediction", *(f"p({label})" for label in model.classes_)])
    assert [line.split(",")[0] for line in said[1:]] == list(map(str, model.predict(X)))
    np.testing.assert_allclose([[float(p) for p in line.split(",")[1:]] for line in said[1:]], model.predict_proba(X))
    assert call("predict", name, "X.npy", "X.npy", "-o", "p.jsonl") == "300 predictions written to p.jsonl\n"
    np.savez("both.npz", X=X, y=Y, Z=X + 1)
    for data in (["X.npy", "y.npy"], ["both.npz"]):
        found = json.loads(call("evaluate", name, *data, "--json"))
        assert found["accuracy"] == pytest.approx(model.score(X, Y))
        assert found["rows"] == 150
    assert call("predict", name, "both.npz", "--features-name", "Z") != call("predict", name, "both.npz")
    assert "accuracy" in call("evaluate", name, "X.npy", "y.npy")
    assert "LinearProbe" in call("info", name)


def test_shards_are_predicted_and_probabilities_written_in_parts(folder, monkeypatch):
    from majorant.cli import readers

    monkeypatch.setattr(readers, "chunk_rows", lambda rows, columns: 7)
    probed("X.npy", "y.npy", "-m", "probe.npz")
    (folder / "shards").mkdir()
    np.save("shards/0.npy", X[:70])
    np.save("shards/1.npy", X[70:])
    assert call("predict", "probe.npz", "shards").splitlines() == [
        "prediction",
        *map(str, LinearProbe.load("probe.npz").predict(X)),
    ]
    assert json.loads(call("evaluate", "probe.npz", "shards", "y.npy", "--json"))["rows"] == 150


def test_what_a_saved_probe_cannot_read(folder):
    probed("X.npy", "y.npy", "-m", "probe.npz")
    np.save("few.npy", Y[:20])
    np.save("wide.npy", np.hstack([X, X]))
    np.save("other.npy", np.full(150, "zebra"))
    np.save("none.npy", X[:0])
    assert "are read from .npy" in call("predict", "probe.npz", "t.csv", code=1)
    assert "none.npy holds no rows" in call("predict", "probe.npz", "none.npy", code=1)
    assert "no labels are given" in call("evaluate", "probe.npz", "X.npy", code=1)
    assert "X.npy has 150 rows, but few.npy has 20 labels" in call("evaluate", "probe.npz", "X.npy", "few.npy", code=1)
    assert "'zebra' in row 1 of other.npy is none of" in call("evaluate", "probe.npz", "X.npy", "other.npy", code=1)
    assert "features" in call("predict", "probe.npz", "wide.npy", "-o", "p.csv", code=1)
    assert not (folder / "p.csv").exists()
    assert "--keep does not go with probe.npz" in call("predict", "probe.npz", "X.npy", "--keep", "a", code=2)
    assert "--comment does not go with" in call("predict", "probe.npz", "X.npy", "--comment", "#", code=2)
    assert "--target does not go with" in call("evaluate", "probe.npz", "X.npy", "y.npy", "--target", "a", code=2)
    assert "cannot write X.npy" in call("predict", "probe.npz", "X.npy", "-o", "X.npy", code=1)


def test_a_probe_is_not_written_over_what_is_no_model(folder):
    save_file = pytest.importorskip("safetensors.numpy").save_file
    save_file({"weight": X}, "precious.safetensors")
    before = (folder / "precious.safetensors").read_bytes()
    said = call("probe", "X.npy", "y.npy", "-m", "precious.safetensors", code=1)
    assert "precious.safetensors: the file exists and holds no majorant model" in said
    assert (folder / "precious.safetensors").read_bytes() == before
    assert "models are written as .npz or .safetensors" in call("probe", "X.npy", "y.npy", "-m", "head.pt", code=1)
    for _ in range(2):  # a model may be written over
        probed("X.npy", "y.npy", "-m", "head.safetensors")
