"""What is wrong with the rows of a source is said, and where."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

from majorant import Chunks, LogisticRegression, Parquet, Svmlight
from majorant.sources import cache
from tests.sources.test_sources import GOOD, assert_same, broken, in_chunks, rows, write_parquet

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.mark.parametrize(
    ("items", "says"),
    [
        ([GOOD, (np.where(np.eye(4) == 1, np.nan, 0), GOOD[1])], "chunk 1, row 0: column 0 holds nan"),
        ([GOOD, (np.ones((4, 5)), GOOD[1])], "chunk 1: there are 5 columns, but 4"),
        ([GOOD, (sp.eye_array(4, format="csr"), GOOD[1])], "chunk 1: rows are sparse, those before were dense"),
        ([GOOD, (np.eye(4), ["a", "b", "a", "b"])], "chunk 1: labels must be of one type, got ['a', 'b'] after [0, 1]"),
        ([GOOD, (np.eye(4), [0.0, np.nan, 1.0, 0.0])], "chunk 1, row 1: the label is missing"),
        ([GOOD, (np.eye(4), np.array(["a", None, "b", "a"], dtype=object))], "chunk 1, row 1: the label is missing"),
        ([GOOD, (np.eye(4), GOOD[1][:3])], "chunk 1: there are 4 rows, but 3 labels"),
        ([GOOD, (*GOOD, [1, 1, -1, 1])], "chunk 1, row 2: the weight must be a finite number ≥ 0, got -1"),
        ([GOOD, (*GOOD, None, None)], "chunk 1: expected (X, y) or (X, y, weight), got 4"),
        ([GOOD, np.eye(4)], "chunk 1: there are no labels to learn from"),
        ([GOOD, (np.eye(4)[0], GOOD[1])], "chunk 1: X must have two dimensions"),
        ([GOOD, ([["a"]], [0])], "chunk 1: X must hold numbers, got <U1"),
        ([], "there are no rows to fit"),
        ([(np.eye(2), [1, 1])], "at least two classes"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(items, says):
    model = LogisticRegression().fit(*GOOD)
    before = model.coef_
    with pytest.raises(ValueError, match=re.escape(says)):
        model.fit(broken(*items))
    assert model.coef_ is before


def test_a_source_has_to_begin_anew():
    with pytest.raises(TypeError, match="a generator ends after the first time"):
        Chunks(chunk for chunk in [GOOD])
    once = iter([GOOD])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "SHARE", 0.0)
        with pytest.raises(ValueError, match="the source ended after 0 chunks, of 1"):
            LogisticRegression().fit(Chunks(lambda: once))
    with pytest.raises(ValueError, match="y must be left out"):
        LogisticRegression().fit(broken(GOOD), GOOD[1])


def test_a_source_must_not_change(monkeypatch):
    monkeypatch.setattr(cache, "SHARE", 0.0)
    calls = []

    def more_each_time():
        calls.append(1)
        yield from [GOOD] * (2 if len(calls) < 3 else 3)

    with pytest.raises(ValueError, match="has changed since it was first read"):
        LogisticRegression().fit(Chunks(more_each_time))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_source_that_shuffles_at_every_read_is_noticed(weighted, monkeypatch):
    """Labels of the first read must not meet rows of later ones; a copy on the disk stays as it was first read."""
    X, y = rows(2)
    rng = np.random.default_rng(0)

    def shuffled():
        order = rng.permutation(len(y))
        yield (X, y, order + 1.0) if weighted else (X[order], y[order])

    assert LogisticRegression().fit(Chunks(shuffled)).gap_ <= 1e-6
    monkeypatch.setattr(cache, "SHARE", 0.0)
    with pytest.raises(ValueError, match=r"chunk 0.*the label or weight is another than when the source was first"):
        LogisticRegression().fit(Chunks(shuffled))


def test_parquet_says_which_file_and_row_group(tmp_path):
    X, y = rows(2)
    folder = write_parquet(tmp_path / "data", X, y, groups=120)
    source = Parquet(folder, target="label")

    def spoil(name, column, value):
        table = parquet.read_table(folder / name)
        values = table[column].to_pylist()
        values[250] = value
        place = table.schema.get_field_index(column)
        parquet.write_table(table.set_column(place, column, pa.array(values)), folder / name, row_group_size=120)

    spoil("part-1.parquet", "x2", None)
    with pytest.raises(ValueError, match=r"part-1.parquet, row groups 0–2, row 250: column 'x2' holds nan"):
        LogisticRegression().fit(source)
    spoil("part-1.parquet", "x2", 0.0)
    spoil("part-2.parquet", "label", None)
    with pytest.raises(ValueError, match=r"part-2.parquet, row groups 0–2, row 250: the label 'label' is missing"):
        LogisticRegression().fit(source)


def test_parquet_schemas(tmp_path):
    X, y = rows(2)
    folder = write_parquet(tmp_path / "data", X, y)
    for says, source in (
        ("there is no column 'nope'; there are x0, x1, x2, x3, label", Parquet(folder, target="nope")),
        ("column 'label' holds string, not numbers", Parquet(folder, target="x0")),
        ("there is no column 'w'", Parquet(folder, target="label", weight="w")),
    ):
        with pytest.raises(ValueError, match=re.escape(says)):
            LogisticRegression().fit(source)
    odd = pa.table({"x0": ["a"], "x1": [0.0], "x2": [0.0], "x3": [0.0], "label": ["class 0"]})
    parquet.write_table(odd, folder / "part-9.parquet")
    with pytest.raises(ValueError, match=r"part-9.parquet: column 'x0' holds string, but double"):
        LogisticRegression().fit(Parquet(folder, target="label"))
    parquet.write_table(odd.drop_columns(["x0"]), folder / "part-9.parquet")
    with pytest.raises(ValueError, match=r"part-9.parquet: there is no column 'x0'"):
        LogisticRegression().fit(Parquet(folder, target="label"))
    empty = parquet.read_table(folder / "part-0.parquet").slice(0, 0)
    parquet.write_table(empty, folder / "part-9.parquet")  # no rows, but the right columns: nothing is wrong
    assert LogisticRegression().fit(Parquet(folder, target="label")).result_.converged
    (folder / "part-9.parquet").write_text("nothing")
    with pytest.raises(ValueError, match=r"part-9.parquet is not a Parquet file"):
        LogisticRegression().fit(Parquet(folder, target="label"))
    with pytest.raises(FileNotFoundError, match="no file is called"):
        LogisticRegression().fit(Parquet(tmp_path / "nowhere", target="label"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"holds no \.parquet files"):
        LogisticRegression().fit(Parquet(tmp_path / "empty", target="label"))


def test_ragged_svmlight_rows(tmp_path):
    (tmp_path / "a.txt").write_text("1 1:2 3:1\n0 2:1\n1 x:3\n")
    with pytest.raises(ValueError, match=r"a.txt, row 2: .* in '1 x:3'"):
        LogisticRegression().fit(Svmlight(tmp_path / "a.txt"))
    (tmp_path / "a.txt").write_text("1 0:2 3:1\n0 2:1\n")
    with pytest.raises(ValueError, match=r"a.txt, row 0: .*zero_based"):
        LogisticRegression().fit(Svmlight(tmp_path / "a.txt"))
    assert LogisticRegression().fit(Svmlight(tmp_path / "a.txt", zero_based=True)).n_features_in_ == 4


def test_a_label_of_the_last_chunk_counts():
    X, y = rows(3)
    order = np.argsort(y)
    assert_same(
        LogisticRegression(tol=1e-13).fit(in_chunks(X[order], y[order])), LogisticRegression(tol=1e-13).fit(X, y)
    )
