"""The command line on clusters of workers."""

import json
import pickle
import socket
import sys
import time
from functools import partial

import numpy as np
import pytest

pytest.importorskip("typer")

from majorant import LogisticRegression
from majorant.cli.readers import Files, Source, files_of
from majorant.cli.schema import EncodedPiece, EncodedRows, Schema, Wanted
from tests.cli.test_scale import COLUMNS, EXACT, in_parts, same_models, warned_of
from tests.commands import call, flowers, shell, write

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def test_pieces_travel(folder):
    data = in_parts(flowers(), folder / "parts", "parquet", row_group_size=7)
    source, wanted = Files(tuple(map(Source, files_of(str(data))))), Wanted("kind", drop=["id"])
    schema, classes = Schema.learn(source, wanted)
    rows = EncodedRows(source, partial(EncodedPiece, wanted=wanted, schema=schema, classes=classes, rows=5))
    pieces = rows.pieces()
    assert len(pieces) == 3
    for piece in pieces:
        for ours, theirs in zip(pickle.loads(pickle.dumps(piece)).read(), piece.read(), strict=True):
            np.testing.assert_array_equal(ours.X, theirs.X)
            assert (ours.where, ours.first) == (theirs.where, theirs.first)


def test_row_groups_of_one_file_are_pieces(folder, monkeypatch):
    monkeypatch.setattr("majorant.sources.base.CHUNK_NUMBERS", 6 * 30)
    columns = flowers()
    parquet.write_table(pa.table(columns), folder / "t.parquet", row_group_size=20)
    pieces = Source("t.parquet").pieces()
    assert [piece.groups for piece in pieces] == [(0, 1), (2, 3), (4, 5)]
    found = [(part.first_row, name) for piece in pieces for part in piece.chunks(15) for name in part.text("id")]
    assert [name for _, name in found] == columns["id"]
    assert {first for first, _ in found} == {1, 16, 31, 41, 56, 71, 81, 96, 111}


def test_a_scheduler_is_found_by_its_address(folder, cluster):
    """Its workers were started elsewhere, so files go by their whole names; a fit is resumed there as well."""
    columns = flowers()
    in_parts(columns, folder / "parts", "csv")
    fit = ("fit", "parts/part-0.csv", "parts/part-1.csv", "parts/part-2.csv", *COLUMNS, *EXACT)
    call(*fit, "-m", "memory.npz")
    there = ("--scheduler", cluster.scheduler_address)
    keep = (*fit, *there, "--checkpoint", "c.npz", "--every", "0", "--resume", "-m", "ours.npz")
    assert "there is no checkpoint" in warned_of(*keep, "--max-iter", "2")
    assert LogisticRegression.load("ours.npz").n_iter_[0] <= 2
    assert warned_of(*keep) == ""
    same_models("ours.npz", "memory.npz")
    columns["kind"] = ["rose"] * 120
    write(folder / "one.csv", columns)
    assert "at least two classes" in call("fit", "one.csv", *COLUMNS, *there, code=1)


def test_a_scheduler_without_workers(folder, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr("majorant.cli.fit.PATIENCE", 0.5)
    data = write(folder / "t.csv", flowers())
    with distributed.LocalCluster(n_workers=0, dashboard_address=":0") as cluster:
        said = call("fit", data, *COLUMNS, "--scheduler", cluster.scheduler_address, code=1)
    assert "has no workers" in said


def test_a_cluster_of_ones_own_finds_what_memory_finds(folder):
    pytest.importorskip("distributed")
    columns = flowers()
    whole = write(folder / "whole.csv", columns)
    in_parts(columns, folder / "parts", "parquet", row_group_size=9)
    call("fit", whole, *COLUMNS, *EXACT, "--weight", "weight", "-m", "memory.npz")
    arguments = ("fit", "parts", *COLUMNS, *EXACT, "--weight", "weight", "--scheduler", "local:2", "--json")
    done = shell(*arguments, "-m", "ours.npz")
    assert done.stderr == ""
    said = json.loads(done.stdout)
    assert said["rows"] == 120
    assert said["rounds"] > 0
    same_models("ours.npz", "memory.npz", atol=1e-5)


def test_a_scheduler_that_is_not_there(folder, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("majorant.cli.fit.PATIENCE", 0.5)
    data = write(folder / "t.csv", flowers())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        began = time.monotonic()
        said = call("fit", data, *COLUMNS, "--scheduler", address, code=1)
    assert f"there is no Dask scheduler at {address}" in said
    assert time.monotonic() - began < 20
    said = call("fit", data, *COLUMNS, "--scheduler", "nonsense://", code=1)
    assert "there is no Dask scheduler at nonsense://" in said
    assert "at least one worker" in call("fit", data, *COLUMNS, "--scheduler", "local:0", code=1)


def test_without_dask_one_sentence(folder, monkeypatch):
    data = write(folder / "t.csv", flowers())
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "pip install 'majorant[dask]'" in call("fit", data, *COLUMNS, "--scheduler", "local", code=1)
