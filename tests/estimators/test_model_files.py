"""Model files that are damaged, or that somebody else has written.

``load`` either says in one sentence that begins with the name of the file what is wrong with it, or returns the model
that was saved. ``python -m tests.estimators.test_model_files`` flips every bit of every byte.
"""

import json
import math
import pickle
import re
import tempfile
import tracemalloc
import warnings
import zipfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import majorant
from majorant import (
    ChainCRF,
    Checkpoint,
    Chunks,
    ConditionalLogit,
    LatentChainCRF,
    LatentClassLogit,
    LatentLogisticRegression,
    LinearProbe,
    LogisticRegression,
    LogisticRegressionCV,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
LABELS = np.array(list("abc"))[RNG.integers(0, 3, 60)]
SENTENCES = [[["the"], ["cat"], ["sat"]], [["a"], ["dog"]]]
TAGS = [["DET", "NOUN", "VERB"], ["DET", "NOUN"]]
GROUPS = np.repeat(np.arange(60), 3)
OPTIONS = RNG.normal(size=(180, 2))
UTILITY = OPTIONS @ [1.0, -1.0] + RNG.gumbel(size=180)
CHOSEN = (np.repeat(UTILITY.reshape(-1, 3).max(axis=1), 3) == UTILITY).astype(float)


class Frame(dict):
    """As much of a data frame as choice models look at."""

    @property
    def columns(self):
        return list(self)

    def __len__(self):
        return len(next(iter(self.values())))


LONG = Frame(g=GROUPS, a=np.tile(["x", "y", "z"], 60), p=OPTIONS[:, 0], q=OPTIONS[:, 1], c=CHOSEN)
WIDE = Frame(
    went=np.array(["x", "y", "z"])[CHOSEN.reshape(-1, 3).argmax(axis=1)], p=OPTIONS[::3, 0], q=OPTIONS[1::3, 1]
)


@dataclass(frozen=True)
class Written:
    """A file, and what the model in it predicts."""

    kind: Any
    content: bytes
    method: str
    arguments: tuple

    def predictions(self, model):
        return flat(getattr(model, self.method)(*self.arguments))


def flat(predictions):
    """Return predictions as an array: chains have lists of lists of dicts."""
    if isinstance(predictions, list):
        predictions = [[list(token.values()) for token in each] for each in predictions]
        predictions = np.concatenate([np.ravel(each) for each in predictions])
    return np.asarray(predictions)


def streamed():
    return LogisticRegression().partial_fit(X, LABELS, classes=list("abcd")).partial_fit(X, LABELS)


def models():
    """Yield names, fitted models, and how they predict."""
    rows = "predict_proba", (X,)
    yield "logistic", LogisticRegression().fit(X, LABELS), *rows
    yield "binary", LogisticRegression(class_weight={0: 1, 1: 2}).fit(X, X[:, 0] > 0), *rows
    yield "stream", streamed(), *rows
    yield "cv", LogisticRegressionCV(Cs=3, cv=2, use_legacy_attributes=True).fit(X, LABELS), *rows
    yield "probe", LinearProbe(Cs=3).fit(X, LABELS), *rows
    yield "latent", LatentLogisticRegression(n_latent={"b": 2}).fit(X, LABELS), *rows
    marginals = "predict_marginals", (SENTENCES,)
    yield "chain", ChainCRF().fit(SENTENCES, TAGS), *marginals
    yield "chain stream", ChainCRF().partial_fit(SENTENCES, TAGS), *marginals
    yield "latent chain", LatentChainCRF(n_latent={"NOUN": 2}).fit(SENTENCES * 3, TAGS * 3), *marginals
    yield "choice", ConditionalLogit().fit(OPTIONS, CHOSEN, GROUPS), "predict_proba", (OPTIONS, GROUPS)
    columns = dict(choice="c", group="g", alternative="a", features=["p"], by_alternative=["q"])
    yield "long", ConditionalLogit.from_long(LONG, **columns), "predict_proba", (LONG,)
    varying = {"p": {"x": "p", "y": 1.5}}
    wide = ConditionalLogit.from_wide(WIDE, choice="went", alternatives=["x", "y", "z"], varying=varying, fixed=["q"])
    yield "wide", wide, "predict_proba", (WIDE,)
    people = np.repeat(np.arange(20), 9)
    known = RNG.normal(size=20)[people][:, None]
    classes = LatentClassLogit(2, n_init=2).fit(OPTIONS, CHOSEN, GROUPS, people, membership=known)
    yield "classes", classes, "class_proba", (OPTIONS, GROUPS)


NAMES = (
    *("logistic", "binary", "stream", "cv", "probe", "latent", "chain", "chain stream", "latent chain"),
    *("choice", "long", "wide", "classes"),
)


@pytest.fixture(scope="module")
def written():
    """What ``save`` writes of each kind of model."""
    return all_written()


def all_written():
    found = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.npz"
        for name, model, method, arguments in models():
            model.save(path, **({"stream": True} if name == "stream" else {}))
            found[name] = Written(type(model), path.read_bytes(), method, arguments)
    return found


def outcome(written, path):
    """Return None if a file is refused, as it has to be: else the model."""
    try:
        return written.kind.load(path)
    except ValueError as refused:
        said = str(refused)
        assert said.startswith(f"{path} cannot be read: "), said
        assert "\n" not in said, said
        assert len(said) < 600, said
        return None


def state(model):
    return {name: repr(value) for name, value in vars(model).items() if not name.startswith("_")}


def flips(content, rng, count):
    """Yield copies with one byte changed: one bit of it, or any."""
    for at in rng.choice(len(content), size=count, replace=False):
        changed = bytearray(content)
        changed[at] ^= int(rng.integers(1, 256)) if at % 2 else 1 << int(rng.integers(8))
        yield bytes(changed)


def check_damaged(written, path, contents):
    """Return how many damaged copies of a file are refused; all others have to be the model that was saved."""
    path.write_bytes(written.content)
    whole = written.kind.load(path)
    expected, refused = (state(whole), written.predictions(whole)), 0
    assert np.isfinite(expected[1]).all()
    for content in contents:
        path.write_bytes(content)
        model = outcome(written, path)
        refused += model is None
        if model is not None:
            assert state(model) == expected[0]
            np.testing.assert_array_equal(written.predictions(model), expected[1])
    return refused


@pytest.mark.parametrize("name", NAMES)
def test_a_flipped_byte_is_refused_or_does_not_matter(written, tmp_path, name):
    each, rng = written[name], np.random.default_rng(NAMES.index(name))
    directory = each.content.index(b"PK\x01\x02")
    of_data = list(flips(each.content[:directory], rng, 50))
    of_directory = [each.content[:directory] + end for end in flips(each.content[directory:], rng, 100)]
    refused = check_damaged(each, tmp_path / "model.npz", [start + each.content[directory:] for start in of_data])
    assert refused > 35
    check_damaged(each, tmp_path / "model.npz", of_directory)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_ends_early_is_refused(written, tmp_path, name):
    each = written[name]
    lengths = np.unique(np.linspace(0, len(each.content) - 1, 100).astype(int))
    assert check_damaged(each, tmp_path / "model.npz", [each.content[:k] for k in lengths]) == len(lengths)


# --- files that somebody has made -------------------------------------------------------------------------


def parts_of(content):
    arrays = dict(np.load(BytesIO(content)))
    return json.loads(str(arrays.pop("header"))), arrays


def put_together(path, header, arrays, save=np.savez):
    text = header if isinstance(header, np.ndarray) else np.array(json.dumps(header))
    save(path, header=text, **arrays)


def of_header(**changes):
    def change(header, arrays):
        header.update(changes)

    return change


def of_facts(**changes):
    def change(header, arrays):
        header["settings"].update(changes)

    return change


def of_settings(**changes):
    def change(header, arrays):
        header["settings"]["settings"].update(changes)

    return change


def without(*names):
    def change(header, arrays):
        for name in names:
            (arrays if name in arrays else header if name in header else header["settings"]).pop(name)

    return change


def of_array(name, function):
    def change(header, arrays):
        arrays[name] = np.asarray(function(arrays[name]))

    return change


def one_changed(value):
    """Return a function that changes the last number of an array."""

    def changed(array):
        flat = array.astype(type(value)).ravel()
        flat[-1] = value
        return flat.reshape(array.shape)

    return changed


def of_layout(**changes):
    def change(header, arrays):
        header["settings"]["layout"].update(changes)

    return change


def of_fit(**changes):
    def change(header, arrays):
        header["settings"]["facts"].update(changes)

    return change


CANNOT = "which it cannot be"
CRAFTED = [
    # the header
    ("logistic", of_header(version="1"), "'version' is '1', " + CANNOT),
    ("logistic", of_header(version=True), CANNOT),
    ("logistic", of_header(version=1.5), CANNOT),
    ("logistic", of_header(version=-1), CANNOT),
    ("logistic", of_header(version=10**30), CANNOT),
    ("logistic", of_header(version=2), "of format 2; this is LogisticRegression, format 1"),
    ("logistic", of_header(kind=["LogisticRegression"]), CANNOT),
    ("logistic", of_header(kind="ChainCRF"), "holds a ChainCRF"),
    ("logistic", of_header(format="another"), "not a saved majorant model"),
    ("logistic", of_header(settings=[1, 2]), CANNOT),
    ("logistic", of_header(parts=[1]), "'parts' is"),
    ("stream", of_header(parts={"stream": "1"}), "'stream' is '1'"),
    ("logistic", without("kind"), "does not say what 'kind' is"),
    ("logistic", without("version"), "does not say what 'version' is"),
    ("logistic", without("settings"), "does not say what 'settings' is"),
    # facts and settings
    ("logistic", of_facts(settings="C=1"), CANNOT),
    (
        "logistic",
        of_facts(settings={"C": 1.0, "colour": "red"}),
        "a setting 'colour', which LogisticRegression does not",
    ),
    ("logistic", of_facts(n_iter=-1), CANNOT),
    ("logistic", of_facts(n_iter=2**40), CANNOT),
    ("logistic", of_facts(gap="small"), CANNOT),
    ("logistic", of_facts(gap=10**400), CANNOT),
    ("logistic", of_facts(outcome="splendid"), "not a valid Outcome"),
    ("logistic", of_facts(message=None), CANNOT),
    ("logistic", without("outcome"), "does not say what 'outcome' is"),
    ("logistic", of_settings(C="x"), "C must be positive"),
    ("logistic", of_settings(C=-1), "C must be positive"),
    ("logistic", of_settings(solver="magic"), "solver must be one of"),
    ("logistic", of_settings(max_iter={}), "max_iter must be"),
    ("logistic", of_settings(fit_intercept="yes"), "fit_intercept must be"),
    ("logistic", of_settings(callbacks="print"), "callbacks must be a list"),
    ("logistic", of_settings(class_weight=[[[], 1]]), CANNOT),
    ("cv", of_settings(Cs="many"), "Cs must be"),
    ("cv", of_settings(l1_ratios=[0] * 10**5), "l1_ratios"),
    ("probe", of_settings(patience=0), "patience must be"),
    ("chain", of_settings(c2="1"), "c2 must be a positive number"),
    ("latent chain", of_settings(decoding="guess"), "decoding must be one of"),
    ("latent", of_settings(n_init=0), "n_init must be"),
    ("choice", of_settings(tol=None), "tol must be"),
    ("classes", of_settings(n_classes="2"), "n_classes must be"),
    # arrays
    ("logistic", without("coef"), "'coef' is missing"),
    ("logistic", without("classes"), "'classes' is missing"),
    ("logistic", of_array("coef", np.ravel), "'coef' must have 2 dimensions"),
    ("logistic", of_array("coef", lambda coef: coef[:2]), "'coef' has the shape .* ask for"),
    ("logistic", of_array("coef", one_changed(math.nan)), "'coef' holds numbers that are not finite"),
    ("logistic", of_array("coef", one_changed(math.inf)), "'coef' holds numbers that are not finite"),
    ("logistic", of_array("coef", lambda coef: coef + 0j), "'coef' holds values of the kind complex128"),
    ("logistic", of_array("coef", lambda coef: coef.astype(np.longdouble)), "'coef' holds values of the kind"),
    ("logistic", of_array("coef", lambda coef: coef.astype("U8")), "'coef' holds values of the kind <U8"),
    ("logistic", of_array("intercept", lambda b: b[:1]), "'intercept' has the shape"),
    ("logistic", of_array("intercept", one_changed(math.nan)), "'intercept' holds numbers that are not finite"),
    ("logistic", of_array("classes", lambda names: names[[0, 0, 1]]), "'classes' holds duplicates"),
    ("logistic", of_array("classes", lambda names: names[::-1]), "'classes' .* not in rising order"),
    ("logistic", of_array("classes", lambda names: names[:1]), "at least two classes"),
    ("logistic", of_array("coef_error", lambda error: -error - 1), "'coef_error' holds negative"),
    ("logistic", of_array("coef_error", lambda error: error[:, :2]), "'coef_error' has the shape"),
    ("binary", of_array("coef", lambda coef: np.vstack([coef, coef])), "'coef' has the shape"),
    ("cv", of_array("paths", lambda paths: paths[..., :2]), "'paths' does not go with 3 columns"),
    ("cv", of_array("Cs", one_changed(-1.0)), "'Cs' holds numbers that are not positive"),
    ("probe", of_array("best", lambda best: best + 10), "cannot be the best"),
    ("probe", of_array("sweep", lambda sweep: sweep[:, :4]), "'sweep' has the shape"),
    ("latent", of_array("states", lambda states: states + 1), "'states' does not go with"),
    ("latent", of_array("states", lambda states: np.array([2**63 - 1, 2**63 - 1, 6])), "'states' does not go with"),
    ("latent", of_array("state_shares", lambda shares: shares[:2]), "'states' does not go with"),
    ("chain", of_array("theta", one_changed(math.nan)), "'theta' holds numbers that are not finite"),
    ("chain", of_array("theta", lambda theta: theta[1:]), "'theta' has the shape"),
    ("chain", of_array("pairs", one_changed(10**6)), "'pairs' holds numbers that are none of the"),
    ("chain", of_array("pairs", lambda pairs: pairs - 1), "'pairs' holds numbers that are none of the"),
    ("chain", of_array("steps", lambda steps: steps[::-1]), "'steps' .* not in rising order"),
    ("chain", of_array("classes", lambda names: names[[0, 0, 1]]), "'classes' holds duplicates"),
    ("chain", of_array("name_lengths", lambda lengths: lengths + 1), "'name_lengths' does not sum"),
    ("chain", of_array("name_lengths", one_changed(-1)), "'name_lengths' holds negative"),
    ("chain", of_array("names", lambda names: names | 0x80), "utf-8"),
    ("chain", of_array("names", lambda names: names * 0 + 97), "'names' holds duplicates"),
    ("chain stream", of_array("metric", one_changed(0.0)), "'metric' holds numbers that are not positive"),
    ("latent chain", of_array("states", lambda states: states * 10**6), "cannot have the states"),
    ("latent chain", of_array("states", lambda states: states * 0), "'states' holds numbers that are not positive"),
    ("choice", of_array("hessian", lambda hessian: hessian[:1]), "'hessian' has the shape"),
    ("choice", of_array("name_lengths", lambda lengths: lengths[:1]), "'name_lengths' has the shape"),
    ("choice", of_fit(observations=0), "0.0 observations"),
    ("choice", of_fit(parameters=7), "which cannot be"),
    ("choice", of_fit(mood="good"), "which cannot be"),
    ("choice", of_facts(groups=None), CANNOT),
    ("choice", of_facts(named_columns="no"), CANNOT),
    ("choice", of_facts(layout=[]), CANNOT),
    ("long", of_layout(kind="tall"), "does not go with its coefficients"),
    ("long", of_layout(terms=[{"name": "p"}]), "does not go with its coefficients"),
    ("long", of_layout(alternatives=["x"]), "does not go with its coefficients"),
    ("long", of_layout(choice=["c"]), "does not go with its coefficients"),
    ("wide", of_layout(sources=[]), "does not go with its coefficients"),
    ("wide", of_layout(availability=[[9, "p"]]), "does not go with its coefficients"),
    ("classes", of_array("membership", lambda logits: logits[:, :1]), "has the shape"),
    ("classes", of_array("people", lambda people: people[::-1]), "'people' .* not in rising order"),
]


@pytest.mark.parametrize(("name", "change", "said"), CRAFTED)
def test_a_file_that_is_not_as_save_writes_it_is_refused(written, tmp_path, name, change, said):
    path, (header, arrays) = tmp_path / "model.npz", parts_of(written[name].content)
    change(header, arrays)
    put_together(path, header, arrays)
    assert outcome(written[name], path) is None
    with pytest.raises(ValueError, match=said):
        written[name].kind.load(path)


@pytest.mark.parametrize("name", NAMES)
def test_every_array_and_fact_may_be_missing_or_something_else(written, tmp_path, name):
    """Either is refused, or is no reason for predictions that are none."""
    each, path = written[name], tmp_path / "model.npz"
    others = (np.zeros(3), np.array("x"), np.zeros((2, 2), dtype=complex), np.zeros((0, 5)), np.array([[1]]))
    changes = []
    header, arrays = parts_of(each.content)
    for key in arrays:
        changes += [without(key), *(of_array(key, lambda _, other=other: other) for other in others)]
    for key, value in header["settings"].items():
        if key not in ("notes", "layout"):  # without a layout a model takes arrays
            changes += [without(key), *(of_facts(**{key: other}) for other in ("x", -1, [], {}, None, value))]
    for key in header["settings"]["settings"]:
        changes += [of_settings(**{key: other}) for other in ("x", [[1, 2]], {"a": {}}, math.nan)]
    for change in changes:
        header, arrays = parts_of(each.content)
        change(header, arrays)
        put_together(path, header, arrays)
        model = outcome(each, path)
        if model is not None:
            assert np.isfinite(each.predictions(model)).all()


@pytest.mark.parametrize(
    "header",
    [
        np.array("[1, 2]"),
        np.array("{"),
        np.array("[" * 100_000),
        np.array('{"format": "majorant model", "n": 1' + "0" * 5000 + "}"),
        np.array(3.0),
        np.array(["{}"]),
        np.frombuffer(b"{}", dtype=np.uint8),
    ],
    ids=["list", "half", "deep", "digits", "number", "array", "bytes"],
)
def test_a_header_that_is_none_is_refused(written, tmp_path, header):
    path = tmp_path / "model.npz"
    put_together(path, header, parts_of(written["logistic"].content)[1])
    assert outcome(written["logistic"], path) is None
    with pytest.raises(ValueError, match="not a saved majorant model"):
        majorant.estimators.saving.kind_of(path)


def npy(header, data=b""):
    """Return an array as a file has it, whatever its header says."""
    text = header.encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


MEMBERS = {
    "an object": pickle.dumps([1]),
    "a pickled array": npy("{'descr': '|O', 'fortran_order': False, 'shape': (3, 3)}", pickle.dumps([0] * 9)),
    "too short": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (3, 3)}", b"123"),
    "far too short": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 100000)}", b"123"),
    "too long": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (3, 3)}", bytes(100)),
    "strings of no length": npy("{'descr': '<U0', 'fortran_order': False, 'shape': (10000000000, 3)}"),
    "a negative shape": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-3, -3)}", bytes(72)),
    "columns of several kinds": npy("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (9,)}", bytes(72)),
    "no header": npy("{"),
    "code": npy("__import__('os')"),
    "another version": b"\x93NUMPY\x09\x00" + bytes(100),
    "nothing": b"",
}


@pytest.mark.parametrize("name", MEMBERS)
def test_an_array_that_is_none_is_refused_before_memory_is_taken(written, tmp_path, name):
    each, path = written["logistic"], tmp_path / "model.npz"
    rewritten(each.content, path, **{"coef.npy": MEMBERS[name]})
    model, peak = peak_of(lambda: outcome(each, path))
    assert model is None
    assert peak < 2**20


def rewritten(content, path, compression=zipfile.ZIP_STORED, **members):
    """Write an archive with some members in the place of its own."""
    with zipfile.ZipFile(BytesIO(content)) as before, zipfile.ZipFile(path, "w", compression) as after:
        for name in before.namelist():
            after.writestr(name, members.pop(name, before.read(name)))
        for name, member in members.items():
            after.writestr(name, member)


def peak_of(function):
    """Return what a function returns, and the most memory that it took meanwhile."""
    function()
    tracemalloc.start()
    try:
        found = function()
        return found, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def zeros(*shape):
    return npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}", bytes(8 * math.prod(shape)))


def test_an_array_that_nobody_asks_for_is_not_read(written, tmp_path):
    each, path = written["logistic"], tmp_path / "model.npz"
    rewritten(each.content, path, zipfile.ZIP_DEFLATED, **{"more.npy": zeros(25_000_000)})
    assert path.stat().st_size < 250_000
    model, peak = peak_of(lambda: each.kind.load(path))
    assert peak < 2**20
    path.write_bytes(each.content)
    np.testing.assert_array_equal(each.predictions(model), each.predictions(each.kind.load(path)))


@pytest.mark.parametrize("shape", [(25_000_000,), (3, 8_000_000), (8_000_000, 3)])
def test_a_compressed_array_that_is_far_too_large_is_not_read(written, tmp_path, shape):
    each, path = written["logistic"], tmp_path / "model.npz"
    rewritten(each.content, path, zipfile.ZIP_DEFLATED, **{"coef.npy": zeros(*shape)})
    model, peak = peak_of(lambda: outcome(each, path))
    assert model is None
    assert peak < 2**20


def test_compressed_files_and_those_of_another_byte_order_are_read(written, tmp_path):
    for name in NAMES:
        each, path = written[name], tmp_path / "model.npz"
        path.write_bytes(each.content)
        expected = each.predictions(each.kind.load(path))
        header, arrays = parts_of(each.content)
        put_together(path, header, arrays, np.savez_compressed)
        np.testing.assert_array_equal(each.predictions(each.kind.load(path)), expected)
        swapped = {key: array.astype(array.dtype.newbyteorder(">")) for key, array in arrays.items()}
        put_together(path, header, swapped)
        np.testing.assert_array_equal(each.predictions(each.kind.load(path)), expected)


def test_an_archive_with_two_arrays_of_one_name_is_refused(written, tmp_path):
    each, path = written["logistic"], tmp_path / "model.npz"
    path.write_bytes(each.content)
    with warnings.catch_warnings(), zipfile.ZipFile(path, "a") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("coef.npy", zeros(3, 3))
    assert outcome(each, path) is None


# --- streams and checkpoints ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without("stream.tree"), "its stream is damaged"),
        (without("stream.0"), "its stream is damaged"),
        (of_array("stream.tree", lambda tree: tree[:-1]), "its stream is damaged"),
        (of_array("stream.tree", lambda _: np.frombuffer(b'["dict", []]', dtype=np.uint8)), "its stream is damaged"),
        (of_array("stream.tree", lambda _: np.frombuffer(b"3", dtype=np.uint8)), "its stream is damaged"),
    ],
)
def test_a_damaged_stream_is_refused(written, tmp_path, change, said):
    path, (header, arrays) = tmp_path / "model.npz", parts_of(written["stream"].content)
    change(header, arrays)
    put_together(path, header, arrays)
    assert outcome(written["stream"], path) is None
    with pytest.raises(ValueError, match=said):
        LogisticRegression.load(path)


@pytest.mark.parametrize("value", [None, "x", -3, float("nan"), ["list", []], ["tuple", []]])
@pytest.mark.parametrize(
    "attribute",
    ["model", "settings", "ridge", "learnt", "counts", "run", "chunks", "foreseen", "looked_at", "warnings"],
)
def test_a_stream_made_by_hand_is_refused_or_goes_on(written, tmp_path, attribute, value):
    path, (header, arrays) = tmp_path / "model.npz", parts_of(written["stream"].content)
    tree = json.loads(arrays["stream.tree"].tobytes())
    state = next(each for name, each in tree[1] if name == "state")
    state[2][attribute] = value
    arrays["stream.tree"] = np.frombuffer(json.dumps(tree).encode(), dtype=np.uint8)
    put_together(path, header, arrays)
    said = ""
    try:
        LogisticRegression.load(path).partial_fit(X, LABELS)
    except ValueError as problem:
        said = str(problem)
    assert not said or "its stream is damaged" in said


def test_a_stream_of_other_settings_than_the_model_has_by_now_is_read(tmp_path):
    path = tmp_path / "model.npz"
    streamed().partial_fit(X, LABELS).set_params(C=7.0).save(path, stream=True)
    model = LogisticRegression.load(path)
    assert model.C == 7.0
    model.predict(X)


def test_a_stream_of_another_model_is_refused(written, tmp_path):
    path, (header, arrays) = tmp_path / "model.npz", parts_of(written["stream"].content)
    other = streamed().partial_fit(X, LABELS)
    del other._stream
    other.partial_fit(X[:, :2], LABELS, classes=list("abcd"))
    other.save(path, stream=True)
    theirs = parts_of(path.read_bytes())[1]
    arrays = {name: each for name, each in arrays.items() if "." not in name}
    put_together(path, header, arrays | {name: each for name, each in theirs.items() if "." in name})
    assert outcome(written["stream"], path) is None


def test_settings_of_a_checkpoint_are_looked_at(tmp_path):
    path = tmp_path / "model.npz"
    LogisticRegression(callbacks=[Checkpoint(path)]).fit(X, LABELS)
    header, arrays = parts_of(path.read_bytes())
    header["settings"]["settings"] = ["C", 1.0]
    put_together(path, header, arrays)
    with pytest.raises(ValueError, match=re.escape(f"{path} cannot be read: it says that 'settings' is")):
        LogisticRegression().fit(X, LABELS, resume_from=path)


# --- what is saved can be read ----------------------------------------------------------------------------


def test_a_model_that_could_not_be_read_again_is_not_saved(tmp_path):
    model = LogisticRegression().fit(X, LABELS)
    model.coef_[0, 0] = np.nan
    with pytest.raises(
        ValueError, match="this LogisticRegression cannot be saved: the array 'coef' holds numbers that"
    ):
        model.save(tmp_path / "model.npz")
    probe = LinearProbe(Cs=2).fit(X, LABELS).set_params(patience=0)
    with pytest.raises(ValueError, match="this LinearProbe cannot be saved: patience must be"):
        probe.save(tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())


def test_settings_that_are_ignored_are_ignored_again_without_a_word(tmp_path):
    with pytest.warns(UserWarning, match="penalty=None"):
        model = LogisticRegression(penalty=None, C=2.0).fit(X, X[:, 0] + RNG.logistic(size=60) > 0)
    model.save(tmp_path / "model.npz")
    assert LogisticRegression.load(tmp_path / "model.npz").penalty is None


# --- labels and names that arrays of strings would cut ----------------------------------------------------


CUT = ["a", "a\0", "b"] * 20


@pytest.mark.parametrize("labels", [CUT, tuple(CUT), np.array(CUT, dtype=object)], ids=["list", "tuple", "objects"])
@pytest.mark.parametrize(
    "model",
    [LogisticRegression(), LogisticRegressionCV(Cs=2, cv=2), LinearProbe(Cs=2), LatentLogisticRegression()],
    ids=lambda model: type(model).__name__,
)
def test_labels_that_end_in_a_null_are_refused(model, labels):
    with pytest.raises(ValueError, match=r"y must not hold names that end in a NUL character, got 'a\\x00'; rename it"):
        model.fit(X, labels)


def test_names_that_end_in_a_null_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"classes must not hold .* got 'a\\x00'"):
        LogisticRegression().partial_fit(X, LABELS, classes=["a", "a\0", "b", "c"])
    with pytest.raises(ValueError, match=r"classes must not hold .* got 'a\\x00'"):
        LogisticRegression().fit_soft(X, np.full((60, 2), 0.5), classes=["a", "a\0"])
    with pytest.raises(ValueError, match=r"chunk 0: labels must not hold .* got 'a\\x00'"):
        LogisticRegression().fit(Chunks(lambda: iter([(X, CUT)])))
    with pytest.raises(ValueError, match=r"groups must not hold .* got 'g\\x00'"):
        ConditionalLogit().fit(OPTIONS, CHOSEN, ["g\0"] * 3 + ["g"] * 177)
    model = LogisticRegression().fit(X, LABELS)
    model.feature_names_in_ = np.array(["u", "u\0", "v"], dtype=object)
    with pytest.raises(ValueError, match=r"must not hold .* got 'u\\x00'"):
        model.save(tmp_path / "model.npz")


def test_labels_with_a_null_elsewhere_are_kept(tmp_path):
    model = LogisticRegression().fit(X, np.array(["a", "\0a", "a\0b"] * 20, dtype=object))
    model.save(tmp_path / "model.npz")
    assert LogisticRegression.load(tmp_path / "model.npz").classes_.tolist() == ["\0a", "a", "a\0b"]


# --- probes as safetensors --------------------------------------------------------------------------------


@pytest.fixture
def tensors(tmp_path):
    """A probe as safetensors, and what writes it anew: metadata of the probe, and tensors, changed."""
    safetensors = pytest.importorskip("safetensors")
    path = tmp_path / "probe.safetensors"
    LinearProbe(Cs=2).fit(X, LABELS).save(path)
    with safetensors.safe_open(path, framework="numpy") as file:
        found = {name: file.get_tensor(name) for name in ("weight", "bias")}
        metadata = json.loads(file.metadata()["probe"])

    def write(change):
        change(metadata, found)
        text = metadata if isinstance(metadata, str) else json.dumps(metadata)
        pytest.importorskip("safetensors.numpy").save_file(found, path, {"probe": text})
        return path

    return write


def of_tensors(**changes):
    return lambda metadata, found: found.update(changes)


def of_metadata(**changes):
    return lambda metadata, found: metadata.update(changes)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (of_tensors(weight=np.full((3, 3), np.nan)), "'coef' holds numbers that are not finite"),
        (of_tensors(weight=np.zeros((4, 3))), "'coef' has the shape"),
        (of_tensors(weight=np.zeros(3)), "dimensions"),
        (of_tensors(bias=np.zeros(1)), "'intercept' has the shape"),
        (lambda metadata, found: found.pop("bias"), "not a safetensors file of a probe"),
        (lambda metadata, found: metadata.pop("facts"), "does not say what 'facts' is"),
        (lambda metadata, found: metadata.pop("classes"), "'classes' is missing"),
        (of_metadata(facts=3), "'facts' is 3"),
        (of_metadata(classes=3), "not a safetensors file of a probe"),
        (of_metadata(classes=["<U1", ["a", "a", "b"]]), "'classes' holds duplicates"),
        (of_metadata(classes=["|O", ["a", {}, "b"]]), "'classes' holds values of the kind object"),
        (of_metadata(classes=["<U1", ["a", ["b"], "c"]]), "not a safetensors file of a probe"),
        (of_metadata(best=["<i8", 99]), "cannot be the best"),
        (of_metadata(sweep=["<f8", []]), "'sweep'"),
    ],
)
def test_safetensors_are_looked_at_as_archives_are(tensors, change, said):
    path = tensors(change)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))} cannot be read: .*{said}"):
        LinearProbe.load(path)


def test_long_strings_of_safetensors_are_as_long_as_they_are(tensors):
    path = tensors(of_metadata(classes=["<U100000000", ["a", "b", "c"]]))
    model, peak = peak_of(lambda: LinearProbe.load(path))
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert peak < 2**20


def every_flip(content):
    for at in range(len(content)):
        for bit in range(8):
            yield content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]


if __name__ == "__main__":
    for one in all_written().values():
        with tempfile.TemporaryDirectory() as place:
            check_damaged(one, Path(place) / "model.npz", every_flip(one.content))
