"""Checkpoints that a fit cannot go on from are refused, and by name."""

import json
import re
import warnings
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from majorant import ChainCRF, Checkpoint, Chunks, LogisticRegression
from majorant.core.files import decode, encode
from majorant.curvature import Diagonal
from tests.core.test_checkpoint import X, Y, assert_same, save_third_step
from tests.killed_fits import chunks, dense, tagged

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def saved(tmp_path):
    return save_third_step(tmp_path / "checkpoint.npz")


OTHER_SETTINGS = {
    "C": 2.0,
    "penalty": None,
    "fit_intercept": False,
    "penalize_intercept": True,
    "class_weight": {0: 2.0},
    "solver": "bbm",
    "random_state": 1,
    "shuffle": False,
    "feature_penalty": np.ones(6),
}


@pytest.mark.parametrize("name", OTHER_SETTINGS)
def test_other_settings_are_refused_by_name(name, saved):
    with pytest.raises(ValueError, match=f"^{name} was .* in the fit that is to be resumed"):
        LogisticRegression(**{name: OTHER_SETTINGS[name]}).fit(X, Y, resume_from=saved)


def test_settings_that_change_nothing_may_differ(saved):
    whole = LogisticRegression(tol=1e-12).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        model = LogisticRegression(penalty="l2", tol=1e-12, max_iter=77, n_jobs=1, verbose=0)
        assert_same(model.fit(X, Y, resume_from=saved), whole)


def changed(X, row):
    X = X.copy()
    X[row, 0] += 1.0
    return X


OTHER_DATA = {
    "number of rows was 400, got 399": (X[:-1], Y[:-1]),
    "number of columns was 7, got 6": (X[:, 1:], Y),
    "labels are others": (X, np.roll(Y, 1)),
    "kind of numbers was dense float64, got dense float32": (X.astype(np.float32), Y),
    "number of columns was 7, got 50007": (sp.hstack([sp.csr_array(X), sp.csr_array((400, 50_000))]).tocsr(), Y),
    "rows themselves are others": (changed(X, 0), Y),
    "weights are others": (X, Y, np.arange(1, 401) / 200),
    "offsets are others": (X, Y, None, np.ones(400)),
    "names of classes or attributes are others": (X, Y + 1),
    "data differ": (changed(X, 1), Y),  # a row that is not looked at
}


@pytest.mark.parametrize("what", OTHER_DATA)
def test_other_data_are_refused(what, saved):
    with pytest.raises(ValueError, match=what):
        LogisticRegression().fit(*OTHER_DATA[what], resume_from=saved)


def test_other_sources_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("majorant.sources.base.SMALL", 0)  # where they are not joined anyway
    path = tmp_path / "checkpoint.npz"
    LogisticRegression(callbacks=[Checkpoint(path)]).fit(Chunks(chunks))

    def joined():
        parts = list(chunks())
        yield np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])

    def other():
        for number, (rows, y) in enumerate(chunks()):
            yield (changed(rows, 50) if number == 3 else rows), y

    with pytest.raises(ValueError, match="lengths of chunks are others"):
        LogisticRegression().fit(Chunks(joined), resume_from=path)
    with pytest.raises(ValueError, match="the data differ from those of the run"):
        LogisticRegression().fit(Chunks(other), resume_from=path)


def test_other_sequences_are_refused(tmp_path):
    path, (X, y) = tmp_path / "checkpoint.npz", tagged()
    ChainCRF(callbacks=[Checkpoint(path)]).fit(X, y)
    with pytest.raises(ValueError, match=r"c2 was 1\.0 in the fit"):
        ChainCRF(c2=2.0).fit(X, y, resume_from=path)
    with pytest.raises(ValueError, match="number of rows was 40, got 39"):
        ChainCRF().fit(X[:-1], y[:-1], resume_from=path)
    renamed = [[[f"x{name}" for name in token] for token in each] for each in X]
    with pytest.raises(ValueError, match="names of classes or attributes are others"):
        ChainCRF().fit(renamed, y, resume_from=path)
    with pytest.raises(ValueError, match="holds a ChainCRF"):
        LogisticRegression().fit(*dense(), resume_from=path)


def test_files_that_are_no_checkpoints_are_refused(tmp_path):
    path = tmp_path / "model.npz"
    LogisticRegression().fit(X, Y).save(path)
    with pytest.raises(ValueError, match="holds a model, but no checkpoint"):
        LogisticRegression().fit(X, Y, resume_from=path)
    np.savez(path, a=np.zeros(3))
    with pytest.raises(ValueError, match="not a saved majorant model"):
        LogisticRegression().fit(X, Y, resume_from=path)
    path.write_text("something else")
    with pytest.raises(ValueError, match="not a saved majorant model, or is incomplete"):
        LogisticRegression().fit(X, Y, resume_from=path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        LogisticRegression().fit(X, Y, resume_from=tmp_path / "nowhere.npz")


def rewritten(path, change):
    """Write an archive again with its members changed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def as_member(array, **how):
    file = BytesIO()
    np.save(file, array, **how)
    return file.getvalue()


def tree_of(members):
    return json.loads(np.load(BytesIO(members["checkpoint.tree.npy"])).tobytes())


def test_a_newer_format_is_refused(saved):
    def newer(members):
        header = json.loads(str(np.load(BytesIO(members["header.npy"]))))
        header["parts"]["checkpoint"] = 99
        members["header.npy"] = as_member(np.array(json.dumps(header)))

    rewritten(saved, newer)
    with pytest.raises(ValueError, match="a checkpoint of format 99; this version reads up to format 1"):
        LogisticRegression().fit(X, Y, resume_from=saved)
    assert LogisticRegression.load(saved).n_iter_[0] == 3


@pytest.mark.parametrize(
    "foreign",
    [
        ["object", "os:system", {}],
        ["object", "majorant.callbacks:Checkpoint", {"path": "x", "every": 0}],
        ["object", "majorant.core.solver:optimize", {}],
        ["object", "majorant.core.solver:State", {"theta": 1, "more": 2}],
        ["named", "majorant.core.line_search:Point", [1]],
        ["method", "__reduce__", ["object", "majorant.core.curvature:NoInverse", {}]],
        ["__class__", 1],
        ["value", 1],
        [],
        ["array", 10**6],
        ["dict", [[["list", []], 1]]],
        ["tuple", 3],
    ],
    ids=lambda tree: json.dumps(tree)[:40],
)
def test_nothing_but_what_this_package_writes_is_rebuilt(foreign, saved):
    with pytest.raises(ValueError, match="what this version does not write"):
        decode(foreign, [])

    def plant(members):
        tree = tree_of(members)
        tree[1][1][1] = foreign
        members["checkpoint.tree.npy"] = as_member(np.frombuffer(json.dumps(tree).encode(), dtype=np.uint8))

    rewritten(saved, plant)
    with pytest.raises(ValueError, match="cannot be read"):
        LogisticRegression().fit(X, Y, resume_from=saved)


def test_pickles_are_not_read(saved, tmp_path):
    class Harm:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "harm",))

    def plant(members):
        members["checkpoint.0.npy"] = as_member(np.array([Harm()], dtype=object), allow_pickle=True)

    rewritten(saved, plant)
    with pytest.raises(ValueError, match="incomplete"):
        LogisticRegression().fit(X, Y, resume_from=saved)
    assert not (tmp_path / "harm").exists()


def test_truncated_checkpoints_are_refused(saved):
    content = saved.read_bytes()
    for percent in range(100):
        saved.write_bytes(content[: len(content) * percent // 100])
        with pytest.raises(ValueError, match="not a saved majorant model, or is incomplete"):
            LogisticRegression().fit(X, Y, resume_from=saved)


def test_corrupt_checkpoints_are_refused_or_harmless(saved):
    """What no checksum covers (dates, attributes) does not matter."""
    whole, content, rng = LogisticRegression(tol=1e-12).fit(X, Y), saved.read_bytes(), np.random.default_rng(0)
    refused = 0
    for at in rng.integers(len(content), size=150):
        flipped = bytearray(content)
        flipped[at] ^= 1 << int(rng.integers(8))
        saved.write_bytes(flipped)
        try:
            model = LogisticRegression(tol=1e-12).fit(X, Y, resume_from=saved)
        except ValueError:
            refused += 1
        else:
            assert_same(model, whole)
    assert refused > 100


def test_the_codec_keeps_what_it_is_given():
    one = np.arange(6.0).reshape(2, 3, order="F")
    given = {"a": (one, [one, None, True, 1.5, np.inf, "x", 2**70]), 3: np.float32(0.1), (1, 2): np.float64(0.1)}
    tree, arrays = encode(given)
    read = decode(json.loads(json.dumps(tree)), [each.copy(order="K") for each in arrays])
    assert len(arrays) == 1
    assert read["a"][0] is read["a"][1][0]
    assert read["a"][0].flags.f_contiguous
    assert read["a"][1][1:] == given["a"][1][1:]
    assert type(read[3]) is np.float32
    assert read[(1, 2)] == 0.1
    solve = decode(*encode(Diagonal(np.array([2.0]), majorizes=False).factorized))
    assert solve(np.array([2.0]))(np.array([4.0])) == [1.0]
    for refused in (Path(), np.array([None]), print, Diagonal.of):
        with pytest.raises((TypeError, ValueError)):
            encode(refused)


def hurt(tree, place, value):
    """Return a tree with something else in one place, by the names and numbers that lead there."""
    *way, last = place
    inner = tree
    for step in way:
        inner = inner[step]
    inner[last] = value
    return tree


PROGRESS = (1, 1, 1, 2)  # where the progress of a fit stands in the tree of a checkpoint


@pytest.mark.parametrize("value", [None, "x", -3, float("nan"), ["list", []], ["array", 0]])
@pytest.mark.parametrize(
    "place",
    [
        "theta",
        "point",
        "pairs",
        "market",
        "lease",
        "trace",
        "stopping",
        "cuts",
        "steps",
        "passes",
        "gradient",
        "memories",
    ],
)
def test_checkpoints_made_by_hand_are_refused_with_a_sentence_or_go_on(saved, place, value):
    def plant(members):
        tree = tree_of(members)
        state = tree[1][1][1][2]["state"][2]
        inside = PROGRESS + (("state", 2, place) if place in state else (place,))
        members["checkpoint.tree.npy"] = as_member(
            np.frombuffer(json.dumps(hurt(tree, inside, value)).encode(), dtype=np.uint8)
        )

    rewritten(saved, plant)
    said = ""
    try:
        LogisticRegression(max_iter=6).fit(X, Y, resume_from=saved)
    except ValueError as problem:
        said = str(problem)
    assert not said or re.search("resume_from|cannot be read|the run had|the data differ", said)


def test_what_callbacks_raise_in_a_fit_that_goes_on_is_theirs(saved):
    def callback(row, theta):
        raise TypeError("a mistake of the user's")

    with pytest.raises(TypeError, match="a mistake of the user's"):
        LogisticRegression(callbacks=[callback]).fit(X, Y, resume_from=saved)


def test_checkpoints_of_another_version_are_refused_with_what_to_do(saved):
    """As those of version 0.2.0 are, whose quasi-Newton states knew when sweeps go on."""

    def plant(members):
        tree = tree_of(members)
        tree[1][1][1][2]["state"][2] |= {"until": 0, "entered": 1.0}
        members["checkpoint.tree.npy"] = as_member(np.frombuffer(json.dumps(tree).encode(), dtype=np.uint8))

    rewritten(saved, plant)
    with pytest.raises(ValueError, match=r"written by another version of this package.* fit without resume_from"):
        LogisticRegression().fit(X, Y, resume_from=saved)
    assert LogisticRegression.load(saved).n_iter_[0] == 3
