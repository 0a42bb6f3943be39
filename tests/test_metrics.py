"""Chunk scores: by hand, against a literal reading of conlleval's rules, and against what they mean."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from majorant.metrics import Score, are_chunk_labels, chunk_scores, chunks

# Between which two tags conlleval sees a chunk begin and end, apart from a change of type.
BEGIN = {"BB", "IB", "OB", "OI", "EE", "EI", "OE"}
END = {"BB", "BO", "IB", "IO", "EE", "EI", "EO"}
LABELS = ["O", "B-NP", "I-NP", "B-VP", "I-VP"]


def parts(label):
    return (label[0], label[2:])


def conlleval(true, predicted):
    """Count chunks as the script does: one walk over both columns, with flags."""
    there = found = both = 0
    for one, other in zip(true, predicted, strict=True):
        inside, last = False, (("O", ""), ("O", ""))
        for pair in [*zip(map(parts, one), map(parts, other), strict=True), (("O", ""), ("O", ""))]:
            begins, ends = (
                [
                    before[0] + now[0] in rules or (each[0] != "O" and before[1] != now[1])
                    for before, now, each in zip(last, pair, chosen, strict=True)
                ]
                for rules, chosen in ((BEGIN, pair), (END, last))
            )
            if inside and all(ends) and last[0][1] == last[1][1]:
                both, inside = both + 1, False
            elif inside and (ends[0] != ends[1] or pair[0][1] != pair[1][1]):
                inside = False
            inside = inside or (all(begins) and pair[0][1] == pair[1][1])
            there, found, last = there + begins[0], found + begins[1], pair
    return Score(there, found, both)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("B-NP I-NP O B-NP", [(0, 2, "NP"), (3, 4, "NP")]),
        ("I-NP I-NP B-NP", [(0, 2, "NP"), (2, 3, "NP")]),  # IOB1
        ("B-NP B-NP", [(0, 1, "NP"), (1, 2, "NP")]),
        ("O I-NP I-VP", [(1, 2, "NP"), (2, 3, "VP")]),  # a wrong sequence
        ("I-NP E-NP E-NP O", [(0, 2, "NP"), (2, 3, "NP")]),  # IOE2
        ("B-X I-X E-X S-X B-X E-X", [(0, 3, "X"), (3, 4, "X"), (4, 6, "X")]),  # IOBES
        ("B-X L-X U-X O", [(0, 2, "X"), (2, 3, "X")]),  # BILOU
        ("B I O B", [(0, 2, ""), (3, 4, "")]),  # no types
        ("B-PER-1 I-PER-1", [(0, 2, "PER-1")]),
        ("NN VB .", []),
        ("O", []),
        ("", []),
    ],
)
def test_chunks(labels, expected):
    assert list(chunks(labels.split())) == expected


def test_scores_by_hand():
    true = [["B-NP", "I-NP", "B-VP", "O"], ["B-PP", "B-NP"]]
    predicted = [["B-NP", "I-NP", "B-NP", "O"], ["B-PP", "I-PP"]]
    scores = chunk_scores(true, predicted)
    assert scores.overall == Score(true=4, predicted=3, correct=1)
    assert scores.types == {"NP": Score(2, 2, 1), "PP": Score(1, 1, 0), "VP": Score(1, 0, 0)}
    assert (scores.precision, scores.recall) == (1 / 3, 1 / 4)
    assert scores.f1 == pytest.approx(2 * (1 / 3) * (1 / 4) / (1 / 3 + 1 / 4))
    assert scores.accuracy == 4 / 6
    assert (scores.types["VP"].precision, scores.types["VP"].f1) == (0, 0)


sentences = st.lists(st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1), min_size=1)


@given(sentences)
def test_counts_are_those_of_conlleval(pairs):
    true, predicted = ([[pair[side] for pair in sentence] for sentence in pairs] for side in (0, 1))
    assert chunk_scores(true, predicted).overall == conlleval(true, predicted)
    other_way = chunk_scores(predicted, true)
    assert other_way.precision == chunk_scores(true, predicted).recall


@given(sentences)
def test_a_perfect_answer_scores_one(pairs):
    true = [[label for label, _ in sentence] for sentence in pairs]
    scores = chunk_scores(true, true)
    assert scores.accuracy == 1
    assert scores.f1 == (1 if scores.overall.true else 0)


def test_the_same_as_seqeval():
    seqeval = pytest.importorskip("seqeval.metrics")
    rng = np.random.default_rng(0)
    true, predicted = ([rng.choice(LABELS, 12).tolist() for _ in range(50)] for _ in range(2))
    assert chunk_scores(true, predicted).f1 == pytest.approx(seqeval.f1_score(true, predicted))


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="sentence 1 has 2 true labels, but 1 predicted"):
        chunk_scores([["O"], ["O", "O"]], [["O"], ["O"]])
    with pytest.raises(ValueError, match="true holds 1 sentences, but predicted holds 0"):
        chunk_scores([["O"]], [])
    with pytest.raises(ValueError, match="labels must be strings such as B-NP or O, got 3"):
        chunk_scores([[3]], [[3]])


def test_which_labels_are_those_of_chunks():
    assert are_chunk_labels(["O", "B-NP", "I-NP"])
    assert are_chunk_labels(["B", "I"])
    assert not are_chunk_labels(["NN", "VB", "."])
    assert not are_chunk_labels(["O"])
