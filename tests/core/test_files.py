"""Tables in files: every format gives the same rows, and every refusal names the place."""

import bz2
import gzip
import lzma
import re
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp

from majorant.cli import tables
from majorant.cli.readers import Source
from majorant.cli.schema import Schema, Wanted
from majorant.cli.tables import Table, find_classes, match_classes, read_numbers

ROWS = [
    (1.5, "red", "yes"),
    (2.5, "green", "no"),
    (-1.0, "red", "no"),
    (0.25, "dark, blue", "yes"),
]
EXPECTED = [[1.5, 0, 0, 1], [2.5, 0, 1, 0], [-1.0, 0, 0, 1], [0.25, 1, 0, 0]]


def write_csv(path, rows=ROWS, header="size,colour,kind", delimiter=","):
    lines = [header.replace(",", delimiter)]
    lines += [delimiter.join(f'"{c}"' if isinstance(c, str) and c else str(c) for c in row) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def write_parquet(path, columns):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table(columns), path)
    return str(path)


def learn(path, target="kind", source=None, **wanted):
    source = source or Source(path)
    table = source.read(frozenset({target}))
    return (*Schema.learn(source, Wanted(target, **wanted), lambda: [table]), table)


@contextmanager
def refused(sentence):
    """Expect a refusal that says so on the command line."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        yield
    assert re.search(sentence, str(caught.value)), str(caught.value)


def dense(X):
    return X.toarray() if sp.issparse(X) else X


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found_and_quotes_are_read(tmp_path, delimiter):
    schema, classes, table = learn(write_csv(tmp_path / "t.csv", delimiter=delimiter))
    np.testing.assert_array_equal(schema.features(table), EXPECTED)
    assert schema.encoding.names == ["size", "colour=dark, blue", "colour=green", "colour=red"]
    assert schema.labels(table, classes).tolist() == ["yes", "no", "no", "yes"]


def test_a_file_of_spaces_without_a_header(tmp_path):
    (tmp_path / "t.data").write_text("AAT_ECOLI   0.49  0.29 cp\nACEA_ECOLI  0.07  0.40 im \n")
    table = Source(str(tmp_path / "t.data"), header=False).read()
    assert list(table.columns) == ["c1", "c2", "c3", "c4"]
    np.testing.assert_array_equal(table.numbers("c3"), [0.29, 0.40])
    assert table.text("c4") == ["cp", "im"]


def test_parquet_gives_what_csv_gives(tmp_path):
    size, colour, kind = (list(column) for column in zip(*ROWS, strict=True))
    path = write_parquet(tmp_path / "t.parquet", {"size": size, "colour": colour, "kind": kind})
    schema, classes, table = learn(path)
    np.testing.assert_array_equal(schema.features(table), EXPECTED)
    assert classes.tolist() == ["no", "yes"]


def test_types_of_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import datetime
    import decimal

    columns = {
        "flag": [True, False, None],
        "count": pa.array([1, None, 3], pa.int8()),
        "cost": pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("2")]),
        "grade": pa.array(["a", "b", "a"]).dictionary_encode(),
        "code": ["1", "2", "NA"],
        "day": [datetime.date(2020, 1, 1)] * 3,
    }
    table = Source(write_parquet(tmp_path / "t.parquet", columns)).read()
    np.testing.assert_array_equal(table.numbers("flag"), [1, 0, np.nan])
    np.testing.assert_array_equal(table.numbers("count"), [1, np.nan, 3])
    np.testing.assert_array_equal(table.numbers("cost"), [1.25, np.nan, 2])
    assert table.text("grade") == ["a", "b", "a"]
    assert table.is_text("code")
    assert table.text("code") == ["1", "2", "NA"]  # Parquet has a missing value of its own
    with refused(r"'day'.*date32.*--drop"):
        table.is_text("day")


@pytest.mark.parametrize(("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress)])
@pytest.mark.parametrize("name", ["t.svm", "t"])
def test_svmlight_plain_and_packed_whatever_its_name(tmp_path, suffix, pack, name):
    path = tmp_path / f"{name}{suffix}"
    path.write_bytes(pack(b"+1 1:2 3:1.5 # a comment\n-1 2:4\n\n"))
    source = Source(str(path))
    assert source.kind == "svmlight"
    schema, classes = Schema.learn(source, Wanted(None))
    table = source.read()
    assert classes.tolist() == [-1, 1]
    np.testing.assert_array_equal(dense(schema.features(table)), [[2, 0, 1.5], [0, 4, 0]])
    assert schema.labels(table, classes).tolist() == [1, -1]


def test_svmlight_counts_from_what_was_trained_on(tmp_path):
    train, new = tmp_path / "a.svm", tmp_path / "b.svm"
    train.write_text("0 1:1 4:1\n1 2:1\n")
    new.write_text("1 2:7 9:5\n")
    schema, _ = Schema.learn(Source(str(train)), Wanted(None))
    np.testing.assert_array_equal(dense(schema.features(Source(str(new)).read())), [[0, 7, 0, 0]])
    train.write_text("0 0:1 1:1\n1 1:2\n")
    assert Schema.learn(Source(str(train)), Wanted(None))[0].encoding.names == ["0", "1"]


def test_npz(tmp_path):
    X, y = np.arange(6.0).reshape(3, 2), np.array(["a", "b", "a"])
    np.savez(tmp_path / "t.npz", X=X, y=y)
    source = Source(str(tmp_path / "t.npz"))
    schema, classes = Schema.learn(source, Wanted(None))
    table = source.read()
    np.testing.assert_array_equal(schema.features(table), X)
    assert schema.labels(table, classes).tolist() == ["a", "b", "a"]
    np.savez(tmp_path / "t.npz", data=X)
    with pytest.raises(ValueError, match="two-dimensional array X"):
        source.read()


def test_columns_in_another_order_extra_ones_and_unseen_categories(tmp_path):
    schema, _, _ = learn(write_csv(tmp_path / "t.csv"))
    new = write_csv(tmp_path / "n.csv", [("x", "pink", 7), ("y", "red", 8)], header="extra,colour,size")
    np.testing.assert_array_equal(schema.features(Source(new).read()), [[7, 0, 0, 0], [8, 0, 0, 1]])
    lacking = write_csv(tmp_path / "l.csv", [(1, "no")], header="size,kind")
    with pytest.raises(ValueError, match=r"l\.csv lacks the column 'colour'"):
        schema.features(Source(lacking).read())


def test_a_schema_survives_json(tmp_path):
    import json

    for wanted in (Wanted("kind", weight="size"), Wanted("kind", standardize=True, missing="mean")):
        schema, _ = Schema.learn(Source(write_csv(tmp_path / "t.csv")), wanted)
        assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
    (tmp_path / "t.svm").write_text("1 1:2\n0 1:4\n")
    schema, _ = Schema.learn(Source(str(tmp_path / "t.svm")), Wanted(None, standardize=True))
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema


@pytest.mark.parametrize("blank", ["", "NA", "nan", "?"])
def test_missing_values_are_refused_filled_in_or_dropped(tmp_path, blank):
    rows = [(1.0, "red", "yes"), (3.0, "green", "no"), (blank, "red", "no"), (5.0, blank, "yes")]
    path = write_csv(tmp_path / "t.csv", rows)
    with refused(r"column 'size' of .*t\.csv lacks a value in row 3 \(1 in all\).*--missing"):
        learn(path)
    schema, _, table = learn(path, missing="mean")
    np.testing.assert_array_equal(schema.features(table), [[1, 0, 1], [3, 1, 0], [3, 0, 1], [5, 0, 0]])
    wanted = Wanted("kind", missing="drop")
    schema, _ = Schema.learn(Source(path), wanted)
    complete = wanted.complete(Source(path).read())
    np.testing.assert_array_equal(schema.features(complete), [[1, 0, 1], [3, 1, 0]])
    assert schema.encoding.complete(Source(path).read()).tolist() == [True, True, False, False]


def test_rows_keep_their_numbers_when_others_are_dropped(tmp_path):
    path = write_csv(tmp_path / "t.csv", [("", "a", "yes"), (1, "a", "no"), (2, "a", "odd")])
    wanted = Wanted("kind", missing="drop")
    schema, _ = Schema.learn(Source(path), wanted)
    with pytest.raises(ValueError, match=r"'odd' in row 3 .*no, yes"):
        schema.labels(wanted.complete(Source(path).read()), np.array(["no", "yes"]))


def test_infinities_and_words_among_numbers_are_refused_by_row(tmp_path):
    schema, _, _ = learn(write_csv(tmp_path / "t.csv"))
    with pytest.raises(ValueError, match=r"'size'.*infinite in row 2"):
        schema.features(Source(write_csv(tmp_path / "i.csv", [(1, "red"), ("inf", "red")], "size,colour")).read())
    with pytest.raises(ValueError, match=r"'size' .*holds 'big', which is not a number \(row 2\)"):
        schema.features(Source(write_csv(tmp_path / "w.csv", [(1, "red"), ("big", "red")], "size,colour")).read())


def test_a_column_that_turns_to_text_late_is_text_from_the_start(tmp_path, monkeypatch):
    rows = [(i, "red", "yes" if i % 2 else "no") for i in range(1, 7)] + [("seven", "red", "no")] * 2
    path = write_csv(tmp_path / "t.csv", rows)
    monkeypatch.setattr(Source.chunks, "__defaults__", (3,))
    source = Source(path)
    whole = Schema.learn(source, Wanted("kind"), lambda: [source.read(frozenset({"kind"}))])
    streamed = Schema.learn(source, Wanted("kind"))
    assert whole[0] == streamed[0]
    assert whole[0].encoding.names[:7] == [f"size={c}" for c in ["1", "2", "3", "4", "5", "6", "seven"]]


def test_columns_that_turn_to_text_late_cost_one_more_read(tmp_path, monkeypatch):
    """And each is tried as numbers once in each of them, whatever is asked of it."""
    numbers = [",".join(f"{i}{k}" for k in range(5)) + f",{i % 2}" for i in range(9)]
    words = [",".join("w" if (j - k) % 5 < 2 else "1" for k in range(5)) + ",1" for j in range(5)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,c,d,e,kind", *numbers, *words]) + "\n")
    monkeypatch.setattr(Source.chunks, "__defaults__", (3,))
    opened = []
    monkeypatch.setattr(Source, "_open", lambda source, real=Source._open: opened.append(1) or real(source))
    source, wanted = Source(str(tmp_path / "t.csv")), Wanted("kind")
    streamed, _ = Schema.learn(source, wanted)
    assert len(opened) == 2
    table = source.read(frozenset({"kind"}))
    assert len(opened) == 4
    assert Schema.learn(source, wanted, lambda: [table])[0] == streamed
    assert list(streamed.encoding.levels) == list("abcde")


def test_what_a_column_is_is_asked_once(monkeypatch):
    tried = []
    monkeypatch.setattr(tables, "read_numbers", lambda *cells, real=read_numbers: tried.append(1) or real(*cells))
    table = Table.of_cells("t", ["words", "numbers"], [["1", "a"], [" 1", ""]], 1, ".")
    for _ in range(3):
        assert (table.is_text("words"), table.is_text("numbers")) == (True, False)
        assert table.parsed("words") == 1  # the place of the first word
        np.testing.assert_array_equal(table.take(np.array([1, 0])).numbers("numbers"), [np.nan, 1])
    assert len(tried) == 2


def test_what_looks_like_a_number_in_python_only_is_text(tmp_path):
    schema, _, _ = learn(write_csv(tmp_path / "t.csv", [("1_1", "red", "yes"), ("1_2", "red", "no")]))
    assert schema.encoding.names == ["size=1_1", "size=1_2", "colour=red"]


def with_commas(path, rows=40):
    lines = [f"{i % 7},{i % 10};{i},000;{'a' if i % 2 else 'b'};{'yes' if i % 3 else 'no'}" for i in range(1, rows)]
    path.write_text("\n".join(["size;cost;colour;kind", *lines]) + "\n")
    return str(path)


def test_decimal_commas_are_read_if_asked_for(tmp_path):
    path = with_commas(tmp_path / "t.csv")
    source = Source(path, decimal=",")
    schema, _, table = learn(path, source=source)
    assert schema.encoding.names == ["size", "cost", "colour=a", "colour=b"]
    np.testing.assert_array_equal(table.numbers("size")[:3], [1.1, 2.2, 3.3])
    np.testing.assert_array_equal(next(source.chunks(5)).numbers("cost"), [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(source.read().take(np.array([2, 0])).numbers("size"), [3.3, 1.1])
    (tmp_path / "points.csv").write_text("a;b;k\n1.5;2,5;x\n1.5;3;y\n")
    assert Source(str(tmp_path / "points.csv"), decimal=",").read().is_text("a")  # a point is no part of a number then
    with pytest.raises(ValueError, match=r"column 'a' holds numbers such as '1\.5' that are taken for text"):
        learn(str(tmp_path / "points.csv"), "k", Source(str(tmp_path / "points.csv"), decimal=","))
    with pytest.raises(ValueError, match=r"decimal must be one of '.', ',', got ';'"):
        Source(path, decimal=";")


def test_numbers_with_commas_are_no_categories(tmp_path):
    path = with_commas(tmp_path / "t.csv")
    with refused(r"column 'size' holds numbers such as '0,1' that are taken for text.*--decimal ,"):
        learn(path)
    with refused(r"column 'cost' .* such as '1,000'.*thousands are not read"):
        learn(path, drop=["size"])
    with pytest.warns(UserWarning, match="column 'size' holds numbers such as '0,1'"):
        assert learn(path, features=["size"])[0].encoding.names[0] == "size=0,1"
    schema, _, _ = learn(write_csv(tmp_path / "p.csv"))
    with refused(r"holds '1,5', which is not a number \(row 1\); say --decimal , "):
        schema.features(Source(write_csv(tmp_path / "n.csv", [("1,5", "red")], "size,colour")).read())


def test_without_a_header_the_decimal_comma_is_no_delimiter(tmp_path):
    (tmp_path / "t.csv").write_text("1,5;2,5\n3,5;4,5\n")
    table = Source(str(tmp_path / "t.csv"), header=False, decimal=",").read()
    np.testing.assert_array_equal(table.numbers("c2"), [2.5, 4.5])


@pytest.mark.parametrize("spelled", [("true", "false"), ("True", "False"), ("TRUE", "FALSE")])
def test_booleans_of_csv_are_those_of_parquet(tmp_path, spelled):
    flags = [True, False, False, True]
    rows = [(spelled[not flag], "red", spelled[flag]) for flag in flags]
    csv = learn(write_csv(tmp_path / "t.csv", rows, header="flag,colour,kind"))
    columns = {"flag": flags, "colour": ["red"] * 4, "kind": [not flag for flag in flags]}
    parquet = learn(write_parquet(tmp_path / "t.parquet", columns))
    for schema, classes, _ in (csv, parquet):
        for _, _, table in (csv, parquet):
            np.testing.assert_array_equal(schema.features(table), [[1, 1], [0, 1], [0, 1], [1, 1]])
            labels = schema.labels(table, classes)
            assert [str(label).lower() for label in labels] == ["false", "true", "true", "false"]


def test_booleans_with_gaps_or_among_words(tmp_path):
    rows = [("", "a", "x"), ("true", "true", "y"), ("False", "false", "x")]
    table = Source(write_csv(tmp_path / "t.csv", rows)).read()
    np.testing.assert_array_equal(table.numbers("size"), [np.nan, 1, 0])
    assert table.text("colour") == ["a", "true", "false"]


def test_new_values_of_text_are_counted(tmp_path):
    schema, _, _ = learn(write_csv(tmp_path / "t.csv"))
    rows = [(1, "pink"), (2, "red"), (3, "pink"), (4, "")]
    unseen = schema.encoding.unseen(Source(write_csv(tmp_path / "n.csv", rows, "size,colour")).read())
    assert unseen == {"colour": {"pink": 2}}
    assert schema.encoding.levels == {"colour": 3}


def test_two_columns_of_one_name_in_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table([[1], [2]], names=["x", "x"]), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"t\.parquet has two columns named 'x'"):
        Source(str(tmp_path / "t.parquet")).read()


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252"])
def test_text_of_other_encodings(tmp_path, encoding):
    path = tmp_path / "t.csv"
    path.write_bytes("größe,kind\n1,né\n2,b\n".encode(encoding))
    with refused(r"t\.csv is not UTF-8 text .*--encoding"):
        Source(str(path)).read()
    assert Source(str(path), encoding=encoding).read().text("kind") == ["né", "b"]
    with pytest.raises(ValueError, match=r"encoding must be one that Python knows, .* got 'klingon'"):
        Source(str(path), encoding="klingon")


def test_lines_of_comments(tmp_path):
    (tmp_path / "t.csv").write_text("# made by hand\nsize,kind\n#1,x\n2,#y\n")
    table = Source(str(tmp_path / "t.csv"), comment="#").read()
    assert list(table.columns) == ["size", "kind"]
    assert table.text("kind") == ["#y"]


def test_files_from_windows(tmp_path):
    (tmp_path / "t.csv").write_bytes("\ufeffsize;colour;kind\r\n1;grün;yes\r\n2;rot;no\r\n".encode())
    schema, _, table = learn(str(tmp_path / "t.csv"))
    assert schema.encoding.names == ["size", "colour=grün", "colour=rot"]
    assert table.text("kind") == ["yes", "no"]


def test_chunks_learn_what_the_whole_does(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        (float(x), c, k) for x, c, k in zip(rng.normal(5, 3, 50), rng.choice(list("abc"), 50), "yn" * 25, strict=True)
    ]
    path = write_csv(tmp_path / "t.csv", rows)
    source, wanted = Source(path), Wanted("kind", standardize=True)
    whole, _ = Schema.learn(source, wanted, lambda: [source.read()])
    parts, _ = Schema.learn(source, wanted, lambda: source.chunks(7))
    X = whole.features(source.read())
    np.testing.assert_allclose(parts.features(source.read()), X, rtol=1e-12)
    np.testing.assert_allclose([X[:, 0].mean(), X[:, 0].std()], [0, 1], atol=1e-12)
    assert [len(part) for part in source.chunks(7)] == [7] * 7 + [1]


def test_scaling_a_sparse_matrix_in_chunks(tmp_path):
    (tmp_path / "t.svm").write_text("0 1:1\n1 3:2\n0 1:3 2:1\n")
    source = Source(str(tmp_path / "t.svm"))
    schema, _ = Schema.learn(source, Wanted(None, standardize=True), lambda: source.chunks(1))
    X = np.array([[1.0, 0, 0], [0, 0, 2], [3, 1, 0]])
    np.testing.assert_allclose(dense(schema.features(source.read())), X / X.std(axis=0))


def test_many_categories_make_a_sparse_matrix(tmp_path):
    rows = [(i, f"v{i % 40}", "yn"[i % 2]) for i in range(200)]
    schema, _, table = learn(write_csv(tmp_path / "t.csv", rows))
    X = schema.features(table)
    assert sp.issparse(X)
    assert X.shape == (200, 41)
    assert X.nnz == 199 + 200  # the first number is zero


def test_the_name_of_a_row_is_no_category(tmp_path):
    rows = [(i, f"r{i}", "yn"[i % 2]) for i in range(60)]
    path = write_csv(tmp_path / "t.csv", rows)
    with refused(r"'colour' has 60 different strings in 60 rows.*--drop colour"):
        learn(path)
    assert learn(path, drop=["colour"])[0].encoding.names == ["size"]
    assert len(learn(path, features=["colour"])[0].encoding.names) == 60  # somebody asked for it


def test_labels():
    assert find_classes(["+1", "-1"], "y").tolist() == [-1, 1]
    assert find_classes(["1.0", "2.0"], "y").tolist() == [1, 2]
    assert find_classes(["007", "7"], "y").tolist() == ["007", "7"]
    with pytest.raises(ValueError, match=r"'y' holds 30 different numbers such as 0.5"):
        find_classes([f"{i}.5" for i in range(30)], "y")
    assert match_classes(["1", "2.0"], np.array([1, 2]), "t", int).tolist() == [1, 2]
    assert match_classes(["true", "FALSE", "1"], np.array([0, 1]), "t", int).tolist() == [1, 0, 1]
    assert match_classes(["true", "False"], np.array(["FALSE", "TRUE"]), "t", int).tolist() == ["TRUE", "FALSE"]
    with pytest.raises(ValueError, match=r"'Yes' in row 0 .* none of the classes no, yes"):
        match_classes(["Yes"], np.array(["no", "yes"]), "t", int)


BROKEN = {
    "is empty": b"",
    "has a header but no rows": b"a,b\n",
    "row 2 of .* has 3 fields, but there are 2 columns": b"a,b\n1,2\n1,2,3\n",
    "two columns named 'a'": b"a,a\n1,2\n",
    "holds numbers, not the names": b"1,2\n3,4\n",
    "not UTF-8": b"a,b\n\xff\xfe,1\n",
    "not well-formed near line 2": b'a,b\n"1,2\n',
}


@pytest.mark.parametrize("sentence", BROKEN)
def test_broken_csv(tmp_path, sentence):
    path = tmp_path / "t.csv"
    path.write_bytes(BROKEN[sentence])
    with pytest.raises(ValueError, match=sentence):
        Source(str(path)).read()


def test_broken_files_of_other_formats(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "t.parquet").write_bytes(b"PAR1 but not much more")
    with pytest.raises(ValueError, match=r"t\.parquet is not a Parquet file"):
        Source(str(tmp_path / "t.parquet")).read()
    (tmp_path / "t.svm").write_text("1 1:2\nword 1:2\n")
    with pytest.raises(ValueError, match="not svmlight text, in row 2"):
        Source(str(tmp_path / "t.svm")).read()
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n" + bytes(range(48, 58)) * 1000)[:40])
    with pytest.raises(ValueError, match="cannot be unpacked"):
        Source(str(tmp_path / "t.csv.gz")).read()
    (tmp_path / "t.csv.xz").write_bytes(lzma.compress(b"a,b\n1,2\n"))
    assert len(Source(str(tmp_path / "t.csv.xz")).read()) == 1
    with pytest.raises(FileNotFoundError):
        Source(str(tmp_path / "none.csv")).read()


def test_a_matrix_is_no_table(tmp_path):
    schema, _, table = learn(write_csv(tmp_path / "t.csv"))
    (tmp_path / "t.svm").write_text("1 1:2\n0 1:3\n")
    matrix = Source(str(tmp_path / "t.svm")).read()
    assert matrix.X is not None
    with pytest.raises(ValueError, match="named columns"):
        schema.features(matrix)
    with pytest.raises(ValueError, match="without names"):
        Schema.learn(Source(str(tmp_path / "t.svm")), Wanted(None))[0].features(table)
