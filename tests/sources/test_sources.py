"""Rows that are read pass by pass: the same fits as in memory, and errors that name the place."""

import bz2
import gzip
import io
import itertools
import pickle
import re
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from inspect import signature

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.utils.class_weight import compute_class_weight

import majorant
from majorant import Chunks, LogisticRegression, Npy, Parquet, Svmlight
from majorant.sources import base, cache
from majorant.sources.base import Chunk, Labels, concatenated, merged
from majorant.sources.cache import ChunkCache, prefetch
from majorant.sources.streamed import Encoding, RowLabels

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(autouse=True)
def apart(monkeypatch):
    """Chunks as small as these stay as they are."""
    monkeypatch.setattr(base, "SMALL", 0)


def rows(classes=3, sparse=False, dtype=np.float64, t=900, seed=0):
    rng = np.random.default_rng(seed)
    if sparse:
        X = sp.random_array((t, 40), density=0.1, random_state=rng, format="csr").astype(dtype)
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # of old SciPy they are longer
    else:
        X = (rng.normal(size=(t, 4)) * [1, 10, 0.1, 1] + [0, 50, 0, 1]).astype(dtype)
    scores = (X @ rng.normal(size=(X.shape[1], classes))) * 0.3
    names = np.array([f"class {k}" for k in range(classes)])
    return X, names[(scores - scores.mean(axis=0) + rng.gumbel(size=(t, classes))).argmax(axis=1)]


def in_chunks(X, y, weight=None, size=130):
    def chunks():
        for k in range(0, X.shape[0], size):
            some = slice(k, k + size)
            yield (X[some], y[some]) if weight is None else (X[some], y[some], weight[some])

    return Chunks(chunks)


def assert_same(ours, theirs, atol=1e-8):
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=atol)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=atol * 100)


@pytest.mark.parametrize("kept", [True, False], ids=["scores kept", "scores found again"])
@pytest.mark.parametrize("spooled", [True, False], ids=["copied", "read again"])
@pytest.mark.parametrize("weighted", [True, False], ids=["weighted", "plain"])
@pytest.mark.parametrize("sparse", [True, False], ids=["sparse", "dense"])
@pytest.mark.parametrize("classes", [2, 4])
def test_a_source_is_fitted_as_rows_in_memory(classes, sparse, weighted, spooled, kept, monkeypatch):
    monkeypatch.setattr(cache, "SHARE", 0.25 if spooled else 0.0)
    monkeypatch.setattr("majorant.core.rows.CACHE", 2**25 if kept else 0)
    X, y = rows(classes, sparse)
    weight = np.random.default_rng(1).integers(0, 4, len(y)) * 0.5 if weighted else None
    # Before 1.7 scikit-learn balances rows in memory as if they had no weights.
    weighs = "sample_weight" in signature(compute_class_weight).parameters
    balanced = "balanced" if weighs else {"class 0": 0.5, "class 1": 2.0}
    settings = dict(C=0.7, tol=1e-16, class_weight=balanced if weighted else None)
    ours = LogisticRegression(**settings).fit(in_chunks(X, y, weight))
    theirs = LogisticRegression(**settings).fit(X, y, weight)
    assert ours.result_.converged, ours.result_
    assert_same(ours, theirs)


@pytest.mark.parametrize("solver", ["auto", "bbm", "newton", "scipy-lbfgs", "proximal"])
@pytest.mark.parametrize("free", [True, False])
def test_every_solver_reads_sources(solver, free):
    X, y = rows()
    settings = dict(solver=solver, tol=1e-10, penalize_intercept=not free)
    ours, theirs = LogisticRegression(**settings).fit(in_chunks(X, y)), LogisticRegression(**settings).fit(X, y)
    assert ours.result_.converged, ours.result_
    assert_same(ours, theirs, atol=3e-4)


@pytest.mark.filterwarnings("ignore:stopped at the limit")
@pytest.mark.parametrize("solver", ["sbm", "sgd"])
def test_comparators_read_sources(solver):
    X, y = rows()
    model = LogisticRegression(solver=solver, max_iter=3, penalize_intercept=True, tol=0.5, random_state=0)
    one, again = (model.fit(in_chunks(X, y)).coef_ for _ in range(2))
    assert np.isfinite(one).all()
    np.testing.assert_array_equal(one, again)


def test_tall_rows_start_from_a_sample():
    X, y = rows(2, t=30_000)
    ours = LogisticRegression(tol=1e-14).fit(in_chunks(X, y, size=7_000))
    theirs = LogisticRegression(tol=1e-14).fit(X, y)
    assert "Newton steps on" in ours.result_.account[0][1]
    assert_same(ours, theirs)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_single_precision_stays_single(dtype):
    X, y = rows(2, dtype=dtype)
    ours, theirs = LogisticRegression().fit(in_chunks(X, y)), LogisticRegression().fit(X, y)
    assert ours.coef_.dtype == theirs.coef_.dtype == dtype
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)


def test_threads_do_not_matter():
    X, y = rows(3)
    one, two = (LogisticRegression(n_jobs=n).fit(in_chunks(X, y)) for n in (1, 3))
    np.testing.assert_array_equal(one.coef_, two.coef_)


def broken(*items):
    return Chunks(lambda: iter(items))


GOOD = (np.eye(4), np.array([0, 1, 0, 1]))


# --- files ------------------------------------------------------------------------------------------------


def write_parquet(folder, X, y, weight=None, files=3, groups=100, **more):
    folder.mkdir(exist_ok=True)
    for k, some in enumerate(np.array_split(np.arange(len(y)), files)):
        columns = {f"x{i}": X[some, i] for i in range(X.shape[1])} | {"label": pa.array(y[some], **more)}
        if weight is not None:
            columns["w"] = weight[some]
        parquet.write_table(pa.table(columns), folder / f"part-{k}.parquet", row_group_size=groups)
    return folder


@pytest.mark.parametrize("encoded", [True, False], ids=["dictionary", "strings"])
def test_parquet_folders(tmp_path, encoded):
    X, y = rows()
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    folder = write_parquet(tmp_path / "data", X, y, weight)
    if encoded:
        for path in folder.iterdir():
            table = parquet.read_table(path)
            place = table.schema.get_field_index("label")
            parquet.write_table(table.set_column(place, "label", table["label"].dictionary_encode()), path)
    (folder / "_SUCCESS").write_text("")
    theirs = LogisticRegression(tol=1e-16).fit(X, y, weight)
    for path in (folder, str(folder / "*.parquet"), sorted(folder.glob("*.parquet"))):
        source = Parquet(path, target="label", weight="w")
        ours = LogisticRegression(tol=1e-16).fit(source)
        assert_same(ours, theirs)
        assert ours.feature_names_in_.tolist() == ["x0", "x1", "x2", "x3"]
        np.testing.assert_allclose(ours.predict_proba(source), theirs.predict_proba(X), atol=1e-8)
        assert ours.score(source) == pytest.approx(theirs.score(X, y, weight))
    assert pickle.loads(pickle.dumps(source)).feature_names == source.feature_names


def test_parquet_columns_are_chosen(tmp_path):
    X, y = rows(2)
    folder = write_parquet(tmp_path / "data", X, y)
    ours = LogisticRegression(tol=1e-16).fit(Parquet(folder, target="label", features=["x2", "x0"]))
    assert_same(ours, LogisticRegression(tol=1e-16).fit(X[:, [2, 0]], y))
    assert len(ours.predict(Parquet(folder, features=["x2", "x0"]))) == len(y)
    with pytest.raises(ValueError, match="the columns must be those of the fit"):
        ours.predict(Parquet(folder, features=["x0", "x2"]))


def test_large_row_groups_are_read_in_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("majorant.sources.base.CHUNK_NUMBERS", 400)
    X, y = rows(2)
    source = Parquet(write_parquet(tmp_path / "data", X, y, files=1, groups=900), target="label")
    assert max(len(chunk) for chunk in source.chunks()) == 100
    assert sum(len(chunk) for chunk in source.chunks()) == 900
    assert_same(LogisticRegression(tol=1e-16).fit(source), LogisticRegression(tol=1e-16).fit(X, y))


@pytest.mark.parametrize(("ending", "opener"), [("txt", open), ("gz", gzip.open), ("bz2", bz2.open)])
def test_svmlight_files(tmp_path, ending, opener, monkeypatch):
    from sklearn.datasets import dump_svmlight_file

    monkeypatch.setattr("majorant.sources.base.CHUNK_NUMBERS", 250)
    X, names = rows(3, sparse=True)
    y = np.unique(names, return_inverse=True)[1]
    paths = []
    for k, some in enumerate((slice(0, 500), slice(500, 900))):
        paths.append(tmp_path / f"{k}.{ending}")
        with opener(paths[-1], "wb") as file:
            dump_svmlight_file(X[some], y[some], file, zero_based=False)
    theirs = LogisticRegression(tol=1e-16).fit(X, y)
    ours = LogisticRegression(tol=1e-16).fit(Svmlight(paths))
    assert_same(ours, theirs)
    np.testing.assert_array_equal(ours.predict(Svmlight(paths)), theirs.predict(X))
    assert LogisticRegression().fit(Svmlight(paths, n_features=50)).n_features_in_ == 50


def test_npy_files(tmp_path):
    X, y = rows(3)
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    for name, array in (("X", X), ("y", y), ("w", weight)):
        np.save(tmp_path / f"{name}.npy", array)
    source = Npy(tmp_path / "X.npy", tmp_path / "y.npy", tmp_path / "w.npy")
    theirs = LogisticRegression(tol=1e-16).fit(X, y, weight)
    assert_same(LogisticRegression(tol=1e-16).fit(source), theirs)
    assert_same(LogisticRegression(tol=1e-16).fit(Npy(tmp_path / "X.npy", y, weight)), theirs)
    np.save(tmp_path / "F.npy", np.asfortranarray(X))
    with pytest.raises(ValueError, match="stored column by column"):
        LogisticRegression().fit(Npy(tmp_path / "F.npy", y))
    with pytest.raises(ValueError, match="y must have one entry for each row"):
        LogisticRegression().fit(Npy(tmp_path / "X.npy", y[:-1]))
    (tmp_path / "no.npy").write_text("nothing")
    with pytest.raises(ValueError, match=r"is not a \.npy file"):
        LogisticRegression().fit(Npy(tmp_path / "no.npy", y))


# --- how they are read ------------------------------------------------------------------------------------


def test_who_stops_reading_stops_the_reader():
    read = []

    def numbers():
        for k in range(1000):
            read.append(k)
            yield k

    ahead = prefetch(numbers)
    assert [next(ahead) for _ in range(3)] == [0, 1, 2]
    ahead.close()
    for thread in threading.enumerate():
        if thread.name.startswith("majorant reader"):
            thread.join(5)
            assert not thread.is_alive()
    assert len(read) < 20


def test_errors_of_a_reader_are_passed_on():
    def fails():
        yield 1
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        list(prefetch(fails))


def test_a_full_disk_is_no_harm(monkeypatch):
    X, y = rows(2)

    def full(self, array, offset):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ChunkCache, "_write", full)
    assert_same(LogisticRegression(tol=1e-16).fit(in_chunks(X, y)), LogisticRegression(tol=1e-16).fit(X, y))


def test_paths_read_sources_once():
    X, y = rows(3)
    reads = []

    def chunks():
        reads.append(1)
        yield from in_chunks(X, y).factory()

    path = majorant.logistic_regression_path(Chunks(chunks), Cs=[0.1, 1.0, 10.0], tol=1e-12)
    theirs = majorant.logistic_regression_path(X, y, Cs=[0.1, 1.0, 10.0], tol=1e-12)
    np.testing.assert_allclose(path.coefs, theirs.coefs, atol=1e-5)
    assert len(reads) == 1


def test_several_values_of_C_share_every_read(monkeypatch):
    monkeypatch.setattr(cache, "SHARE", 0.0)
    X, y = rows(3)
    reads = []

    def chunks():
        reads.append(1)
        yield from in_chunks(X, y).factory()

    LogisticRegression(C=10.0).fit(Chunks(chunks))
    alone = len(reads)
    reads.clear()
    path = majorant.logistic_regression_path(Chunks(chunks), Cs=np.logspace(-2, 1, 8))
    assert len(reads) <= alone + 5  # eight fits read hardly more than one
    theirs = majorant.logistic_regression_path(X, y, Cs=np.logspace(-2, 1, 8))
    np.testing.assert_allclose(path.coefs, theirs.coefs, atol=1e-3)
    assert (path.gaps <= 1e-6).all()


def test_an_error_of_one_reaches_all_who_read_together(monkeypatch):
    monkeypatch.setattr(cache, "SHARE", 0.0)
    X, y = rows(3)
    calls = []

    def breaks():
        calls.append(1)
        if len(calls) > 4:
            raise OSError("the disk is gone")
        yield from in_chunks(X, y).factory()

    with pytest.raises(OSError, match="the disk is gone"):
        majorant.logistic_regression_path(Chunks(breaks), Cs=[0.1, 1.0, 10.0])


@pytest.mark.parametrize("scoring", [None, "neg_log_loss"])
def test_cross_validation_of_a_source(scoring):
    X, y = rows(3)

    class EveryThird:
        def split(self, X, y=None, groups=None):
            for fold in range(3):
                inside = np.arange(len(y)) % 3 == fold
                yield np.flatnonzero(~inside), np.flatnonzero(inside)

        def get_n_splits(self, *args):
            return 3

    Cs = [0.01, 0.1, 1.0]
    ours = majorant.LogisticRegressionCV(Cs=Cs, cv=3, scoring=scoring, tol=1e-12).fit(in_chunks(X, y))
    theirs = majorant.LogisticRegressionCV(Cs=Cs, cv=EveryThird(), scoring=scoring, tol=1e-12).fit(X, y)
    assert np.ravel(ours.C_)[0] == np.ravel(theirs.C_)[0]
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    ours_scores, theirs_scores = (np.asarray(model.scores_) for model in (ours, theirs))
    np.testing.assert_allclose(ours_scores, theirs_scores, atol=1e-4)
    with pytest.raises(ValueError, match="cv must be a number of folds"):
        majorant.LogisticRegressionCV(cv=EveryThird()).fit(in_chunks(X, y))
    with pytest.raises(ValueError, match="scoring must be 'accuracy' or 'neg_log_loss'"):
        majorant.LogisticRegressionCV(scoring="f1_macro").fit(in_chunks(X, y))


def test_the_example_runs(tmp_path, capsys):
    from examples import larger_than_memory

    larger_than_memory.write(str(tmp_path), files=2, rows=500)
    larger_than_memory.main(str(tmp_path))
    assert "accuracy 0." in capsys.readouterr().out


def test_progress_of_reading_is_shown_to_whoever_looks(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("majorant.callbacks.EVERY", 0.0)
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    X, y = rows(2)
    model = LogisticRegression(verbose=1).fit(in_chunks(X, y))
    said = terminal.getvalue()
    assert "rows/s" in said
    assert "fitting, pass" in said
    assert str(model.result_) in said


def test_predictions_say_where_rows_are_wrong():
    X, y = rows(2)
    model = LogisticRegression().fit(X, y)
    bad = X[:5].copy()
    bad[3, 1] = np.inf
    for chunk, says in (
        ((bad, y[:5]), "chunk 1, row 3: column 1 holds inf"),
        ((X[:5, :3], y[:5]), "chunk 1: there are 3 columns, but the model was fitted to 4"),
    ):
        for method in (model.predict, model.predict_proba, model.score):
            with pytest.raises(ValueError, match=re.escape(says)):
                method(broken((X, y), chunk))
    unseen = np.array(["never seen"] * 5)  # is never right
    assert model.score(broken((X[:5], unseen))) == 0.0
    np.testing.assert_array_equal(model.predict(broken((X, y), (X[:0], y[:0]))), model.predict(X))
    with pytest.raises(ValueError, match="there are no rows to predict"):
        model.predict(broken())


# --- what was found by trying to break it ------------------------------------------------------------------


def test_categories_that_no_row_has_are_no_classes(tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = rows(2)
    labels = pd.Categorical(y, categories=["class 0", "class 1", "unused"])
    pd.DataFrame({"x": X[:, 0], "y": labels}).to_parquet(tmp_path / "a.parquet")
    model = LogisticRegression(class_weight="balanced").fit(Parquet(tmp_path / "a.parquet", target="y"))
    assert model.classes_.tolist() == ["class 0", "class 1"]


def test_the_order_of_files_does_not_decide_precision(tmp_path):
    _, y = rows(2)
    for name, dtype, some in (("a", np.float32, slice(0, 300)), ("b", np.float64, slice(300, 900))):
        x = (1e9 + np.arange(900)).astype(dtype)[some]
        parquet.write_table(pa.table({"x": x, "y": y[some]}), tmp_path / f"{name}.parquet")
    one, other = (
        LogisticRegression(tol=1e-12, C=1e4).fit(Parquet([tmp_path / f"{name}.parquet" for name in order], target="y"))
        for order in ("ab", "ba")
    )
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-4)


def test_frames_are_matched_by_name():
    pd = pytest.importorskip("pandas")
    X, y = rows(2)
    frame = pd.DataFrame(X, columns=list("abcd"))
    swapped = frame[list("dcba")]
    with pytest.raises(ValueError, match="chunk 1: column 'd' stands where another one did in the rows before"):
        LogisticRegression().fit(broken((frame, y), (swapped, y)))
    model = LogisticRegression().fit(broken((frame, y)))
    assert model.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="chunk 0: column 'd' stands where another one did in the fit"):
        model.predict(broken(swapped))
    with pytest.raises(ValueError, match="sample_weight must be left out"):
        model.score(broken((frame, y)), sample_weight=np.ones(len(y)))


@pytest.mark.parametrize(
    ("chunk", "says"),
    [
        ((np.eye(4), [0.0, np.inf, 1.0, 0.0]), "row 1: labels name classes, but inf is a measurement"),
        ((np.eye(4), [0.5, 1.5, 0.5, 1.5]), "row 0: labels name classes, but 0.5 is a measurement"),
        ((1j * np.eye(4), GOOD[1]), "X must hold numbers, got complex128"),
        ((np.full((4, 4), "1"), GOOD[1]), "X must hold numbers, got <U1"),
        ((np.empty((4, 0)), GOOD[1]), "there is no column to learn from"),
    ],
)
def test_what_memory_refuses_sources_refuse(chunk, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        LogisticRegression().fit(broken(chunk))


def test_strings_of_any_kind_are_labels():
    X, y = rows(2)
    model = LogisticRegression(tol=1e-12).fit(broken((X[:500], y[:500].astype(object)), (X[500:], y[500:])))
    assert_same(model, LogisticRegression(tol=1e-12).fit(X, y), atol=5e-6)  # as far as their gaps allow


def test_files_that_are_cut_short_or_not_what_they_say(tmp_path):
    X, y = rows(2)
    np.save(tmp_path / "X.npy", X)
    whole = (tmp_path / "X.npy").read_bytes()
    (tmp_path / "X.npy").write_bytes(whole[:-64])
    with pytest.raises(ValueError, match=r"X.npy is cut short"):
        LogisticRegression().fit(X, y).predict(Npy(tmp_path / "X.npy"))
    (tmp_path / "a.gz").write_text("1 1:1\n")
    with pytest.raises(ValueError, match=r"a.gz cannot be read"):
        LogisticRegression().fit(Svmlight(tmp_path / "a.gz"))
    (tmp_path / "large.txt").write_text("1e30 1:1\n-1 2:1\n1 2:1\n")
    assert LogisticRegression().fit(Svmlight(tmp_path / "large.txt")).classes_.tolist() == [-1.0, 1.0, 1e30]
    parquet.write_table(pa.table({"x": X[:, 0], "y": [[1]] * len(y)}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="the target 'y' holds list"):
        LogisticRegression().fit(Parquet(tmp_path / "a.parquet", target="y"))
    with pytest.raises(TypeError, match="features must be a list of columns"):
        Parquet(tmp_path, features="x")
    with pytest.raises(ValueError, match="column 'x' is asked for twice"):
        LogisticRegression().fit(Parquet(tmp_path / "a.parquet", target="y", features=["x", "x"]))
    with pytest.raises(TypeError, match="the function of Chunks must yield"):
        LogisticRegression().fit(Chunks(lambda: None))


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ("even", "class_weight must be a dict, 'balanced' or None, got 'even'"),
        ({"class 0": -1.0}, "class_weight must be finite and non-negative for each class, got -1.0 for 'class 0'"),
        ({"class 7": 1.0}, "class_weight names classes that no row has: ['class 7']"),
    ],
)
def test_weights_of_classes_are_checked(weights, says):
    X, y = rows(2)
    with pytest.raises(ValueError, match=re.escape(says)):
        LogisticRegression(class_weight=weights).fit(in_chunks(X, y))


def test_weights_of_classes_count_as_in_memory():
    X, y = rows(3)
    settings = dict(class_weight={"class 0": 3.0, "class 2": 0.5}, tol=1e-16)
    assert_same(LogisticRegression(**settings).fit(in_chunks(X, y)), LogisticRegression(**settings).fit(X, y))


def misplaced(array):
    """An array at an address that no number should have, as arrays may be that have come over a network."""
    copy = np.frombuffer(bytearray(4 + array.nbytes), dtype=array.dtype, offset=4).reshape(array.shape)
    copy[...] = array
    assert not copy.flags.aligned
    return copy


@pytest.mark.parametrize("sparse", [True, False])
def test_rows_are_put_where_they_are_multiplied_without_a_copy(sparse):
    X, y = rows(2, sparse)
    wrong = sp.csr_array((misplaced(X.data), X.indices, X.indptr), shape=X.shape) if sparse else misplaced(X)
    chunk = Chunk.of(wrong, y)
    encoding = Encoding(chunk.labels.names, None, X.shape[1], X.dtype, False, None, len(y))
    design = encoding(chunk).design
    assert (design.numbers.data if sparse else design.numbers).flags.aligned
    np.testing.assert_array_equal(design.toarray(), X.toarray() if sparse else X)
    assert majorant.Labelled(wrong, y == y[0]).design.dense().flags.aligned


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_small_chunks_are_joined(monkeypatch, sparse, weighted):
    """Whatever their sizes: the same rows, labels and weights in the same order, in chunks worth the name."""
    X, y = rows(3, sparse)
    weight = np.arange(1.0, len(y) + 1) if weighted else None
    sizes, rng = [], np.random.default_rng(0)
    while sum(sizes) < len(y):
        sizes.append(int(rng.choice([1, 2, 50])))
    ends = np.minimum(np.cumsum([0, *sizes]), len(y))

    def chunks():
        for a, b in itertools.pairwise(ends):
            yield (X[a:b], y[a:b]) if weight is None or a == 0 else (X[a:b], y[a:b], weight[a:b])

    monkeypatch.setattr(base, "SMALL", 400)
    found = list(merged(Chunks(chunks).chunks()))
    assert len(found) < len(sizes) / 3
    assert max(chunk.X.nnz if sparse else chunk.X.size for chunk in found) <= 400
    together = concatenated(found)
    np.testing.assert_array_equal(together.X.toarray() if sparse else together.X, X.toarray() if sparse else X)
    np.testing.assert_array_equal(together.labels.names[together.labels.codes], y)
    if weighted:
        np.testing.assert_array_equal(together.weight[ends[1] :], weight[ends[1] :])
        assert (together.weight[: ends[1]] == 1).all()


def test_chunks_of_one_row_are_fitted_as_one(monkeypatch):
    monkeypatch.setattr(base, "SMALL", 2**17)
    X, y = rows(2, t=200)
    one_by_one = LogisticRegression(tol=1e-16).fit(in_chunks(X, y, size=1))
    assert_same(one_by_one, LogisticRegression(tol=1e-16).fit(X, y))


def test_chunks_that_are_unlike_are_refused_where_they_stand_however_small(monkeypatch):
    monkeypatch.setattr(base, "SMALL", 2**17)
    X, y = rows(2, t=20)
    parts = [(X[:5], y[:5]), (X[5:10], y[5:10]), (X[10:, :3], y[10:])]
    with pytest.raises(ValueError, match="chunk 2: there are 3 columns, but 4 in the rows before"):
        LogisticRegression().fit(Chunks(lambda: iter(parts)))


@pytest.mark.parametrize("spooled", [True, False], ids=["copied", "read again"])
@pytest.mark.parametrize("solver", ["proximal", "auto"])
def test_rows_sorted_by_label_are_not_streamed_as_they_stand_in_silence(solver, spooled, monkeypatch):
    monkeypatch.setattr(cache, "SHARE", 0.25 if spooled else 0.0)
    X, y = rows(3, t=900)
    order = np.argsort(y, kind="stable")
    source = in_chunks(X[order], y[order], size=100)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        LogisticRegression(solver=solver, max_iter=1, C=1e-3).fit(source)
        LogisticRegression(solver=solver, max_iter=1, C=1e-3).fit(in_chunks(X, y))
    sentences = [str(each.message) for each in said if "sorted by label" in str(each.message)]
    assert len(sentences) == (solver == "proximal" and not spooled)


@pytest.mark.parametrize("classes", [2, 5])
def test_how_much_of_a_label_its_chunk_tells(classes):
    codes = np.random.default_rng(0).integers(0, classes, 5000)

    def told(y):
        labels = tuple(Labels.of(some) for some in np.split(y, 50))
        return RowLabels(labels, None).told_by_chunk(np.arange(classes))

    assert told(codes) < 0.01
    assert told(np.sort(codes)) > 0.9
    assert told(np.zeros(5000, dtype=int)) == 0.0


# --- classes of which no row weighs anything ----------------------------------------------------------------


def weighed(r, lost):
    X, y = r.normal(size=(300, 3)), np.arange(300) // 50 % 3  # a chunk may hold nothing else
    return X, y, np.where(np.isin(y, lost), 0.0, r.choice([0.0, 0.5, 2.0], size=300))


@pytest.mark.parametrize("lost", [[2], [0], [0, 2]])
@pytest.mark.parametrize("settings", [{}, {"class_weight": "balanced"}, {"class_weight": {0: 2.0, 2: 3.0}}])
@pytest.mark.parametrize("workers", [None, 2])
def test_classes_without_weight_stay_classes(lost, settings, workers):
    if "balanced" in settings.values() and "sample_weight" not in signature(compute_class_weight).parameters:
        pytest.skip("before 1.7 scikit-learn balances rows in memory as if they had no weights")
    X, y, weight = weighed(np.random.default_rng(0), lost)
    source = Chunks([partial(rows_of, X[k : k + 50], y[k : k + 50], weight[k : k + 50]) for k in range(0, 300, 50)])
    whole = LogisticRegression(**settings, tol=1e-12).fit(X, y, sample_weight=weight)
    with ThreadPoolExecutor(2) if workers else nullcontext() as executor:
        read = LogisticRegression(**settings, tol=1e-12).fit(source, executor=executor)
    assert read.classes_.tolist() == [0, 1, 2]
    np.testing.assert_allclose(read.coef_, whole.coef_, atol=1e-6)
    np.testing.assert_allclose(read.predict_proba(X), whole.predict_proba(X), atol=1e-6)  # no intercept is best


def test_labels_of_rows_without_weight_are_of_one_type():
    X, weight = np.zeros((4, 1)), np.array([1.0, 1.0, 0.0, 0.0])
    pieces = [(X[:2], np.array([0, 1]), weight[:2]), (X[2:], np.array(["a", "b"]), weight[2:])]
    with pytest.raises(ValueError, match="labels must be of one type"):
        LogisticRegression().fit(Chunks(lambda: iter(pieces)))


def rows_of(X, y, weight):
    yield X, y, weight
