"""``majorant probe``: files of features, what it says, and what it says of wrong ones."""

import json
import sys

import numpy as np
import pytest

pytest.importorskip("typer")

from majorant import LinearProbe
from majorant.cli.arrays import FEATURES, LABELS, Wanted, read
from tests.commands import CONTROL, call
from tests.test_probe import embeddings

X, Y = embeddings(classes=3, rows=150, columns=5)
OF_FEATURES, OF_LABELS = Wanted(None, FEATURES, "features"), Wanted(None, LABELS, "labels")
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
    assert "it has a, b, c: say --features-name" in call("probe", "several.npz", code=1)
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
    assert "one for each of the 150 rows of X.npy, got shape (150, 5)" in call("probe", "X.npy", "X.npy", code=1)
    assert "must have rows and columns" in call("probe", "y.npy", "y.npy", code=1)


def test_wrong_flags_are_named_as_flags(folder):
    both = "X.npy", "y.npy"
    assert "--share must lie between 0 and 1, got 2.0" in call("probe", *both, "--share", "2", code=1)
    assert "--metric must be one of" in call("probe", *both, "--metric", "speed", code=1)
    assert "--cs must be a number of points or such as 0.1,1,10" in call("probe", *both, "--cs", "a", code=2)
    assert "there is no folder" in call("probe", *both, "-m", "nowhere/p.npz", code=1)


def test_tensors_need_pytorch(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "majorant[torch]" in call("probe", "X.npy", "y.npy", "--device", "cuda", code=1)
    (folder / "X.pt").write_bytes(b"")
    assert "majorant[torch]" in call("probe", "X.pt", "y.npy", code=1)
