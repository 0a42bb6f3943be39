"""CoNLL column files and feature templates: what is read, what is refused, and the published counts."""

import bz2
import gzip
import io
import itertools
import lzma
import os
from pathlib import Path

import pytest

from majorant.cli.conll import (
    CHUNKING,
    ColumnFile,
    Sentence,
    Template,
    TemplateSet,
    batches,
    parse_templates,
    read_templates,
    window,
    write_sentence,
)

TEXT = "He PRP B-NP\nslept VBD B-VP\n\n\n# # B-NP\nwell RB O"
COLUMNS = [(("He", "slept"), ("PRP", "VBD"), ("B-NP", "B-VP")), (("#", "well"), ("#", "RB"), ("B-NP", "O"))]


def saved(path, text):
    pack = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(text.encode()))
    return str(path)


def columns(source):
    return [sentence.columns for sentence in source]


# --- reading and writing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.txt", "t.txt.gz", "t.txt.bz2", "t.txt.xz"])
def test_reading_plain_and_packed(tmp_path, name):
    assert columns(ColumnFile(saved(tmp_path / name, TEXT))) == COLUMNS


@pytest.mark.parametrize("text", [TEXT.replace(" ", "\t"), TEXT.replace("\n", " \r\n"), TEXT.replace(" ", "   ")])
def test_tabs_line_ends_and_runs_of_blanks(tmp_path, text):
    assert columns(ColumnFile(saved(tmp_path / "t.txt", "\ufeff" + text))) == COLUMNS


def test_between_tabs_a_field_may_hold_blanks_or_nothing(tmp_path):
    path = saved(tmp_path / "t.txt", "New York\t\tB-LOC\nis\tVBZ\tO\n")
    assert columns(ColumnFile(path)) == [(("New York", "is"), ("", "VBZ"), ("B-LOC", "O"))]
    with pytest.raises(ValueError, match=r"line 2 of .* has 1 columns, but the lines before have 3"):
        columns(ColumnFile(saved(tmp_path / "u.txt", "a\tb c\td\ne f\n")))


def test_a_no_break_space_is_part_of_a_token(tmp_path):
    assert columns(ColumnFile(saved(tmp_path / "t.txt", "1\u00a0000 CD\n"))) == [(("1\u00a0000",), ("CD",))]


def test_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert columns(ColumnFile("-")) == COLUMNS


def test_reading_holds_one_sentence_at_a_time(tmp_path):
    sentences = iter(ColumnFile(saved(tmp_path / "t.txt", "a X\n\nb Y\n\nragged\n")))
    assert [next(sentences).column(0), next(sentences).column(0)] == [("a",), ("b",)]
    with pytest.raises(ValueError, match=r"line 5 of .*t\.txt has 1 columns, but the lines before have 2"):
        next(sentences)


def test_documents_and_comments(tmp_path):
    path = saved(tmp_path / "t.txt", "-DOCSTART- -X- O\n\n# text = He\nHe PRP B-NP\n\nShe PRP B-NP\n")
    first, second = ColumnFile(path, skip=("-DOCSTART-", "# "))
    assert first.columns == (("He",), ("PRP",), ("B-NP",))
    assert first.skipped == ("-DOCSTART- -X- O", "", "# text = He")
    assert (first.first_line, second.first_line) == (4, 6)
    with pytest.raises(ValueError, match=r"line 4 of .* has 3 columns, but the lines before have 4"):
        columns(ColumnFile(path))
    assert columns(ColumnFile(saved(tmp_path / "u.txt", "-DOCSTART- O\n"), skip=())) == [(("-DOCSTART-",), ("O",))]


@pytest.mark.parametrize("text", ["", "\n \n", "-DOCSTART- O\n\n"])
def test_a_file_without_sentences_is_refused(tmp_path, text):
    with pytest.raises(ValueError, match=r"t\.txt holds no sentence"):
        columns(ColumnFile(saved(tmp_path / "t.txt", text)))


def test_bad_bytes_are_refused_by_name(tmp_path):
    (tmp_path / "t.txt").write_bytes(b"a X\n\xff Y\n")
    with pytest.raises(ValueError, match=r"line 2 of .*t\.txt is not UTF-8"):
        columns(ColumnFile(str(tmp_path / "t.txt")))
    (tmp_path / "t.gz").write_bytes(b"a X\n")
    with pytest.raises(ValueError, match=r"t\.gz cannot be unpacked"):
        columns(ColumnFile(str(tmp_path / "t.gz")))
    with pytest.raises(ValueError, match="separator must be one of 'auto', 'space', 'tab', got 'comma'"):
        ColumnFile("t.txt", "comma")


def test_columns_and_labels_that_are_not_there():
    sentence = Sentence((("a", "b"), ("X", "")), first_line=7, origin="t.txt")
    assert sentence.column(-2) == ("a", "b")
    with pytest.raises(ValueError, match=r"at line 7 of t\.txt has 2 columns, but column 2 is needed"):
        sentence.column(2)
    with pytest.raises(ValueError, match=r"line 8 of t\.txt has an empty label in column 1"):
        sentence.labels(1)


def test_what_is_written_is_what_was_read_and_a_column(tmp_path):
    text = "-DOCSTART- O\n\na X\nb Y\n\nc Z\n\n"
    written = io.StringIO()
    for sentence in ColumnFile(saved(tmp_path / "t.txt", text)):
        write_sentence(written.write, sentence, [field.lower() for field in sentence.column(1)])
    assert written.getvalue() == "-DOCSTART- O\n\na X x\nb Y y\n\nc Z z\n\n"


def test_batches():
    sentences = [Sentence(((str(i),),)) for i in range(5)]
    assert [len(batch) for batch in batches(iter(sentences), 2)] == [2, 2, 1]


# --- templates --------------------------------------------------------------------------------------------

SENTENCES = [Sentence((("a", "b", "c"), ("X", "Y", "Z"))), Sentence((("d",), ("X",)))]


def literal(templates, sentences):
    """Interpret templates token by token."""

    def field(sentence, place, column):
        n = len(sentence)
        if 0 <= place < n:
            return sentence.columns[column][place]
        return f"_B{place}" if place < 0 else f"_B+{place - n + 1}"

    def attributes(sentence, t):
        for template in templates.templates:
            inside = all(0 <= t + offset < len(sentence) for offset, _ in template.places)
            if inside or templates.beyond == "mark":
                fields = [field(sentence, t + offset, column) for offset, column in template.places]
                yield "".join(a + b for a, b in zip(template.texts, [*fields, ""], strict=True))
        if templates.ends:
            yield from ["__BOS__"] * (t == 0) + ["__EOS__"] * (t == len(sentence) - 1)

    return [[list(attributes(sentence, t)) for t in range(len(sentence))] for sentence in sentences]


CRFPP = """
# words
U00:%x[-2,0]
U01:%x[0,0]/%x[+1,1]/%x[ 3 , 0 ]
U02
U:%x[0,1]

B
"""


@pytest.mark.parametrize(
    "templates",
    [
        CHUNKING,
        window(2),
        window([1], reach=4),
        parse_templates(CRFPP.splitlines()),
        TemplateSet((Template(("bias",), ()), Template(("", "-", "-", "-", "!"), ((1, 0), (0, 0), (0, 1), (-1, 1))))),
    ],
)
def test_extraction_is_the_literal_reading(templates):
    assert templates.extract(SENTENCES) == literal(templates, SENTENCES)
    assert templates.extract(SENTENCES[1:]) == literal(templates, SENTENCES[1:])
    assert templates.extract([]) == []
    assert TemplateSet.from_json(templates.to_json()) == templates


def test_the_attributes_of_crfsuites_example():
    first = CHUNKING.extract(SENTENCES)[0][0]
    assert first == [
        "w[0]=a",
        "w[1]=b",
        "w[2]=c",
        "w[0]|w[1]=a|b",
        "pos[0]=X",
        "pos[1]=Y",
        "pos[2]=Z",
        "pos[0]|pos[1]=X|Y",
        "pos[1]|pos[2]=Y|Z",
        "pos[0]|pos[1]|pos[2]=X|Y|Z",
        "__BOS__",
    ]
    assert len(CHUNKING.templates) == 19


def test_equal_attributes_are_one_object():
    first, second = window(1, reach=0).extract([Sentence((("a" * 9, "a" * 9),))])[0]
    assert first[0] is second[0]


def test_marks_of_crfpp():
    ((token,),) = parse_templates(["U0:%x[-1,0]", "U1:%x[-2,0]", "U2:%x[1,0]", "U3:%x[0,0]|", "B"]).extract(
        SENTENCES[1:]
    )
    assert token == ["U0:_B-1", "U1:_B-2", "U2:_B+1", "U3:d|"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("U00:%x[0,0]\nX1\nB", "line 2 of .* begins with neither U, B nor #: 'X1'"),
        ("U00:%x[0]\nB", r"line 1 of .* has a % that begins no %x\[row,column\]"),
        ("U00:%x[0,0]\nB01:%x[0,0]", "line 2 of .* transitions that depend on the tokens"),
        ("U00:%x[0,0]", "has no B line"),
        ("# nothing\nB", "has no U line"),
    ],
)
def test_template_files_are_refused_by_line(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_templates(saved(tmp_path / "template", text))


def test_templates_that_make_no_sense():
    with pytest.raises(ValueError, match="needs one text more"):
        Template(("a",), ((0, 0),))
    with pytest.raises(ValueError, match="column of a template must be a whole number of at least 0, got -1"):
        Template(("a", ""), ((0, -1),))
    with pytest.raises(ValueError, match="at least one"):
        TemplateSet(())
    with pytest.raises(ValueError, match="has 1 columns, but column 1 is needed"):
        CHUNKING.extract([Sentence((("a",),))])


@pytest.mark.unwatched
def test_the_universe_of_crfsuite_on_conll_2000():
    """335,674 attributes and 452,755 features: what CRFsuite itself counts (its log, c2 = 1, minfreq 0)."""
    path = Path(os.environ.get("MAJORANT_DATA", "")) / "conll2000" / "train.txt.gz"
    if not path.is_file():
        pytest.skip("needs conll2000/train.txt.gz in the folder MAJORANT_DATA")
    sentences = list(ColumnFile(str(path)))
    X, y = CHUNKING.extract(sentences), [sentence.column(2) for sentence in sentences]
    assert (len(sentences), sum(map(len, sentences))) == (8936, 211_727)
    pairs = {(a, label) for x, labels in zip(X, y, strict=True) for t, label in zip(x, labels, strict=True) for a in t}
    transitions = {pair for labels in y for pair in itertools.pairwise(labels)}
    assert len({attribute for attribute, _ in pairs}) == 335_674
    assert len(pairs) + len(transitions) == 452_755
