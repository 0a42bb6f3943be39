"""``majorant crf`` as a person uses it: files in a folder, what is printed, what is left behind."""

import gzip
import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer")


import majorant
from majorant.cli.conll import CHUNKING, ColumnFile, TemplateSet
from majorant.metrics import chunk_scores
from tests.commands import call, invoke


class Votes:
    """A stand-in for ChainCRF, so that these tests are about the command alone: attributes vote for labels."""

    def __init__(self, **settings):
        self.settings, self.votes = settings, Counter()
        self.classes_, self.parts, self.result_, self.gap_, self.n_iter_ = [], 0, "counted", 0.25, 1

    def fit(self, X, y, sample_weight=None):
        return self.partial_fit(X, y)

    def partial_fit(self, X, y, classes=None):
        assert len(X) == len(y)
        for x, labels in zip(X, y, strict=True):
            self.votes.update((a, label) for t, label in zip(x, labels, strict=True) for a in t)
        self.classes_ = sorted({*self.classes_, *(classes or []), *(label for labels in y for label in labels)})
        self.parts += 1
        return self

    def predict_marginals(self, X):
        counts = [[{c: 1 + sum(self.votes[a, c] for a in t) for c in self.classes_} for t in x] for x in X]
        return [[{c: n / sum(t.values()) for c, n in t.items()} for t in x] for x in counts]

    def predict(self, X):
        return [[max(t, key=t.get) for t in x] for x in self.predict_marginals(X)]

    def save(self, path, notes=None):
        votes = [[*key, count] for key, count in self.votes.items()]
        Path(path).write_text(json.dumps([self.settings, self.classes_, self.parts, votes, notes]))

    @classmethod
    def load(cls, path):
        settings, classes, parts, votes, notes = json.loads(Path(path).read_text())
        model = cls(**settings)
        model.classes_, model.parts, model.notes_ = classes, parts, notes
        model.votes.update({(a, c): n for a, c, n in votes})
        return model


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "train.txt", 60, seed=0)
    write(tmp_path / "test.txt", 20, seed=1)
    return tmp_path


@pytest.fixture
def votes(monkeypatch):
    monkeypatch.setattr(majorant, "ChainCRF", Votes, raising=False)


def write(path, n, seed):
    """Write sentences such as "the old dog saw a cat": words, parts of speech, chunks."""
    rng = np.random.default_rng(seed)
    words = {"DT": ["the", "a"], "JJ": ["old", "big"], "NN": ["dog", "cat", "saw"], "VB": ["saw", "ran"]}
    lines = []
    for _ in range(n):
        for kind in ["NP", "VP", "NP"][: rng.integers(1, 4)]:
            tags = ["VB"] if kind == "VP" else ["DT", *["JJ"] * rng.integers(0, 3), "NN"]
            lines += [f"{rng.choice(words[t])} {t} {'I' if i else 'B'}-{kind}" for i, t in enumerate(tags)]
        lines += [". . O", ""]
    path.write_text("\n".join(lines) + "\n")


def rows(path):
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "rt") as file:
        return [line.split() for line in file]


# --- round trips ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("template", ["window", "chunking", "U.txt"])
def test_train_tag_eval(folder, votes, template):
    (folder / "U.txt").write_text("U0:%x[0,0]\nU1:%x[0,1]\nU2:%x[-1,1]/%x[0,1]\nB\n")
    said = call("crf", "train", "train.txt", "--template", template, "--test", "test.txt", "-m", "m.npz")
    n = len([row for row in rows("train.txt") if row])
    assert f"trained on 60 sentences, {n} tokens, 4 labels in" in said
    assert "model written to m.npz" in said
    assert "Test: 20 sentences" in said
    tokens = [row for row in rows("test.txt") if row]
    said = call("crf", "tag", "m.npz", "test.txt", "--out", "tagged.txt.gz")
    assert said == f"{len(tokens)} labels of 20 sentences written to tagged.txt.gz\n"
    tagged = rows("tagged.txt.gz")
    assert [row[:3] for row in tagged] == rows("test.txt")
    found = json.loads(call("crf", "eval", "m.npz", "test.txt", "--json"))
    right = np.mean([row[2] == row[3] for row in tagged if row])
    assert found["accuracy"] == pytest.approx(right)
    assert right > 0.8
    y = [[list(s.column(n)) for s in ColumnFile("tagged.txt.gz")] for n in (2, 3)]
    assert found["f1"] == chunk_scores(*y).f1
    assert [row["type"] for row in found["types"]] == ["NP", "VP"]
    table = call("crf", "eval", "m.npz", "test.txt")
    assert f"{found['f1']:.4f}" in table
    assert "Chunks by type" in table


def test_the_model_carries_templates_settings_and_facts(folder, votes):
    facts = json.loads(
        call(
            *("crf", "train", "train.txt", "test.txt", "--template", "chunking", "--c2", "0.5", "--n-jobs", "2"),
            *("--min-freq", "2", "--all-states", "--all-transitions", "--solver", "bbm", "--tol", "0.01"),
            *("--max-iter", "7", "--seed", "3", "--c1", "0.25", "--json"),
        )
    )
    assert facts["model"] == "train.crf.npz"
    assert facts["sentences"] == 80
    assert (facts["gap"], facts["steps"], facts["result"], facts["test"]) == (0.25, 1, "counted", None)
    model = Votes.load("train.crf.npz")
    assert TemplateSet.from_json(model.notes_["templates"]) == CHUNKING
    assert model.notes_["trained_on"] == ["train.txt", "test.txt"]
    assert model.settings == {
        "c1": 0.25,
        "c2": 0.5,
        "solver": "bbm",
        "tol": 0.01,
        "max_iter": 7,
        "min_freq": 2,
        "all_possible_states": True,
        "all_possible_transitions": True,
        "n_jobs": 2,
        "random_state": 3,
        "callbacks": [],
    }


def test_a_stream_learns_the_same_counts(folder, votes):
    call("crf", "train", "train.txt", "-m", "whole.npz")
    said = call("crf", "train", "train.txt", "-m", "s.npz", "--stream", "--chunk-sentences", "25")
    assert "one pass over 60 sentences in 3 chunks" in said
    whole, stream = Votes.load("whole.npz"), Votes.load("s.npz")
    assert stream.parts == 3
    assert (stream.votes, stream.classes_) == (whole.votes, whole.classes_)
    text = (folder / "train.txt").read_text()
    call("crf", "train", "-", "-m", "i.npz", "--stream", "--classes", "B-NP,I-NP,B-VP,O,B-X", stdin=text)
    assert Votes.load("i.npz").classes_ == ["B-NP", "B-VP", "B-X", "I-NP", "O"]


def test_standard_input_and_output_with_marginals(folder, votes):
    call("crf", "train", "-", "-m", "m.npz", stdin=(folder / "train.txt").read_text())
    said = call("crf", "tag", "m.npz", "-", "--marginals", stdin="-DOCSTART- -X-\n\nthe DT\ndog NN\n\nran VB\n")
    lines = [line.split() for line in said.splitlines()]
    assert [row[:3] for row in lines] == [
        ["-DOCSTART-", "-X-"],
        [],
        ["the", "DT", "B-NP"],
        ["dog", "NN", "I-NP"],
        [],
        ["ran", "VB", "B-VP"],
        [],
    ]
    assert all(0 < float(row[3]) <= 1 for row in lines if len(row) == 4)


def test_labels_in_another_column(folder, votes):
    turned = "\n".join(" ".join([row[2], *row[:2]]) if row else "" for row in rows("train.txt"))
    (folder / "turned.txt").write_text(turned)
    call("crf", "train", "turned.txt", "--label-column", "0", "-m", "turned.npz")
    found = json.loads(call("crf", "eval", "turned.npz", "turned.txt", "--json"))
    call("crf", "train", "train.txt", "-m", "m.npz")
    usual = json.loads(call("crf", "eval", "m.npz", "train.txt", "--json"))
    assert found == {**usual, "model": "turned.npz", "data": "turned.txt"}
    other = json.loads(call("crf", "eval", "m.npz", "train.txt", "--label-column", "1", "--json"))
    assert (other["accuracy"], other["f1"]) == (0, None)  # parts of speech, of which none was learnt


def test_labels_that_are_no_chunks_have_no_f1(folder, votes):
    call("crf", "train", "train.txt", "--label-column", "1", "-m", "m.npz")
    said = call("crf", "eval", "m.npz", "test.txt")
    assert "token accuracy" in said
    assert "so there is no F1" in said


def test_skipped_lines_stay_skipped(folder, votes):
    text = "# a comment of many words\n" + (folder / "train.txt").read_text()
    (folder / "commented.txt").write_text(text)
    call("crf", "train", "commented.txt", "--skip", "# ", "-m", "m.npz")
    assert call("crf", "tag", "m.npz", "commented.txt").startswith("# a comment of many words\n")
    assert "has 3 columns" in call("crf", "eval", "m.npz", "commented.txt", "--skip", "", code=1)


def test_other_encodings(folder, votes):
    text = (folder / "train.txt").read_text().replace("dog", "hünd")
    for encoding in ("latin-1", "utf-16"):
        (folder / "odd.txt").write_text(text, encoding=encoding)
        (folder / "m.npz").unlink(missing_ok=True)  # that of the stand-in is no model
        call("crf", "train", "odd.txt", "--encoding", encoding, "-m", "m.npz")
        assert "hünd NN I-NP I-NP\n" in call("crf", "tag", "m.npz", "odd.txt", "--encoding", encoding)
    (folder / "odd.txt").write_text(text, encoding="latin-1")
    assert "is not UTF-8 text; say --encoding" in call("crf", "train", "odd.txt", code=1)


def test_a_file_without_sentences_is_tagged_as_such(folder, votes):
    call("crf", "train", "train.txt", "-m", "m.npz")
    (folder / "empty.txt").write_text("\n\n")
    assert call("crf", "tag", "m.npz", "empty.txt") == ""
    assert call("crf", "tag", "m.npz", "empty.txt", "-o", "t.txt") == "0 labels of 0 sentences written to t.txt\n"
    assert (folder / "t.txt").read_text() == ""
    assert "empty.txt holds no sentence" in call("crf", "eval", "m.npz", "empty.txt", code=1)


@pytest.mark.parametrize("text", ["# text = He slept\n1\tHe\tP\n", "1\tHe\tP\n\n# text = She slept\n1\tShe\tP\n"])
def test_comments_of_conll_u_are_hinted_at(folder, votes, text):
    (folder / "u.txt").write_text(text)
    assert "say --skip '#'" in call("crf", "train", "u.txt", code=1)
    call("crf", "train", "u.txt", "--skip", "#")


def test_help_is_shown_where_nothing_is_asked():
    assert "majorant crf train train.txt" in call("crf")
    for command in ("train", "tag", "eval"):
        assert f"majorant crf {command}" in call("crf", command, "--help")


# --- failures ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["train", "none.txt"], 1, "none.txt: No such file"),
        (["train", "train.txt", "--template", "none"], 1, "--template must be window, chunking or a file, got none"),
        (["train", "train.txt", "--template", "leak.txt"], 1, "read column 2 of train.txt, but that holds the labels"),
        (["train", "train.txt", "--template", "wide.txt"], 1, "has 3 columns, but column 5 is needed"),
        (["train", "train.txt", "--label-column", "3"], 1, "has 3 columns, but column 3 is needed"),
        (["train", "train.txt", "narrow.txt"], 1, "narrow.txt has 1 columns, but train.txt has 3"),
        (["train", "narrow.txt"], 1, "narrow.txt has one column only"),
        (["train", "train.txt", "-m", "no/m.npz"], 1, "there is no folder"),
        (["train", "train.txt", "--classes", "O"], 2, "--classes goes with --stream"),
        (["train", "-", "--stream"], 1, "standard input can be read once only"),
        (["train", "train.txt", "--separator", "comma"], 1, "separator must be one of"),
        (["train"], 2, "Missing argument"),
        (["tag", "bare.npz", "test.txt"], 1, "a model without its templates"),
        (["tag", "m.npz", "narrow.txt", "--out", "t.txt"], 1, "line 1 of narrow.txt has 1 columns, but column 1"),
    ],
)
def test_failures_are_one_line(folder, votes, arguments, code, message):
    (folder / "leak.txt").write_text("U0:%x[0,2]\nB\n")
    (folder / "wide.txt").write_text("U0:%x[0,5]\nB\n")
    (folder / "narrow.txt").write_text("O\nO\n")
    Votes().save("bare.npz")
    call("crf", "train", "test.txt", "-m", "m.npz")
    before = sorted(folder.iterdir())
    assert message in call("crf", *arguments, code=code)
    assert sorted(folder.iterdir()) == before


# --- the estimator itself ---------------------------------------------------------------------------------


def test_the_real_estimator_from_file_to_file(folder):
    facts = json.loads(call("crf", "train", "train.txt", "-m", "m.npz", "--test", "test.txt", "--json"))
    assert facts["classes"] == ["B-NP", "B-VP", "I-NP", "O"]
    assert facts["gap"] < 0.01
    assert facts["test"]["f1"] > 0.95
    assert json.loads(call("crf", "eval", "m.npz", "test.txt", "--json"))["f1"] == facts["test"]["f1"]
    call("crf", "tag", "m.npz", "test.txt", "--marginals", "--out", "tagged.txt")
    tagged = [row for row in rows("tagged.txt") if row]
    assert np.mean([row[2] == row[3] for row in tagged]) == pytest.approx(facts["test"]["accuracy"])
    assert all(0 < float(row[4]) <= 1 for row in tagged)
    inside = json.loads(call("info", "m.npz", "--json"))
    assert inside["kind"] == "ChainCRF"
    assert inside["classes"] == facts["classes"]
    assert {row["class"] for row in inside["coefficients"]} == set(facts["classes"])
    assert "Largest coefficients" in call("info", "m.npz")
    call("crf", "train", "train.txt", "-m", "s.npz", "--stream", "--chunk-sentences", "20")
    assert json.loads(call("crf", "eval", "s.npz", "test.txt", "--json"))["f1"] > 0.9


def test_how_a_fit_ended_is_said_once_on_a_terminal(folder, monkeypatch):
    from majorant.cli import crf

    monkeypatch.setattr(crf, "on_terminal", lambda stream=None: True)
    said = invoke("crf", "train", "train.txt", "-m", "m.npz")
    assert said.stdout.count("converged in") == 1
    assert "converged in" not in said.stderr


@pytest.mark.unwatched
@pytest.mark.skipif("MAJORANT_DATA" not in os.environ, reason="needs conll2000 in the folder MAJORANT_DATA")
def test_one_pass_over_conll_2000(folder):
    data = Path(os.environ["MAJORANT_DATA"]) / "conll2000"
    command = ("crf", "train", data / "train.txt.gz", "--test", data / "test.txt.gz", "--template", "chunking")
    facts = json.loads(call(*command, "--stream", "--json", "-m", "m.npz"))
    assert len(facts["classes"]) == 22
    assert facts["test"]["f1"] > 0.92
