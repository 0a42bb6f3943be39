"""CSV by Arrow, held against the csv module: one table, one refusal, whatever is in the file."""

import csv
import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("typer")

from majorant.cli import readers
from majorant.cli.readers import Source
from majorant.cli.tables import Table

# Two rows at a time, so that there are borders to get wrong.
ROWS = 2
# By what it is about; pyarrow reads the first group to the end, and leaves the second to the csv module at some point.
PLAIN = {
    "spaces before marks": "a , b ,c\n1 , x , 2\n3,y ,4 \n",
    "numbers and words": "a,b\n1,x\n2,y\n3,z\n",
    "no end of line": "a,b\n1,x\n2,y",
    "missing values": "a,b,c,d\n1,,NA,?\nNaN,x,null,nan\nN/A,y,NULL,\n",
    "words for what is not finite": "a,b,c\ninf,NAN,1\n-Infinity,2,INF\n+nan,3,nan\n",
    "nan of C": "a,b\nnan(1),1\n2,nan()\n",
    "only Python's numbers": "a,b,c\n1_000,١,1\n2, 2 ,2\t\n3,+3,0x10\n",
    "huge and tiny": f"a,b\n{10**40},1e400\n-{10**400},1e-400\n4.9e-324,2.5e-324\n",
    "numbers by a hair": "a\n0.1\n1.7976931348623157e308\n9007199254740993\n2.2250738585072011e-308\n.5\n5.\n-0\n",
    "dates": "a,b\n2020-01-01,1\n2020-01-02T10:00:00Z,2\n10:30,3\n",
    "truth": "a,b,c\ntrue,True,true\nfalse,FALSE,x\n,TRUE,1\n",
    "a column of text late": "a,b\n1,1\n2,2\n3,x\n4,y\n",
    "quoted": 'a,b\n"1","x, y"\n"2","say ""so"""\n"",""""\n"3",""\n',
    "quoted numbers": 'a,b\n"1","2.5"\n"",3\n',
    "initial spaces": "a, b, c\n1, x, 2\n 3,  y z , \n,   , 4\n",
    "trailing spaces": "a,b \n1 ,x \n2,y\n",
    "blank lines": "\n\na,b\n\n1,x\n  \t \n\n2,y\n\n\n3,z\n \n",
    "CRLF": "a,b\r\n1,x\r\n\r\n2,y\r\n",
    "CR": "a,b\r1,x\r2,y\r3,z\r",
    "ends of lines of all kinds": "a,b\n1,x\r\n2,y\r3,z\n\r4,w",
    "byte order mark": "\ufeffa,b\n1,x\n2,y\n",
    "no names, byte order mark": "\ufeff1,x\n2,y\n",
    "one column": "a\n1\n\n2\n",
    "one column, quoted": 'a\n""\n"x"\n',
    "tabs": "a\tb\n1\tx y\n\t2\n",
    "semicolons": "a;b;c\n1,5;x;1.5\n2,5;y;,5\n1;z;\n",
    "NUL and other controls": "a,b\n\x001,x\x00y\n2,\x1c\x85\u2028\n3,\x0b\n",
    "unicode": "größe,b\n1,日本\n2,\U0001f600\n3,\u00a0\n",
    "names in quotes": '"a","b, c","d\ne"\n1,2,3\n4,5,6\n',
    "a line of marks": "a,b,c\n,,\n1,2,3\n",
    "no rows": "a,b\n",
    "nothing": "",
    "two names alike": "a,a\n1,2\n",
    "numbers for names": "1,2\n3,4\n",
    "comments": "# one\na,b\n#2,y\n1,#x\n# three\n3,z\n",
}
ODD = {
    "ragged, long": "a,b\n1,x\n2,y\n3,z,w\n4,u\n",
    "ragged, short": "a,b\n1,x\n2\n3,z\n",
    "ragged after blank lines": "a,b\n\n1,x\n\n\n2,y\n3\n",
    "several lines": 'a,b\n1,x\n2,"y\nz"\n3,"u\n\nv"\n4,w\n',
    "several lines over a border": 'a,b\n1,"x\ny\nz\nw"\n2,u\n3,v\n',
    "never closed": 'a,b\n1,x\n2,y\n3,"z\n4,w\n',
    "closed too early": 'a,b\n1,x\n2,"y"z\n3,w\n',
    "a quote within": 'a,b\n1,5" pipe\n2,say "so"\n3,w\n',
    "a quote at the end": 'a,b\n1,x"\n2,"y"\n3,w"\n',
    "quotes of two lines": 'a,b\n1,x"\n"2,y\n3,w\n',
    "a quote after spaces": 'a,b\n1, "x, y"\n2, "z"\n3,w\n',
    "a quote before spaces": 'a,b\n1,"x, y" \n2,z\n',
    "initial spaces and quotes": 'a,b\n 1,"x"\n2,  y\n"3, 4",z\n',
    "a mark that pyarrow drops": "a,b\n1,x\n2,y\n\ufeff3,z\n4,w\n",
    "a long cell": f"a,b\n1,x\n2,{'y' * csv.field_size_limit()}\n",
    "a cell too long": f"a,b\n1,x\n2,{'y' * (csv.field_size_limit() + 1)}\n",
    "spaces before marks and quotes": 'a , b\n1 , x\n"2 , 3" , y\n4 ,"z , w"\n5 , u \n',
    "spaces before marks in a cell of lines": 'a,b\n1,"x , y\nz , w \nu"\n2 , v\n',
    "runs of spaces": "a b  c\n1  x 2\n 3 y   4 \n",
}
FILES = PLAIN | ODD
SETTINGS = [
    {},
    {"header": False},
    {"decimal": ","},
    {"comment": "#"},
    {"delimiter": ";", "decimal": ","},
    {"delimiter": "§"},
    {"delimiter": "|", "header": True},
]


def observed(source, rows=ROWS):
    """Return all that can be seen of a table: its parts, and how it ends."""
    seen = []
    try:
        for part in source.chunks(rows):
            seen.append((part.first_row, {name: looks(part, name) for name in part.columns}))
    except ValueError as problem:
        seen.append(str(problem))
    return seen


def looks(part, name):
    text = part.text(name)
    try:
        return text, [repr(number) for number in part.numbers(name).tolist()]
    except ValueError as problem:
        assert part.is_text(name)
        return text, str(problem)


def compare(source, rows=ROWS):
    """Read by Arrow where that is trusted, and by the csv module alone; return what they agree on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "arrow_columns", lambda *_: None)
        plain = observed(source, rows)
    assert observed(source, rows) == plain
    return plain


@pytest.mark.parametrize("options", SETTINGS, ids=str)
@pytest.mark.parametrize("about", FILES)
def test_both_readers_agree(tmp_path, about, options):
    path = tmp_path / "t.csv"
    path.write_bytes(FILES[about].encode())
    for rows in (1, ROWS, 100):
        compare(Source(str(path), **options), rows)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "utf-8", "cp1252"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_encodings_and_packing(tmp_path, encoding, pack):
    path = tmp_path / ("t.csv.gz" if pack is gzip.compress else "t.csv")
    path.write_bytes(pack("größe,b\n1,né\n2,ß\n3,x\n".encode(encoding)))
    for said in ("utf-8", encoding):
        compare(Source(str(path), encoding=said))
    assert compare(Source(str(path), encoding=encoding))[0][1]["b"][0] == ["né", "ß"]


def only_the_first(real):
    """Return a reader that fails once it has yielded the names of the columns."""

    def records(lines, origin, delimiter, read=0):
        for place, record in enumerate(real(lines, origin, delimiter, read)):
            assert place + read == 0, "read by the csv module"
            yield record

    return records


@pytest.mark.parametrize("about", PLAIN)
def test_what_pyarrow_reads(tmp_path, monkeypatch, about):
    """To the end, so that the csv module has the names of the columns and nothing else to do."""
    (tmp_path / "t.csv").write_bytes(FILES[about].encode())
    monkeypatch.setattr(readers, "csv_records", only_the_first(readers.csv_records))
    observed(Source(str(tmp_path / "t.csv"), comment="#" if about == "comments" else None))


@pytest.mark.parametrize("about", ODD)
def test_what_pyarrow_leaves(tmp_path, monkeypatch, about):
    by_csv = []

    def watched(*given, real=readers.csv_records):
        for record in real(*given):
            by_csv.append(record)
            yield record

    (tmp_path / "t.csv").write_bytes(FILES[about].encode())
    monkeypatch.setattr(readers, "csv_records", watched)
    seen = observed(Source(str(tmp_path / "t.csv")))
    assert len(by_csv) > 1 or isinstance(seen[-1], str)  # more than the names of the columns, or a refusal


def test_rows_are_named_in_the_file_whoever_reads(tmp_path):
    path = tmp_path / "t.csv"
    good = "a,b\n" + "1,x\n" * 5
    path.write_text(good + "2\n")
    assert compare(Source(str(path)))[-1] == f"row 6 of {path} has 1 field, but there are 2 columns"
    path.write_text(good + '2,"y\n')
    assert "not well-formed near line 7" in compare(Source(str(path)))[-1]
    path.write_text(good + "w,x\n")
    said = compare(Source(str(path)))[2][1]["a"][1]
    assert "holds 'w', which is not a number (row 6)" in said
    assert said.endswith("mend that cell, or empty it if its value is missing")


WORDS = ["", "NA", "?", "nan", "inf", "true", "FALSE", "1", "-2.5", "1e5", "1,5", " 7", "7 ", "x", "1_0", "#"]
CELLS = st.one_of(
    st.sampled_from(
        ["", "NA", "?", "nan", "inf", "true", "FALSE", "1", "-2.5", "1e5", "1,5", " 7", "7 ", "x", "1_0", "#"]
    ),
    st.floats().map(repr),
    st.integers(-(10**30), 10**30).map(str),
    st.text(st.sampled_from(list('ab,;"\t\r\n #_.é\ufeff1')), max_size=5),
)
TABLES = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), min_size=1, max_size=9)
)


@settings(max_examples=150, deadline=None)
@given(TABLES, st.sampled_from([",", ";", "\t"]), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, None]), st.data())
def test_any_file(tmp_path_factory, rows, delimiter, quoting, data):
    """Written as CSV should be, or by joining cells whatever is in them."""
    path = tmp_path_factory.mktemp("any") / "t.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        if quoting is None:
            file.write("\n".join(delimiter.join(row) for row in rows))
        else:
            csv.writer(file, delimiter=delimiter, quoting=quoting).writerows(rows)
    options = data.draw(st.sampled_from([{}, {"header": False}, {"header": True}, {"comment": "#"}]))
    compare(Source(str(path), delimiter=delimiter, decimal=data.draw(st.sampled_from(".,")), **options))


def test_equal_cells_are_one_object():
    cells = Table.of_cells("t", ["a"], [["a 1", "b", "a 1", ""]], 1, ".").text("a")
    assert cells == ["a 1", "b", "a 1", None]
    assert cells[0] is cells[2]


def test_memory_is_that_of_a_chunk(tmp_path):
    """No more lines are taken than a chunk has rows, but for those that show the delimiter."""
    taken = []
    lines = (taken.append(1) or f"{i},x\n" for i in range(10_000))
    parts = readers.read_csv(lines, "t", 50, header=False)
    np.testing.assert_array_equal(next(parts).numbers("c1"), range(50))
    assert len(taken) <= 50 + readers.SAMPLE
